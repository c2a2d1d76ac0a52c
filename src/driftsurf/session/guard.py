"""Range guard: extreme values are limited, and rows that are far larger than the usual ones get a small weight."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from driftsurf.core.column_sizes import clipped, limited, squared_norms, usual_sizes
from driftsurf.core.contracts import CSR, FloatArray, Rows, State, n_rows
from driftsurf.core.fields import Array, Entry, Fields, Real, Rule
from driftsurf.core.options import number
from driftsurf.core.values import lazy
from driftsurf.kernels.guard import (
    CAP,
    COLUMN_CAP,
    EXCESS,
    LIMIT,
    MASS,
    MEMORY,
    ROWS_OF_GUARD,
    TOTAL,
    UNSIZED,
    Admission,
    admit_csr,
    admit_dense,
)
from driftsurf.native.columns import column_limits

__all__ = ["RangeGuard"]

LARGEST = 1e100
"""The factor is below this, so that its square does not overflow."""
LOOP = 128
"""Least number of values that are checked in one loop: the rows of narrow tables are checked several at once."""
NO_SIZES = np.zeros(0)
UNGUARDED = Admission(
    np.zeros((ROWS_OF_GUARD, 0)), NO_SIZES, 1.0, False, np.zeros((ROWS_OF_GUARD, 0)), NO_SIZES, NO_SIZES
)
"""Stands for no guard in compiled code."""


@dataclass(frozen=True)
class RangeGuard:
    """Limits that bound what one extreme row can do to a linear model, a gradient average or a risk.

    Each column is measured in units of its usual size (a robust mean of its absolute non-zero values), so that a value
    may be extreme in one column and ordinary in another. Rows whose norm in these units is up to ``factor`` times the
    usual norm (the 0.9 quantile over the last 1,024 non-zero rows) have weight 1. A row beyond that has the weight
    (factor * usual / norm)^2: the curvature of its loss is then that of a row at the limit, so a step size that suits
    ordinary rows suits it too, and its loss and gradient fall off as 1 / norm. (For a quadratic loss a session squares
    the weight once more.) A value of 1e6 among ordinary ones counts almost nothing, one whose square overflows nothing.
    A lasting change of scale is followed after about a hundred rows.

    Rows with extreme values may be too frequent for that: in a heavy-tailed column, one value in five may be a thousand
    times the others. With ``clips``, values are limited to six times the usual size of their column, for learning and
    for predicting. A column in which more than a third of the values are three times as large as usual, for about a
    hundred rows, has a new scale; it is then measured again.

    A guard is a value: ``admit`` returns the next one.

    Examples
    --------
    >>> X = np.ones((100, 1)); X[3] = 1e6
    >>> rows, weights, guard = RangeGuard(factor=2.0, clips=True).admit(X)
    >>> weights[:5].round(9)
    array([1., 1., 1., 0., 1.])
    >>> guard.limited(np.array([[-2.0], [50.0]])).round(1)
    array([[-2. ],
           [ 6.1]])
    """

    factor: float = 2.0
    recent: FloatArray = field(default_factory=lambda: np.zeros(0))
    """Squared norms of the last rows, oldest first."""
    columns: FloatArray | None = None
    """Numbers of each column, as the kernel ``admit`` leaves them; None before the first row."""
    clips: bool = False

    def __post_init__(self) -> None:
        number("guard", self.factor, at_least=1.0, below=LARGEST, otherwise=", or None for no guard")

    @property
    def total(self) -> FloatArray | None:
        """Sum of the absolute values of each column over the rows; None before the first row."""
        return None if self.columns is None else self.columns[TOTAL]

    @property
    def mass(self) -> FloatArray | None:
        """Sum over the rows of the weights of each column's non-zeros; None before the first row."""
        return None if self.columns is None else self.columns[MASS]

    @property
    def excess(self) -> FloatArray | None:
        """Evidence for a new scale of each column; None before the first row, and unless ``clips``."""
        return None if self.columns is None or not self.clips else self.columns[EXCESS]

    def admit(self, X: Rows) -> tuple[Rows, FloatArray | None, RangeGuard]:
        """Return the rows with limited values, their weights (None: all 1), and the guard after them."""
        sparse = isinstance(X, CSR)
        n_features, count = X.n_features if isinstance(X, CSR) else X.shape[1], n_rows(X)
        before = np.zeros((ROWS_OF_GUARD, n_features)) if self.columns is None else self.columns
        known = len(self.recent)
        after, norms = np.empty((ROWS_OF_GUARD, n_features)), np.empty(count)
        later, values = np.empty(min(known + count, MEMORY)), np.empty(known + count)
        kernel, rows = (admit_csr, X[:3]) if sparse else (admit_dense, X)
        how = self._squared, self.clips, after, later, norms, values
        status, extremes, kept, weighted = kernel(rows, before, self.recent, NO_SIZES, *how)
        if status == UNSIZED:
            finite = np.isfinite(squared_norms(X, np.ones(n_features + 1), np.zeros(n_features + 1)))
            sizes = usual_sizes(X, finite.astype(np.float64))
            _, extremes, kept, weighted = kernel(rows, before, self.recent, sizes, *how)
        if self.clips and extremes:
            X = clipped(X, LIMIT / CAP * after[COLUMN_CAP])
        return X, norms if weighted else None, self.admitted(after, later, kept)

    def admission(self, count: int) -> Admission | None:
        """Return the arrays with which compiled code admits ``count`` rows; None before the first row."""
        if self.columns is None:
            return None
        columns, recent = self.columns, self.recent
        most = len(recent) + count
        after, later = np.empty(columns.shape), np.empty(most if most < MEMORY else MEMORY)
        return Admission(columns, recent, self._squared, self.clips, after, later, np.empty(most))

    def admitted(self, after: FloatArray, later: FloatArray, kept: int) -> RangeGuard:
        """Return the guard after rows that left these numbers behind, of which ``later`` holds ``kept``."""
        guard = object.__new__(RangeGuard)  # without another check of the factor, nor the limits of the guard before
        recent = later if kept == len(later) else later[:kept]
        entries = vars(guard)
        entries["factor"], entries["recent"] = self.factor, recent
        entries["columns"], entries["clips"] = after, self.clips
        return guard

    @property
    def _squared(self) -> float:
        return float(self.factor) ** 2

    def limited(self, X: Rows) -> Rows:
        """Return rows to be predicted, with limited values; the same object if nothing is beyond the limits."""
        return X if self.limits is None else limited(X, self.limits)

    @lazy
    def limits(self) -> FloatArray | None:
        """Largest absolute value of each column in predictions, all repeated up to a usual length; None: no limits."""
        if not self.clips or self.columns is None:
            return None
        width = self.columns.shape[1]
        limits = np.empty(width * math.ceil(LOOP / width))
        column_limits(self.columns[TOTAL], self.columns[MASS], LIMIT, limits)
        return limits

    def state(self) -> State:
        """Return the state as flat entries."""
        arrays = {"total": self.total, "mass": self.mass, "excess": self.excess}
        state: State = {"factor": float(self.factor), "recent": self.recent}
        return state | {name: values for name, values in arrays.items() if values is not None}

    @classmethod
    def from_state(cls, state: Mapping[str, Any], n_features: int | None, *, clips: bool = False) -> RangeGuard:
        """Return the guard that ``state()`` was called on, for rows of ``n_features`` columns (None: no row yet)."""
        known = (UNUSED if n_features is None else CLIPPING if clips else FIELDS).read(state, n_features=n_features)
        recent = known["recent"].copy()  # saved arrays may be read-only, which compiled code does not accept in a tuple
        if n_features is None:
            return cls(known["factor"], recent, clips=clips)
        columns = np.zeros((ROWS_OF_GUARD, n_features))
        columns[TOTAL], columns[MASS] = known["total"], known["mass"]
        columns[EXCESS] = known["excess"] if clips else 0.0
        return cls(known["factor"], recent, columns, clips)


_EITHER: dict[str, Entry] = {
    "factor": Real(1.0, LARGEST),
    "recent": Array(np.float64, ("rows",), least=0.0, missing=True),  # infinite if a square overflowed
}
_FEW = Rule("recent", f"must have at most {MEMORY} values", lambda known: known["rows"] <= MEMORY)
_SUMS: dict[str, Entry] = dict.fromkeys(("total", "mass", "excess"), Array(np.float64, ("n_features",), least=0.0))
UNUSED = Fields(_EITHER, rules=[_FEW])
FIELDS = Fields(_EITHER | {name: _SUMS[name] for name in ("total", "mass")}, rules=[_FEW])
CLIPPING = Fields(_EITHER | _SUMS, rules=[_FEW])
"""Saved entries of a guard: before the first row, without limits of values, and with them."""
