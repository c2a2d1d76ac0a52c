"""Session: feeds a strategy from raw batches; returns predictions and decisions."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self, cast

import numpy as np
import numpy.typing as npt

from driftsurf.core.abilities import (
    CategoryAware,
    CategoryTold,
    DirectlyStepped,
    Disagreeing,
    IncrementallySaved,
    LateAware,
    Reversible,
    SnapshotScoring,
    TakenStep,
    abilities_of,
    capabilities_of,
    check_contract,
)
from driftsurf.core.changes import Changeable, ChangeLock, replace, uninterrupted
from driftsurf.core.contracts import (
    Batch,
    Categories,
    FloatArray,
    IncrementalState,
    Rows,
    Segment,
    State,
    Strategy,
    n_rows,
    take_rows,
)
from driftsurf.core.decisions import Decision, Transition
from driftsurf.core.drifts import Drifts, InputChanges
from driftsurf.core.fields import misfit
from driftsurf.core.frames import Classes, MatrixLike, TargetLike
from driftsurf.core.input import Schema, read_rows, read_schema, read_weights
from driftsurf.core.journal import Decided, Journal, Noted, Outcome
from driftsurf.core.numeric import in_usual_mode
from driftsurf.core.options import whole
from driftsurf.core.samples import Samples
from driftsurf.core.state import nest, pick, resolved
from driftsurf.core.targets import ClassTargets, RegressionTargets, targets_of
from driftsurf.errors import CapabilityError, Message, Option, SmallBatchWarning, StateError
from driftsurf.native.columns import all_finite
from driftsurf.native.session import usual_step
from driftsurf.session.drift_monitor import DriftMonitor
from driftsurf.session.guard import new_guard
from driftsurf.session.observation import Observation
from driftsurf.session.snapshot import Snapshot, saved_buffer
from driftsurf.strategies.cell import CellStrategy

STEPS = 50
"""``fit``, and a run over files, cut the rows into about this many time steps if there is no ``batch_size``."""
FEWEST_ROWS, MOST_ROWS = 100, 1000
"""Bounds of the number of rows in such a time step."""


def step_rows(count: int) -> int:
    """Return the number of rows in a time step of a table with ``count`` rows.

    >>> [step_rows(count) for count in (300, 11_055, 80_000)]
    [100, 221, 1000]
    """
    return min(max(count // STEPS, FEWEST_ROWS), MOST_ROWS)


class Session(Changeable):
    """Feeds raw batches to a strategy, and manages its columns, classes, buffer and guard.

    A call is checked completely before anything changes; bad input raises a named error and leaves the state unchanged,
    byte for byte. A call that completes several time steps takes them one by one, each completely or not at all, and an
    error in the middle says how many rows were taken.

    Any number of threads may predict while one learns, without waiting, and see whole steps only. Calls that learn,
    save, restore or copy wait for one another.

    Parameters
    ----------
    strategy
        Strategy that learns. It must not be used elsewhere.
    classes
        Closed set of labels; None for an open set that grows in order of appearance.
    batch_size
        None makes every call one time step. A number buffers rows and makes a time step whenever that many have
        arrived, however they were spread over calls.
    guard
        Factor of :class:`~driftsurf.session.guard.RangeGuard`; None for no guard.
    journal
        Journal in which decisions are recorded; a new one by default.
    owner
        Name of the model in error messages.
    categories
        Returns which columns belong to a category, once the first batch has been encoded. A learner with the capability
        ``categories`` reads them as one column.

    Examples
    --------
    >>> import numpy as np
    >>> from driftsurf.learners import LogisticRegression
    >>> from driftsurf.strategies import DriftSurf
    >>> session = Session(DriftSurf(LogisticRegression()))
    >>> X = np.linspace(-1, 1, 50).reshape(-1, 1)
    >>> y = np.where(X[:, 0] > 0, "up", "down")
    >>> _ = session.observe(X, y)
    >>> session.predict([[-0.9], [0.9]]).tolist()
    ['down', 'up']
    """

    _now: Snapshot
    _notes_parts = False
    """Whether every part of a call goes through ``_learned``, also one that stays in the buffer."""

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
        self._steps_directly = DirectlyStepped in self._abilities
        self._steps_usually = isinstance(strategy, CellStrategy) and strategy.learns_whole_batches
        self._reversible = Reversible in self._abilities
        self._dtype: np.dtype[Any] = np.dtype(strategy.dtype)
        guarded = None if guard is None else new_guard(guard, clips=self._can.linear)
        self._now = Snapshot(targets_of(self._can, classes), guarded, monitor=monitor)
        self._new_monitor = monitor
        self._pending: Samples | None = None
        self._measures = False

    def fresh(self, seed: int) -> Self:
        """Return a session with the same options that has seen no row, and whose strategy has another seed.

        The options are not checked again, which makes it cheap enough to call for every key of a keyed run.
        """
        if self.schema is not None or self.steps:
            raise StateError("this session has seen rows; call fresh() on one that has not")
        # Targets and guard are values that are replaced and never changed, so they may be shared.
        return replace(self, strategy=self.strategy.fresh(seed), journal=Journal(), lock=ChangeLock())

    def expect_late_labels(self) -> None:
        """Predict from now on as rows need it whose labels come long after them."""
        with self.lock:
            self.settle()
            if isinstance(self.strategy, LateAware):
                self.strategy.expect_late_labels()
                if self.schema is not None:
                    self._now = self._published(self._now)

    def measure_disagreement(self) -> None:
        """Let observations say how far the experts of the strategy disagree about each row, if it has experts."""
        self._measures = isinstance(self.strategy, Disagreeing)

    def watch(self, monitor: DriftMonitor | None) -> None:
        """Detect drifts of the whole model with a monitor from the first row on; None: do not."""
        if self.schema is not None:
            raise StateError("this session has seen rows; call watch() on one that has not")
        self._now, self._new_monitor = self._now._replace(monitor=monitor), monitor

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

    def name_columns(self, names: tuple[str, ...]) -> None:
        """Give the columns names, once the first batch has been learned."""
        with self.lock:
            self.settle()
            assert self.schema is not None
            self._now = self._now._replace(schema=self.schema.named(names))

    def _mark(self) -> Any:
        strategy: Any = self.strategy
        pending = self._pending
        # Before the first batch there is nothing to go back to: ``begin`` creates everything again.
        able = self._reversible and self._now.schema is not None
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
        return now._replace(scorer=self._scorer(), **changes)

    # -------------------------------------------------------------------- learning

    def observe(
        self,
        X: MatrixLike,
        y: TargetLike,
        *,
        classes: Classes | None = None,
        weight: TargetLike | None = None,
        decided: bool = True,
    ) -> Observation:
        """Predict each row with the model as it is when the row arrives, then learn the rows.

        Unless ``decided``, decisions may be in the journal only, where they are made when somebody reads them.
        """
        with self.lock:
            known, codes, scores, decisions = self._take(X, y, classes, weight, predict=True, decided=decided)
            disagreement = self._disagreement(len(scores)) if self._measures else None
        seen = self._observation(known, codes, scores, decisions)
        seen.disagreement = disagreement
        return seen

    def learn(
        self,
        X: MatrixLike,
        y: TargetLike,
        *,
        classes: Classes | None = None,
        weight: TargetLike | None = None,
        decided: bool = True,
    ) -> tuple[Decision, ...]:
        """Learn rows without predicting them; unless ``decided``, decisions may be in the journal only."""
        with self.lock:
            return self._take(X, y, classes, weight, predict=False, decided=decided)[3]

    def learn_in_steps(
        self, X: MatrixLike, y: TargetLike, size: int, *, weight: TargetLike | None = None
    ) -> tuple[Decision, ...]:
        """Learn rows in equal time steps of at least ``size`` rows, without using the buffer."""
        with self.lock:
            return self._take(X, y, None, weight, predict=False, size=size)[3]

    def judge(self, X: MatrixLike, y: TargetLike, *, classes: Classes | None = None) -> Observation:
        """Predict rows whose labels are known, and learn nothing."""
        now = self._now
        known = now.targets.with_classes(classes, begun=now.schema is not None)
        known, codes = known.read(y, n_rows(rows := now.read(X, self._dtype)))
        scores = known.restrict(self._raw_scores(now, now.limited(rows)), now.n_classes_learned)
        return self._observation(known, codes, scores, ())

    def reset(self, why: str) -> Transition | None:
        """Start over with fresh models, at the request of a user; None if nothing was learned yet."""

        def step() -> tuple[Snapshot, Transition]:
            change = self.strategy.reset(why)
            return self._published(self._now), change

        with uninterrupted(), self.lock:
            return None if self.schema is None else self._change(step)

    def flush(self) -> tuple[Decision, ...]:
        """Make a time step of the rows in the buffer, if there are any."""
        with uninterrupted(), self.lock:
            self.settle()
            if not self.rows_pending:
                return ()
            return (self._recorded(self._change(self._cut, self._now)),)

    def drop_pending(self) -> int:
        """Empty the buffer without learning it; return the number of rows dropped."""

        def step(pending: Samples) -> tuple[Snapshot, int]:
            dropped = len(pending)
            pending.release(pending.next_row)
            return self._now, dropped

        with self.lock:
            return 0 if self._pending is None else self._change(step, self._pending)

    def _take(
        self,
        X: MatrixLike,
        y: TargetLike,
        classes: Classes | None,
        weight: TargetLike | None,
        *,
        predict: bool,
        size: int | None = None,
        decided: bool = True,
    ) -> tuple[Any, FloatArray, FloatArray, tuple[Decision, ...]]:
        """Check the whole call, then take it part by part: each part is one time step, or goes to the buffer.

        The caller holds the lock. Returns the targets, the codes and the scores of the rows (none unless ``predict``),
        and the decisions; unless ``decided``, they may be in the journal only.
        """
        if self._before is not None:
            self.settle()
        now, pending = self._now, self._pending
        known, schema = now.targets, now.schema
        if classes is not None:
            known = known.with_classes(classes, begun=schema is not None)
        if schema is None:
            schema = read_schema(X, self.owner)
        elif self._steps_usually and pending is None and weight is None and size is None:
            with uninterrupted():
                if (done := usual_step(self, known, X, y, predict)) is not None:
                    now, codes, before, record = done
                    scores = NOTHING if before is None else known.restrict(before, now.n_classes_learned)
                    return known, codes, scores, self._noted(self._now.noticed(record, now), decided)
        if weight is not None or schema.sparse:
            self._check_capabilities(schema, weight)
        rows = read_rows(X, schema, self._dtype)
        count = n_rows(rows)
        known, codes = known.read(y, count)
        weights = None if weight is None else read_weights(weight, count)
        room = 0 if pending is None else (self.batch_size or 0) - len(pending)
        if pending is not None and size is None and known is now.targets and count < room and not self._notes_parts:
            scores = self._predicted(now, rows, known) if predict else NOTHING
            with uninterrupted():
                pending.append(rows, codes, weights)  # completely or not at all, so that it needs no mark
            return known, codes, scores, ()
        found: list[FloatArray] = []  # calling ``list[FloatArray]`` would take ten times as long
        decisions: list[Decision] = []
        start = stop = 0
        try:
            for stop in self._stops(count, size):
                part = rows, codes, weights
                if stop - start < count:
                    part = take_rows(rows, start, stop), codes[start:stop], weights
                    part = part if weights is None else (*part[:2], weights[start:stop])
                with uninterrupted():
                    known, tested, outcome = self._change(
                        self._learned, *part, known, schema, predict, size is not None
                    )
                    start, now = stop, self._now
                    if tested is not None:
                        found.append(tested)
                    if outcome is not None:
                        decisions += self._noted(outcome, decided)
        except BaseException as error:
            if size is None:
                taken = start if self._now is now else stop  # an exception may come between a step and its count
                some = f"{taken} of the {count} rows of this call were taken, the others were not."
                error.add_note(some if taken else "No row of this call was taken.")
            raise
        scores = NOTHING if not found else found[0] if len(found) == 1 else np.concatenate(found)
        return known, codes, scores, tuple(decisions)

    def _learned(
        self,
        X: Rows,
        y: FloatArray,
        weight: FloatArray | None,
        known: Any,
        schema: Schema,
        predict: bool,
        unbuffered: bool,
    ) -> tuple[Snapshot, tuple[Any, FloatArray | None, Outcome | None]]:
        """Take a part of a call: predict it if asked, then learn it, or append it to the buffer, and learn a full one.

        Returns the values afterwards; and the classes, the scores of the part and what was learned.
        """
        now = self._now
        targets = known
        if known is not now.targets:
            known = known.resumed(now.targets)
            targets = known.after_batch(len(now.targets.labels), y)
        if now.schema is None:
            now = self._begun(now, schema, targets)
        if targets is not now.targets:
            now = now._replace(targets=targets)
        pending = self._pending
        if pending is None or unbuffered:
            after, scores, outcome = self._step(now, X, y, weight, predict=predict)
            seen = None if scores is None else known.restrict(scores, now.n_classes_learned)
            return after, (known, seen, outcome)
        seen = self._predicted(now, X, known) if predict else None
        pending.append(X, y, weight)
        if len(pending) < (self.batch_size or 0):
            return now, (known, seen, None)
        after, outcome = self._cut(now)
        return after, (known, seen, outcome)

    def _step(
        self, now: Snapshot, X: Rows, y: FloatArray, weight: FloatArray | None, *, predict: bool = False
    ) -> tuple[Snapshot, FloatArray | None, Outcome]:
        """Take one time step; return the values after it, the scores if asked, and what was learned."""
        strategy: Any = self.strategy
        targets, monitor, guard = now.targets, now.monitor, now.guard
        watched = monitor is not None and now.steps > 0
        taken: TakenStep | None = None
        if self._steps_directly:
            taken = strategy.observe(X, y, weight, guard, predict=predict, test=watched)
        if taken is None:
            taken = self._generic_step(now, X, y, weight, predict=predict, test=watched)
        outcome, guard, rows, scores, tested, scorer = taken
        if monitor is not None and watched:
            assert tested is not None
            around = now.scorer, self._column_names, targets.labels, strategy
            monitor = monitor.after(now.steps, outcome.rows_seen - len(y), rows, y, tested, *around)
        if guard is not None and isinstance(targets, RegressionTargets):
            targets = targets.after_step(y, weight)
        after = Snapshot(targets, guard, now.schema, now.steps + 1, len(targets.labels), scorer, monitor)
        return after, scores, after.noticed(outcome, now)

    @in_usual_mode
    def _generic_step(
        self, now: Snapshot, X: Rows, y: FloatArray, weight: FloatArray | None, *, predict: bool, test: bool
    ) -> TakenStep:
        """Check, guard, predict and learn a batch with a strategy that does not do all of this itself."""
        strategy: Any = self.strategy
        batch = Batch(X, y, read_weights(None, len(y)) if weight is None else weight)
        guard, scores, tested = now.guard, None, None
        if predict:
            shown = now.limited(X)
            scores = strategy.test_scores(batch._replace(X=shown))
            tested = scores if shown is X else None
        if guard is not None:
            rows, factors, guard = guard.admit(X)
            if rows is not X:
                batch, tested = batch._replace(X=rows), None  # the models are compared on the rows that they learn
            if factors is not None:
                # A loss that grows with the square of a score needs the square of the weight to be bounded.
                reduced = batch.weight * (np.square(factors) if self._can.quadratic_loss else factors)
                # A risk is a weighted mean, so a batch of extreme rows alone would count in full: drop its weight.
                batch = batch._replace(weight=reduced * (reduced.sum() >= LEAST_WEIGHT * batch.weight.sum()))
        if test and tested is None:
            tested = strategy.test_scores(batch)
        decision = strategy.step(batch) if tested is None else strategy.step(batch, tested)
        return TakenStep(Decided(decision), guard, batch.X, scores, tested, self._scorer())

    def _scorer(self) -> Callable[[Rows], FloatArray] | None:
        """Return the scores of the models as they are now; None if the strategy cannot hand them out."""
        return cast("Any", self.strategy).scorer() if SnapshotScoring in self._abilities else None

    def _predicted(self, now: Snapshot, rows: Rows, known: ClassTargets | RegressionTargets) -> FloatArray:
        """Return the scores of rows that go to the buffer."""
        return known.restrict(self.strategy.scores(now.limited(rows)), now.n_classes_learned)

    def _observation(
        self,
        known: ClassTargets | RegressionTargets,
        codes: FloatArray,
        scores: FloatArray,
        decisions: tuple[Decision, ...],
    ) -> Observation:
        predicted = known.predicted(scores)
        true = codes.astype(predicted.dtype)
        return Observation(known.decode(predicted), predicted, true, scores, decisions, self._can.probabilities)

    def _check_capabilities(self, schema: Schema, weight: Any) -> None:
        learner, can = self.strategy.learner, self._can
        if schema.sparse and not can.sparse:
            raise CapabilityError(
                f"{learner!r} does not support sparse rows (capability 'sparse'); pass a dense array."
            )
        if weight is not None and not can.weights:
            raise CapabilityError(f"{learner!r} does not support row weights (capability 'weights'); leave them out.")

    def _stops(self, count: int, size: int | None) -> list[int]:
        """Return where the parts of a call end."""
        if size is not None:
            steps = max(1, count // size)
            return [count * (k + 1) // steps for k in range(steps)]
        if self.batch_size is None:
            return [count]
        return [*range(self.batch_size - self.rows_pending, count, self.batch_size), count]

    def _begun(self, now: Snapshot, schema: Schema, known: ClassTargets | RegressionTargets) -> Snapshot:
        """Make the first models and the buffer, for the columns of the first batch."""
        schema = schema.grouped(self.categories())
        self._tell_categories(schema)
        self.strategy.begin(schema.n_features, sparse=schema.sparse, n_classes=known.n_classes)
        if self.batch_size is not None:
            self._pending = Samples(schema.n_features, sparse=schema.sparse, dtype=self._dtype)
        return self._published(now, schema=schema)

    def _cut(self, now: Snapshot) -> tuple[Snapshot, Outcome]:
        """Make a time step of the rows in the buffer."""
        pending = self._pending
        assert pending is not None
        after, _, outcome = self._step(now, *pending.view(Segment(pending.first_row, pending.next_row))[:3])
        pending.release(pending.next_row)
        return after, outcome

    def _column_names(self) -> Sequence[str]:
        """Return the names of the columns; empty if they have none."""
        schema = self.schema
        return self.names() or (() if schema is None or schema.names is None else schema.names)

    def _noted(self, outcome: Outcome, decided: bool) -> tuple[Decision, ...]:
        """Record a step, and return its decision; unless ``decided``, it may be in the journal only."""
        if decided or self._now.steps == WARN_AFTER_STEPS:
            return (self._recorded(outcome),)
        self.journal.record_later(Noted(outcome, self.targets.labels) if outcome.transitions else outcome)
        return ()

    def _recorded(self, outcome: Outcome) -> Decision:
        """Record a step after it is complete, so that an error changes nothing here; return its decision."""
        decision = outcome.decision().named(self.targets.labels)
        self.journal.record(decision)
        few = self.steps == WARN_AFTER_STEPS and decision.rows_seen < WARN_BELOW_ROWS * WARN_AFTER_STEPS
        compares = decision.threshold is not None or len(decision.models) > 1  # by risk; a lone model is never replaced
        if few and compares and not decision.experts:  # a portfolio weights its experts over many steps
            rows = decision.rows_seen / self.steps
            message = Message(
                f"the first {self.steps} time steps had {rows:.0f} rows each on average; the risk on so few rows is "
                "mostly noise, which looks like drift, so that good models are replaced; recommended() learns single "
                "rows well (",
                Option("batch_size"),
                " collects rows for other models: 100 are enough for most streams)",
            )
            warnings.warn(message, SmallBatchWarning, stacklevel=6)
        return decision

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

    def scores_and_disagreement(self, X: MatrixLike) -> tuple[FloatArray, FloatArray | None]:
        """Return the scores of rows, and how far experts disagree about each if that is measured, else None."""
        now = self._now
        if not self._measures or now.scorer is None:
            return self._scores(now, X), None
        strategy: Any = self.strategy
        scores, found = strategy.scores_and_disagreement(now.scorer, now.limited(now.read(X, self._dtype)))
        return now.restricted(scores), found

    def _disagreement(self, rows: int) -> FloatArray | None:
        """Return how far experts disagreed about the rows of a call; None if they were several steps."""
        strategy: Any = self.strategy
        found: FloatArray | None = strategy.disagreement()
        return found if found is not None and len(found) == rows else None

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
        return blank.from_state(state, self.strategy, schema.n_features, sparse=schema.sparse, dtype=self._dtype.name)


WARN_AFTER_STEPS = 20
WARN_BELOW_ROWS = 10
LEAST_WEIGHT = 0.01
"""A batch that keeps less than this share of its weight under the range guard is no evidence."""

NOTHING = np.zeros(0)
