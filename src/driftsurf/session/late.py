"""Late labels: predict a row when it arrives, learn it when its label arrives."""

from __future__ import annotations

import json
import math
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from driftsurf.core.changes import Changeable, uninterrupted
from driftsurf.core.contracts import IncrementalState, Rows, Segment, State, n_rows
from driftsurf.core.decisions import Decision
from driftsurf.core.fields import misfit
from driftsurf.core.frames import MatrixLike, TargetLike
from driftsurf.core.input import Schema, read_rows, read_schema
from driftsurf.core.options import fits_float, is_number, number, shown, whole
from driftsurf.core.samples import Samples, as_input
from driftsurf.core.state import nest, pick, resolved
from driftsurf.core.targets import ClassTargets, RegressionTargets
from driftsurf.errors import InputError
from driftsurf.session.label_counts import LabelCounts
from driftsurf.session.label_joiner import JoinChange, LabelJoiner
from driftsurf.session.late_saved import FIELDS, Key, Waiting, read_keys


class DelayedModel(Protocol):
    """Model behind the delay, such as :class:`~driftsurf.session.session.Session`."""

    batch_size: int | None

    @property
    def targets(self) -> ClassTargets | RegressionTargets:
        """Known labels and their codes, or what is known about the numbers to predict."""
        ...

    @property
    def schema(self) -> Schema | None:
        """Columns; None before the first batch."""
        ...

    @property
    def steps(self) -> int:
        """Number of time steps so far, which is the version of the model."""
        ...

    @property
    def rows_pending(self) -> int:
        """Number of rows in the buffer."""
        ...

    def standing(self) -> tuple[object, int]:
        """Return an object that is another one after each step and restore, and the number of rows in the buffer."""
        ...

    def expect_late_labels(self) -> None:
        """Predict from now on as rows need it whose labels come long after them."""
        ...

    def predict(self, X: MatrixLike) -> npt.NDArray[Any]:
        """Return predicted labels."""
        ...

    def learn(self, X: MatrixLike, y: TargetLike) -> tuple[Decision, ...]:
        """Learn rows, all or none if they complete at most one time step."""
        ...

    def state(self) -> State:
        """Return everything that later steps depend on."""
        ...

    def incremental_state(self) -> IncrementalState:
        """Return the entries of ``state()``, with arrays that grow with the rows as ``AppendOnlyArray``."""
        ...

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over a state that ``state()`` returned."""
        ...


@dataclass(frozen=True, slots=True)
class Joined:
    """Rows that were matched by labels: first by labels that came before their row, then by those of this call."""

    keys: tuple[Key, ...]
    true: npt.NDArray[Any]
    predicted: tuple[Any, ...]
    """Predictions stored when the rows arrived; None for rows that arrived before there was a model."""
    versions: npt.NDArray[np.int64]
    """Version of the model behind each prediction: the time steps it had learned."""
    rows: npt.NDArray[np.int64]
    """Number of each row, from 0 in the order in which rows came."""
    waited: npt.NDArray[np.float64]
    """Time between each row and its label."""
    decisions: tuple[Decision, ...]
    """One for each time step that these labels completed."""
    learned_by: npt.NDArray[np.int64]
    """Place in ``decisions`` of the time step that learned each row; their number for rows in an incomplete step."""


@dataclass(frozen=True, slots=True)
class Standing:
    """Everything about late labels but the model, as of one call; the joiner and the rows change in place."""

    time: float
    counts: LabelCounts
    schema: Schema | None
    samples: Samples | None
    joiner: LabelJoiner[Waiting]

    @property
    def next_row(self) -> int:
        """Number of the next row that comes."""
        return 0 if self.samples is None else self.samples.next_row

    @property
    def first_row(self) -> int:
        """Number of the oldest row that waits; that of the next row if none waits."""
        waiting = self.joiner.waiting
        return waiting[next(iter(waiting))].row if waiting else self.next_row


@dataclass(slots=True)
class LateMark:
    """Where a call began and, once that is decided, how it ends."""

    samples: Any
    """Mark of the rows; None before the first ones."""
    model: tuple[object, int]
    """Snapshot of the model and number of its waiting rows before the call."""
    plan: LatePlan | None = None
    """How the call ends: unless it is broken off before, or its model does not learn."""


@dataclass(frozen=True, slots=True)
class LatePlan:
    """How a call ends."""

    standing: Standing
    change: JoinChange[Waiting] | None
    """Change of the joiner of ``standing``; None if it is complete."""
    with_model: bool
    """Whether the call ends like this only if the model has changed."""
    samples: Any
    """Mark of the rows, before some of them are released."""

    def finish(self) -> None:
        """Change the joiner and release rows that nothing waits for; if this is broken off, it can be done again."""
        standing, samples = self.standing, self.standing.samples
        if self.change is None:
            return
        if samples is not None:
            samples.put_back(self.samples)
        self.change.apply()
        if samples is not None:
            samples.release(standing.first_row)


class DelayedLabels(Changeable):
    """Keeps rows until their labels arrive, in any order, and then trains a model with them.

    A row is predicted when it arrives and stored under a key, with its prediction and the version of the model. When
    its label arrives, the row is learned. Time steps are formed by the arrival of labels, as the ``batch_size`` of the
    session says (None: each call of ``label`` that matches rows is one). The reported error is that of the stored
    predictions, which users of the model saw; the risk by which DriftSurf decides is that of the current model on the
    rows as they are learned.

    A label that comes before its row is held, and the call of ``label`` after the row learns it. At most
    ``max_pending`` labels are held; beyond that the oldest is dropped.

    A row is dropped when ``max_pending`` newer ones have arrived, or when ``timeout`` has passed, so never more than
    ``max_pending`` rows are stored. As many keys of learned rows and of dropped rows are remembered, to tell duplicate
    and late labels from orphans. No clock is read: time is what callers pass, or the number of rows so far, and never
    runs backwards.

    Calls take turns, and each is complete or undone for an exception at any line. A row is learned and leaves those
    that wait at once: either the model has learned it, or it still waits.

    Parameters
    ----------
    model
        A :class:`~driftsurf.session.session.Session`.
    max_pending
        Largest number of rows to keep, and of labels to hold whose row has not come.
    timeout
        A row whose label arrives later than this is not learned; None for no limit.

    Examples
    --------
    >>> from driftsurf.learners import LogisticRegression
    >>> from driftsurf.session.session import Session
    >>> from driftsurf.strategies import DriftSurf
    >>> delayed = DelayedLabels(Session(DriftSurf(LogisticRegression())), max_pending=1000)
    >>> X = np.linspace(-1, 1, 50).reshape(-1, 1)
    >>> delayed.predict(range(50), X) is None  # there is no model yet
    True
    >>> joined = delayed.label(range(49, -1, -1), X[::-1, 0] > 0)
    >>> delayed.predict(["a", "b"], [[-0.9], [0.9]]).tolist()
    [False, True]
    >>> joined = delayed.label(["b", "b", "c"], [True, True, False])
    >>> delayed.counts.error, delayed.counts.duplicate, delayed.counts.orphan, len(delayed)
    (0.0, 1, 1, 1)
    """

    _now: Standing

    def __init__(self, model: DelayedModel, *, max_pending: int = 100_000, timeout: float | None = None) -> None:
        self.model = model
        model.expect_late_labels()
        self.max_pending: int = whole("max_pending", max_pending, at_least=1)
        self.timeout: float | None = (
            None if timeout is None else number("timeout", timeout, above=0.0, otherwise=", or None")
        )
        counts = LabelCounts(errors=None if isinstance(model.targets, RegressionTargets) else 0)
        self._now = Standing(0.0, counts, model.schema, None, LabelJoiner(self.max_pending))

    def __len__(self) -> int:
        """Return the number of rows that wait for their label."""
        return len(self._now.joiner.waiting)

    @property
    def counts(self) -> LabelCounts:
        """Counts of the rows and labels so far, by what was done with them."""
        return self._now.counts

    @property
    def first_row(self) -> int:
        """Number of the oldest row that waits, in the order in which rows came; that of the next row if none waits."""
        return self._now.first_row

    # -------------------------------------------------------------------- rows

    def predict(self, keys: Iterable[Any], X: MatrixLike, *, time: float | None = None) -> npt.NDArray[Any] | None:
        """Predict rows and keep them under their keys; None while the model has learned nothing."""
        with uninterrupted(), self.lock:
            self.settle()
            now = self._now
            schema = read_schema(X) if now.schema is None else now.schema
            rows = read_rows(X, schema)
            names = read_keys(keys, n_rows(rows))
            at = self._time(time, n_rows(rows))
            version = self.model.steps
            labels = self.model.predict(as_input(rows)) if version else None
            change = now.joiner.change()
            shown = [None] * len(names) if labels is None else labels.tolist()
            for row, (key, label) in enumerate(zip(names, shown, strict=True), now.next_row):
                change.come(key, Waiting(row, label, version, at))
            change.lose(self._is_over(at, now.next_row + len(names)))
            change.end()
            samples = Samples(schema.n_features, sparse=schema.sparse) if now.samples is None else now.samples
            standing = replace(now, time=at, counts=now.counts.plus(**change.counts), schema=schema, samples=samples)
            self._change(self._taken_in, rows, standing, change)
            return labels

    def _taken_in(self, rows: Rows, standing: Standing, change: JoinChange[Waiting]) -> tuple[Standing, None]:
        """Store rows that came."""
        assert standing.samples is not None
        standing.samples.append(rows, np.zeros(n_rows(rows)))
        self._end_as(LatePlan(standing, change, False, standing.samples.mark())).finish()
        return standing, None

    def _time(self, time: float | None, new_rows: int) -> float:
        if time is None:
            time = float(self.counts.predicted + new_rows)
        if not (is_number(time) and fits_float(time) and np.isfinite(time)):
            raise InputError(f"time is {shown(time)}; pass a finite number, or None to count rows")
        return max(self._now.time, float(time))  # a clock that is set back must not make rows younger than they are

    def _is_over(self, at: float, next_row: int) -> Callable[[Waiting], bool]:
        """Return whether a row is lost: it is beyond ``max_pending`` or ``timeout``."""
        first, came = next_row - self.max_pending, -math.inf if self.timeout is None else at - self.timeout
        return lambda one: one.row < first or one.time < came

    # -------------------------------------------------------------------- labels

    def label(self, keys: Iterable[Any], y: TargetLike, *, time: float | None = None) -> Joined:
        """Learn the rows that these labels, and those held for them, belong to.

        A label whose row has not come is held; late and duplicate labels are counted and ignored. A call that completes
        several time steps takes them one by one, each completely or not at all.
        """
        names = read_keys(keys, None)
        with self.lock:
            self.settle()
            known, codes = self.model.targets.read(y, len(names))
            at = self._time(time, 0)
            now = self._now
            change = now.joiner.change()
            # Before the join: whether a label is late must not depend on when rows were last lost.
            change.lose(self._is_over(at, now.next_row))
            ready = {key: label for key, label in now.joiner.ready.items() if key in change.ready}
            if ready:
                known, earlier = known.read(list(ready.values()), len(ready))
                names, codes = [*ready, *names], np.concatenate([earlier, codes])
            labels = known.decode(codes)
            return self._learn(names, labels, at, change)

    def _learn(self, names: Sequence[Key], labels: npt.NDArray[Any], at: float, change: JoinChange[Waiting]) -> Joined:
        """Join labels, and learn their rows, at most one time step at once."""
        values, place, size = labels.tolist(), 0, self.model.batch_size
        found, joined, learned_by = list[int](), list[Waiting](), list[int]()
        decisions: list[Decision] = []
        while True:
            start, room = len(found), math.inf if size is None else size - self.model.rows_pending
            while place < len(names) and len(found) - start < room:
                row = change.label(names[place], values[place])
                if row is not None:
                    found.append(place)
                    joined.append(row)
                place += 1
            change.end()
            part = found[start:]
            learned_by += [len(decisions)] * len(part)
            counts = self.counts.plus(**change.counts | self._scored(joined[start:], [values[one] for one in part]))
            rows = self._rows([one.row for one in joined[start:]]) if part else None
            standing = replace(self._now, time=at, counts=counts)
            with uninterrupted():
                decisions += self._change(self._labelled, rows, labels[part], standing, change)
            if place == len(names):
                break
            change = self._now.joiner.change()
        return Joined(
            tuple(names[one] for one in found),
            labels[found],
            tuple(waiting.predicted for waiting in joined),
            np.array([waiting.version for waiting in joined], np.int64),
            np.array([waiting.row for waiting in joined], np.int64),
            np.array([at - waiting.time for waiting in joined], np.float64),
            tuple(decisions),
            np.array(learned_by, np.int64),
        )

    def _labelled(
        self, rows: Any, labels: npt.NDArray[Any], standing: Standing, change: JoinChange[Waiting]
    ) -> tuple[Standing, tuple[Decision, ...]]:
        """Learn rows of at most one time step; without rows, only the joiner changes."""
        samples = standing.samples
        plan = self._end_as(LatePlan(standing, change, rows is not None, None if samples is None else samples.mark()))
        decisions = () if rows is None else self.model.learn(rows, labels)
        plan.finish()
        return standing, decisions

    @staticmethod
    def _scored(joined: Sequence[Waiting], labels: Sequence[Any]) -> dict[str, int]:
        """Return how many rows that are learned were predicted, and how many of them wrongly; version 0 did not."""
        pairs = [(one.predicted, label) for one, label in zip(joined, labels, strict=True) if one.version]
        return {"scored": len(pairs), "errors": sum(predicted != label for predicted, label in pairs)}

    def _rows(self, numbers: Sequence[int]) -> Any:
        samples = self._now.samples
        assert samples is not None
        X = samples.view(Segment(samples.first_row, samples.next_row)).X
        return as_input(X, np.array(numbers) - samples.first_row)

    # -------------------------------------------------------------------- calls that are complete or undone

    def _mark(self) -> LateMark:
        samples = self._now.samples
        return LateMark(None if samples is None else samples.mark(), self.model.standing())

    def _end_as(self, plan: LatePlan) -> LatePlan:
        """Note how the call under way ends; from here on, or from when the model has changed, it is not undone."""
        assert self._before is not None
        self._before[0].plan = plan
        return plan

    def _put_back(self, mark: LateMark) -> None:
        """Undo a call, or complete it if its model has learned: what the model has learned cannot be undone here."""
        plan = mark.plan
        snapshot, pending = self.model.standing()
        unlearned = snapshot is mark.model[0] and pending == mark.model[1]
        if plan is not None and not (plan.with_model and unlearned):
            plan.finish()
            self._now = plan.standing
        elif self._now.samples is not None:
            self._now.samples.put_back(mark.samples)

    # -------------------------------------------------------------------- state

    def state(self) -> State:
        """Return everything that later calls depend on, the model's state included."""
        return resolved(self.incremental_state())

    def incremental_state(self) -> IncrementalState:
        """Return the entries of ``state()``, with arrays that grow with the rows as ``AppendOnlyArray``."""
        with self.lock:
            self.settle()
            now, tables = self._now, self._now.joiner
            state: IncrementalState = {
                "now": now.time,
                "counts": json.dumps(asdict(now.counts)),
                "waiting": json.dumps([[key, *waiting] for key, waiting in tables.waiting.items()]),
                "learned": json.dumps(list(tables.learned)),
                "lost": json.dumps(list(tables.lost)),
                "early": json.dumps(list(tables.early.items())),
                "ready": json.dumps(list(tables.ready.items())),
            }
            if now.schema is not None:
                state |= nest("schema", now.schema.state())
            if now.samples is not None:
                state |= nest("samples", now.samples.incremental_state())
            return state | nest("model", self.model.incremental_state())

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over a state that ``state()`` returned, the model's state included."""
        saved = pick("schema", state), pick("samples", state)
        schema = Schema.from_state(saved[0], "this model") if saved[0] else None
        samples = Samples.from_state(saved[1]) if saved[1] else None
        if samples is not None and (samples.n_features, samples.sparse) != (
            None if schema is None else (schema.n_features, schema.sparse)
        ):
            raise misfit(state, "samples.n_features", "and the layout of the rows must be those of the schema")
        rows = (0, 0) if samples is None else (samples.first_row, samples.next_row)
        known = FIELDS.read(state, stored=Segment(*rows), counted=self.counts.errors is not None)
        joiner = LabelJoiner[Waiting](self.max_pending)
        names = ("waiting", "early", "ready", "learned", "lost")
        joiner.hold(*(known.get(name, OrderedDict()) for name in names))
        standing = Standing(known["now"], known["counts"], schema, samples, joiner)
        with uninterrupted(), self.lock:
            self._change(self._restored, standing, pick("model", state))

    def _restored(self, standing: Standing, model: Mapping[str, Any]) -> tuple[Standing, None]:
        self._end_as(LatePlan(standing, None, True, None))
        self.model.restore(model)
        return standing, None
