"""Batches cut from chunks of any size: by rows, or by a column of times."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from driftsurf._options import number, whole
from driftsurf.errors import Option, OptionError
from driftsurf.sources._base import BadRow, Chunk, Mark
from driftsurf.tables import Column, Table

MOST_ROWS = 100_000
"""A batch that is cut by time has at most this many rows."""


@dataclass(frozen=True, slots=True)
class Cut:
    """When a batch is full.

    With ``seconds`` time is divided into spans of that length from 1970 on, and a batch ends before the first
    row of a later span than its own, which is that of its first row with a time. A row that comes late, or
    without a time, stays in the batch in which it arrives.
    """

    rows: int
    seconds: float | None = None
    time: str | None = None

    @classmethod
    def checked(cls, batch_size: int | None, batch_seconds: float | None, time: str | None) -> Cut:
        """From the options of a source."""
        if batch_size is None and batch_seconds is None:
            raise OptionError(
                Option("batch_size"), " and ", Option("batch_seconds"), " are both None; give one of them"
            )
        if (batch_seconds is None) != (time is None):
            raise OptionError(
                Option("batch_seconds"),
                f" is {batch_seconds!r} and ",
                Option("time"),
                f" is {time!r}; give both or neither",
            )
        rows = MOST_ROWS if batch_size is None else whole("batch_size", batch_size, at_least=1, otherwise=", or None")
        if batch_seconds is not None:
            number("batch_seconds", batch_seconds, above=0.0, otherwise=", or None")
        return cls(rows, batch_seconds, time)

    def spans(self, table: Table) -> npt.NDArray[np.float64] | None:
        """The number of the span of each row, NaN for one without a time; None if rows alone count."""
        if self.seconds is None or self.time is None:
            return None
        return np.floor(_seconds(self.time, table[self.time]) / self.seconds)


def _seconds(name: str, column: Column) -> npt.NDArray[np.float64]:
    if column.kind == "number":
        return column.values
    if column.kind != "date":
        raise OptionError(
            Option("time"), f" is {name!r}, a column of kind {column.kind}; give one of dates, or of seconds"
        )
    since = (column.values - np.datetime64(0, "us")) / np.timedelta64(1, "s")
    return np.where(column.missing(), np.nan, since)


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """A place between two rows of a source: which of its files, and where in it."""

    file: int
    mark: Mark


@dataclass(slots=True)
class _Piece:
    file: int
    chunk: Chunk
    spans: npt.NDArray[np.float64] | None
    at: int = 0

    def __len__(self) -> int:
        return len(self.chunk.ends) - self.at


@dataclass(slots=True)
class Cutter:
    """Holds the rows that are not a whole batch yet, and the bad rows among them."""

    cut: Cut
    _pieces: deque[_Piece] = field(default_factory=deque)
    _bad: deque[tuple[int, BadRow]] = field(default_factory=deque)
    _end: Place = Place(0, Mark(0, 1))

    def add(self, file: int, chunk: Chunk) -> None:
        """Rows that follow those that are here."""
        self._bad.extend((file, bad) for bad in chunk.bad)
        self._end = Place(file, chunk.mark(*chunk.end[:2]))
        if len(chunk.ends):
            self._pieces.append(_Piece(file, chunk, self.cut.spans(chunk.table)))

    def batches(self) -> Iterator[tuple[Table, Place, list[BadRow]]]:
        """Whole batches, each with the place behind it and the bad rows before that place."""
        while length := self._length():
            table, place = self._take(length)
            yield table, place, self._bad_before(place)

    def rest(self) -> tuple[Table | None, Place, list[BadRow]]:
        """What is left at the end, up to the very end: perhaps no row, perhaps bad ones."""
        size = sum(map(len, self._pieces))
        return self._take(size)[0] if size else None, self._end, self._bad_before(self._end)

    def _length(self) -> int:
        """Rows of the first batch if it is whole, else 0."""
        count = 0
        span = np.nan
        for piece in self._pieces:
            inside = min(len(piece), self.cut.rows - count)
            if piece.spans is not None:
                spans = piece.spans[piece.at : piece.at + inside]
                if np.isnan(span) and not np.isnan(spans).all():
                    span = spans[np.argmax(~np.isnan(spans))]
                later = np.flatnonzero(spans > span)
                if len(later):
                    return count + int(later[0])
            count += inside
            if count == self.cut.rows:
                return count
        return 0

    def _take(self, size: int) -> tuple[Table, Place]:
        parts = []
        place = self._end
        while size:
            piece = self._pieces[0]
            stop = piece.at + min(size, len(piece))
            parts.append(piece.chunk.table.rows(piece.at, stop))
            size -= stop - piece.at
            piece.at = stop
            end, line = int(piece.chunk.ends[stop - 1]), int(piece.chunk.lines[stop - 1])
            place = Place(piece.file, piece.chunk.mark(end, line) if not size else Mark(end, line))
            if not len(piece):
                self._pieces.popleft()
        return Table.concatenate(parts), place

    def _bad_before(self, place: Place) -> list[BadRow]:
        found = []
        while self._bad and (self._bad[0][0], self._bad[0][1].end) <= (place.file, place.mark.offset):
            found.append(self._bad.popleft()[1])
        return found
