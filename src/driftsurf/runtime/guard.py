"""The range guard: a row far larger than the usual ones is learnt with a small weight."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from driftsurf import _kernels
from driftsurf._options import number
from driftsurf._values import replace
from driftsurf.base import CSR, FloatArray, Rows, State
from driftsurf.errors import StateError
from driftsurf.sizes import CAP, measure, squared_norms, usual_sizes

__all__ = ["RangeGuard"]

MEMORY = 1024
QUANTILE = 0.9
COLUMN_MEMORY = 10_000


@dataclass(frozen=True)
class RangeGuard:
    """Weights that bound what one absurd row can do to a linear model, a gradient average or a risk.

    Each column is measured by its usual size (a robust mean of its absolute non-zero values), so that
    a value may be absurd in one column and ordinary in another. Rows whose norm in these units is up to
    ``factor`` times the usual norm (the 0.9 quantile over the last 1,024 rows that are not zero) have
    weight 1. A row beyond that has weight (factor * usual / norm)^2: the curvature of its loss is then
    that of a row at the limit, so a step size that suits ordinary rows suits it too, and its loss and
    gradient fall off as 1 / norm. (For a quadratic loss a session squares the weight once more.) A value
    of 1e6 among ordinary ones counts for almost nothing, one whose square overflows for nothing. A lasting
    change of scale is followed after about a hundred rows. A guard is a value: ``weigh`` returns the next one.

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
    """For each column: the weighted sum of its absolute values, and the weight of its non-zeros."""

    def __post_init__(self) -> None:
        number("guard", self.factor, at_least=1.0, otherwise=", or None for no guard")

    def weigh(self, X: Rows) -> tuple[FloatArray | None, RangeGuard]:
        """The weights of these rows (None: all 1), and the guard that has seen them."""
        n_features = X.n_features if isinstance(X, CSR) else X.shape[1]
        columns, without = self._columns(n_features)
        new = columns[3] == 0.0 if without else None
        norms, largest, zeros = measure(X, columns)
        if new is not None and columns[3][new].any():  # their size is that in these rows
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
        """What is known of the columns, and of how many nothing is; what came 10,000 rows ago counts ever less."""
        columns = np.empty((4, n_features))
        if self.total is None or self.mass is None:
            columns[0], columns[1:] = 1.0, 0.0
            return columns, n_features
        return columns, _kernels.column_sizes(self.total, self.mass, COLUMN_MEMORY, CAP, columns)

    def _weights(self, norms: FloatArray, largest: float, recent: FloatArray) -> FloatArray | None:
        if len(recent) == 0:
            return None
        place = math.floor(QUANTILE * (len(recent) - 1))
        # The quantile reaches this if at most ``place`` values are below; 1e-12 is more than rounding does.
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
        """As flat entries."""
        state: State = {"factor": float(self.factor), "recent": self.recent}
        if self.total is not None and self.mass is not None:
            state |= {"total": self.total, "mass": self.mass}
        return state

    @classmethod
    def from_state(cls, state: Mapping[str, Any], n_features: int | None) -> RangeGuard:
        """The guard that gave ``state``, for rows of ``n_features`` columns (None: no row yet)."""
        guard = cls(float(state["factor"]), state["recent"], state.get("total"), state.get("mass"))
        # Compiled code does not look at the bounds of its arrays, and bytes can be made up.
        arrays = [guard.recent] if n_features is None else [guard.recent, guard.total, guard.mass]
        if not all(isinstance(a, np.ndarray) and a.dtype == np.float64 and a.ndim == 1 for a in arrays) or not all(
            len(a) == n_features for a in arrays[1:] if a is not None
        ):
            raise StateError("the entries of the saved guard do not fit together")
        return guard
