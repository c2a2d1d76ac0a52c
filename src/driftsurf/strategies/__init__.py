"""Strategies: how to live with drift, whatever the base learner."""

from driftsurf.strategies._pool import DEFAULT_MAX_ROWS, BudgetRule
from driftsurf.strategies.aue import AUE
from driftsurf.strategies.aware import Aware
from driftsurf.strategies.candor import Candor
from driftsurf.strategies.driftsurf import DriftSurf, Judge, ThresholdUnit, Variant
from driftsurf.strategies.oblivious import Oblivious
from driftsurf.strategies.one_pass import OnePass

__all__ = [
    "AUE",
    "DEFAULT_MAX_ROWS",
    "Aware",
    "BudgetRule",
    "Candor",
    "DriftSurf",
    "Judge",
    "Oblivious",
    "OnePass",
    "ThresholdUnit",
    "Variant",
]
