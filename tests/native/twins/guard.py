"""The range guard in plain numpy, as ``driftsurf.session.guard`` describes it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from driftsurf.core.column_sizes import usual_sizes
from driftsurf.core.contracts import FloatArray

MEMORY, COLUMN_MEMORY = 1024, 10_000
QUANTILE, CAP, LIMIT, GROWN, EVIDENCE = 0.9, 3.0, 6.0, 5.0 / 3.0, 100.0


@dataclass(frozen=True)
class PlainGuard:
    """A range guard for dense rows."""

    factor: float = 2.0
    clips: bool = False
    recent: FloatArray = field(default_factory=lambda: np.zeros(0))
    total: FloatArray | None = None
    mass: FloatArray | None = None
    excess: FloatArray | None = None

    def admit(self, X: Any) -> tuple[Any, FloatArray | None, PlainGuard]:
        """Return the rows with limited values, their weights (None: all 1), and the guard after them."""
        X, d = np.asarray(X, np.float64), X.shape[1]
        if self.total is None or self.mass is None or self.excess is None:
            return replace(self, total=np.zeros(d), mass=np.zeros(d), excess=np.zeros(d)).admit(X)
        fade = 0.5 if self.mass.max(initial=0.0) > COLUMN_MEMORY else 1.0
        total, mass = fade * self.total, fade * self.mass
        size = np.divide(total, mass, out=np.zeros(d), where=mass > 0.0)
        factor, cap, excess = np.where(size > 0.0, 1.0 / np.where(size > 0.0, size, 1.0), 1.0), CAP * size, np.zeros(d)
        with np.errstate(over="ignore"):
            counted = X[np.square(X).sum(axis=1) < math.inf]
        sizes, values = self._sums(counted, cap)
        if self.clips:
            grown = self.excess + factor * sizes - GROWN * values
            excess = np.where((mass > 0.0) & (grown > 0.0), grown, 0.0)
        anew = (mass == 0.0) | (excess > EVIDENCE)
        if ((mass == 0.0) & (values > 0.0)).any() or (excess > EVIDENCE).any():
            size = np.where(anew, usual_sizes(counted, np.ones(len(counted))), size)
            factor, cap = np.where(size > 0.0, 1.0 / np.where(size > 0.0, size, 1.0), 1.0), CAP * size
            total, mass, excess = (np.where(anew, 0.0, one) for one in (total, mass, excess))
            sizes, values = self._sums(counted, cap)
        with np.errstate(over="ignore"):
            norms = np.square(X * factor).sum(axis=1)
        recent = np.concatenate([self.recent, norms[norms > 0.0]])
        weights, place = np.ones(len(X)), math.floor(QUANTILE * (len(recent) - 1))
        if len(recent):
            limit = self.factor**2 * np.sort(recent)[place]
            with np.errstate(invalid="ignore", divide="ignore"):
                ratio = limit / norms
            weights = np.where(norms > limit, ratio, 1.0) if limit < math.inf else np.where(norms < math.inf, 1.0, 0.0)
        if self.clips and (np.abs(factor * X) > LIMIT).any():
            X = np.clip(X, -LIMIT / CAP * cap, LIMIT / CAP * cap)
        after = PlainGuard(self.factor, self.clips, recent[-MEMORY:], total + sizes, mass + values, excess)
        return X, None if (weights == 1.0).all() else weights, after

    def _sums(self, X: Any, cap: FloatArray) -> tuple[Any, Any]:
        """Return the sums of capped sizes, and the numbers of values that are not 0."""
        return np.minimum(np.abs(X), cap).sum(axis=0), np.count_nonzero(X, axis=0).astype(np.float64)
