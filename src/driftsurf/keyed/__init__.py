"""One adaptive learner per key: a customer, a sensor, a shop.

:class:`Fleet` serves many keys in one process, from arrays. :func:`run_keyed` serves keyed files in epochs, with saved
states and Parquet tables, on an engine: in this process ("local") or on Apache Spark ("spark").

============================  =====================================================================================
``fleet``, ``key_store``      the public ``Fleet``, and what it asks of the code that keeps its models
``cell_store``, ``layout``    a cell per key: DriftSurf around a linear learner in one native loop over all keys
``keys``, ``rows``            seeds and slots of keys; the rows of one key and of many
``session_store``             a session per key, for any other model
``key_cache``, ``results``    many keys of a run served in one call; what came of the rows, in columns
``visit``, ``serving``        one visit to one key, a pure function: bytes and rows in, predictions and bytes out
``summary``, ``quarantine``   the entry of a key in the table of keys; why a key no longer learns
``options``, ``run``          the options of a keyed run, and the run itself
``job``, ``folder``           what an engine is given and has to do; the run folder
``engines/``, ``store``       the registered engines; the states of the local one
``spark/``                    what needs pyspark: keyed streams on Spark, Kafka topics as frames
============================  =====================================================================================

Learners, strategies and readers of files do not belong here: this package hands the rows of a key to its learner.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from driftsurf.keyed.fleet import Fleet
    from driftsurf.keyed.folder import KeyedFolder
    from driftsurf.keyed.grouping import Columns
    from driftsurf.keyed.job import Engine, KeyedJob
    from driftsurf.keyed.keys import key_seed
    from driftsurf.keyed.options import EngineOptions, KeyedOptions
    from driftsurf.keyed.rows import KeyRows
    from driftsurf.keyed.run import run_keyed
    from driftsurf.keyed.summary import KeySummary
    from driftsurf.keyed.visit import KeyedLearner, Visit

__all__ = [
    "Columns",
    "Engine",
    "EngineOptions",
    "Fleet",
    "KeyRows",
    "KeySummary",
    "KeyedFolder",
    "KeyedJob",
    "KeyedLearner",
    "KeyedOptions",
    "Visit",
    "key_seed",
    "run_keyed",
]

_HOMES = {
    "Columns": "grouping",
    "Engine": "job",
    "EngineOptions": "options",
    "Fleet": "fleet",
    "KeyRows": "rows",
    "KeySummary": "summary",
    "KeyedFolder": "folder",
    "KeyedJob": "job",
    "KeyedLearner": "visit",
    "KeyedOptions": "options",
    "Visit": "visit",
    "key_seed": "keys",
    "run_keyed": "run",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that the command line can list options quickly."""
    if name in _HOMES:
        return getattr(import_module(f"driftsurf.keyed.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'driftsurf.keyed' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
