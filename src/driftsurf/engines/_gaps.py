"""Gaps in the rows of a key, filled by the mean of what the key has had in that column before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from driftsurf.base import FloatArray, IntArray, State
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

    counts: IntArray
    sums: FloatArray

    @classmethod
    def over(cls, columns: int) -> Self:
        """Of no rows."""
        return cls(np.zeros(columns, np.int64), np.zeros(columns))

    def along(self, rows: KeyRows, *, late: bool) -> KeyRows:
        """The rows with each gap filled by the mean of all values before its row."""
        gaps = gaps_of(rows, late=late)
        if not gaps.any():
            return rows
        counts, sums = self._behind_each(rows.X)
        return _filled(rows, gaps, _means(counts[:-1], sums[:-1]))

    def ahead(self, rows: KeyRows, *, late: bool) -> KeyRows:
        """The rows with each gap filled by the means as they are: rows that are not learnt do not change them."""
        gaps = gaps_of(rows, late=late)
        return _filled(rows, gaps, _means(self.counts, self.sums)) if gaps.any() else rows

    def behind(self, X: FloatArray) -> Means:
        """Those that count once these rows are taken; what is not finite counts for nothing."""
        counts, sums = self._behind_each(X)
        return Means(counts[-1], sums[-1])

    def _behind_each(self, X: FloatArray) -> tuple[IntArray, FloatArray]:
        """What there is before the first row, and behind each."""
        there = np.isfinite(X)
        values = X if there.all() else np.where(there, X, 0.0)
        with np.errstate(over="ignore", invalid="ignore"):
            sums = np.cumsum(np.concatenate([self.sums[np.newaxis], values]), axis=0)
        return np.cumsum(np.concatenate([self.counts[np.newaxis], there]), axis=0), sums

    def state(self) -> State:
        """What is saved."""
        return {"counts": self.counts, "sums": self.sums}

    @classmethod
    def from_state(cls, state: Mapping[str, Any], columns: int) -> Self:
        """Those that gave ``state``."""
        found = [np.asarray(state.get(name)) for name in ("counts", "sums")]
        kinds = [(one.shape, one.dtype.kind) for one in found]
        if kinds != [((columns,), "i"), ((columns,), "f")]:
            raise StateError(f"the saved state of a key has no means of its {columns} columns: it is incomplete")
        return cls(*found)


def gaps_of(rows: KeyRows, *, late: bool) -> npt.NDArray[np.bool_]:
    """Which cells have no value. Where labels may come late, a row of a label and no values is not one with gaps."""
    gaps = np.isnan(rows.X)
    if late and gaps.any():
        labelled = np.array([label is not None for label in rows.y])
        gaps[gaps.all(axis=1) & labelled] = False
    return gaps


def _means(counts: IntArray, sums: FloatArray) -> FloatArray:
    with np.errstate(invalid="ignore"):
        means = sums / np.maximum(counts, 1)
    return np.where(np.isfinite(means), means, 0.0)


def _filled(rows: KeyRows, gaps: npt.NDArray[np.bool_], means: FloatArray) -> KeyRows:
    return replace(rows, X=np.where(gaps, means, rows.X))
