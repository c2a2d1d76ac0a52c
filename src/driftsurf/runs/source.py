"""Batches of labelled rows that a run pulls, with a position after each from which it resumes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol

from driftsurf.core.contracts import State
from driftsurf.core.fields import Fields, Whole
from driftsurf.core.options import whole
from driftsurf.data.source import Position
from driftsurf.errors import StateError
from driftsurf.runs.label_places import LabelPlaces
from driftsurf.runs.table_rows import TableRows, text_of
from driftsurf.streams.base import Stream

if TYPE_CHECKING:
    from driftsurf.data.row_encoder import RowEncoder
    from driftsurf.data.source_reader import SourceReader

__all__ = ["BatchSource", "PushedBatches", "StreamBatches", "TableBatches"]


class BatchSource(Protocol):
    """Batches of labelled rows, the same ones from every position that it has given."""

    @property
    def labels(self) -> tuple[Any, ...]:
        """The classes, if they are known in advance."""
        ...

    @property
    def skipped(self) -> int:
        """Number of rows that were left out and reported."""
        ...

    def batches(self, position: Position = None) -> Iterator[tuple[Any, Any, Position]]:
        """Yield rows, their labels and the position after them, from ``position`` on."""
        ...

    def bad_rows(self) -> str:
        """Return the rows left out since the last call as lines of JSON; called once a batch has been taken."""
        ...

    def committed(self, position: Position) -> None:
        """Note that a checkpoint at this position is on disk."""
        ...

    def state(self) -> State:
        """Return what the first rows decided, such as how columns are encoded, and what was counted since."""
        ...

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore what ``state()`` returned."""
        ...


class StreamBatches:
    """Batches of a built-in stream, which is generated again up to the row where a run resumes.

    Examples
    --------
    >>> from driftsurf.streams import SEA
    >>> source = StreamBatches(SEA(n_rows=1_000), batch_size=400)
    >>> [(len(y), position) for _, y, position in source.batches(400)]
    [(400, 800), (200, 1000)]
    """

    skipped: int = 0

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

    def bad_rows(self) -> str:
        """Return "": a built-in stream has no bad rows."""
        return ""

    def committed(self, position: Position) -> None:
        """Do nothing: there is nobody to tell."""

    def state(self) -> State:
        """Return an empty state: a built-in stream is decided by its arguments."""
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Do nothing: there is no state."""


class TableBatches:
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
    >>> from driftsurf.data.source_reader import SourceReader
    >>> from driftsurf.data.target import find_target
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "sales.csv"
    >>> _ = path.write_text("price,city,sold\\n1.5,Rome,yes\\n2,Oslo,no\\n3,Rome,yes\\n")
    >>> reader = SourceReader(open_source(path, batch_size=2))
    >>> source = TableBatches(reader, RowEncoder(TableEncoder(), find_target("sold", "auto", reader.peek())))
    >>> [(rows.X.shape, y.tolist(), position["rows"]) for rows, y, position in source.batches()]
    [((2, 13), ['yes', 'no'], 2), ((1, 13), ['yes'], 3)]
    """

    labels: tuple[Any, ...] = ()

    def __init__(self, reader: SourceReader, encoder: RowEncoder, *, id: str | None = None) -> None:
        self.reader = reader
        self.encoder = encoder
        self.id = id
        self.skipped: int = 0
        """Number of bad rows that were reported. Those before a batch that a signal interrupted are read again."""

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


class PushedBatches:
    """Source of a run whose rows are pushed by :meth:`~driftsurf.runs.live.LiveRun.take`: there is nothing to read.

    Parameters
    ----------
    labels
        The classes; empty for regression, and where further classes may appear.
    """

    skipped: int = 0

    def __init__(self, labels: tuple[Any, ...] = ()) -> None:
        self.labels = labels

    def batches(self, position: Position = None) -> Iterator[tuple[Any, Any, Position]]:
        """Yield nothing."""
        return iter(())

    def bad_rows(self) -> str:
        """Return "": rows that are pushed were read by the caller, who knows the bad ones."""
        return ""

    def committed(self, position: Position) -> None:
        """Do nothing: there is nobody to tell."""

    def state(self) -> State:
        """Return an empty state."""
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Do nothing: there is no state."""
