"""Durable runs: rows in, predictions and decisions out, exact to resume after any kill.

=================================  ================================================================================
``api``, ``options``, ``result``   :func:`run`, its options, each defined once, and the :class:`RunResult` it returns
``plan``, ``plan_tables``, ...     the plan of a run, made from options: its source, its models, its files
``live``                           the part that is pushed, which any thread may drive
``execute``, ``folder``            the loop that pulls rows and owns the signals, up to the run folder; its files
``checkpoint``, ``output``         incremental checkpoints; files that grow in parts
``batches``, ``late``              batches of rows and labels; labels that come later than their rows
``keyed_run``                      a learner for each key
``orders``, ``numbering``          orders of operators; numbers that continue after a rollback
``sinks/``, ``predictions``        where predictions go
``hooks``, ``prometheus``          listeners of a run: the log, a command, metrics
``explanation/``, ``alerts/``      why a model changed, from what a run has written; notices of what is wrong
=================================  ================================================================================

Pages and terminal output do not belong here: they read the files that a run has written (:mod:`driftsurf.report`).
"""

from __future__ import annotations

from driftsurf.core.exports import exports

__getattr__, __dir__, __all__ = exports(__name__)
