"""Session: feeds a strategy from raw batches; returns predictions and decisions."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from driftsurf.core.abilities import DirectlyStepped, Taken
from driftsurf.core.contracts import Batch, FloatArray, Segment, n_rows, take_rows
from driftsurf.core.decisions import Decision, Transition
from driftsurf.core.drifts import Drift, InputChange
from driftsurf.core.input import Schema, is_ready, read_rows, read_schema
from driftsurf.core.journal import Outcome
from driftsurf.core.samples import Samples
from driftsurf.core.targets import ClassTargets, RegressionTargets
from driftsurf.core.typing import Classes, MatrixLike, TargetLike
from driftsurf.core.values import replace
from driftsurf.core.weights import read_weights
from driftsurf.errors import CapabilityError, Message, Option, SmallBatchWarning
from driftsurf.session.base import BaseSession
from driftsurf.session.drift_monitor import DriftMonitor, Surroundings
from driftsurf.session.guard import RangeGuard, admission, admitted
from driftsurf.session.interrupts import uninterrupted
from driftsurf.session.observation import Observation
from driftsurf.session.snapshot import Snapshot, _dtype

__all__ = ["Session"]

WARN_AFTER_STEPS = 20
WARN_BELOW_ROWS = 10
LEAST_WEIGHT = 0.01
"""A batch that keeps less than this share of its weight under the range guard is no evidence."""

ONE = np.ones(1)
NOTHING = np.zeros(0)


class News(NamedTuple):
    """What a monitor has noticed at a step."""

    drifts: tuple[Drift, ...]
    """Drifts that were detected, changed or ended."""
    changes: tuple[InputChange, ...]
    """Moves of the inputs alone."""

    @classmethod
    def of(cls, before: DriftMonitor, after: DriftMonitor) -> News:
        """Return what is new, given the monitor before a step and after it, which notices one move at most."""
        return cls(after.updates, () if after.changes is before.changes else tuple(after.changes[-1:]))


class Drifted(NamedTuple):
    """A step at which a monitor has noticed something."""

    outcome: Outcome
    news: News

    @property
    def transitions(self) -> int:
        """Number of events that are reported at once."""
        return self.outcome.transitions + sum(map(len, self.news))

    @property
    def rows_seen(self) -> int:
        """Number of rows up to and including this step."""
        return self.outcome.rows_seen

    def decision(self) -> Decision:
        """Return the decision."""
        return dataclasses.replace(self.outcome.decision(), **self.news._asdict())


class Named(NamedTuple):
    """A step with the names of classes, which its transitions may be about."""

    outcome: Outcome
    labels: Sequence[Any]

    @property
    def transitions(self) -> int:
        """Number of transitions."""
        return self.outcome.transitions

    @property
    def rows_seen(self) -> int:
        """Number of rows up to and including this step."""
        return self.outcome.rows_seen

    def decision(self) -> Decision:
        """Return the decision."""
        return self.outcome.decision().named(self.labels)


def _part(batch: Batch, start: int, stop: int) -> Batch:
    return Batch(take_rows(batch.X, start, stop), batch.y[start:stop], batch.weight[start:stop])


class Session(BaseSession):
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

    # -------------------------------------------------------------------- learning

    def observe(
        self, X: MatrixLike, y: TargetLike, *, classes: Classes | None = None, weight: TargetLike | None = None
    ) -> Observation:
        """Predict each row with the model as it is when the row arrives, then learn the rows."""
        with self.lock:
            plain = classes is None and weight is None
            direct = self._learn_directly(X, y, shown=True) if plain else None
            if direct is not None:
                codes, taken = direct
                return self._observation(self.targets, codes, taken.scores, (self._reported(taken.outcome),))
            code = self._code_of_single(X, y) if plain else None
            if code is None:
                return self._observation(*self._take(X, y, classes, weight, predict=True))
            assert isinstance(X, np.ndarray)
            scores = self.targets.restrict(self.strategy.scores(X), self.n_classes_learned)
            self._buffer_one(X, code)
            return self._observation(self.targets, np.array((code,)), scores, ())

    def learn(
        self, X: MatrixLike, y: TargetLike, *, classes: Classes | None = None, weight: TargetLike | None = None
    ) -> tuple[Decision, ...]:
        """Learn rows without predicting them."""
        with self.lock:
            direct = self._learn_directly(X, y, shown=False) if classes is None and weight is None else None
            if direct is None:
                return self._take(X, y, classes, weight, predict=False)[3]
            return (self._reported(direct[1].outcome),)

    def try_usual(self, X: MatrixLike, y: TargetLike) -> bool:
        """Learn rows in the fastest way, if nothing has to be checked in Python.

        A time step is taken in one call of compiled code; with a buffer, a single row is appended to it. Returns False,
        and changes nothing, if that cannot be: for a row that fills the buffer, a new label, a value that is not
        finite, and anything but an array of the right type.
        """
        with self.lock:
            self.settle()
            now, pending = self._now, self._pending
            if pending is None or now.schema is None:
                direct = self._learn_directly(X, y, shown=False)
                if direct is None:
                    return False
                self._report_later(direct[1].outcome)
                return True
            if len(pending) + 1 == self.batch_size or not is_ready(X, now.schema, pending.dtype, finite=False):
                return False
            code = now.targets.code_of(y) if len(X) == 1 else None
            with uninterrupted():
                return code is not None and pending.append_one(X, code)

    def try_observe(self, X: MatrixLike, y: TargetLike) -> Observation | None:
        """Predict and learn rows in the fastest way, as ``try_usual`` learns them; the decision is in the journal only.

        Returns None, and changes nothing, if that cannot be.
        """
        with self.lock:
            direct = self._learn_directly(X, y, shown=True)
            if direct is None:
                return None
            codes, taken = direct
            self._report_later(taken.outcome)
            return self._observation(self.targets, codes, taken.scores, ())

    def _learn_directly(self, X: Any, y: Any, *, shown: bool) -> tuple[FloatArray, Taken] | None:
        """Take a usual time step in one call of compiled code; None if ``_take`` has to, and nothing was changed.

        Returns the codes of the rows, and the step with the scores of the rows if they are to be ``shown``.
        """
        self.settle()
        now = self._now
        if not (DirectlyStepped in self._abilities and self._pending is None and now.schema is not None):
            return None
        if not is_ready(X, now.schema, _dtype(self._dtype), finite=False):  # the compiled code checks the values
            return None
        codes = now.targets.known_codes(y, len(X))
        if codes is None:
            return None
        with uninterrupted():
            taken = self._change(self._directly, X, codes, shown)
        return None if taken is None else (codes, taken)

    def _directly(self, X: Any, codes: FloatArray, shown: bool) -> tuple[Snapshot, Taken | None]:
        """Take one time step; return the values after it, and what was done, or None if nothing was changed."""
        strategy: Any = self.strategy
        now, guard, targets = self._now, self._now.guard, self._now.targets
        how = admission(guard, len(codes))
        monitor, scorer = now.monitor, now.scorer
        seen = shown or monitor is not None
        taken: Taken | None = None if how is None else strategy.take(X, codes, how, shown=seen)
        if taken is None:
            assert self._before is not None
            self._put_back(self._before[0])
            return now, None
        assert how is not None
        if monitor is not None and now.steps:
            first = taken.outcome.rows_seen - len(codes)
            around = Surroundings(self._column_names, targets.labels, self.strategy)
            monitor = monitor.after(now.steps, first, X, codes, taken.scores, scorer, around)
            assert now.monitor is not None
            news = News.of(now.monitor, monitor)
            if any(news):
                taken = taken._replace(outcome=Drifted(taken.outcome, news))
        if shown:
            taken = taken._replace(scores=now.restricted(taken.scores))
        if guard is not None:
            guard = admitted(guard, how[4], how[5], taken.kept)
            if isinstance(targets, RegressionTargets):
                targets = targets.after_step(codes, np.ones(len(codes)))
        known = len(targets.labels)
        scorer, steps = strategy.scorer(), now.steps + 1
        now = replace(
            now, scorer=scorer, targets=targets, guard=guard, steps=steps, n_classes_learned=known, monitor=monitor
        )
        return now, taken

    def _code_of_single(self, X: Any, y: Any) -> float | None:
        """Return the label code of a single row that only has to be appended to the buffer; None for any other call.

        The values of such a row are usual: they need not be limited to be predicted.
        """
        self.settle()
        pending = self._pending
        if pending is None or len(pending) + 1 == self.batch_size or not (type(X) is np.ndarray and len(X.shape) == 2):
            return None
        code = self.targets.code_of(y)
        guard = self._now.guard
        most = None if guard is None else guard.limits
        if code is None or len(X) != 1 or not is_ready(X, self.schema, pending.dtype, most=most):  # type: ignore[arg-type]
            return None  # a buffer implies a schema
        return code

    def _buffer_one(self, X: Any, code: float) -> None:
        assert self._pending is not None
        with uninterrupted():
            self._pending.append(X, np.array((code,)), ONE)  # completely or not at all, so that it needs no mark

    def learn_in_steps(
        self, X: MatrixLike, y: TargetLike, size: int, *, weight: TargetLike | None = None
    ) -> tuple[Decision, ...]:
        """Learn rows in equal time steps of at least ``size`` rows, without using the buffer."""
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
            decision = self._change(self._cut, self._now)
            self._report(decision)
            return (decision,)

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
    ) -> tuple[Any, FloatArray, FloatArray, tuple[Decision, ...]]:
        """Check the whole call, then take it part by part: each part is one time step, or goes to the buffer.

        Returns the targets, the codes and the scores of the rows (none unless ``predict``), and the decisions.
        """
        with self.lock:
            self.settle()
            now = self._now
            known = now.targets.with_classes(classes, begun=now.schema is not None)
            schema = read_schema(X, self.owner) if now.schema is None else now.schema
            if schema.sparse or weight is not None:
                self._check_capabilities(schema, weight)
            usual = now.guard if predict and now.is_usual(X, self._dtype) else None
            rows: Any = X if usual is not None else read_rows(X, schema, self._dtype)
            count = n_rows(rows)
            known, codes = known.read(y, count)
            batch = Batch(rows, codes, read_weights(weight, count))
            scores, decisions = list[FloatArray](), list[Decision]()
            start = stop = 0
            try:
                for stop in self._stops(count, size):
                    part = batch if stop - start == count else _part(batch, start, stop)
                    with uninterrupted():
                        known, tested, done = self._change(
                            self._learned, part, known, schema, usual, predict, size is not None
                        )
                        start, now = stop, self._now
                        if tested is not None:
                            scores.append(tested)
                        for decision in done:
                            decisions.append(decision)
                            self._report(decision)
            except BaseException as error:
                if size is None:
                    taken = start if self._now is now else stop  # an exception may come between a step and its count
                    some = f"{taken} of the {count} rows of this call were taken, the others were not."
                    error.add_note(some if taken else "No row of this call was taken.")
                raise
            all_scores = scores[0] if len(scores) == 1 else np.concatenate(scores or [NOTHING])
            return known, codes, all_scores, tuple(decisions)

    def _learned(
        self,
        part: Batch,
        known: Any,
        schema: Schema,
        usual: RangeGuard | None,
        predict: bool,
        unbuffered: bool,
    ) -> tuple[Snapshot, tuple[Any, FloatArray | None, tuple[Decision, ...]]]:
        """Take a part of a call: predict it if asked, then learn it, or append it to the buffer, and learn a full one.

        Returns the values afterwards; and the classes, the scores of the part and the decisions.
        """
        now = self._now
        known = known.resumed(now.targets)
        targets = known.after_batch(len(now.targets.labels), part.y)
        if now.schema is None:
            now = self._begun(now, schema, targets)
        tested = seen = None
        if predict:
            # As long as no step has changed the guard, usual values are still within its limits.
            shown = part.X if usual is not None and usual is now.guard else now.limited(part.X)
            tested = self._tested(part if shown is part.X else part._replace(X=shown))
            seen = known.restrict(tested, now.n_classes_learned)
            tested = tested if shown is part.X else None
        now = now if targets is now.targets else replace(now, targets=targets)
        pending = self._pending
        if pending is None or unbuffered:
            now, decision = self._step(now, part, None if unbuffered else tested)
            return now, (known, seen, (decision,))
        pending.append(part.X, part.y, part.weight)
        if len(pending) < (self.batch_size or 0):
            return now, (known, seen, ())
        now, decision = self._cut(now)
        return now, (known, seen, (decision,))

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

    def _tested(self, part: Batch) -> FloatArray:
        """Return the scores of rows before they are learned.

        With a buffer a part may be less than a time step, so the strategy must not use its labels.
        """
        return self.strategy.test_scores(part) if self._pending is None else self.strategy.scores(part.X)

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

    def _cut(self, now: Snapshot) -> tuple[Snapshot, Decision]:
        """Make a time step of the rows in the buffer."""
        pending = self._pending
        assert pending is not None
        now, decision = self._step(now, pending.view(Segment(pending.first_row, pending.next_row)))
        pending.release(pending.next_row)
        return now, decision

    def _step(self, now: Snapshot, batch: Batch, tested: FloatArray | None = None) -> tuple[Snapshot, Decision]:
        """Take one time step; return the values after it."""
        guard, targets = now.guard, now.targets
        if guard is not None:
            targets = targets.after_step(batch.y, batch.weight)
            rows, factors, guard = guard.admit(batch.X)
            if rows is not batch.X:
                batch, tested = batch._replace(X=rows), None  # the models are compared on the rows that they learn
            if factors is not None:
                # A loss that grows with the square of a score needs the square of the weight to be bounded.
                weight = batch.weight * (np.square(factors) if self._can.quadratic_loss else factors)
                # A risk is a weighted mean, so a batch of extreme rows alone would count in full: drop its weight.
                batch = batch._replace(weight=weight * (weight.sum() >= LEAST_WEIGHT * batch.weight.sum()))
        monitor, scorer = now.monitor, now.scorer
        if monitor is not None and tested is None and now.steps:
            tested = self.strategy.test_scores(batch)
        decision = self.strategy.step(batch) if tested is None else self.strategy.step(batch, tested)
        if monitor is not None and tested is not None and now.steps and len(batch.y):
            around = Surroundings(self._column_names, targets.labels, self.strategy)
            first = decision.first_row
            monitor = monitor.after(decision.step, first, batch.X, batch.y, tested, scorer, around)
            assert now.monitor is not None
            decision = dataclasses.replace(decision, **News.of(now.monitor, monitor)._asdict())
        now = self._published(
            now,
            targets=targets,
            guard=guard,
            steps=now.steps + 1,
            n_classes_learned=len(targets.labels),
            monitor=monitor,
        )
        return now, decision.named(targets.labels)

    def _column_names(self) -> Sequence[str]:
        """Return the names of the columns; empty if they have none."""
        schema = self.schema
        return self.names() or (() if schema is None or schema.names is None else schema.names)

    def _report_later(self, outcome: Outcome) -> None:
        """Record a step after it is complete; its decision is made when somebody reads it, if that can wait."""
        if self._now.steps == WARN_AFTER_STEPS:
            self._reported(outcome)
        else:
            self.journal.record_later(Named(outcome, self.targets.labels) if outcome.transitions else outcome)

    def _reported(self, outcome: Outcome) -> Decision:
        """Record a step after it is complete; return its decision."""
        decision = outcome.decision().named(self.targets.labels)
        self._report(decision)
        return decision

    def _report(self, decision: Decision) -> None:
        """Record a decision after the step is complete, so that a failing journal or warning changes nothing here."""
        self.journal.record(decision)
        few = self.steps == WARN_AFTER_STEPS and decision.rows_seen < WARN_BELOW_ROWS * WARN_AFTER_STEPS
        if few and not decision.experts:  # a portfolio weights its experts over many steps
            rows = decision.rows_seen / self.steps
            message = Message(
                f"the first {self.steps} time steps had {rows:.0f} rows each on average; the risk on so few rows is "
                "mostly noise, which looks like drift (",
                Option("batch_size"),
                " buffers rows)",
            )
            warnings.warn(message, SmallBatchWarning, stacklevel=5)
