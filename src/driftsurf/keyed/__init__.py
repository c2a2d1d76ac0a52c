"""One adaptive learner per key: a customer, a sensor, a shop.

:class:`Fleet` serves many keys in one process, from arrays. :func:`run_keyed` serves keyed files in epochs, with saved
states and Parquet tables, on an engine: in this process ("local") or on Apache Spark
("spark", in :mod:`driftsurf.spark`).

============================  =====================================================================================
``fleet``                     the public ``Fleet``
``cell_store``, ``layout``    a cell per key: DriftSurf around a linear learner in one native loop over all keys
``growing_store``             the same with classes that each key learns as they appear
``session_store``             a session per key, for any other model
``labels``, ``record``        codes of labels; transitions and lines of journals
``saved``, ``key_saver``      the models of a fleet as saved entries; the saved bytes of open keys
``keys``, ``rows``            seeds and slots of keys; the rows of one key and of many
``visit``, ``serving``        one visit to one key, a pure function: bytes and rows in, predictions and bytes out
``key_cache``, ``open_cells`` many keys of a run served in one call, with their models open
``results``, ``quarantine``   what came of rows, in columns; why a key no longer learns
``options``, ``models``       the options of a keyed run; what a key starts with
``run``, ``grouping``         the run, what an engine has to do; rows of tables grouped by key
``local``, ``store``          the engine "local"; the states of its keys
``folder``, ``outcomes``      the run folder; its errors and drifts (``drifts``) by key
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
    from driftsurf.keyed.keys import key_seed
    from driftsurf.keyed.options import EngineOptions, KeyedOptions
    from driftsurf.keyed.results import KeySummary, Visit
    from driftsurf.keyed.rows import KeyRows
    from driftsurf.keyed.run import Engine, KeyedJob, run_keyed
    from driftsurf.keyed.visit import KeyedLearner

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
    "Engine": "run",
    "EngineOptions": "options",
    "Fleet": "fleet",
    "KeyRows": "rows",
    "KeySummary": "results",
    "KeyedFolder": "folder",
    "KeyedJob": "run",
    "KeyedLearner": "visit",
    "KeyedOptions": "options",
    "Visit": "results",
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
