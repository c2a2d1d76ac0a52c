"""DWM: experts lose weight with their mistakes; a mistake of the whole ensemble adds a new one."""

from __future__ import annotations

import numpy as np

from driftsurf.core.changes import UndoStack
from driftsurf.core.contracts import Learner, Segment
from driftsurf.core.decisions import Decision
from driftsurf.core.fields import FieldRule, Fields
from driftsurf.core.options import choice, number, whole
from driftsurf.registry import CLASSIFICATION, Example, register
from driftsurf.reproduction.strategies._ensemble import Ensemble, VotingStrategy, voting_fields
from driftsurf.strategies._pool import DEFAULT_MAX_ROWS, BudgetRule
from driftsurf.strategies._votes import labels_of_all


@register("strategy", "dwm", tasks=CLASSIFICATION, family="ensemble", examples=[Example({"period": 10, "experts": 3})])
class DWM(VotingStrategy):
    r"""Dynamic Weighted Majority: experts that lose weight by mistakes, and a new one when the vote is wrong.

    At every p-th row of the stream, each expert j that predicts it wrongly loses weight,

    .. math:: w_j \leftarrow \beta w_j.

    The changed weights vote; then all are divided by the largest, and experts below theta are removed. If the vote was
    wrong, a new expert joins with weight 1. Every expert learns every row.

    The published algorithm works row by row. Here the experts do not change while a batch is evaluated; a batch adds at
    most one new expert, which learns this batch and has no vote in it; and the first batch, which an untrained expert
    predicts, changes no weight. Rows without weight change no weight either.

    Parameters
    ----------
    learner
        Template of all experts. It must be a classifier.
    beta
        Factor of the weight of an expert that is wrong.
    period
        p, in rows.
    removal
        theta, the weight below which an expert is removed.
    experts
        The largest number of experts; when a new one joins, the one with the lowest weight is removed.
    budget
        "each" gives rho gradients to every expert, "divided" splits rho equally.
    max_rows, dtype, seed
        As for :class:`driftsurf.strategies.DriftSurf`.

    Examples
    --------
    >>> import numpy as np
    >>> from driftsurf.core.contracts import Batch
    >>> from driftsurf.learners import LogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> strategy = DWM(LogisticRegression(), period=10, seed=1)
    >>> strategy.begin(n_features=2, sparse=False, n_classes=2)
    >>> for step in range(12):  # the labels are inverted from step 6 on
    ...     X = rng.normal(size=(100, 2))
    ...     decision = strategy.step(Batch(X, ((X[:, 0] > 0) == (step < 6)).astype(float), np.ones(100)))
    >>> [(model.id, model.first_row) for model in decision.models if model.weight > 0.5]
    [(1, 600)]

    References
    ----------
    J. Z. Kolter, M. A. Maloof. Dynamic weighted majority: an ensemble method for drifting concepts. Journal of
    Machine Learning Research, 2007.
    """

    def __init__(
        self,
        learner: Learner,
        *,
        beta: float = 0.5,
        period: int = 50,
        removal: float = 0.01,
        experts: int = 10,
        budget: BudgetRule = "each",
        max_rows: int | None = DEFAULT_MAX_ROWS,
        dtype: str = "float64",
        seed: int = 0,
    ) -> None:
        super().__init__(learner, max_rows=max_rows, dtype=dtype, seed=seed)
        self.beta = beta
        self.period = period
        self.removal = removal
        self.experts = experts
        self.budget = budget

    def _check(self) -> None:
        number("beta", self.beta, above=0.0, below=1.0)
        whole("period", self.period, at_least=1)
        number("removal", self.removal, at_least=0.0, below=1.0)
        whole("experts", self.experts, at_least=1)
        choice("budget", self.budget, ("each", "divided"))
        self._require_classes()

    def _fields(self) -> Fields:
        return FIELDS

    def _first(self) -> Ensemble:
        return Ensemble((self._pool.make(step=0, first_row=0),), (1.0,))

    def _advance(self, live: Ensemble, segment: Segment, undo: UndoStack) -> tuple[Ensemble, Decision]:
        weights, mistaken = self._evaluate(live, segment)
        staying = [place for place, weight in enumerate(weights) if weight > 0.0]
        if mistaken and len(staying) == self.experts:
            staying.remove(min(staying, key=weights.__getitem__))
        removed = [e.record("expert", live.step) for place, e in enumerate(live.experts) if place not in staying]
        experts, weights = [live.experts[place] for place in staying], [weights[place] for place in staying]
        if mistaken:
            experts.append(self._pool.make(live.step, segment.lo))
            weights.append(1.0)
        rho = self.learner.budget(segment)
        steps = rho if self.budget == "each" else rho // len(experts)
        spent = self._pool.train_all(experts, segment, [steps] * len(experts), undo)
        records = [
            expert.record("expert", live.step, weight=weight / sum(weights), gradients=count)
            for expert, weight, count in zip(experts, weights, spent, strict=True)
        ]
        after = Ensemble(tuple(experts), tuple(weights), live.step + 1)
        return after, self._decision(live, after, segment, removed + records)

    def _evaluate(self, live: Ensemble, segment: Segment) -> tuple[list[float], bool]:
        """Return the weights after a batch (0: to be removed), and whether the vote was ever wrong."""
        weights, mistaken = np.array(live.weights), False
        batch = self._pool.samples.view(segment)
        places = [i for i in range(-(segment.lo + 1) % self.period, len(segment), self.period) if batch.weight[i] > 0.0]
        if live.step == 0 or not places:
            return weights.tolist(), False
        chosen = labels_of_all(self._ballots_on(batch.X))
        for i in places:
            truth = int(batch.y[i])
            weights[chosen[:, i] != truth] *= self.beta
            mistaken |= int(np.argmax(np.bincount(chosen[:, i], weights))) != truth
            weights /= weights.max()
            weights[weights < self.removal] = 0.0
        return weights.tolist(), mistaken


FIELDS = voting_fields(
    FieldRule(
        "weights",
        "must have values above 0, the largest of them 1",
        lambda known: (known["weights"] > 0.0).all() and known["weights"].max(initial=0.0) == 1.0,
    )
)
"""Saved entries of DWM, which divides all weights by the largest and removes the experts whose weight becomes 0."""
