"""The range guard: a row far larger than the usual ones is learnt with a small weight."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from driftsurf._options import number
from driftsurf._values import replace
from driftsurf.base import CSR, FloatArray, Rows, State
from driftsurf.errors import StateError
from driftsurf.sizes import measure, squared_norms, usual_sizes

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
    gradient fall off as 1 / norm. A value of 1e6 among ordinary ones counts for almost nothing, one
    whose square overflows for nothing. A lasting change of scale is followed after about a hundred
    rows. A guard is a value: ``weigh`` returns the next one.

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

    def weigh(self, X: Rows) -> tuple[FloatArray, RangeGuard]:
        """The weights of these rows, and the guard that has seen them."""
        n_features = X.n_features if isinstance(X, CSR) else X.shape[1]
        total, mass = self._columns(n_features)
        new = mass == 0.0
        sizes = np.divide(total, mass, out=np.zeros(n_features), where=~new) if new.any() else total / mass
        norms = measure(X, sizes, total, mass)
        if (mass[new] > 0.0).any():  # columns that had no value before: their size is that in these rows
            total, mass = self._columns(n_features)
            finite = np.isfinite(squared_norms(X, np.ones(n_features + 1), np.zeros(n_features + 1)))
            sizes[new] = usual_sizes(X, finite.astype(np.float64))[new]
            norms = measure(X, sizes, total, mass)
        recent = np.concatenate([self.recent, norms if norms.all() else norms[norms > 0.0]])
        weights = self._weights(norms, recent)
        return weights, replace(self, recent=recent[-MEMORY:], total=total, mass=mass)

    def _columns(self, n_features: int) -> tuple[FloatArray, FloatArray]:
        """What is known of the columns; what came more than 10,000 rows ago counts ever less."""
        if self.total is None or self.mass is None:
            return np.zeros(n_features), np.zeros(n_features)
        fade = 0.5 if self.mass.max(initial=0.0) > COLUMN_MEMORY else 1.0
        return fade * self.total, fade * self.mass

    def _weights(self, norms: FloatArray, recent: FloatArray) -> FloatArray:
        weights = np.ones(len(norms))
        if len(recent) == 0:
            return weights
        place = math.floor(QUANTILE * (len(recent) - 1))
        # The quantile reaches this if at most ``place`` values are below; 1e-12 is more than rounding does.
        enough = float(norms.max()) / self.factor**2 * (1.0 + 1e-12)
        if math.isfinite(enough) and np.count_nonzero(recent < enough) <= place:
            return weights
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
