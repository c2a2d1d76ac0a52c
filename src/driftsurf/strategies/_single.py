"""Base class of strategies that have one model at a time."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from driftsurf.core.abilities import Taken
from driftsurf.core.changes import UndoStack
from driftsurf.core.contracts import Batch, FloatArray, Segment, State
from driftsurf.core.decisions import Decision, Transition
from driftsurf.core.fields import Fields
from driftsurf.core.state import nest, pick
from driftsurf.core.values import replace
from driftsurf.errors import DivergenceError
from driftsurf.kernels.guard import Admission
from driftsurf.strategies._base import NOTHING, declared, make_decision
from driftsurf.strategies._pool import Member, Pool
from driftsurf.strategies._reaction import Live
from driftsurf.strategies.compiled.cell import CompiledModels
from driftsurf.strategies.compiled.direct import DirectModels
from driftsurf.strategies.compiled.layout import Rule, never_reacting
from driftsurf.strategies.compiled.renewal import learn_afresh, newest, next_step, renew_after_step
from driftsurf.strategies.compiled.strategy import CompiledStrategy

GENERIC_PARTS = "_advance", "_watch", "_cost_of_watching", "_fit", "_learning", "_keep", "_scoring"
"""Methods of a step that the compiled one replaces. A subclass with others takes generic steps."""


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


class SingleModel(CompiledStrategy[Single]):
    """One model, which a subclass may replace by a fresh one before or after it learns a batch.

    The compiled step is that of a DriftSurf that never reacts; the model is replaced between such steps.
    """

    # -------------------------------------------------------------------- hooks of a subclass

    def _memory(self) -> Any:
        """Return the further state before the first batch."""
        return None

    def _watch_scores(self, step: int, memory: Any, batch: Batch, scores: Callable[[], FloatArray]) -> tuple[str, Any]:
        """Look at a batch and its scores before it is learned.

        Return why a fresh model must learn it ("": none), and the memory.
        """
        return "", memory

    def _watch(self, live: Single, segment: Segment) -> tuple[str, Any]:
        """Look at a batch before it is learned, as ``_watch_scores`` does, and at earlier rows."""
        pool = self._pool
        return self._watch_scores(
            live.step, live.memory, pool.samples.view(segment), lambda: pool.scores(live.model, segment)
        )

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

    # -------------------------------------------------------------------- the compiled step

    def _has_parts_of(self, kind: type[SingleModel]) -> bool:
        """Return whether all methods that the compiled step replaces are those of ``kind``."""
        return all(getattr(type(self), name) is getattr(kind, name) for name in GENERIC_PARTS)

    def _compiled_rule(self) -> tuple[Rule, dict[str, Any]] | None:
        if not self._has_parts_of(SingleModel):
            return None
        return never_reacting(self._stored_pool.max_rows), {}

    def _learn_compiled(self, compiled: CompiledModels, batch: Batch, tested: FloatArray | None) -> Decision | None:
        """Learn a batch in compiled code, as ``_fit`` does; None if that cannot be, and nothing was changed."""
        return compiled.step(batch, tested)

    def _compiled_step(self, compiled: CompiledModels, batch: Batch, tested: FloatArray | None) -> Decision | None:
        step, mark = next_step(compiled), compiled.mark()
        try:
            decision = self._learn_compiled(compiled, batch, tested)
        except DivergenceError:  # the generic step does not let a model learn that is about to be replaced
            return None
        if decision is None:
            return None
        try:
            why, memory = self._watch_newest(compiled, step, len(batch.y), tested)
            if why:  # the rows were watched once they were stored; a fresh model learns them instead
                compiled.put_back(mark)
                decision = _learned_afresh(compiled, batch, decision, why)
            if why := self._foresee(step + 1):
                decision = _replaced(decision, step + 1, renew_after_step(compiled, step + 1), why)
        except BaseException:
            compiled.put_back(mark)
            raise
        self._stored_live = replace(self._stored_live, memory=memory)
        return decision

    def _compiled_take(
        self, compiled: DirectModels, X: npt.NDArray[Any], codes: FloatArray, admission: Admission, shown: bool
    ) -> Taken | None:
        step = next_step(compiled)
        if self._foresee(step + 1):
            return None
        taken = super()._compiled_take(compiled, X, codes, admission, shown)
        if taken is None:
            return None
        why, memory = self._watch_newest(compiled, step, len(codes))
        if why:
            return None
        self._stored_live = replace(self._stored_live, memory=memory)
        return taken

    def _watch_newest(
        self, compiled: CompiledModels, step: int, count: int, tested: FloatArray | None = None
    ) -> tuple[str, Any]:
        """Look at a batch that the models have just learned, with the scores from before."""
        batch, scorer = newest(compiled, count), self._scorer
        scores = (lambda: scorer(batch.X)) if tested is None else (lambda: tested)
        return self._watch_scores(step, self._stored_live.memory, batch, scores)

    def _to_cell(self, live: Single) -> Live:
        return Live(live.model, step=live.step)

    def _from_cell(self, live: Live) -> Single:
        return Single(live.predictive, live.step, self._stored_live.memory)

    # -------------------------------------------------------------------- state

    def _saved(self, live: Single) -> State:
        own: State = {"step": live.step}
        return own | nest("model", live.model.state()) | nest("memory", self._memory_state(live.memory))

    def _fields(self) -> Fields:
        return FIELDS

    def _loaded(self, state: Mapping[str, Any], pool: Pool) -> Single:
        model = pool.restore_member(pick("model", state), state["step"])
        return Single(model, state["step"], self._memory_from(pick("memory", state)))


def _learned_afresh(compiled: CompiledModels, batch: Batch, decision: Decision, why: str) -> Decision:
    """Let a fresh model learn a batch, and return the decision, given that of the model which predicted the batch."""
    (old,), new = decision.models, learn_afresh(compiled, batch)
    decision = dataclasses.replace(decision, models=(dataclasses.replace(old, gradients=0), new))
    return _replaced(decision, decision.step, new.id, why)


def _replaced(decision: Decision, step: int, new: int, why: str) -> Decision:
    """Return a decision with one more reset, at this step and by the model with the number ``new``."""
    reset = Transition("reset", step, old=decision.predicts_next, new=new, why=why)
    return dataclasses.replace(decision, predicts_next=new, transitions=(*decision.transitions, reset))


FIELDS = declared({}, parts=["model", "memory"])
"""Saved entries of a strategy with one model."""
