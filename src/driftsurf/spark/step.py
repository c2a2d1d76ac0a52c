"""The stateful step on Spark: each bucket of keys is served once per micro-batch, and its states are kept together."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from driftsurf.core.options import number, whole
from driftsurf.errors import Message, Option, SchemaError
from driftsurf.keyed.grouping import Columns, label_type
from driftsurf.keyed.options import BUCKETS
from driftsurf.keyed.results import Name, key_columns
from driftsurf.keyed.visit import KeyedLearner
from driftsurf.spark.bucket_store import ServedBucket, server_for
from driftsurf.spark.files import column
from driftsurf.spark.packets import Buckets, bucket_of, from_packets, packed, packet_schema

STATE, HEAD, CHANGES = "bucket", "head", "changes"
"""Names of the states in Spark's store: all keys of a bucket, its head, and its changes by their place."""
MOST_BUCKETS = 2**24

SHIFT = 1
"""Added to sequence numbers: a watermark starts at 0, and only rows above it are in time, so that 0 must lie above."""
SPARK_TYPES = {"int64": "bigint", "string": "string", "bool_": "boolean", "float64": "double"}
ARROW_TYPES = {"int64": pa.int64(), "string": pa.string(), "bool_": pa.bool_(), "float64": pa.float64()}
INTEGERS: Any = T.ByteType, T.ShortType, T.IntegerType, T.LongType
LABEL_TYPES: dict[str, Any] = {
    "int64": INTEGERS,
    "bool_": T.BooleanType,
    "float64": (T.FloatType, T.DoubleType, T.DecimalType),
    "string": T.DataType,
}
"""How keys, labels and ids are kept, by their type in the frame; the first match counts, and all else is text."""


def file_of(bucket: int) -> str:
    """Return the name of the file with the first states of a bucket."""
    return f"{bucket:08d}.states"


class _Values:
    """What Spark's store holds for the bucket that is being served."""

    def __init__(self, handle: StatefulProcessorHandle) -> None:
        self._whole = handle.getValueState(STATE, "bytes binary")
        self._head = handle.getValueState(HEAD, "bytes binary")
        self._changes = handle.getMapState(CHANGES, "place int", "bytes binary")

    def head(self) -> bytes | None:
        """Return the head, or None."""
        return _bytes(self._head.get())

    def whole(self) -> bytes | None:
        """Return all keys as they were last written, or None."""
        return _bytes(self._whole.get())

    def changes(self, place: int) -> bytes | None:
        """Return the changes in a place, or None."""
        return _bytes(self._changes.getValue((place,)))

    def put(self, head: bytes, whole: bytes | None, changes: bytes | None, place: int) -> None:
        """Keep a head, and all keys or changes or both; Spark makes them visible with the epoch."""
        if whole is not None:
            self._whole.update((whole,))
        if changes is not None:
            self._changes.updateValue((place,), (changes,))
        self._head.update((head,))

    def clear(self) -> None:
        """Remove everything."""
        for state in (self._whole, self._head, self._changes):
            state.clear()


def _bytes(kept: Any) -> bytes | None:
    return None if kept is None else bytes(kept[0])


class _Learn(StatefulProcessor):  # type: ignore[misc]
    """Serves the buckets of keys of a micro-batch."""

    def __init__(
        self, learner: KeyedLearner, schema: pa.Schema, types: tuple[str, str], buckets: Buckets, ttl: int | None
    ) -> None:
        self._learner = learner
        self._schema = schema
        self._types = types
        self._buckets = buckets
        self._ttl = ttl

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the state on a worker."""
        self._handle = handle
        self._values = _Values(handle)
        self._server = server_for(self._learner, self._buckets.number)

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        """Learn the rows of one bucket, which come in any order."""
        packets = [row["packet"] for row in rows]
        if key[0] < self._buckets.first:  # its keys are in other buckets now
            self._values.clear()
            return
        above = None if self._ttl is None else timerValues.getCurrentWatermarkInMs() - SHIFT
        given = from_packets([bytes(packet) for packet in packets if packet is not None], self._schema, above)
        served = self._server.serve(key[0], self._values, given.rows, self._first_of(key[0]))
        yield self._done(served, late=given.late, opened=None in packets)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        """Drop the states of keys whose last rows the watermark has passed.

        A timer was set after each visit to the bucket; those of earlier visits may find nothing to drop.
        """
        if key[0] < self._buckets.first:
            return
        passed = max(expiredTimerInfo.getExpiryTimeInMs(), timerValues.getCurrentWatermarkInMs() - 1)
        served = self._server.expire(key[0], self._values, passed - SHIFT, self._first_of(key[0]))
        if served.results.n_keys:
            yield self._done(served)

    def close(self) -> None:
        """Release nothing: all that a key has is in the state store."""

    def _first_of(self, name: int) -> Callable[[], bytes | None]:
        """Return what reads the keys that a bucket begins with, which were in other buckets before."""

        def read() -> bytes | None:
            base = self._buckets.base
            return (Path(base) / file_of(name - self._buckets.first)).read_bytes() if base else None

        return read

    def _done(self, served: ServedBucket, *, late: int = 0, opened: bool = False) -> Row:
        """Return what came of serving a bucket; a timer is set for its next key to expire."""
        if self._ttl is not None and served.oldest is not None:
            self._handle.registerTimer(served.oldest + 1 + SHIFT)
        results = served.results
        made = {name: _to_stream(table) for name, table in results.tables(*self._types).items()}
        return Row(n_keys=results.n_keys, n_rows=results.n_rows, late=late, opened=opened, **made, types=None)


def _to_stream(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    made: bytes = sink.getvalue().to_pybytes()
    return made


def _from_streams(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the tables that are in the first column of batches, one after the other."""
    for batch in batches:
        for value in batch.column(0):
            yield from pa.ipc.open_stream(value.as_buffer())


def learn_keys(
    df: DataFrame,
    learner: KeyedLearner,
    columns: Columns,
    *,
    ttl: float | None = None,
    buckets: int | Buckets = BUCKETS,
) -> DataFrame:
    """Return a frame with one row per bucket of keys and micro-batch, which :func:`table` turns into flat tables.

    Rows without a key or a sequence number are dropped.

    Parameters
    ----------
    df
        A streaming frame, or a static one, in which each key is visited once.
    learner
        What learns each key.
    columns
        The names of the columns.
    ttl
        In units of the sequence, measured from the newest sequence number of all keys (at least 0, below 9e15) as a
        watermark: rows of a stream that are later than that are dropped, and so are keys that are silent for longer.
    buckets
        How many buckets the keys share by a hash; the states of a bucket are kept together. The number stays fixed for
        the life of a checkpoint; StateError if a bucket was saved with another one.
    """
    learner.check()
    if not isinstance(buckets, Buckets):
        buckets = Buckets(whole("buckets", buckets, at_least=1, at_most=MOST_BUCKETS))
    span = None if ttl is None else int(number("ttl", ttl, above=0.0))
    selected = _selected(df, learner, columns, buckets)
    types = {entry.name: entry.dataType for entry in selected.schema.fields}
    kinds = {name: _kept_type(types[name]) for name in ("key", "label", "id") if name in types}
    arrow = {name: ARROW_TYPES[kind] for name, kind in kinds.items()}
    schema = packet_schema(arrow["key"], arrow["label"], arrow.get("id"), len(learner.features))
    label = kinds["label"]
    if learner.regression or label == "float64":
        label = label_type("number", learner)
    packets = packed(selected, schema, buckets)
    if not df.isStreaming:
        span = None
    elif span is not None:
        at = F.timestamp_millis(F.col("newest") + SHIFT)
        packets = packets.withColumn("at", at).withWatermark("at", f"{span} milliseconds")
    processor = _Learn(learner, schema, (kinds["key"], label), buckets, span)
    output = (
        "n_keys bigint, n_rows bigint, late bigint, opened boolean, predictions binary, journal binary, keys binary, "
        f"types struct<key: {SPARK_TYPES[kinds['key']]}, label: {SPARK_TYPES[label]}>"
    )
    mode = "None" if span is None else "EventTime"
    return packets.groupBy("bucket").transformWithState(processor, output, "Update", mode)


def _selected(df: DataFrame, learner: KeyedLearner, columns: Columns, buckets: Buckets) -> DataFrame:
    """Return the columns bucket, key, sequence, label and id, under these names, and the features behind them."""
    types = {entry.name: entry.dataType for entry in df.schema.fields}
    _check_types(types, learner, columns)
    key, sequence = column(columns.key), column(columns.sequence)
    if not isinstance(types[columns.key], T.StringType):
        key = key.cast("bigint")
    if isinstance(types[columns.sequence], T.TimestampType):
        sequence = F.unix_micros(sequence)
    chosen = [
        bucket_of(key, buckets.number).alias("bucket"),
        key.alias("key"),
        sequence.cast("bigint").alias("sequence"),
        _kept(column(columns.label), types[columns.label]).alias("label"),
    ]
    if columns.id is not None:
        chosen.append(_kept(column(columns.id), types[columns.id]).alias("id"))
    features = [column(name).try_cast("double").alias(f"x{place}") for place, name in enumerate(learner.features)]
    return df.select(*chosen, *features).where("key is not null and sequence is not null")


def _check_types(types: dict[str, T.DataType], learner: KeyedLearner, columns: Columns) -> None:
    """Raise SchemaError if a column is missing or has a type that cannot be used."""
    unknown = [name for name in (*columns, *learner.features) if name is not None and name not in types]
    if unknown:
        hint = Message("; if a CSV file has another delimiter than a comma, set it with ", Option("delimiter"))
        found = f"there is no column {', '.join(unknown)}; the columns are {', '.join(types)}"
        raise SchemaError(found, hint if len(types) == 1 else "")
    names = {name: kind.simpleString() for name, kind in types.items()}
    if not isinstance(types[columns.key], (*INTEGERS, T.StringType)):
        raise SchemaError(f"the key {columns.key!r} is {names[columns.key]}; cast it to bigint or string")
    if not isinstance(types[columns.sequence], (*INTEGERS, T.TimestampType)):
        raise SchemaError(
            f"the sequence {columns.sequence!r} is {names[columns.sequence]}; cast it to bigint or timestamp"
        )
    for name in learner.features:
        if not isinstance(types[name], (T.NumericType, T.BooleanType)):
            raise SchemaError(
                f"the feature {name!r} is {names[name]}, and a keyed run learns from numbers only: leave it out of ",
                Option("features"),
                ", or convert it to numbers first",
            )
    if learner.regression and not isinstance(types[columns.label], (T.NumericType, T.BooleanType)):
        raise SchemaError(f"the label {columns.label!r} is {names[columns.label]}; regression needs numbers")


def _kept(values: Any, kind: T.DataType) -> Any:
    """Cast a label or an id to one of the types in which it is kept."""
    return values.cast(SPARK_TYPES[_kept_type(kind)])


def _kept_type(kind: T.DataType) -> str:
    return next(name for name, kinds in LABEL_TYPES.items() if isinstance(kind, kinds))


def table(visits: DataFrame, name: Name) -> DataFrame:
    """Flatten the result of ``learn_keys``: a row per prediction, per time step ("journal"), or per key."""
    types: Any = visits.schema["types"].dataType
    key, label = (types[place].dataType.simpleString() for place in ("key", "label"))
    schema = {
        "predictions": f"key {key}, sequence bigint, prediction {label}, true {label}",
        "journal": f"key {key}, sequence bigint, transitions string, record string",
        "keys": ", ".join([f"key {key}", *(f"{own} {SPARK_TYPES[kind]}" for own, kind in key_columns().items())]),
    }[name]
    return visits.select(name).mapInArrow(_from_streams, schema)
