"""Labels that come late: predict now, learn when the label arrives."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, replace
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from driftsurf._options import number, whole
from driftsurf.base import CSR, Parts, Rows, Segment, State, n_rows
from driftsurf.decisions import Decision
from driftsurf.errors import InputError, ShapeError, StateError
from driftsurf.labels import Classes, Values
from driftsurf.samples import Samples
from driftsurf.state import nest, pick, resolved
from driftsurf.validation import Schema, read_rows, read_schema

__all__ = ["DelayedLabels", "DelayedModel", "Joined", "LabelCounts"]

Key: TypeAlias = str | int


class DelayedModel(Protocol):
    """What learns behind the delay; ``runtime.Session`` is one."""

    batch_size: int | None
    targets: Classes | Values

    @property
    def steps(self) -> int:
        """Time steps so far: the version of the model."""
        ...

    @property
    def rows_pending(self) -> int:
        """Rows that wait for a time step to become full."""
        ...

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Labels."""
        ...

    def learn(self, X: Any, y: Any) -> tuple[Decision, ...]:
        """Learn rows, all or nothing if they are no more than a time step has room for."""
        ...

    def state(self) -> State:
        """Everything that changes while learning."""
        ...

    def parts(self) -> Parts:
        """The same, with what grows with the rows as ``Growing``."""
        ...

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over what ``state()`` gave."""
        ...


@dataclass(frozen=True, slots=True)
class LabelCounts:
    """What became of rows and labels so far."""

    predicted: int = 0
    """Rows that came in."""
    labelled: int = 0
    """Rows whose label came in time: they were learnt."""
    scored: int = 0
    """Those of them that had a prediction; the first rows come before there is a model."""
    errors: int | None = 0
    """Those of them whose stored prediction was wrong; None where values are predicted."""
    expired: int = 0
    """Rows that were given up: no label in time, or too many newer rows."""
    replaced: int = 0
    """Rows that another row with the same key replaced before their label came."""
    late: int = 0
    """Labels of rows that had been given up or replaced."""
    duplicate: int = 0
    """Labels of rows that had one already."""
    orphan: int = 0
    """Labels whose key was never seen, or too long ago to be remembered."""

    @property
    def error(self) -> float:
        """The share of wrong predictions among those that could be checked; NaN before the first, and of values."""
        return self.errors / self.scored if self.scored and self.errors is not None else float("nan")

    def plus(self, **more: int) -> LabelCounts:
        """The counts with some of them raised."""
        counted = {name: value for name, value in asdict(self).items() if value is not None}
        return replace(self, **{name: value + more.get(name, 0) for name, value in counted.items()})


@dataclass(frozen=True, slots=True)
class Joined:
    """The rows that labels of one call found, in the order of the labels."""

    keys: tuple[Key, ...]
    true: npt.NDArray[Any]
    predicted: tuple[Any, ...]
    """As stored when the row came; None for rows that came before there was a model."""
    versions: npt.NDArray[np.int64]
    """The time steps that the model behind each prediction had learnt."""
    waited: npt.NDArray[np.float64]
    """Time between row and label."""
    decisions: tuple[Decision, ...]
    """One for each time step that these labels completed."""


class _Waiting(NamedTuple):
    row: int
    predicted: Any
    version: int
    time: float


class DelayedLabels:
    """Keeps rows until their labels come, in any order, then teaches a model with them.

    A row is predicted when it comes and stored, with its prediction and the version of the model, under a
    key. When a label comes, the row is learnt; time steps are cut by the arrival of labels, as the
    session's ``batch_size`` says (None: each call of ``label`` that finds rows is one). The error that is
    reported is that of the stored predictions, which is what users of the model saw; the risk by which
    DriftSurf decides is that of the current model on the rows as they are learnt.

    A row is given up when ``max_pending`` newer ones have come, or when ``timeout`` has passed: rows in store
    are never more than ``max_pending``. As many keys of learnt rows, and of rows given up, are remembered, to tell
    duplicate and late labels from orphans. No clock is read: time is what calls say it is, or the
    number of rows so far, and never runs backwards.

    Parameters
    ----------
    model
        A :class:`~driftsurf.runtime.session.Session`.
    max_pending
        Rows to keep at most.
    timeout
        A row whose label comes later than this is not learnt; None for no such limit.

    Examples
    --------
    >>> from driftsurf.learners import LogisticRegression
    >>> from driftsurf.runtime.session import Session
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
        self.max_pending = whole("max_pending", max_pending, at_least=1)
        self.timeout = None if timeout is None else number("timeout", timeout, above=0.0, otherwise=", or None")
        self.counts = LabelCounts(errors=None if isinstance(model.targets, Values) else 0)
        self._schema: Schema | None = getattr(model, "schema", None)
        self._samples: Samples | None = None
        self._now = 0.0
        self._waiting: OrderedDict[Key, _Waiting] = OrderedDict()
        self._learnt: OrderedDict[Key, None] = OrderedDict()
        self._lost: OrderedDict[Key, None] = OrderedDict()

    def __len__(self) -> int:
        """Rows that wait for their label."""
        return len(self._waiting)

    # -------------------------------------------------------------------- rows

    def predict(self, keys: Iterable[Any], X: Any, *, time: float | None = None) -> npt.NDArray[Any] | None:
        """Predict rows and keep them under their keys; None while the model has learnt nothing."""
        schema = read_schema(X) if self._schema is None else self._schema
        rows = read_rows(X, schema)
        names = _read_keys(keys, n_rows(rows))
        now = self._time(time, n_rows(rows))
        labels = self.model.predict(_as_input(rows)) if self.model.steps else None
        # Nothing from here on can fail.
        if self._samples is None:
            self._schema, self._samples = schema, Samples(schema.n_features, sparse=schema.sparse)
        segment = self._samples.append(rows, np.zeros(len(names)))
        shown = [None] * len(names) if labels is None else labels.tolist()
        replaced = 0
        for row, (key, label) in enumerate(zip(names, shown, strict=True), start=segment.lo):
            if key in self._waiting:
                replaced += 1
                del self._waiting[key]
            self._learnt.pop(key, None)
            self._lost.pop(key, None)
            self._waiting[key] = _Waiting(row, label, self.model.steps, now)
        self._now = now
        self.counts = self.counts.plus(predicted=len(names), replaced=replaced)
        self._give_up()
        return labels

    def _time(self, time: float | None, new_rows: int) -> float:
        if time is None:
            time = float(self.counts.predicted + new_rows)
        if not np.isfinite(time):
            raise InputError(f"time is {time!r}; give a finite number, or None to count rows")
        return max(self._now, float(time))

    def _give_up(self) -> None:
        """Drop the rows whose time is over, oldest first."""
        if self._samples is None:
            return
        first_kept = self._samples.next_row - self.max_pending
        expired = 0
        while self._waiting:
            key, waiting = next(iter(self._waiting.items()))
            overdue = self.timeout is not None and self._now - waiting.time > self.timeout
            if waiting.row >= first_kept and not overdue:
                break
            self._waiting.popitem(last=False)
            self._remember(self._lost, key)
            expired += 1
        self.counts = self.counts.plus(expired=expired)
        self._release()

    def _release(self) -> None:
        assert self._samples is not None
        oldest = next(iter(self._waiting.values())).row if self._waiting else self._samples.next_row
        self._samples.release(oldest)

    def _remember(self, keys: OrderedDict[Key, None], key: Key) -> None:
        keys[key] = None
        if len(keys) > self.max_pending:
            keys.popitem(last=False)

    # -------------------------------------------------------------------- labels

    def label(self, keys: Iterable[Any], y: Any, *, time: float | None = None) -> Joined:
        """Learn the rows whose labels these are; labels without a waiting row are counted and passed over."""
        names = _read_keys(keys, None)
        known, codes = self.model.targets.read(y, len(names))
        labels = known.decoded(codes)
        self._now = self._time(time, 0)
        self._give_up()
        found, strays = self._find(names)
        decisions: list[Decision] = []
        joined = [self._waiting[names[place]] for place in found]
        start = 0
        while start < len(found):
            stop = len(found)
            if self.model.batch_size is not None:
                # No more than one time step has room for, so that each call is learnt whole or not at all.
                stop = min(stop, start + self.model.batch_size - self.model.rows_pending)
            part = found[start:stop]
            decisions += self.model.learn(self._rows([self._waiting[names[i]].row for i in part]), labels[part])
            self._settle([names[i] for i in part], labels[part].tolist())
            start = stop
        self.counts = self.counts.plus(**strays)
        return Joined(
            tuple(names[place] for place in found),
            labels[found],
            tuple(waiting.predicted for waiting in joined),
            np.array([waiting.version for waiting in joined], np.int64),
            np.array([self._now - waiting.time for waiting in joined], np.float64),
            tuple(decisions),
        )

    def _find(self, names: Sequence[Key]) -> tuple[list[int], dict[str, int]]:
        """The places of labels whose rows wait; how many of the others are what."""
        found: dict[Key, int] = {}
        strays = {"late": 0, "duplicate": 0, "orphan": 0}
        for place, key in enumerate(names):
            if key in found or key in self._learnt:
                strays["duplicate"] += 1
            elif key in self._waiting:
                found[key] = place
            else:
                strays["late" if key in self._lost else "orphan"] += 1
        return list(found.values()), strays

    def _settle(self, keys: Sequence[Key], labels: Sequence[Any]) -> None:
        scored = errors = 0
        for key, label in zip(keys, labels, strict=True):
            waiting = self._waiting.pop(key)
            self._remember(self._learnt, key)
            if waiting.version:
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
        """Everything that decides what comes next, the model's state included."""
        return resolved(self.parts())

    def parts(self) -> Parts:
        """The same, with what grows with the rows as ``Growing``."""
        state: Parts = {
            "now": self._now,
            "counts": json.dumps(asdict(self.counts)),
            "waiting": json.dumps([[key, *waiting] for key, waiting in self._waiting.items()]),
            "learnt": json.dumps(list(self._learnt)),
            "lost": json.dumps(list(self._lost)),
        }
        if self._schema is not None:
            state |= nest("schema", self._schema.state())
        if self._samples is not None:
            state |= nest("samples", self._samples.parts())
        return state | nest("model", self.model.parts())

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over what ``state()`` gave, the model's state included."""
        try:
            counts = LabelCounts(**json.loads(state["counts"]))
            if self.counts.errors is None:  # older states count values that were not met exactly
                counts = replace(counts, errors=None)
            waiting = OrderedDict((key, _Waiting(*rest)) for key, *rest in json.loads(state["waiting"]))
            learnt, lost = (OrderedDict.fromkeys(json.loads(state[name])) for name in ("learnt", "lost"))
            samples = Samples.from_state(pick("samples", state)) if pick("samples", state) else None
            schema = Schema.from_state(pick("schema", state), "this model") if pick("schema", state) else None
            rows = [one.row for one in waiting.values()]
            low, high = (0, 0) if samples is None else (samples.first_row, samples.next_row)
            if not (
                isinstance(state["now"], float)
                and [type(count) for count in astuple(counts)] == [type(count) for count in astuple(self.counts)]
                and all(type(row) is int and low <= row < high for row in rows)
                and rows == sorted(set(rows))
                and all(isinstance(one.time, float) and type(one.version) is int for one in waiting.values())
                and all(isinstance(key, str | int) for keys in (waiting, learnt, lost) for key in keys)
                and (samples is None or (schema is not None and schema.n_features == samples.n_features))
            ):
                raise StateError("the entries of the saved delayed labels do not fit together")
        except (KeyError, TypeError, ValueError) as error:
            if isinstance(error, StateError):
                raise
            raise StateError(f"the saved delayed labels cannot be read ({error}): they are another object's") from error
        self.model.restore(pick("model", state))
        self.counts, self._now, self._schema, self._samples = counts, state["now"], schema, samples
        self._waiting, self._learnt, self._lost = waiting, learnt, lost


def _read_keys(keys: Iterable[Any], count: int | None) -> list[Key]:
    """Keys as text or integers, the only ones that a saved state keeps."""
    if isinstance(keys, str | bytes) or not isinstance(keys, Iterable):
        raise InputError(f"keys is {keys!r}; give one key for each row, in a list")
    read: list[Key] = []
    for key in keys:
        plain: Hashable = key.item() if isinstance(key, np.generic) else key
        if isinstance(plain, bool) or not isinstance(plain, str | int):
            raise InputError(f"the key {key!r} is neither text nor a whole number")
        read.append(str(plain) if isinstance(plain, str) else int(plain))
    if count is not None and len(read) != count:
        raise ShapeError(f"there are {len(read)} keys for {count} rows: give one key for each row.")
    return read


def _as_input(rows: Rows, places: npt.NDArray[np.int64] | None = None) -> Any:
    """Rows, or some of them, in a form that a session takes."""
    if not isinstance(rows, CSR):
        return rows if places is None else rows[places]
    from scipy import sparse

    a, b = int(rows.indptr[0]), int(rows.indptr[-1])
    matrix = sparse.csr_array(
        (rows.data[a:b], rows.indices[a:b], rows.indptr - a), shape=(n_rows(rows), rows.n_features)
    )
    return matrix if places is None else matrix[places]
