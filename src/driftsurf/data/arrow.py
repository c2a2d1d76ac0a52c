"""The messages of an Arrow stream (IPC), found without decoding anything."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import NamedTuple

from driftsurf.errors import InputError

CONTINUATION = b"\xff\xff\xff\xff"
SCHEMA, DICTIONARY, BATCH = 1, 2, 3
"""Types of messages that a stream of rows may have, as the format numbers them."""


class ArrowMessage(NamedTuple):
    """One message of a stream."""

    kind: int
    start: int
    end: int
    rows: int
    """Rows of a batch; 0 for other messages."""
    dictionary: int | None = None
    """Number of the dictionary of this message; None for other messages."""
    adds: bool = False
    """Whether it adds to this dictionary instead of replacing it."""


class _Truncated(Exception):
    """The data end inside a message."""


def messages(data: bytes | bytearray | memoryview, *, whole: bool = True) -> list[ArrowMessage]:
    """Return the messages of a stream; InputError if it is not one, is compressed, or, if ``whole``, is cut off.

    A compressed batch of a few bytes may claim any size, for which memory would be taken; therefore none is accepted.
    """
    found: list[ArrowMessage] = []
    place = 0
    try:
        while place < len(data):
            message = _message(data, place)
            if message is None:
                break
            found.append(message)
            place = message.end
    except _Truncated:
        if whole:
            raise InputError("the Arrow stream ends inside a message; send all of it") from None
    except (struct.error, IndexError, OverflowError):
        raise _not_arrow() from None
    return found


def _message(data: bytes | bytearray | memoryview, place: int) -> ArrowMessage | None:
    """Return the message at a place; None for the end of the stream."""
    if len(data) < place + 8:
        raise _Truncated
    mark, size = struct.unpack_from("<4si", data, place)
    if mark != CONTINUATION or size < 0:
        raise _not_arrow()
    if size == 0:
        return None
    begin = place + 8
    if len(data) < begin + size:
        raise _Truncated
    table = _FlatTable.root(memoryview(data)[begin : begin + size])
    kind, length = table.number(1, "<B"), table.number(3, "<q")
    if kind not in (SCHEMA, DICTIONARY, BATCH) or length < 0:
        raise _not_arrow()
    end = begin + size + length
    header = table.table(2)
    batch = header.table(1) if kind == DICTIONARY else header
    if kind != SCHEMA and batch.has(3):
        raise InputError("the Arrow stream is compressed; write it without compression")
    if end > len(data):
        raise _Truncated
    rows = batch.number(0, "<q") if kind != SCHEMA else 0
    if rows < 0:
        raise _not_arrow()
    if kind == DICTIONARY:
        return ArrowMessage(kind, place, end, 0, header.number(0, "<q"), header.number(2, "<B") != 0)
    return ArrowMessage(kind, place, end, rows)


@dataclass(frozen=True, slots=True)
class _FlatTable:
    """A table of a flatbuffer: fields by number, each of which may be absent."""

    data: memoryview
    place: int

    @classmethod
    def root(cls, data: memoryview) -> _FlatTable:
        return cls(data, struct.unpack_from("<I", data)[0])

    def _field(self, number: int) -> int:
        """Return the place of a field; 0 if it is absent."""
        vtable = self.place - struct.unpack_from("<i", self.data, self.place)[0]
        if vtable < 0:
            raise _not_arrow()
        size = struct.unpack_from("<H", self.data, vtable)[0]
        at = 4 + 2 * number
        offset = struct.unpack_from("<H", self.data, vtable + at)[0] if at + 2 <= size else 0
        return self.place + offset if offset else 0

    def has(self, number: int) -> bool:
        return self._field(number) != 0

    def number(self, number: int, code: str) -> int:
        place = self._field(number)
        return int(struct.unpack_from(code, self.data, place)[0]) if place else 0

    def table(self, number: int) -> _FlatTable:
        place = self._field(number)
        if not place:
            raise _not_arrow()
        return _FlatTable(self.data, place + struct.unpack_from("<I", self.data, place)[0])


def _not_arrow() -> InputError:
    return InputError("the body is not an Arrow stream; write it with pyarrow.ipc.new_stream")
