"""Columns of text that look like something else, and the option that would read them so."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

import numpy as np

from driftsurf.errors import Option, Said
from driftsurf.sources._base import Dialect
from driftsurf.sources._cells import SPACES, infer, number_reader
from driftsurf.sources._look_alikes import Ways, date_options, number_options
from driftsurf.sources.source import Source
from driftsurf.tables import Column, Table

__all__ = ["hints", "number_hint"]

UNITS = f"$€£¥%{SPACES}"
_BRACKETS = re.compile(r"\((.*)\)")
LOOKED_AT = 200
"""Different words of a column that are looked at."""
MOSTLY = 0.8
"""A column of which this share are numbers is one of numbers with something else in it ..."""
FEW = 3
"""... if that is at most so many different words."""
LEAST_ROWS = 20
"""Of fewer rows each may have a text of its own by chance."""


def hints(source: Source, table: Table, label: str | None = None) -> list[Said]:
    """What to say of the columns of the first batch of a source, of which ``label`` is to be predicted.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "preise.csv"
    >>> _ = path.write_text("tag;preis\\n31.12.2007;1,5\\n1.1.2008;12,25\\n")
    >>> source = Source(path)
    >>> for hint in hints(source, next(source.tables())[0]):
    ...     print(hint)
    the column 'tag' was taken for text, and looks like dates ('31.12.2007'): try date_formats='%d.%m.%Y'
    the column 'preis' was taken for text, and looks like numbers ('1,5'): try decimal=','
    """
    form, dialect = _format(source), source.dialect or Dialect()
    said = list[Said]()
    if dialect.date_formats and not any(column.kind == "date" for column in table.columns.values()):
        said.append(
            Said(
                "no column was taken for dates of the form ",
                Option("date_formats", dialect.date_formats[0]),
                "; if one looks like numbers, or is seldom there, say its kind with ",
                Option("kinds"),
            )
        )
    for name, column in table.columns.items():
        if column.kind == "text" and name not in (source.kinds or {}) and len(column.used()):
            said += islice(_hints_on(name, column, dialect, form, label), 1)
        elif name != label and _rises(column):
            said.append(
                Said(
                    f"the column {name!r} rises from row to row, so that every batch brings values that no model has "
                    "met: a run may do better without it, ",
                    Option("drop", name),
                )
            )
    return said


def number_hint(source: Source, column: Column) -> Said:
    """What to try if a column of text ought to be numbers, in brackets behind a message; empty if nothing helps."""
    ways = _number_ways(_words(column), source.dialect or Dialect(), _format(source)) if column.kind == "text" else []
    return Said(" (it looks like numbers: try ", *_either(ways), ")") if ways else Said()


def _format(source: Source) -> str:
    return source.format_of(source.files()[0])


def _words(column: Column) -> list[str]:
    return [column.words[code] for code in column.used()[:LOOKED_AT].tolist()]


def _number_ways(words: list[str], dialect: Dialect, form: str) -> Ways:
    return number_options(words, dialect) if words and form in ("csv", "jsonl") else []


def _either(ways: Ways) -> list[str | Option]:
    return [part for place, way in enumerate(ways) for part in ([" or "] if place else []) + way]


def _rises(column: Column) -> bool:
    if column.kind not in ("number", "date") or len(column) < LEAST_ROWS or column.missing().any():
        return False
    before, after = column.values[:-1], column.values[1:]
    return bool((after >= before).all() and np.count_nonzero(after > before) >= LEAST_ROWS // 2)


def _hints_on(name: str, column: Column, dialect: Dialect, form: str, label: str | None) -> Iterator[Said]:
    used = column.used()
    words = _words(column)
    look_alikes = {
        "numbers": _number_ways(words, dialect, form),
        "dates": date_options(words, dialect) if form in ("csv", "jsonl") else [],
    }
    for what, ways in look_alikes.items():
        if ways:
            yield Said(
                f"the column {name!r} was taken for text, and looks like {what} ({words[0]!r}): try ",
                *_either(ways),
            )
    bare = [word.strip(UNITS) for word in words]
    signed = [_BRACKETS.sub(r"-\1", word) for word in bare]
    if signed != words and (infer(signed, dialect) == "number" or number_options(signed, dialect)):
        first = next(word for word, plain in zip(words, signed, strict=True) if word != plain)
        how = f"with a unit ({first!r}): write them without it"
        if signed != bare:
            how = f"in brackets ({first!r}): write them with a minus, if that is what is meant"
        yield Said(f"the column {name!r} was taken for text, and looks like numbers {how}")
    there = int((~column.missing()).sum())
    if form == "csv":
        odd, cells = _odd_words(column, dialect)
        if 0 < len(odd) <= FEW and cells <= (1 - MOSTLY) * there:
            advised = [part for word in odd for part in (" ", Option("missing", word))]
            yield Said(
                f"the column {name!r} was taken for text because of {', '.join(map(repr, odd))} ({cells:,} of "
                f"{there:,} cells); all others are numbers: if that means no value, give",
                *advised,
            )
    if len(used) == there >= LEAST_ROWS and name != label:
        yield Said(
            f"the column {name!r} has a text of its own in each row ({words[0][:50]!r}): if it is a name of the row, "
            "leave it out with ",
            Option("drop", name),
        )


def _odd_words(column: Column, dialect: Dialect) -> tuple[list[str], int]:
    """Words that are no numbers, a few at most, and the cells that hold one."""
    read, odd = number_reader(dialect), list[int]()
    for code in column.used().tolist():
        try:
            read(column.words[code])
        except ValueError:
            odd.append(code)
            if len(odd) > FEW:
                break
    return [column.words[code] for code in odd], sum(int((column.values == code).sum()) for code in odd)
