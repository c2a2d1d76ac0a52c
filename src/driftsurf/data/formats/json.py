"""JSON: an array of objects, or one object per line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from driftsurf.data.formats._bytes import ByteFile
from driftsurf.data.formats._elements import find_elements
from driftsurf.data.formats._reader import Chunk, Mark, Shape
from driftsurf.data.formats._records import Records
from driftsurf.data.formats._text import read_each
from driftsurf.data.formats.jsonl import JsonLinesReader
from driftsurf.data.reading_options import ReadingOptions
from driftsurf.errors import SourceError
from driftsurf.registry import register

__all__ = ["JsonReader"]

_NEXT_OBJECT = re.compile(rb",\s*+\{")
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
        self._last = b""
        """The last character of what was found, blanks aside."""

    def split(self, data: bytes, *, final: bool) -> Records:
        """Return the complete elements of an array, or the complete lines."""
        if not self._array:
            return super().split(data, final=final)
        found = find_elements(data, final=final, limit=self.reading.max_row_bytes)
        if len(found):
            self._last = found[-1].rstrip()[-1:] or self._last
        return found

    def next_record(self, data: bytes, *, final: bool) -> int:
        """Return where an object of an array begins, or a line; -1 if none does."""
        if not self._array:
            return super().next_record(data, final=final)
        found = _NEXT_OBJECT.search(data)
        if found is None and final:
            self._last = data.rstrip()[-1:]
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
        """Yield the rows from ``start`` on; raise SourceError if the file ends within its array."""
        self.shape()
        self._last = b"]"
        yield from super().chunks(wanted, start, ignore_added=ignore_added)
        if self._array and self._last != b"]" and self.file.follow is None:
            raise SourceError(f"{self.file.name} is truncated, or text follows its array: the last character must be ]")
