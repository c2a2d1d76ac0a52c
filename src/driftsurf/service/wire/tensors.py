"""Tensors of the Open Inference Protocol: their bytes, and the rows that they are the columns of."""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

from driftsurf.core.options import shown
from driftsurf.data.formats._cells import date_reader, make_column
from driftsurf.data.reading_options import Kind
from driftsurf.data.tables import Column, Table
from driftsurf.errors import InputError
from driftsurf.service.wire.rows import (
    ColumnarRows,
    RowFault,
    RowsRead,
    WireFormat,
    check_value,
    refuse_first,
    word_of,
)

Values: TypeAlias = Sequence[Any] | npt.NDArray[Any]
"""Values of a tensor one after the other: as JSON has them, or as an array of numbers."""
_NUMBERS: Final[Mapping[str, str]] = {
    "BOOL": "u1",
    "UINT8": "u1",
    "UINT16": "<u2",
    "UINT32": "<u4",
    "UINT64": "<u8",
    "INT8": "i1",
    "INT16": "<i2",
    "INT32": "<i4",
    "INT64": "<i8",
    "FP16": "<f2",
    "FP32": "<f4",
    "FP64": "<f8",
    "BF16": "<u2",
}
"""How the values of each type are written, without gaps and row by row."""
DATATYPES: Final = (*_NUMBERS, "BYTES")
_LENGTH: Final = struct.Struct("<I")
"""Length of a value of the type BYTES, which stands before it."""
_MANY = list[bool | float | None]


def from_bytes(name: str, datatype: str, count: int, data: memoryview) -> Values:
    """Return the values of a tensor; InputError if the bytes are not exactly as many values as its shape says.

    >>> from_bytes("price", "FP32", 2, memoryview(bytes.fromhex("0000803f00000040"))).tolist()
    [1.0, 2.0]
    >>> from_bytes("city", "BYTES", 1, memoryview(b"\\4\\0\\0\\0Rome"))
    ['Rome']
    """
    if datatype == "BYTES":
        return _texts(name, count, data)
    kind = np.dtype(_NUMBERS[datatype])
    if len(data) != count * kind.itemsize:
        raise InputError(
            f"the input {name!r} has {len(data):,} bytes; its shape and {datatype} need {count * kind.itemsize:,}"
        )
    values = np.frombuffer(data, kind)
    if datatype == "BF16":  # the upper half of a float32
        return (values.astype(np.uint32) << 16).view(np.float32)
    if datatype == "BOOL":
        if len(values) and values.max() > 1:
            raise InputError(f"the input {name!r} has a byte other than 0 and 1; write each BOOL as one of them")
        return values.astype(bool)
    return values


def _texts(name: str, count: int, data: memoryview) -> list[str]:
    """Return texts, each of which stands behind its length."""
    if count * _LENGTH.size > len(data):
        raise InputError(f"the input {name!r} has {len(data):,} bytes, and {count:,} values of BYTES need more")
    texts: list[str] = []
    place = 0
    for row in range(count):
        begin = place + _LENGTH.size
        end = begin + _LENGTH.unpack_from(data, place)[0] if begin <= len(data) else len(data) + 1
        if end > len(data):
            raise InputError(f"the value {row} of the input {name!r} ends behind the bytes of the input")
        try:
            texts.append(str(data[begin:end], "utf-8"))
        except UnicodeDecodeError:
            raise InputError(f"the value {row} of the input {name!r} is no text in UTF-8") from None
        place = end
    if place < len(data):
        raise InputError(f"the input {name!r} has {len(data) - place:,} bytes behind its last value")
    return texts


def to_bytes(datatype: str, values: Sequence[Any]) -> bytes:
    """Return the values of a tensor as bytes.

    >>> to_bytes("BYTES", ["yes"]), to_bytes("BOOL", [True, False])
    (b'\\x03\\x00\\x00\\x00yes', b'\\x01\\x00')
    """
    if datatype == "BYTES":
        written = [one.encode("utf-8", "surrogatepass") for one in values]
        return b"".join(part for one in written for part in (_LENGTH.pack(len(one)), one))
    return np.asarray(values, _NUMBERS[datatype]).tobytes()


class TensorRows:
    """Reads rows from tensors, each of them a column; values are checked as those of rows in JSON are.

    Examples
    --------
    >>> from driftsurf.service.wire.rows import WireColumn
    >>> rows = TensorRows(WireFormat((WireColumn("price", "number"), WireColumn("city", "text"))))
    >>> rows.read({"price": np.array([99.0]), "city": ["Rome"]}).table["city"].words
    ('Rome',)
    """

    def __init__(self, format: WireFormat) -> None:
        self.format = format
        self._read_date = date_reader(format.reading)
        self._kinds: dict[str, Kind] = {one.name: one.kind for one in format.columns or ()}

    def read(self, tensors: Mapping[str, Values]) -> RowsRead:
        """Return the rows of tensors that are equally long; BadRowError for a bad row."""
        columns: dict[str, Column] = {}
        for name, values in tensors.items():
            kind = "text" if name == self.format.id else self._kinds.get(name)
            if kind is None:  # not known, so not converted
                columns[name] = Column("text", np.full(len(values), -1, np.int32))
            else:
                columns[name] = self._column(name, kind, values)
        return ColumnarRows(self.format).rows(Table(columns), (), "fail")

    def _column(self, name: str, kind: Kind, values: Values) -> Column:
        if kind in ("number", "boolean"):
            numbers = _numbers(values)
            if numbers is not None:
                return Column(kind, numbers)
        plain: Sequence[Any] = values.tolist() if isinstance(values, np.ndarray) else values
        if isinstance(values, np.ndarray) and values.dtype.kind == "f":
            plain = [None if math.isnan(value) else value for value in plain]
        for row, value in enumerate(plain):
            problem = None if value is None else check_value(kind, value, self._read_date)
            if problem is not None:
                refuse_first([RowFault(row, name, shown(value), *problem)], "fail")
        if kind in ("number", "boolean"):
            return Column(kind, np.array(plain, np.float64))
        read = self._read_date if kind == "date" else word_of
        return make_column(kind, [None if value is None else read(value) for value in plain])


def _numbers(values: Values) -> npt.NDArray[np.float64] | None:
    """Return values as numbers, NaN for one that is missing; None if one of them is no finite number."""
    if not isinstance(values, np.ndarray):
        try:
            values = np.array(msgspec.convert(values, _MANY), np.float64)
        except (msgspec.ValidationError, OverflowError):
            return None
    numbers = values.astype(np.float64)
    return None if np.isinf(numbers).any() else numbers
