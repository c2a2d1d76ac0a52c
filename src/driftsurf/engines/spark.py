"""Keyed streams on Apache Spark: one learner for each key in Spark's own checkpointed state store.

The adapter is small: Spark groups rows by key, keeps the bytes and repeats what failed; what is done with a key is
:class:`~driftsurf.engines.keyed.KeyedLearner`. It needs the extra ``spark`` and Java 17.
"""

from __future__ import annotations

import math
import os
import re
import shutil
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from driftsurf._options import number
from driftsurf.engines._rows import Columns, label_type
from driftsurf.engines.keyed import KeyedLearner, KeyRows, Visit
from driftsurf.engines.tables import TABLES, KeyedFolder, Name, fitted, key_columns, key_entry
from driftsurf.errors import MissingExtraError, Option, OptionError, Said, SchemaError, SourceError
from driftsurf.sources import Dialect
from driftsurf.tables import Kind

try:
    from pyspark.sql import DataFrame, Row, SparkSession
    from pyspark.sql import functions as F
    from pyspark.sql import types as T
    from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle
except ImportError as missing:
    raise MissingExtraError(
        f"keyed streams on Spark need pyspark, which is missing ({missing}): pip install 'driftsurf[spark]'"
    ) from missing

__all__ = ["learn_keys", "read_files", "run_spark", "session", "table"]

PROVIDER = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
FORMATS = {".csv": "csv", ".parquet": "parquet", ".jsonl": "json", ".ndjson": "json"}
"""What files are called, and what Spark calls them."""
ENCODINGS = {"utf-8": "UTF-8", "latin-1": "ISO-8859-1"}
"""What Java calls them."""
DIALECT = Dialect()
NO_KINDS: Mapping[str, Kind] = {}
LARGEST_WHOLE = 2.0**53
"""Beyond it numbers are not told apart."""
TRUE, FALSE = (("1", "true", "TRUE", "True"), ("0", "false", "FALSE", "False"))
"""Words that are booleans to the local engine."""
SHIFT = 1
"""A watermark begins at 0, and what is not above it is late: so sequence numbers from 0 on are above."""
_SPARK_TYPES = {"int64": "bigint", "string": "string", "bool_": "boolean", "float64": "double"}
_WHOLE = T.ByteType, T.ShortType, T.IntegerType, T.LongType
_LABELS = {
    "int64": _WHOLE,
    "bool_": T.BooleanType,
    "float64": (T.FloatType, T.DoubleType, T.DecimalType),
    "string": T.DataType,
}
"""How labels are kept, by their type in the frame: all others as text."""


def session(master: str | None = None, *, partitions: int | None = None, **config: str) -> SparkSession:
    """A Spark session that can keep learners: RocksDB as the state store, this Python on every worker.

    ``partitions`` cuts the state: it stays what it is for the life of a run, whatever the number of workers. None is
    two for each core of this machine if ``master`` is local, else what Spark is set to.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if master is not None and master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")  # nobody else has to reach it
        partitions = 2 * (os.cpu_count() or 1) if partitions is None else partitions
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        raise MissingExtraError(
            "Spark needs Java 17, and there is none: install it (Debian: apt-get install openjdk-17-jre-headless)"
        )
    builder: Any = SparkSession.builder
    if master is not None:
        builder = builder.master(master)
    settings = {
        "spark.app.name": "driftsurf",
        "spark.sql.streaming.stateStore.providerClass": PROVIDER,
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.showConsoleProgress": "false",
        **config,
    }
    if partitions is not None:
        settings["spark.sql.shuffle.partitions"] = str(partitions)
    for name, value in settings.items():
        builder = builder.config(name, value)
    made: SparkSession = builder.getOrCreate()
    return made


def read_files(
    made: SparkSession,
    source: str,
    files: Iterable[str],
    *,
    files_an_epoch: int | None = None,
    kinds: Mapping[str, Kind] = NO_KINDS,
    whole: Collection[str] = (),
    dialect: Dialect = DIALECT,
) -> DataFrame:
    """A streaming frame of files (a folder, a pattern, one file), each read once; types come from what is there now.

    Columns with ``kinds`` are read as the local engine reads columns of that kind: in CSV files the same cells are
    gaps, and a row with a cell that is neither a gap nor of the kind is left out; an infinite number is of none. Those
    that are also in ``whole`` become whole numbers, and have a gap where there is another.
    """
    form = next((FORMATS[Path(name).suffix] for name in files if Path(name).suffix in FORMATS), None)
    if form is None:
        raise SourceError(f"Spark reads files that end in {', '.join(FORMATS)}; {source!r} has none of them")
    place, options = Path(source).absolute(), {}
    if place.is_file():  # a stream of files wants a folder or a pattern
        options["pathGlobFilter"] = re.sub(r"([\\*?\[\]{}])", r"\\\1", place.name)
        place = place.parent
    path = _uri(place)
    if form == "csv":
        options |= {
            "header": "true",
            "inferSchema": "true",
            "sep": dialect.delimiter or ",",
            "encoding": ENCODINGS[dialect.encoding],
        }
    schema = made.read.format(form).options(**options).load(path).schema
    if form == "csv":
        for entry in schema.fields:
            if kinds.get(entry.name, "date") != "date":
                entry.dataType = T.StringType()
    if files_an_epoch is not None:
        options["maxFilesPerTrigger"] = str(files_an_epoch)
    frame = made.readStream.format(form).schema(schema).options(**options).load(path)
    missing = dialect.missing if form == "csv" else ()
    cells = [_cell(entry, kinds.get(entry.name), missing, entry.name in whole) for entry in schema.fields]
    sound = [F.coalesce(readable, F.lit(False)) for _, readable in cells]
    return frame.where(F.least(F.lit(True), F.lit(True), *sound)).select(*[value for value, _ in cells])


def _cell(entry: T.StructField, kind: Kind | None, missing: Sequence[str], whole: bool) -> tuple[Any, Any]:
    """The column as the local engine reads it, and where it can be read (false or null: where it cannot)."""
    value = cell = _column(entry.name)
    sound = F.lit(True)
    if kind in (None, "date"):
        return cell, sound
    text, fraction = isinstance(entry.dataType, T.StringType), isinstance(entry.dataType, T.FloatType | T.DoubleType)
    gap = cell.isNull() | (cell.isin(*missing) if text else F.lit(False))
    if kind == "number" and (text or fraction):
        value = cell.try_cast("double")
        gap |= F.isnan(value)
        sound = F.abs(value) < float("inf")
        if whole:
            value = F.when((F.abs(value) < LARGEST_WHOLE) & (value == F.floor(value)), value.cast("bigint"))
    elif kind == "boolean" and text:
        value = F.when(cell.isin(*TRUE), True).when(cell.isin(*FALSE), False)
        sound = value.isNotNull()
    return F.when(~gap, value).alias(entry.name), gap | sound


def _column(name: str) -> Any:
    """The column of this name, whatever stands in it: a dot would ask for a part of it."""
    return F.col("`" + name.replace("`", "``") + "`")


# ---------------------------------------------------------------------------- the stateful step


class _Learn(StatefulProcessor):  # type: ignore[misc]
    """One visit for each key of a micro-batch."""

    def __init__(self, learner: KeyedLearner, label: str, late: bool, ttl: int | None) -> None:
        self._learner = learner
        self._label = label
        self._late = late
        self._ttl = ttl

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Begin on a worker."""
        self._handle = handle
        self._state = handle.getValueState("learner", "bytes binary")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        """Rows of one key, in any order."""
        kept = self._state.get()
        visit = self._learner.visit(key[0], None if kept is None else bytes(kept[0]), self._read(rows))
        self._state.update((visit.state,))
        if self._ttl is not None and visit.summary.high_water is not None:
            self._handle.registerTimer(visit.summary.high_water + 1 + SHIFT)
        yield _as_row(key[0], visit, self._label)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        """The watermark has passed what was the last row of a key when the timer was set."""
        kept = self._state.get()
        if kept is None:
            return
        visit = self._learner.expire(key[0], bytes(kept[0]))
        last, told = visit.summary.high_water, expiredTimerInfo.getExpiryTimeInMs()
        if last is not None and last + SHIFT < told:
            self._state.clear()
            yield _as_row(key[0], visit, self._label)

    def close(self) -> None:
        """Nothing is held outside of the state."""

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
    """A label or an id as the local engine has it: NaN is a gap, and a number without a fraction is whole."""
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
    """A row for each key and micro-batch: what was predicted and decided, and how the key is doing.

    ``df`` may be streaming, or static: then each key is visited once. :func:`table` makes flat tables of the result.
    Rows without a key or a sequence number are left out. ``ttl`` is in units of the sequence and goes by the newest
    sequence number of all keys (not below 0, and below 9e15) as a watermark: rows that are later than that are
    dropped by Spark (and counted in its progress), and keys that are silent for longer are given up.
    """
    learner.check()
    given = _selected(df, learner, columns)
    kinds = {entry.name: entry.dataType for entry in given.schema.fields}
    label = _kind_of(kinds["label"])
    if learner.values or label == "float64":
        label = label_type("number", learner)
    output = _output_type(kinds["key"].simpleString(), _SPARK_TYPES[label])
    span = None if ttl is None else int(number("ttl", ttl, above=0.0))
    processor = _Learn(learner, label, columns.id is not None, span)
    if ttl is not None:
        at = F.timestamp_millis(F.col("sequence") + SHIFT)
        given = given.withColumn("at", at).withWatermark("at", f"{span} milliseconds")
    mode = "None" if ttl is None else "EventTime"
    return given.groupBy("key").transformWithState(processor, output, "Update", mode)


def _selected(df: DataFrame, learner: KeyedLearner, columns: Columns) -> DataFrame:
    """Key, sequence, features as one array, label, id: under names of our own."""
    types = {entry.name: entry.dataType for entry in df.schema.fields}
    wanted = [*columns, *learner.features]
    unknown = [name for name in wanted if name is not None and name not in types]
    if unknown:
        split = Said(" (of a CSV file with another delimiter than a comma: name it with ", Option("delimiter"), ")")
        told = f"there is no column {', '.join(unknown)}; the columns are {', '.join(types)}"
        raise SchemaError(told, split if len(types) == 1 else "")
    if not isinstance(types[columns.key], (*_WHOLE, T.StringType)):
        raise SchemaError(
            f"the key {columns.key!r} is {types[columns.key].simpleString()}; cast it to bigint or string"
        )
    for name in learner.features:
        if not isinstance(types[name], (T.NumericType, T.BooleanType)):
            raise SchemaError(
                f"the feature {name!r} is {types[name].simpleString()}, and a learner for each key takes numbers: "
                "leave it out of ",
                Option("features"),
                ", or make numbers of it first",
            )
    if learner.values and not isinstance(types[columns.label], (T.NumericType, T.BooleanType)):
        raise SchemaError(f"the label {columns.label!r} is {types[columns.label].simpleString()}; values are numbers")
    sequence = _column(columns.sequence)
    if isinstance(types[columns.sequence], T.TimestampType):
        sequence = F.unix_micros(sequence)
    elif not isinstance(types[columns.sequence], _WHOLE):
        kind = types[columns.sequence].simpleString()
        raise SchemaError(f"the sequence {columns.sequence!r} is {kind}; cast it to bigint or timestamp")
    key = _column(columns.key)
    chosen = [
        key if isinstance(types[columns.key], T.StringType) else key.cast("bigint"),
        sequence.cast("bigint").alias("sequence"),
        F.array(*[_column(name).try_cast("double") for name in learner.features]).alias("features"),
        _plain(_column(columns.label), types[columns.label]).alias("label"),
    ]
    chosen[0] = chosen[0].alias("key")
    if columns.id is not None:
        chosen.append(_plain(_column(columns.id), types[columns.id]).alias("id"))
    return df.select(*chosen).where("key is not null and sequence is not null")


def _plain(column: Any, kind: T.DataType) -> Any:
    """Whole numbers, numbers, booleans, or text: what a label or an id may be."""
    return column.cast(_SPARK_TYPES[_kind_of(kind)])


def _kind_of(kind: T.DataType) -> str:
    return next(name for name, kinds in _LABELS.items() if isinstance(kind, kinds))


def _output_type(key: str, label: str) -> T.StructType:
    summary = ", ".join(f"{name}: {_SPARK_TYPES[kind]}" for name, kind in key_columns().items())
    made: Any = T._parse_datatype_string(
        f"key {key}, sequence array<bigint>, predicted array<{label}>, true array<{label}>, "
        f"decided_at array<bigint>, transitions array<string>, decisions array<string>, summary struct<{summary}>"
    )
    return made


def table(visits: DataFrame, name: Name) -> DataFrame:
    """Of what ``learn_keys`` gave: a row a prediction, a row a time step ("journal"), or a row a key."""
    if name == "keys":
        return visits.select("key", "summary.*")
    arrays = {
        "predictions": ("sequence", "predicted", "true"),
        "journal": ("decided_at", "transitions", "decisions"),
    }[name]
    zipped = visits.select("key", F.explode(F.arrays_zip(*arrays)).alias("one")).select("key", "one.*")
    if name == "journal":
        return zipped.withColumnsRenamed({"decided_at": "sequence", "decisions": "record"})
    return zipped


# ---------------------------------------------------------------------------- a run


def run_spark(
    df: DataFrame,
    out: Path,
    learner: KeyedLearner,
    columns: Columns,
    *,
    ttl: float | None = None,
    on_epoch: Callable[[int, Mapping[str, int]], None] | None = None,
    seconds: float | None = None,
) -> KeyedFolder:
    """Run over all that a streaming frame has now, or on and on every ``seconds``; an earlier run is gone on with.

    The folder must be one that the driver and all workers see.
    """
    if not df.isStreaming:
        raise OptionError("run_spark takes a streaming frame; of a static one learn_keys gives all that there is")
    folder = KeyedFolder(out.absolute())
    visits = learn_keys(df, learner, columns, ttl=ttl)
    folder.open("spark", learner, columns._asdict() | {"ttl": ttl})

    def write(micro_batch: DataFrame, epoch: int) -> None:
        kept = micro_batch.persist()
        folder.unmark(epoch)
        try:
            for name in TABLES:
                table(kept, name).write.mode("overwrite").parquet(_uri(folder.part(name, epoch)))
            found = kept.select(F.count("*"), F.coalesce(F.sum(F.size("sequence")), F.lit(0))).first()
        finally:
            kept.unpersist()
        assert found is not None
        counts = {"keys": int(found[0]), "rows": int(found[1])}
        folder.mark(epoch, counts)
        if on_epoch is not None:
            on_epoch(epoch, counts)

    writer = visits.writeStream.outputMode("update").foreachBatch(write)
    writer = writer.option("checkpointLocation", _uri(folder.path / "checkpoint"))
    trigger: dict[str, Any] = {"availableNow": True} if seconds is None else {"processingTime": f"{seconds} seconds"}
    writer.trigger(**trigger).start().awaitTermination()
    return folder


def _uri(path: Path) -> str:
    """With its scheme, since a cluster may take bare paths for another file system; not escaped, as Spark wants it."""
    return f"file://{path}"
