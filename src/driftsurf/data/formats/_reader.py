"""The base class of readers of one file, and the values that pass between a reader and its source."""

from __future__ import annotations

import hashlib
import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from driftsurf.data.reading_options import Kind
from driftsurf.data.source import BadRow
from driftsurf.data.tables import Table
from driftsurf.errors import Message, MissingExtraError, SourceError

HEAD_BYTES = 2**24
"""Number of bytes at the start of a text file that tell its columns at most."""
PASSED_BYTES = 2**31
"""Largest number of bytes of a row that is passed over because it is too long; whatever is longer is not a table."""
RAW_LIMIT = 10_000
"""Largest number of characters that are kept of a bad row."""
PYARROW: dict[str, Any] = {"requires": ("pyarrow",), "install": "pip install pyarrow"}
"""What formats that need pyarrow are registered with."""


class Mark(NamedTuple):
    """A place between two rows of a file: the byte (or row) that follows, and its line, from 1."""

    offset: int
    line: int
    tail: str = ""
    """Digest of the head of the file and of what stands just before this place; '' if it was not computed."""


@dataclass(frozen=True, slots=True)
class Shape:
    """Columns by name and kind, and the number of sparse features besides them."""

    kinds: Mapping[str, Kind | None]
    """None marks a column of a type that cannot be read; it has to be dropped."""
    n_features: int = 0
    dropped: frozenset[str] = frozenset()
    untyped: frozenset[str] = frozenset()
    """Columns of a typed file that hold no value, so that they fit any kind."""
    empty: bool = False
    """Whether a text file has no row from which to infer the kinds."""


@dataclass(slots=True)
class Chunk:
    """Consecutive rows of a file: the good ones as a table, the bad ones separately."""

    table: Table
    ends: npt.NDArray[np.int64]
    """Offset that follows each good row."""
    lines: npt.NDArray[np.int64]
    """Line that follows each good row."""
    end: Mark
    """Where the chunk ends, blank lines and bad rows included."""
    bad: list[BadRow] = field(default_factory=list)
    error: Exception | None = None
    """To be raised after the last row."""
    tail: Callable[[int], str] = lambda offset: ""
    """Returns the digest for a place inside the chunk or at its end, as ``Mark.tail``."""

    def mark(self, offset: int, line: int) -> Mark:
        """Return a place in the chunk with its digest."""
        return Mark(offset, line, self.tail(offset))


class Reader(ABC):
    """Reads one file front to back.

    A format is a subclass that is registered with the endings of its files::

        @register("format", "log", endings=(".log",), streamed=True, cells="text")
        class LogReader(TextReader): ...

    ``streamed`` formats read bytes front to back, so that a file can be compressed, piped in, or followed while it
    grows. ``cells`` says how values stand in a file: see :data:`driftsurf.data.source.Cells`. The constructor takes a
    ``ByteFile`` and the ``ReadingOptions``.
    """

    ragged: ClassVar[bool] = False
    """Whether a row may leave out columns."""
    remarks: Sequence[Message] = ()
    """What users should know about how ``shape()`` read the head of the file."""

    @abstractmethod
    def shape(self) -> Shape:
        """Return the columns, as the file declares them or as its first rows look."""

    @abstractmethod
    def chunks(self, wanted: Shape, start: Mark | None, *, ignore_added: bool) -> Iterator[Chunk]:
        """Yield the rows from ``start`` on with the columns of ``wanted``; columns that the file lacks are missing."""


def tail_digest(*parts: bytes) -> str:
    """Return a digest by which bytes are recognised later."""
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:32]


def check_tail(name: str, start: Mark, tail: str) -> None:
    """Raise SourceError if the bytes before a saved place have changed."""
    if start.tail and start.tail != tail:
        raise SourceError(
            f"{name} is not the file that was being read: its head, or what stands before line {start.line}, where the "
            "saved position is, has changed. Use the same file (it may have grown), or start over"
        )


def extra(module: str) -> Any:
    """Import a module of pyarrow; raise MissingExtraError with the command that installs it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtraError(f"reading this file needs pyarrow ({error}): {PYARROW['install']}") from error
