"""AUE: an ensemble whose experts are all updated, weighted by their error on the last batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from driftsurf.core.changes import UndoStack, replace
from driftsurf.core.contracts import FloatArray, Learner, Segment
from driftsurf.core.decisions import Decision
from driftsurf.core.options import choice, whole
from driftsurf.native.experts import rate_voters
from driftsurf.registry import ALL_TASKS, Example, register
from driftsurf.reproduction.strategies._ensemble import Ensemble, VotingStrategy
from driftsurf.strategies._pool import DEFAULT_MAX_ROWS
from driftsurf.strategies._votes import squared_errors

TINY = 1e-20


@register("strategy", "aue", tasks=ALL_TASKS, family="ensemble", shares_budget=True, examples=[Example({"experts": 3})])
class AUE(VotingStrategy):
    r"""Accuracy Updated Ensemble (AUE2): experts that all learn each batch and vote by their last error.

    After each batch every expert i gets the weight

    .. math:: w_i = \frac{1}{MSE_r + MSE_i + \epsilon}, \qquad MSE_i = \frac{1}{m} \sum_x (1 - p_i(y | x))^2,

    where p_i(y|x) is the probability it gave to the true class and MSE_r = sum_y p(y) (1 - p(y))^2 the error of
    guessing by the class shares of the batch. A new expert joins with the weight 1 / (MSE_r + eps), as if it were
    perfect; if there are k already, the one with the lowest weight is removed. Then all experts, the new one included,
    learn the batch. Predictions are the weighted vote of labels. For regression, MSE_i is the squared error, MSE_r the
    variance of the batch, and the prediction the weighted mean.

    Parameters
    ----------
    learner
        Template of all experts.
    experts
        k, the largest number of experts.
    budget
        "each" gives rho gradients to every expert; "divided" splits rho in proportion to the weights, as the code of
        the paper's authors does; "equal" splits it equally, as the paper's text says.
    max_rows, dtype, seed
        As for :class:`driftsurf.strategies.DriftSurf`.

    Examples
    --------
    >>> import numpy as np
    >>> from driftsurf.core.contracts import Batch
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
        super().__init__(learner, max_rows=max_rows, dtype=dtype, seed=seed)
        self.experts = experts
        self.budget = budget

    def _check(self) -> None:
        whole("experts", self.experts, at_least=1)
        choice("budget", self.budget, ("each", "divided", "equal"))

    def _advance(self, live: Ensemble, segment: Segment, undo: UndoStack) -> tuple[Ensemble, Decision]:
        batch = self._pool.samples.view(segment)
        if not batch.weight.any():  # no evidence: the ensemble stays as it is
            after = replace(live, step=live.step + 1)
            records = [e.record("expert", live.step, weight=w) for e, w in zip(live.experts, live.weights, strict=True)]
            return after, self._decision(live, after, segment, records)
        experts = list(live.experts)
        ballots = self._ballots_on(batch.X) if experts else ()
        guess, errors = mean_squared_errors(ballots, batch.y, batch.weight, self._can.regression)
        weights: list[float] = (1.0 / (guess + errors + TINY)).tolist()
        removed = []
        if len(experts) == self.experts:
            weakest = weights.index(min(weights))
            weights.pop(weakest)
            removed = [experts.pop(weakest).record("expert", live.step)]
        experts.append(self._pool.make(live.step, segment.lo))
        weights.append(1.0 / (guess + TINY))
        shares = np.array(weights) / sum(weights)
        spent = self._pool.train_all(experts, segment, self._steps(segment, shares), undo)
        records = [
            expert.record("expert", live.step, weight=share, gradients=count)
            for expert, share, count in zip(experts, shares.tolist(), spent, strict=True)
        ]
        after = Ensemble(tuple(experts), tuple(shares.tolist()), live.step + 1)
        return after, self._decision(live, after, segment, removed + records)

    def _steps(self, segment: Segment, shares: FloatArray) -> list[int]:
        """Return the budget of each expert."""
        rho = self.learner.budget(segment)
        if self.budget == "divided":
            return [int(rho * share) for share in shares]
        return [rho if self.budget == "each" else rho // len(shares)] * len(shares)


def mean_squared_errors(
    ballots: Sequence[FloatArray], y: FloatArray, weight: FloatArray, regression: bool = False
) -> tuple[float, FloatArray]:
    """Return the weighted mean squared error of guessing, and that of each model."""
    if not len(ballots):
        return guessing_error(y, weight, regression), np.zeros(0)
    if regression or ballots[0].ndim == 2:
        return guessing_error(y, weight, regression), weighted_mean(squared_errors(ballots, y, regression), weight)
    return rate_voters(np.asarray(ballots), y, weight)


def guessing_error(y: FloatArray, weight: FloatArray, regression: bool = False) -> float:
    """Return MSE_r, the squared error of guessing by the class shares; for regression, the variance."""
    if regression:
        return float(weighted_mean(np.square(y - weighted_mean(y, weight)), weight))
    shares = np.bincount(y.astype(np.int64), weights=weight) / weight.sum()
    return float((shares * (1.0 - shares) ** 2).sum())


def weighted_mean(values: FloatArray, weight: FloatArray) -> Any:
    """Return the weighted mean of the last axis."""
    return (weight * values).sum(axis=-1) / weight.sum()
