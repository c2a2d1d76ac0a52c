"""Large bodies of lines of JSON, CSV or Arrow, cut into parts between two rows."""

from __future__ import annotations

from collections.abc import AsyncIterator

from driftsurf.data.arrow_messages import BATCH, DICTIONARY, ArrowMessage, messages
from driftsurf.errors import InputError
from driftsurf.service.http.formats import Format
from driftsurf.service.http.problems import HttpProblem
from driftsurf.service.http.request import ClientGoneError, HttpRequest

__all__ = ["PartReader", "is_streamed"]


def is_streamed(request: HttpRequest, format: Format) -> bool:
    """Return whether a body is taken in parts: one that is larger than a body may be, or whose size is not known.

    JSON is never: where its rows end cannot be found without reading all of it.
    """
    if format == "json":
        return False
    return request.length is None or request.length > request.limits.body_bytes


class PartReader:
    """Cuts a body into parts of about the same size; where depends on its bytes alone, not on how they come."""

    def __init__(self, request: HttpRequest, format: Format) -> None:
        self.request = request
        self.format = format
        self.size: int = request.limits.part_bytes
        self._data = bytearray()
        self._head = b""
        """What every part begins with: the header line of CSV, the schema and the dictionaries of Arrow."""
        self._total = 0

    async def parts(self) -> AsyncIterator[tuple[int, bytes]]:
        """Yield the parts with their numbers."""
        request, number, more, wanted = self.request, 0, True, self.size
        request.check_encoding()
        if request.length is not None and request.length > request.limits.stream_bytes:
            raise self._too_large()
        while more or self._data:
            if more:
                more = await self._fill(wanted)
            part = self._cut(last=not more)
            if part is not None:
                held = request.taken - len(self._data)
                yield number, part
                request.release(held)  # only now: the part was in memory as long as somebody learned it
                number, wanted = number + 1, self.size
            elif more:
                wanted = len(self._data) + self.size
            else:
                break
        if not number:
            raise InputError("the body has no rows; pass at least one")

    def _too_large(self) -> HttpProblem:
        return HttpProblem("too-large", f"the body has more than {self.request.limits.stream_bytes:,} bytes")

    async def _fill(self, wanted: int) -> bool:
        """Read until there are that many bytes; return whether more of the body follows."""
        request = self.request
        while len(self._data) < wanted:
            message = await request.receive()
            if message["type"] == "http.disconnect":
                raise ClientGoneError
            data = message.get("body", b"")
            self._total += len(data)
            if self._total > request.limits.stream_bytes:
                raise self._too_large()
            if not request.flight.add(len(data)):
                raise HttpProblem("busy", "too many bytes of other requests are in memory; try again")
            request.taken += len(data)
            self._data += data
            if not message.get("more_body"):
                return False
        return True

    def _cut(self, *, last: bool) -> bytes | None:
        """Take the next part from the data; None if they have no whole row."""
        cut = self._arrow_end(last=last) if self.format == "arrow" else self._line_end(last=last)
        if cut == 0:
            if len(self._data) > self.request.limits.body_bytes:
                raise HttpProblem("too-large", "a row, or a batch of an Arrow stream, is too large; write smaller ones")
            return None
        with memoryview(self._data) as data, data[:cut] as first:
            part = b"".join((self._head, first))
        del self._data[:cut]
        self._keep_head(part)
        return part

    def _line_end(self, *, last: bool) -> int:
        """Return where the last whole row within a part ends; a line break within quotes ends none."""
        data, rows = self._data, self.request.limits.rows
        if last and len(data) <= self.size and data.count(b"\n") < rows:
            return len(data)
        end = data.rfind(b"\n", 0, max(self.size, 1)) + 1
        if data.count(b"\n", 0, end) > rows:
            end = _end_of_line(data, rows, end)
        odd = self.format == "csv" and data.count(b'"', 0, end) % 2
        while odd:  # go back by one quote at least; no byte is counted twice, because there may be millions of lines
            before = data.rfind(b"\n", 0, data.rfind(b'"', 0, end)) + 1
            odd, end = (odd + data.count(b'"', before, end)) % 2, before
        return end or (self._data.find(b"\n") + 1) or (len(self._data) if last else 0)

    def _arrow_end(self, *, last: bool) -> int:
        """Return where the last whole batch within a part ends, or the first one if it is larger."""
        end = rows = 0
        for message in messages(self._data, whole=last):
            rows += message.rows
            if end and (message.end > self.size or rows > self.request.limits.rows):
                break
            if message.kind == BATCH:
                end = message.end
        return end

    def _keep_head(self, part: bytes) -> None:
        """Keep what the next part begins with, which is a part of this one."""
        if self.format == "csv" and not self._head:
            self._head = part[: part.find(b"\n") + 1]
        if self.format == "arrow":
            kept: list[ArrowMessage] = []
            for one in messages(part):
                if one.kind == DICTIONARY and not one.adds:  # nothing is left of the dictionary that it replaces
                    kept = [other for other in kept if other.dictionary != one.dictionary]
                if one.kind != BATCH:
                    kept.append(one)
            self._head = b"".join(part[one.start : one.end] for one in kept)
            if len(self._head) > self.request.limits.body_bytes:
                raise HttpProblem("too-large", "the dictionaries of the Arrow stream are too large; send plain columns")


def _end_of_line(data: bytearray, number: int, end: int) -> int:
    """Return where a line ends, the first one being 1; the data must have it before ``end``."""
    start = 0
    while end - start > 1:
        middle = (start + end) // 2
        count = data.count(b"\n", start, middle)
        if count >= number:
            end = middle
        else:
            start, number = middle, number - count
    return end
