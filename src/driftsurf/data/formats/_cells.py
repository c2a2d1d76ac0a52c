"""Where a cell of text becomes a number, a boolean or a date, and where the kind of a column is inferred.

All text formats use these rules. CSV converts many cells at a time with pyarrow (see ``csv.py``), which follows the
same rules; cells with thousands separators or in date formats of the user are read here, each different word once.
"""

from __future__ import annotations

import datetime
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice, product, repeat
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from driftsurf.data.reading_options import Kind, ReadingOptions
from driftsurf.data.tables import Column, empty_column
from driftsurf.errors import Option

MISFIT_SHARE = 0.01
"""A column has a kind if at most this share of its cells do not fit: then those rows are bad, and the column is not."""
LARGEST_EXACT = 2**53
"""Larger whole numbers are treated as names, because float64 would merge them."""

SPACES = " \u00a0\u202f\u2009"
"""Characters that are used as a space between groups of digits ..."""
APOSTROPHES = "'\u2019"
"""... or as an apostrophe."""
_ISO_DATE = re.compile(r"\d{4}-\d\d-\d\d([ T]\d\d:\d\d(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d:?\d\d)?)?", re.ASCII)
_BOOLEANS = {"true": 1.0, "True": 1.0, "TRUE": 1.0, "false": 0.0, "False": 0.0, "FALSE": 0.0}


def infer_kind(cells: Sequence[str | None], reading: ReadingOptions) -> Kind:
    """Return the kind of a column, from its first cells. A column without a value is text, which accepts anything.

    >>> infer_kind(["1", "2.5", None], ReadingOptions()), infer_kind(["2007-01-01", "2007-01-02"], ReadingOptions())
    ('number', 'date')
    >>> infer_kind(["0012345678901234567", "0012345678901234568"], ReadingOptions())  # float64 would merge these
    'text'
    """
    # Columns repeat their cells, and each different one is read once.
    present = Counter(cell for cell in cells if cell is not None)
    if not present:
        return "text"
    candidates: tuple[tuple[Kind, Callable[[str], Any]], ...] = (
        ("boolean", read_boolean),
        ("number", number_reader(reading)),
        ("date", date_reader(reading)),
    )
    for kind, read in candidates:
        if _most_fit(present, read):
            if kind == "number" and any(len(cell) > 15 and _is_long_whole_number(cell, reading) for cell in present):
                return "text"
            return kind
    return "text"


def _most_fit(cells: Counter[str], read: Callable[[str], Any]) -> bool:
    allowed = MISFIT_SHARE * cells.total()
    misfits = 0
    for cell, count in cells.items():
        try:
            read(cell)
        except ValueError:
            misfits += count
            if misfits > allowed:
                return False
    return True


def _is_long_whole_number(cell: str, reading: ReadingOptions) -> bool:
    between = grouping_characters(reading.thousands) if reading.thousands is not None else ""
    digits = cell.strip().lstrip("+-").translate(dict.fromkeys(map(ord, between)))
    return digits.isdigit() and len(digits) > 15 and int(digits[:400]) > LARGEST_EXACT


def read_boolean(cell: str) -> float:
    """Return 1.0 or 0.0; raise ValueError if the cell is not a boolean."""
    if cell.strip() not in _BOOLEANS:
        raise ValueError(f"{cell!r} is not a boolean")
    return _BOOLEANS[cell.strip()]


def grouping_characters(thousands: str) -> str:
    """Return the characters that separate groups of digits: of a space or an apostrophe, all variants."""
    return next((alike for alike in (SPACES, APOSTROPHES) if thousands in alike), thousands)


def number_reader(reading: ReadingOptions) -> Callable[[str], float]:
    """Return a function that reads a cell as a finite number, and raises ValueError if it is not one.

    >>> number_reader(ReadingOptions(decimal=",", thousands="."))("-1.234,5")
    -1234.5
    """
    point = re.escape(reading.decimal)
    whole, between = r"\d+", ""
    if reading.thousands is not None:
        between = f"[{re.escape(grouping_characters(reading.thousands))}]"
        whole = rf"(?:\d+|\d{{1,3}}(?:{between}\d{{2,3}})*{between}\d{{3}})"
    pattern = re.compile(rf"\s*[+-]?({whole}({point}\d*)?|{point}\d+)([eE][+-]?\d+)?\s*", re.ASCII)

    def read(cell: str) -> float:
        if pattern.fullmatch(cell) is None:
            raise ValueError(f"{cell[:100]!r} is not a number")
        plain = re.sub(between, "", cell.strip()) if between else cell
        value = float(plain.replace(reading.decimal, "."))
        if value in (np.inf, -np.inf):
            raise ValueError(f"{cell[:100]!r} is too large for a number")
        return value

    return read


def date_reader(reading: ReadingOptions) -> Callable[[str], np.datetime64]:
    """Return a function that reads a date in ISO 8601 or in a format of ``reading``, or raises ValueError.

    Digits beyond microseconds are cut off.

    >>> str(date_reader(ReadingOptions())("2024-05-01 10:00:00.123456789"))
    '2024-05-01T10:00:00.123456'
    """

    def read(cell: str) -> np.datetime64:
        if _ISO_DATE.fullmatch(cell):
            return _in_utc(datetime.datetime.fromisoformat(cell))
        for date_format in reading.date_formats:
            try:
                return _in_utc(datetime.datetime.strptime(cell, date_format))
            except ValueError:
                continue
        raise ValueError(f"{cell[:100]!r} is not a date")

    return read


def _in_utc(moment: datetime.datetime) -> np.datetime64:
    """Return a moment in UTC, without a time zone."""
    if moment.tzinfo is not None:
        try:
            moment = moment.astimezone(datetime.UTC).replace(tzinfo=None)
        except OverflowError as error:
            raise ValueError(f"{moment} is out of range") from error
    return np.datetime64(moment, "us")


def cell_reader(kind: Kind, reading: ReadingOptions) -> Callable[[str], Any]:
    """Return a function that reads a cell as a value of ``kind``, and raises ValueError if it does not fit."""
    readers: dict[Kind, Callable[[str], Any]] = {
        "boolean": read_boolean,
        "number": number_reader(reading),
        "date": date_reader(reading),
        "text": str,
    }
    return readers[kind]


def make_columns(kinds: Mapping[str, Kind], rows: Sequence[Sequence[Any]]) -> dict[str, Column]:
    """Return columns from rows of values in the order of ``kinds``."""
    values: Iterable[Sequence[Any]] = zip(*rows, strict=True) if rows else repeat((), len(kinds))
    return {name: make_column(kind, own) for (name, kind), own in zip(kinds.items(), values, strict=True)}


def make_column(kind: Kind, values: Sequence[Any]) -> Column:
    """Return a column from values as a ``cell_reader`` returns them; None is a missing value."""
    column = empty_column(kind, len(values))
    present: npt.NDArray[np.int64] = np.array([i for i, value in enumerate(values) if value is not None], np.int64)
    if kind == "text":
        codes: dict[str, int] = {}
        column.values[present] = [codes.setdefault(values[i], len(codes)) for i in present]
        return Column(kind, column.values, tuple(codes))
    if len(present):
        column.values[present] = [values[i] for i in present]
    return column


Ways: TypeAlias = list[list[str | Option]]
"""Alternatives, each as parts of a message."""
PROBED_WORDS = 3
"""Words that are compared with a rough pattern first, because most text is neither a number nor a date."""
_LIKE_A_NUMBER = re.compile(rf"[+-]?\d([\d.,{APOSTROPHES}{SPACES}]*\d)?", re.ASCII)
_LIKE_A_DATE = re.compile(r"([A-Za-z]{3,9}\.?,? )?(\d{1,4}|[A-Za-z]{3,9})[./ -](\d{1,2}|[A-Za-z]{3,9})[,./ -].*")
_DAYS = (
    *("%d.%m.%Y", "%d.%m.%y", "%m/%d/%Y", "%d/%m/%Y", "%m/%d/%y", "%d/%m/%y", "%Y/%m/%d", "%Y.%m.%d"),
    *("%d-%m-%Y", "%m-%d-%Y", "%d %b %Y", "%d-%b-%Y", "%d-%b-%y", "%d %B %Y", "%b %d, %Y", "%B %d, %Y"),
    *("%a, %d %b %Y", "%b %d %Y"),
)
_TIMES = "", " %H:%M", " %H:%M:%S", " %H:%M:%S.%f", " %I:%M %p", " %I:%M:%S %p"


def suggest_number_options(words: Sequence[str], reading: ReadingOptions) -> Ways:
    """Return the options with which all words would be numbers, the shortest first.

    >>> for way in suggest_number_options(["1,234"], ReadingOptions()):
    ...     print(*way)
    decimal=','
    thousands=','
    """
    if not all(map(_LIKE_A_NUMBER.fullmatch, words[:PROBED_WORDS])):
        return []
    letters = set("".join(words))
    ways = Ways()
    for decimal, thousands in product((",", "."), (None, ".", ",", " ", "'")):
        options = [Option("decimal", decimal)] if decimal != reading.decimal else []
        options += [Option("thousands", thousands)] if thousands not in (None, reading.thousands) else []
        used = all(letters & set(grouping_characters(option.value)) for option in options)
        other = replace(reading, decimal=decimal, thousands=thousands)
        if options and used and decimal != thousands and infer_kind(words, other) == "number":
            ways.append([part for option in options for part in (" ", option)][1:])
    return sorted(ways, key=len)


def suggest_date_options(words: Sequence[str], reading: ReadingOptions) -> Ways:
    """Return the formats with which all words would be dates: at most two, because day and month may be ambiguous."""
    if not all(map(_LIKE_A_DATE.fullmatch, words[:PROBED_WORDS])):
        return []
    formats = (day + time for day, time in product(_DAYS, _TIMES))
    fitting = (one for one in formats if infer_kind(words, replace(reading, date_formats=(one,))) == "date")
    return [[Option("date_formats", one)] for one in islice(fitting, 2)]
