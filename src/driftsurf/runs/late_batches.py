"""Rows from one source and their labels from another, or from the same one some batches later."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from driftsurf.core.contracts import State
from driftsurf.core.fields import Fields, Whole
from driftsurf.data.connectors.contract import Plan
from driftsurf.data.connectors.plans import PlanLog
from driftsurf.data.row_encoder import RowEncoder
from driftsurf.data.source import Position
from driftsurf.data.source_reader import SourceReader
from driftsurf.data.tables import Table
from driftsurf.runs.label_places import LabelPlaces
from driftsurf.runs.late_session import Arrived, ArrivedLabels, RowKeys
from driftsurf.runs.table_rows import text_of

__all__ = ["LabelPace", "LateBatches", "LiveBatches"]


@dataclass(frozen=True, slots=True)
class LabelPace:
    """Rule that says before which batch of rows a batch of labels arrives.

    Without ``time``, label batch i arrives once row batch i + ``delay`` has been predicted. With ``time``, both sources
    are cut into spans of ``seconds`` of that column, and the labels of a span arrive before the rows of a later one.
    """

    delay: int = 0
    time: str | None = None
    seconds: float = 1.0

    def is_due(self, label_batch: int, labels: Table, row_batch: int, rows: Table) -> bool:
        """Return whether the labels arrive before the rows are predicted."""
        if self.time is None:
            return label_batch < row_batch - self.delay
        return not self._span(labels) >= self._span(rows)  # a span without a time is NaN: it is not held back

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


class _WithTable(Protocol):
    @property
    def table(self) -> Table | None: ...


Result = TypeVar("Result", bound=_WithTable)


class _LabelBatch(NamedTuple):
    """Labels that have been read and have not arrived yet."""

    table: Table | None
    """None after the last one."""
    before: Position
    """Position of the reader before the table."""
    place: dict[str, Any]
    bad_rows: str
    skipped: int


class _Skipped(NamedTuple):
    """Number of bad rows in each of the two sources."""

    rows: int
    labels: int


class LateBatches:
    """Batches of rows and, with each of them, the labels that have arrived before.

    Parameters
    ----------
    rows, labels
        The two sources. A missing label has not come; its row keeps waiting.
    encoder
        Encodes rows, and knows which column of ``labels`` is the target.
    key
        Column by which labels find their rows; None for the number of the row, where both are the same source.
    pace
        When labels arrive.
    """

    labels: tuple[Any, ...] = ()

    def __init__(
        self, rows: SourceReader, labels: SourceReader, encoder: RowEncoder, *, key: str | None, pace: LabelPace
    ) -> None:
        self.rows_reader = rows
        self.labels_reader = labels
        self.encoder = encoder
        self.key = key
        self.pace = pace
        # Rows are read ahead of the batch that the run has taken. What was read is counted in ``_read``, what was
        # taken in ``_taken``: a checkpoint must not count bad rows that will be read again.
        self._taken = self._read = _Skipped(0, 0)
        self._bad_rows = ""

    def batches(self, position: Position = None) -> Iterator[tuple[Arrived | None, list[Any], Position]]:
        """Yield rows (None after the last), the labels that came before them, and the position after both."""
        at: dict[str, Any] = {"rows": None, "labels": None, "row_batch": 0, "label_batch": 0}
        if isinstance(position, Mapping):
            at = dict(position)
        labels = self._label_batches(at["labels"])
        waiting = next(labels)
        for table, place, *_ in self.rows_reader.tables(at["rows"]):
            come, accepted = [], []
            while waiting.table is not None and self.pace.is_due(
                at["label_batch"], waiting.table, at["row_batch"], table
            ):
                come.append(self._deliver(waiting, at))
                accepted.append(waiting)
                waiting = next(labels)
            at |= {"rows": place, "row_batch": at["row_batch"] + 1}
            arrived = Arrived(self._keys(table, place), self.encoder.rows(table), self.key is not None)
            self._settle(*accepted)
            yield arrived, come, dict(at)
        while waiting.table is not None:
            come = [self._deliver(waiting, at)]
            self._settle(waiting)
            yield None, come, dict(at)
            waiting = next(labels)
        self._settle(waiting)

    def _label_batches(self, position: Any) -> Iterator[_LabelBatch]:
        """Yield batches of labels with the bad rows before each; at last the bad rows after all labels."""
        reader = self.labels_reader
        for table, place, *_ in reader.tables(position):
            if not len(table):  # a live source has nothing now
                yield _LabelBatch(table, position, place, "", 0)
                continue
            before, position = position, place
            yield _LabelBatch(table, before, place, reader.bad_rows(), reader.skipped)
        yield _LabelBatch(None, position, {}, reader.bad_rows(), reader.skipped)

    def _deliver(self, waiting: _LabelBatch, at: dict[str, Any]) -> ArrivedLabels:
        assert waiting.table is not None
        at |= {"labels": waiting.place, "label_batch": at["label_batch"] + 1}
        keys = self._keys(waiting.table, waiting.place)
        there = ~self.encoder.target.missing(waiting.table)
        read = self.encoder.target.read(waiting.table.select(there))
        places = LabelPlaces(self.labels_reader, waiting.before, there)
        return ArrivedLabels([keys[row] for row in np.flatnonzero(there)], read, places)

    def _settle(self, *accepted: _LabelBatch, rows: bool = True) -> None:
        """Note the bad rows before rows and labels; if both sources are the same, note them once."""
        self._bad_rows += self.rows_reader.bad_rows() if rows else ""
        labels = self._read.labels
        for waiting in accepted:
            labels = waiting.skipped
            self._bad_rows += waiting.bad_rows if self.key is not None else ""
        self._read = _Skipped(self.rows_reader.skipped if rows else self._read.rows, labels)

    @property
    def skipped(self) -> int:
        """Number of bad rows before the last batch that was taken."""
        return self._taken.rows + (self.key is not None) * self._taken.labels

    def _keys(self, table: Table, place: Mapping[str, Any]) -> RowKeys:
        if self.key is None:
            return list(range(place["rows"] - len(table), place["rows"]))
        return list(text_of(table, self.key))

    def bad_rows(self) -> str:
        """Return JSON lines for the bad rows since the last call, which count as taken from now on."""
        self._taken = self._read
        lines, self._bad_rows = self._bad_rows, ""
        return lines

    def committed(self, position: Position) -> None:
        """Note that a checkpoint at this position is on disk."""
        if isinstance(position, Mapping):
            self.rows_reader.committed(position["rows"])
            self.labels_reader.committed(position["labels"])

    def state(self) -> State:
        """Return the state of the encoder, the target, and the numbers of bad rows."""
        return self.encoder.state() | {"skipped_rows": self._taken.rows, "skipped_labels": self._taken.labels}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore what ``state()`` returned."""
        known, rest = FIELDS.take(state)
        self.encoder.restore(rest)
        self._taken = self._read = _Skipped(known["skipped_rows"], known["skipped_labels"])
        self.rows_reader.skipped, self.labels_reader.skipped = self._taken


class LiveBatches(LateBatches):
    """Batches of rows and of labels as they come, from two sources that log their plans.

    A time step has a batch of rows, a batch of labels, or both, whichever has come. While both wait, there is one batch
    of labels for each batch of rows. What a step has is logged before anything of it is learned, so that a run that was
    killed joins the same rows and labels again.

    Parameters
    ----------
    rows, labels, encoder, key
        As of :class:`LateBatches`.
    log
        The log of steps; None without checkpoints.
    """

    def __init__(
        self, rows: SourceReader, labels: SourceReader, encoder: RowEncoder, *, key: str | None, log: PlanLog | None
    ) -> None:
        super().__init__(rows, labels, encoder, key=key, pace=LabelPace())
        self.log = log

    def batches(self, position: Position = None) -> Iterator[tuple[Arrived | None, list[Any], Position]]:
        """Yield rows (None if none have come), the labels that came before them, and the position after both."""
        at: dict[str, Any] = {"rows": None, "labels": None, "row_batch": 0, "label_batch": 0}
        if isinstance(position, Mapping):
            at = dict(position)
        labels, rows = self._label_batches(at["labels"]), self.rows_reader.tables(at["rows"])
        ended, last = False, _LabelBatch(None, None, {}, "", self._read.labels)
        while True:
            start = [at["row_batch"], at["label_batch"]]
            logged = None if self.log is None else self.log.get(start)
            has_rows, has_labels = (None, None) if logged is None else logged.ranges
            read = None if ended or has_rows is False else _next(rows, wait=has_rows is True)
            ended = ended or (read is None and has_rows is None)
            there = read is not None and len(read.table) > 0
            ahead = there and at["label_batch"] > at["row_batch"]
            come, accepted = list[ArrivedLabels](), list[_LabelBatch]()
            if has_labels or (has_labels is None and not ahead):
                waiting = _next(labels, wait=has_labels is True)
                if waiting is not None and waiting.table is None:
                    last = waiting
                elif waiting is not None and waiting.table is not None and len(waiting.table):
                    come.append(self._deliver(waiting, at))
                    accepted.append(waiting)
            if not there and not come:
                if not ended:
                    continue
                self._settle(last)
                return
            arrived = None
            if read is not None and there:
                at |= {"rows": read.position, "row_batch": at["row_batch"] + 1}
                arrived = Arrived(self._keys(read.table, read.position), self.encoder.rows(read.table), named=True)
            if self.log is not None and logged is None:
                self.log.add(start, Plan([there, bool(come)], [at["row_batch"], at["label_batch"]]))
            self._settle(*accepted, rows=there)
            yield arrived, come, dict(at)

    def committed(self, position: Position) -> None:
        """Note that a checkpoint at this position is on disk."""
        super().committed(position)
        if self.log is not None and isinstance(position, Mapping):
            self.log.committed([position["row_batch"], position["label_batch"]])


def _next(tables: Iterator[Result], *, wait: bool) -> Result | None:
    """Return the next table; None after the last one. With ``wait``, pass over tables without rows."""
    for one in tables:
        table = one.table
        if table is None or len(table) or not wait:
            return one
    return None


FIELDS = Fields({"skipped_rows": Whole(), "skipped_labels": Whole()})
"""Saved entries beside those of the encoder."""
