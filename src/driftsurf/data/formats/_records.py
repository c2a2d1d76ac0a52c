"""Find where the records of text begin and end, and which of them are malformed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import types

from driftsurf.data.reading_options import ROW_BYTES
from driftsurf.kernels.compile import kernel

SOUND, STRAY_QUOTE, OPEN_QUOTE, NUL, TOO_LONG, UNCLOSED, MISMATCHED = range(7)
FAULTS = {
    STRAY_QUOTE: "text follows a closing quote",
    OPEN_QUOTE: "a quote is opened on this line and not closed",
    NUL: "the row holds a NUL byte",
    UNCLOSED: "the array is not closed, or text follows it",
    MISMATCHED: "a bracket, a brace, a quote or a comma is missing or too many, or brackets are nested too deeply",
}
MOST_LINES = 2**19
"""Lines that are found at once: millions of blank lines are one record, and must not take memory."""

_U1, _I8 = types.uint8, types.int64
_IN = types.Array(_U1, 1, "C", readonly=True)
_PAIR = types.Array(_I8, 1, "C", readonly=True)
_OUT = types.Array(_I8, 2, "C")


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
    array = np.frombuffer(data, np.uint8)
    if comment is None and b"\0" not in data and (delimiter is None or b'"' not in data):
        plain = _plain_lines(array, delimiter, final=final, limit=limit)
        if plain is not None:
            ends, lines, cells, faults, padded = plain
            return Records(data, np.concatenate([[0], ends])[:-1], ends, lines, cells, faults, padded)
    marks = np.array([*_marks(delimiter), -1 if comment is None else ord(comment)])
    found = []
    start = line = 0
    room = max(16, len(array) // 16)
    while start < len(array):
        out = np.empty((room, 5), np.int64)
        count = _find_records(array, marks, final, limit, np.array([start, line]), out)
        found.append(out[:count])
        if count < room or out[-1, 3] == TOO_LONG:
            break
        start, line = int(out[-1, 0]), int(out[-1, 1])
    table = np.concatenate(found) if found else np.empty((0, 5), np.int64)
    ends, lines, cells, faults, padded = (np.ascontiguousarray(column) for column in table.T)
    return Records(data, np.concatenate([[0], ends])[:-1], ends, lines, cells, faults, padded)


def _plain_lines(
    array: npt.NDArray[np.uint8], delimiter: str | None, *, final: bool, limit: int
) -> npt.NDArray[np.int64] | None:
    """Return end, lines, cells, fault and padding of the records of bytes without quotes, NUL bytes and comments.

    Every line is then a record, so that no byte has to be looked at on its own: four times as fast. None if there are
    too many lines, if one is too long, or if one ends with a carriage return alone.
    """
    ends = array == 10
    if np.count_nonzero(ends) > MOST_LINES:
        return None
    newlines = np.flatnonzero(ends)
    out = np.zeros((5, len(newlines) + 1), np.int64)
    count = _find_lines(array, newlines, _marks(delimiter)[0], final, limit, out)
    return None if count < 0 else out[:, :count]


def trim_cells(data: bytes, delimiter: str) -> bytes:
    """Return sound records without the blanks around their cells, also inside of quotes.

    >>> trim_cells(b' 1 , "a, b" ," yes "', ",")
    b'1,"a, b","yes"'
    """
    out = np.empty(len(data), np.uint8)
    size = _trim_cells(np.frombuffer(data, np.uint8), np.array(_marks(delimiter)), out)
    return out[:size].tobytes()


def _marks(delimiter: str | None) -> list[int]:
    return [-1, -1] if delimiter is None else [ord(delimiter), ord('"')]


@kernel(lambda f: (_IN, _PAIR, types.Array(_U1, 1, "C")))
def _trim_cells(data: Any, marks: Any, out: Any) -> Any:
    """Copy records to ``out`` without the blanks around their cells; return the number of bytes.

    States: 0 before the first character of a cell, 1 in a plain cell, 2 in a quoted cell, 3 after a quoted cell.
    """
    delimiter, quote = marks[0], marks[1]
    size = len(data)
    state, count, opened = 0, 0, 0
    kept = 0  # bytes of out that end with something else than a blank
    p = 0
    while p < size:
        byte = data[p]
        blank = (byte == 32 or byte == 9) and byte != delimiter
        if state == 2:
            if byte == quote and not (p + 1 < size and data[p + 1] == quote):
                out[kept] = byte
                kept += 1
                count, state = kept, 3
            elif not blank or kept > opened:
                out[count] = byte
                count += 1
                if byte == quote:
                    out[count] = byte
                    count += 1
                    p += 1
                if not blank:
                    kept = count
        elif byte == delimiter or byte == 10 or byte == 13:
            out[kept] = byte
            kept += 1
            count, state = kept, 0
        elif not blank or state == 1:
            out[count] = byte
            count += 1
            if not blank:
                kept = count
            if state == 0:
                state, opened = (2 if byte == quote else 1), kept
        p += 1
    return kept


@kernel(lambda f: (_IN, _PAIR, _I8, types.boolean, _I8, _OUT))
def _find_lines(data: Any, newlines: Any, delimiter: Any, final: Any, limit: Any, out: Any) -> Any:
    """Fill the columns of ``out`` with (end, lines, cells, 0, padded) of each line; return the count.

    Returns -1 if a line is longer than ``limit``, or a carriage return stands elsewhere than before a line feed.
    ``newlines`` are the places of the line feeds.
    """
    size = len(data)
    count, start, line = 0, 0, 0
    whole = len(newlines)
    # In sums of 32 bits over short slices the compiler compares many bytes at once. Most blocks have neither blanks
    # beside a delimiter nor carriage returns, which is found out in one long loop.
    mark = np.uint8(delimiter) if delimiter >= 0 else np.uint8(10)
    padding = returning = np.int32(0)
    before, after = data[: max(0, size - 1)], data[min(1, size) :]
    for p in range(len(after)):
        blank = (after[p] == 32) | (after[p] == 9)
        blank_before = (before[p] == 32) | (before[p] == 9)
        end = (after[p] == mark) | (after[p] == 10) | (after[p] == 13)
        end_before = (before[p] == mark) | (before[p] == 10)
        padding = np.int32(padding + np.int32((blank & end_before) | (blank_before & end)))
        returning = np.int32(returning + np.int32(after[p] == 13))
    for k in range(whole + 1):
        if k == whole and start == size:
            break
        stop = newlines[k] if k < whole else size
        if (stop if k < whole else size - 1) - start > limit:
            return -1
        text = data[start:stop]
        delimiters = returns = padded = np.int32(0)
        if delimiter >= 0:
            for p in range(len(text)):
                delimiters = np.int32(delimiters + np.int32(text[p] == mark))
        if returning or data[0] == 13:
            for p in range(len(text)):
                returns = np.int32(returns + np.int32(text[p] == 13))
        if padding:
            for p in range(1, len(text)):
                blank = (text[p] == 32) | (text[p] == 9)
                blank_before = (text[p - 1] == 32) | (text[p - 1] == 9)
                here, there = text[p] == delimiter, text[p - 1] == delimiter
                beside = (blank & there & (not here)) | (blank_before & here & (not there))
                padded = np.int32(padded + np.int32(beside))
        last = stop - 1
        if returns:
            if returns > 1 or data[last] != 13 or k == whole:
                return -1
            last -= 1
        if k == whole and not final:
            break
        if last >= start:
            first_blank = (data[start] == 32 or data[start] == 9) and data[start] != delimiter
            if first_blank or data[last] == 32 or data[last] == 9:
                padded += 1
        empty = False
        if delimiters == 0:
            p = start
            while p <= last and (data[p] == 32 or data[p] == 9):
                p += 1
            empty = p > last
        line += 1
        start = stop + 1 if k < whole else size
        if empty and count and out[2, count - 1] == 0:
            out[0, count - 1], out[1, count - 1] = start, line
            continue
        out[0, count], out[1, count], out[2, count] = start, line, 0 if empty else delimiters + 1
        out[4, count] = 1 if padded else 0
        count += 1
    return count


@kernel(lambda f: (_IN, _PAIR, types.boolean, _I8, _PAIR, _OUT))
def _find_records(data: Any, marks: Any, final: Any, limit: Any, begin: Any, out: Any) -> Any:
    """Fill ``out`` with (end, lines, cells, fault, padded) of each record from ``begin`` on; return the count.

    States: 0 before the first character of a cell, 1 in a plain cell, 2 in a quoted cell, 3 after a quote in a quoted
    cell, 4 after a quoted cell and a blank, 5 in a comment.
    Faults are the constants of this module: 1 stray quote, 2 open quote, 3 NUL byte, 4 too long.
    """
    delimiter, quote, comment = marks[0], marks[1], marks[2]
    start, line = begin[0], begin[1]
    size = len(data)
    count = 0
    while start < size and count < len(out):
        state, cells, fault = (5 if data[start] == comment else 0), 1, 0
        first_newline, inner_lines, padded = -1, 0, 0
        p = start
        end = -1
        while p < size:
            if p - start > limit:
                fault = 2 if first_newline >= 0 else 4
                break
            byte = data[p]
            newline = byte == 10 or byte == 13
            if newline:
                if byte == 13 and p + 1 == size and not final:
                    break  # a line feed may follow in the next block
                after = p + 2 if byte == 13 and p + 1 < size and data[p + 1] == 10 else p + 1
                if first_newline < 0:
                    first_newline = after
                if state != 2:
                    end = after
                    break
                inner_lines += 1
                p = after
                continue
            if byte == 0:
                fault = 3
            if state == 2:
                if byte == quote:
                    state = 3
                    before, after = data[p - 1], data[p + 1] if p + 1 < size else byte
                    if before == 32 or before == 9 or after == 32 or after == 9:
                        padded = 1
            elif state == 5:
                fault = 0
            elif byte == delimiter:
                if state == 1 and (data[p - 1] == 32 or data[p - 1] == 9):
                    padded = 1
                state = 0
                cells += 1
            elif state != 1:
                if byte == 32 or byte == 9:
                    padded = 1
                    if state == 3:
                        state = 4
                elif state == 0:
                    state = 2 if byte == quote else 1
                    if state == 2 and p + 1 < size and (data[p + 1] == 32 or data[p + 1] == 9):
                        padded = 1
                elif state == 3 and byte == quote:
                    state = 2
                else:
                    # After a line break, the quote that seems to be closed may be the first one of a later cell.
                    fault = 1 if first_newline < 0 else 2
                    break
            p += 1
        if end < 0 and (fault == 0 or fault == 3) and final and p == size:
            if state == 2:
                fault = 2
            else:
                end = size
        if fault == 1 or fault == 2:
            # A malformed record ends with its first line.
            inner_lines = 0
            end = first_newline
            while end < 0 and p < size:
                if p - start > limit:
                    fault = 4
                    break
                if data[p] == 10 or data[p] == 13:
                    if data[p] == 13 and p + 1 == size and not final:
                        break
                    end = p + 2 if data[p] == 13 and p + 1 < size and data[p + 1] == 10 else p + 1
                p += 1
            if end < 0 and final:
                end = size
        if fault == 4:
            end = p
        if end < 0:
            return count
        last = end - 1
        while last >= start and (data[last] == 10 or data[last] == 13):
            last -= 1
        if last >= start and (data[last] == 32 or data[last] == 9):
            padded = 1
        empty = state == 5 or (state == 0 and cells == 1 and fault == 0)
        line += inner_lines + 1
        start = end
        if empty and count and out[count - 1, 2] == 0:
            out[count - 1, 0], out[count - 1, 1] = end, line
            continue
        out[count, 0], out[count, 1], out[count, 2], out[count, 3] = end, line, 0 if empty else cells, fault
        out[count, 4] = padded
        count += 1
        if fault == 4:
            return count
    return count
