"""JSON: an array of objects, or one object per line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from driftsurf.data.formats._bytes import ByteFile
from driftsurf.data.formats._reader import Chunk, Mark, Shape
from driftsurf.data.formats._text import Records, one_blank, read_each
from driftsurf.data.formats.jsonl import JsonLinesReader
from driftsurf.data.reading_options import ROW_BYTES, ReadingOptions
from driftsurf.errors import SourceError
from driftsurf.native import text
from driftsurf.native.text import SOUND
from driftsurf.registry import register


def find_elements(data: bytes, *, final: bool, limit: int = ROW_BYTES) -> Records:
    """Return the complete elements of an array as records; ``data`` begins after its bracket, or after an element.

    A record includes the comma or the bracket that follows the element; the bracket ends the search. With ``final``,
    text after the last comma is UNCLOSED. An element whose brackets, braces or quotes do not match is MISMATCHED, and
    ends where the next object begins, so that a forgotten brace costs one row and not the rest of the file.

    >>> records = find_elements(b' {"a": "]"},\\n 2]', final=True)
    >>> [records[i] for i in range(len(records))], records.lines
    ([b' {"a": "]"},', b'\\n 2]'], array([0, 1]))
    """
    found = []
    start = line = 0
    room = max(16, len(data) // 16)
    while start < len(data):
        out = np.empty((room, 4), np.int64)
        count, closed = text.find_elements(data, final, limit, (start, line), out)
        found.append(out[:count])
        if count < room or closed or out[-1, 3] == text.TOO_LONG:
            break
        start, line = int(out[-1, 0]), int(out[-1, 1])
    table = np.concatenate(found) if found else np.empty((0, 4), np.int64)
    ends, lines, cells, faults = (np.ascontiguousarray(column) for column in table.T)
    return Records(data, np.concatenate([[0], ends])[:-1], ends, lines, cells, faults, np.zeros_like(ends))


_NEXT_OBJECT = re.compile(rb",\s*+\{")
SHOWN_BYTES = 40
"""Bytes of text after an array that the error shows."""
ADVICE = "write an array of objects, one for each row, as pandas does with to_json(orient='records')"


@register("format", "json", endings=(".json",), streamed=True, cells="json")
class JsonReader(JsonLinesReader):
    """An array of objects, which may stretch over any number of lines, or one object per line.

    The elements of an array are found one by one, so that memory does not grow with the file, and a malformed element
    costs one row.
    """

    def __init__(self, file: ByteFile, reading: ReadingOptions) -> None:
        super().__init__(file, reading)
        self._array = False
        self._closed = False
        """Whether the end of the array was found."""
        self._after = b""
        """The beginning of what follows the array, blanks aside."""

    def split(self, data: bytes, *, final: bool) -> Records:
        """Return the complete elements of an array, or the complete lines."""
        if not self._array:
            return super().split(data, final=final)
        if self._closed:
            self._after = self._after or data.strip()[:SHOWN_BYTES]
            return one_blank(data)
        found = find_elements(data, final=final, limit=self.reading.max_row_bytes)
        self._closed = len(found) > 0 and found.faults[-1] == SOUND and found[-1].endswith(b"]")
        return found

    def next_record(self, data: bytes, *, final: bool) -> int:
        """Return where an object of an array begins, or a line; -1 if none does."""
        if not self._array:
            return super().next_record(data, final=final)
        found = _NEXT_OBJECT.search(data)
        if found is None and final:
            self._closed = data.rstrip().endswith(b"]")
        return found.start() + 1 if found else len(data) if final else -1

    def lines_within(self, data: bytes) -> int:
        """Return how many lines end within a part of an object."""
        return data.count(b"\n") if self._array else 0

    def read_head(self) -> tuple[Mark, Shape]:
        """Find out whether the file is an array; return the keys of the first objects and their kinds."""
        begin = self._body.offset
        while not (rest := self._head[begin:].lstrip()) and not self._ended:
            self._read_more_head(len(self._head) + 1)
        if rest.startswith(b"["):
            self._array = True
            place = len(self._head) - len(rest)
            self._body = Mark(place + 1, 1 + self._head[begin:place].count(b"\n"))
        sample = self.head_records(self._body, self.sample_rows)
        rows = read_each(sample, self.read_record)[0]
        if len(sample) and not rows:
            raise SourceError(
                f"{self.file.name} holds neither an array of objects nor an object on each line; {ADVICE}"
            )
        if (
            not self._array
            and len(rows) == 1
            and rows[0]
            and all(isinstance(value, dict | list) for value in rows[0].values())
        ):
            raise SourceError(f"{self.file.name} holds an object of columns, and not of rows; {ADVICE}")
        return super().read_head()

    def read_record(self, record: bytes) -> dict[str, Any] | None:
        """Return the object of a line, or of an element without the comma or bracket after it."""
        return super().read_record(record[:-1] if self._array else record)

    def chunks(self, wanted: Shape, start: Mark | None, *, ignore_added: bool) -> Iterator[Chunk]:
        """Yield the rows from ``start`` on; SourceError if its array is not closed, or text follows it."""
        self.shape()
        self._closed, self._after = False, b""
        for chunk in super().chunks(wanted, start, ignore_added=ignore_added):
            yield chunk
            if self._after:
                text = self._after.decode(self.encoding, "backslashreplace")
                raise SourceError(f"{self.file.name}: text follows the array, which must be all of the file: {text!r}")
        if self._array and not self._closed and self.file.follow is None:
            raise SourceError(f"{self.file.name} is truncated: its array is not closed with ]")

    def _head_split(self, data: bytes, start: Mark) -> Records:
        self._closed = False  # the head is split again each time it has grown
        return super()._head_split(data, start)

    def _resume(self, start: Mark) -> tuple[bytes, Iterator[bytes]]:
        before, blocks = super()._resume(start)
        # A place is after a comma or the closing bracket; blanks are passed over only after the bracket.
        self._closed = before != b"" and before.rstrip()[-1:] in (b"", b"]")
        return before, blocks
