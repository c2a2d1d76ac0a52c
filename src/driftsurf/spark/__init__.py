"""Keyed streams on Apache Spark: one learner per key in Spark's own checkpointed state store.

Spark groups rows by key, keeps the bytes of every key and repeats what failed;
:class:`~driftsurf.keyed.visit.KeyedLearner` does the learning. ``driftsurf run --key --engine spark`` and
``run_keyed(..., engine="spark")`` use this package; a job of your own can call :func:`learn_keys` on any frame.
The functions need the extra ``spark``, and Java 17 or later when they run. Nothing else in the library imports this
package: the registry finds the engine by its name.

==========================================  ============================================================
``engine``                                  the engine "spark" of a keyed run, importable without pyspark
``bucket``, ``bucket_log``,                 what Spark keeps of a bucket of keys, and what serves it;
``bucket_server``                           importable without pyspark
``files``, ``kafka``, ``packets``           frames over files and topics; the rows of a bucket
``run``, ``step``, ``rebucket``             a session and a run, the stateful step, another number of buckets
==========================================  ============================================================
"""

from __future__ import annotations

from typing import Any

from driftsurf.core.exports import exports
from driftsurf.errors import MissingExtraError

_find, __dir__, __all__ = exports(__name__)


def __getattr__(name: str) -> Any:
    """Import a public function when it is first used; MissingExtraError without pyspark."""
    if name in __all__:
        try:
            import pyspark.sql  # noqa: F401
        except ImportError as missing:
            raise MissingExtraError(
                f"keyed streams on Spark need pyspark, which is not installed ({missing}): "
                "pip install 'driftsurf[spark]'"
            ) from missing
    return _find(name)
