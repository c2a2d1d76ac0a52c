"""Exponential decay: one model whose rows lose half of their weight with every so many rows that follow."""

from __future__ import annotations

import math

import numpy as np

from driftsurf._options import number
from driftsurf.base import FloatArray, Learner
from driftsurf.strategies._ageing import AgeingModel
from driftsurf.strategies._reweighted import check_weights

__all__ = ["ExponentialDecay"]

HALVINGS = math.log2(100.0)
"""After so many half-lives a row has one per cent of its weight left."""


class ExponentialDecay(AgeingModel):
    r"""One model that minimises its loss over all rows, each with a weight that is halved again and again:

    .. math:: w(a) = 2^{-a / h},

    a the age in rows and h the half-life, times the weight that the row came with. A row with less than one
    per cent left, 6.6 half-lives old, is forgotten.

    The decay shows in a gradient at the moment when it is taken. A learner that keeps gradients (STRSAGA, SAGA)
    has them from the last visit to each row, with the weight of that time, until the row is drawn again;
    a row that is forgotten takes with it exactly what was kept for it.

    Parameters
    ----------
    learner
        The template of the model. It needs the capability ``weights``.
    half_life
        h, in rows.
    max_rows, dtype, seed
        As for :class:`driftsurf.strategies.DriftSurf`; the decay bounds the rows already.

    Examples
    --------
    >>> from driftsurf.base import Batch
    >>> from driftsurf.learners import LogisticRegression
    >>> strategy = ExponentialDecay(LogisticRegression(), half_life=100)
    >>> strategy.begin(n_features=1, sparse=False, n_classes=2)
    >>> X = np.linspace(-1, 1, 100).reshape(-1, 1)
    >>> for sign in (1, 1, 1, 1, -1, -1, -1, -1):  # the labels turn around once
    ...     decision = strategy.step(Batch(X, (sign * X[:, 0] > 0).astype(float), np.ones(100)))
    >>> bool(strategy.scores(np.array([[0.5]]))[0] > 0)
    False

    References
    ----------
    R. Klinkenberg. Learning drifting concepts: example selection vs. example weighting. Intelligent Data
    Analysis, 2004.
    """

    def __init__(
        self,
        learner: Learner,
        *,
        half_life: float = 2_000.0,
        max_rows: int | None = None,
        dtype: str = "float64",
        seed: int = 0,
    ) -> None:
        super().__init__(learner, max_rows=max_rows, dtype=dtype, seed=seed)
        self.half_life = half_life

    def _check(self) -> None:
        number("half_life", self.half_life, above=0.0)
        check_weights(self.learner, self)

    def _span(self) -> int:
        return 1 + math.floor(HALVINGS * self.half_life)

    def _faded(self, age: FloatArray) -> FloatArray:
        return np.exp2(-age / self.half_life)
