"""What a reader of one file is, and the small values that pass between it and the source."""

from __future__ import annotations

import datetime
import hashlib
import importlib
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from driftsurf._options import choice, whole
from driftsurf.errors import MissingExtraError, Option, OptionError, SourceError
from driftsurf.tables import Kind, Table

RECORD_LIMIT = 2**22
"""A text record of more bytes than this is no row of a table."""
RAW_LIMIT = 10_000
"""At most this many characters of a bad row are kept."""
STANDARD_INPUT = "-"

DATE_FORMATS = "give a year at least, as for strptime, such as %d.%m.%Y or '%m/%d/%Y %I:%M %p'"
MISSING = "", "?", "NA", "N/A", "n/a", "NaN", "nan", "NULL", "null", "None", "#N/A"
"""Cells of a text file that mean: no value."""


class Mark(NamedTuple):
    """A place between two rows of a file: the byte (or row) that follows, and its line, from 1."""

    offset: int
    line: int
    tail: str = ""
    """A digest of the head of the file and of what stands just before this place; '' if nobody looked."""


@dataclass(frozen=True, slots=True)
class BadRow:
    """A row that was left out, and why."""

    file: str
    line: int
    """Its first line, from 1; in a file without lines its row, from 1."""
    reason: str
    raw: str
    """The row as it stands there, cut after 10,000 characters."""
    end: int = 0
    """Where it ends in the file."""

    @property
    def said(self) -> tuple[str, ...]:
        """The same as parts of a message."""
        return f"{self.file}, line {self.line}: ", self.reason

    def __str__(self) -> str:
        return "".join(self.said)


@dataclass(frozen=True, slots=True)
class Dialect:
    """How text is to be read. Every default suits a file that follows the usual rules.

    Parameters
    ----------
    delimiter
        One character between cells; None takes the most frequent of comma, semicolon, tab and bar in the
        first line (tab for .tsv).
    names
        The columns of a file without a header line.
    encoding
        "utf-8" or "latin-1".
    missing
        Cells of CSV, and text of JSON, that mean: no value.
    decimal
        What stands before the fraction of a number in CSV and ARFF, and in JSON if it is text: "." or ",".
    thousands
        What may stand between groups of digits there, such as "." in 1.234.567,8; a space or an apostrophe is any kind
        of it. None: such cells are no numbers.
    date_formats
        Forms of dates beside ISO 8601, as for ``datetime.strptime``: "%d.%m.%Y".
    sample_rows
        So many rows at the head of the first file decide the kinds of its columns.
    n_features
        Columns of a LIBSVM file; None takes the largest index among the first ``sample_rows`` rows.
    zero_based
        Whether the indices of a LIBSVM file begin with 0 instead of 1.
    block_bytes
        Bytes read at a time. It changes nothing but speed and memory.

    Examples
    --------
    >>> Dialect(delimiter=";;").check()
    Traceback (most recent call last):
    driftsurf.errors.OptionError: delimiter is ';;'; give one character that is no quote, letter or digit, or leave ...
    """

    delimiter: str | None = None
    names: Sequence[str] | None = None
    encoding: str = "utf-8"
    missing: Sequence[str] = MISSING
    decimal: str = "."
    thousands: str | None = None
    date_formats: Sequence[str] = ()
    sample_rows: int = 1000
    n_features: int | None = None
    zero_based: bool = False
    block_bytes: int = 2**20

    def check(self) -> None:
        """Raise OptionError if an option cannot be used."""
        d = self.delimiter
        if d is not None and (len(d) != 1 or not d.isascii() or d.isalnum() or d in '"\r\n\0'):
            raise OptionError(
                Option("delimiter"), f" is {d!r}; give one character that is no quote, letter or digit, or leave it out"
            )
        choice("encoding", self.encoding, ("utf-8", "latin-1"))
        choice("decimal", self.decimal, (".", ","))
        t = self.thousands
        if t is not None and (len(t) != 1 or t.isalnum() or t in '+-"\r\n\t\0' or t == self.decimal):
            raise OptionError(
                Option("thousands"),
                f" is {t!r}; give one character that is no sign, quote, letter or digit, and not the decimal "
                f"{self.decimal!r}, or leave it out",
            )
        if isinstance(self.date_formats, str):
            raise OptionError(
                Option("date_formats"), f" is {self.date_formats!r}; give a list: [{self.date_formats!r}]"
            )
        for form in self.date_formats:
            check_date_format(form)
        whole("sample_rows", self.sample_rows, at_least=1)
        whole("block_bytes", self.block_bytes, at_least=1)
        if self.n_features is not None:
            whole("n_features", self.n_features, at_least=1, otherwise=", or None")


def check_date_format(form: str) -> None:
    """OptionError unless ``strptime`` can read a date of this form, and it tells the year."""
    day = datetime.datetime(2003, 11, 28, 23, 58, 57, tzinfo=datetime.UTC)
    text, of_another_year = day.strftime(form), day.replace(year=2014).strftime(form)  # a Friday too
    if text == of_another_year:
        raise OptionError(Option("date_formats", form), f" does not tell the year; {DATE_FORMATS}")
    try:
        datetime.datetime.strptime(text, form)
    except (ValueError, re.error) as error:
        raise OptionError(Option("date_formats", form), f" cannot be read ({error}); {DATE_FORMATS}") from error


@dataclass(frozen=True, slots=True)
class Shape:
    """The columns of a source by name and kind, and how many sparse features there are beside them."""

    kinds: Mapping[str, Kind | None]
    """None: a column of a type that cannot be read, unless it is dropped."""
    n_features: int = 0
    dropped: frozenset[str] = frozenset()
    untyped: frozenset[str] = frozenset()
    """Columns of a typed file that hold nothing and may become anything."""
    empty: bool = False
    """Whether a text file has no row from which to tell the kinds."""


@dataclass(slots=True)
class Chunk:
    """Consecutive rows of a file as they were read: the good ones as a table, the bad ones apart."""

    table: Table
    ends: npt.NDArray[np.int64]
    """For each good row, the offset that follows it."""
    lines: npt.NDArray[np.int64]
    """For each good row, the line that follows it."""
    end: Mark
    """Where the chunk ends, blank lines and bad rows included."""
    bad: list[BadRow] = field(default_factory=list)
    error: Exception | None = None
    """What is to be raised behind the last row."""
    tail: Callable[[int], str] = lambda offset: ""
    """The digest for a place inside the chunk or at its end, as ``Mark.tail``."""

    def mark(self, offset: int, line: int) -> Mark:
        """A place in it."""
        return Mark(offset, line, self.tail(offset))


class Reader(ABC):
    """Reads one file, forward only."""

    typed: ClassVar[bool] = False
    """Whether the file itself says the kinds of its columns."""
    ragged: ClassVar[bool] = False
    """Whether a row may leave out columns."""

    @abstractmethod
    def shape(self) -> Shape:
        """What the file says its columns are, or what its first rows look like."""

    @abstractmethod
    def chunks(self, wanted: Shape, start: Mark | None, *, ignore_added: bool) -> Iterator[Chunk]:
        """The rows from ``start`` on, with the columns of ``wanted`` in its order; those not there are gaps."""


def tail_digest(*parts: bytes) -> str:
    """What is kept of bytes in order to know them again."""
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:32]


def check_tail(name: str, start: Mark, tail: str) -> None:
    """SourceError if what stands before a saved place is not what stood there."""
    if start.tail and start.tail != tail:
        raise SourceError(
            f"{name} is not the file that was being read: its head, or what stands before line {start.line}, where the "
            "saved position is, has changed. Give the same file (it may have grown), or begin anew."
        )


def extra(module: str) -> Any:
    """A module of pyarrow, or an error that says how to get it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtraError(
            f"reading this needs pyarrow, which is not installed ({error}): pip install 'driftsurf[sources]'"
        ) from error
