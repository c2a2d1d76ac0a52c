"""Exponential decay: one model whose rows lose half of their weight with each half-life."""

from __future__ import annotations

import math

import numpy as np

from driftsurf.core.contracts import FloatArray, Learner
from driftsurf.core.options import LARGEST, number
from driftsurf.registry import ALL_TASKS, Example, register
from driftsurf.strategies._ageing import AgeingModel

HALVINGS = math.log2(100.0)
"""Half-lives after which a row has one per cent of its weight left."""


@register(
    "strategy",
    "exponential-decay",
    title="Exponential decay",
    tasks=ALL_TASKS,
    needs={"weights"},
    batches={"half_life": 5},
    examples=[Example({"half_life": 50})],
)
class ExponentialDecay(AgeingModel):
    r"""One model over all rows, whose weights are halved with every half-life.

    A row that :math:`a` newer rows have followed has its own weight times

    .. math:: w(a) = 2^{-a / h},

    where h is the half-life. It is forgotten when less than one per cent is left, after 6.6 half-lives. The weight
    applies to a gradient at the moment it is computed, as in :class:`~driftsurf.strategies.LinearDecay`.

    Parameters
    ----------
    learner
        Template of the model. It needs the capability ``weights``.
    half_life
        h, in rows.
    max_rows, dtype, seed
        As for :class:`driftsurf.strategies.DriftSurf`; the decay already bounds the rows.

    Examples
    --------
    >>> import numpy as np
    >>> from driftsurf.core.contracts import Batch
    >>> from driftsurf.learners import LogisticRegression
    >>> strategy = ExponentialDecay(LogisticRegression(), half_life=100)
    >>> strategy.begin(n_features=1, sparse=False, n_classes=2)
    >>> X = np.linspace(-1, 1, 100).reshape(-1, 1)
    >>> for sign in (1, 1, 1, 1, -1, -1, -1, -1):  # the labels are inverted once
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
        number("half_life", self.half_life, above=0.0, below=LARGEST / HALVINGS)  # a number of rows
        self._require("weights")

    def _span(self) -> int:
        return 1 + math.floor(HALVINGS * self.half_life)

    def _fading(self, age: FloatArray) -> FloatArray:
        return np.exp2(-age / self.half_life)
