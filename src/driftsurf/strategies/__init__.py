"""Strategies: algorithms for learning under drift, around any base learner.

Each algorithm is one public class in a file of its own, whose docstring teaches the method; modules with a leading
underscore hold what several algorithms share. A strategy decides which models learn and which one predicts. It does not
read input, check labels, log or write files (:mod:`driftsurf.session` and :mod:`driftsurf.runs` do), and it knows a
learner or a detector only through :mod:`driftsurf.core.contracts`.

A new strategy is a new file with a class decorated by :func:`driftsurf.registry.register`. ``_single.py`` has the base
class for one model at a time, which is public, ``_base.py`` for any others.

The baselines of comparisons are in :mod:`driftsurf.reproduction.strategies`, with the base class of models that vote.
They are exported here, and loaded when they are asked for.
"""

from __future__ import annotations

from driftsurf.core.exports import exports

__getattr__, __dir__, __all__ = exports(__name__)
