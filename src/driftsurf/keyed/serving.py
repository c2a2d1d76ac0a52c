"""Rows of one key through its model, up to the first row that cannot be learned; and the packed state of a model.

A state of many small entries is packed into one array, so that reading and writing a key costs little per entry.
Layout: the lengths of the two texts (8 bytes each, little-endian), the arrays one after the other, the names of the
entries as JSON, and their values in the same order as JSON. The value of an array is its type and shape.
"""

from __future__ import annotations

import functools
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from driftsurf.core.contracts import FloatArray, State
from driftsurf.core.decisions import Decision
from driftsurf.core.fields import Array, Fields
from driftsurf.core.state import DTYPES, compact, name_in, part_at, to_bytes
from driftsurf.core.targets import ClassTargets
from driftsurf.errors import InputError, StateError
from driftsurf.keyed.quarantine import Fault, error_fault, label_fault
from driftsurf.keyed.rows import KeyRows
from driftsurf.native.columns import all_finite
from driftsurf.session.late import DelayedLabels
from driftsurf.session.session import Session

SCALARS = bool, int, float, str
HEAD = 16
ALIGNED = 8
"""Arrays start at multiples of this many bytes, since compiled code takes aligned arrays only."""

Bytes = npt.NDArray[np.uint8]


def packed(state: Mapping[str, Any]) -> Bytes:
    """Pack a state into an array of bytes; the same entries in the same order give the same bytes.

    >>> unpacked(packed({"seed": 7, "best": 0.25, "table": np.zeros(2)}))
    {'seed': 7, 'best': 0.25, 'table': array([0., 0.])}
    """
    arrays: list[bytes] = []
    values: list[Any] = []
    for name, value in state.items():
        if isinstance(value, np.ndarray):
            if value.dtype.str not in DTYPES:
                raise StateError(f"the entry {name!r} has type {value.dtype}; choices: {', '.join(DTYPES)}")
            arrays.append(value.tobytes() + bytes(-value.nbytes % ALIGNED))
            values.append([value.dtype.str, *value.shape])
        elif isinstance(value, SCALARS):
            values.append(value)
        else:
            raise StateError(
                f"the entry {name!r} is a {type(value).__name__}; a state holds bool, int, float, str and arrays"
            )
    texts = _text(tuple(state)), _compact(values)
    lengths = [len(text).to_bytes(8, "little") for text in texts]
    return np.frombuffer(b"".join([*lengths, *arrays, *texts]), np.uint8)


def array_bytes(data: Bytes) -> int:
    """Return how many bytes the arrays of a packed state take.

    >>> array_bytes(packed({"seed": 7, "table": np.zeros(2)}))
    16
    """
    if data.dtype != np.uint8 or data.ndim != 1 or data.size < HEAD:
        raise StateError("a packed state is no array of bytes")
    texts = np.frombuffer(data[:HEAD].tobytes(), "<u8").tolist()
    return int(data.size) - HEAD - int(sum(texts))


def unpacked(data: Any, name: str = "") -> State:
    """Return the state that ``packed`` packed into the entry of this name; StateError for anything else."""
    try:
        room = data.copy()  # the arrays are views of it, which the caller may change
        text = room.tobytes()
        names, values = (int.from_bytes(text[start : start + 8], "little") for start in (0, 8))
        middle, end = len(text) - values, len(text) - values - names
        found = _read(_names(text[end:middle]), json.loads(text[middle:].decode()), room, end)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError) as error:
        raise StateError(f"the saved entry {name!r} cannot be unpacked: {error!r}", entry=name) from error
    return part_at(name and name + ".", found)


def _read(names: tuple[str, ...], values: list[Any], room: Bytes, end: int) -> State:
    position = HEAD
    state: dict[str, Any] = {}
    for name, value in zip(names, values, strict=True):
        if type(value) is list:
            dtype, *shape = value
            array: npt.NDArray[Any] = np.ndarray(shape, DTYPES[dtype], room, position)
            state[name] = array
            position += array.nbytes + -array.nbytes % ALIGNED
        elif type(value) in SCALARS:
            state[name] = value
        else:
            raise TypeError(f"{name} is {value!r}")
    if position != end:
        raise ValueError(f"the arrays end at {position}, the texts begin at {end}")
    return state


def _compact(values: list[Any] | tuple[str, ...]) -> bytes:
    """Return values as JSON, floats with all digits that are needed to read them back exactly."""
    return compact(values).encode()


_text = functools.lru_cache(maxsize=64)(_compact)
"""The names of entries hardly differ between keys and visits, so that their text is cached."""


@functools.lru_cache(maxsize=64)
def _names(text: bytes) -> tuple[str, ...]:
    names = json.loads(text.decode())
    if not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
        raise ValueError("the names of the entries are not distinct text")
    return tuple(names)


NOT_THE_KEYS_FAULT = MemoryError, OSError
"""Errors of the machine, not of a row: the engine must see them and repeat the visit."""
BESIDE_ARRAYS = 2**16
"""A bound on the bytes of a state that are not in arrays: they are some 2 kB, and as much per model."""
ESCAPED = 16
"""At most so many bytes are written for a character of a label."""

EMPTY = packed({})
"""The packed state of a strategy that has not started."""
_BYTES = Array(np.uint8, ("*",))
PACKED, LATE = Fields({"strategy": _BYTES, "around": _BYTES}), Fields({"late": _BYTES})
"""Saved entries of a key's model, with immediate and with late labels."""


@dataclass
class ServedRows:
    """Predictions and decisions for the rows of a visit, in their order."""

    predicted: list[Any] = field(default_factory=list)
    true: list[Any] = field(default_factory=list)
    decided_at: list[int] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)
    scored: int = 0
    errors: int = 0

    def add(self, predicted: Sequence[Any], true: Sequence[Any]) -> None:
        """Add rows with their predictions and their true labels, None for unknown."""
        self.predicted += predicted
        self.true += true
        for mine, label in zip(predicted, true, strict=True):
            if mine is not None and label is not None:
                self.scored += 1
                self.errors += mine != label

    def add_decisions(self, at: int, decisions: Sequence[Decision]) -> None:
        """Add the decisions of time steps that ended with the row ``at``."""
        self.decisions += decisions
        self.decided_at += [at] * len(decisions)


class KeyServing(ABC):
    """A key's model during a visit; its state may take ``max_bytes`` after each time step."""

    def __init__(self, session: Session, features: Sequence[str], max_bytes: int) -> None:
        self.session = session
        self.features = features
        self.max_bytes = max_bytes

    @abstractmethod
    def take(self, rows: KeyRows, served: ServedRows) -> tuple[int, Fault | None]:
        """Predict and learn rows; return how many could be taken, and what was wrong with the next one.

        Rows after a bad one are not taken. A bad row may have left traces in the model and in ``served``: the caller
        starts again from the saved state, without that row. Which row is bad does not depend on how the rows are spread
        over calls.
        """

    @property
    def waiting(self) -> int:
        """Rows that wait for their label."""
        return 0

    def refuse(self, rows: KeyRows, served: ServedRows) -> None:
        """Predict rows that are not learned, as far as they can be predicted."""
        predicted = self._predict(rows.X)
        served.predicted += predicted
        served.true += [None] * len(rows)

    @abstractmethod
    def state(self) -> State:
        """Return everything that decides what comes next, packed."""

    @abstractmethod
    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over a state that ``state()`` returned."""

    def _narrow(self, X: FloatArray) -> FloatArray:
        """Return rows in the type in which the model keeps them; what is too large becomes infinite."""
        with np.errstate(over="ignore"):
            return np.ascontiguousarray(X, self.session.strategy.dtype)

    @property
    def _can_predict(self) -> bool:
        """Whether there is anything to predict with: before the first time step, only classes that were given."""
        targets = self.session.targets
        return self.session.steps > 0 or (isinstance(targets, ClassTargets) and targets.closed)

    def _count_finite(self, X: FloatArray, rows: KeyRows) -> tuple[int, Fault | None]:
        """Return how many rows come before the first one with a value that is not finite, and what is wrong with it.

        ``X`` are the features of ``rows`` as the model keeps them.
        """
        if all_finite(X):
            return len(X), None
        bad = int(np.argmin(np.isfinite(X).all(axis=1)))
        place = int(np.argmin(np.isfinite(X[bad])))
        value, column = float(rows.X[bad, place]), self.features[place]
        where = f"in row {rows.sequence[bad]} the feature {column!r} is {value}"
        if np.isfinite(value):
            return bad, Fault("out_of_range", f"{where}, which is too large for {X.dtype}", column, str(value))
        return bad, Fault("not_finite", where, column, str(value))

    def _predict(self, X: FloatArray) -> list[Any]:
        X = self._narrow(X)
        labels: list[Any] = [None] * len(X)
        good = np.flatnonzero(np.isfinite(X).all(axis=1))
        if self._can_predict and self.session.schema is not None and len(good):
            for place, label in zip(good.tolist(), self.session.predict(X[good]).tolist(), strict=True):
                labels[place] = label
        return labels

    def _surely_small(self) -> bool:
        """Return whether the state is within its bound by an estimate that is quick to make."""
        names = sum(len(label) for label in self.session.targets.labels if isinstance(label, str))
        return BESIDE_ARRAYS + 2 * self.session.strategy.nbytes + ESCAPED * names <= self.max_bytes

    def _size_fault(self) -> Fault | None:
        """Return what is wrong if the state is too large."""
        if not self._surely_small() and (size := len(to_bytes(self.state()))) > self.max_bytes:
            return Fault("too_large", f"the state would take {size:,} bytes; max_bytes is {self.max_bytes:,}")
        return None


class ImmediateLabels(KeyServing):
    """Serves rows whose label comes with them or never; a row without a label is only predicted.

    Most visits bring too few rows for a time step, and nothing but a time step changes the strategy. Its entries, by
    far the most of a state, are then written back as they were read.
    """

    def __init__(self, session: Session, features: Sequence[str], max_bytes: int) -> None:
        super().__init__(session, features, max_bytes)
        self._strategy = EMPTY
        """The packed state of the strategy ..."""
        self._strategy_steps = -1
        """... after this many time steps; -1 if it had not started."""

    def take(self, rows: KeyRows, served: ServedRows) -> tuple[int, Fault | None]:
        """Predict and learn rows, in pieces that do not go beyond the end of a time step."""
        X = self._narrow(rows.X)
        good, fault = self._count_finite(X, rows)
        if self.session.batch_size is None:
            return self._take_as_one_step(X, rows, good, fault, served)
        start = 0
        while start < good:
            stop, labelled = self._piece(rows.y, start, good)
            if labelled:
                bad = self._observe(X[start:stop], rows.y[start:stop], int(rows.sequence[stop - 1]), served)
                if bad is not None:
                    return self._blamed(rows, start, stop, bad)
            else:
                served.add(self._predict(X[start:stop]), rows.y[start:stop])
            start = stop
        return start, fault

    def _piece(self, y: list[Any], start: int, good: int) -> tuple[int, bool]:
        """Return where the piece that starts here ends, and whether its rows have labels.

        All rows of a piece have labels, or none has; labelled ones fit into the current time step.
        """
        labelled = y[start] is not None
        size = self.session.batch_size
        assert size is not None
        most = min(good, start + size - self.session.rows_pending) if labelled else good
        stop = start + 1
        while stop < most and (y[stop] is not None) == labelled:
            stop += 1
        return stop, labelled

    def _observe(self, X: FloatArray, y: list[Any], last: int, served: ServedRows) -> Exception | Fault | None:
        """Predict and learn labelled rows that end with row ``last``; return what went wrong."""
        can_predict = self._can_predict
        try:
            seen = self.session.observe(X, y)
        except NOT_THE_KEYS_FAULT:
            raise
        except Exception as error:
            return error
        served.add(seen.labels.tolist() if can_predict else [None] * len(y), y)
        served.add_decisions(last, seen.decisions)
        return self._size_fault() if seen.decisions else None

    def state(self) -> State:
        """Return everything that decides what comes next, packed."""
        session = self.session
        if session.schema is not None and session.steps != self._strategy_steps:
            self._strategy, self._strategy_steps = packed(session.strategy.state()), session.steps
        return {"strategy": self._strategy, "around": packed(session.surroundings())}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over a state that ``state()`` returned."""
        known = PACKED.read(state)
        around, own = (unpacked(known[name], name_in(state, name)) for name in ("around", "strategy"))
        self.session.restore(around, own)
        self._strategy = known["strategy"]
        self._strategy_steps = -1 if self.session.schema is None else self.session.steps

    def _blamed(self, rows: KeyRows, start: int, stop: int, bad: Exception | Fault) -> tuple[int, Fault]:
        """Return the row of a piece to blame: the first one whose label cannot be read, else the last one."""
        if isinstance(bad, Fault):
            return stop - 1, bad
        if isinstance(bad, InputError):
            # One label at a time, so that the message does not depend on the piece.
            known = self.session.targets
            for place in range(start, stop):
                try:
                    known, _ = known.read([rows.y[place]], 1)
                except InputError as found:
                    return place, label_fault(found, rows.y[place], [int(rows.sequence[place])])
        return stop - 1, error_fault(bad)

    def _take_as_one_step(
        self, X: FloatArray, rows: KeyRows, good: int, fault: Fault | None, served: ServedRows
    ) -> tuple[int, Fault | None]:
        """Take all rows as one time step; rows without a label are predicted by the model before it."""
        labelled = [i for i in range(good) if rows.y[i] is not None]
        bare = [i for i in range(good) if rows.y[i] is None]
        predicted = dict(zip(bare, self._predict(X[bare]), strict=True))
        own = ServedRows()
        if labelled:
            y = [rows.y[i] for i in labelled]
            bad = self._observe(X[labelled], y, int(rows.sequence[labelled[-1]]), own)
            if isinstance(bad, InputError):
                bad = label_fault(bad, bad.value, rows.sequence[labelled].tolist())
            if bad is not None:
                return 0, bad if isinstance(bad, Fault) else error_fault(bad)
        predicted |= dict(zip(labelled, own.predicted, strict=True))
        served.add([predicted[i] for i in range(good)], rows.y[:good])
        served.decisions, served.decided_at = own.decisions, own.decided_at
        return good, fault


class LateLabels(KeyServing):
    """Serves rows whose labels may come later, by id; rows wait for them, for a bounded time and in bounded number.

    Rows are taken one by one, since each has its own time: whether a label is too late must not depend on how rows are
    spread over visits.
    """

    def __init__(
        self, session: Session, features: Sequence[str], max_bytes: int, *, max_pending: int, timeout: float
    ) -> None:
        super().__init__(session, features, max_bytes)
        self._delayed = DelayedLabels(session, max_pending=max_pending, timeout=timeout)

    @property
    def waiting(self) -> int:
        """Rows that wait for their label."""
        return len(self._delayed)

    def take(self, rows: KeyRows, served: ServedRows) -> tuple[int, Fault | None]:
        """Predict rows with features, which then wait; learn a row when its label comes, alone or with it."""
        assert rows.ids is not None
        alone = np.isnan(rows.X).all(axis=1) & np.array([label is not None for label in rows.y], np.bool_)
        good, fault = self._count_finite(np.where(alone[:, np.newaxis], 0.0, self._narrow(rows.X)), rows)
        for place in range(good):
            at, label = int(rows.sequence[place]), rows.y[place]
            try:
                bad = self._take_one(at, rows.ids[place], None if alone[place] else rows.X[place], label, served)
            except NOT_THE_KEYS_FAULT:
                raise
            except Exception as error:
                bad = error_fault(error)
            if bad is not None:
                return place, bad
        return good, fault

    def _take_one(self, at: int, id_: Any, x: FloatArray | None, label: Any, served: ServedRows) -> Fault | None:
        """Take one row, or a label alone if ``x`` is None; return what is wrong with the label or the size."""
        due = False
        predicted: Any = None
        if x is not None:
            shown = self._delayed.predict([id_], x[np.newaxis], time=float(at))
            predicted = None if shown is None else shown.tolist()[0]
            assert self.session.batch_size is not None
            due = self._delayed.counts.predicted % self.session.batch_size == 0  # waiting rows take memory too
        given = [] if label is None else [label]
        try:
            joined = self._delayed.label([id_] * len(given), given, time=float(at))
        except InputError as error:
            return label_fault(error, label, [at])
        served.add_decisions(at, joined.decisions)
        due |= bool(joined.decisions)
        # A label that came before this row is learned now, also if no label came with it.
        predicted, label = (joined.predicted[0], joined.true.tolist()[0]) if joined.keys else (predicted, None)
        served.add([predicted], [label])
        return self._size_fault() if due else None

    def _surely_small(self) -> bool:
        return False  # ids may have any length

    def state(self) -> State:
        """Return everything that decides what comes next, packed."""
        return {"late": packed(self._delayed.state())}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over a state that ``state()`` returned."""
        self._delayed.restore(unpacked(LATE.read(state)["late"], name_in(state, "late")))
