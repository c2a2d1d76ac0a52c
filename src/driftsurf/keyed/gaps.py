"""Missing cells in the rows of a key, filled with the mean of the key's earlier values in that column."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import numpy.typing as npt

from driftsurf.core.contracts import DenseRows, FloatArray
from driftsurf.keyed.rows import KeyRows

__all__ = ["ColumnMeans", "find_gaps"]


@dataclass(frozen=True, slots=True, eq=False)
class ColumnMeans:
    """The mean of each column over the rows that a key has taken.

    Values are added one after the other, so that rounding does not depend on how rows are spread over visits. A column
    without a value so far, or with values too large to be added, has the mean 0.
    """

    totals: FloatArray
    """The number of values of each column, and their sum: shape (2, columns)."""

    @classmethod
    def empty(cls, columns: int) -> Self:
        """Return the means of a key without rows."""
        return cls(np.zeros((2, columns)))

    def filled(self, X: DenseRows) -> DenseRows:
        """Return rows whose gaps are filled with the mean of all values before each row, those of ``X`` included."""
        gaps = np.isnan(X)
        return np.where(gaps, _means(self._after_each(X)[:-1]), X) if gaps.any() else X

    def filled_alike(self, X: DenseRows) -> DenseRows:
        """Return rows in which each gap is filled with the mean as it is now."""
        return np.where(np.isnan(X), _means(self.totals), X)

    def fill_as_they_come(self, rows: KeyRows, *, late: bool) -> KeyRows:
        """Fill each gap with the mean of all values before its row, those of ``rows`` included."""
        gaps = find_gaps(rows, late=late)
        if not gaps.any():
            return rows
        return _filled(rows, gaps, _means(self._after_each(rows.X)[:-1]))

    def fill(self, rows: KeyRows, *, late: bool) -> KeyRows:
        """Fill each gap with the mean as it is now; rows that are not learned do not change the means."""
        gaps = find_gaps(rows, late=late)
        return _filled(rows, gaps, _means(self.totals)) if gaps.any() else rows

    def after(self, X: DenseRows) -> ColumnMeans:
        """Return the means after these rows; values that are not finite are left out."""
        return ColumnMeans(self._after_each(X)[-1])

    def _after_each(self, X: DenseRows) -> FloatArray:
        """Return the totals before the first row and after each row: shape (rows + 1, 2, columns)."""
        totals = np.empty((len(X) + 1, *self.totals.shape))
        totals[0] = self.totals
        totals[1:, 0] = there = np.isfinite(X)
        totals[1:, 1] = X if there.all() else np.where(there, X, 0.0)
        with np.errstate(over="ignore", invalid="ignore"):
            return np.cumsum(totals, axis=0, out=totals)


def find_gaps(rows: KeyRows, *, late: bool) -> npt.NDArray[np.bool_]:
    """Return which cells have no value. With late labels, a row with a label and no values at all has no gaps."""
    gaps = np.isnan(rows.X)
    if late and gaps.any():
        labelled = np.array([label is not None for label in rows.y])
        gaps[gaps.all(axis=1) & labelled] = False
    return gaps


def _means(totals: FloatArray) -> FloatArray:
    counts, sums = totals[..., 0, :], totals[..., 1, :]
    with np.errstate(invalid="ignore"):
        means = sums / np.maximum(counts, 1.0)
    return np.where(np.isfinite(means), means, 0.0)


def _filled(rows: KeyRows, gaps: npt.NDArray[np.bool_], means: FloatArray) -> KeyRows:
    """Return the rows with these means in place of gaps."""
    return replace(rows, X=np.where(gaps, means, rows.X))
