"""The column that dates the rows of a table, and the time of its first row."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from driftsurf.data.formats._cells import suggest_date_options
from driftsurf.data.source import Source
from driftsurf.data.sources.files import FileSource
from driftsurf.data.tables import Column, Table
from driftsurf.errors import DriftsurfError, Message, Option, SchemaError

LEAST_ROWS = 20
"""With fewer rows, a column may rise or fall by chance."""
READ_ROWS = 10_000
FALL_SHARE = 0.25
"""A column is no clock if more than this share of its values in the first half of the rows exceed those half the rows
later. A clock may be a little out of order; of values in random order, half do."""


def is_clock(column: Column) -> bool:
    """Return whether a column may date the rows: values half the table apart rise, but for a few.

    >>> is_clock(Column("number", np.arange(50.0))), is_clock(Column("number", np.arange(50.0) * 7 % 50))
    (True, False)
    """
    values = column.values[~column.missing()]
    half = len(values) // 2
    if len(values) < LEAST_ROWS:
        return True
    return bool(np.count_nonzero(values[-half:] < values[:half]) <= FALL_SHARE * half)


def first_of_file(source: Source, table: Table, name: str, rows: int) -> Iterator[Column]:
    """Yield a column of the first rows of a file, which is read again; nothing for other sources.

    ``table`` is the first table of the source, which tells its columns.
    """
    if not (isinstance(source, FileSource) and source.seekable):
        return
    others = tuple(other for other in table.columns if other != name)
    reading = replace(source.reading, drop=(*source.reading.drop, *others), rows=rows, on_bad_row="skip")
    with contextlib.suppress(DriftsurfError):  # a bad row is reported when it is learned
        for part, _ in FileSource(source.path, reading, batch_size=READ_ROWS).tables():
            yield part[name]


TRIED_WORDS = 200
"""Number of different texts that are tried as dates."""
CHECKED_ROWS = 1000
"""Number of rows that tell whether times rise."""

SECONDS = 1e8, 1e11
"""Numbers in this range are taken as seconds since 1970 (from 1973 on)."""


def find_time(table: Table, asked: str | None = None) -> str | None:
    """Return the column that dates the rows: the one asked for, or the first column of dates that never decreases.

    A column of numbers is taken if it was asked for and its numbers look like seconds since 1970.

    >>> from driftsurf.data.frames import read_table
    >>> days = np.array(["2024-05-02", "2024-05-01", "2024-05-03"], "datetime64[us]")
    >>> find_time(read_table({"born": days, "seen": np.sort(days)}))
    'seen'
    """
    if asked is not None:
        return asked if asked in table.columns and len(_times(table[asked])) else None
    for name, column in table.columns.items():
        times = _times(column)
        if (
            column.kind == "date"
            and len(times) > 1
            and times[-1] > times[0]
            and not np.any(np.diff(times) < np.timedelta64(0, "us"))
        ):
            return name
    return None


def check_time(source: Source, table: Table, name: str) -> None:
    """Raise SchemaError if a column that is to date the rows holds no times: other values, or numbers that do not rise.

    ``table`` is the first table of the source.
    """
    column = table[name]
    present = column.values[~column.missing()]
    if column.kind == "number":
        first = _first_of(source, table, name)
        if not is_clock(first):
            numbers = first.values[~first.missing()]
            falls = int(np.argmax(np.diff(numbers) < 0))
            raise SchemaError(
                Option("time"),
                f" names {name!r}, whose numbers do not rise as times do ({', '.join(_shown(numbers, falls))}). Name a "
                "column of dates or of seconds, and sort the rows by it",
            )
        return
    if column.kind == "date" or not len(present):
        return
    words = [column.words[code] for code in column.used()[:TRIED_WORDS].tolist()] if column.kind == "text" else []
    shown = column.words[int(present[0])] if words else bool(present[0])
    formats = suggest_date_options(words, source.reading) if words else []
    raise SchemaError(
        Option("time"),
        f" names {name!r}, which holds no times: it begins with {str(shown)[:100]!r}. Name a column of dates or of "
        "seconds; dates in other forms than ISO 8601 are read with ",
        *(formats[0] if formats else [Option("date_formats")]),
    )


def time_hints(source: Source, table: Table, name: str | None, *, cuts: bool) -> list[Message]:
    """Return advice about the column of times that was asked for; ``cuts`` if batches are cut by it."""
    if name is None:
        return []
    if table[name].kind == "date" and not is_clock(_first_of(source, table, name)):
        told = f"the times in column {name!r} do not rise from row to row; sort the rows by it, or name another with "
        return [Message(told, Option("time"))]
    if table[name].kind == "number" and not cuts and not len(_times(table[name])):
        told = f"the numbers in column {name!r} are not seconds since 1970, so the report counts steps in place of "
        return [Message(told, "times; with ", Option("batch_seconds"), " they would cut the steps")]
    return []


def _first_of(source: Source, table: Table, name: str) -> Column:
    """Return a column of the first rows of a file, or of the first table, which may be a single span of time.

    If later rows of the file make it a column of text, the first table is used: these rows are reported when they are
    learned.
    """
    column = next(first_of_file(source, table, name, CHECKED_ROWS), table[name])
    return column if column.kind == table[name].kind else table[name]


def _shown(values: npt.NDArray[Any], place: int) -> list[str]:
    return [f"{value:.15g}" for value in values[place : place + 2].tolist()]


def first_time(table: Table, column: str) -> str:
    """Return the first time of a column in ISO format, in whole seconds; "" if there is none."""
    if column not in table.columns or not len(times := _times(table[column])):
        return ""
    return str(np.datetime_as_string(times[0], unit="s"))


def _times(column: Column) -> npt.NDArray[Any]:
    """Return the times of a column that are not missing; nothing if it holds no times."""
    present = column.values[~column.missing()]
    if column.kind == "number" and len(present) and SECONDS[0] <= present.min() <= present.max() < SECONDS[1]:
        return np.asarray((present * 1e6).astype(np.int64).astype("datetime64[us]"))
    return present if column.kind == "date" else present[:0]
