"""Spark sessions that can keep learners in their state store."""

from __future__ import annotations

import os
import shutil
import sys
from typing import Any

from pyspark.sql import SparkSession

from driftsurf.errors import MissingExtraError

__all__ = ["session"]

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
