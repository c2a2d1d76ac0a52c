"""The base class of readers of text: the head that decides the columns, and the rows cut from blocks of bytes."""

from __future__ import annotations

import codecs
import re
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from driftsurf.core.input import listed
from driftsurf.data.formats._bytes import (
    FALLBACK,
    MARK_BYTES,
    UTF8,
    ByteFile,
    Wait,
    decode_blocks,
    guess_encoding,
    log,
    marked_encoding,
)
from driftsurf.data.formats._cells import cell_reader
from driftsurf.data.formats._reader import (
    HEAD_BYTES,
    PASSED_BYTES,
    RAW_LIMIT,
    Chunk,
    Mark,
    Reader,
    Shape,
    check_tail,
    tail_digest,
)
from driftsurf.data.reading_options import ROW_BYTES, STANDARD_INPUT, Kind, ReadingOptions, is_ascii_based
from driftsurf.data.source import BadRow
from driftsurf.data.tables import Table
from driftsurf.errors import Message, Option, OptionError, SchemaError, SourceError
from driftsurf.native import text
from driftsurf.native.text import MISMATCHED, NUL, OPEN_QUOTE, STRAY_QUOTE, TOO_LONG, UNCLOSED

FAULTS = {
    STRAY_QUOTE: "text follows a closing quote",
    OPEN_QUOTE: "a quote is opened on this line and not closed",
    NUL: "the row holds a NUL byte",
    UNCLOSED: "the array is not closed, or text follows it",
    MISMATCHED: "a bracket, a brace, a quote or a comma is missing or too many, or brackets are nested too deeply",
}
MOST_LINES = 2**19
"""Lines that are found at once: millions of blank lines are one record, and must not take memory."""


@dataclass(frozen=True, slots=True, eq=False)
class Records:
    """Consecutive records of some bytes."""

    data: bytes
    starts: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]
    lines: npt.NDArray[np.int64]
    """Number of lines of the data that end with or before each record."""
    cells: npt.NDArray[np.int64]
    """Number of cells; 0 for an empty line, which is not a row."""
    faults: npt.NDArray[np.int64]
    """SOUND (0), or what is wrong with the record."""
    padded: npt.NDArray[np.int64]
    """1 if there are blanks around a cell."""

    def __len__(self) -> int:
        return len(self.ends)

    def __getitem__(self, place: int) -> bytes:
        return self.data[self.starts[place] : self.ends[place]]

    def take(self, places: npt.NDArray[Any] | slice) -> Records:
        """Return the records at these places, which rise: themselves, if those are all places."""
        if isinstance(places, np.ndarray) and len(places) == len(self):
            return self
        columns = self.starts, self.ends, self.lines, self.cells, self.faults, self.padded
        return Records(self.data, *(column[places] for column in columns))

    @staticmethod
    def joined(data: bytes, parts: Sequence[tuple[Records, int, int]]) -> Records:
        """Return the records of several parts of ``data``, each found from an offset on, after a number of lines."""
        if len(parts) == 1:
            return parts[0][0]
        columns = [
            (one.starts + offset, one.ends + offset, one.lines + lines, one.cells, one.faults, one.padded)
            for one, offset, lines in parts
        ]
        return Records(data, *(np.concatenate(column) for column in zip(*columns, strict=True)))

    @property
    def ends_too_long(self) -> bool:
        """Whether the last record is too long, so that its end was not looked for."""
        return bool(len(self)) and int(self.faults[-1]) == TOO_LONG

    def bytes(self) -> bytes:
        """Return the bytes of all records."""
        if not len(self):
            return b""
        if np.array_equal(self.starts[1:], self.ends[:-1]):
            return self.data[self.starts[0] : self.ends[-1]]
        return b"".join([self.data[a:b] for a, b in zip(self.starts.tolist(), self.ends.tolist(), strict=True)])

    def reasons(self) -> dict[int, str]:
        """Return why malformed records are not rows, by place."""
        return {int(place): FAULTS[int(self.faults[place])] for place in np.flatnonzero(self.faults)}


def one_blank(data: bytes) -> Records:
    """Return all data as one record without cells."""
    zero = np.zeros(1, np.int64)
    return Records(data, zero, zero + len(data), zero + data.count(b"\n"), zero, zero, zero)


def find_records(
    data: bytes, delimiter: str | None, *, final: bool, limit: int = ROW_BYTES, comment: str | None = None
) -> Records:
    r"""Return the complete records of ``data``; with ``final`` the end of the data completes the last one.

    A record ends with a line feed, a carriage return, or both, outside of quotes. A quote opens a quoted cell only as
    its first character, blanks aside; inside, two quotes stand for one, and a closing quote is followed by a delimiter
    or by the end of the record. A malformed record ends with its first line, so that a forgotten quote costs one line
    and not the rest of the file. For the same reason, a quoted cell must not stretch a record of several lines beyond
    ``limit`` bytes. A single line that is longer is TOO_LONG, and ends the search. Without a delimiter there are no
    cells and no quotes: a record is a line. A line of blanks (spaces and tabs) has no cells, nor has a line that begins
    with the character ``comment``; consecutive lines without cells are one record, because there may be millions.

    >>> records = find_records(b'a,"b\nc"\nd', ",", final=True)
    >>> records[0], records.lines, records.cells
    (b'a,"b\nc"\n', array([2, 3]), array([2, 1]))
    """
    if comment is None and b"\0" not in data and (delimiter is None or b'"' not in data):
        plain = _plain_lines(data, delimiter, final=final, limit=limit)
        if plain is not None:
            ends, lines, cells, faults, padded = plain
            return Records(data, np.concatenate([[0], ends])[:-1], ends, lines, cells, faults, padded)
    marks = (*_marks(delimiter), -1 if comment is None else ord(comment))
    found = []
    start = line = 0
    room = max(16, len(data) // 16)
    while start < len(data):
        out = np.empty((room, 5), np.int64)
        count = text.find_records(data, marks, final, limit, (start, line), out)
        found.append(out[:count])
        if count < room or out[-1, 3] == TOO_LONG:
            break
        start, line = int(out[-1, 0]), int(out[-1, 1])
    table = np.concatenate(found) if found else np.empty((0, 5), np.int64)
    ends, lines, cells, faults, padded = (np.ascontiguousarray(column) for column in table.T)
    return Records(data, np.concatenate([[0], ends])[:-1], ends, lines, cells, faults, padded)


def _plain_lines(data: bytes, delimiter: str | None, *, final: bool, limit: int) -> npt.NDArray[np.int64] | None:
    """Return end, lines, cells, fault and padding of the records of bytes without quotes, NUL bytes and comments.

    Every line is then a record, so that no byte has to be looked at on its own: four times as fast. None if there are
    too many lines, if one is too long, or if one ends with a carriage return alone.
    """
    ends = np.frombuffer(data, np.uint8) == 10
    if np.count_nonzero(ends) > MOST_LINES:
        return None
    newlines = np.flatnonzero(ends)
    out = np.zeros((5, len(newlines) + 1), np.int64)
    count = text.find_lines(data, newlines, _marks(delimiter)[0], final, limit, out)
    return None if count < 0 else out[:, :count]


def trim_cells(data: bytes, delimiter: str) -> bytes:
    """Return sound records without the blanks around their cells, also inside of quotes.

    >>> trim_cells(b' 1 , "a, b" ," yes "', ",")
    b'1,"a, b","yes"'
    """
    out = np.empty(len(data), np.uint8)
    size = text.trim_cells(data, *_marks(delimiter), out)
    return out[:size].tobytes()


def _marks(delimiter: str | None) -> tuple[int, int]:
    return (-1, -1) if delimiter is None else (ord(delimiter), ord('"'))


MONOTONE_NAMES = 6
"""This many numbers in a strictly rising or falling row are names, such as wavelengths."""
PREFIX = "column_"


def automatic_names(count: int) -> list[str]:
    """Return names for columns without any.

    >>> automatic_names(2)
    ['column_1', 'column_2']
    """
    return [f"{PREFIX}{i + 1}" for i in range(count)]


def is_automatic(names: Iterable[str]) -> bool:
    """Whether all names may be those that columns without names get."""
    found = list(names)
    return bool(found) and all(name.startswith(PREFIX) and name[len(PREFIX) :].isdecimal() for name in found)


def complete_names(cells: Sequence[str], file: str) -> tuple[list[str], list[Message]]:
    """Return the names of a header line, with names for empty cells and a number after repeated ones; and remarks.

    >>> complete_names(["a", "", "a"], "sales.csv")[0]
    ['a', 'column_2', 'a_2']
    """
    names: dict[str, None] = {}
    remarks: list[Message] = []
    written = set(cells)
    last: dict[str, int] = {}  # the last number after each name: many columns may have the same one
    for place, cell in enumerate(cells):
        plain, number = cell or f"{PREFIX}{place + 1}", 1
        name = plain
        while name in names or (number > 1 and name in written):
            number = last[plain] = last.get(plain, 1) + 1
            name = f"{plain}_{number}"
        if not cell:
            remarks.append(Message(f"column {place + 1} of {file} has no name and is called {name!r}"))
        elif number > 1:
            remarks.append(Message(f"the column name {cell!r} of {file} is repeated; column {place + 1} is {name!r}"))
        names[name] = None
    return list(names), remarks


def given_names(reading: ReadingOptions, count: int, file: str) -> list[str] | None:
    """Return the names that the options give, or None; raise an error if they do not fit ``count`` columns.

    >>> reading = ReadingOptions(names=("price", "city", "sold"), optional=("sold",))
    >>> given_names(reading, 3, "sales.csv"), given_names(reading, 2, "sales.csv")
    (['price', 'city', 'sold'], ['price', 'city'])
    """
    names = reading.names
    if names is None:
        return None
    name, times = Counter(names).most_common(1)[0] if names else ("", 0)
    if times > 1:
        raise OptionError(Option("names"), f" has {name!r} more than once; give each column a name of its own")
    for absent in ((), reading.optional[:1], reading.optional):
        found = [name for name in names if name not in absent]
        if len(found) == count:
            return found
    if reading.optional:
        raise SchemaError(
            f"{file} has {count} columns and no header line; expected the {len(names)} columns {listed(list(names))}, "
            f"with or without {listed(list(reading.optional))}"
        )
    raise OptionError(Option("names"), f" must be one name for each of the {count} columns of {file}; got {len(names)}")


def no_header_remark(file: str, names: Sequence[str]) -> Message:
    """Return that a file has no header line, and how to change what was made of it."""
    return Message(
        f"the first line of {file} looks like a row, so the columns are called {names[0]!r} to {names[-1]!r}. "
        "Name them with ",
        Option("names"),
        ", or, if that line holds the names, pass ",
        Option("header", True),
    )


def looks_like_data(
    first: Sequence[str], columns: Sequence[Sequence[str | None]], kinds: Sequence[Kind | None], reading: ReadingOptions
) -> bool:
    """Whether the first line of a file is a row and not a line of names.

    It is, if every cell fits the kind of the cells below it and these are numbers, dates or booleans; unless the cells
    are a sequence such as 0, 1, 2 or 2018, 2020, 2022, as tables that were exported without names have it. Where all
    columns are text, or all but one, the first cells must occur again below.
    """
    present = [(cell, below, kind) for cell, below, kind in zip(first, columns, kinds, strict=True) if cell]
    present = [one for one in present if one[0] not in reading.missing_cells]
    typed = [(cell, kind) for cell, _, kind in present if kind not in ("text", None)]
    if not all(kind is not None and _fits(cell, kind, reading) for cell, kind in typed):
        return False
    words = [(cell, below) for cell, below, kind in present if kind in ("text", None)]
    known = [below.count(cell) > 1 for cell, below in words]
    if not typed:
        return bool(known) and all(known)
    if len(typed) == 1 and known and not any(known):
        return False
    return not _is_sequence([cell for cell, kind in typed if kind == "number"], reading)


def _fits(cell: str, kind: Kind, reading: ReadingOptions) -> bool:
    try:
        cell_reader(kind, reading)(cell)
    except ValueError:
        return False
    return True


def _is_sequence(cells: Sequence[str], reading: ReadingOptions) -> bool:
    read = cell_reader("number", reading)
    steps = np.diff([read(cell) for cell in cells])
    if len(steps) < 2:
        return bool((steps == 1.0).all()) and len(steps) > 0
    monotone = bool((steps > 0).all() or (steps < 0).all())
    return monotone and (len(cells) >= MONOTONE_NAMES or bool(np.allclose(steps, steps[0], rtol=1e-6, atol=0.0)))


FOLLOWED_ROWS = 100
"""Rows of a growing file from which the kinds of columns are inferred: it may grow slowly."""
_LINE_END = re.compile(rb"\r\n?|\n")
OVERLAP_BYTES = 2**12
"""Number of bytes that are searched again with the next block for the end of a row: it may be cut in two."""
TAIL_BYTES = 2**14
"""Number of bytes before a place by which a file is recognised."""


class Parsed(NamedTuple):
    """What became of some records: a table of those that are rows, and the reasons why others are not."""

    table: Table
    rows: npt.NDArray[np.int64]
    """Places of the rows of the table among the records."""
    reasons: dict[int, str]
    """Reasons of bad rows, by place."""
    error: Exception | None = None
    """To be raised after the last row."""


class TextReader(Reader):
    """A text file whose records are rows.

    A subclass defines where records end (``split``), what the head means (``read_head``) and how records become rows
    (``parse``). Blocks of bytes may end anywhere: the incomplete last record is kept for the next block.
    """

    def __init__(self, file: ByteFile, reading: ReadingOptions) -> None:
        self._wait = Wait(file.name)
        self.file: ByteFile = replace(file, on_wait=self._wait)
        self.reading = reading
        follows = file.follow is not None
        self.sample_rows: int = min(reading.sample_rows, FOLLOWED_ROWS) if follows else reading.sample_rows
        """Number of rows from which the kinds of columns are inferred."""
        self.encoding: str = UTF8 if reading.encoding is None else reading.encoding
        self.remarks: list[Message] = []
        self._blocks = self.file.blocks()
        self._head = b""
        self._ended = False
        self._body = Mark(0, 1)
        """Where the rows begin."""
        self._shape: Shape | None = None
        self._top = b""
        """All bytes before the rows."""

    # -------------------------------------------------------------------- what a format defines

    def split(self, data: bytes, *, final: bool) -> Records:
        """Return the complete records of ``data``, which begins with a record. By default, a record is a line."""
        return find_records(data, None, final=final, limit=self.reading.max_row_bytes)

    def next_record(self, data: bytes, *, final: bool) -> int:
        """Return where a record begins in ``data``, which begins within another one; -1 if none does.

        With ``final``, a record may also begin at the end of the data.
        """
        found = _LINE_END.search(data)
        if found is None or (found[0] == b"\r" and found.end() == len(data)):  # a line feed may follow
            return len(data) if final else -1
        return found.end()

    def lines_within(self, data: bytes) -> int:
        """Return how many lines end within a part of a record; the last line of a record does not count."""
        return 0

    @abstractmethod
    def read_head(self) -> tuple[Mark, Shape]:
        """Return where the rows begin, and their columns. ``head_records`` returns the records that it needs."""

    @abstractmethod
    def parse(self, records: Records, wanted: Shape, *, ignore_added: bool) -> Parsed:
        """Return rows from records, none of which is an empty line. A record may also be a comment, and no row."""

    # -------------------------------------------------------------------- the head

    def shape(self) -> Shape:
        """Return the columns that the head of the file tells."""
        if self._shape is None:
            self._read_mark()
            self._body, self._shape = self.read_head()
            self._top = self._head[: self._body.offset]
            self._wait.purpose = None
        return self._shape

    def _read_mark(self) -> None:
        """Pass over a byte order mark. If lines cannot be found in bytes of this encoding, convert them to UTF-8."""
        self._read_more_head(MARK_BYTES)
        marked = marked_encoding(self._head)
        encoding = marked or self.encoding
        if not is_ascii_based(encoding) and encoding != UTF8:
            self._blocks = decode_blocks(chain([self._head], self._blocks), encoding)
            self.file = replace(self.file, encoding=encoding)
            self._head, self._ended, self.encoding = b"", False, UTF8
        elif marked == UTF8:
            self._body, self.encoding = Mark(len(codecs.BOM_UTF8), 1), UTF8

    def decide_encoding(self, head: bytes) -> None:
        """Decide the encoding by the first rows, unless an option or a byte order mark tells it."""
        if self.reading.encoding is None and not self._body.offset and self.file.encoding is None:
            self.encoding = guess_encoding(head)
            if self.encoding == FALLBACK:
                self.remarks.append(
                    Message(
                        f"{self.file.name} is not encoded in UTF-8 and was read as {FALLBACK}; to confirm that, or to "
                        "choose another encoding, pass ",
                        Option("encoding", FALLBACK),
                    )
                )

    def wrong_encoding(self) -> Message:
        """Return why a row that cannot be decoded is bad."""
        other = FALLBACK if self.encoding == UTF8 else "latin-1"
        return Message(
            f"the row is not encoded in {self.encoding.upper()}; if the whole file is not, pass ",
            Option("encoding", other),
        )

    def _read_more_head(self, size: int) -> None:
        """Read until ``size`` bytes of the head are there, or the file ends."""
        parts = [self._head]
        have = len(self._head)
        while have < size and not self._ended:
            block = next(self._blocks, None)
            self._ended = block is None
            parts.append(block or b"")
            have += len(parts[-1])
        self._head = b"".join(parts)

    def head_records(self, start: Mark, count: int) -> Records:
        """Return the first ``count`` records from ``start`` on that are not blank, or all if the head has fewer."""
        most = max(HEAD_BYTES, 2 * self.reading.max_row_bytes)
        while True:
            found = self._head_split(self._head[start.offset :], start)
            places = np.flatnonzero((found.cells > 0) & (found.faults != TOO_LONG))[:count]
            if len(places) == count or self._ended or (len(places) and len(self._head) >= most):
                return found.take(places)
            if len(self._head) >= most:
                raise SourceError(f"{self.file.name} has no row in {most:,} bytes from line {start.line} on")
            self._wait.purpose = f"rows: {len(places):,} of the first {count:,}, which tell the columns, are there"
            # The head grows by an eighth at a time: a pipe may be slow, so that more is not waited for, and no byte is
            # split more than about ten times.
            self._read_more_head(len(self._head) * 9 // 8 + 1)

    def _head_split(self, data: bytes, start: Mark) -> Records:
        """Return the records of the head; rows that are too long are passed over, or an error."""
        found = self._split_on(data, final=self._final)
        if error := self._too_long(found, start):
            raise error
        return found

    def _split_on(self, data: bytes, *, final: bool) -> Records:
        """Return the complete records of ``data``, also those after rows that are too long, unless these are errors.

        All records are found before any is read, since it would take long to read the few between two such rows at a
        time.
        """
        parts = [(self.split(data, final=final), 0, 0)]
        while parts[-1][0].ends_too_long and self.reading.on_bad_row != "fail":
            last, offset, lines = parts[-1]
            rest = data[offset + int(last.ends[-1]) :]
            after = self.next_record(rest, final=final)
            more = self.split(rest[after:], final=final) if after >= 0 else last.take(slice(0))
            if not len(more):
                break
            last.lines[-1] += self.lines_within(rest[:after])
            parts.append((more, offset + int(last.ends[-1]) + after, lines + int(last.lines[-1])))
        return Records.joined(data, parts)

    @property
    def _final(self) -> bool:
        """Whether the end of the bytes ends the last record. The last line of a growing file may be incomplete."""
        return self._ended and self.file.follow is None

    # -------------------------------------------------------------------- the rows

    def chunks(self, wanted: Shape, start: Mark | None, *, ignore_added: bool) -> Iterator[Chunk]:
        """Yield the rows from ``start`` on, as many at a time as a block holds."""
        self.shape()
        at = self._body if start is None else start
        before, blocks = (b"", self._blocks_from(at.offset)) if start is None else self._resume(start)
        data = b""
        for block in blocks:
            data = data + block if data else block
            passing = True
            while passing:
                found = self._split_on(data, final=False)
                chunk = self._chunk(found, at, wanted, ignore_added)
                chunk.tail = partial(self._tail, before, data, at.offset)
                yield chunk
                consumed = chunk.end.offset - at.offset
                before, data, at = _last_bytes(before, data, consumed), data[consumed:], chunk.end
                passing = found.ends_too_long and chunk.error is None
                if passing:
                    bad = self._bad_long_row(found, chunk)
                    before, data, at = self._pass_over(before, data, at, blocks)
                    empty = self.parse(found.take(slice(0)), wanted, ignore_added=ignore_added).table
                    nothing = np.zeros(0, np.int64)
                    yield Chunk(empty, nothing, nothing, at, [replace(bad, end=at.offset)])
        if data and self.file.follow is None:
            chunk = self._chunk(self.split(data, final=True), at, wanted, ignore_added)
            chunk.tail = partial(self._tail, before, data, at.offset)
            yield chunk
        elif data.strip():
            start_of_it = data[:100].decode(self.encoding, "backslashreplace")
            log.warning("%s: the last line has no line end yet and was not read: %r", self.file.name, start_of_it)

    def _bad_long_row(self, found: Records, chunk: Chunk) -> BadRow:
        """Return why the last of some records is passed over."""
        line = chunk.end.line - int(found.lines[-1]) + (int(found.lines[-2]) if len(found) > 1 else 0)
        raw = found[-1][:RAW_LIMIT].decode(self.encoding, "backslashreplace").rstrip("\r\n")
        return BadRow(self.file.name, line + _leading_lines(found[-1]), self._too_long_reason(), raw)

    def _pass_over(self, before: bytes, data: bytes, at: Mark, blocks: Iterator[bytes]) -> tuple[bytes, bytes, Mark]:
        """Read on to where the next record begins; return the bytes before and after that place, and the place."""
        line, offset = at.line, at.offset
        while (after := self.next_record(data, final=False)) < 0:
            block = next(blocks, None)
            if block is None:
                after = self.next_record(data, final=True)
                break
            passed = max(0, len(data) - OVERLAP_BYTES)
            before = _last_bytes(before, data, passed)
            line, offset = line + self.lines_within(data[:passed]), offset + passed
            data = data[passed:] + block
            if offset - at.offset > PASSED_BYTES:
                raise SourceError(
                    f"{self.file.name}, line {at.line}: no row ends within {PASSED_BYTES:,} bytes; check the format"
                )
        line += self.lines_within(data[:after])
        return _last_bytes(before, data, after), data[after:], Mark(offset + after, line)

    def _resume(self, start: Mark) -> tuple[bytes, Iterator[bytes]]:
        """Return the bytes before a saved place, checked against its digest, and the blocks after it."""
        self.file.check_length(start.offset)
        first = min(max(self._body.offset, start.offset - TAIL_BYTES), start.offset)
        blocks, size = self._blocks_from(first), start.offset - first
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
        """Return the digest for a place in ``data``, which begins at offset ``first``."""
        return tail_digest(self._top, _last_bytes(before, data, offset - first))

    def _blocks_from(self, offset: int) -> Iterator[bytes]:
        """Return the blocks from ``offset`` on: what was read as the head is used again."""
        if offset <= len(self._head):
            rest = self._head[offset:]
            self._head = b""
            return chain([rest] if rest else [], self._blocks)
        if self.file.path != STANDARD_INPUT:
            self._blocks.close()
            return self.file.blocks(offset)
        return self.file.skip(offset - len(self._head), self._blocks)

    def _chunk(self, found: Records, at: Mark, wanted: Shape, ignore_added: bool) -> Chunk:
        too_long = found.faults == TOO_LONG
        places = np.flatnonzero((found.cells > 0) & ~too_long)
        records = found.take(places)
        parsed = self.parse(records, wanted, ignore_added=ignore_added)
        # The last record, if it is too long, may go on in the next block.
        reasons: dict[int, str] = {place: self._too_long_reason() for place in np.flatnonzero(too_long[:-1]).tolist()}
        reasons |= {int(places[i]): reason for i, reason in parsed.reasons.items()}
        # Number of lines of the block before each record: those that end with the record before it.
        before = np.concatenate([[0], found.lines])
        bad = [
            BadRow(
                self.file.name,
                at.line + int(before[i]) + _leading_lines(found[i]),
                reason,
                found[i][:RAW_LIMIT].decode(self.encoding, "backslashreplace").rstrip("\r\n"),
                at.offset + int(found.ends[i]),
            )
            for i, reason in sorted(reasons.items())
        ]
        good = records.take(parsed.rows)
        consumed, lines = (int(found.ends[-1]), int(found.lines[-1])) if len(found) else (0, 0)
        end = Mark(at.offset + consumed, at.line + lines)
        error = parsed.error or self._too_long(found, at)
        return Chunk(parsed.table, at.offset + good.ends, at.line + good.lines, end, bad, error)

    def _too_long(self, found: Records, at: Mark) -> SourceError | None:
        """Return the error of a last record that is too long, if such rows are not skipped."""
        if not found.ends_too_long or self.reading.on_bad_row != "fail":
            return None
        line = at.line + (int(found.lines[-2]) if len(found) > 1 else 0)
        return SourceError(f"{self.file.name}, line {line}: ", self._too_long_reason())

    def _too_long_reason(self) -> Message:
        limit = self.reading.max_row_bytes
        return Message(
            f"a row must not be longer than {limit} bytes; check the format, or allow more with ",
            Option("max_row_bytes", 2 * limit),
        )


def _last_bytes(before: bytes, data: bytes, size: int) -> bytes:
    """Return the last bytes before place ``size`` of ``data``, which ``before`` precedes."""
    return data[size - TAIL_BYTES : size] if size >= TAIL_BYTES else (before + data[:size])[-TAIL_BYTES:]


def _leading_lines(record: bytes) -> int:
    """Return how many lines a record begins below its start: an element of JSON may follow line ends."""
    return record[: len(record) - len(record.lstrip())].count(b"\n")


Row = TypeVar("Row")


def read_each(
    records: Records, read: Callable[[bytes], Row | None]
) -> tuple[list[Row], npt.NDArray[np.int64], dict[int, str], SchemaError | None]:
    """Read records one at a time. Return the rows, their places, the reasons of bad rows, and what ended reading.

    ``read`` returns None for a comment, and raises ValueError for a bad row and SchemaError to end reading.
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
            reasons[place] = error.args[0] if error.args and isinstance(error.args[0], Message) else str(error)
            continue
        if row is not None:
            rows.append(row)
            places.append(place)
    return rows, np.array(places, np.int64), reasons, ended
