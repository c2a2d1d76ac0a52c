"""The range guard: a row far larger than the usual ones is learnt with a small weight."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from driftsurf.base import FloatArray, Rows, State
from driftsurf.errors import OptionError
from driftsurf.samples import squared_norms

__all__ = ["RangeGuard"]

MEMORY = 1024
QUANTILE = 0.9


@dataclass(frozen=True)
class RangeGuard:
    """Weights that bound what one absurd row can do to a linear model, a gradient average or a risk.

    Rows up to ``factor`` times the usual norm (the 0.9 quantile over the last 1,024 rows that are
    not zero) have weight 1. A row beyond that has weight (factor * usual / norm)^2: the curvature of
    its loss is then that of a row at the limit, so a step size that suits ordinary rows suits it
    too, and its loss and gradient fall off as 1 / norm. A value of 1e6 among ordinary ones counts for
    almost nothing, one whose square overflows for nothing. A lasting change of scale is followed
    after about a hundred rows. A guard is a value: ``weigh`` returns the next one.

    Examples
    --------
    >>> X = np.ones((100, 1)); X[3] = 1e6
    >>> weights, guard = RangeGuard(factor=2.0).weigh(X)
    >>> weights[:5]
    array([1.e+00, 1.e+00, 1.e+00, 4.e-12, 1.e+00])
    """

    factor: float = 2.0
    recent: FloatArray = field(default_factory=lambda: np.zeros(0))
    """Squared norms of the last rows, oldest first."""

    def __post_init__(self) -> None:
        if not (isinstance(self.factor, int | float) and self.factor >= 1.0):
            raise OptionError(f"guard is {self.factor!r}; give a number of at least 1, or None for no guard")

    def weigh(self, X: Rows) -> tuple[FloatArray, RangeGuard]:
        """The weights of these rows, and the guard that has seen them."""
        norms = squared_norms(X)
        recent = np.concatenate([self.recent, norms[norms > 0.0]])
        weights = np.ones(len(norms))
        if len(recent):
            limit = self.factor**2 * float(np.quantile(recent, QUANTILE, method="lower"))
            if math.isfinite(limit):
                large = norms > limit
                weights[large] = limit / norms[large]
            else:
                weights[~np.isfinite(norms)] = 0.0
        return weights, replace(self, recent=recent[-MEMORY:])

    def state(self) -> State:
        """As flat entries."""
        return {"factor": float(self.factor), "recent": self.recent}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> RangeGuard:
        """The guard that gave ``state``."""
        return cls(float(state["factor"]), state["recent"])
