"""Single values of a request: what may stand in a column, and the kind of columns that nobody has described yet."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

from driftsurf.core.options import shown
from driftsurf.data.formats._cells import date_reader, infer_kind, make_column
from driftsurf.data.kinds import Kind
from driftsurf.data.reading_options import ReadingOptions
from driftsurf.data.tables import LARGEST_EXACT, Column
from driftsurf.errors import BadRowError

__all__ = ["DATE_FORMAT", "check_value", "column_of", "loosely", "odd_number", "word_of"]

DATE_FORMAT = "other formats are named with driftsurf serve --date-format"
TOO_LARGE = "is too large for a number", "pass a number below 1.8e308"


def check_number(value: Any) -> tuple[str, str] | None:
    """Return what is wrong with a value of a column of numbers, and the remedy; None if it is good."""
    if isinstance(value, str) and _is_numeral(value):
        return "is text", f"send {value.strip()} without quotes"
    if not isinstance(value, bool | int | float):
        return "is not a number", "pass a number, or null if it is not known"
    try:
        finite = math.isfinite(float(value))
    except OverflowError:
        finite = False
    return None if finite else TOO_LARGE


def check_value(kind: Kind, value: Any, read_date: Callable[[str], Any]) -> tuple[str, str] | None:
    """Return what is wrong with a value of a column, and the remedy; None if it is good."""
    if kind in ("number", "boolean") or (kind == "text" and isinstance(value, bool | int | float)):
        return check_number(value)
    if not isinstance(value, str):
        what = "a date" if kind == "date" else "text"
        return f"is not {what}", "pass text, or null if it is not known"
    if kind == "date":
        try:
            read_date(value)
        except ValueError:
            remedy = f"pass a date such as 2026-05-01T10:00:00Z, or null if it is not known; {DATE_FORMAT}"
            return "is not a date", remedy
    return ("holds a NUL character", "leave it out") if "\0" in value else None


def _is_numeral(text: str) -> bool:
    """Return whether a text is a number as JSON writes it.

    >>> _is_numeral(" 3.5"), _is_numeral("3,5"), _is_numeral("nan")
    (True, False, False)
    """
    try:
        return type(json.loads(text, parse_constant=str)) in (int, float)
    except (ValueError, RecursionError):
        return False


def loosely(body: bytes) -> Any:
    """Return JSON as Python reads it, which takes NaN and too large numbers; None if it is something else."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def odd_number(row: Any) -> tuple[str, str, str, str] | None:
    """Return the first column of a row with NaN or infinity, its value, what is wrong and the remedy; None without one.

    >>> odd_number(loosely(b'{"price": 1e400}'))
    ('price', 'inf', 'is too large for a number', 'pass a number below 1.8e308')
    """
    for name, value in row.items() if isinstance(row, dict) else ():
        if isinstance(value, float) and not math.isfinite(value):
            if math.isnan(value):
                return name, "NaN", "is not a number that JSON has", "pass null for a number that is not known"
            return name, str(value), *TOO_LARGE
    return None


def word_of(value: str | bool | int | float) -> str:
    """Return a value of a column of text as a word: whole numbers without a decimal point; OverflowError above 1.8e308.

    >>> word_of(" Rome "), word_of(8470.0), word_of(True), word_of(12345678901234567890)
    ('Rome', '8470', 'true', '12345678901234567890')
    """
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, bool):
        return "true" if value else "false"
    number = float(value)  # OverflowError for a number that no column takes
    if isinstance(value, int):
        return str(value)
    return str(int(number)) if number.is_integer() and abs(number) < LARGEST_EXACT else repr(number)


def column_of(name: str, values: list[Any], reading: ReadingOptions) -> Column:
    """Return the values of a column whose kind they decide; BadRowError if they are of several kinds."""
    present = [value for value in values if value is not None]
    if all(isinstance(value, bool) for value in present) and present:
        return make_column("boolean", [None if value is None else float(value) for value in values])
    if all(isinstance(value, int | float) for value in present) and present:
        for row, value in enumerate(values):
            problem = None if value is None else check_number(value)
            if problem:
                raise _bad(row, name, value, *problem)
        return make_column("number", [None if value is None else float(value) for value in values])
    for row, value in enumerate(values):
        if value is not None and not isinstance(value, str):
            raise _bad(row, name, value, "is not of the kind of the other values", "pass values of one kind")
        if value is not None and "\0" in value:
            raise _bad(row, name, value, "holds a NUL character", "leave it out")
    words = [None if value is None else value.strip() for value in values]
    if present and infer_kind(words, reading) == "date":
        read = date_reader(reading)
        try:
            return make_column("date", [None if word is None else read(word) for word in words])
        except ValueError:  # a few of the values are no dates
            pass
    return make_column("text", words)


def _bad(row: int, name: str, value: Any, problem: str, remedy: str) -> BadRowError:
    text = shown(value)
    return BadRowError(f"row {row}, column {name!r}: {text} {problem}; {remedy}", row=row, column=name, value=text)
