"""A keyed run over a streaming frame, written to the folder of any keyed run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from driftsurf.errors import OptionError
from driftsurf.keyed.folder import TABLES, KeyedFolder
from driftsurf.keyed.grouping import Columns
from driftsurf.keyed.spark.files import file_uri
from driftsurf.keyed.spark.step import learn_keys, table
from driftsurf.keyed.visit import KeyedLearner

__all__ = ["run_spark"]


def run_spark(
    df: DataFrame,
    out: Path,
    learner: KeyedLearner,
    columns: Columns,
    *,
    ttl: float | None = None,
    on_epoch: Callable[[int, Mapping[str, int]], None] | None = None,
    seconds: float | None = None,
    words: Mapping[str, Sequence[str]] | None = None,
) -> KeyedFolder:
    """Run over all rows that a streaming frame has now, or every ``seconds``; an earlier run in ``out`` is resumed.

    The folder ``out`` must be visible to the driver and to all workers. ``words`` of text columns, from which columns
    of the frame were derived, are kept there. LockedError if another process writes to the folder, also if it begins to
    do so later.
    """
    if not df.isStreaming:
        raise OptionError("run_spark takes a streaming frame; for a static one use learn_keys")
    folder = KeyedFolder(out.absolute())
    visits = learn_keys(df, learner, columns, ttl=ttl)
    folder.open("spark", learner, columns._asdict() | {"ttl": ttl}, words)

    def write(micro_batch: DataFrame, epoch: int) -> None:
        # Spark may repeat an epoch after a failure: its tables are overwritten, and readers trust only marked epochs.
        kept = micro_batch.persist()
        folder.unmark(epoch)
        try:
            for name in TABLES:
                table(kept, name).write.mode("overwrite").parquet(file_uri(folder.part(name, epoch)))
            found = kept.select(F.count("*"), F.coalesce(F.sum(F.size("sequence")), F.lit(0))).first()
        finally:
            kept.unpersist()
        assert found is not None
        counts = {"keys": int(found[0]), "rows": int(found[1])}
        folder.mark(epoch, counts)
        if on_epoch is not None:
            on_epoch(epoch, counts)

    writer = visits.writeStream.outputMode("update").foreachBatch(write)
    writer = writer.option("checkpointLocation", file_uri(folder.path / "checkpoint"))
    trigger: dict[str, Any] = {"availableNow": True} if seconds is None else {"processingTime": f"{seconds} seconds"}
    with folder.held():
        query = writer.trigger(**trigger).start()
        try:
            query.awaitTermination()
        except StreamingQueryException:
            folder.check_held()  # the error of Spark would hide that another process has taken the folder over
            raise
        finally:
            query.stop()  # the lock must not be released while epochs are still written
    return folder
