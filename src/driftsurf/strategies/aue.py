"""AUE2: an ensemble whose experts are all updated, weighted by their error on the last batch."""

from __future__ import annotations

import contextlib
from typing import Any, Literal

import numpy as np

from driftsurf._options import choice, whole
from driftsurf._values import replace
from driftsurf.base import FloatArray, Learner, Segment
from driftsurf.decisions import Decision
from driftsurf.strategies._ensemble import Ensemble, VotingStrategy
from driftsurf.strategies._pool import DEFAULT_MAX_ROWS
from driftsurf.strategies._votes import squared_errors

__all__ = ["AUE"]

TINY = 1e-20


class AUE(VotingStrategy):
    r"""The Accuracy Updated Ensemble, as its authors' AUE2 and the paper's AUE.

    After each batch every expert i gets the weight

    .. math:: w_i = \frac{1}{MSE_r + MSE_i + \epsilon}, \qquad MSE_i = \frac{1}{m} \sum_x (1 - p_i(y | x))^2,

    where p_i(y|x) is the probability it gave to the true class and MSE_r = sum_y p(y) (1 - p(y))^2
    the error of guessing by the class shares of the batch. A newcomer enters with weight
    1 / (MSE_r + eps), as if it were perfect; of k experts the one with the lowest weight makes room.
    Then all experts, the newcomer included, learn the batch. Predictions are the weighted vote of labels.
    Where values are predicted, MSE_i is their squared error, MSE_r the variance of the batch and the
    prediction the weighted mean.

    Parameters
    ----------
    learner
        The template of all experts.
    experts
        k, the largest number of experts.
    budget
        "each" gives rho gradients to every expert; "divided" shares rho in proportion to the weights, as the
        paper's authors' code does; "equal" shares it equally, as the paper's text has it.
    max_rows, dtype, seed
        As for :class:`driftsurf.strategies.DriftSurf`.

    Examples
    --------
    >>> from driftsurf.base import Batch
    >>> from driftsurf.learners import LogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> strategy = AUE(LogisticRegression(), experts=3, seed=1)
    >>> strategy.begin(n_features=2, sparse=False, n_classes=2)
    >>> for step in range(5):
    ...     X = rng.normal(size=(100, 2))
    ...     decision = strategy.step(Batch(X, (X[:, 0] > 0).astype(float), np.ones(100)))
    >>> [model.id for model in decision.models if model.gradients]
    [0, 1, 4]

    References
    ----------
    D. Brzezinski, J. Stefanowski. Reacting to different types of concept drift: the Accuracy Updated
    Ensemble algorithm. IEEE Transactions on Neural Networks and Learning Systems, 2014.
    """

    def __init__(
        self,
        learner: Learner,
        *,
        experts: int = 10,
        budget: Literal["each", "divided", "equal"] = "each",
        max_rows: int | None = DEFAULT_MAX_ROWS,
        dtype: str = "float64",
        seed: int = 0,
    ) -> None:
        self.learner = learner
        self.experts = experts
        self.budget = budget
        self.max_rows = max_rows
        self.dtype = dtype
        self.seed = seed

    def _check(self) -> None:
        whole("experts", self.experts, at_least=1)
        choice("budget", self.budget, ("each", "divided", "equal"))

    def _advance(self, live: Ensemble, segment: Segment, undo: contextlib.ExitStack) -> tuple[Ensemble, Decision]:
        batch = self._pool.samples.view(segment)
        if not batch.weight.any():  # no evidence: nobody comes, nobody goes
            after = replace(live, step=live.step + 1)
            records = [e.record("expert", live.step, weight=w) for e, w in zip(live.experts, live.weights, strict=True)]
            return after, self._decision(live, after, segment, records)
        values = self._can.values
        guess = guessing_error(batch.y, batch.weight, values)
        experts, weights = list(live.experts), list[float]()
        if experts:
            wrong = squared_errors(self._ballots(batch.X), batch.y, values)
            weights = (1.0 / (guess + weighted_mean(wrong, batch.weight) + TINY)).tolist()
        gone = []
        if len(experts) == self.experts:
            weakest = weights.index(min(weights))
            weights.pop(weakest)
            gone = [experts.pop(weakest).record("expert", live.step)]
        experts.append(self._pool.make(live.step, segment.lo))
        weights.append(1.0 / (guess + TINY))
        shares = np.array(weights) / sum(weights)
        spent = self._pool.train_all(experts, segment, self._steps(segment, shares), undo)
        records = [
            expert.record("expert", live.step, weight=share, gradients=count)
            for expert, share, count in zip(experts, shares.tolist(), spent, strict=True)
        ]
        after = Ensemble(tuple(experts), tuple(shares.tolist()), live.step + 1)
        return after, self._decision(live, after, segment, gone + records)

    def _steps(self, segment: Segment, shares: FloatArray) -> list[int]:
        """The budget of each expert."""
        rho = self.learner.budget(segment)
        if self.budget == "divided":
            return [int(rho * share) for share in shares]
        return [rho if self.budget == "each" else rho // len(shares)] * len(shares)


def guessing_error(y: FloatArray, weight: FloatArray, values: bool = False) -> float:
    """MSE_r: the squared error of guessing by the class shares, with two classes p (1 - p); of values, the variance."""
    if values:
        return float(weighted_mean(np.square(y - weighted_mean(y, weight)), weight))
    shares = np.bincount(y.astype(np.int64), weights=weight) / weight.sum()
    return float((shares * (1.0 - shares) ** 2).sum())


def weighted_mean(values: FloatArray, weight: FloatArray) -> Any:
    """The mean of values under weights; of each row, if there are rows of them."""
    return (weight * values).sum(axis=-1) / weight.sum()
