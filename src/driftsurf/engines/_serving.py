"""Rows of one key through its model: with labels at once, or late; up to the first that cannot be taken."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from driftsurf import _kernels
from driftsurf.base import FloatArray, State
from driftsurf.decisions import Decision
from driftsurf.engines._packed import packed, unpacked
from driftsurf.errors import InputError, StateError
from driftsurf.labels import Classes
from driftsurf.runtime.delayed import DelayedLabels
from driftsurf.runtime.session import Session
from driftsurf.state import to_bytes

if TYPE_CHECKING:
    from driftsurf.engines.keyed import KeyRows

__all__ = ["AtOnce", "Late", "Served", "Serving"]

NOT_A_KEYS_FAULT = MemoryError, OSError
"""What a machine does, not a row: the engine must see it and try the visit again."""
BESIDE_ARRAYS = 2**16
"""Far more than the numbers in a state take: some 2 kB, and as much for each model."""
ESCAPED = 16
"""At most so many bytes are written for a letter of a label."""

NOTHING = packed({})
"""Of a strategy that has not begun."""


@dataclass
class Served:
    """What came of rows, in their order."""

    predicted: list[Any] = field(default_factory=list)
    true: list[Any] = field(default_factory=list)
    decided_at: list[int] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)
    scored: int = 0
    errors: int = 0

    def add(self, predicted: Sequence[Any], true: Sequence[Any]) -> None:
        """Rows with what was predicted and what is true of them, None for unknown."""
        self.predicted += predicted
        self.true += true
        for mine, label in zip(predicted, true, strict=True):
            if mine is not None and label is not None:
                self.scored += 1
                self.errors += mine != label

    def decided(self, at: int, decisions: Sequence[Decision]) -> None:
        """Time steps that ended with the row ``at``."""
        self.decisions += decisions
        self.decided_at += [at] * len(decisions)


class Serving(ABC):
    """A key's model while it is visited, which may take ``max_bytes`` after each time step."""

    def __init__(self, session: Session, features: Sequence[str], max_bytes: int) -> None:
        self.session = session
        self.features = features
        self.max_bytes = max_bytes

    @abstractmethod
    def take(self, rows: KeyRows, served: Served) -> tuple[int, str]:
        """Predict and learn rows; returns how many could be taken, and what was wrong with the next (empty: nothing).

        Rows behind a bad one are not taken. It may have left its trace, here and in ``served``: begin again without
        it. Which one is bad does not depend on how the rows are spread over calls.
        """

    @property
    def waiting(self) -> int:
        """Rows that wait for their label."""
        return 0

    def refuse(self, rows: KeyRows, served: Served) -> None:
        """Predict rows that are not learnt, as far as they can be predicted."""
        predicted = self._predicted(rows.X)
        served.predicted += predicted
        served.true += [None] * len(rows)

    def _narrow(self, X: FloatArray) -> FloatArray:
        """As the model keeps rows; what has no room there becomes infinite."""
        with np.errstate(over="ignore"):
            return np.ascontiguousarray(X, self.session.strategy.dtype)

    @property
    def _can_predict(self) -> bool:
        """Before the first time step nothing is known but classes that were given, and so there is nothing to say."""
        targets = self.session.targets
        return self.session.steps > 0 or (isinstance(targets, Classes) and targets.closed)

    def _sound(self, X: FloatArray, rows: KeyRows) -> tuple[int, str]:
        """How many rows stand before the first with a value that has no room, and what is wrong with it.

        ``X`` are the values of ``rows`` as the model keeps them.
        """
        if _kernels.all_finite(X):
            return len(X), ""
        bad = int(np.argmin(np.isfinite(X).all(axis=1)))
        column = int(np.argmin(np.isfinite(X[bad])))
        value, at = rows.X[bad, column], rows.sequence[bad]
        beyond = f", which has no room in {X.dtype}" if np.isfinite(value) else ""
        return bad, f"NonFiniteError: in the row {at} {self.features[column]!r} is {value}{beyond}"

    def _predicted(self, X: FloatArray) -> list[Any]:
        X = self._narrow(X)
        labels: list[Any] = [None] * len(X)
        good = np.flatnonzero(np.isfinite(X).all(axis=1))
        if self._can_predict and self.session.schema is not None and len(good):
            for place, label in zip(good.tolist(), self.session.predict(X[good]).tolist(), strict=True):
                labels[place] = label
        return labels

    @abstractmethod
    def state(self) -> State:
        """Everything that decides what comes next, packed."""

    @abstractmethod
    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over what ``state()`` gave."""

    def _small(self) -> bool:
        """Whether the state is plainly within its bound, which is quick to see."""
        names = sum(len(label) for label in self.session.targets.labels if isinstance(label, str))
        return BESIDE_ARRAYS + 2 * self.session.strategy.nbytes + ESCAPED * names <= self.max_bytes

    def _check_size(self) -> None:
        """StateError if the state is too large."""
        if not self._small() and (size := len(to_bytes(self.state()))) > self.max_bytes:
            raise StateError(f"the model would take {size:,} bytes, and max_bytes is {self.max_bytes:,}")


class AtOnce(Serving):
    """A label comes with its row, or never: then the row is predicted only.

    Most visits bring too few rows for a time step, and nothing else changes the strategy: its entries, by far the
    most, are then kept as they came.
    """

    def __init__(self, session: Session, features: Sequence[str], max_bytes: int) -> None:
        super().__init__(session, features, max_bytes)
        self._strategy = NOTHING
        self._steps = -1
        """The time steps after which the strategy was as ``_strategy`` says; -1: it had not begun."""

    def take(self, rows: KeyRows, served: Served) -> tuple[int, str]:
        """In pieces of no more than a time step has room for."""
        X = self._narrow(rows.X)
        good, reason = self._sound(X, rows)
        if self.session.batch_size is None:
            return self._take_at_once(X, rows, good, reason, served)
        start = 0
        while start < good:
            stop, labelled = self._piece(rows.y, start, good)
            if not labelled:
                served.add(self._predicted(X[start:stop]), rows.y[start:stop])
            else:
                try:
                    self._observe(X[start:stop], rows.y[start:stop], int(rows.sequence[stop - 1]), served)
                except NOT_A_KEYS_FAULT:
                    raise
                except Exception as error:
                    return self._bad_one(rows, start, stop, error)
            start = stop
        return start, reason

    def _piece(self, y: list[Any], start: int, good: int) -> tuple[int, bool]:
        """Where the rows end that are, as the first of them, labelled or not, and have room in one time step."""
        labelled = y[start] is not None
        size = self.session.batch_size
        assert size is not None
        most = min(good, start + size - self.session.rows_pending) if labelled else good
        stop = start + 1
        while stop < most and (y[stop] is not None) == labelled:
            stop += 1
        return stop, labelled

    def _observe(self, X: FloatArray, y: list[Any], last: int, served: Served) -> None:
        can_predict = self._can_predict
        seen = self.session.observe(X, y)
        served.add(seen.labels.tolist() if can_predict else [None] * len(y), y)
        served.decided(last, seen.decisions)
        if seen.decisions:
            self._check_size()

    def state(self) -> State:
        """Everything that decides what comes next, packed."""
        session = self.session
        if session.schema is not None and session.steps != self._steps:
            self._strategy, self._steps = packed(session.strategy.state()), session.steps
        return {"strategy": self._strategy, "around": packed(session.surroundings())}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over what ``state()`` gave."""
        own = state.get("strategy", NOTHING)
        self.session.restore(unpacked(state.get("around")), unpacked(own))
        self._strategy, self._steps = own, -1 if self.session.schema is None else self.session.steps

    def _bad_one(self, rows: KeyRows, start: int, stop: int, error: Exception) -> tuple[int, str]:
        """The first row of a piece whose label cannot be read, if it is that; else the last, with which it failed."""
        known = self.session.targets
        if isinstance(error, InputError):
            for place in range(start, stop):
                try:
                    known, _ = known.read([rows.y[place]], 1)
                except InputError as found:
                    return place, _said(found, int(rows.sequence[place]))
        return stop - 1, _said(error)

    def _take_at_once(self, X: FloatArray, rows: KeyRows, good: int, reason: str, served: Served) -> tuple[int, str]:
        """All rows as one time step; those without a label are predicted by the model before it."""
        labelled = [i for i in range(good) if rows.y[i] is not None]
        bare = [i for i in range(good) if rows.y[i] is None]
        predicted = dict(zip(bare, self._predicted(X[bare]), strict=True))
        own = Served()
        if labelled:
            try:
                y = [rows.y[i] for i in labelled]
                self._observe(X[labelled], y, int(rows.sequence[labelled[-1]]), own)
            except NOT_A_KEYS_FAULT:
                raise
            except Exception as error:
                return 0, _said(error)
        predicted |= dict(zip(labelled, own.predicted, strict=True))
        served.add([predicted[i] for i in range(good)], rows.y[:good])
        served.decisions, served.decided_at = own.decisions, own.decided_at
        return good, reason


class Late(Serving):
    """Labels may come later, by id: rows wait for them, for a bounded time and in bounded number.

    Row by row, since each has its own time: what has waited for too long does not depend on how rows are spread
    over visits.
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

    def take(self, rows: KeyRows, served: Served) -> tuple[int, str]:
        """A row with values is predicted and waits; a label, alone or with its row, teaches the row it finds."""
        assert rows.ids is not None
        alone = np.isnan(rows.X).all(axis=1) & np.array([label is not None for label in rows.y], np.bool_)
        good, reason = self._sound(np.where(alone[:, np.newaxis], 0.0, self._narrow(rows.X)), rows)
        for place, (id_, label) in enumerate(zip(rows.ids[:good], rows.y[:good], strict=True)):
            at = int(rows.sequence[place])
            try:
                self._one(at, id_, None if alone[place] else rows.X[place], label, served)
            except NOT_A_KEYS_FAULT:
                raise
            except Exception as error:
                return place, _said(error, at)
        return good, reason

    def _one(self, at: int, id_: Any, x: FloatArray | None, label: Any, served: Served) -> None:
        """A row, or a label alone (no ``x``)."""
        due = False
        predicted: Any = None
        if x is not None:
            shown = self._delayed.predict([id_], x[np.newaxis], time=float(at))
            predicted = None if shown is None else shown.tolist()[0]
            assert self.session.batch_size is not None
            due = self._delayed.counts.predicted % self.session.batch_size == 0  # rows that only wait take room, too
        if label is not None:
            joined = self._delayed.label([id_], [label], time=float(at))
            served.decided(at, joined.decisions)
            due |= bool(joined.decisions)
            predicted, label = (joined.predicted[0], label) if joined.keys else (predicted, None)
        served.add([predicted], [label])
        if due:
            self._check_size()

    def _small(self) -> bool:
        return False  # ids may be of any length

    def state(self) -> State:
        """Everything that decides what comes next, packed."""
        return {"late": packed(self._delayed.state())}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over what ``state()`` gave."""
        self._delayed.restore(unpacked(state.get("late")))


def _said(error: Exception, at: int | None = None) -> str:
    """What an error says; of that of a single label, with the number of its row."""
    text = f"{type(error).__name__}: {error}"
    return text if at is None else text.replace("y[0]", f"the label of the row {at}")
