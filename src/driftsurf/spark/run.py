"""A session that can keep learners in its state store, and a keyed run over a streaming frame."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from driftsurf.core import files
from driftsurf.errors import MissingExtraError, OptionError
from driftsurf.keyed.folder import KeyedFolder
from driftsurf.keyed.grouping import Columns
from driftsurf.keyed.results import TABLES
from driftsurf.keyed.visit import KeyedLearner
from driftsurf.spark.files import file_uri
from driftsurf.spark.packets import Buckets
from driftsurf.spark.rebucket import FILES, close_rebucketing, find_buckets
from driftsurf.spark.step import learn_keys, table

PROVIDER = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
"""transformWithState runs on the RocksDB state store only."""


def session(master: str | None = None, *, partitions: int | None = None, **config: str) -> SparkSession:
    """Start, or get, a Spark session with RocksDB as its state store and this Python on every worker.

    Parameters
    ----------
    master
        Where Spark runs, such as "local[4]" or "spark://host:7077"; None for what Spark is configured with.
    partitions
        Partitions of the state. The number stays fixed for the life of a run, whatever the number of workers. None
        means two per core of this machine if ``master`` is local, else what Spark is configured with.
    config
        Further settings of Spark, by name.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if master is not None and master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")  # nothing outside this machine has to reach the driver
        partitions = 2 * (os.cpu_count() or 1) if partitions is None else partitions
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        raise MissingExtraError(
            "Spark needs Java 17 or later, and no 'java' was found: install it "
            "(Debian: apt-get install openjdk-17-jre-headless)"
        )
    settings = {
        "spark.app.name": "driftsurf",
        "spark.sql.streaming.stateStore.providerClass": PROVIDER,
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.showConsoleProgress": "false",
        **config,
    }
    if partitions is not None:
        settings["spark.sql.shuffle.partitions"] = str(partitions)
    builder: Any = SparkSession.builder
    if master is not None:
        builder = builder.master(master)
    for name, value in settings.items():
        builder = builder.config(name, value)
    made: SparkSession = builder.getOrCreate()
    return made


def run_spark(
    df: DataFrame,
    out: Path,
    learner: KeyedLearner,
    columns: Columns,
    *,
    ttl: float | None = None,
    buckets: int | None = None,
    rebucket: int | None = None,
    on_epoch: Callable[[int, Mapping[str, int]], None] | None = None,
    seconds: float | None = None,
    words: Mapping[str, Sequence[str]] | None = None,
) -> KeyedFolder:
    """Run over all rows that a streaming frame has now, or every ``seconds``; an earlier run in ``out`` is resumed.

    The folder ``out`` must be visible to the driver and to all workers. ``words`` of text columns, from which columns
    of the frame were derived, are kept there. LockedError if another process writes to the folder, also if it begins to
    do so later.

    A new run groups its keys into ``buckets``, and a resumed one has to have as many; ``rebucket`` regroups the keys of
    a resumed run into another number first.
    """
    if not df.isStreaming:
        raise OptionError("run_spark takes a streaming frame; for a static one use learn_keys")
    folder = KeyedFolder(out.absolute())
    types = learn_keys(df, learner, columns, ttl=ttl).schema["types"].dataType  # checks everything, and changes nothing
    folder.open("spark", learner, columns._asdict() | {"ttl": ttl}, words)
    with folder.held():
        key_type = cast("Any", types)["key"].dataType.simpleString()
        grouping = find_buckets(df.sparkSession, folder, learner, key_type, buckets, rebucket)
        visits = learn_keys(df, learner, columns, ttl=ttl, buckets=grouping)
        _run(visits, folder, grouping, on_epoch, seconds)
    return folder


def _run(
    visits: DataFrame,
    folder: KeyedFolder,
    buckets: Buckets,
    on_epoch: Callable[[int, Mapping[str, int]], None] | None,
    seconds: float | None,
) -> None:
    opened = False

    def close() -> None:
        nonlocal opened
        if opened:
            close_rebucketing(folder, buckets)
        opened = False

    def write(micro_batch: DataFrame, epoch: int) -> None:
        # Spark may repeat an epoch after a failure: its tables are overwritten, and readers trust only marked epochs.
        nonlocal opened
        close()  # Spark has committed the last epoch
        kept = micro_batch.persist()
        folder.unmark(epoch)
        try:
            for name in TABLES:
                table(kept, name).write.mode("overwrite").parquet(file_uri(folder.part(name, epoch)))
            sums = [F.coalesce(F.sum(name), F.lit(0)) for name in ("n_keys", "n_rows", "late")]
            found = kept.select(*sums, F.count_if("opened")).first()
        finally:
            kept.unpersist()
        assert found is not None
        counts = {"keys": int(found[0]), "rows": int(found[1]), "late": int(found[2])}
        folder.mark(epoch, counts)
        opened = files.is_folder(folder.path / FILES) and found[3] == buckets.number
        if on_epoch is not None:
            on_epoch(epoch, counts)

    writer = visits.writeStream.outputMode("update").foreachBatch(write)
    writer = writer.option("checkpointLocation", file_uri(folder.path / "checkpoint"))
    trigger: dict[str, Any] = {"availableNow": True} if seconds is None else {"processingTime": f"{seconds} seconds"}
    query = writer.trigger(**trigger).start()
    try:
        query.awaitTermination()
    except StreamingQueryException:
        folder.check_held()  # the error of Spark would hide that another process has taken the folder over
        raise
    finally:
        query.stop()  # the lock must not be released while epochs are still written
    close()
