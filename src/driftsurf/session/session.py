"""Session: feeds a strategy from raw batches; returns predictions and decisions."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from driftsurf.core.abilities import IncrementallySaved, abilities_of, check_contract
from driftsurf.core.contracts import (
    Batch,
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
from driftsurf.core.fields import misfit
from driftsurf.core.input import Schema, is_ready, read_rows, read_schema, read_weights
from driftsurf.core.journal import Journal
from driftsurf.core.options import whole
from driftsurf.core.samples import Samples
from driftsurf.core.state import nest, pick, resolved
from driftsurf.core.targets import ClassTargets, RegressionTargets, targets_of
from driftsurf.core.typing import Classes, MatrixLike, TargetLike
from driftsurf.core.values import replace
from driftsurf.errors import CapabilityError, Message, Option, SmallBatchWarning, StateError
from driftsurf.session.guard import RangeGuard
from driftsurf.session.interrupts import uninterrupted
from driftsurf.session.observation import Observation
from driftsurf.session.saved import FIELDS, saved_buffer

__all__ = ["Session"]

WARN_AFTER_STEPS = 20
WARN_BELOW_ROWS = 10
LEAST_WEIGHT = 0.01
"""A batch that keeps less than this share of its weight under the range guard is no evidence."""

ONE = np.ones(1)


class _AllOrNothing:
    """Context manager that restores a session if its body raises, whatever the body changed."""

    __slots__ = ("_before", "_next_row", "_session")

    def __init__(self, session: Session) -> None:
        pending = session._pending
        self._session = session
        self._before = (
            session.schema,
            session.targets,
            session.n_classes_learned,
            session.steps,
            session._guard,
            pending,
        )
        self._next_row = 0 if pending is None else pending.next_row

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            return
        session = self._session
        session.schema, session.targets, session.n_classes_learned, session.steps, session._guard, pending = (
            self._before
        )
        session._pending = pending
        if pending is not None:
            pending.truncate(self._next_row)


def _part(batch: Batch, start: int, stop: int) -> Batch:
    return Batch(take_rows(batch.X, start, stop), batch.y[start:stop], batch.weight[start:stop])


class Session:
    """Feeds a strategy from raw batches and keeps what surrounds it: columns, classes, buffer, guard.

    A call is checked completely before anything changes; bad input raises a named error and leaves the state unchanged,
    byte for byte. A call that completes several time steps takes them one by one, each completely or not at all, and an
    error in the middle says how many rows were taken.

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

    Examples
    --------
    >>> from driftsurf.learners import LogisticRegression
    >>> from driftsurf.strategies import DriftSurf
    >>> session = Session(DriftSurf(LogisticRegression()))
    >>> X = np.linspace(-1, 1, 50).reshape(-1, 1)
    >>> y = np.where(X[:, 0] > 0, "up", "down")
    >>> _ = session.observe(X, y)
    >>> session.predict([[-0.9], [0.9]]).tolist()
    ['down', 'up']
    """

    def __init__(
        self,
        strategy: Strategy,
        *,
        classes: Classes | None = None,
        batch_size: int | None = None,
        guard: float | None = 2.0,
        journal: Journal | None = None,
        owner: str = "this model",
    ) -> None:
        check_contract(strategy, Strategy, "strategy", "one of driftsurf.strategies, such as DriftSurf(learner)")
        strategy.check()
        self.strategy = strategy
        if batch_size is not None:
            batch_size = whole("batch_size", batch_size, at_least=1, otherwise=", or None")
        self.batch_size = batch_size
        self.journal: Journal = Journal() if journal is None else journal
        self.owner = owner
        self.schema: Schema | None = None
        self._can = strategy.learner.capabilities
        self.targets: ClassTargets | RegressionTargets = targets_of(self._can, classes)
        self.steps: int = 0
        self.n_classes_learned: int = 0
        """Number of classes known at the last time step; only these can be predicted."""
        self._guard = None if guard is None else RangeGuard(guard, clips=self._can.linear)
        self._pending: Samples | None = None

    def fresh(self, seed: int) -> Session:
        """Return a session with the same options that has seen no row, and whose strategy has another seed.

        The options are not checked again, which makes it cheap enough to call for every key of a keyed run.
        """
        if self.schema is not None or self.steps:
            raise StateError("this session has seen rows; call fresh() on one that has not")
        # Targets and guard are values that are replaced and never changed, so they may be shared.
        return replace(self, strategy=self.strategy.fresh(seed), journal=Journal())

    # -------------------------------------------------------------------- learning

    def observe(
        self, X: MatrixLike, y: TargetLike, *, classes: Classes | None = None, weight: TargetLike | None = None
    ) -> Observation:
        """Predict each row with the model as it is when the row arrives, then learn the rows."""
        code = self._code_of_single(X, y) if classes is None and weight is None else None
        if code is None:
            return self._take(X, y, classes, weight, predict=True)
        assert isinstance(X, np.ndarray)
        scores = self.targets.restrict(self.strategy.scores(X), self.n_classes_learned)
        self._buffer_one(X, code)
        return self._observation(self.targets, np.array((code,)), scores, ())

    def learn(
        self, X: MatrixLike, y: TargetLike, *, classes: Classes | None = None, weight: TargetLike | None = None
    ) -> tuple[Decision, ...]:
        """Learn rows without predicting them."""
        return self._take(X, y, classes, weight, predict=False).decisions

    def try_buffer_one(self, X: MatrixLike, y: TargetLike) -> bool:
        """Append a single row to the buffer, if nothing else has to be done; five times as fast as ``learn``.

        Returns False, and changes nothing, otherwise: without a buffer, for the row that fills it, for a new label, and
        for anything that is not a plain row of an array.
        """
        code = self._code_of_single(X, y)
        if code is None:
            return False
        self._buffer_one(X, code)
        return True

    def _code_of_single(self, X: Any, y: Any) -> float | None:
        """Return the label code of a single row that only has to be appended to the buffer; None for any other call.

        The values of such a row are usual: they need not be limited to be predicted.
        """
        pending = self._pending
        if pending is None or len(pending) + 1 == self.batch_size or not (type(X) is np.ndarray and len(X.shape) == 2):
            return None
        code = self.targets.code_of(y)
        most = None if self._guard is None else self._guard.limits
        if code is None or len(X) != 1 or not is_ready(X, self.schema, pending.dtype, most=most):  # type: ignore[arg-type]
            return None  # a buffer implies a schema
        return code

    def _buffer_one(self, X: Any, code: float) -> None:
        assert self._pending is not None
        with uninterrupted():
            self._pending.append(X, np.array((code,)), ONE)

    def learn_in_steps(
        self, X: MatrixLike, y: TargetLike, size: int, *, weight: TargetLike | None = None
    ) -> tuple[Decision, ...]:
        """Learn rows in equal time steps of at least ``size`` rows, without using the buffer."""
        return self._take(X, y, None, weight, predict=False, size=size).decisions

    def judge(self, X: MatrixLike, y: TargetLike, *, classes: Classes | None = None) -> Observation:
        """Predict rows whose labels are known, and learn nothing."""
        known = self.targets.with_classes(classes, begun=self.schema is not None)
        known, codes = known.read(y, n_rows(rows := self.read(X)))
        scores = known.restrict(self.strategy.scores(self._limited(rows)), self.n_classes_learned)
        return self._observation(known, codes, scores, ())

    def reset(self, why: str) -> Transition | None:
        """Start over with fresh models, at the request of a user; None if nothing was learned yet."""
        if self.schema is None:
            return None
        with uninterrupted():
            return self.strategy.reset(why)

    def flush(self) -> tuple[Decision, ...]:
        """Make a time step of the rows in the buffer, if there are any."""
        if self._pending is None or len(self._pending) == 0:
            return ()
        with uninterrupted():
            with _AllOrNothing(self):
                decision = self._cut(self._pending)
            self._report(decision)
        return (decision,)

    def drop_pending(self) -> int:
        """Empty the buffer without learning it; return the number of rows dropped."""
        dropped = self.rows_pending
        if self._pending is not None:
            self._pending.release(self._pending.next_row)
        return dropped

    @property
    def guard_factor(self) -> float | None:
        """Factor of the range guard; None without one."""
        return None if self._guard is None else self._guard.factor

    @property
    def rows_pending(self) -> int:
        """Number of rows in the buffer."""
        return 0 if self._pending is None else len(self._pending)

    def _take(
        self,
        X: MatrixLike,
        y: TargetLike,
        classes: Classes | None,
        weight: TargetLike | None,
        *,
        predict: bool,
        size: int | None = None,
    ) -> Observation:
        """Check the whole call, then take it part by part: each part is one time step, or goes to the buffer."""
        known = self.targets.with_classes(classes, begun=self.schema is not None)
        schema = read_schema(X, self.owner) if self.schema is None else self.schema
        if schema.sparse or weight is not None:
            self._check_capabilities(schema, weight)
        usual = self._guard if predict and self._is_usual(X) else None
        rows: Any = X if usual is not None else read_rows(X, schema, self._dtype)
        count = n_rows(rows)
        known, codes = known.read(y, count)
        batch = Batch(rows, codes, read_weights(weight, count))
        scores, decisions = list[FloatArray](), list[Decision]()
        start = 0
        try:
            for stop in self._stops(count, size):
                part = batch if stop - start == count else _part(batch, start, stop)
                with uninterrupted():
                    with _AllOrNothing(self):
                        known = known.resumed(self.targets)  # type: ignore[arg-type]  # both are of one kind
                        targets = known.after_batch(len(self.targets.labels), part.y)
                        self._begin(schema, targets)
                        tested = None
                        if predict:
                            # As long as no step has changed the guard, usual values are still within its limits.
                            shown = part.X if usual is not None and usual is self._guard else self._limited(part.X)
                            tested = self._tested(part if shown is part.X else part._replace(X=shown))
                            scores.append(known.restrict(tested, self.n_classes_learned))
                            tested = tested if shown is part.X else None
                        self.targets = targets
                        done = self._accept(part, tested) if size is None else (self._step(part),)
                    start = stop
                    for decision in done:
                        decisions.append(decision)
                        self._report(decision)
        except BaseException as error:
            if size is None:
                error.add_note(f"{start} of the {count} rows of this call were taken, the others were not.")
            raise
        if not predict:
            nothing = np.zeros(0)
            return Observation(nothing, nothing, nothing, nothing, tuple(decisions), self._can.probabilities)
        all_scores = scores[0] if len(scores) == 1 else np.concatenate(scores)
        return self._observation(known, codes, all_scores, tuple(decisions))

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

    def _begin(self, schema: Schema, known: ClassTargets | RegressionTargets) -> None:
        if self.schema is not None:
            return
        self.strategy.begin(schema.n_features, sparse=schema.sparse, n_classes=known.n_classes)
        if self.batch_size is not None:
            self._pending = Samples(schema.n_features, sparse=schema.sparse, dtype=self._dtype)
        self.schema = schema

    @property
    def _dtype(self) -> str:
        return self.strategy.dtype

    def _accept(self, part: Batch, tested: FloatArray | None) -> tuple[Decision, ...]:
        """Learn a part, or append it to the buffer and learn the buffer once it is full."""
        if self._pending is None:
            return (self._step(part, tested),)
        self._pending.append(part.X, part.y, part.weight)
        return (self._cut(self._pending),) if len(self._pending) == self.batch_size else ()

    def _cut(self, pending: Samples) -> Decision:
        decision = self._step(pending.view(Segment(pending.first_row, pending.next_row)))
        pending.release(pending.next_row)
        return decision

    def _step(self, batch: Batch, tested: FloatArray | None = None) -> Decision:
        """Take one time step. The strategy comes last of all that can fail, since its step cannot be undone here."""
        guard, targets = self._guard, self.targets
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
        decision = self.strategy.step(batch) if tested is None else self.strategy.step(batch, tested)
        self._guard, self.steps, self.n_classes_learned = guard, self.steps + 1, len(targets.labels)
        self.targets = targets
        return decision

    def _report(self, decision: Decision) -> None:
        """Record a decision after the step is complete, so that a failing journal or warning changes nothing here."""
        self.journal.record(decision)
        if self.steps == WARN_AFTER_STEPS and decision.rows_seen < WARN_BELOW_ROWS * WARN_AFTER_STEPS:
            rows = decision.rows_seen / self.steps
            message = Message(
                f"the first {self.steps} time steps had {rows:.0f} rows each on average; the risk on so few rows is "
                "mostly noise, which looks like drift. Set ",
                Option("batch_size"),
                " to 100 or more to buffer rows.",
            )
            warnings.warn(message, SmallBatchWarning, stacklevel=5)

    # -------------------------------------------------------------------- predicting

    def read(self, X: MatrixLike) -> Rows:
        """Return checked rows in the form that the strategy accepts."""
        if self.schema is None:
            raise StateError("this model has not seen any rows yet, so it has no columns; learn a batch first.")
        return read_rows(X, self.schema, self._dtype)

    def scores(self, X: MatrixLike) -> FloatArray:
        """Return the scores of the model that predicts now; a margin above 0 means the class with code 1."""
        rows: Any = X if self._is_usual(X) else self._limited(self.read(X))
        return self.targets.restrict(self.strategy.scores(rows), self.n_classes_learned)

    def scores_of(self, rows: Rows) -> FloatArray:
        """Return the scores of rows that ``read`` returned, or that a caller has built in that form."""
        return self.targets.restrict(self.strategy.scores(self._limited(rows)), self.n_classes_learned)

    @property
    def column_limits(self) -> tuple[FloatArray, FloatArray] | None:
        """Smallest and largest value of each column in predictions; None without limits."""
        limits = None if self._guard is None else self._guard.limits
        if limits is None or self.schema is None:
            return None
        most = limits[: self.schema.n_features]
        return -most, most

    def _is_usual(self, X: MatrixLike) -> bool:
        """Return whether X needs neither reading nor limiting: one pass, as values within the limits are finite."""
        most = None if self._guard is None else self._guard.limits
        return most is not None and is_ready(X, self.schema, np.dtype(self._dtype), most=most)  # type: ignore[arg-type]

    def _limited(self, rows: Rows) -> Rows:
        """Return rows to be predicted, with extreme values limited; the same object if there are none."""
        return rows if self._guard is None else self._guard.limited(rows)

    def predict(self, X: MatrixLike) -> npt.NDArray[Any]:
        """Return predicted labels, or numbers, of the model that predicts now. Ties go to the smaller label."""
        known = self.targets
        return known.decode(known.predicted(self.scores(X)))

    # -------------------------------------------------------------------- state

    def return_to(self, state: Mapping[str, Any]) -> None:
        """Roll back to an earlier state: the same as ``restore``, since no row waits for a label."""
        self.restore(state)

    def state(self) -> State:
        """Return everything that later steps depend on; the journal is not part of it."""
        return resolved(self.incremental_state())

    def incremental_state(self) -> IncrementalState:
        """Return the entries of ``state()``, with arrays that grow with the rows as ``AppendOnlyArray``."""
        state = self.surroundings()
        if self.schema is None:
            return state
        strategy: Any = self.strategy
        incremental = IncrementallySaved in abilities_of(strategy)
        own = strategy.incremental_state() if incremental else strategy.state()
        return state | nest("strategy", own)

    def surroundings(self) -> State:
        """Return the state without the entries of the strategy, which only time steps change."""
        state: State = {
            "steps": self.steps,
            "n_classes_learned": self.n_classes_learned,
            "started": self.schema is not None,
        }
        state |= nest("classes", self.targets.state())
        if self._guard is not None:
            state |= nest("guard", self._guard.state())
        if self.schema is not None:
            state |= nest("schema", self.schema.state())
        if self._pending is not None:
            state |= nest("pending", self._pending.state())
        return state

    def restore(self, state: Mapping[str, Any], own: Mapping[str, Any] | None = None) -> None:
        """Take over a state: that of ``state()``, or that of ``surroundings()`` with the strategy's as ``own``."""
        try:
            self._restore(state, pick("strategy", state) if own is None else own)
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            if isinstance(error, StateError):
                raise
            what = f"has no entry {error}" if isinstance(error, KeyError) else f"is inconsistent ({error})"
            raise StateError(f"the saved state {what}; it is incomplete, or the state of another object") from error

    def _restore(self, state: Mapping[str, Any], own: Mapping[str, Any]) -> None:
        known = FIELDS.read(state)
        targets = self.targets.from_state(pick("classes", state))
        if known["n_classes_learned"] > len(targets.labels):
            raise misfit(state, "n_classes_learned", f"must be at most {len(targets.labels)}, the number of labels")
        schema = Schema.from_state(pick("schema", state), self.owner) if known["started"] else None
        guarded, pending = pick("guard", state), None
        width = None if schema is None or not known["steps"] else schema.n_features
        guard = RangeGuard.from_state(guarded, width, clips=self._can.linear) if guarded else None
        if schema is not None:
            pending = saved_buffer(pick("pending", state), schema, targets.n_classes, self.batch_size, self._dtype)
            self.strategy.restore(own, schema.n_features, sparse=schema.sparse, n_classes=targets.n_classes)
        elif known["steps"] or own:
            raise misfit(state, "started", "is false, but there is a model that has learned")
        self.steps, self.n_classes_learned = known["steps"], known["n_classes_learned"]
        self.targets, self.schema, self._guard, self._pending = targets, schema, guard, pending
