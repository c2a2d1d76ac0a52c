"""Strategies: how to live with drift, whatever the base learner."""

from driftsurf.strategies._pool import DEFAULT_MAX_ROWS, BudgetRule
from driftsurf.strategies.aware import Aware
from driftsurf.strategies.driftsurf import DriftSurf, Variant

__all__ = ["DEFAULT_MAX_ROWS", "Aware", "BudgetRule", "DriftSurf", "Variant"]
