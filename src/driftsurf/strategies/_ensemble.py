"""Strategies with many models that vote."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from driftsurf.base import FloatArray, Rows, Segment, State
from driftsurf.decisions import Decision, ModelRecord, Transition
from driftsurf.errors import StateError
from driftsurf.state import nest, pick
from driftsurf.strategies._base import PooledStrategy, Scorer
from driftsurf.strategies._joint import JointScorer, joint_scorer
from driftsurf.strategies._pool import Member
from driftsurf.strategies._votes import undecided, weighted_vote


@dataclass(frozen=True)
class Ensemble:
    """Experts with the weights of their votes, oldest first. Without experts nothing speaks for any class."""

    experts: tuple[Member, ...] = ()
    weights: tuple[float, ...] = ()
    step: int = 0
    memory: Any = None
    """What else the strategy remembers, never changed in place."""

    @property
    def members(self) -> tuple[Member, ...]:
        """The experts."""
        return self.experts

    @property
    def predictor(self) -> None:
        """It is never one of them."""

    @property
    def heaviest(self) -> Member | None:
        """The expert with the largest weight; the older one of two."""
        return self.experts[self.weights.index(max(self.weights))] if self.experts else None


def vote(scorer: JointScorer, weights: FloatArray, values: bool, X: Rows) -> FloatArray:
    """The weighted vote of models."""
    return weighted_vote(scorer(X), weights, values)


def no_vote(scorer: Scorer, X: Rows) -> FloatArray:
    """Scores shaped as this model's that speak for nothing."""
    return undecided(scorer(X))


class VotingStrategy(PooledStrategy[Ensemble]):
    """Many models that vote: the state, and the decision as the journal has it."""

    _ballots: JointScorer
    """What each expert says of rows, as the last whole step left them."""

    def _first(self) -> Ensemble:
        return Ensemble()

    def _scoring(self, live: Ensemble) -> Scorer:
        self._ballots = joint_scorer([expert.learner for expert in live.experts])
        if not any(live.weights):
            return functools.partial(no_vote, self._pool.untrained().scorer())
        return functools.partial(vote, self._ballots, np.array(live.weights), self._can.values)

    def _decision(
        self,
        live: Ensemble,
        after: Ensemble,
        segment: Segment,
        records: list[ModelRecord],
        transitions: tuple[Transition, ...] = (),
    ) -> Decision:
        """``predicted_by`` names the expert with the largest weight, -1 before there is one."""
        old, new = live.heaviest, after.heaviest
        return Decision(
            step=live.step,
            first_row=segment.lo,
            rows=len(segment),
            state="stable",
            predicted_by=-1 if old is None else old.id,
            trained_from=segment.lo if old is None else old.first_row,
            predicts_next=-1 if new is None else new.id,
            models=tuple(records),
            transitions=transitions,
        )

    def _saved(self, live: Ensemble) -> State:
        state: State = {"step": live.step, "weights": np.array(live.weights), "experts": len(live.experts)}
        for place, expert in enumerate(live.experts):
            state |= nest(f"expert{place}", expert.state())
        return state | nest("memory", self._memory_state(live.memory))

    def _loaded(self, state: Mapping[str, Any]) -> Ensemble:
        places = range(int(state["experts"]))
        experts = tuple(self._pool.restore_member(pick(f"expert{place}", state)) for place in places)
        weights = tuple(float(weight) for weight in state["weights"])
        if len(weights) != len(experts) or not np.isfinite(weights).all():
            raise StateError(f"the saved state has the weights {list(weights)} for {len(experts)} experts")
        return Ensemble(experts, weights, int(state["step"]), self._memory_from(pick("memory", state)))

    def _memory_state(self, memory: Any) -> State:
        return {}

    def _memory_from(self, state: Mapping[str, Any]) -> Any:
        return None
