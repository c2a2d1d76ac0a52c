"""A strategy in service: anything table-like in, checked and coded; predictions and decisions out."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from driftsurf._options import whole
from driftsurf._values import replace
from driftsurf.base import Batch, FloatArray, Parts, Rows, Segment, State, Strategy, n_rows, take_rows
from driftsurf.decisions import Decision, Transition
from driftsurf.errors import CapabilityError, Option, OptionError, Said, SmallBatchWarning, StateError
from driftsurf.journal import Journal
from driftsurf.labels import Classes, Values, targets_of
from driftsurf.runtime.guard import RangeGuard
from driftsurf.runtime.interrupts import uninterrupted
from driftsurf.samples import Samples
from driftsurf.state import nest, pick, resolved
from driftsurf.validation import Schema, is_ready, read_rows, read_schema, read_weights

__all__ = ["Observation", "Session"]

WARN_AFTER_STEPS = 20
WARN_BELOW_ROWS = 10
LEAST_PROBABILITY = 1e-15
LEAST_WEIGHT = 0.01
"""A batch to which the guard leaves less than this share of its weight is no evidence of anything."""


ONE = np.ones(1)


@dataclass(frozen=True, slots=True)
class Observation:
    """What came of one call: predictions made before learning, and what was decided."""

    labels: npt.NDArray[Any]
    """Predicted labels, or values."""
    predicted: npt.NDArray[Any]
    """Their codes; values are their own."""
    true: npt.NDArray[Any]
    """The codes of the true labels, or the true values."""
    scores: FloatArray
    """Margins (n,), log-probabilities (n, K) by code, or values (n,)."""
    decisions: tuple[Decision, ...]
    """One for each time step that the call completed: one, or any number with a buffer."""
    probabilities: bool = True
    """Whether scores are log-odds or log-probabilities."""

    @property
    def errors(self) -> int:
        """Rows that were predicted wrongly; of values, those that were not met exactly."""
        return int(np.count_nonzero(self.predicted != self.true))

    @property
    def error(self) -> float:
        """The share of rows that were predicted wrongly; of values, the mean squared error; NaN of no rows."""
        if not len(self.true):
            return float("nan")
        values = self.predicted.dtype.kind == "f"
        return float(self.squared_errors().mean()) if values else self.errors / len(self.true)

    def log_losses(self) -> FloatArray:
        """-log p(true class) of each row, p at least 1e-15; NaN where there are no probabilities."""
        if not self.probabilities:
            return np.full(len(self.true), np.nan)
        if self.scores.ndim == 1:
            return np.logaddexp(0.0, np.where(self.true == 1, -self.scores, self.scores))
        logs = self.scores[np.arange(len(self.true)), self.true]
        return np.asarray(-np.maximum(logs, np.log(LEAST_PROBABILITY)))

    def squared_errors(self) -> FloatArray:
        """Of values: the squared error of each row."""
        return np.asarray(np.square(self.predicted - self.true))


class _AllOrNothing:
    """What is changed of a session inside stays if all goes well, else everything is as it was."""

    __slots__ = ("_before", "_next_row", "_session")

    def __init__(self, session: Session) -> None:
        pending = session._pending
        self._session = session
        self._before = session.schema, session.targets, session.taught, session.steps, session._guard, pending
        self._next_row = 0 if pending is None else pending.next_row

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            return
        session = self._session
        session.schema, session.targets, session.taught, session.steps, session._guard, pending = self._before
        session._pending = pending
        if pending is not None:
            pending.truncate(self._next_row)


def _part(batch: Batch, start: int, stop: int) -> Batch:
    return Batch(take_rows(batch.X, start, stop), batch.y[start:stop], batch.weight[start:stop])


class Session:
    """Feeds a strategy from raw batches and keeps what surrounds it: schema, classes, buffer, guard.

    Each call is checked whole before anything changes; what is wrong raises a named error and leaves
    the state as it was, byte for byte. A call that completes several time steps takes them one by one,
    each whole or not at all, and an error in the middle says how many rows were taken.

    Parameters
    ----------
    strategy
        What learns. Its ``learner`` is the template of its models.
    classes
        A closed set of labels; None for an open one that grows in order of appearance.
    batch_size
        None makes every call one time step. A number buffers rows and makes a time step of each
        that many, however the rows were spread over calls.
    guard
        The factor of :class:`~driftsurf.runtime.guard.RangeGuard`; None for no guard.
    journal
        Where decisions are recorded; by default a new one.
    owner
        Who speaks in error messages.

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
        classes: Iterable[Any] | None = None,
        batch_size: int | None = None,
        guard: float | None = 2.0,
        journal: Journal | None = None,
        owner: str = "this model",
    ) -> None:
        if isinstance(strategy, type) or not all(hasattr(strategy, name) for name in ("check", "begin", "step")):
            raise OptionError(f"strategy is {strategy!r}; give one of driftsurf.strategies, such as DriftSurf(learner)")
        strategy.check()
        self.strategy = strategy
        if batch_size is not None:
            batch_size = whole("batch_size", batch_size, at_least=1, otherwise=", or None")
        self.batch_size = batch_size
        self.journal = Journal() if journal is None else journal
        self.owner = owner
        self.schema: Schema | None = None
        self._can = strategy.learner.capabilities
        self._quadratic = bool(getattr(strategy.learner, "quadratic", False))
        self.targets: Classes | Values = targets_of(self._can, classes)
        self.steps = 0
        self.taught = 0
        """How many of the classes were known at the last time step: those that can be predicted."""
        self._guard = None if guard is None else RangeGuard(guard)
        self._pending: Samples | None = None

    def reseeded(self, seed: int) -> Session:
        """Of a session without rows: one like it with another seed. What was checked is not checked again."""
        return replace(self, strategy=replace(self.strategy, seed=seed), journal=Journal())

    # -------------------------------------------------------------------- learning

    def observe(self, X: Any, y: Any, *, classes: Any = None, weight: Any = None) -> Observation:
        """Predict each row with the model as it is when the row arrives, then learn."""
        code = self._code_of_one(X, y) if classes is None and weight is None else None
        if code is None:
            return self._take(X, y, classes, weight, predict=True)
        scores = self.targets.meant(self.strategy.scores(X), self.taught)
        self._put(X, code)
        return self._observation(self.targets, np.array((code,)), scores, ())

    def learn(self, X: Any, y: Any, *, classes: Any = None, weight: Any = None) -> tuple[Decision, ...]:
        """Learn without predicting."""
        return self._take(X, y, classes, weight, predict=False).decisions

    def put(self, X: Any, y: Any) -> bool:
        """Take a single row into the buffer, if that is all there is to do: a fifth of what ``learn`` takes for it.

        False, and nothing happened, if it is not: no buffer, the row that fills it, a label not met before, or
        anything that is not the plain row of an array.
        """
        code = self._code_of_one(X, y)
        if code is None:
            return False
        self._put(X, code)
        return True

    def _code_of_one(self, X: Any, y: Any) -> float | None:
        """The code of the label of a single row that needs no more than to be put into the buffer; else None."""
        pending = self._pending
        if pending is None or len(pending) + 1 == self.batch_size or not (type(X) is np.ndarray and len(X.shape) == 2):
            return None
        code = self.targets.code_of(y)
        if code is None or len(X) != 1 or not is_ready(X, self.schema, pending.dtype):  # type: ignore[arg-type]
            return None  # there is a schema since there is a buffer
        return code

    def _put(self, X: Any, code: float) -> None:
        assert self._pending is not None
        with uninterrupted():
            self._pending.append(X, np.array((code,)), ONE)

    def learn_in_steps(self, X: Any, y: Any, size: int, *, weight: Any = None) -> tuple[Decision, ...]:
        """Learn rows that are all there, in equal time steps of ``size`` rows or somewhat more, past the buffer."""
        return self._take(X, y, None, weight, predict=False, size=size).decisions

    def judge(self, X: Any, y: Any, *, classes: Any = None) -> Observation:
        """Predict rows whose labels are known, and learn nothing from them."""
        known = self.targets.agreed(classes, begun=self.schema is not None)
        known, codes = known.read(y, n_rows(rows := self.read(X)))
        return self._observation(known, codes, known.meant(self.strategy.scores(rows), self.taught), ())

    def renew(self, why: str) -> Transition | None:
        """Begin anew with fresh models, as someone asks; None if there is nothing yet to begin anew from."""
        if self.schema is None:
            return None
        with uninterrupted():
            return self.strategy.renew(why)

    def flush(self) -> tuple[Decision, ...]:
        """Make a time step of the rows left in the buffer, if any."""
        if self._pending is None or len(self._pending) == 0:
            return ()
        with uninterrupted():
            with _AllOrNothing(self):
                decision = self._cut(self._pending)
            self._report(decision)
        return (decision,)

    def drop_pending(self) -> int:
        """Empty the buffer without learning it; returns how many rows were in it."""
        dropped = self.rows_pending
        if self._pending is not None:
            self._pending.release(self._pending.next_row)
        return dropped

    @property
    def rows_pending(self) -> int:
        """Rows in the buffer."""
        return 0 if self._pending is None else len(self._pending)

    def _take(
        self, X: Any, y: Any, classes: Any, weight: Any, *, predict: bool, size: int | None = None
    ) -> Observation:
        """Check the whole call, then take it part by part: each is one time step, or waits in the buffer."""
        known = self.targets.agreed(classes, begun=self.schema is not None)
        schema = read_schema(X, self.owner) if self.schema is None else self.schema
        if schema.sparse or weight is not None:
            self._check_capabilities(schema, weight)
        rows = read_rows(X, schema, self._dtype)
        count = n_rows(rows)
        known, codes = known.read(y, count)
        given = Batch(rows, codes, read_weights(weight, count))
        scores, decisions = list[FloatArray](), list[Decision]()
        start = 0
        try:
            for stop in self._stops(count, size):
                part = given if stop - start == count else _part(given, start, stop)
                with uninterrupted():
                    with _AllOrNothing(self):
                        met = known.met(len(self.targets.labels), part.y)
                        self._begin(schema, met)
                        tested = None
                        if predict:
                            tested = self._tested(part)
                            scores.append(known.meant(tested, self.taught))
                        self.targets = met
                        done = self._accept(part, tested) if size is None else (self._step(part),)
                    start = stop
                    for decision in done:
                        decisions.append(decision)
                        self._report(decision)
        except BaseException as error:
            if size is None:
                error.add_note(f"{start} of the {count} rows of this call were taken, the rest were not.")
            raise
        if not predict:
            nothing = np.zeros(0)
            return Observation(nothing, nothing, nothing, nothing, tuple(decisions), self._can.probabilities)
        all_scores = scores[0] if len(scores) == 1 else np.concatenate(scores)
        return self._observation(known, codes, all_scores, tuple(decisions))

    def _observation(
        self, known: Classes | Values, codes: FloatArray, scores: FloatArray, decisions: tuple[Decision, ...]
    ) -> Observation:
        predicted = known.chosen(scores)
        true = codes.astype(predicted.dtype)
        return Observation(known.decoded(predicted), predicted, true, scores, decisions, self._can.probabilities)

    def _check_capabilities(self, schema: Schema, weight: Any) -> None:
        for name, wanted in (("sparse", schema.sparse), ("weights", weight is not None)):
            if wanted and not getattr(self._can, name):
                remedy = "give dense rows" if name == "sparse" else "leave sample_weight out"
                raise CapabilityError(f"{self.strategy.learner!r} has not the capability {name!r}: {remedy}.")

    def _tested(self, part: Batch) -> FloatArray:
        """The scores of rows before they are learnt. A part of a time step is not for the strategy to read ahead in."""
        return self.strategy.test_scores(part) if self._pending is None else self.strategy.scores(part.X)

    def _stops(self, count: int, size: int | None) -> list[int]:
        """Where the parts of a call end."""
        if size is not None:
            steps = max(1, count // size)
            return [count * (k + 1) // steps for k in range(steps)]
        if self.batch_size is None:
            return [count]
        return [*range(self.batch_size - self.rows_pending, count, self.batch_size), count]

    def _begin(self, schema: Schema, known: Classes | Values) -> None:
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
        """Learn a part, or put it into the buffer and learn the buffer once it is full."""
        if self._pending is None:
            return (self._step(part, tested),)
        self._pending.append(part.X, part.y, part.weight)
        return (self._cut(self._pending),) if len(self._pending) == self.batch_size else ()

    def _cut(self, pending: Samples) -> Decision:
        decision = self._step(pending.view(Segment(pending.first_row, pending.next_row)))
        pending.release(pending.next_row)
        return decision

    def _step(self, batch: Batch, tested: FloatArray | None = None) -> Decision:
        """One time step; the strategy comes last of all that can fail."""
        guard = self._guard
        if guard is not None:
            factors, guard = guard.weigh(batch.X)
            if factors is not None:
                # A loss that grows with the square of a score takes twice the power to be held down.
                weight = batch.weight * (np.square(factors) if self._quadratic else factors)
                # A risk is a mean: a batch of nothing but absurd rows would speak with full voice.
                batch = batch._replace(weight=weight * (weight.sum() >= LEAST_WEIGHT * batch.weight.sum()))
        decision = self.strategy.step(batch) if tested is None else self.strategy.step(batch, tested)
        self._guard, self.steps, self.taught = guard, self.steps + 1, len(self.targets.labels)
        return decision

    def _report(self, decision: Decision) -> None:
        """Tell others, when all is done: what they do wrong changes nothing here."""
        self.journal.record(decision)
        if self.steps == WARN_AFTER_STEPS and decision.rows_seen < WARN_BELOW_ROWS * WARN_AFTER_STEPS:
            few = f"the first {self.steps} time steps had {decision.rows_seen / self.steps:.0f} rows each: the risk on "
            few += "so few is mostly noise, which looks like drift. Set "
            said = Said(few, Option("batch_size"), " (100 or more) to gather rows.")
            warnings.warn(said, SmallBatchWarning, stacklevel=5)

    # -------------------------------------------------------------------- predicting

    def read(self, X: Any) -> Rows:
        """Checked rows, as the model takes them."""
        if self.schema is None:
            raise StateError("this model has seen no batch yet: it has no columns to check against.")
        return read_rows(X, self.schema, self._dtype)

    def scores(self, X: Any) -> FloatArray:
        """The scores of the model that predicts now: margins above 0 speak for the class with code 1."""
        return self.scores_of(self.read(X))

    def scores_of(self, rows: Rows) -> FloatArray:
        """The same of rows that were read, by ``read`` or by a caller that makes rows itself."""
        return self.targets.meant(self.strategy.scores(rows), self.taught)

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Labels, or values, by the model that predicts now. Ties go to the smaller name."""
        known = self.targets
        return known.decoded(known.chosen(self.scores(X)))

    # -------------------------------------------------------------------- state

    def state(self) -> State:
        """Everything that decides what comes next; the journal is a record beside it."""
        return resolved(self.parts())

    def parts(self) -> Parts:
        """The same, with what grows with the rows as ``Growing``."""
        state = self.surroundings()
        return state if self.schema is None else state | nest("strategy", self.strategy.parts())

    def surroundings(self) -> State:
        """All but the entries of the strategy, which only time steps change."""
        state: State = {"steps": self.steps, "taught": self.taught, "begun": self.schema is not None}
        state |= nest("classes", self.targets.state())
        if self._guard is not None:
            state |= nest("guard", self._guard.state())
        if self.schema is not None:
            state |= nest("schema", self.schema.state())
        if self._pending is not None:
            state |= nest("pending", self._pending.state())
        return state

    def restore(self, state: Mapping[str, Any], own: Mapping[str, Any] | None = None) -> None:
        """Take over what ``state()`` gave; or what ``surroundings()`` gave, and the strategy's ``own`` entries."""
        try:
            self._restore(state, pick("strategy", state) if own is None else own)
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            if isinstance(error, StateError):
                raise
            what = f"has no entry {error}" if isinstance(error, KeyError) else f"does not fit together ({error})"
            raise StateError(f"the saved state {what}: it is another object's, or incomplete") from error

    def _restore(self, state: Mapping[str, Any], own: Mapping[str, Any]) -> None:
        self.steps, self.taught = int(state["steps"]), int(state["taught"])
        self.targets = self.targets.from_state(pick("classes", state))
        self.schema, width = None, None
        if not isinstance(state["begun"], bool):
            raise StateError(f"the entry 'begun' of the saved state is {state['begun']!r}, neither true nor false")
        if state["begun"]:
            self.schema = Schema.from_state(pick("schema", state), self.owner)
            width, sparse = self.schema.n_features, self.schema.sparse
            if int(own["pool.samples.n_features"]) != width:
                raise StateError(f"the saved rows do not have the {width} columns of the saved schema")
            if own.get("pool.samples.sparse", sparse) != sparse or state.get("pending.sparse", sparse) != sparse:
                raise StateError("of the saved rows and the saved schema one is sparse and one is not")
            if int(own["pool.n_classes"]) > self.targets.n_classes:
                raise StateError(f"the saved models are for more than the {self.targets.n_classes} saved classes")
            self.strategy.restore(own)
        guard, pending = pick("guard", state), pick("pending", state)
        self._guard = RangeGuard.from_state(guard, width if self.steps else None) if guard else None
        self._pending = Samples.from_state(pending, self.targets.n_classes) if pending else None
        if self._pending is not None and self._pending.n_features != width:
            raise StateError(f"the rows in the saved buffer do not have the {width} columns of the saved schema")
