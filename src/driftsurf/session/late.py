"""Late labels: predict a row when it arrives, learn it when its label arrives."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from driftsurf.core.contracts import CSR, IncrementalState, Rows, Segment, State, n_rows
from driftsurf.core.decisions import Decision
from driftsurf.core.fields import Fields, Json, Real, Rule, Values, misfit
from driftsurf.core.frames import unmasked
from driftsurf.core.input import Schema, read_rows, read_schema
from driftsurf.core.options import number, whole
from driftsurf.core.samples import Samples
from driftsurf.core.state import nest, pick, resolved
from driftsurf.core.targets import ClassTargets, RegressionTargets
from driftsurf.core.typing import MatrixLike, TargetLike
from driftsurf.errors import InputError, ShapeError
from driftsurf.session.interrupts import uninterrupted
from driftsurf.session.label_counts import LabelCounts

__all__ = ["DelayedLabels", "DelayedModel", "Joined"]

Key: TypeAlias = str | int


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
    waited: npt.NDArray[np.float64]
    """Time between each row and its label."""
    decisions: tuple[Decision, ...]
    """One for each time step that these labels completed."""


class _Waiting(NamedTuple):
    row: int
    predicted: Any
    version: int
    time: float


class DelayedLabels:
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

    def __init__(self, model: DelayedModel, *, max_pending: int = 100_000, timeout: float | None = None) -> None:
        self.model = model
        self.max_pending: int = whole("max_pending", max_pending, at_least=1)
        self.timeout: float | None = (
            None if timeout is None else number("timeout", timeout, above=0.0, otherwise=", or None")
        )
        self.counts: LabelCounts = LabelCounts(errors=None if isinstance(model.targets, RegressionTargets) else 0)
        self._schema: Schema | None = model.schema
        self._samples: Samples | None = None
        self._now = 0.0
        self._waiting: OrderedDict[Key, _Waiting] = OrderedDict()
        self._learned: OrderedDict[Key, None] = OrderedDict()
        self._lost: OrderedDict[Key, None] = OrderedDict()
        self._early: OrderedDict[Key, Any] = OrderedDict()  # labels whose row has not come
        self._ready: OrderedDict[Key, Any] = OrderedDict()  # labels that came before their row, which waits now

    def __len__(self) -> int:
        """Return the number of rows that wait for their label."""
        return len(self._waiting)

    # -------------------------------------------------------------------- rows

    def predict(self, keys: Iterable[Any], X: MatrixLike, *, time: float | None = None) -> npt.NDArray[Any] | None:
        """Predict rows and keep them under their keys; None while the model has learned nothing."""
        schema = read_schema(X) if self._schema is None else self._schema
        rows = read_rows(X, schema)
        names = _read_keys(keys, n_rows(rows))
        now = self._time(time, n_rows(rows))
        labels = self.model.predict(_as_input(rows)) if self.model.steps else None
        # Nothing can fail from here on, so that rows, keys and counts stay consistent.
        if self._samples is None:
            self._schema, self._samples = schema, Samples(schema.n_features, sparse=schema.sparse)
        segment = self._samples.append(rows, np.zeros(len(names)))
        shown = [None] * len(names) if labels is None else labels.tolist()
        replaced, held = 0, len(self._early)
        for row, (key, label) in enumerate(zip(names, shown, strict=True), start=segment.lo):
            if key in self._waiting:
                # Deleted and inserted again at the end: ``_expire`` and ``_release`` expect the oldest row first.
                replaced += 1
                del self._waiting[key]
            for labels_before in (self._ready, self._early):
                if key in labels_before:
                    self._ready[key] = labels_before.pop(key)  # at the end, as its row
            self._learned.pop(key, None)
            self._lost.pop(key, None)
            self._waiting[key] = _Waiting(row, label, self.model.steps, now)
        self._now = now
        self.counts = self.counts.plus(predicted=len(names), replaced=replaced, orphan=len(self._early) - held)
        self._expire()
        return labels

    def _time(self, time: float | None, new_rows: int) -> float:
        if time is None:
            time = float(self.counts.predicted + new_rows)
        if not np.isfinite(time):
            raise InputError(f"time is {time!r}; pass a finite number, or None to count rows")
        return max(self._now, float(time))  # a clock that is set back must not make rows younger than they are

    def _expire(self) -> None:
        """Drop the rows beyond ``max_pending`` or ``timeout``, oldest first."""
        if self._samples is None:
            return
        first_kept = self._samples.next_row - self.max_pending
        expired, ready = 0, len(self._ready)
        while self._waiting:
            key, waiting = next(iter(self._waiting.items()))
            overdue = self.timeout is not None and self._now - waiting.time > self.timeout
            if waiting.row >= first_kept and not overdue:
                break
            self._waiting.popitem(last=False)
            self._ready.pop(key, None)
            self._remember(self._lost, key)
            expired += 1
        self.counts = self.counts.plus(expired=expired, late=ready - len(self._ready))
        self._release()

    def _release(self) -> None:
        assert self._samples is not None
        oldest = next(iter(self._waiting.values())).row if self._waiting else self._samples.next_row
        self._samples.release(oldest)

    def _remember(self, keys: OrderedDict[Key, Any], key: Key, label: Any = None) -> None:
        keys[key] = label
        if len(keys) > self.max_pending:
            keys.popitem(last=False)

    # -------------------------------------------------------------------- labels

    def label(self, keys: Iterable[Any], y: TargetLike, *, time: float | None = None) -> Joined:
        """Learn the rows that these labels, and those held for them, belong to.

        A label whose row has not come is held; late and duplicate labels are counted and ignored.
        """
        names = _read_keys(keys, None)
        known, codes = self.model.targets.read(y, len(names))
        self._now = self._time(time, 0)
        self._expire()  # before the join: whether a label is late must not depend on when rows were last dropped
        if self._ready:
            known, earlier = known.read(list(self._ready.values()), len(self._ready))
            names, codes = [*self._ready, *names], np.concatenate([earlier, codes])
        labels = known.decode(codes)
        found, early, strays = self._find(names)
        decisions: list[Decision] = []
        joined = [self._waiting[names[place]] for place in found]
        start = 0
        while start < len(found):
            stop = len(found)
            if self.model.batch_size is not None:
                # At most one time step at once, so that each call to ``learn`` is applied completely or not at all.
                stop = min(stop, start + self.model.batch_size - self.model.rows_pending)
            part = found[start:stop]
            rows = self._rows([self._waiting[names[i]].row for i in part])
            before = self.model.steps, self.model.rows_pending
            with uninterrupted():
                try:
                    decisions += self.model.learn(rows, labels[part])
                finally:
                    # A journal that cannot be written raises after the rows were learned.
                    if (self.model.steps, self.model.rows_pending) != before:
                        self._settle([names[i] for i in part], labels[part].tolist())
            start = stop
        for place, label in zip(early, labels[early].tolist(), strict=True):
            self._remember(self._early, names[place], label)
        self.counts = self.counts.plus(**strays, orphan=len(early))
        return Joined(
            tuple(names[place] for place in found),
            labels[found],
            tuple(waiting.predicted for waiting in joined),
            np.array([waiting.version for waiting in joined], np.int64),
            np.array([self._now - waiting.time for waiting in joined], np.float64),
            tuple(decisions),
        )

    def _find(self, names: Sequence[Key]) -> tuple[list[int], list[int], dict[str, int]]:
        """Return the places of labels whose rows wait, of labels whose rows have not come, and the counts of others."""
        found: dict[Key, int] = {}
        early: dict[Key, int] = {}
        strays = {"late": 0, "duplicate": 0}
        for place, key in enumerate(names):
            if key in found or key in early or key in self._learned or key in self._early:
                strays["duplicate"] += 1
            elif key in self._waiting:
                found[key] = place
            elif key in self._lost:
                strays["late"] += 1
            else:
                early[key] = place
        return list(found.values()), list(early.values()), strays

    def _settle(self, keys: Sequence[Key], labels: Sequence[Any]) -> None:
        scored = errors = 0
        for key, label in zip(keys, labels, strict=True):
            waiting = self._waiting.pop(key)
            self._ready.pop(key, None)
            self._remember(self._learned, key)
            if waiting.version:  # version 0 predicted nothing
                scored += 1
                errors += waiting.predicted != label
        self.counts = self.counts.plus(labelled=len(keys), scored=scored, errors=errors)
        self._release()

    def _rows(self, numbers: Sequence[int]) -> Any:
        assert self._samples is not None
        first = self._samples.first_row
        X = self._samples.view(Segment(first, self._samples.next_row)).X
        return _as_input(X, np.array(numbers) - first)

    # -------------------------------------------------------------------- state

    def state(self) -> State:
        """Return everything that later calls depend on, the model's state included."""
        return resolved(self.incremental_state())

    def incremental_state(self) -> IncrementalState:
        """Return the entries of ``state()``, with arrays that grow with the rows as ``AppendOnlyArray``."""
        state: IncrementalState = {
            "now": self._now,
            "counts": json.dumps(asdict(self.counts)),
            "waiting": json.dumps([[key, *waiting] for key, waiting in self._waiting.items()]),
            "learned": json.dumps(list(self._learned)),
            "lost": json.dumps(list(self._lost)),
            "early": json.dumps(list(self._early.items())),
            "ready": json.dumps(list(self._ready.items())),
        }
        if self._schema is not None:
            state |= nest("schema", self._schema.state())
        if self._samples is not None:
            state |= nest("samples", self._samples.incremental_state())
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
        self.model.restore(pick("model", state))
        self.counts, self._now, self._schema, self._samples = known["counts"], known["now"], schema, samples
        self._waiting, self._learned, self._lost = known["waiting"], known["learned"], known["lost"]
        self._early, self._ready = (known.get(name, OrderedDict()) for name in ("early", "ready"))


def _read_waiting(saved: Any) -> OrderedDict[Key, _Waiting]:
    """Return the saved waiting rows by key; ValueError if they are none."""
    waiting = OrderedDict((key, _Waiting(*rest)) for key, *rest in saved)
    for one in waiting.values():
        if not (type(one.row) is int and type(one.version) is int and one.version >= 0 and type(one.time) is float):
            raise ValueError(f"{one!r} is not a row that waits")
        if not isinstance(one.predicted, str | int | float | None):
            raise ValueError(f"{one.predicted!r} is not a prediction")
    _check_keys(waiting, len(saved))
    return waiting


def _read_known_keys(saved: Any) -> OrderedDict[Key, None]:
    """Return saved keys; ValueError if they are none."""
    keys = OrderedDict.fromkeys(saved)
    _check_keys(keys, len(saved))
    return keys


def _read_held(saved: Any) -> OrderedDict[Key, Any]:
    """Return saved labels by key; ValueError if they are none."""
    held = OrderedDict((key, label) for key, label in saved)
    _check_keys(held, len(saved))
    if not all(isinstance(label, str | int | float) for label in held.values()):
        raise ValueError("labels must be text or numbers")
    return held


def _check_keys(keys: Iterable[Any], count: int) -> None:
    if not all(type(key) in (str, int) for key in keys) or len(list(keys)) != count:
        raise ValueError("keys must be text or integers, and distinct")


def _are_stored(known: Values) -> bool:
    """Return whether the waiting rows are in the store, in the order of their arrival."""
    rows, stored = [one.row for one in known["waiting"].values()], known["stored"]
    return rows == sorted(set(rows)) and (not rows or (stored.lo <= rows[0] and rows[-1] < stored.hi))


FIELDS = Fields(
    {
        "now": Real(finite=False),
        "counts": Json(LabelCounts.from_saved),
        "waiting": Json(_read_waiting),
        "learned": Json(_read_known_keys),
        "lost": Json(_read_known_keys),
        "early": Json(_read_held),
        "ready": Json(_read_held),
    },
    optional=["early", "ready"],  # states of earlier versions do not have them
    parts=["schema", "samples", "model"],
    rules=[
        Rule(
            "counts",
            "must have errors exactly for classes",
            lambda known: (known["counts"].errors is not None) == known["counted"],
        ),
        Rule("waiting", "must be rows of the store, in order", _are_stored),
        Rule(
            "early",
            "must be labels of no row that waits",
            lambda known: not known.get("early", {}).keys() & known["waiting"].keys(),
        ),
        Rule(
            "ready",
            "must be labels of rows that wait",
            lambda known: known.get("ready", {}).keys() <= known["waiting"].keys(),
        ),
    ],
)
"""Saved entries of late labels."""


def _read_keys(keys: Iterable[Any], count: int | None) -> list[Key]:
    """Return keys as text or integers, the only types that a saved state can hold."""
    if isinstance(keys, str | bytes) or not isinstance(keys, Iterable):
        raise InputError(f"keys is {keys!r}; pass a list with one key for each row")
    read: list[Key] = []
    for key in unmasked(keys, "keys"):
        plain: Hashable = key.item() if isinstance(key, np.generic) else key
        if isinstance(plain, bool) or not isinstance(plain, str | int):
            raise InputError(f"the key {key!r} is neither text nor an integer")
        read.append(str(plain) if isinstance(plain, str) else int(plain))
    if count is not None and len(read) != count:
        raise ShapeError(f"there are {len(read)} keys for {count} rows; pass one key for each row.")
    return read


def _as_input(rows: Rows, places: npt.NDArray[np.int64] | None = None) -> Any:
    """Return rows, or some of them, in a form that a session accepts."""
    if not isinstance(rows, CSR):
        return rows if places is None else rows[places]
    from scipy import sparse

    a, b = int(rows.indptr[0]), int(rows.indptr[-1])
    matrix = sparse.csr_array(
        (rows.data[a:b], rows.indices[a:b], rows.indptr - a), shape=(n_rows(rows), rows.n_features)
    )
    return matrix if places is None else matrix[places]
