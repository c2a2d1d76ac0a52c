"""Base of a session: predicting, saving and restoring. Learning is in ``session.py``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import numpy.typing as npt

from driftsurf.core.abilities import (
    CategoryAware,
    CategoryTold,
    IncrementallySaved,
    Reversible,
    SnapshotScoring,
    abilities_of,
    capabilities_of,
    check_contract,
)
from driftsurf.core.changes import Changeable
from driftsurf.core.contracts import Categories, FloatArray, IncrementalState, Rows, State, Strategy
from driftsurf.core.drifts import Drifts, InputChanges
from driftsurf.core.fields import misfit
from driftsurf.core.forks import ChangeLock
from driftsurf.core.input import Schema
from driftsurf.core.journal import Journal
from driftsurf.core.options import whole
from driftsurf.core.samples import Samples
from driftsurf.core.state import nest, pick, resolved
from driftsurf.core.targets import ClassTargets, RegressionTargets, targets_of
from driftsurf.core.typing import Classes, MatrixLike
from driftsurf.core.values import replace
from driftsurf.errors import StateError
from driftsurf.native.columns import all_finite
from driftsurf.session.drift_monitor import DriftMonitor
from driftsurf.session.guard import new_guard
from driftsurf.session.interrupts import uninterrupted
from driftsurf.session.saved import saved_buffer
from driftsurf.session.snapshot import Snapshot

__all__ = ["BaseSession"]


class BaseSession(Changeable):
    """State of a session, which is changed as a whole, predicted with, saved and restored."""

    _now: Snapshot

    def __init__(
        self,
        strategy: Strategy,
        *,
        classes: Classes | None = None,
        batch_size: int | None = None,
        guard: float | None = 2.0,
        journal: Journal | None = None,
        owner: str = "this model",
        categories: Callable[[], Categories] = tuple,
        names: Callable[[], Sequence[str]] = tuple,
        monitor: DriftMonitor | None = None,
    ) -> None:
        check_contract(strategy, Strategy, "strategy", "one of driftsurf.strategies, such as DriftSurf(learner)")
        strategy.check()
        self.strategy = strategy
        if batch_size is not None:
            batch_size = whole("batch_size", batch_size, at_least=1, otherwise=", or None")
        self.batch_size = batch_size
        self.journal: Journal = Journal() if journal is None else journal
        self.owner = owner
        self.categories = categories
        self.names = names
        self._can = capabilities_of(strategy)
        self._abilities = abilities_of(strategy)
        guarded = None if guard is None else new_guard(guard, clips=self._can.linear)
        self._now = Snapshot(targets_of(self._can, classes), guarded, monitor=monitor)
        self._new_monitor = monitor
        self._pending: Samples | None = None

    def fresh(self, seed: int) -> Self:
        """Return a session with the same options that has seen no row, and whose strategy has another seed.

        The options are not checked again, which makes it cheap enough to call for every key of a keyed run.
        """
        if self.schema is not None or self.steps:
            raise StateError("this session has seen rows; call fresh() on one that has not")
        # Targets and guard are values that are replaced and never changed, so they may be shared.
        return replace(self, strategy=self.strategy.fresh(seed), journal=Journal(), lock=ChangeLock())

    def watch(self, monitor: DriftMonitor | None) -> None:
        """Detect drifts of the whole model with a monitor from the first row on; None: do not."""
        if self.schema is not None:
            raise StateError("this session has seen rows; call watch() on one that has not")
        self._now, self._new_monitor = replace(self._now, monitor=monitor), monitor

    # -------------------------------------------------------------------- what a step changes

    @property
    def now(self) -> Snapshot:
        """Everything below as of one step; another thread may take the next step at any time."""
        return self._now

    @property
    def schema(self) -> Schema | None:
        """Columns; None before the first batch."""
        return self._now.schema

    @property
    def targets(self) -> ClassTargets | RegressionTargets:
        """Known labels and their codes, or what is known about the numbers to predict."""
        return self._now.targets

    @property
    def steps(self) -> int:
        """Number of time steps learned."""
        return self._now.steps

    @property
    def n_classes_learned(self) -> int:
        """Number of classes known at the last time step; only these can be predicted."""
        return self._now.n_classes_learned

    @property
    def drifts(self) -> Drifts:
        """Drifts of the model so far, oldest first."""
        monitor = self._now.monitor
        return Drifts() if monitor is None else monitor.drifts

    @property
    def changes(self) -> InputChanges:
        """Moves of the inputs alone, which did no harm, oldest first."""
        monitor = self._now.monitor
        return InputChanges() if monitor is None else monitor.changes

    @property
    def guard_factor(self) -> float | None:
        """Factor of the range guard; None without one."""
        return None if self._now.guard is None else self._now.guard.factor

    @property
    def column_limits(self) -> tuple[FloatArray, FloatArray] | None:
        """Smallest and largest value of each column in predictions; None without limits."""
        return self._now.column_limits

    @property
    def rows_pending(self) -> int:
        """Number of rows in the buffer."""
        return 0 if self._pending is None else len(self._pending)

    def standing(self) -> tuple[Snapshot, int]:
        """Return the values of the last complete step, another object after each step, and the rows in the buffer."""
        with self.lock:
            self.settle()
            return self._now, self.rows_pending

    @property
    def _dtype(self) -> str:
        return self.strategy.dtype

    def name_columns(self, names: tuple[str, ...]) -> None:
        """Give the columns names, once the first batch has been learned."""
        with self.lock:
            self.settle()
            assert self.schema is not None
            self._now = replace(self._now, schema=self.schema.named(names))

    def _mark(self) -> Any:
        strategy: Any = self.strategy
        pending = self._pending
        # Before the first batch there is nothing to go back to: ``begin`` creates everything again.
        able = Reversible in self._abilities and self._now.schema is not None
        return (
            self._now,
            pending,
            None if pending is None else pending.mark(),
            strategy.learner,
            strategy.mark() if able else None,
        )

    def _put_back(self, mark: Any) -> None:
        now, pending, rows, learner, own = mark
        strategy: Any = self.strategy
        strategy.learner = learner
        if own is not None:
            strategy.put_back(own)
        if pending is not None:
            pending.put_back(rows)
        self._now, self._pending = now, pending

    def _tell_categories(self, schema: Schema) -> None:
        """Let the models that the strategy will make know the categories of the rows, if the learner can use them.

        A learner is also told that there are none, since it may know those of other rows.
        """
        if self._can.categories:
            learner: Any = self.strategy.learner
            assert isinstance(learner, CategoryAware)
            told: Any = learner.with_categories(schema.categories)
            self.strategy.learner = told
        if isinstance(self.strategy, CategoryTold):
            self.strategy.tell_categories(schema.categories)

    def _published(self, now: Snapshot, **changes: Any) -> Snapshot:
        """Return the values after a change, with the scores of the models as they are now."""
        strategy: Any = self.strategy
        scorer = strategy.scorer() if SnapshotScoring in self._abilities else None
        return replace(now, scorer=scorer, **changes)

    # -------------------------------------------------------------------- predicting

    def read(self, X: MatrixLike) -> Rows:
        """Return checked rows in the form that the strategy accepts."""
        return self._now.read(X, self._dtype)

    def scores(self, X: MatrixLike) -> FloatArray:
        """Return the scores of the model that predicts now; a margin above 0 means the class with code 1."""
        return self._scores(self._now, X)

    def scores_and_classes(self, X: MatrixLike) -> tuple[Snapshot, FloatArray]:
        """Return the scores, and what is known about the classes as of the same step."""
        now = self._now
        return now, self._scores(now, X)

    def scores_as_of(self, now: Snapshot, X: MatrixLike) -> FloatArray:
        """Return the scores of the model as it was after an earlier step, of which ``now`` returned the values.

        A strategy that cannot hand out its scores (``now.scorer`` is None) uses the newest model instead.
        """
        return self._scores(now, X)

    def scores_if_finite(self, now: Snapshot, X: FloatArray) -> FloatArray | None:
        """Return what :meth:`scores_as_of` returns of an array; None if one of its values is not finite."""
        if now.is_usual(X, self._dtype):  # one pass over the values finds both out
            return now.restricted(self._raw_scores(now, X))
        return self._scores(now, X) if all_finite(X) else None

    def scores_of(self, rows: Rows) -> FloatArray:
        """Return the scores of rows that ``read`` returned, or that a caller has built in that form."""
        now = self._now
        return now.restricted(self._raw_scores(now, now.limited(rows)))

    def predict(self, X: MatrixLike) -> npt.NDArray[Any]:
        """Return predicted labels, or numbers, of the model that predicts now. Ties go to the smaller label."""
        now = self._now
        return now.targets.decode(now.targets.predicted(self._scores(now, X)))

    def _scores(self, now: Snapshot, X: MatrixLike) -> FloatArray:
        rows: Any = X if now.is_usual(X, self._dtype) else now.limited(now.read(X, self._dtype))
        return now.restricted(self._raw_scores(now, rows))

    def _raw_scores(self, now: Snapshot, rows: Rows) -> FloatArray:
        if now.scorer is not None:
            return now.scorer(rows)
        with self.lock:  # a strategy that cannot hand out its scores: wait until no step is under way
            self.settle()
            return self.strategy.scores(rows)

    # -------------------------------------------------------------------- state

    def return_to(self, state: Mapping[str, Any]) -> None:
        """Roll back to an earlier state: the same as ``restore``, since no row waits for a label."""
        self.restore(state)

    def state(self) -> State:
        """Return everything that later steps depend on; the journal is not part of it.

        Arrays are views, valid until the next step: hold ``lock`` while they are used, if another thread learns.
        """
        return resolved(self.incremental_state())

    def incremental_state(self) -> IncrementalState:
        """Return the entries of ``state()``, with arrays that grow with the rows as ``AppendOnlyArray``."""
        with self.lock:
            state = self.surroundings()
            if self.schema is None:
                return state
            strategy: Any = self.strategy
            incremental = IncrementallySaved in self._abilities
            own = strategy.incremental_state() if incremental else strategy.state()
            return state | nest("strategy", own)

    def surroundings(self) -> State:
        """Return the state without the entries of the strategy, which only time steps change."""
        with self.lock:
            self.settle()
            state = self._now.state()
            return state if self._pending is None else state | nest("pending", self._pending.state())

    def restore(self, state: Mapping[str, Any], own: Mapping[str, Any] | None = None) -> None:
        """Take over a state: that of ``state()``, or that of ``surroundings()`` with the strategy's as ``own``.

        An error leaves the session as it was.
        """
        try:
            with uninterrupted(), self.lock:
                self._change(self._restored, state, pick("strategy", state) if own is None else own)
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            if isinstance(error, StateError):
                raise
            what = f"has no entry {error}" if isinstance(error, KeyError) else f"is inconsistent ({error})"
            raise StateError(f"the saved state {what}; it is incomplete, or the state of another object") from error

    def _restored(self, state: Mapping[str, Any], own: Mapping[str, Any]) -> tuple[Snapshot, None]:
        now, pending = self._now.from_state(state, self._can, self.owner), None
        if now.schema is not None:
            classes = now.targets.n_classes
            self._tell_categories(now.schema)
            pending = saved_buffer(pick("pending", state), now.schema, classes, self.batch_size, self._dtype)
            self.strategy.restore(own, now.schema.n_features, sparse=now.schema.sparse, n_classes=classes)
            now = self._published(now, monitor=self._restored_monitor(now.schema, pick("monitor", state)))
        elif now.steps or own:
            raise misfit(state, "started", "is false, but there is a model that has learned")
        self._pending = pending
        return now, None

    def _restored_monitor(self, schema: Schema, state: Mapping[str, Any]) -> DriftMonitor | None:
        """Return the monitor of a saved state; a new one for a state without, such as those of version 0.2."""
        blank = self._new_monitor
        if blank is None or not state:
            return blank
        return blank.from_state(state, self.strategy, schema.n_features, sparse=schema.sparse, dtype=self._dtype)
