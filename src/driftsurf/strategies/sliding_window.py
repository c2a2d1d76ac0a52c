"""Sliding window: one model, trained on the last rows only."""

from __future__ import annotations

import numpy as np

from driftsurf._options import whole
from driftsurf.base import FloatArray, Learner
from driftsurf.strategies._ageing import AgeingModel

__all__ = ["SlidingWindow"]


class SlidingWindow(AgeingModel):
    """One model whose sample set is the last ``window`` rows, first in, first out.

    The simplest way to live with drift, as the first FLORA did: it recovers from any drift within a window,
    whether it noticed or not, and pays with the rows that it forgets where nothing drifts. The model itself
    is not begun anew: what it learnt of forgotten rows fades with its further steps.

    Parameters
    ----------
    learner
        The template of the model.
    window
        How many rows the sample set holds. Rows leave before the new ones are learnt.
    max_rows, dtype, seed
        As for :class:`driftsurf.strategies.DriftSurf`; the window bounds the rows already.

    Examples
    --------
    >>> from driftsurf.base import Batch
    >>> from driftsurf.learners import LogisticRegression
    >>> strategy = SlidingWindow(LogisticRegression(), window=200)
    >>> strategy.begin(n_features=1, sparse=False, n_classes=2)
    >>> X = np.linspace(-1, 1, 100).reshape(-1, 1)
    >>> for sign in (1, 1, 1, 1, -1, -1, -1, -1):  # the labels turn around once
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

    def _faded(self, age: FloatArray) -> FloatArray:
        return np.ones_like(age)
