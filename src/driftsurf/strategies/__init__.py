"""Strategies: algorithms for learning under drift, around any base learner.

Each algorithm is one public class in a file of its own, whose docstring teaches the method; modules with a leading
underscore hold what several algorithms share. A strategy decides which models learn and which one predicts. It does not
read input, check labels, log or write files (:mod:`driftsurf.session` and :mod:`driftsurf.runs` do), and it knows a
learner or a detector only through :mod:`driftsurf.core.contracts`.

A new strategy is a new file with a class decorated by :func:`driftsurf.registry.register`. ``_single.py`` has the base
class for one model at a time, which is public, ``_ensemble.py`` for models that vote, ``_base.py`` for any others.
"""

# The rest of this file is made by `make generate`: do not edit.
from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from driftsurf.strategies._pool import DEFAULT_MAX_ROWS, BudgetRule
    from driftsurf.strategies._single import SingleModel
    from driftsurf.strategies._votes import row_errors
    from driftsurf.strategies.aue import AUE
    from driftsurf.strategies.aware import Aware
    from driftsurf.strategies.candor import Candor
    from driftsurf.strategies.diversity_pool import DiversityPool
    from driftsurf.strategies.driftsurf import DriftSurf, Judge, ThresholdUnit, Variant
    from driftsurf.strategies.dtel import DTEL
    from driftsurf.strategies.dwm import DWM
    from driftsurf.strategies.dwmil import DWMIL
    from driftsurf.strategies.exponential_decay import ExponentialDecay
    from driftsurf.strategies.learn_nse import LearnNSE
    from driftsurf.strategies.linear_decay import LinearDecay
    from driftsurf.strategies.oblivious import Oblivious
    from driftsurf.strategies.one_pass import OnePass
    from driftsurf.strategies.paired_learners import PairedLearners
    from driftsurf.strategies.perm import PERM
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
    "AUE": "driftsurf.strategies.aue",
    "Aware": "driftsurf.strategies.aware",
    "BudgetRule": "driftsurf.strategies._pool",
    "Candor": "driftsurf.strategies.candor",
    "DEFAULT_MAX_ROWS": "driftsurf.strategies._pool",
    "DTEL": "driftsurf.strategies.dtel",
    "DWM": "driftsurf.strategies.dwm",
    "DWMIL": "driftsurf.strategies.dwmil",
    "DiversityPool": "driftsurf.strategies.diversity_pool",
    "DriftSurf": "driftsurf.strategies.driftsurf",
    "ExponentialDecay": "driftsurf.strategies.exponential_decay",
    "Judge": "driftsurf.strategies.driftsurf",
    "LearnNSE": "driftsurf.strategies.learn_nse",
    "LinearDecay": "driftsurf.strategies.linear_decay",
    "Oblivious": "driftsurf.strategies.oblivious",
    "OnePass": "driftsurf.strategies.one_pass",
    "PERM": "driftsurf.strategies.perm",
    "PairedLearners": "driftsurf.strategies.paired_learners",
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
