"""The engine "spark": a keyed run on Apache Spark. The code that needs pyspark is in ``driftsurf.spark``."""

from __future__ import annotations

from driftsurf.core.options import whole
from driftsurf.data import ReadingOptions
from driftsurf.errors import Option, OptionError
from driftsurf.keyed.folder import KeyedFolder
from driftsurf.keyed.run import KeyedJob
from driftsurf.registry import register

PLAIN = ReadingOptions()
FIRST_ROWS = 100_000


@register(
    "engine",
    "spark",
    title="Apache Spark",
    requires=("pyspark", "pandas", "pyarrow"),
    install="pip install 'driftsurf[spark]', and Java 17",
)
class SparkEngine:
    """Spark: states in its checkpointed store, on one machine or a cluster.

    Parameters
    ----------
    master
        Where Spark runs, such as "local[4]" or "spark://host:7077"; None for what Spark is configured with.
    partitions
        Partitions of the state; the number stays fixed for the life of a run.
    buckets
        Buckets that keys are grouped into, each one value of the state; the number stays fixed for the life of a run.
        None for that of the run, 256 if it is new.
    rebucket
        Regroup the keys of the run into this number of buckets first, unless it has as many.
    epoch
        Files of an epoch at most; None for all that are new.
    """

    first_rows = FIRST_ROWS

    def __init__(
        self,
        *,
        master: str | None = None,
        partitions: int | None = None,
        buckets: int | None = None,
        rebucket: int | None = None,
        epoch: int | None = None,
    ) -> None:
        self.master = master
        self.partitions = partitions
        self.buckets = buckets
        self.rebucket = rebucket
        self.epoch = epoch

    def check(self, reading: ReadingOptions) -> None:
        """Raise OptionError if an option cannot be used; Spark's readers take fewer options for text."""
        for name in ("partitions", "buckets", "rebucket", "epoch"):
            value = getattr(self, name)
            if value is not None:
                whole(name, value, at_least=1, otherwise=", or None")
        given = {
            "rows": reading.rows != PLAIN.rows,
            "header": reading.header is False,
            "names": reading.names != PLAIN.names,
            "decimal": reading.decimal != PLAIN.decimal,
            "thousands": reading.thousands != PLAIN.thousands,
            "date_formats": reading.date_formats != PLAIN.date_formats,
        }
        unsupported = [name for name, differs in given.items() if differs]
        if unsupported:
            raise OptionError(
                Option(unsupported[0]),
                " is not supported by the engine 'spark', which reads files with a header line, numbers with a point "
                "and dates in ISO 8601: convert the files, or use the engine 'local'",
            )

    def run(self, job: KeyedJob) -> KeyedFolder:
        """Learn all files that the source has now; Spark's checkpoint says which were learned before."""
        from driftsurf.spark import read_files, run_spark, session, with_derived

        spark = session(self.master, partitions=self.partitions)
        try:
            frame = read_files(
                spark,
                job.source,
                job.files,
                files_per_epoch=self.epoch,
                kinds=job.kinds,
                whole=(job.columns.key, job.columns.sequence),
                reading=job.reading,
            )
            frame = with_derived(frame, job.derived, job.kinds)
            return run_spark(
                frame,
                job.out,
                job.learner,
                job.columns,
                ttl=job.ttl,
                buckets=self.buckets,
                rebucket=self.rebucket,
                on_epoch=job.on_epoch,
                words=job.derived.words,
            )
        finally:
            spark.stop()
