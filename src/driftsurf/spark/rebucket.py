"""Another number of buckets for a run on Spark: the states of all keys are regrouped between two of its epochs.

The states are read from Spark's checkpoint as its last complete epoch left them, and written to files, one for each new
bucket. The next epoch begins with these files and drops the old buckets from the store; Spark repeats both with the
epoch if it fails. The files are removed once that epoch is complete.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from driftsurf.core import files
from driftsurf.core.options import whole
from driftsurf.errors import Option, StateError
from driftsurf.keyed.folder import KeyedFolder
from driftsurf.keyed.options import BUCKETS
from driftsurf.keyed.visit import KeyedLearner
from driftsurf.spark.bucket_store import Bucket, ValuesInMemory, regrouped, server_for
from driftsurf.spark.files import file_uri
from driftsurf.spark.packets import Buckets, bucket_of
from driftsurf.spark.step import CHANGES, HEAD, MOST_BUCKETS, STATE, file_of

FILES = "rebucketed"
"""Folder of the files that new buckets begin with."""
CHECKPOINT = "checkpoint"


def find_buckets(
    spark: SparkSession,
    folder: KeyedFolder,
    learner: KeyedLearner,
    key_type: str,
    buckets: int | None,
    rebucket: int | None,
) -> Buckets:
    """Return the buckets of a run, new or resumed, which run.json keeps; the folder must be held.

    Parameters
    ----------
    spark
        The session, which regroups the states.
    folder
        The run folder.
    learner
        How every key is learned.
    key_type
        The type of keys, as Spark names it.
    buckets
        The number that the user has set, or None. StateError if a resumed run has another one.
    rebucket
        The number to change to, if the run has another one.
    """
    for name, value in (("buckets", buckets), ("rebucket", rebucket)):
        if value is not None:
            whole(name, value, at_least=1, at_most=MOST_BUCKETS, otherwise=", or None")
    saved = folder.about().get("buckets")
    if saved is None:
        if files.is_folder(folder.path / CHECKPOINT):
            raise StateError(
                f"{str(folder.path)!r} was written by an earlier version, which kept each key by itself: start a new "
                "run with another ",
                Option("out"),
            )
        return _noted(folder, Buckets(rebucket or buckets or BUCKETS))
    was = Buckets(**saved)
    base = str(folder.path / FILES) if was.earlier else ""
    if (rebucket or buckets or was.number) == was.number:
        return was._replace(base=base)
    wanted = rebucket or buckets
    assert wanted is not None
    if rebucket is None:
        raise StateError(
            f"{str(folder.path)!r} has {was.number} buckets, and buckets is {buckets}: leave it out, or regroup the "
            "keys with ",
            Option("rebucket", wanted),
            entry="buckets",
        )
    if was.earlier:
        raise StateError(
            f"{str(folder.path)!r} still has to complete its first epoch with {was.number} buckets: resume it with ",
            Option("rebucket", was.number),
            f" before it changes to {wanted}",
            entry="buckets",
        )
    return _regroup(spark, folder, learner, key_type, was, wanted)


def close_rebucketing(folder: KeyedFolder, buckets: Buckets) -> None:
    """Remove the files of a change of buckets, after the epoch that has opened all of them is complete."""
    _noted(folder, buckets._replace(earlier=0))
    files.remove_tree(folder.path / FILES)


def _noted(folder: KeyedFolder, buckets: Buckets) -> Buckets:
    folder.check_held()
    folder.note("buckets", {"number": buckets.number, "generation": buckets.generation, "earlier": buckets.earlier})
    return buckets


def _regroup(
    spark: SparkSession, folder: KeyedFolder, learner: KeyedLearner, key_type: str, was: Buckets, number: int
) -> Buckets:
    """Write the files of the new buckets, then note the change: a kill before that has changed nothing."""
    if not any((folder.path / CHECKPOINT / "commits").glob("[0-9]*")):
        return _noted(folder, Buckets(number, was.generation))
    place = folder.path / FILES
    if files.is_folder(place):  # of an attempt that was broken off
        files.remove_tree(place)
    files.make_folder(place)
    own = _kept(spark, folder).where(F.col("bucket") >= was.first)
    keys = own.mapInArrow(_taker(learner, was.number), f"key {key_type}, high bigint, state binary")
    keys = keys.withColumn("bucket", bucket_of(F.col("key"), number))
    written = keys.groupBy("bucket").applyInArrow(_writer(place, number), "bucket bigint").collect()
    for bucket in set(range(number)) - {row[0] for row in written}:
        files.write_bytes(place / file_of(bucket), Bucket(number).to_bytes())
    files.sync_folder(place)
    return _noted(folder, Buckets(number, was.generation + 1, earlier=was.number))._replace(base=str(place))


def _kept(spark: SparkSession, folder: KeyedFolder) -> DataFrame:
    """Return what the last complete epoch has left of each bucket."""
    reader = spark.read.format("statestore").option("path", file_uri(folder.path / CHECKPOINT))
    whole, head = (
        reader.option("stateVarName", name).load().select(F.col("key.bucket"), F.col("value.bytes").alias(alias))
        for name, alias in ((STATE, "whole"), (HEAD, "head"))
    )
    changes = (
        reader.option("stateVarName", CHANGES)
        .load()
        .select(F.col("key.bucket"), F.struct("user_map_key.place", "user_map_value.bytes").alias("one"))
    )
    lists = changes.groupBy("bucket").agg(F.collect_list("one").alias("changes"))
    return whole.join(head, "bucket", "left").join(lists, "bucket", "left")


def _taker(learner: KeyedLearner, number: int) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def take(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        server = server_for(learner, number)
        for batch in batches:
            for row in batch.to_pylist():
                changes = {one["place"]: one["bytes"] for one in row["changes"] or ()}
                entries = [*server.entries(row["bucket"], ValuesInMemory(row["head"], row["whole"], changes))]
                if entries:
                    yield pa.record_batch([*map(pa.array, zip(*entries, strict=True))], names=["key", "high", "state"])

    return take


def _writer(place: Path, number: int) -> Callable[[pa.Table], pa.Table]:
    def write(keys: pa.Table) -> pa.Table:
        bucket = keys["bucket"][0].as_py()
        entries: Any = zip(*(keys[name].to_pylist() for name in ("key", "high", "state")), strict=True)
        files.write_bytes(place / file_of(bucket), regrouped(entries, number))
        return pa.table({"bucket": [bucket]})

    return write
