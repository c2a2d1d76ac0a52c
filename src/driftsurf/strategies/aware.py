"""Aware: an oracle that knows when drifts occur."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Literal

from driftsurf.core.contracts import Batch, FloatArray, Learner
from driftsurf.core.options import choice, shown, whole
from driftsurf.errors import OptionError
from driftsurf.registry import ALL_TASKS, Example, register
from driftsurf.strategies._pool import DEFAULT_MAX_ROWS
from driftsurf.strategies._single import SingleModel

REASON = "a drift is known to begin here"


@register(
    "strategy",
    "aware",
    tasks=ALL_TASKS,
    needs={"drift_steps"},
    family="oracle",
    examples=[Example({"drift_steps": [3]})],
)
class Aware(SingleModel):
    """One model that is replaced by a fresh one at each known drift.

    Its accuracy is what an algorithm without that knowledge can hope for: the paper calls an algorithm risk-competitive
    if its sub-optimality is within a constant factor of Aware's. Without drift steps it is a single model trained on
    all rows.

    Parameters
    ----------
    learner
        Template of all models.
    drift_steps
        Steps, from 0, of the first batch of each new concept.
    informed
        "before": a fresh model predicts and learns the first batch of the new concept, as in the paper. "after": the
        old model predicts that batch and the fresh model only learns it, as in the alternative of the paper's appendix.
    max_rows, dtype, seed
        As for :class:`driftsurf.strategies.DriftSurf`.

    Examples
    --------
    >>> import numpy as np
    >>> from driftsurf.core.contracts import Batch
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
        informed: Literal["before", "after"] = "before",
        max_rows: int | None = DEFAULT_MAX_ROWS,
        dtype: str = "float64",
        seed: int = 0,
    ) -> None:
        super().__init__(learner, max_rows=max_rows, dtype=dtype, seed=seed)
        self.drift_steps = drift_steps
        self.informed = informed

    def _check(self) -> None:
        choice("informed", self.informed, ("before", "after"))
        try:
            steps = list(self.drift_steps)
        except TypeError as error:
            raise OptionError(
                f"drift_steps is {shown(self.drift_steps)}; pass a list of steps, such as [25, 50]"
            ) from error
        for step in steps:
            whole("drift_steps", step, at_least=0)

    def watch(self, step: int, memory: Any, batch: Batch, scores: Callable[[], FloatArray]) -> tuple[str, Any]:
        """Ask for a fresh model at the drifts that are told after their first batch was predicted."""
        late = self.informed == "after" and step > 0 and step in self.drift_steps
        return (REASON if late else ""), None

    def foresee(self, next_step: int) -> str:
        """Ask for a fresh model at the drifts that are told beforehand."""
        return REASON if self.informed == "before" and next_step in self.drift_steps else ""
