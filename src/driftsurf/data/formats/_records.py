"""Find where the records of text begin and end, and which of them are malformed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from driftsurf.data.reading_options import ROW_BYTES
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
