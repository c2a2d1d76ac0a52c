"""Rows of one key through its model, up to the first row that cannot be learned."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from driftsurf.core.contracts import FloatArray, State
from driftsurf.core.decisions import Decision
from driftsurf.core.fields import Array, Fields
from driftsurf.core.state import name_in, to_bytes
from driftsurf.core.targets import ClassTargets
from driftsurf.errors import InputError
from driftsurf.keyed.packed import packed, unpacked
from driftsurf.keyed.quarantine import Fault, error_fault, label_fault
from driftsurf.keyed.rows import KeyRows
from driftsurf.native.columns import all_finite
from driftsurf.session.late import DelayedLabels
from driftsurf.session.session import Session

__all__ = ["ImmediateLabels", "LateLabels", "Served", "Serving"]

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
class Served:
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


class Serving(ABC):
    """A key's model during a visit; its state may take ``max_bytes`` after each time step."""

    def __init__(self, session: Session, features: Sequence[str], max_bytes: int) -> None:
        self.session = session
        self.features = features
        self.max_bytes = max_bytes

    @abstractmethod
    def take(self, rows: KeyRows, served: Served) -> tuple[int, Fault | None]:
        """Predict and learn rows; return how many could be taken, and what was wrong with the next one.

        Rows after a bad one are not taken. A bad row may have left traces in the model and in ``served``: the caller
        starts again from the saved state, without that row. Which row is bad does not depend on how the rows are spread
        over calls.
        """

    @property
    def waiting(self) -> int:
        """Rows that wait for their label."""
        return 0

    def refuse(self, rows: KeyRows, served: Served) -> None:
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


class ImmediateLabels(Serving):
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

    def take(self, rows: KeyRows, served: Served) -> tuple[int, Fault | None]:
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

    def _observe(self, X: FloatArray, y: list[Any], last: int, served: Served) -> Exception | Fault | None:
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
        self, X: FloatArray, rows: KeyRows, good: int, fault: Fault | None, served: Served
    ) -> tuple[int, Fault | None]:
        """Take all rows as one time step; rows without a label are predicted by the model before it."""
        labelled = [i for i in range(good) if rows.y[i] is not None]
        bare = [i for i in range(good) if rows.y[i] is None]
        predicted = dict(zip(bare, self._predict(X[bare]), strict=True))
        own = Served()
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


class LateLabels(Serving):
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

    def take(self, rows: KeyRows, served: Served) -> tuple[int, Fault | None]:
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

    def _take_one(self, at: int, id_: Any, x: FloatArray | None, label: Any, served: Served) -> Fault | None:
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
