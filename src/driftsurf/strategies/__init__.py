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

# The rest of this file is made by `make generate`: do not edit.
from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from driftsurf.reproduction.strategies.aue import AUE
    from driftsurf.reproduction.strategies.authors import AuthorsDriftSurf
    from driftsurf.reproduction.strategies.candor import Candor
    from driftsurf.reproduction.strategies.diversity_pool import DiversityPool
    from driftsurf.reproduction.strategies.dtel import DTEL
    from driftsurf.reproduction.strategies.dwm import DWM
    from driftsurf.reproduction.strategies.dwmil import DWMIL
    from driftsurf.reproduction.strategies.learn_nse import LearnNSE
    from driftsurf.reproduction.strategies.paired_learners import PairedLearners
    from driftsurf.reproduction.strategies.perm import PERM
    from driftsurf.strategies._pool import DEFAULT_MAX_ROWS, BudgetRule
    from driftsurf.strategies._single import SingleModel
    from driftsurf.strategies._votes import row_errors
    from driftsurf.strategies.aware import Aware
    from driftsurf.strategies.driftsurf import DriftSurf, Judge, ThresholdUnit, Variant
    from driftsurf.strategies.exponential_decay import ExponentialDecay
    from driftsurf.strategies.linear_decay import LinearDecay
    from driftsurf.strategies.oblivious import Oblivious
    from driftsurf.strategies.one_pass import OnePass
    from driftsurf.strategies.portfolio import Portfolio
    from driftsurf.strategies.reset_on_drift import ResetOnDrift
    from driftsurf.strategies.sliding_window import SlidingWindow
else:
    from typing import Any

__all__ = [
    "AUE",
    "DEFAULT_MAX_ROWS",
    "DTEL",
    "DWM",
    "DWMIL",
    "PERM",
    "AuthorsDriftSurf",
    "Aware",
    "BudgetRule",
    "Candor",
    "DiversityPool",
    "DriftSurf",
    "ExponentialDecay",
    "Judge",
    "LearnNSE",
    "LinearDecay",
    "Oblivious",
    "OnePass",
    "PairedLearners",
    "Portfolio",
    "ResetOnDrift",
    "SingleModel",
    "SlidingWindow",
    "ThresholdUnit",
    "Variant",
    "row_errors",
]

_HOMES = {
    "AUE": "driftsurf.reproduction.strategies.aue",
    "AuthorsDriftSurf": "driftsurf.reproduction.strategies.authors",
    "Aware": "driftsurf.strategies.aware",
    "BudgetRule": "driftsurf.strategies._pool",
    "Candor": "driftsurf.reproduction.strategies.candor",
    "DEFAULT_MAX_ROWS": "driftsurf.strategies._pool",
    "DTEL": "driftsurf.reproduction.strategies.dtel",
    "DWM": "driftsurf.reproduction.strategies.dwm",
    "DWMIL": "driftsurf.reproduction.strategies.dwmil",
    "DiversityPool": "driftsurf.reproduction.strategies.diversity_pool",
    "DriftSurf": "driftsurf.strategies.driftsurf",
    "ExponentialDecay": "driftsurf.strategies.exponential_decay",
    "Judge": "driftsurf.strategies.driftsurf",
    "LearnNSE": "driftsurf.reproduction.strategies.learn_nse",
    "LinearDecay": "driftsurf.strategies.linear_decay",
    "Oblivious": "driftsurf.strategies.oblivious",
    "OnePass": "driftsurf.strategies.one_pass",
    "PERM": "driftsurf.reproduction.strategies.perm",
    "PairedLearners": "driftsurf.reproduction.strategies.paired_learners",
    "Portfolio": "driftsurf.strategies.portfolio",
    "ResetOnDrift": "driftsurf.strategies.reset_on_drift",
    "SingleModel": "driftsurf.strategies._single",
    "SlidingWindow": "driftsurf.strategies.sliding_window",
    "ThresholdUnit": "driftsurf.strategies.driftsurf",
    "Variant": "driftsurf.strategies.driftsurf",
    "row_errors": "driftsurf.strategies._votes",
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Import a public name when it is first used."""
        if name in _HOMES:
            return getattr(import_module(_HOMES[name]), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted(__all__)
