"""Batches of labelled rows that a run pulls, with a position after each from which it resumes."""

from __future__ import annotations

import contextlib
import json
import time
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from driftsurf.core.contracts import State
from driftsurf.core.fields import Fields, Whole
from driftsurf.core.files import parse_json
from driftsurf.core.options import whole
from driftsurf.data.reading_options import STANDARD_INPUT
from driftsurf.data.source import AsText, BadRow, Locating, Planning, Position, Source
from driftsurf.data.tables import Table
from driftsurf.errors import BadRowError, DriftsurfError, InputError, Message, Option, RowIndex, SourceError, StateError
from driftsurf.runs.predictions import Predicted, PredictionBatch
from driftsurf.streams.base import Stream

if TYPE_CHECKING:
    from driftsurf.data.row_encoder import RowEncoder

PAUSE = 0.2
"""Seconds between two looks for the first rows of a live source."""


class ReadTable(NamedTuple):
    """A table as it was read from a source."""

    table: Table
    position: dict[str, Any]
    """Position of the reader after the table, as plain JSON values."""
    first_row: int
    """Number of its first row in the source, from 0."""
    origin: str
    """Where the source was after it, for messages: the file, or the topic."""


class SourceReader:
    """Tables of a source with their row numbers, and the rows that were left out as lines of JSON.

    Parameters
    ----------
    source
        Where the tables come from.
    raw
        Whether the text of a bad row is recorded.
    hidden
        Columns that are needed to read, but are not passed on.
    """

    def __init__(self, source: Source, *, raw: bool = True, hidden: Collection[str] = ()) -> None:
        self.source = source
        self.raw = raw
        self.hidden = hidden
        self.skipped: int = 0
        """Number of rows that were left out so far."""
        self.numbers: str = ""
        """Column that cannot be read as text: the target of a regression; "" if there is none."""
        self._bad: list[str] = []
        self._peeked: tuple[ReadTable, Iterator[ReadTable]] | None = None

    def peek(self) -> Table:
        """Return the first table without taking it; raise SourceError if the source has no rows."""
        if self._peeked is None:
            tables = self._read(None)
            first = next((one for one in tables if _has_rows(one.table)), None)
            if first is None:
                raise SourceError(f"{self.source.name} has no row that can be used")
            self._peeked = first, tables
        return self._peeked[0].table

    def tables(self, position: Position = None) -> Iterator[ReadTable]:
        """Yield the tables after a position."""
        if position is None and self._peeked is not None:
            (first, rest), self._peeked = self._peeked, None
            return chain([first], rest)
        return self._read(position)

    def _read(self, position: Position) -> Iterator[ReadTable]:
        start, rows = _split_position(position)
        for table, place in self._tables(start):
            visible = table.without(*self.hidden) if self.hidden else table
            first_row, rows = rows, rows + len(table)
            yield ReadTable(visible, {"source": place, "rows": rows}, first_row, self.source.describe(place))

    def _tables(self, start: Position) -> Iterator[tuple[Table, Position]]:
        """Yield the tables of the source; an error about a number advises no text where there must be one."""
        try:
            yield from self.source.tables(start, on_skip=self._record)
        except BadRowError as error:
            message = error.args[0]
            kept = [part for part in message.parts if not (isinstance(part, AsText) and part.column == self.numbers)]
            if len(kept) == len(message.parts):
                raise
            raise BadRowError(*kept) from None

    def committed(self, position: Position) -> None:
        """Note that a checkpoint at this position is on disk."""
        if isinstance(self.source, Planning):
            self.source.committed(_split_position(position)[0])

    def place_of(self, position: Position, row: int) -> str:
        """Return where a row, counted from 0 after a position, stands: its line and file, or its number."""
        start, before = _split_position(position)
        source = self.source
        if isinstance(source, Locating) and source.seekable:
            with contextlib.suppress(DriftsurfError, OSError, StopIteration):  # the file may have changed since
                return source.place_of(start, row)
        return f"row {before + row + 1:,} of {'standard input' if source.name == STANDARD_INPUT else source.name}"

    # -------------------------------------------------------------------- bad rows

    def _record(self, bad: BadRow) -> None:
        place = {"line": bad.line} if bad.line else {}
        self.skip({"file": bad.file, **place, "reason": bad.reason}, bad.raw)

    def skip(self, record: dict[str, Any], raw: str | None = None) -> None:
        """Record that a row was left out; raise BadRowError if that is one more than allowed."""
        self.skipped += 1
        self._bad.append(json.dumps(record | ({"raw": raw} if self.raw else {}), ensure_ascii=False) + "\n")
        allowed = self.source.reading.on_bad_row
        if allowed not in ("fail", "skip") and self.skipped > int(allowed):
            place = next((f", {name} {record[name]}" for name in ("line", "row") if name in record), "")
            raise BadRowError(
                f"{self.skipped} rows could not be used, more than ",
                Option("on_bad_row", allowed),
                f"; the last one: {record['file']}{place}: ",
                record["reason"],
            )

    def bad_rows(self) -> str:
        """Return the rows left out since the last call, as lines of JSON."""
        lines, self._bad = "".join(self._bad), []
        return lines


def _has_rows(table: Table) -> bool:
    """Return whether a table has rows, after a moment if it has none: a live source is asked again."""
    if not len(table):
        time.sleep(PAUSE)
    return len(table) > 0


def _split_position(position: Position) -> tuple[Position, int]:
    """Return the position of the source and the number of rows before it."""
    if position is None:
        return None, 0
    if not isinstance(position, Mapping) or not {"source", "rows"} <= position.keys():
        raise StateError(f"not a position of a source reader: {position!r}")
    return position["source"], int(position["rows"])


@dataclass(frozen=True, slots=True)
class LabelPlaces:
    """Where the labels of a table stand in its source."""

    reader: SourceReader
    before: Position
    """Position of the reader before the table."""
    labelled: npt.NDArray[np.bool_]
    """Which rows of the table have a label."""

    def of(self, label: int) -> str:
        """Return the place of a label, counted among the rows with a label."""
        return self.reader.place_of(self.before, int(np.flatnonzero(self.labelled)[label]))

    def name(self, error: InputError, y: Any) -> None:
        """Let an error about one of the labels ``y`` name its place in the source."""
        row, message = error.row, error.args[0]
        if row is None and error.reason in ("unknown", "too_many_classes"):
            row = next((place for place, label in enumerate(y) if label == error.value), None)
        if row is None or row >= len(y) or not isinstance(message, Message):
            return
        place = self.of(row)
        named = message.respelled(lambda part: f"the label in {place}" if isinstance(part, RowIndex) else part)
        if named == message:
            error.add_note(Message(f"The label stands in {place}."))
        error.args = (named,)


UNLABELLED = "unlabelled"
ORPHANS = "orphans"
"""Kind of the lines of a journal that count rows without a label."""


@dataclass(frozen=True)
class TableRows:
    """Encoded rows of a table, in their order."""

    X: Any
    labelled: npt.NDArray[np.bool_]
    """Which rows have a label."""
    ids: list[str] | None = None
    """Ids of the rows, if the run has a column of ids."""
    places: LabelPlaces | None = None
    """Where the labels stand in the source, if it is known."""

    @cached_property
    def to_learn(self) -> Any:
        """The rows with a label."""
        return self.X if self.labelled.all() else self.X[self.labelled]

    @property
    def to_predict(self) -> Any:
        """The rows without a label."""
        return self.X[~self.labelled]

    def predictions(
        self, learned: Predicted, y: npt.NDArray[Any], bare: Predicted | None, *, regression: bool
    ) -> PredictionBatch:
        """Return the predictions of all rows in their order.

        Parameters
        ----------
        learned, y
            Predictions and labels of the rows with a label.
        bare
            Predictions of the rows without one; None if there are none.
        regression
            Whether numbers are predicted, which have no probability.
        """
        count = len(self.labelled)
        order = np.argsort(np.concatenate([np.flatnonzero(self.labelled), np.flatnonzero(~self.labelled)])).tolist()
        parts = [learned] if bare is None else [learned, bare]
        chosen = None if regression else _ordered([part.probability for part in parts], order)
        return PredictionBatch(
            0,
            _ordered([[part.version] * len(part.labels) for part in parts], order),
            _ordered([part.labels for part in parts], order),
            chosen,
            _ordered([y.tolist(), [None] * (count - len(y))], order),
            None if self.ids is None else list(self.ids),
            {name: _ordered([part.by_class[name] for part in parts], order) for name in learned.by_class},
        )


def table_rows(rows: Any, labels: Any) -> TableRows:
    """Return a batch with which of its rows have a label: all of them, unless it says otherwise."""
    return rows if isinstance(rows, TableRows) else TableRows(rows, np.ones(len(labels), bool))


def _ordered(parts: Iterable[Sequence[Any]], order: Iterable[int]) -> list[Any]:
    values = [one for part in parts for one in part]
    return [values[place] for place in order]


def text_of(table: Table, name: str) -> list[str]:
    """Return the cells of a column as text; a missing one is empty."""
    column = table[name].as_text()
    return [column.words[code] if code >= 0 else "" for code in column.values.tolist()]


def unlabelled_line(step: int, rows: int, total: int) -> str:
    """Return a line of the journal: rows of a step that have no label, and how many there are so far."""
    return json.dumps({"type": UNLABELLED, "step": step, "rows": rows, "total": total}, separators=(",", ":")) + "\n"


def unlabelled_rows(journal: str) -> int:
    """Return how many rows without a label a journal counts.

    >>> unlabelled_rows(unlabelled_line(0, 5, 5) + unlabelled_line(3, 2, 7))
    7
    """
    return _last_total(journal, UNLABELLED)


def orphan_line(step: int, total: int) -> str:
    """Return a line at the end of the journal: how many labels have no row."""
    return json.dumps({"type": ORPHANS, "step": step, "total": total}, separators=(",", ":")) + "\n"


def orphan_labels(journal: str) -> int:
    """Return how many labels without a row a journal counts.

    >>> orphan_labels(orphan_line(9, 3))
    3
    """
    return _last_total(journal, ORPHANS)


def _last_total(journal: str, kind: str) -> int:
    lines = [line for line in journal.splitlines() if line.startswith(f'{{"type":"{kind}"')]
    return int(parse_json(lines[-1])["total"]) if lines else 0


class BatchSource(ABC):
    """Batches of labelled rows, the same ones from every position that it has given."""

    @property
    def labels(self) -> tuple[Any, ...]:
        """The classes, if they are known in advance; empty for regression, and where further classes may appear."""
        return ()

    @property
    def skipped(self) -> int:
        """Number of rows that were left out and reported."""
        return 0

    @abstractmethod
    def batches(self, position: Position = None) -> Iterator[tuple[Any, Any, Position]]:
        """Yield rows, their labels and the position after them, from ``position`` on."""

    def bad_rows(self) -> str:
        """Return the rows left out since the last call as lines of JSON; called once a batch has been taken."""
        return ""

    def committed(self, position: Position) -> None:  # noqa: B027
        """Note that a checkpoint at this position is on disk."""

    def state(self) -> State:
        """Return what the first rows decided, such as how columns are encoded, and what was counted since."""
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:  # noqa: B027
        """Restore what ``state()`` returned."""


class StreamBatches(BatchSource):
    """Batches of a built-in stream, which is generated again up to the row where a run resumes.

    Examples
    --------
    >>> from driftsurf.streams import SEA
    >>> source = StreamBatches(SEA(n_rows=1_000), batch_size=400)
    >>> [(len(y), position) for _, y, position in source.batches(400)]
    [(400, 800), (200, 1000)]
    """

    def __init__(self, stream: Stream, batch_size: int) -> None:
        self.stream = stream
        self.batch_size: int = whole("batch_size", batch_size, at_least=1)

    @property
    def labels(self) -> tuple[Any, ...]:
        """The classes."""
        return tuple(self.stream.classes)

    def batches(self, position: Position = None) -> Iterator[tuple[Any, Any, Position]]:
        """Yield rows, their labels and the number of the row after them."""
        row, end = 0 if position is None else position, self.stream.n_rows
        if type(row) is not int or not 0 <= row <= end or (row < end and row % self.batch_size):
            raise StateError(f"row {row!r} is not between two batches of {self.batch_size} rows of {self.stream!r}")
        if row == end:
            return
        for X, y in islice(self.stream.batches(self.batch_size), row // self.batch_size, None):
            row += len(y)
            yield X, y, row


class TableBatches(BatchSource):
    """Rows from tables. Those with a label are learned, those without one are only predicted.

    Parameters
    ----------
    reader
        Where the tables come from.
    encoder
        How they become rows of numbers.
    id
        Column of ids, which predictions show; None if there is none.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from driftsurf.data import open_source
    >>> from driftsurf.data.encoding import TableEncoder
    >>> from driftsurf.data.row_encoder import RowEncoder
    >>> from driftsurf.runs.batches import SourceReader
    >>> from driftsurf.data.row_encoder import find_target
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "sales.csv"
    >>> _ = path.write_text("price,city,sold\\n1.5,Rome,yes\\n2,Oslo,no\\n3,Rome,yes\\n")
    >>> reader = SourceReader(open_source(path, batch_size=2))
    >>> source = TableBatches(reader, RowEncoder(TableEncoder(), find_target("sold", "auto", reader.peek())))
    >>> [(rows.X.shape, y.tolist(), position["rows"]) for rows, y, position in source.batches()]
    [((2, 13), ['yes', 'no'], 2), ((1, 13), ['yes'], 3)]
    """

    skipped: int = 0
    """Number of bad rows that were reported. Those before a batch that a signal interrupted are read again."""

    def __init__(self, reader: SourceReader, encoder: RowEncoder, *, id: str | None = None) -> None:
        self.reader = reader
        self.encoder = encoder
        self.id = id

    def batches(self, position: Position = None) -> Iterator[tuple[TableRows, Any, Position]]:
        """Yield rows, the labels of those that have one, and the position after them."""
        target = self.encoder.target
        for table, place, *_ in self.reader.tables(position):
            labelled = ~target.missing(table)
            ids = None if self.id is None else text_of(table, self.id)
            y = target.read(table if labelled.all() else table.select(labelled))
            places = LabelPlaces(self.reader, position, labelled)
            position = place
            yield TableRows(self.encoder.rows(table), labelled, ids, places), y, place

    def bad_rows(self) -> str:
        """Return the bad rows since the last call as lines of JSON; from now on they count."""
        self.skipped = self.reader.skipped
        return self.reader.bad_rows()

    def committed(self, position: Position) -> None:
        """Note that a checkpoint at this position is on disk."""
        self.reader.committed(position)

    def state(self) -> State:
        """Return the encoder, the target and the number of bad rows."""
        return self.encoder.state() | {"skipped": self.skipped}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore what ``state()`` returned."""
        known, rest = FIELDS.take(state)
        self.encoder.restore(rest)
        self.skipped = self.reader.skipped = known["skipped"]


FIELDS = Fields({"skipped": Whole()})
"""Saved entries beside those of the encoder."""


class PushedBatches(BatchSource):
    """Source of a run whose rows are pushed by :meth:`~driftsurf.runs.live.LiveRun.take`: there is nothing to read.

    Parameters
    ----------
    labels
        The classes; empty for regression, and where further classes may appear.
    """

    labels: tuple[Any, ...] = ()

    def __init__(self, labels: tuple[Any, ...] = ()) -> None:
        self.labels = labels

    def batches(self, position: Position = None) -> Iterator[tuple[Any, Any, Position]]:
        """Yield nothing."""
        return iter(())
