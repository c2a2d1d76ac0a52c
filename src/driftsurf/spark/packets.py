"""Rows as packets: one binary value holds all rows that a task has for a bucket of keys.

Spark's cost of passing values between processes is per value, so that rows travel by the hundred. A packet is a record
batch of Arrow without its schema, which both sides know.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from driftsurf.core.contracts import FloatArray, IntArray
from driftsurf.keyed.rows import RowsByKey

PACKETS = "bucket bigint, newest bigint, packet binary"
"""The columns of a frame of packets; without a packet, the row says that the bucket is to be opened, or dropped."""
MOST_ROWS = 2**17
"""Rows of a task that are divided into packets together."""


class Buckets(NamedTuple):
    """Into how many buckets the keys of a run are grouped.

    When the number changes, all buckets get other names, the next ``generation``, so that each begins with the states
    of its keys from the files in ``base``, and the buckets of the earlier generation are dropped.
    """

    number: int
    generation: int = 0
    earlier: int = 0
    """How many buckets the earlier generation had; 0 when they have been dropped."""
    base: str = ""
    """Folder with a file for each bucket; empty when all buckets have been opened."""

    @property
    def first(self) -> int:
        """The name of the first bucket of this generation."""
        return self.generation << 32

    def changes(self) -> tuple[range, range]:
        """Return the names of buckets that are to be opened or dropped by the next epoch."""
        before = (self.generation - 1) << 32
        return range(before, before + self.earlier), range(self.first, self.first + self.number)


def bucket_of(key: Any, number: int) -> Any:
    """Return a column with the bucket of each key, a hash that is the same on all machines and for ever."""
    return F.pmod(F.xxhash64(key), F.lit(number)).cast("bigint")


def packet_schema(key: pa.DataType, label: pa.DataType, id_: pa.DataType | None, n_features: int) -> pa.Schema:
    """Return the columns of a packet."""
    columns = {"key": key, "sequence": pa.int64(), "label": label, "X": pa.list_(pa.float64(), n_features)}
    return pa.schema(columns | ({} if id_ is None else {"id": id_}))


def packed(frame: DataFrame, schema: pa.Schema, buckets: Buckets) -> DataFrame:
    """Return a frame of packets; the given one has the columns bucket, key, sequence, label, id, and then features."""
    return frame.mapInArrow(_packer(schema, buckets), PACKETS)


def _packer(schema: pa.Schema, buckets: Buckets) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        announced = not buckets.base or TaskContext.get().partitionId() > 0
        for batch in _chunks(batches):
            newest = pa.compute.max(batch["sequence"]).as_py()
            names, packets = _divided(batch, schema, buckets)
            if not announced:
                changes = [*itertools.chain(*buckets.changes())]
                names, packets, announced = [*changes, *names], [*(None for _ in changes), *packets], True
            columns = [
                pa.array(names, pa.int64()),
                pa.array([newest] * len(names), pa.int64()),
                pa.array(packets, pa.binary()),
            ]
            yield pa.record_batch(columns, names=["bucket", "newest", "packet"])

    return pack


def _chunks(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Yield batches together, as many as make ``MOST_ROWS``."""
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        if len(batch):
            waiting.append(batch)
        if sum(map(len, waiting)) >= MOST_ROWS:
            yield pa.Table.from_batches(waiting)
            waiting = []
    if waiting:
        yield pa.Table.from_batches(waiting)


def _divided(rows: pa.Table, schema: pa.Schema, buckets: Buckets) -> tuple[list[int], list[bytes | None]]:
    """Return the names of the buckets that have rows, and a packet for each."""
    of_row = rows["bucket"].to_numpy()
    order = np.argsort(of_row, kind="stable")
    ordered = of_row[order]
    n_features = schema.field("X").type.list_size
    features = [column.to_numpy()[order] for column in rows.columns[-n_features:]]  # a gap becomes NaN
    X = pa.FixedSizeListArray.from_arrays(pa.array(np.column_stack(features).ravel()), n_features)
    own = {name: rows[name].take(pa.array(order)).combine_chunks() for name in schema.names if name != "X"}
    batch = pa.Table.from_pydict({**own, "X": X}).select(schema.names).cast(schema).combine_chunks().to_batches()[0]
    bounds = np.flatnonzero(np.diff(ordered, prepend=-1, append=-1)).tolist()
    packets: list[bytes | None] = [
        batch.slice(a, b - a).serialize().to_pybytes() for a, b in itertools.pairwise(bounds)
    ]
    return (buckets.first + ordered[bounds[:-1]]).tolist(), packets


class Unpacked(NamedTuple):
    """Rows by key, and how many were dropped because they came too late."""

    rows: RowsByKey
    late: int


def from_packets(packets: Iterable[bytes], schema: pa.Schema, above: int | None) -> Unpacked:
    """Return the rows of packets by key, in the order of the keys and along their sequence numbers.

    Only rows with a sequence number ``above`` one are returned.
    """
    batches = [pa.ipc.read_record_batch(pa.py_buffer(packet), schema) for packet in packets]
    table = pa.Table.from_batches(batches, schema)
    count = len(table)
    if above is not None:
        table = table.filter(pa.compute.greater(table["sequence"], above))
    table = table.combine_chunks()
    names, keys = _codes(table["key"])
    ranked = sorted(range(len(names)), key=names.__getitem__)
    rank = np.empty(len(names), np.int64)
    rank[ranked] = np.arange(len(names))
    sequence, keys = table["sequence"].to_numpy(), rank[keys]
    words, codes = _codes(table["label"])
    rows = RowsByKey(
        [names[place] for place in ranked],
        np.append(0, np.cumsum(np.bincount(keys, minlength=len(names)))),
        np.lexsort((sequence, keys)),  # stable: of rows with the same number, the first one counts
        sequence=sequence,
        X=_flat(table["X"]).reshape(len(sequence), schema.field("X").type.list_size),
        codes=codes,
        words=words,
        ids=_plain_values(table["id"]) if "id" in schema.names else None,
    )
    return Unpacked(rows, count - len(sequence))


def _flat(lists: pa.ChunkedArray) -> FloatArray:
    """Return the values of all lists."""
    values: FloatArray = lists.combine_chunks().flatten().to_numpy()
    return values


def _codes(column: pa.ChunkedArray) -> tuple[list[Any], IntArray]:
    """Return the values of a column, each once, and their places in it; -1 for a gap."""
    found = column.combine_chunks().dictionary_encode()
    words = _plain_values(pa.chunked_array([found.dictionary]))
    codes: IntArray = found.indices.fill_null(-1).to_numpy().astype(np.int64)
    if None in words:  # NaN is a gap
        place = words.index(None)
        del words[place]
        codes = np.where(codes == place, -1, codes - (codes > place))
    return words, codes


def _plain_values(column: pa.ChunkedArray) -> list[Any]:
    """Return labels or ids as the local engine reads them: NaN is a gap, and 2.0 is the integer 2."""
    values: list[Any] = column.to_pylist()
    if pa.types.is_floating(column.type):
        return [None if value is None or math.isnan(value) else _plain_number(value) for value in values]
    return values


def _plain_number(value: float) -> float | int:
    return int(value) if value.is_integer() else value
