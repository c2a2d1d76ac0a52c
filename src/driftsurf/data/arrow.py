"""Tables of pyarrow as tables, and the messages of an Arrow stream (IPC), found without decoding anything."""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from driftsurf.data.reading_options import Kind
from driftsurf.data.tables import Column
from driftsurf.errors import InputError, ValueTypeError

NOT_A_TIME = -(2**63)
"""Microseconds that stand for NaT."""
MOST_SHARED = 16
"""How many times as long as its bytes the text of a column may be, because values share bytes."""
_UNITS_PER_SECOND = {"s": 1, "ms": 1e3, "us": 1e6, "ns": 1e9}


def arrow_kind(type_: Any) -> Kind | None:
    """Return the kind of an Arrow type, or None for a type that a table cannot hold, such as a list."""
    import pyarrow.types as t

    if t.is_dictionary(type_):
        return arrow_kind(type_.value_type)
    if t.is_boolean(type_):
        return "boolean"
    if any(is_a(type_) for is_a in (t.is_integer, t.is_floating, t.is_decimal, t.is_duration, t.is_time)):
        return "number"
    if t.is_date(type_) or t.is_timestamp(type_):
        return "date"
    text = t.is_string, t.is_large_string, t.is_string_view, t.is_null  # polars writes views
    return "text" if any(is_a(type_) for is_a in text) else None


def arrow_column(name: str, array: Any, kind: Kind | None = None) -> Column:
    """Return an Arrow array as a column of its own kind; ``kind`` may ask for text, or for booleans as numbers.

    Durations and times of day become seconds.
    """
    import pyarrow as pa
    import pyarrow.types as t

    own = arrow_kind(array.type)
    if own is None:
        raise ValueTypeError(
            f"the column {name!r} has the type {array.type}; drop it, or convert it to numbers or text"
        )
    if own == "text":
        _check_views(name, array)
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if t.is_dictionary(array.type) and own != "text":
        array = array.dictionary_decode()
    try:
        column = _CONVERTERS[own](array)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise ValueTypeError(f"the column {name!r} of type {array.type} cannot be converted: {error}") from error
    if kind == "text":
        return column.as_text()
    return replace(column, kind="number") if (own, kind) == ("boolean", "number") else column


def _text(array: Any) -> Column:
    import pyarrow as pa
    import pyarrow.types as t

    if not t.is_dictionary(array.type):
        # A cast of views would copy each of them, and may overflow.
        array = (array if t.is_string_view(array.type) else array.cast(pa.string())).dictionary_encode()
    coded = array
    codes = _numpy(coded.indices.cast(pa.int32()), np.int32, -1)
    words = coded.dictionary.to_pylist()
    if None in words:  # a missing value may also be an entry of the dictionary
        codes = np.where(codes == words.index(None), -1, codes)
        words = [word or "" for word in words]
    return Column("text", codes, tuple(map(str.strip, words)))


def _check_views(name: str, array: Any) -> None:
    """Raise ValueTypeError if views of text claim far more bytes than there are.

    Any number of views may share the same bytes, so a small file or request could claim any amount of memory.
    """
    import pyarrow as pa
    import pyarrow.types as t

    for chunk in array.chunks if isinstance(array, pa.ChunkedArray) else [array]:
        texts = chunk.dictionary if t.is_dictionary(chunk.type) else chunk
        if not t.is_string_view(texts.type) or not len(texts):
            continue
        begin, end = texts.offset, texts.offset + len(texts)
        lengths = np.frombuffer(texts.buffers()[1], np.int32)[4 * begin : 4 * end : 4]  # a view begins with its length
        if lengths[~_missing(texts)].sum(dtype=np.int64) > MOST_SHARED * texts.nbytes:
            raise ValueTypeError(
                f"the values of the column {name!r} share their bytes; write it as plain text", column=name
            )


def _missing(array: Any) -> npt.NDArray[np.bool_]:
    return arrow_memory(array.is_null().cast("int8"), np.bool_)


def _date(array: Any) -> Column:
    import pyarrow as pa
    import pyarrow.types as t

    zone, rounded = None, False
    if t.is_timestamp(array.type):
        zone, rounded = array.type.tz, array.type.unit == "ns"
    # Only nanoseconds lose digits in microseconds, and they cannot overflow; anything else that is lost is an error.
    array = array.cast(pa.timestamp("us", zone), safe=not rounded)
    return Column("date", _numpy(array.cast(pa.int64()), np.int64, NOT_A_TIME).view("datetime64[us]"))


def _boolean(array: Any) -> Column:
    import pyarrow as pa

    return Column("boolean", _numpy(array.cast(pa.int8()).cast(pa.float64()), np.float64, np.nan))


def _number(array: Any) -> Column:
    import pyarrow as pa
    import pyarrow.types as t

    if t.is_duration(array.type) or t.is_time(array.type):
        whole = array.cast(pa.int32() if array.type.bit_width == 32 else pa.int64())
        counts = _numpy(whole.cast(pa.float64(), safe=False), np.float64, np.nan)
        return Column("number", counts / _UNITS_PER_SECOND[array.type.unit])
    return Column("number", _numpy(array.cast(pa.float64(), safe=False), np.float64, np.nan))


def _numpy(array: Any, dtype: Any, missing: float) -> npt.NDArray[Any]:
    """Return the values of an Arrow array, as a read-only view if none is missing.

    ``array.to_numpy`` and ``array.fill_null`` would import pandas, if it is installed, which takes as long as the
    start of a run.
    """
    values = arrow_memory(array, dtype)
    if not array.null_count:
        return values
    return np.where(_missing(array), np.array(missing, dtype), values)


def arrow_memory(array: Any, dtype: Any) -> npt.NDArray[Any]:
    """Return the memory of an Arrow array, read-only; what stands in place of a missing value means nothing."""
    if not len(array):
        return np.zeros(0, dtype)
    return np.frombuffer(array.buffers()[1], dtype, array.offset + len(array))[array.offset :]


_CONVERTERS = {"text": _text, "date": _date, "boolean": _boolean, "number": _number}


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
