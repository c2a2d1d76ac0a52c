"""Keyed streams on Apache Spark: one learner per key in Spark's own checkpointed state store.

Spark groups rows by key, keeps the bytes of every key and repeats what failed;
:class:`~driftsurf.keyed.visit.KeyedLearner` does the learning. ``driftsurf run --key --engine spark`` and
``run_keyed(..., engine="spark")`` use this package; a job of your own can call :func:`learn_keys` on any frame.
Importing it needs the extra ``spark``; running it needs Java 17 or later.
"""

from driftsurf.errors import MissingExtraError

try:
    import pyspark.sql  # noqa: F401
except ImportError as _missing:
    raise MissingExtraError(
        f"keyed streams on Spark need pyspark, which is not installed ({_missing}): pip install 'driftsurf[spark]'"
    ) from _missing

from driftsurf.keyed.spark.files import read_files, with_derived
from driftsurf.keyed.spark.run import run_spark
from driftsurf.keyed.spark.session import session
from driftsurf.keyed.spark.step import learn_keys, table

__all__ = ["learn_keys", "read_files", "run_spark", "session", "table", "with_derived"]
