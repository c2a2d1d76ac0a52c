"""Aware: the oracle that is told when drifts occur."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Literal

from driftsurf._options import choice, whole
from driftsurf.base import Learner, Segment
from driftsurf.errors import OptionError
from driftsurf.strategies._pool import DEFAULT_MAX_ROWS
from driftsurf.strategies._single import Single, SingleModel

__all__ = ["Aware"]

TOLD = "told of a drift"


class Aware(SingleModel):
    """One model, replaced by a fresh one at each drift.

    What it reaches is what an algorithm that is not told can hope for: the paper calls an algorithm
    risk-competitive if its sub-optimality is within a constant factor of this one's. With no drift
    steps it is a single model trained on everything.

    Parameters
    ----------
    learner
        The template of all models.
    drift_steps
        The steps (from 0) of the first batch of a new concept.
    told
        When it learns of a drift: "before" the first batch of the new concept, which a fresh model then
        predicts and learns (the paper's); or "after" the old model has predicted that batch (the
        alternative in the paper's appendix), when the fresh model only learns it.
    max_rows, dtype, seed
        As for :class:`driftsurf.strategies.DriftSurf`.

    Examples
    --------
    >>> import numpy as np
    >>> from driftsurf.base import Batch
    >>> from driftsurf.learners import LogisticRegression
    >>> strategy = Aware(LogisticRegression(), drift_steps=[2])
    >>> strategy.begin(n_features=1, sparse=False, n_classes=2)
    >>> batch = Batch(np.ones((5, 1)), np.ones(5), np.ones(5))
    >>> [strategy.step(batch).predicted_by for _ in range(4)]
    [0, 0, 1, 1]
    """

    def __init__(
        self,
        learner: Learner,
        drift_steps: Collection[int] = (),
        *,
        told: Literal["before", "after"] = "before",
        max_rows: int | None = DEFAULT_MAX_ROWS,
        dtype: str = "float64",
        seed: int = 0,
    ) -> None:
        super().__init__(learner, max_rows=max_rows, dtype=dtype, seed=seed)
        self.drift_steps = drift_steps
        self.told = told

    def _check(self) -> None:
        choice("told", self.told, ("before", "after"))
        if not isinstance(self.drift_steps, Collection):
            raise OptionError(f"drift_steps is {self.drift_steps!r}; give a list of steps, such as [25, 50]")
        for step in self.drift_steps:
            whole("drift_steps", step, at_least=0)

    def _watch(self, live: Single, segment: Segment) -> tuple[str, Any]:
        late = self.told == "after" and live.step > 0 and live.step in self.drift_steps
        return (TOLD if late else ""), None

    def _foresee(self, next_step: int) -> str:
        return TOLD if self.told == "before" and next_step in self.drift_steps else ""
