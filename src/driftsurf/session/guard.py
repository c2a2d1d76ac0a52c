"""Range guard: rows that are far larger than the usual ones are learned with a small weight."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from driftsurf.core.column_sizes import CAP, measure, squared_norms, usual_sizes
from driftsurf.core.contracts import CSR, FloatArray, Rows, State
from driftsurf.core.options import number
from driftsurf.core.values import replace
from driftsurf.errors import StateError
from driftsurf.kernels.columns import column_sizes

__all__ = ["RangeGuard"]

MEMORY = 1024
"""Number of last rows whose norms are kept."""
QUANTILE = 0.9
COLUMN_MEMORY = 10_000
"""Number of rows over which the sizes of columns are averaged."""


@dataclass(frozen=True)
class RangeGuard:
    """Row weights that bound what one extreme row can do to a linear model, a gradient average or a risk.

    Each column is measured in units of its usual size (a robust mean of its absolute non-zero values), so that a value
    may be extreme in one column and ordinary in another. Rows whose norm in these units is up to ``factor`` times the
    usual norm (the 0.9 quantile over the last 1,024 non-zero rows) have weight 1. A row beyond that has the weight
    (factor * usual / norm)^2: the curvature of its loss is then that of a row at the limit, so a step size that suits
    ordinary rows suits it too, and its loss and gradient fall off as 1 / norm. (For a quadratic loss a session squares
    the weight once more.) A value of 1e6 among ordinary ones counts almost nothing, one whose square overflows nothing.
    A lasting change of scale is followed after about a hundred rows. A guard is a value: ``weigh`` returns the next
    one.

    Examples
    --------
    >>> X = np.ones((100, 1)); X[3] = 1e6
    >>> weights, guard = RangeGuard(factor=2.0).weigh(X)
    >>> weights[:5].round(9)
    array([1., 1., 1., 0., 1.])
    """

    factor: float = 2.0
    recent: FloatArray = field(default_factory=lambda: np.zeros(0))
    """Squared norms of the last rows, oldest first."""
    total: FloatArray | None = None
    mass: FloatArray | None = None
    """Sums over the rows for each column: ``total`` of absolute values, ``mass`` of the weights of its non-zeros."""

    def __post_init__(self) -> None:
        number("guard", self.factor, at_least=1.0, otherwise=", or None for no guard")

    def weigh(self, X: Rows) -> tuple[FloatArray | None, RangeGuard]:
        """Return the weights of these rows (None: all 1), and the guard after them."""
        n_features = X.n_features if isinstance(X, CSR) else X.shape[1]
        columns, without = self._columns(n_features)
        new = columns[3] == 0.0 if without else None
        norms, largest, zeros = measure(X, columns)
        if new is not None and columns[3][new].any():  # new columns are sized by these rows
            columns, _ = self._columns(n_features)
            finite = np.isfinite(squared_norms(X, np.ones(n_features + 1), np.zeros(n_features + 1)))
            sizes = usual_sizes(X, finite.astype(np.float64))[new]
            columns[0, new], columns[1, new] = (
                np.divide(1.0, sizes, out=np.ones_like(sizes), where=sizes > 0.0),
                CAP * sizes,
            )
            norms, largest, zeros = measure(X, columns)
        recent = np.concatenate([self.recent, norms[norms > 0.0] if zeros else norms])
        weights = self._weights(norms, largest, recent)
        _, _, total, mass = columns
        return weights, replace(self, recent=recent[-MEMORY:], total=total, mass=mass)

    def _columns(self, n_features: int) -> tuple[FloatArray, int]:
        """Return scales, limits, totals and masses of the columns, and the number of columns never seen.

        Sums decay with a memory of 10,000 rows.
        """
        columns = np.empty((4, n_features))
        if self.total is None or self.mass is None:
            columns[0], columns[1:] = 1.0, 0.0
            return columns, n_features
        return columns, column_sizes(self.total, self.mass, COLUMN_MEMORY, CAP, columns)

    def _weights(self, norms: FloatArray, largest: float, recent: FloatArray) -> FloatArray | None:
        if len(recent) == 0:
            return None
        place = math.floor(QUANTILE * (len(recent) - 1))
        # Fast path. The quantile reaches this value if at most ``place`` values are below it, and then no row is beyond
        # the limit. 1e-12 is more than rounding can change.
        enough = largest / self.factor**2 * (1.0 + 1e-12)
        if math.isfinite(enough) and np.count_nonzero(recent < enough) <= place:
            return None
        weights = np.ones(len(norms))
        limit = self.factor**2 * float(np.partition(recent, place)[place])
        if math.isfinite(limit):
            large = norms > limit
            weights[large] = limit / norms[large]
        else:
            weights[~np.isfinite(norms)] = 0.0
        return weights

    def state(self) -> State:
        """Return the state as flat entries."""
        state: State = {"factor": float(self.factor), "recent": self.recent}
        if self.total is not None and self.mass is not None:
            state |= {"total": self.total, "mass": self.mass}
        return state

    @classmethod
    def from_state(cls, state: Mapping[str, Any], n_features: int | None) -> RangeGuard:
        """Return the guard that ``state()`` was called on, for rows of ``n_features`` columns (None: no row yet)."""
        guard = cls(float(state["factor"]), state["recent"], state.get("total"), state.get("mass"))
        # Compiled code does not check the bounds of its arrays, and a state may be damaged or forged.
        arrays = [guard.recent] if n_features is None else [guard.recent, guard.total, guard.mass]
        if not all(isinstance(a, np.ndarray) and a.dtype == np.float64 and a.ndim == 1 for a in arrays) or not all(
            len(a) == n_features for a in arrays[1:] if a is not None
        ):
            raise StateError(f"the entries of the saved guard do not fit together, or not {n_features} columns")
        return guard
