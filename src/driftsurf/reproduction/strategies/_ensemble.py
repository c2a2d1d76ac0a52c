"""Base class of strategies with several models that vote."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from driftsurf.core.contracts import Batch, FloatArray, Rows, Segment, State
from driftsurf.core.decisions import Decision, ModelRecord
from driftsurf.core.fields import Array, FieldEntry, FieldRule, Fields, Whole, misfit
from driftsurf.core.state import nest, pick
from driftsurf.strategies._base import NOTHING, PooledStrategy, Scorer, declared, make_decision
from driftsurf.strategies._pool import Member, Pool
from driftsurf.strategies._votes import JointScorer, undecided, weighted_vote


@dataclass(frozen=True)
class Ensemble:
    """Experts with the weights of their votes, oldest first."""

    experts: tuple[Member, ...] = ()
    weights: tuple[float, ...] = ()
    step: int = 0
    memory: Any = None
    """Further state of the strategy, never changed in place."""

    @property
    def members(self) -> tuple[Member, ...]:
        """All experts."""
        return self.experts

    @property
    def predictor(self) -> None:
        """None, since all experts vote."""

    @property
    def heaviest(self) -> Member | None:
        """Expert with the largest weight, the older one of a tie."""
        return self.experts[self.weights.index(max(self.weights))] if self.experts else None


Combine = Callable[[Sequence[FloatArray]], FloatArray]
"""Returns the vote of several models, given the scores of each."""


def vote(scorer: JointScorer, combine: Combine, X: Rows) -> FloatArray:
    """Return the vote of several models on rows."""
    return combine(scorer(X))


def no_vote(scorer: Scorer, X: Rows) -> FloatArray:
    """Return undecided scores, of the shape that a model's scores have."""
    return undecided(scorer(X))


class VotingStrategy(PooledStrategy[Ensemble]):
    """Several models that vote. A subclass defines how experts join, learn, are weighted and leave."""

    _ballots: JointScorer
    """Returns the scores of each expert, as the last complete step left it."""
    _combine: Combine
    """Returns the vote of the experts, with the weights that the last complete step left."""
    _cast: tuple[FloatArray, Sequence[FloatArray], int] | None = None
    """Result of the last ``test_scores``, the scores of each expert behind it, and the number of classes then."""

    def test_scores(self, batch: Batch) -> FloatArray:
        """Return the scores by which a batch is evaluated before it is learned."""
        if not any(self._live.weights):
            return super().test_scores(batch)
        ballots = self._ballots(batch.X)
        scores = self._combine(ballots)
        self._cast = scores, ballots, self._pool.n_classes
        return scores

    def step(self, batch: Batch, tested: FloatArray | None = None) -> Decision:
        """Learn one batch. An error leaves everything as it was."""
        # The scores are known to be of this batch and these experts only by those that come back.
        if self._cast is not None and self._cast[0] is not tested:
            self._cast = None
        try:
            return super().step(batch, tested)
        finally:
            self._cast = None

    def _ballots_on(self, X: Rows) -> Sequence[FloatArray]:
        """Return the scores of each expert for the rows of this step, which ``test_scores`` may know already."""
        known = self._cast
        return self._ballots(X) if known is None or known[2] != self._pool.n_classes else known[1]

    def _vote_on(self, X: Rows) -> FloatArray:
        """Return the vote on the rows of this step, which ``test_scores`` may know already."""
        known = self._cast
        return self._scorer(X) if known is None or known[2] != self._pool.n_classes else known[0]

    def _first(self) -> Ensemble:
        return Ensemble()

    def _scoring(self, live: Ensemble) -> Scorer:
        self._ballots = self._pool.joint_scorer(live.experts)
        if not any(live.weights):
            return functools.partial(no_vote, self._pool.untrained().scorer())
        self._combine = self._combining(live)
        return functools.partial(vote, self._ballots, self._combine)

    def _combining(self, live: Ensemble) -> Combine:
        """Return how the scores of the experts become a vote."""
        return functools.partial(weighted_vote, weights=np.array(live.weights), regression=self._can.regression)

    def _decision(self, live: Ensemble, after: Ensemble, segment: Segment, records: list[ModelRecord]) -> Decision:
        """Return the decision of a step; it names the expert with the largest weight, -1 before there is one."""
        return make_decision(live.step, segment, live.heaviest, after.heaviest, records)

    def _saved(self, live: Ensemble) -> State:
        state: State = {"step": live.step, "weights": np.array(live.weights), "experts": len(live.experts)}
        return state | saved("expert", live.experts) | nest("memory", self._memory_state(live.memory))

    def _fields(self) -> Fields:
        return FIELDS

    def _loaded(self, state: Mapping[str, Any], pool: Pool) -> Ensemble:
        step, count = state["step"], state["experts"]
        experts = restored(state, "expert", count, pool)
        memory = self._memory_from(pick("memory", state), count)
        return Ensemble(experts, tuple(state["weights"].tolist()), step, memory)

    def _memory_state(self, memory: Any) -> State:
        """Return the further state as flat entries."""
        return {}

    def _memory_from(self, state: Mapping[str, Any], experts: int) -> Any:
        """Return the further state that ``_memory_state`` wrote for this many experts."""
        NOTHING.read(state)


def saved(name: str, members: Iterable[Member]) -> State:
    """Return the states of several models, each under a name with its place: "expert0", "expert1", ..."""
    state: State = {}
    for place, member in enumerate(members):
        state |= nest(f"{name}{place}", member.state())
    return state


def restored(state: Mapping[str, Any], name: str, count: int, pool: Pool) -> tuple[Member, ...]:
    """Return the models that ``saved`` wrote; StateError unless there are ``count`` of them."""
    parts = {part.partition(".")[0] for part in state if part.startswith(name) and "." in part}
    if count != len(parts):
        raise misfit(state, f"{name}s", f"is {count}, but there are {len(parts)} {name}s")
    return tuple(pool.restore_member(pick(f"{name}{place}", state), state["step"]) for place in range(count))


def voting_fields(
    *rules: FieldRule, entries: Mapping[str, FieldEntry] | None = None, parts: Iterable[str] = ()
) -> Fields:
    """Return the saved entries of a strategy whose models vote, with further rules, entries and parts."""
    weights = Array(np.float64, ("experts",), least=0.0)
    known: dict[str, FieldEntry] = {"experts": Whole(), "weights": weights}
    return declared(known | dict(entries or {}), parts=["expert*", "memory", *parts], rules=rules)


FIELDS = voting_fields()
"""Saved entries of a strategy whose models vote."""
