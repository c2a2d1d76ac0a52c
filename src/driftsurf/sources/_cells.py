"""Cells of text: of which kind a column is, and the values of single cells for the formats without a library."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import repeat
from typing import Any

import numpy as np
import numpy.typing as npt

from driftsurf.sources._base import Dialect
from driftsurf.tables import Column, Kind, empty_column

MISFITS = 0.01
"""A column is of a kind if at most this share of its cells are not: those rows are bad, the column is not."""
EXACT = 2**53
"""Whole numbers beyond this are names: float64 would merge them."""

SPACES = " \u00a0\u202f\u2009"
"""What people put between groups of digits where they say a space ..."""
APOSTROPHES = "'\u2019"
"""... or an apostrophe."""
_DATE = re.compile(r"\d{4}-\d\d-\d\d([ T]\d\d:\d\d(:\d\d(\.\d{1,6})?)?(Z|[+-]\d\d:?\d\d)?)?", re.ASCII)
_BOOLEANS = {"true": 1.0, "True": 1.0, "TRUE": 1.0, "false": 0.0, "False": 0.0, "FALSE": 0.0}


def infer(cells: Sequence[str | None], dialect: Dialect) -> Kind:
    """The kind of a column by its first cells. Without a single value it is text, which takes anything.

    >>> infer(["1", "2.5", None], Dialect()), infer(["2007-01-01", "2007-01-02 10:30"], Dialect())
    ('number', 'date')
    >>> infer(["0012345678901234567", "0012345678901234568"], Dialect())  # float64 would merge these
    'text'
    """
    present = [cell for cell in cells if cell is not None]
    if not present:
        return "text"
    for kind, read in (("boolean", read_boolean), ("number", number_reader(dialect)), ("date", date_reader(dialect))):
        bad = 0
        for cell in present:
            try:
                read(cell)
            except ValueError:
                bad += 1
                if bad > MISFITS * len(present):
                    break
        else:
            if kind == "number" and any(_is_name(cell, dialect) for cell in present):
                return "text"
            return kind  # type: ignore[return-value]
    return "text"


def _is_name(cell: str, dialect: Dialect) -> bool:
    between = marks(dialect.thousands) if dialect.thousands is not None else ""
    digits = cell.strip().lstrip("+-").translate(dict.fromkeys(map(ord, between)))
    return digits.isdigit() and len(digits) > 15 and int(digits[:400]) > EXACT


def read_boolean(cell: str) -> float:
    """1 or 0."""
    if cell.strip() not in _BOOLEANS:
        raise ValueError(f"{cell!r} is no boolean")
    return _BOOLEANS[cell.strip()]


def marks(thousands: str) -> str:
    """The characters that are read where one of them is said to stand between groups of digits."""
    return next((alike for alike in (SPACES, APOSTROPHES) if thousands in alike), thousands)


def number_reader(dialect: Dialect) -> Callable[[str], float]:
    """How to read a finite number.

    >>> number_reader(Dialect(decimal=",", thousands="."))("-1.234,5")
    -1234.5
    """
    point = re.escape(dialect.decimal)
    whole, between = r"\d+", ""
    if dialect.thousands is not None:
        between = f"[{re.escape(marks(dialect.thousands))}]"
        whole = rf"(?:\d+|\d{{1,3}}(?:{between}\d{{2,3}})*{between}\d{{3}})"
    form = re.compile(rf"\s*[+-]?({whole}({point}\d*)?|{point}\d+)([eE][+-]?\d+)?\s*", re.ASCII)

    def read(cell: str) -> float:
        if form.fullmatch(cell) is None:
            raise ValueError(f"{cell[:100]!r} is no number")
        plain = re.sub(between, "", cell.strip()) if between else cell
        value = float(plain.replace(dialect.decimal, "."))
        if value in (np.inf, -np.inf):
            raise ValueError(f"{cell[:100]!r} is too large")
        return value

    return read


def date_reader(dialect: Dialect) -> Callable[[str], np.datetime64]:
    """How to read a date: ISO 8601, or one of the forms of the dialect."""

    def read(cell: str) -> np.datetime64:
        if _DATE.fullmatch(cell):
            return utc(datetime.datetime.fromisoformat(cell))
        for form in dialect.date_formats:
            try:
                return utc(datetime.datetime.strptime(cell, form))
            except ValueError:
                continue
        raise ValueError(f"{cell[:100]!r} is no date")

    return read


def utc(moment: datetime.datetime) -> np.datetime64:
    """Without a zone, in UTC."""
    if moment.tzinfo is not None:
        try:
            moment = moment.astimezone(datetime.UTC).replace(tzinfo=None)
        except OverflowError as error:
            raise ValueError(f"{moment} is out of range") from error
    return np.datetime64(moment, "us")


def read_cell(kind: Kind, dialect: Dialect) -> Callable[[str], Any]:
    """The reader of one kind."""
    readers: dict[Kind, Callable[[str], Any]] = {
        "boolean": read_boolean,
        "number": number_reader(dialect),
        "date": date_reader(dialect),
        "text": str,
    }
    return readers[kind]


def columns(kinds: Mapping[str, Kind], rows: Sequence[Sequence[Any]]) -> dict[str, Column]:
    """Rows of values in the order of ``kinds`` as columns."""
    cells: Iterable[Sequence[Any]] = zip(*rows, strict=True) if rows else repeat((), len(kinds))
    return {name: column(kind, values) for (name, kind), values in zip(kinds.items(), cells, strict=True)}


def column(kind: Kind, values: Sequence[Any]) -> Column:
    """A column from values as ``read_cell`` gives them; None is a gap."""
    made = empty_column(kind, len(values))
    there: npt.NDArray[np.int64] = np.array([i for i, value in enumerate(values) if value is not None], np.int64)
    if kind == "text":
        places: dict[str, int] = {}
        made.values[there] = [places.setdefault(values[i], len(places)) for i in there]
        return Column(kind, made.values, tuple(places))
    if len(there):
        made.values[there] = [values[i] for i in there]
    return made
