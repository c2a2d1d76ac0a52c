"""A run whose labels come late: rows in one source, labels in another, or the same one some batches behind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from driftsurf.base import Capabilities, Parts, State
from driftsurf.decisions import Transition
from driftsurf.errors import StateError
from driftsurf.runtime.delayed import DelayedLabels, Joined
from driftsurf.runtime.feed import Feed
from driftsurf.runtime.predictions import Given, probabilities
from driftsurf.runtime.session import Observation, Session
from driftsurf.runtime.source import Position
from driftsurf.runtime.table_source import Encoded, kept_rows
from driftsurf.state import pick, resolved
from driftsurf.tables import Table
from driftsurf.validation import Schema

__all__ = ["Arrived", "DelayedObservation", "DelayedSession", "LateSource", "Pace"]

Keys = list[str | int]


class Arrived(NamedTuple):
    """Rows that came, under their keys."""

    keys: Keys
    X: Any
    named: bool
    """Whether the keys say more than the numbers of the rows."""


@dataclass(frozen=True, slots=True)
class Pace:
    """When a batch of labels arrives: before which batch of rows.

    Without ``time`` label batch i comes once row batch i + ``delay`` has been predicted. With it both sources are cut
    into spans of ``seconds`` of that column, and the labels of a span come before the rows of a later one.
    """

    delay: int = 0
    time: str | None = None
    seconds: float = 1.0

    def due(self, label_batch: int, labels: Table, row_batch: int, rows: Table) -> bool:
        """Whether the labels are there before the rows are predicted."""
        if self.time is None:
            return label_batch < row_batch - self.delay
        return not self._span(labels) >= self._span(rows)

    def _span(self, table: Table) -> float:
        assert self.time is not None
        column = table[self.time]
        there = column.values[~column.missing()]
        if not len(there):
            return float("nan")
        first = there[0]
        if column.kind == "date":
            first = (first - np.datetime64(0, "us")) / np.timedelta64(1, "s")
        return float(first // self.seconds)


class _Waiting(NamedTuple):
    """Labels that have been read and not arrived yet."""

    table: Table | None
    place: dict[str, Any]
    told: str
    skipped: int


class _Skipped(NamedTuple):
    """How many bad rows there were in each of the two sources."""

    rows: int
    labels: int


class LateSource:
    """Rows and, between their batches, the labels that have arrived.

    Parameters
    ----------
    rows, labels
        The two sources. Labels that are missing have not come; their rows wait on.
    encoded
        How rows are encoded, and which column of ``labels`` is the target.
    key
        The column by which the two are joined; None for the number of the row, where both are the same source.
    pace
        When labels arrive.
    """

    labels: tuple[Any, ...] = ()

    def __init__(self, rows: Feed, labels: Feed, encoded: Encoded, *, key: str | None, pace: Pace) -> None:
        self.rows_feed = rows
        self.labels_feed = labels
        self.encoded = encoded
        self.key = key
        self.pace = pace
        self._skipped = self._reached = _Skipped(0, 0)
        self._told = ""

    def batches(self, position: Position = None) -> Iterator[tuple[Arrived | None, list[Any], Position]]:
        """Rows that came (None behind the last), the labels that came before them, and the place after both."""
        at: dict[str, Any]
        at = {"rows": None, "labels": None, "row_batch": 0, "label_batch": 0} if position is None else dict(position)
        labels = self._label_tables(at["labels"])
        waiting = next(labels)
        for table, place in self.rows_feed.tables(at["rows"]):
            come, accepted = [], []
            while waiting.table is not None and self.pace.due(at["label_batch"], waiting.table, at["row_batch"], table):
                come.append(self._deliver(waiting, at))
                accepted.append(waiting)
                waiting = next(labels)
            at |= {"rows": place, "row_batch": at["row_batch"] + 1}
            arrived = Arrived(self._keys(table, place), self.encoded.rows(table), self.key is not None)
            self._settle(*accepted)
            yield arrived, come, dict(at)
        while waiting.table is not None:
            come = [self._deliver(waiting, at)]
            self._settle(waiting)
            yield None, come, dict(at)
            waiting = next(labels)
        self._settle(waiting)

    def _label_tables(self, position: Any) -> Iterator[_Waiting]:
        """Tables of labels, each with the bad rows before it; at last those behind all."""
        feed = self.labels_feed
        for table, place in feed.tables(position):
            yield _Waiting(table, place, feed.bad_rows(), feed.skipped)
        yield _Waiting(None, {}, feed.bad_rows(), feed.skipped)

    def _deliver(self, waiting: _Waiting, at: dict[str, Any]) -> tuple[Keys, npt.NDArray[Any]]:
        assert waiting.table is not None
        at |= {"labels": waiting.place, "label_batch": at["label_batch"] + 1}
        keys = self._keys(waiting.table, waiting.place)
        there = ~self.encoded.target.missing(waiting.table)
        read = self.encoded.target.read(kept_rows(waiting.table, there))
        return [keys[row] for row in np.flatnonzero(there)], read

    def _settle(self, *accepted: _Waiting) -> None:
        """Note the bad rows before rows and labels; where both sources are the same, those of labels are no others."""
        self._told += self.rows_feed.bad_rows()
        labels = self._reached.labels
        for waiting in accepted:
            labels = waiting.skipped
            self._told += waiting.told if self.key is not None else ""
        self._reached = _Skipped(self.rows_feed.skipped, labels)

    @property
    def skipped(self) -> int:
        """Bad rows that were told: those before a batch that nobody took, as a signal came, are read again."""
        return self._skipped.rows + (self.key is not None) * self._skipped.labels

    def _keys(self, table: Table, place: Mapping[str, Any]) -> Keys:
        if self.key is None:
            return list(range(place["rows"] - len(table), place["rows"]))
        column = table[self.key].as_text()
        return [column.words[code] if code >= 0 else "" for code in column.values.tolist()]

    def bad_rows(self) -> str:
        """Lines of JSON for the bad rows since the last call; from now on they count."""
        self._skipped = self._reached
        told, self._told = self._told, ""
        return told

    def state(self) -> State:
        """The encoder, the target, and the numbers of bad rows."""
        return self.encoded.state() | {"skipped_rows": self._skipped.rows, "skipped_labels": self._skipped.labels}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over what ``state()`` gave."""
        try:
            self.encoded.restore(state)
            self._skipped = self._reached = _Skipped(int(state["skipped_rows"]), int(state["skipped_labels"]))
            self.rows_feed.skipped, self.labels_feed.skipped = self._skipped
        except KeyError as error:
            raise StateError(f"the checkpoint is not one of a run with late labels: it has no {error}") from error


@dataclass(frozen=True, slots=True)
class DelayedObservation(Observation):
    """The rows whose labels came, with the predictions that were given when they came; and those given now."""

    truth: npt.NDArray[Any] = field(default_factory=lambda: np.zeros(0))
    """The labels that came, of rows that had a prediction."""
    given: Given | None = None
    """None if labels came alone. Its rows are numbered from 0: the run knows how many came before."""

    @property
    def rows(self) -> int:
        """Rows that came."""
        return 0 if self.given is None else len(self.given.labels)


class DelayedSession:
    """A session behind :class:`~driftsurf.runtime.delayed.DelayedLabels`, as a model of a run.

    Parameters
    ----------
    session
        What learns.
    max_pending, timeout
        As there.
    """

    def __init__(self, session: Session, *, max_pending: int = 100_000, timeout: float | None = None) -> None:
        self.session = session
        self.delayed = DelayedLabels(session, max_pending=max_pending, timeout=timeout)

    @property
    def _can(self) -> Capabilities:
        return self.session.strategy.learner.capabilities

    @property
    def schema(self) -> Schema | None:
        """Of the rows that were learnt."""
        return self.session.schema

    @property
    def steps(self) -> int:
        """Time steps so far."""
        return self.session.steps

    @property
    def rows_pending(self) -> int:
        """Rows that wait for their label, or for a time step to become full."""
        return len(self.delayed) + self.session.rows_pending

    @property
    def labelled(self) -> int:
        """Rows whose label came."""
        return self.delayed.counts.labelled

    def observe(self, X: Arrived | None, y: Sequence[Any], *, classes: Any = None) -> DelayedObservation:
        """Learn the labels that came, then predict the rows that came."""
        joined = [self.delayed.label(keys, labels) for keys, labels in y if len(keys)]
        decisions = tuple(decision for one in joined for decision in one.decisions)
        true, labels = _scored(joined)
        targets = self.session.targets
        codes = predicted = np.zeros(0)
        if len(true):
            codes, predicted = targets.read(true, len(true))[1], targets.read(labels, len(labels))[1]
        if not self._can.values:
            codes, predicted = codes.astype(np.int64), predicted.astype(np.int64)
        given = None if X is None else self._given(X)
        return DelayedObservation(labels, predicted, codes, np.zeros(0), decisions, False, true, given)

    def _given(self, arrived: Arrived) -> Given:
        version = self.session.steps
        labels = self.delayed.predict(arrived.keys, arrived.X)
        keys = arrived.keys if arrived.named else None
        if labels is None:
            nothing = [None] * len(arrived.keys)
            return Given(0, version, list(nothing), list(nothing), keys)
        scores = self.session.scores(arrived.X)
        chosen = probabilities(scores, self.session.targets.chosen(scores), self._can)
        return Given(0, version, labels.tolist(), chosen, keys)

    def renew(self, why: str) -> Transition | None:
        """Begin anew with fresh models."""
        return self.session.renew(why)

    def state(self) -> State:
        """Everything that decides what comes next."""
        return resolved(self.parts())

    def parts(self) -> Parts:
        """The same, with what grows with the rows as ``Growing``."""
        return self.delayed.parts()

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over what ``state()`` gave."""
        self.delayed.restore(state)

    def return_to(self, state: Mapping[str, Any]) -> None:
        """Take over what had been learnt alone: the rows that wait now, and what was counted, stay."""
        self.session.restore(pick("model", state))


def _scored(joined: Sequence[Joined]) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """True labels and stored predictions of the rows that had one."""
    pairs = [
        (true, predicted)
        for one in joined
        for true, predicted, version in zip(one.true.tolist(), one.predicted, one.versions, strict=True)
        if version
    ]
    return np.array([true for true, _ in pairs]), np.array([predicted for _, predicted in pairs])
