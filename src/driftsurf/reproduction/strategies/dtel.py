"""DTEL: diverse historical models, each trained further on the newest batch, vote."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from driftsurf.core.changes import UndoStack, replace
from driftsurf.core.contracts import Batch, Learner, Segment, State
from driftsurf.core.decisions import Decision
from driftsurf.core.fields import Fields, Whole
from driftsurf.core.options import choice, whole
from driftsurf.registry import CLASSIFICATION, Example, register
from driftsurf.reproduction.strategies._diversity import most_alike, right_together
from driftsurf.reproduction.strategies._ensemble import Ensemble, VotingStrategy, restored, saved, voting_fields
from driftsurf.reproduction.strategies.aue import TINY, mean_squared_errors
from driftsurf.strategies._pool import DEFAULT_MAX_ROWS, BudgetRule, Member, Pool


@dataclass(frozen=True)
class History(Ensemble):
    """Models that vote, and the historical models that they were adapted from, oldest first."""

    historical: tuple[Member, ...] = ()

    @property
    def members(self) -> tuple[Member, ...]:
        """All models."""
        return *self.experts, *self.historical


@register(
    "strategy",
    "dtel",
    tasks=CLASSIFICATION,
    needs={"exact_state"},
    family="ensemble",
    shares_budget=True,
    examples=[Example({"experts": 3})],
)
class DTEL(VotingStrategy):
    r"""Diversity and Transfer-based Ensemble Learning: diverse old models, each trained further on the newest batch.

    Each batch D_t trains a new model f_t. Every historical model f_i is copied, and the copy is trained further on D_t
    with the full budget: it starts from what f_i knows (transfer). These adapted models and a copy of f_t predict the
    next batch; each has the weight

    .. math:: w_i = \frac{1}{MSE_r + MSE_i + \epsilon},

    where MSE_i is its error on D_t after training and MSE_r that of guessing, as in
    :class:`driftsurf.strategies.AUE`. Predictions are the weighted vote of labels.

    f_t then joins the historical models, which never change. If there are more than m, the one whose removal
    leaves the others most diverse is removed: their mean Q over all pairs is lowest, where

    .. math:: Q_{ij} = \frac{N^{11} N^{00} - N^{01} N^{10}}{N^{11} N^{00} + N^{01} N^{10}}

    counts the rows of D_t on which both, none or one of f_i and f_j are right (Yule's Q).

    The publication uses decision trees, whose copies grow on. Here the copy of a linear model or a network starts from
    the old weights. A learner that is refitted on each update, such as boosted trees, carries nothing over.

    Parameters
    ----------
    learner
        Template of all models. It must be a classifier with the capability ``exact_state``.
    experts
        m, the largest number of historical models.
    budget
        "each" gives rho gradients to every model, "divided" splits rho equally.
    max_rows, dtype, seed
        As for :class:`driftsurf.strategies.DriftSurf`.

    Examples
    --------
    >>> import numpy as np
    >>> from driftsurf.core.contracts import Batch
    >>> from driftsurf.learners import LogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> strategy = DTEL(LogisticRegression(), experts=4, seed=1)
    >>> strategy.begin(n_features=2, sparse=False, n_classes=2)
    >>> for step in range(12):  # the labels are inverted from step 6 on
    ...     X = rng.normal(size=(100, 2))
    ...     batch = Batch(X, ((X[:, 0] > 0) == (step < 6)).astype(float), np.ones(100))
    ...     wrong = np.mean((strategy.test_scores(batch) > 0) != batch.y)
    ...     decision = strategy.step(batch)
    >>> bool(wrong < 0.1), len(decision.models)  # four historical models, adapted, and the newest
    (True, 5)

    References
    ----------
    Y. Sun, K. Tang, Z. Zhu, X. Yao. Concept drift adaptation by exploiting historical knowledge. IEEE Transactions on
    Neural Networks and Learning Systems, 2018.
    """

    def __init__(
        self,
        learner: Learner,
        *,
        experts: int = 25,
        budget: BudgetRule = "each",
        max_rows: int | None = DEFAULT_MAX_ROWS,
        dtype: str = "float64",
        seed: int = 0,
    ) -> None:
        super().__init__(learner, max_rows=max_rows, dtype=dtype, seed=seed)
        self.experts = experts
        self.budget = budget

    def _check(self) -> None:
        whole("experts", self.experts, at_least=1)
        choice("budget", self.budget, ("each", "divided"))
        self._require_classes()
        self._require("exact_state")

    def _first(self) -> History:
        return History()

    def _learning(self, live: Ensemble) -> tuple[Member, ...]:
        return ()

    def _advance(self, live: Ensemble, segment: Segment, undo: UndoStack) -> tuple[Ensemble, Decision]:
        assert isinstance(live, History)
        batch = self._pool.samples.view(segment)
        if not batch.weight.any():  # no evidence: the models stay as they are
            after = replace(live, step=live.step + 1)
            records = [e.record("expert", live.step, weight=w) for e, w in zip(live.experts, live.weights, strict=True)]
            return after, self._decision(live, after, segment, records)
        newcomer = self._pool.make(live.step, segment.lo)
        adapted = self._pool.copy_all(live.historical, live.step)
        self._pool.forget(adapted, segment.lo, undo)  # a historical model has no rows: those of its copy start here
        rho = self.learner.budget(segment)
        steps = rho if self.budget == "each" else rho // (len(adapted) + 1)
        trained = [*adapted, newcomer]
        spent = self._pool.train_all(trained, segment, [steps] * len(trained), undo)
        self._pool.retire(*trained, undo=undo)
        voters = (*adapted, *self._pool.copy_all((newcomer,), live.step))
        shares = self._shares(voters, batch)
        historical = self._preserved((*live.historical, newcomer), batch)
        after = History(voters, shares, live.step + 1, historical=historical)
        records = [
            member.record("expert", live.step, weight=share, gradients=count)
            for member, share, count in zip(voters, shares, spent, strict=True)
        ]
        return after, self._decision(live, after, segment, records)

    def _shares(self, voters: tuple[Member, ...], batch: Batch) -> tuple[float, ...]:
        """Return the weights of the votes, which sum to 1."""
        ballots = self._pool.joint_scorer(voters)(batch.X)
        guess, errors = mean_squared_errors(ballots, batch.y, batch.weight)
        weights = 1.0 / (guess + errors + TINY)
        shares: list[float] = (weights / weights.sum()).tolist()
        return tuple(shares)

    def _preserved(self, models: tuple[Member, ...], batch: Batch) -> tuple[Member, ...]:
        """Return the historical models to keep: all but one if there are too many."""
        if len(models) <= self.experts:
            return models
        ballots = self._pool.joint_scorer(models)(batch.X)
        gone = most_alike(right_together(ballots, batch), float(batch.weight.sum()))
        return models[:gone] + models[gone + 1 :]

    # -------------------------------------------------------------------- state

    def _saved(self, live: Ensemble) -> State:
        assert isinstance(live, History)
        return super()._saved(live) | {"historicals": len(live.historical)} | saved("historical", live.historical)

    def _fields(self) -> Fields:
        return voting_fields(entries={"historicals": Whole(0, int(self.experts))}, parts=["historical*"])

    def _loaded(self, state: Mapping[str, Any], pool: Pool) -> History:
        live = super()._loaded(state, pool)
        historical = restored(state, "historical", state["historicals"], pool)
        return History(live.experts, live.weights, live.step, historical=historical)
