"""Base class of strategies that have one model at a time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from driftsurf.core.changes import UndoStack
from driftsurf.core.contracts import Segment, State
from driftsurf.core.decisions import Decision, Transition
from driftsurf.core.fields import Fields
from driftsurf.core.state import nest, pick
from driftsurf.strategies._base import NOTHING, PooledStrategy, declared, make_decision
from driftsurf.strategies._pool import Member, Pool


@dataclass(frozen=True)
class Single:
    """The model, the number of the next step, and what else the strategy remembers."""

    model: Member
    step: int = 0
    memory: Any = None
    """Further state of the strategy, never changed in place."""

    @property
    def members(self) -> tuple[Member, ...]:
        """The model, as the only one."""
        return (self.model,)

    @property
    def predictor(self) -> Member:
        """The model."""
        return self.model


class SingleModel(PooledStrategy[Single]):
    """One model, which a subclass may replace by a fresh one before or after it learns a batch."""

    # -------------------------------------------------------------------- hooks of a subclass

    def _memory(self) -> Any:
        """Return the further state before the first batch."""
        return None

    def _watch(self, live: Single, segment: Segment) -> tuple[str, Any]:
        """Look at a batch before it is learned; return why a fresh model must learn it ("": none), and the memory."""
        return "", live.memory

    def _cost_of_watching(self, before: Any, after: Any) -> int:
        """Return the gradients that ``_watch`` spent, given the memory before and after it."""
        return 0

    def _fit(self, model: Member, segment: Segment, undo: UndoStack) -> int:
        """Learn the batch; return the gradients spent."""
        return self._pool.train(model, segment, self._pool.template.budget(segment), undo)

    def _foresee(self, next_step: int) -> str:
        """Return why a fresh model must predict the next batch ("": none)."""
        return ""

    def _memory_state(self, memory: Any) -> State:
        """Return the further state as flat entries."""
        return {}

    def _memory_from(self, state: Mapping[str, Any]) -> Any:
        """Return the further state that ``_memory_state`` wrote; StateError if that is not what is there."""
        NOTHING.read(state)

    # -------------------------------------------------------------------- the step

    def _first(self) -> Single:
        return Single(self._pool.make(step=0, first_row=0), memory=self._memory())

    def _advance(self, live: Single, segment: Segment, undo: UndoStack) -> tuple[Single, Decision]:
        step, old = live.step, live.model
        before = self._pool.risk(old, segment)
        model = tested = old.after_batch(before)
        transitions: list[Transition] = []

        def reset(at: int, first_row: int, why: str) -> Member:
            fresh = self._pool.make(at, first_row)
            transitions.append(Transition("reset", at, old=model.id, new=fresh.id, why=why))
            return fresh

        why, memory = self._watch(live, segment)
        if why:
            model = reset(step, segment.lo, why)
        spent = self._fit(model, segment, undo)
        watching = self._cost_of_watching(live.memory, memory)
        records = [tested.record("predictive", step, risk_before=before, gradients=watching + (0 if why else spent))]
        if why:
            records.append(model.record("reactive", step, gradients=spent))
        why = self._foresee(step + 1)
        if why:
            model = reset(step + 1, segment.hi, why)
        return Single(model, step + 1, memory), make_decision(step, segment, old, model, records, transitions)

    # -------------------------------------------------------------------- state

    def _saved(self, live: Single) -> State:
        own: State = {"step": live.step}
        return own | nest("model", live.model.state()) | nest("memory", self._memory_state(live.memory))

    def _fields(self) -> Fields:
        return FIELDS

    def _loaded(self, state: Mapping[str, Any], pool: Pool) -> Single:
        model = pool.restore_member(pick("model", state), state["step"])
        return Single(model, state["step"], self._memory_from(pick("memory", state)))


FIELDS = declared({}, parts=["model", "memory"])
"""Saved entries of a strategy with one model."""
