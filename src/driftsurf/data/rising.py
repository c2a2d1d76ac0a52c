"""Whether a column rises from row to row, as a clock does."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from driftsurf.data.source import Source
from driftsurf.data.sources.files import FileSource
from driftsurf.data.tables import Column, Table
from driftsurf.errors import DriftsurfError

__all__ = ["first_of_file", "is_clock"]

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
