"""Learn++.NSE: one new expert per batch, trained on the mistakes of the ensemble; votes by errors over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from driftsurf.core import numeric
from driftsurf.core.changes import UndoStack
from driftsurf.core.contracts import Batch, FloatArray, Learner, Segment, State
from driftsurf.core.decisions import Decision
from driftsurf.core.fields import Array, Fields
from driftsurf.core.options import number, whole
from driftsurf.registry import CLASSIFICATION, Example, register
from driftsurf.reproduction.strategies._ensemble import Ensemble, VotingStrategy
from driftsurf.strategies._ageing import Reweighted
from driftsurf.strategies._pool import DEFAULT_MAX_ROWS, Member
from driftsurf.strategies._votes import labels_of_all, row_errors

LEAST_BETA = 1e-10
"""Smallest beta: an expert without a mistake has a large vote, not an infinite one."""


@register(
    "strategy",
    "learn-nse",
    title="Learn++.NSE",
    tasks=CLASSIFICATION,
    needs={"weights"},
    family="ensemble",
    examples=[Example({"experts": 3})],
)
class LearnNSE(VotingStrategy):
    r"""Learn++.NSE: each batch trains one expert, with rows weighted by the mistakes of the ensemble before it.

    Let E be the error of the ensemble on batch t. A row gets the weight 1 if the ensemble was wrong on it and E if it
    was right (times its own weight; the sum is left unchanged). With these weights D a new expert is trained, and the
    error of every expert k on the batch is

    .. math:: \varepsilon_k^t = \sum_i D(i)\, [h_k(x_i) \ne y_i], \qquad
        \beta_k^t = \varepsilon_k^t / (1 - \varepsilon_k^t), \qquad \varepsilon_k^t \le 1/2.

    Its vote is :math:`\log 1 / \bar\beta_k^t`, where the mean over its life is weighted by a sigmoid of its age
    at the time, :math:`1 / (1 + e^{-a (s - k - b)})` at step s, so that recent steps count most.

    Errors above 1/2 are set to 1/2, so that such an expert has no vote; the published algorithm would train a new
    expert with such an error again. Experts are trained once, and no rows are stored.

    Parameters
    ----------
    learner
        Template of all experts. It must be a classifier with the capability ``weights``.
    experts
        The largest number of experts, of which the oldest is removed; None keeps all.
    slope
        a, the slope of the sigmoid.
    crossing
        b, the age in steps at which the sigmoid is 1/2.
    max_rows, dtype, seed
        As for :class:`driftsurf.strategies.DriftSurf`.

    Examples
    --------
    >>> import numpy as np
    >>> from driftsurf.core.contracts import Batch
    >>> from driftsurf.learners import LogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> strategy = LearnNSE(LogisticRegression(), seed=1)
    >>> strategy.begin(n_features=2, sparse=False, n_classes=2)
    >>> for step in range(8):  # the labels are inverted from step 6 on: older experts lose their votes
    ...     X = rng.normal(size=(100, 2))
    ...     decision = strategy.step(Batch(X, ((X[:, 0] > 0) == (step < 6)).astype(float), np.ones(100)))
    >>> [model.id for model in decision.models if model.weight > 0.3]
    [6, 7]

    References
    ----------
    R. Elwell, R. Polikar. Incremental learning of concept drift in nonstationary environments. IEEE Transactions
    on Neural Networks, 2011.
    """

    def __init__(
        self,
        learner: Learner,
        *,
        experts: int | None = 100,
        slope: float = 0.5,
        crossing: float = 10.0,
        max_rows: int | None = DEFAULT_MAX_ROWS,
        dtype: str = "float64",
        seed: int = 0,
    ) -> None:
        super().__init__(learner, max_rows=max_rows, dtype=dtype, seed=seed)
        self.experts = experts
        self.slope = slope
        self.crossing = crossing

    def _check(self) -> None:
        if self.experts is not None:
            whole("experts", self.experts, at_least=1, otherwise=", or None")
        number("slope", self.slope, at_least=0.0)
        number("crossing", self.crossing, at_least=0.0)
        self._require("weights")
        self._require_classes()

    def _first(self) -> Ensemble:
        return Ensemble(memory=np.zeros((0, 2)))

    def _learning(self, live: Ensemble) -> tuple[Member, ...]:
        return ()

    def _advance(self, live: Ensemble, segment: Segment, undo: UndoStack) -> tuple[Ensemble, Decision]:
        batch = self._pool.samples.view(segment)
        factor = np.ones(len(segment)) if not live.experts else emphasis(self._vote_on(batch.X), batch)
        newcomer = self._pool.make(live.step, segment.lo)
        stressed = Reweighted(self._pool.samples, lambda part: factor[part.lo - segment.lo : part.hi - segment.lo])
        spent = self._pool.train(newcomer, segment, self.learner.budget(segment), undo, seen_as=stressed)
        self._pool.retire(newcomer, undo=undo)
        kept = slice(None if self.experts is None else -int(self.experts), None)
        experts = (*live.experts, newcomer)[kept]
        memory = np.vstack([live.memory, np.zeros(2)])[kept]
        if batch.weight.any():
            ballots = [*(self._ballots_on(batch.X) if live.experts else ()), newcomer.learner.scores(batch.X)][kept]
            memory = memory + self._evidence([live.step - e.born for e in experts], ballots, stressed.view(segment))
        # The sums of weighted betas and of their weights are the whole history of an expert; without evidence beta is
        # 1.
        mean = np.divide(memory[:, 0], memory[:, 1], out=np.ones(len(memory)), where=memory[:, 1] > 0.0)
        votes = numeric.log(1.0 / np.maximum(mean, LEAST_BETA))
        after = Ensemble(experts, tuple(votes.tolist()), live.step + 1, memory)
        shares = votes / (votes.sum() or 1.0)
        records = [
            expert.record("expert", live.step, weight=share, gradients=spent if expert is newcomer else 0)
            for expert, share in zip(experts, shares.tolist(), strict=True)
        ]
        return after, self._decision(live, after, segment, records)

    def _evidence(self, ages: list[int], ballots: Sequence[FloatArray], batch: Batch) -> FloatArray:
        """Return what a batch adds to the sum of each expert's weighted betas, and to the sum of the weights."""
        wrong = labels_of_all(ballots) != batch.y
        error = np.minimum((batch.weight * wrong).sum(axis=1) / batch.weight.sum(), 0.5)
        sigmoid = 1.0 / (1.0 + numeric.exp(-self.slope * (np.array(ages) - self.crossing)))
        return np.column_stack([sigmoid * error / (1.0 - error), sigmoid])

    def _memory_state(self, memory: FloatArray) -> State:
        return {"betas": memory}

    def _memory_from(self, state: Mapping[str, Any], experts: int) -> FloatArray:
        betas: FloatArray = MEMORY_FIELDS.read(state, experts=experts)["betas"]
        return betas


MEMORY_FIELDS = Fields({"betas": Array(np.float64, ("experts", 2), least=0.0)})
"""Saved sums over the history of each expert."""


def emphasis(scores: FloatArray, batch: Batch) -> FloatArray:
    """Return factors of the row weights that stress the mistakes and leave the sum of the weights unchanged."""
    wrong = row_errors(scores, batch.y)
    mass, missed = batch.weight.sum(), (batch.weight * wrong).sum()
    if missed == 0.0:  # no mistake to stress
        return np.ones(len(wrong))
    factor = np.where(wrong > 0.0, 1.0, missed / mass)
    return np.asarray(factor * (mass / (batch.weight * factor).sum()))
