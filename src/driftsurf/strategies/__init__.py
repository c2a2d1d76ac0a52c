"""Strategies: how to live with drift, whatever the base learner."""

from driftsurf.strategies.aware import Aware
from driftsurf.strategies.driftsurf import DriftSurf

__all__ = ["Aware", "DriftSurf"]
