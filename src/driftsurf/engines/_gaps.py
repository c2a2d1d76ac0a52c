"""Gaps in the rows of a key, filled by the mean of what the key has had in that column before."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from driftsurf.base import FloatArray
from driftsurf.errors import StateError

if TYPE_CHECKING:
    from driftsurf.engines.keyed import KeyRows

__all__ = ["Means", "gaps_of"]


@dataclass(frozen=True, slots=True, eq=False)
class Means:
    """The mean of each column over the rows that a key has learnt or predicted.

    Values are added one after the other, so that it does not matter how rows are spread over visits. A column without
    a value so far, or with values too large to be added, has the mean 0.
    """

    totals: FloatArray
    """How many values each column has had, and their sum: (2, columns)."""

    @classmethod
    def over(cls, columns: int) -> Self:
        """Of no rows."""
        return cls(np.zeros((2, columns)))

    def along(self, rows: KeyRows, *, late: bool) -> KeyRows:
        """The rows with each gap filled by the mean of all values before its row."""
        gaps = gaps_of(rows, late=late)
        if not gaps.any():
            return rows
        return _filled(rows, gaps, _means(self._behind_each(rows.X)[:-1]))

    def ahead(self, rows: KeyRows, *, late: bool) -> KeyRows:
        """The rows with each gap filled by the means as they are: rows that are not learnt do not change them."""
        gaps = gaps_of(rows, late=late)
        return _filled(rows, gaps, _means(self.totals)) if gaps.any() else rows

    def behind(self, X: FloatArray) -> Means:
        """Those that count once these rows are taken; what is not finite counts for nothing."""
        return Means(self._behind_each(X)[-1])

    def _behind_each(self, X: FloatArray) -> FloatArray:
        """The totals before the first row, and behind each: (rows + 1, 2, columns)."""
        totals = np.empty((len(X) + 1, *self.totals.shape))
        totals[0] = self.totals
        totals[1:, 0] = there = np.isfinite(X)
        totals[1:, 1] = X if there.all() else np.where(there, X, 0.0)
        with np.errstate(over="ignore", invalid="ignore"):
            return np.cumsum(totals, axis=0, out=totals)

    @classmethod
    def from_array(cls, totals: Any, columns: int) -> Self:
        """Those with these ``totals``; StateError if they are no such thing."""
        found = np.asarray(totals)
        if found.shape != (2, columns) or found.dtype != np.float64:
            raise StateError(f"the saved state of a key has no means of its {columns} columns: it is incomplete")
        return cls(found)


def gaps_of(rows: KeyRows, *, late: bool) -> npt.NDArray[np.bool_]:
    """Which cells have no value. Where labels may come late, a row of a label and no values is not one with gaps."""
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
    return replace(rows, X=np.where(gaps, means, rows.X))
