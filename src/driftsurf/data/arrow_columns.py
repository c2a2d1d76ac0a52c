"""Columns of Arrow tables, and of the Parquet and CSV files that pyarrow reads, as columns of a table."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from driftsurf.data.kinds import Kind
from driftsurf.data.tables import Column
from driftsurf.errors import ValueTypeError

__all__ = ["arrow_column", "arrow_kind"]

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
    return "text" if any(is_a(type_) for is_a in (t.is_string, t.is_large_string, t.is_null)) else None


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
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if t.is_dictionary(array.type) and own != "text":
        array = array.dictionary_decode()
    try:
        column = _CONVERTERS[own](array)
    except pa.ArrowInvalid as error:
        raise ValueTypeError(f"the column {name!r} of type {array.type} cannot be converted: {error}") from error
    if kind == "text":
        return column.as_text()
    return replace(column, kind="number") if (own, kind) == ("boolean", "number") else column


def _text(array: Any) -> Column:
    import pyarrow as pa
    import pyarrow.types as t

    coded = array if t.is_dictionary(array.type) else array.cast(pa.string()).dictionary_encode()
    codes = coded.indices.cast(pa.int32()).fill_null(-1).to_numpy(zero_copy_only=False)
    words = coded.dictionary.to_pylist()
    if None in words:  # a missing value may also be an entry of the dictionary
        codes = np.where(codes == words.index(None), -1, codes)
        words = [word or "" for word in words]
    return Column("text", codes, tuple(map(str.strip, words)))


def _date(array: Any) -> Column:
    import pyarrow as pa
    import pyarrow.types as t

    zone, rounded = None, False
    if t.is_timestamp(array.type):
        zone, rounded = array.type.tz, array.type.unit == "ns"
    # Only nanoseconds lose digits in microseconds, and they cannot overflow; anything else that is lost is an error.
    array = array.cast(pa.timestamp("us", zone), safe=not rounded)
    return Column("date", array.to_numpy(zero_copy_only=False).astype("datetime64[us]"))


def _boolean(array: Any) -> Column:
    import pyarrow as pa

    return Column("boolean", array.cast(pa.int8()).cast(pa.float64()).to_numpy(zero_copy_only=False))


def _number(array: Any) -> Column:
    import pyarrow as pa
    import pyarrow.types as t

    if t.is_duration(array.type) or t.is_time(array.type):
        whole = array.cast(pa.int32() if array.type.bit_width == 32 else pa.int64())
        counts = whole.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
        return Column("number", counts / _UNITS_PER_SECOND[array.type.unit])
    return Column("number", array.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False))


_CONVERTERS = {"text": _text, "date": _date, "boolean": _boolean, "number": _number}
