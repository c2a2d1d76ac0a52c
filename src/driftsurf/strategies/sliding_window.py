"""Sliding window: one model trained on the last rows only."""

from __future__ import annotations

import numpy as np

from driftsurf.core.contracts import FloatArray, Learner
from driftsurf.core.options import whole
from driftsurf.registry import ALL_TASKS, Example, register
from driftsurf.strategies._ageing import AgeingModel


@register(
    "strategy",
    "sliding-window",
    title="Sliding window",
    tasks=ALL_TASKS,
    batches={"window": 10},
    examples=[Example({"window": 100})],
)
class SlidingWindow(AgeingModel):
    """One model whose sample set is the last ``window`` rows, first in, first out.

    The simplest way to adapt to drift, as in the first FLORA: the model recovers from any drift within a window,
    detected or not, and pays with the rows it forgets when nothing drifts. The model itself is not reset: what it
    learned from forgotten rows fades with further steps.

    Parameters
    ----------
    learner
        Template of the model.
    window
        Number of rows in the sample set. Old rows are dropped before new ones are learned.
    max_rows, dtype, seed
        As for :class:`driftsurf.strategies.DriftSurf`; the window already bounds the rows.

    Examples
    --------
    >>> import numpy as np
    >>> from driftsurf.core.contracts import Batch
    >>> from driftsurf.learners import LogisticRegression
    >>> strategy = SlidingWindow(LogisticRegression(), window=200)
    >>> strategy.begin(n_features=1, sparse=False, n_classes=2)
    >>> X = np.linspace(-1, 1, 100).reshape(-1, 1)
    >>> for sign in (1, 1, 1, 1, -1, -1, -1, -1):  # the labels are inverted once
    ...     decision = strategy.step(Batch(X, (sign * X[:, 0] > 0).astype(float), np.ones(100)))
    >>> bool(strategy.scores(np.array([[0.5]]))[0] > 0)
    False

    References
    ----------
    G. Widmer, M. Kubat. Learning in the presence of concept drift and hidden contexts. Machine Learning, 1996.
    """

    def __init__(
        self,
        learner: Learner,
        *,
        window: int = 10_000,
        max_rows: int | None = None,
        dtype: str = "float64",
        seed: int = 0,
    ) -> None:
        super().__init__(learner, max_rows=max_rows, dtype=dtype, seed=seed)
        self.window = window

    def _check(self) -> None:
        whole("window", self.window, at_least=1)

    def _span(self) -> int:
        return int(self.window)

    def _fades(self) -> bool:
        return False

    def _fading(self, age: FloatArray) -> FloatArray:
        return np.ones_like(age)
