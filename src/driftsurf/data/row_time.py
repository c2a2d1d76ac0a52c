"""The column that dates the rows of a table, and the time of its first row."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from driftsurf.data.tables import Column, Table

__all__ = ["find_time", "first_time"]

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
            and not np.any(np.diff(times) < np.timedelta64(0))
        ):
            return name
    return None


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
