"""Base class of strategies that have one model at a time."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from driftsurf.core.abilities import TakenStep
from driftsurf.core.changes import UndoStack, replace
from driftsurf.core.contracts import Batch, FloatArray, Rows, Segment, State
from driftsurf.core.decisions import Decision, Transition
from driftsurf.core.fields import Fields
from driftsurf.core.journal import Decided
from driftsurf.core.state import nest, pick
from driftsurf.errors import DivergenceError
from driftsurf.native.guard import RangeGuard
from driftsurf.strategies._base import NOTHING, declared, make_decision
from driftsurf.strategies._cell_arrays import StepRule, never_reacting
from driftsurf.strategies._cell_models import CellModels, Fading
from driftsurf.strategies._pool import Member, Pool
from driftsurf.strategies.cell import CellStrategy
from driftsurf.strategies.driftsurf_state import DriftSurfState

GENERIC_PARTS = "_advance", "_watch", "_cost_of_watching", "_fit", "_learning", "_keep", "_scoring"
"""Methods of a step that the native one replaces. A subclass with others takes generic steps."""


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


class SingleModel(CellStrategy[Single]):
    """Base class of strategies with one model, which a fresh one replaces at times: a subclass says when.

    ``watch`` sees every batch before it is learned and may ask for a fresh model, which then learns the batch;
    ``foresee`` may ask for one after a batch. What a subclass has to remember from one batch to the next is its memory:
    ``watch`` receives it and returns the next one, never changing it in place, so that a failed step changes nothing.
    A memory is saved by ``memory_state`` and ``memory_from``. Rows, models, budgets, decisions and their saved state
    are taken care of; a linear learner is trained by the native core.

    A subclass with options of its own has a constructor that passes ``learner``, ``max_rows``, ``dtype`` and ``seed``
    to this one and stores the others under their own names; it checks them in ``check``, after ``super().check()``.

    Parameters
    ----------
    learner
        Template of the models.
    max_rows, dtype, seed
        As for :class:`driftsurf.strategies.DriftSurf`.

    Examples
    --------
    >>> from driftsurf.checks import check_strategy
    >>> from driftsurf.estimators import estimator_class
    >>> from driftsurf.learners import SoftmaxRegression
    >>> from driftsurf.strategies import row_errors
    >>> from driftsurf.streams import Mixed
    >>> class StartAfresh(SingleModel):
    ...     def watch(self, step, memory, batch, scores):
    ...         wrong = row_errors(scores(), batch.y).mean()
    ...         return (f"{wrong:.0%} were wrong" if wrong > 0.6 else ""), memory
    >>> check_strategy(StartAfresh(SoftmaxRegression()))
    >>> model = estimator_class(StartAfresh)(SoftmaxRegression(), random_state=0)
    >>> for X, y in Mixed(n_rows=10_000).batches(200):
    ...     _ = model.test_then_train(X, y)
    >>> [change.step for change in model.journal_.transitions]  # the labels are reversed every ten batches
    [10, 20, 30, 40]
    """

    learns_whole_batches = False  # it looks at a batch, which a fresh model may have to learn instead

    # The native step is that of a DriftSurf that never reacts; the model is replaced between such steps.

    # -------------------------------------------------------------------- hooks of a subclass

    def first_memory(self) -> Any:
        """Return the memory before the first batch. The default is None."""
        return None

    def watch(self, step: int, memory: Any, batch: Batch, scores: Callable[[], FloatArray]) -> tuple[str, Any]:
        """Look at a batch before it is learned; return why a fresh model must learn it ("": none), and the memory.

        ``step`` is the number of the batch, ``scores()`` are those of the model that predicted it:
        :func:`driftsurf.strategies.row_errors` makes errors of them. The default never asks for a fresh model.
        """
        return "", memory

    def _watch(self, live: Single, segment: Segment) -> tuple[str, Any]:
        """Look at a batch before it is learned, as ``watch`` does, and at earlier rows."""
        pool = self._pool
        return self.watch(live.step, live.memory, pool.samples.view(segment), lambda: pool.scores(live.model, segment))

    def _cost_of_watching(self, before: Any, after: Any) -> int:
        """Return the gradients that ``_watch`` spent, given the memory before and after it."""
        return 0

    def _fit(self, model: Member, segment: Segment, undo: UndoStack) -> int:
        """Learn the batch; return the gradients spent."""
        return self._pool.train(model, segment, self._pool.template.budget(segment), undo)

    def foresee(self, next_step: int) -> str:
        """Return why a fresh model must predict the batch of this number ("": none). The default is ""."""
        return ""

    def memory_state(self, memory: Any) -> State:
        """Return the memory as flat entries: numbers, text and arrays. The default has none."""
        return {}

    def memory_from(self, state: Mapping[str, Any]) -> Any:
        """Return the memory that ``memory_state`` wrote; StateError if that is not what is there."""
        NOTHING.read(state)

    # -------------------------------------------------------------------- the step

    def _first(self) -> Single:
        return Single(self._pool.make(step=0, first_row=0), memory=self.first_memory())

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
        why = self.foresee(step + 1)
        if why:
            model = reset(step + 1, segment.hi, why)
        return Single(model, step + 1, memory), make_decision(step, segment, old, model, records, transitions)

    # -------------------------------------------------------------------- the native step

    def _has_parts_of(self, kind: type[SingleModel]) -> bool:
        """Return whether all methods that the native step replaces are those of ``kind``."""
        return all(getattr(type(self), name) is getattr(kind, name) for name in GENERIC_PARTS)

    def _cell_rule(self) -> tuple[StepRule, dict[str, Any]] | None:
        if not self._has_parts_of(SingleModel):
            return None
        return never_reacting(self._stored_pool.max_rows), {}

    def _fading_in_cell(self) -> Fading | None:
        """Return the factors of the weights with which a cell learns, as ``_fit`` has them; None: all 1."""
        return None

    def _cell_observe(
        self,
        cell: CellModels,
        X: Rows,
        y: FloatArray,
        weight: FloatArray | None,
        guard: RangeGuard | None,
        tested: FloatArray | None = None,
        *,
        predict: bool = False,
        test: bool = False,
    ) -> TakenStep | None:
        step, fading = cell.native.step, self._fading_in_cell()
        try:
            taken = cell.observe(X, y, weight, guard, tested, fading, predict=predict, test=test)
        except DivergenceError:  # the generic step does not let a model learn that is about to be replaced
            return None
        if taken is None:
            return None
        try:
            why, memory = self._watch_newest(cell, step, len(y), tested)
            if why:  # the rows were watched once they were stored; a fresh model learns them instead
                old = taken.outcome.decision()
                cell.put_back()
                cell.renew(step)
                again = cell.observe(X, y, weight, guard, None, fading)
                assert again is not None  # the batch was learned before, by the earlier model
                decision = _learned_afresh(old, again.outcome.decision(), why)
                cell.forget_risk()
                taken = again._replace(outcome=Decided(decision), predicted=taken.predicted, tested=taken.tested)
            if why := self.foresee(step + 1):
                decision = _replaced(taken.outcome.decision(), step + 1, cell.renew_after_step(step + 1), why)
                taken = taken._replace(outcome=Decided(decision), scorer=cell.scorer())
        except BaseException:
            cell.put_back()
            raise
        if memory is not self._stored_live.memory:
            self._stored_live = replace(self._stored_live, memory=memory)
        return taken

    def _watch_newest(
        self, cell: CellModels, step: int, count: int, tested: FloatArray | None = None
    ) -> tuple[str, Any]:
        """Look at a batch that the models have just learned, with the scores from before."""
        batch, scorer = cell.newest(count), self._scorer
        scores = (lambda: scorer(batch.X)) if tested is None else (lambda: tested)
        return self.watch(step, self._stored_live.memory, batch, scores)

    def _to_cell(self, live: Single) -> DriftSurfState:
        return DriftSurfState(live.model, step=live.step)

    def _from_cell(self, live: DriftSurfState) -> Single:
        return Single(live.predictive, live.step, self._stored_live.memory)

    # -------------------------------------------------------------------- state

    def _saved(self, live: Single) -> State:
        own: State = {"step": live.step}
        return own | nest("model", live.model.state()) | nest("memory", self.memory_state(live.memory))

    def _fields(self) -> Fields:
        return FIELDS

    def _loaded(self, state: Mapping[str, Any], pool: Pool) -> Single:
        model = pool.restore_member(pick("model", state), state["step"])
        return Single(model, state["step"], self.memory_from(pick("memory", state)))


def _learned_afresh(decision: Decision, again: Decision, why: str) -> Decision:
    """Return the decision of a batch that a fresh model learned, given those of the model before and of its own."""
    old = dataclasses.replace(decision.models[0], gradients=0)
    new = dataclasses.replace(again.models[0], role="reactive", risk_before=None, best_risk=None)
    decision = dataclasses.replace(decision, models=(old, new))
    return _replaced(decision, decision.step, new.id, why)


def _replaced(decision: Decision, step: int, new: int, why: str) -> Decision:
    """Return a decision with one more reset, at this step and by the model with the number ``new``."""
    reset = Transition("reset", step, old=decision.predicts_next, new=new, why=why)
    return dataclasses.replace(decision, predicts_next=new, transitions=(*decision.transitions, reset))


FIELDS = declared({}, parts=["model", "memory"])
"""Saved entries of a strategy with one model."""
