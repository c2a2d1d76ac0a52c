"""One adaptive learner per key: a customer, a sensor, a shop.

:class:`Fleet` serves many keys in one process, from arrays. :func:`run_keyed` serves keyed files in epochs, with saved
states and Parquet tables, on an engine: in this process ("local") or on Apache Spark
("spark", in :mod:`driftsurf.spark`).

============================  =====================================================================================
``fleet``                     the public ``Fleet``
``cell_store``                a cell per key of a fleet: DriftSurf around a linear learner in one native loop
``bank``, ``layout``          memory of cells of one shape, and how keys move to larger ones
``work``                      the learning of one call, on several threads
``session_store``             a session per key of a fleet, for any other model
``labels``, ``record``        codes of labels; transitions and lines of journals
``saved``                     the models of a fleet as saved entries, and those of one key as bytes
``keys``, ``rows``            seeds and slots of keys; the rows of one key and of many
``visit``, ``serving``        one visit to one key, a pure function: bytes and rows in, predictions and bytes out
``key_cache``                 many keys of a run served in one call, from cells that are read and saved one by one
``results``, ``quarantine``   what came of rows, in columns; why a key no longer learns
``options``, ``models``       the options of a keyed run; what a key starts with
``run``, ``grouping``         the run, what an engine has to do; rows of tables grouped by key
``local``, ``store``          the engine "local"; the states of its keys
``folder``, ``outcomes``      the run folder; its errors and drifts (``drifts``) by key
============================  =====================================================================================

Learners, strategies and readers of files do not belong here: this package hands the rows of a key to its learner.
"""

from __future__ import annotations

from driftsurf.core.exports import exports

__getattr__, __dir__, __all__ = exports(__name__)
