"""Strategies with one model at a time."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from driftsurf.base import Learner, Segment, State
from driftsurf.decisions import Decision, Transition
from driftsurf.state import nest, pick
from driftsurf.strategies._base import PooledStrategy
from driftsurf.strategies._pool import DEFAULT_MAX_ROWS, Member


@dataclass(frozen=True)
class Single:
    """One model, and the step to come."""

    model: Member
    step: int = 0
    memory: Any = None
    """What else the strategy remembers, never changed in place."""

    @property
    def members(self) -> tuple[Member, ...]:
        """The model."""
        return (self.model,)

    @property
    def predictor(self) -> Member:
        """The same."""
        return self.model


class SingleModel(PooledStrategy[Single]):
    """One model: watch the batch, perhaps begin anew with it, learn it, perhaps begin anew after it."""

    def __init__(
        self,
        learner: Learner,
        *,
        max_rows: int | None = DEFAULT_MAX_ROWS,
        dtype: str = "float64",
        seed: int = 0,
    ) -> None:
        self.learner = learner
        self.max_rows = max_rows
        self.dtype = dtype
        self.seed = seed

    @property
    def predicting(self) -> Learner:
        """The model that predicts now."""
        return self._live.model.learner

    # -------------------------------------------------------------------- what a subclass may add

    def _check(self) -> None:
        """No options of its own."""

    def _memory(self) -> Any:
        """What it remembers before the first batch, beside the model."""
        return None

    def _watch(self, live: Single, segment: Segment) -> tuple[str, Any]:
        """Look at a batch before it is learnt: why a fresh model is to learn it ('' for none), and the new memory."""
        return "", live.memory

    def _cost_of_looking(self, before: Any, after: Any) -> int:
        """Gradients that ``_watch`` spent, given the memory before and after it."""
        return 0

    def _fit(self, model: Member, segment: Segment, undo: contextlib.ExitStack) -> int:
        """Learn the batch; returns the gradients spent."""
        return self._pool.train(model, segment, self._pool.template.budget(segment), undo)

    def _foresee(self, next_step: int) -> str:
        """Why a fresh model is to predict the next batch; '' for none."""
        return ""

    # -------------------------------------------------------------------- the step

    def _first(self) -> Single:
        return Single(self._pool.make(step=0, first_row=0), memory=self._memory())

    def _advance(self, live: Single, segment: Segment, undo: contextlib.ExitStack) -> tuple[Single, Decision]:
        step, old = live.step, live.model
        before = self._pool.risk(old, segment)
        model = met = old.met(before)
        transitions: list[Transition] = []

        def renew(at: int, first_row: int, why: str) -> Member:
            fresh = self._pool.make(at, first_row)
            transitions.append(Transition("reset", at, old=model.id, new=fresh.id, why=why))
            return fresh

        why, memory = self._watch(live, segment)
        if why:
            model = renew(step, segment.lo, why)
        spent = self._fit(model, segment, undo)
        looking = self._cost_of_looking(live.memory, memory)
        records = [met.record("predictive", step, risk_before=before, gradients=looking + (0 if why else spent))]
        if why:
            records.append(model.record("reactive", step, gradients=spent))
        why = self._foresee(step + 1)
        if why:
            model = renew(step + 1, segment.hi, why)
        decision = Decision(
            step=step,
            first_row=segment.lo,
            rows=len(segment),
            state="stable",
            predicted_by=old.id,
            trained_from=old.first_row,
            predicts_next=model.id,
            models=tuple(records),
            transitions=tuple(transitions),
        )
        return Single(model, step + 1, memory), decision

    # -------------------------------------------------------------------- state

    def _saved(self, live: Single) -> State:
        own: State = {"step": live.step}
        return own | nest("model", live.model.state()) | nest("memory", self._memory_state(live.memory))

    def _loaded(self, state: Mapping[str, Any]) -> Single:
        model = self._pool.restore_member(pick("model", state))
        return Single(model, int(state["step"]), self._memory_from(pick("memory", state)))

    def _memory_state(self, memory: Any) -> State:
        return {}

    def _memory_from(self, state: Mapping[str, Any]) -> Any:
        return None
