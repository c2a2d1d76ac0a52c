"""What the readers of text share: the head that decides the columns, records cut from blocks, marks after rows."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from driftsurf.errors import SchemaError, SourceError
from driftsurf.sources._base import (
    RAW_LIMIT,
    RECORD_LIMIT,
    STANDARD_INPUT,
    BadRow,
    Chunk,
    Dialect,
    Mark,
    Reader,
    Shape,
    check_tail,
    tail_digest,
)
from driftsurf.sources._bytes import ByteFile
from driftsurf.sources._records import TOO_LONG, Records, find_records
from driftsurf.tables import Table

BOM = b"\xef\xbb\xbf"
TAIL = 2**14
"""Bytes before a place by which a file is known again."""
WIDE_BOMS = b"\xff\xfe", b"\xfe\xff"


class Parsed(NamedTuple):
    """What became of some records: a table of those that are rows, and for the others why they are not."""

    table: Table
    rows: npt.NDArray[np.int64]
    """The places of the rows of the table among the records."""
    reasons: dict[int, str]
    """By place."""
    error: Exception | None = None
    """What stands behind the last row and ends the source."""


class TextReader(Reader):
    """A text file whose records are rows. A subclass says where records end, what the head means, what a row is."""

    def __init__(self, file: ByteFile, dialect: Dialect) -> None:
        self.file = file
        self.dialect = dialect
        self._blocks = file.blocks()
        self._head = b""
        self._ended = False
        self._body = Mark(0, 1)
        """Where the rows begin."""
        self._shape: Shape | None = None
        self._top = b""
        """All before the rows."""

    # -------------------------------------------------------------------- what a format is

    def split(self, data: bytes, *, final: bool) -> Records:
        """The whole records of ``data``, which begins with a record: its lines."""
        return find_records(data, None, final=final)

    @abstractmethod
    def read_head(self) -> tuple[Mark, Shape]:
        """Where the rows begin, and what their columns are; ``head_records`` gives what it needs."""

    @abstractmethod
    def parse(self, records: Records, wanted: Shape, *, ignore_added: bool) -> Parsed:
        """Rows from records, none of which is an empty line. One that is neither row nor bad is a remark."""

    # -------------------------------------------------------------------- the head

    def shape(self) -> Shape:
        """What the head of the file says."""
        if self._shape is None:
            self._more_head(len(BOM))
            if self._head.startswith(WIDE_BOMS):
                raise SourceError(f"{self.file.name} is in UTF-16: convert it to UTF-8 first.")
            if self._head.startswith(BOM):
                self._body = Mark(len(BOM), 1)
            self._body, self._shape = self.read_head()
            self._top = self._head[: self._body.offset]
        return self._shape

    def _more_head(self, size: int) -> None:
        """Have at least ``size`` bytes of the file, or all."""
        parts = [self._head]
        have = len(self._head)
        while have < size and not self._ended:
            block = next(self._blocks, None)
            self._ended = block is None
            parts.append(block or b"")
            have += len(parts[-1])
        self._head = b"".join(parts)

    def head_records(self, start: Mark, count: int) -> Records:
        """The first ``count`` records from ``start`` on that are not blank, or all there are."""
        while True:
            data = self._head[start.offset :]
            found = self.split(data, final=self._final)
            if error := self._too_long(found, start):
                raise error
            places = np.flatnonzero(found.cells)[:count]
            if len(places) == count or self._ended:
                return found.take(places)
            # A pipe may be slow: no more than an eighth too much is waited for, and no byte is split ten times.
            self._more_head(len(self._head) * 9 // 8 + 1)

    @property
    def _final(self) -> bool:
        """Whether the end of the bytes ends the last record. The last line of a growing file may be half a line."""
        return self._ended and self.file.follow is None

    # -------------------------------------------------------------------- the rows

    def chunks(self, wanted: Shape, start: Mark | None, *, ignore_added: bool) -> Iterator[Chunk]:
        """The rows from ``start`` on, as many at a time as a block holds."""
        self.shape()
        at = self._body if start is None else start
        before, blocks = (b"", self._from(at.offset)) if start is None else self._again(start)
        data = b""
        for block in blocks:
            data = data + block if data else block
            found = self.split(data, final=False)
            chunk = self._chunk(found, at, wanted, ignore_added)
            chunk.tail = partial(self._tail, before, data, at.offset)
            yield chunk
            consumed = chunk.end.offset - at.offset
            before, data, at = _last(before, data, consumed), data[consumed:], chunk.end
        if data and self.file.follow is None:
            chunk = self._chunk(self.split(data, final=True), at, wanted, ignore_added)
            chunk.tail = partial(self._tail, before, data, at.offset)
            yield chunk

    def _again(self, start: Mark) -> tuple[bytes, Iterator[bytes]]:
        """What stands before a saved place, once it is known to be what stood there, and the blocks behind it."""
        self.file.check_length(start.offset)
        first = min(max(self._body.offset, start.offset - TAIL), start.offset)
        blocks, size = self._from(first), start.offset - first
        have = b""
        while len(have) < size:
            block = next(blocks, None)
            if block is None:
                raise self.file.too_short(start.offset)
            have += block
        before, rest = have[:size], have[size:]
        check_tail(self.file.name, start, tail_digest(self._top, before))
        return before, chain([rest] if rest else [], blocks)

    def _tail(self, before: bytes, data: bytes, first: int, offset: int) -> str:
        """The digest for a place in ``data``, which begins at ``first``."""
        return tail_digest(self._top, _last(before, data, offset - first))

    def _from(self, offset: int) -> Iterator[bytes]:
        """The blocks from ``offset`` on: those of the head again, then the others."""
        if offset <= len(self._head):
            rest = self._head[offset:]
            self._head = b""
            return chain([rest] if rest else [], self._blocks)
        if self.file.path != STANDARD_INPUT:
            self._blocks.close()
            return self.file.blocks(offset)
        return self.file.skip(offset - len(self._head), self._blocks)

    def _chunk(self, found: Records, at: Mark, wanted: Shape, ignore_added: bool) -> Chunk:
        places = np.flatnonzero((found.cells > 0) & (found.faults != TOO_LONG))
        records = found.take(places)
        parsed = self.parse(records, wanted, ignore_added=ignore_added)
        # Lines of the block before each record: those that end up to the one before it.
        before = np.concatenate([[0], found.lines])[places]
        bad = [
            BadRow(
                self.file.name,
                at.line + int(before[i]),
                reason,
                records[i][:RAW_LIMIT].decode(self.dialect.encoding, "backslashreplace").rstrip("\r\n"),
                at.offset + int(records.ends[i]),
            )
            for i, reason in sorted(parsed.reasons.items())
        ]
        good = records.take(parsed.rows)
        consumed, lines = (int(found.ends[-1]), int(found.lines[-1])) if len(found) else (0, 0)
        end = Mark(at.offset + consumed, at.line + lines)
        error = parsed.error or self._too_long(found, at)
        return Chunk(parsed.table, at.offset + good.ends, at.line + good.lines, end, bad, error)

    def _too_long(self, found: Records, at: Mark) -> SourceError | None:
        if not len(found) or found.faults[-1] != TOO_LONG:
            return None
        line = at.line + (int(found.lines[-2]) if len(found) > 1 else 0)
        return SourceError(
            f"{self.file.name}, line {line}: it is longer than {RECORD_LIMIT} bytes, which is no row of a table. "
            "Check the file and its format."
        )


def _last(before: bytes, data: bytes, size: int) -> bytes:
    """The last bytes before place ``size`` of ``data``, or of what stands before it."""
    return data[size - TAIL : size] if size >= TAIL else (before + data[:size])[-TAIL:]


Row = TypeVar("Row")


def read_each(
    records: Records, read: Callable[[bytes], Row | None]
) -> tuple[list[Row], npt.NDArray[np.int64], dict[int, str], SchemaError | None]:
    """Rows one record at a time, for ``Parsed``: the rows, their places, why others are none, and what ended it.

    ``read`` gives None for a remark, raises ValueError for a bad row and SchemaError for the end.
    """
    reasons = records.reasons()
    rows: list[Row] = []
    places: list[int] = []
    ended: SchemaError | None = None
    for place in range(len(records)):
        if place in reasons:
            continue
        try:
            row = read(records[place])
        except SchemaError as error:
            ended = error
            break
        except ValueError as error:
            reasons[place] = str(error)
            continue
        if row is not None:
            rows.append(row)
            places.append(place)
    return rows, np.array(places, np.int64), reasons, ended
