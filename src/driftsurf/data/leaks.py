"""Columns that give the label away: which of them alone predict it nearly perfectly in the first rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from driftsurf.data.tables import Column, Table

__all__ = ["Leak", "find_leaks"]

SAMPLED_ROWS = 1000
"""Number of rows that are examined."""
LEAST_OTHERS = 20
"""With fewer rows of other classes than the most frequent one (or fewer different numbers), a column may fit by
chance."""
ERROR_SHARE = 0.02
"""A column gives the label away if it leaves at most this share of the errors of the most frequent class ..."""
LARGEST_ERROR = 0.01
"""... and of all rows at most this share."""
LEAST_CORRELATION = 0.9995
"""A column that is so closely correlated with a number to be predicted gives it away."""
FEW_ROWS = 3
"""Fewer rows of another class between two of the same class are exceptions."""
MOST_CODES = 50
"""Numbers with at most this many different values are compared one by one; others by where they change the class."""


class Leak(NamedTuple):
    """A column that predicts the label by itself."""

    column: str
    rows: int
    """Number of rows that were examined."""
    right: int
    """Number of rows whose label follows from the column; for a number to be predicted, all rows."""


def find_leaks(table: Table, y: npt.NDArray[Any], *, regression: bool = False) -> Iterator[Leak]:
    """Yield the columns of the first rows that alone tell the label, where the most frequent class does not.

    Columns that only rise, such as clocks, are passed over: in a file that is sorted by its label they tell the label,
    too. So is a column that is the only one.

    >>> from driftsurf.data.frames import read_table
    >>> refund = [i % 3 == 0 for i in range(90)]
    >>> table = read_table({"size": [i % 7 for i in range(90)], "refund": [5.0 if r else None for r in refund]})
    >>> list(find_leaks(table, np.array(refund)))
    [Leak(column='refund', rows=90, right=90)]
    """
    if len(table.columns) < 2:
        return
    rows = min(len(table), len(y), SAMPLED_ROWS)
    table, y = table.rows(0, rows), y[:rows]
    if regression:
        for name, column in table.columns.items():
            if _is_correlated(column, np.asarray(y, np.float64)):
                yield Leak(name, rows, rows)
        return
    classes, codes = np.unique(y, return_inverse=True)
    others = rows - int(np.bincount(codes).max(initial=0))
    if others < LEAST_OTHERS:
        return
    for name, column in table.columns.items():
        wrong = _errors(column, codes, len(classes))
        if wrong <= min(ERROR_SHARE * others, LARGEST_ERROR * rows):
            yield Leak(name, rows, rows - wrong)


def _errors(column: Column, codes: npt.NDArray[np.int64], n_classes: int) -> int:
    """Return how many labels the column does not tell, in the best way to read it."""
    missing = column.missing()
    wrong = _group_errors(missing.astype(np.int64), codes, n_classes)
    if column.kind == "text":
        first: dict[str, int] = {}  # a word may occur twice
        values = np.array([*(first.setdefault(word, len(first)) for word in column.words), -1])[column.values]
        return min(wrong, _group_errors(values, codes, n_classes))
    if (
        column.kind in ("number", "date")
        and not missing.any()
        and bool((column.values[1:] >= column.values[:-1]).all())
    ):
        return len(codes)
    distinct = np.unique(column.values[~missing])
    values = np.searchsorted(distinct, column.values)
    values[missing] = -1
    if len(distinct) <= MOST_CODES:
        return min(wrong, _group_errors(values, codes, n_classes))
    return min(wrong, _interval_errors(values, codes, n_classes))


def _counts(values: npt.NDArray[np.int64], codes: npt.NDArray[np.int64], n_classes: int) -> npt.NDArray[np.int64]:
    """Return how often each class occurs with each value, in the order of values."""
    groups, places = np.unique(values, return_inverse=True)
    return np.bincount(places * n_classes + codes, minlength=len(groups) * n_classes).reshape(len(groups), n_classes)


def _group_errors(values: npt.NDArray[np.int64], codes: npt.NDArray[np.int64], n_classes: int) -> int:
    """Return the errors of predicting the most frequent class of each value. A value that occurs once tells nothing."""
    counts = _counts(values, codes, n_classes)
    single = counts.sum(axis=1) == 1
    return int(len(codes) - counts.max(axis=1)[~single].sum())


def _interval_errors(values: npt.NDArray[np.int64], codes: npt.NDArray[np.int64], n_classes: int) -> int:
    """Return the errors of predicting one class for each of as many intervals as there are classes.

    Values are sorted and cut where their most frequent class changes. Intervals of a few rows are left out, and the
    longest of the others are chosen; all rows outside of them count as wrong.
    """
    counts = _counts(values, codes, n_classes)
    best, right = counts.argmax(axis=1), counts.max(axis=1)
    for least in (1, FEW_ROWS):
        starts = np.flatnonzero(np.diff(best, prepend=-1))
        best, right = best[starts], np.add.reduceat(right, starts)
        best, right = best[right >= least], right[right >= least]
    if not len(best):
        return len(codes)
    starts = np.flatnonzero(np.diff(best, prepend=-1))
    return int(len(codes) - np.sort(np.add.reduceat(right, starts))[-n_classes:].sum())


def _is_correlated(column: Column, y: npt.NDArray[np.float64]) -> bool:
    there = ~column.missing() & np.isfinite(y)
    if column.kind != "number" or there.sum() < LEAST_OTHERS:
        return False
    x, target = column.values[there], y[there]
    if min(len(np.unique(x)), len(np.unique(target))) < LEAST_OTHERS:  # a few odd rows would decide
        return False
    with np.errstate(all="ignore"):
        x, target = x - x.mean(), target - target.mean()
        scale = np.sqrt((x @ x) * (target @ target))
        return bool(np.isfinite(scale) and scale > 0 and abs(x @ target) >= LEAST_CORRELATION * scale)
