"""A strategy in service: anything table-like in, checked and coded; predictions and decisions out."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from driftsurf.base import (
    Batch,
    Decision,
    FloatArray,
    Rows,
    Segment,
    State,
    Strategy,
    n_rows,
    take_rows,
)
from driftsurf.errors import LabelError, OptionError, SmallBatchWarning, StateError
from driftsurf.journal import Journal
from driftsurf.runtime.guard import RangeGuard
from driftsurf.samples import Samples
from driftsurf.state import nest, pick
from driftsurf.validation import Classes, Schema, read_rows, read_schema, read_weights

__all__ = ["Observation", "Session"]

WARN_AFTER_STEPS = 20
WARN_BELOW_ROWS = 10


@dataclass(frozen=True, slots=True)
class Observation:
    """What came of one call: predictions made before learning, and what was decided."""

    labels: npt.NDArray[Any]
    """Predicted labels."""
    predicted: npt.NDArray[np.int64]
    """Their codes."""
    true: npt.NDArray[np.int64]
    """The codes of the true labels."""
    scores: FloatArray
    decisions: tuple[Decision, ...]
    """One for each time step that the call completed: one, or any number with a buffer."""

    @property
    def errors(self) -> int:
        """Rows that were predicted wrongly."""
        return int(np.count_nonzero(self.predicted != self.true))

    def log_losses(self) -> FloatArray:
        """-log p(true class) of each row, from the margins."""
        z = np.where(self.true == 1, -self.scores, self.scores)
        return np.logaddexp(0.0, z)


class Session:
    """Feeds a strategy from raw batches and keeps what surrounds it: schema, classes, buffer, guard.

    Each call is checked whole before anything changes; what is wrong raises a named error and leaves
    the state as it was, byte for byte.

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
        if batch_size is not None and not (isinstance(batch_size, int) and batch_size >= 1):
            raise OptionError(f"batch_size is {batch_size!r}; give a whole number of at least 1, or None")
        strategy.check()
        self._limit = None if "multiclass" in strategy.learner.capabilities.tasks else 2
        self.strategy = strategy
        self.batch_size = batch_size
        self.journal = Journal() if journal is None else journal
        self.classes = Classes(limit=self._limit) if classes is None else Classes.given(classes, self._limit)
        self.schema: Schema | None = None
        self.owner = owner
        self.steps = 0
        self._guard = None if guard is None else RangeGuard(guard)
        self._pending: Samples | None = None

    # -------------------------------------------------------------------- learning

    def observe(self, X: Any, y: Any, *, classes: Any = None, weight: Any = None) -> Observation:
        """Predict each row with the model as it is when the row arrives, then learn."""
        return self._take(X, y, classes, weight, predict=True)

    def learn(self, X: Any, y: Any, *, classes: Any = None, weight: Any = None) -> tuple[Decision, ...]:
        """Learn without predicting."""
        return self._take(X, y, classes, weight, predict=False).decisions

    def learn_in_steps(self, X: Any, y: Any, size: int, *, weight: Any = None) -> tuple[Decision, ...]:
        """Learn rows that are all there, in time steps of ``size`` rows, the last one with what is left."""
        decisions = self.flush()
        return decisions + self._take(X, y, None, weight, predict=False, size=size).decisions

    def flush(self) -> tuple[Decision, ...]:
        """Make a time step of the rows left in the buffer, if any."""
        pending = self._pending
        if pending is None or len(pending) == 0:
            return ()
        return (self._cut(pending),)

    @property
    def rows_pending(self) -> int:
        """Rows in the buffer."""
        return 0 if self._pending is None else len(self._pending)

    def _take(
        self, X: Any, y: Any, classes: Any, weight: Any, *, predict: bool, size: int | None = None
    ) -> Observation:
        """Check the whole call, then take it part by part: by ``size``, by the room in the buffer, or whole."""
        known = self._agreed_classes(classes)
        schema = read_schema(X, self.owner) if self.schema is None else self.schema
        rows = read_rows(X, schema, self._dtype)
        count = n_rows(rows)
        known, codes = known.read(y, count)
        weights = read_weights(weight, count)
        before = self.schema, self.classes
        if self.schema is None:
            self.strategy.begin(schema.n_features, sparse=schema.sparse, n_classes=max(2, len(known.labels)))
            if self.batch_size is not None:
                self._pending = Samples(schema.n_features, sparse=schema.sparse, dtype=self._dtype)
        self.schema, self.classes = schema, known
        scores: list[FloatArray] = []
        decisions: list[Decision] = []
        start = 0
        try:
            while start < count:
                stop = min(count, start + (size or self._room or count))
                part = Batch(take_rows(rows, start, stop), codes[start:stop], weights[start:stop])
                if predict:
                    scores.append(self.strategy.scores(part.X))
                decisions.extend(self._accept(part) if size is None else (self._step(part),))
                start = stop
        except BaseException as error:
            if start == 0:
                self.schema, self.classes = before
            error.add_note(f"{start} of the {count} rows of this call were taken, the rest were not.")
            raise
        joined = np.concatenate(scores) if scores else np.zeros(0)
        predicted = self._predicted(joined)
        return Observation(self._labels(predicted), predicted, codes.astype(np.int64), joined, tuple(decisions))

    @property
    def _room(self) -> int:
        """Rows that the buffer still takes; 0 without a buffer."""
        return 0 if self.batch_size is None else self.batch_size - self.rows_pending

    @property
    def _dtype(self) -> str:
        return self.strategy.dtype

    def _accept(self, part: Batch) -> tuple[Decision, ...]:
        """Learn a part, or put it into the buffer and learn the buffer once it is full."""
        pending = self._pending
        if pending is None:
            return (self._step(part),)
        segment = pending.append(part.X, part.y, part.weight)
        try:
            return (self._cut(pending),) if self._room == 0 else ()
        except BaseException:
            pending.truncate(segment.lo)
            raise

    def _cut(self, pending: Samples) -> Decision:
        decision = self._step(pending.view(Segment(pending.first_row, pending.next_row)))
        pending.release(pending.next_row)
        return decision

    def _step(self, batch: Batch) -> Decision:
        guard = self._guard
        if guard is not None:
            factors, guard = guard.weigh(batch.X)
            batch = batch._replace(weight=batch.weight * factors)
        decision = self.strategy.step(batch)
        self._guard = guard
        self.steps += 1
        self.journal.record(decision)
        if self.steps == WARN_AFTER_STEPS and decision.rows_seen < WARN_BELOW_ROWS * WARN_AFTER_STEPS:
            warnings.warn(
                f"the first {self.steps} time steps had {decision.rows_seen / self.steps:.0f} rows each: the risk on "
                "so few is mostly noise, which looks like drift. Set batch_size (100 or more) to gather rows.",
                SmallBatchWarning,
                stacklevel=6,
            )
        return decision

    def _agreed_classes(self, classes: Any) -> Classes:
        if classes is None:
            return self.classes
        given = Classes.given(classes, self._limit)
        if self.schema is None and not self.classes.closed:
            return given
        if set(given.labels) != set(self.classes.labels):
            raise LabelError(
                f"classes is {list(given.labels)}, but this model began with {list(self.classes.labels)}. "
                "Leave classes out after the first call, or begin a new model."
            )
        return self.classes

    # -------------------------------------------------------------------- predicting

    def read(self, X: Any) -> Rows:
        """Checked rows, as the model takes them."""
        if self.schema is None:
            raise StateError("this model has seen no batch yet: it has no columns to check against.")
        return read_rows(X, self.schema, self._dtype)

    def scores(self, X: Any) -> FloatArray:
        """The scores of the model that predicts now."""
        return self.strategy.scores(self.read(X))

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Labels by the model that predicts now."""
        return self._labels(self._predicted(self.scores(X)))

    def _predicted(self, scores: FloatArray) -> npt.NDArray[np.int64]:
        # Ties go to code 0; while only one class is known, every row is predicted to be of it.
        return ((scores > 0.0) & (len(self.classes.labels) > 1)).astype(np.int64)

    def _labels(self, codes: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        labels: npt.NDArray[Any] = self.classes.array[codes]
        return labels

    # -------------------------------------------------------------------- state

    def state(self) -> State:
        """Everything that decides what comes next; the journal is a record beside it."""
        state: State = {"steps": self.steps, "begun": self.schema is not None}
        state |= nest("classes", self.classes.state())
        if self._guard is not None:
            state |= nest("guard", self._guard.state())
        if self.schema is not None:
            state |= nest("schema", self.schema.state()) | nest("strategy", self.strategy.state())
        if self._pending is not None:
            state |= nest("pending", self._pending.state())
        return state

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over what ``state()`` gave."""
        try:
            self.steps = int(state["steps"])
            self.classes = Classes.from_state(pick("classes", state))
            guard, pending = pick("guard", state), pick("pending", state)
            self._guard = RangeGuard.from_state(guard) if guard else None
            self._pending = Samples.from_state(pending) if pending else None
            if state["begun"]:
                self.schema = Schema.from_state(pick("schema", state), self.owner)
                self.strategy.restore(pick("strategy", state))
        except KeyError as error:
            raise StateError(f"the saved state has no entry {error}: it is another object's, or incomplete") from error
