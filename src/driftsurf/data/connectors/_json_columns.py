"""JSON objects as columns, with pyarrow: the usual case of what the exact reader of JSON lines does, many times faster.

Whatever is not usual is refused before anything is returned, and left to the exact reader.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from driftsurf.data.formats._cells import date_reader
from driftsurf.data.kinds import Kind
from driftsurf.data.reading_options import ReadingOptions
from driftsurf.data.tables import Column, Table

__all__ = ["json_columns"]

_WHOLE_ZERO = re.compile(rb"-0(?![.eE0-9])")
"""A whole number, which has no sign for the exact reader, and has one for pyarrow; or the same in text."""


def json_columns(values: Sequence[bytes], kinds: Mapping[str, Kind], reading: ReadingOptions) -> Table | None:
    """Return a table of messages, each of which is an object with no other keys than ``kinds``; None if one is unusual.

    The table is the one that :class:`~driftsurf.data.formats.jsonl.JsonLinesReader` makes.

    >>> table = json_columns([b'{"n": 1}', b'{"n": null}'], {"n": "number"}, ReadingOptions())
    >>> table is None or table["n"].values.tolist()
    [1.0, nan]
    """
    data = b"\n".join(values)
    # One object on each line: an object that ends elsewhere would need a brace inside of text or of another object.
    whole = data[:1] == b"{" and data[-1:] == b"}" and data.count(b"}\n{") == data.count(b"\n") == len(values) - 1
    if not whole or b"\r" in data or (len(data) > reading.max_row_bytes < max(map(len, values))):
        return None
    try:  # imported here, because it takes longer than everything else of a short run
        import pyarrow as pa
        from pyarrow import json as pa_json
    except ImportError:  # the exact reader does without
        return None
    types = {"number": pa.float64(), "boolean": pa.bool_(), "text": pa.string(), "date": pa.string()}
    schema = pa.schema([(name, types[kind]) for name, kind in kinds.items()])
    try:
        data.decode()  # pyarrow does not check text that it does not keep
        found = pa_json.read_json(
            pa.BufferReader(data),
            pa_json.ReadOptions(use_threads=False, block_size=len(data) + 1),
            pa_json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="error"),
        ).combine_chunks()
    except (ValueError, pa.ArrowException):
        return None
    if found.num_rows != len(values):
        return None
    if _WHOLE_ZERO.search(data):
        return None
    columns = dict[str, Column]()
    for name, kind in kinds.items():
        column = _column(found[name], kind, reading)
        if column is None:
            return None
        columns[name] = column
    return Table(columns)


def _column(found: Any, kind: Kind, reading: ReadingOptions) -> Column | None:
    chunk = found.chunk(0) if found.num_chunks else found.combine_chunks()
    if kind == "number":
        values = chunk.to_numpy(zero_copy_only=False)
        # The exact reader tells which number is too large.
        return None if np.count_nonzero(~np.isfinite(values)) != chunk.null_count else Column(kind, np.array(values))
    if kind == "boolean":
        return Column(kind, np.array(chunk.cast("float64").to_numpy(zero_copy_only=False)))
    coded = chunk.dictionary_encode()
    words = [word.strip() for word in coded.dictionary.to_pylist()]
    codes = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int32)
    if kind == "date":
        return _dates(words, codes, reading)
    return _text(words, codes, reading)


def _text(words: Sequence[str], codes: Any, reading: ReadingOptions) -> Column:
    """Return text without the words that mean a missing value, and with those that differ in blanks as one."""
    missing = frozenset(reading.missing_cells)
    known: dict[str, int] = {}
    place = [-1 if word in missing else known.setdefault(word, len(known)) for word in words]
    if place != list(range(len(words))):
        codes = np.array([*place, -1], np.int32)[codes]
    return Column("text", codes, tuple(known))


def _dates(words: Sequence[str], codes: Any, reading: ReadingOptions) -> Column | None:
    missing, read = frozenset(reading.missing_cells), date_reader(reading)
    nothing = np.datetime64("NaT", "us")
    try:
        moments = [nothing if word in missing else read(word) for word in words]
    except ValueError:
        return None
    return Column("date", np.array([*moments, nothing], "datetime64[us]")[codes])
