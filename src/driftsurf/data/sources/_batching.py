"""Cut chunks of rows into batches, by a number of rows or by a column of times."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from driftsurf.core.options import number, whole
from driftsurf.data.formats._reader import Chunk, Mark
from driftsurf.data.source import BadRow
from driftsurf.data.tables import Column, Table
from driftsurf.errors import BadRowError, Option, OptionError

MOST_ROWS = 100_000
"""Largest number of rows in a batch that is cut by time."""
WAITING_BYTES = 2**26
"""Largest size of the bad rows that are reported with one batch."""


@dataclass(frozen=True, slots=True)
class BatchRule:
    """When a batch is complete.

    With ``seconds``, time is divided into spans of that length from 1970 on. A batch ends before the first row of a
    later span than its own, which is the span of its first row with a time. A row that arrives late, or without a
    time, stays in the batch in which it arrives.
    """

    rows: int
    seconds: float | None = None
    time: str | None = None

    @classmethod
    def checked(cls, batch_size: int | None, batch_seconds: float | None, time: str | None) -> BatchRule:
        """Return the rule that the options of a source describe; raise OptionError if they do not go together."""
        if batch_size is None and batch_seconds is None:
            raise OptionError(
                Option("batch_size"), " and ", Option("batch_seconds"), " are both None; pass one of them"
            )
        if (batch_seconds is None) != (time is None):
            raise OptionError(
                Option("batch_seconds"),
                " and ",
                Option("time"),
                f" need each other; got {batch_seconds!r} and {time!r}",
            )
        rows = MOST_ROWS if batch_size is None else whole("batch_size", batch_size, at_least=1, otherwise=", or None")
        if batch_seconds is not None:
            number("batch_seconds", batch_seconds, above=0.0, otherwise=", or None")
        return cls(rows, batch_seconds, time)

    def spans(self, table: Table) -> npt.NDArray[np.float64] | None:
        """Return the number of each row's span, NaN for a row without a time; None if only rows are counted."""
        if self.seconds is None or self.time is None:
            return None
        return np.floor(_seconds(self.time, table[self.time]) / self.seconds)


def _seconds(name: str, column: Column) -> npt.NDArray[np.float64]:
    if column.kind == "number":
        return column.values
    if column.kind != "date":
        raise OptionError(
            Option("time"), f" must name a column of dates or of seconds; {name!r} is a column of kind {column.kind}"
        )
    since_1970 = (column.values - np.datetime64(0, "us")) / np.timedelta64(1, "s")
    return np.where(column.missing(), np.nan, since_1970)


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """A place between two rows of a source: the number of the file, and the place in it."""

    file: int
    mark: Mark


@dataclass(slots=True)
class _Piece:
    """A chunk of which the first ``taken`` rows have been put into batches."""

    file: int
    chunk: Chunk
    spans: npt.NDArray[np.float64] | None
    taken: int = 0

    def __len__(self) -> int:
        return len(self.chunk.ends) - self.taken


@dataclass(slots=True)
class BatchCutter:
    """Cuts chunks of any size into batches, and keeps the rows that do not fill a batch yet.

    Bad rows travel along, so that each is reported with the batch that follows it.
    """

    rule: BatchRule
    most: int | None = None
    """Number of rows after which no batch follows; None for no limit."""
    digests: bool = True
    """Whether places have a digest of what stands before them."""
    _pieces: deque[_Piece] = field(default_factory=deque)
    _bad: deque[tuple[int, BadRow]] = field(default_factory=deque)
    _waiting_bytes: int = 0
    """Size of the bad rows."""
    _end: Place = Place(0, Mark(0, 1))

    def add(self, file: int, chunk: Chunk) -> None:
        """Append the rows of a chunk of file number ``file``."""
        self._bad.extend((file, bad) for bad in chunk.bad)
        self._waiting_bytes += sum(map(_size, chunk.bad))
        self._end = Place(file, self._mark(chunk, *chunk.end[:2]))
        if len(chunk.ends):
            self._pieces.append(_Piece(file, chunk, self.rule.spans(chunk.table)))

    def batches(self) -> Iterator[tuple[Table, Place, list[BadRow]]]:
        """Yield the batches that are complete, each with the place after it and the bad rows before that place.

        Raise BadRowError if more bad rows wait for one batch than can be kept: that is no table. This depends on the
        rows alone, not on how they arrive in chunks.
        """
        while length := self._complete():
            table, place = self._take(length)
            yield table, place, self._bad_before(place)
        if self._waiting_bytes > WAITING_BYTES:
            raise _too_many(len(self._bad), self._bad[-1][1])

    def rest(self) -> tuple[Table | None, Place, list[BadRow]]:
        """Return the last, incomplete batch (None if there are no rows left), the end, and the last bad rows."""
        size = sum(map(len, self._pieces))
        return self._take(size)[0] if size else None, self._end, self._bad_before(self._end)

    def _complete(self) -> int:
        """Return the number of rows of the first batch, or 0 if it is not complete yet."""
        limit = self.rule.rows if self.most is None else min(self.rule.rows, self.most)
        count = 0
        span = np.nan
        for piece in self._pieces:
            candidates = min(len(piece), limit - count)
            if piece.spans is not None:
                spans = piece.spans[piece.taken : piece.taken + candidates]
                if np.isnan(span) and not np.isnan(spans).all():
                    span = spans[np.argmax(~np.isnan(spans))]
                later = np.flatnonzero(spans > span)
                if len(later):
                    return count + int(later[0])
            count += candidates
            if count == limit:
                return count
        return 0

    def _take(self, size: int) -> tuple[Table, Place]:
        parts = []
        place = self._end
        self.most = None if self.most is None else self.most - size
        while size:
            piece = self._pieces[0]
            stop = piece.taken + min(size, len(piece))
            parts.append(piece.chunk.table.rows(piece.taken, stop))
            size -= stop - piece.taken
            piece.taken = stop
            end, line = int(piece.chunk.ends[stop - 1]), int(piece.chunk.lines[stop - 1])
            # The digest of a place costs time: only the last one is needed.
            place = Place(piece.file, Mark(end, line) if size else self._mark(piece.chunk, end, line))
            if not len(piece):
                self._pieces.popleft()
        return Table.concatenate(parts), place

    def _mark(self, chunk: Chunk, offset: int, line: int) -> Mark:
        return chunk.mark(offset, line) if self.digests else Mark(offset, line)

    def _bad_before(self, place: Place) -> list[BadRow]:
        found = []
        while self._bad and (self._bad[0][0], self._bad[0][1].end) <= (place.file, place.mark.offset):
            found.append(self._bad.popleft()[1])
        size = sum(map(_size, found))
        self._waiting_bytes -= size
        if size > WAITING_BYTES:
            raise _too_many(len(found), found[-1])
        return found


def _too_many(count: int, last: BadRow) -> BadRowError:
    return BadRowError(
        f"{count:,} rows that cannot be read stand before one batch of rows that can; check the format, or take fewer "
        "rows at a time with ",
        Option("batch_size"),
        ". The last one: ",
        *last.message_parts,
    )


def _size(bad: BadRow) -> int:
    """Return roughly how many bytes a bad row takes in memory."""
    return len(bad.raw) + len(bad.reason) + 300
