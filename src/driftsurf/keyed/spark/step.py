"""The stateful step on Spark: one visit per key and micro-batch, the bytes of a key in the state store."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from driftsurf.core.options import number
from driftsurf.errors import Message, Option, SchemaError
from driftsurf.keyed.folder import Name, fitted, key_entry
from driftsurf.keyed.grouping import Columns, label_type
from driftsurf.keyed.rows import KeyRows
from driftsurf.keyed.spark.files import column
from driftsurf.keyed.summary import key_columns
from driftsurf.keyed.visit import KeyedLearner, Visit

__all__ = ["learn_keys", "table"]

SHIFT = 1
"""Added to sequence numbers: a watermark starts at 0, and only rows above it are in time, so that 0 must lie above."""
SPARK_TYPES = {"int64": "bigint", "string": "string", "bool_": "boolean", "float64": "double"}
INTEGERS: Any = T.ByteType, T.ShortType, T.IntegerType, T.LongType
LABEL_TYPES: dict[str, Any] = {
    "int64": INTEGERS,
    "bool_": T.BooleanType,
    "float64": (T.FloatType, T.DoubleType, T.DecimalType),
    "string": T.DataType,
}
"""How labels and ids are kept, by their type in the frame; the first match counts, and all else is text."""


class _Learn(StatefulProcessor):  # type: ignore[misc]
    """Visits each key of a micro-batch."""

    def __init__(self, learner: KeyedLearner, label: str, late: bool, ttl: int | None) -> None:
        self._learner = learner
        self._label = label
        self._late = late
        self._ttl = ttl

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the state on a worker."""
        self._handle = handle
        self._state = handle.getValueState("learner", "bytes binary")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        """Learn the rows of one key, which come in any order."""
        kept = self._state.get()
        visit = self._learner.visit(key[0], None if kept is None else bytes(kept[0]), self._read(rows))
        self._state.update((visit.state,))
        if self._ttl is not None and visit.summary.high_water is not None:
            self._handle.registerTimer(visit.summary.high_water + 1 + SHIFT)
        yield _as_row(key[0], visit, self._label)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        """Drop the state of a key once the watermark has passed its last row.

        A timer was set after each visit; those of earlier visits are ignored.
        """
        kept = self._state.get()
        if kept is None:
            return
        visit = self._learner.expire(key[0], bytes(kept[0]))
        last, expiry = visit.summary.high_water, expiredTimerInfo.getExpiryTimeInMs()
        if last is not None and last + SHIFT < expiry:
            self._state.clear()
            yield _as_row(key[0], visit, self._label)

    def close(self) -> None:
        """Release nothing: all that a key has is in the state store."""

    def _read(self, rows: Iterable[Row]) -> KeyRows:
        given = list(rows)
        X = np.array([row["features"] for row in given], np.float64).reshape(-1, len(self._learner.features))
        return KeyRows(
            np.array([row["sequence"] for row in given], np.int64),
            X,
            [_plain_value(row["label"]) for row in given],
            [_plain_value(row["id"]) for row in given] if self._late else None,
        )


def _plain_value(value: Any) -> Any:
    """Return a label or an id as the local engine reads it: NaN is a gap, and 2.0 is the integer 2."""
    if not isinstance(value, float):
        return value
    return None if math.isnan(value) else int(value) if value.is_integer() else value


def _as_row(key: Any, visit: Visit, label: str) -> Row:
    return Row(
        key=key,
        sequence=visit.sequence,
        predicted=fitted(visit.predicted, label),
        true=fitted(visit.true, label),
        decided_at=visit.decided_at,
        transitions=visit.transitions,
        decisions=visit.decisions,
        summary=Row(**key_entry(visit)),
    )


def learn_keys(df: DataFrame, learner: KeyedLearner, columns: Columns, *, ttl: float | None = None) -> DataFrame:
    """Return a frame with one row per key and micro-batch: predictions, decisions and a summary of the key.

    :func:`table` turns the result into flat tables. Rows without a key or a sequence number are dropped.

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
        watermark: Spark drops rows that are later than that (and counts them in its progress), and keys that are
        silent for longer are dropped.
    """
    learner.check()
    selected = _selected(df, learner, columns)
    types = {entry.name: entry.dataType for entry in selected.schema.fields}
    label = _kept_type(types["label"])
    if learner.regression or label == "float64":
        label = label_type("number", learner)
    output = _output_type(types["key"].simpleString(), SPARK_TYPES[label])
    span = None if ttl is None else int(number("ttl", ttl, above=0.0))
    processor = _Learn(learner, label, columns.id is not None, span)
    if ttl is not None:
        at = F.timestamp_millis(F.col("sequence") + SHIFT)
        selected = selected.withColumn("at", at).withWatermark("at", f"{span} milliseconds")
    mode = "None" if ttl is None else "EventTime"
    return selected.groupBy("key").transformWithState(processor, output, "Update", mode)


def _selected(df: DataFrame, learner: KeyedLearner, columns: Columns) -> DataFrame:
    """Return the columns key, sequence, features (as one array), label and id, under these names."""
    types = {entry.name: entry.dataType for entry in df.schema.fields}
    _check_types(types, learner, columns)
    key, sequence = column(columns.key), column(columns.sequence)
    if not isinstance(types[columns.key], T.StringType):
        key = key.cast("bigint")
    if isinstance(types[columns.sequence], T.TimestampType):
        sequence = F.unix_micros(sequence)
    chosen = [
        key.alias("key"),
        sequence.cast("bigint").alias("sequence"),
        F.array(*[column(name).try_cast("double") for name in learner.features]).alias("features"),
        _kept(column(columns.label), types[columns.label]).alias("label"),
    ]
    if columns.id is not None:
        chosen.append(_kept(column(columns.id), types[columns.id]).alias("id"))
    return df.select(*chosen).where("key is not null and sequence is not null")


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


def _output_type(key: str, label: str) -> T.StructType:
    summary = ", ".join(f"{name}: {SPARK_TYPES[kind]}" for name, kind in key_columns().items())
    made: Any = T._parse_datatype_string(
        f"key {key}, sequence array<bigint>, predicted array<{label}>, true array<{label}>, "
        f"decided_at array<bigint>, transitions array<string>, decisions array<string>, summary struct<{summary}>"
    )
    return made


def table(visits: DataFrame, name: Name) -> DataFrame:
    """Flatten the result of ``learn_keys``: a row per prediction, per time step ("journal"), or per key."""
    if name == "keys":
        return visits.select("key", "summary.*")
    arrays = {
        "predictions": ("sequence", "predicted", "true"),
        "journal": ("decided_at", "transitions", "decisions"),
    }[name]
    zipped = visits.select("key", F.explode(F.arrays_zip(*arrays)).alias("one")).select("key", "one.*")
    if name == "journal":
        return zipped.withColumnsRenamed({"decided_at": "sequence", "decisions": "record"})
    return zipped.withColumnRenamed("predicted", "prediction")
