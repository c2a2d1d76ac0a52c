"""Session: feeds a strategy from raw batches; returns predictions and decisions."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from driftsurf.core.abilities import DirectlyStepped, Taken
from driftsurf.core.contracts import Batch, FloatArray, Rows, Segment, n_rows, take_rows
from driftsurf.core.decisions import Decision, Transition
from driftsurf.core.input import Schema, is_ready, read_rows, read_schema
from driftsurf.core.journal import Decided, Outcome
from driftsurf.core.samples import Samples
from driftsurf.core.targets import ClassTargets, RegressionTargets
from driftsurf.core.typing import Classes, MatrixLike, TargetLike
from driftsurf.core.values import replace
from driftsurf.core.weights import read_weights
from driftsurf.errors import CapabilityError, Message, Option, SmallBatchWarning
from driftsurf.session.base import BaseSession
from driftsurf.session.interrupts import uninterrupted
from driftsurf.session.observation import Observation
from driftsurf.session.outcomes import Drifted, Named, News
from driftsurf.session.snapshot import Snapshot, _dtype

__all__ = ["Session"]

WARN_AFTER_STEPS = 20
WARN_BELOW_ROWS = 10
LEAST_WEIGHT = 0.01
"""A batch that keeps less than this share of its weight under the range guard is no evidence."""

NOTHING = np.zeros(0)


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
        return self._observation(known, codes, scores, decisions)

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
        self.settle()
        now, pending = self._now, self._pending
        known, schema = now.targets, now.schema
        if classes is not None:
            known = known.with_classes(classes, begun=schema is not None)
        if schema is None:
            schema = read_schema(X, self.owner)
        if weight is not None or schema.sparse:
            self._check_capabilities(schema, weight)
        # A strategy that takes the whole call in one step checks the values itself, where it copies them.
        direct = self.batch_size is None and size is None and DirectlyStepped in self._abilities
        dtype = _dtype(self.strategy.dtype)
        rows: Rows = (
            X if is_ready(X, schema, dtype, finite=not direct) else read_rows(X, schema, dtype, finite=not direct)
        )
        count = n_rows(rows)
        known, codes = known.read(y, count)
        weights = None if weight is None else read_weights(weight, count)
        if pending is not None and size is None and known is now.targets and self._has_room(pending, count):
            scores = self._predicted(rows, known) if predict else NOTHING
            with uninterrupted():
                pending.append(rows, codes, weights)  # completely or not at all, so that it needs no mark
            return known, codes, scores, ()
        stops = [count] if direct else self._stops(count, size)
        found: list[FloatArray] = []  # calling ``list[FloatArray]`` would take ten times as long
        decisions: list[Decision] = []
        start = stop = 0
        try:
            for stop in stops:
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
                    if outcome is None:
                        continue
                    if decided or now.steps == WARN_AFTER_STEPS:
                        decisions.append(self._recorded(outcome))
                    else:
                        named = Named(outcome, now.targets.labels) if outcome.transitions else outcome
                        self.journal.record_later(named)
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
        now, pending = self._now, self._pending
        targets = known
        if known is not now.targets:
            known = known.resumed(now.targets)
            targets = known.after_batch(len(now.targets.labels), y)
        if now.schema is None:
            now, pending = self._begun(now, schema, targets), self._pending
        if targets is not now.targets:
            now = replace(now, targets=targets)
        at_once = pending is None or unbuffered
        taken = self._directly(now, X, y, weight, predict=predict) if at_once else None
        if taken is not None:
            after, scores, outcome = taken
            seen = None if scores is None else known.restrict(scores, now.n_classes_learned)
            return after, (known, seen, outcome)
        if pending is None and not unbuffered and isinstance(X, np.ndarray):
            X = read_rows(X, schema, _dtype(self._dtype))  # raises an error if a value is not finite
        tested = seen = None
        part = Batch(X, y, read_weights(None, len(y)) if weight is None else weight)
        if predict:
            shown = now.limited(X)
            tested = self._tested(part if shown is X else part._replace(X=shown))
            seen = known.restrict(tested, now.n_classes_learned)
            tested = tested if shown is X else None
        if at_once:
            now, outcome = self._step(now, part, None if unbuffered else tested)
            return now, (known, seen, outcome)
        assert pending is not None
        pending.append(*part[:3])
        if len(pending) < (self.batch_size or 0):
            return now, (known, seen, None)
        now, outcome = self._cut(now)
        return now, (known, seen, outcome)

    def _directly(
        self, now: Snapshot, X: Rows, y: FloatArray, weight: FloatArray | None, *, predict: bool
    ) -> tuple[Snapshot, FloatArray | None, Outcome] | None:
        """Take one time step in one call of the strategy, if it can; return the values after it, scores and outcome."""
        if DirectlyStepped not in self._abilities:
            return None
        strategy: Any = self.strategy
        guard, targets, monitor, scorer = now.guard, now.targets, now.monitor, now.scorer
        watched = monitor is not None and now.steps > 0
        taken: Taken | None = strategy.observe(X, y, weight, guard, predict=predict, test=watched)
        if taken is None:
            return None
        outcome = taken.outcome
        if watched:
            assert monitor is not None
            assert taken.tested is not None
            before, first = monitor, outcome.rows_seen - len(y)
            around = self._column_names, targets.labels, strategy
            monitor = monitor.after(now.steps, first, taken.rows, y, taken.tested, scorer, *around)
            if monitor.updates or monitor.changes is not before.changes:
                outcome = Drifted(outcome, News.of(before, monitor))
        if guard is not None and isinstance(targets, RegressionTargets):
            targets = targets.after_step(y, weight)
        now = replace(
            now,
            scorer=strategy.scorer(),
            targets=targets,
            guard=taken.guard,
            steps=now.steps + 1,
            n_classes_learned=len(targets.labels),
            monitor=monitor,
        )
        return now, taken.predicted, outcome

    def _has_room(self, pending: Samples, count: int) -> bool:
        """Return whether so many rows do not fill the buffer."""
        return len(pending) + count < (self.batch_size or 0)

    def _predicted(self, rows: Rows, known: ClassTargets | RegressionTargets) -> FloatArray:
        """Return the scores of rows that go to the buffer."""
        return known.restrict(self.strategy.scores(self._now.limited(rows)), self._now.n_classes_learned)

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

    def _cut(self, now: Snapshot) -> tuple[Snapshot, Outcome]:
        """Make a time step of the rows in the buffer."""
        pending = self._pending
        assert pending is not None
        batch = pending.view(Segment(pending.first_row, pending.next_row))
        taken = self._directly(now, *batch[:3], predict=False)
        now, outcome = self._step(now, batch) if taken is None else (taken[0], taken[2])
        pending.release(pending.next_row)
        return now, outcome

    def _step(self, now: Snapshot, batch: Batch, tested: FloatArray | None = None) -> tuple[Snapshot, Outcome]:
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
            around = self._column_names, targets.labels, self.strategy
            first = decision.first_row
            monitor = monitor.after(decision.step, first, batch.X, batch.y, tested, scorer, *around)
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
        return now, Decided(decision)

    def _column_names(self) -> Sequence[str]:
        """Return the names of the columns; empty if they have none."""
        schema = self.schema
        return self.names() or (() if schema is None or schema.names is None else schema.names)

    def _recorded(self, outcome: Outcome) -> Decision:
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
                "mostly noise, which looks like drift, so that good models are replaced (",
                Option("batch_size"),
                " collects rows: 100 are enough for most streams)",
            )
            warnings.warn(message, SmallBatchWarning, stacklevel=6)
