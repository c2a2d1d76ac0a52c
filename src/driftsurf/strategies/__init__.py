"""Strategies: how to live with drift, whatever the base learner."""

from driftsurf.strategies._pool import DEFAULT_MAX_ROWS, BudgetRule
from driftsurf.strategies.aue import AUE
from driftsurf.strategies.aware import Aware
from driftsurf.strategies.candor import Candor
from driftsurf.strategies.driftsurf import DriftSurf, Judge, ThresholdUnit, Variant
from driftsurf.strategies.dwm import DWM
from driftsurf.strategies.exponential_decay import ExponentialDecay
from driftsurf.strategies.learn_nse import LearnNSE
from driftsurf.strategies.linear_decay import LinearDecay
from driftsurf.strategies.oblivious import Oblivious
from driftsurf.strategies.one_pass import OnePass
from driftsurf.strategies.paired_learners import PairedLearners
from driftsurf.strategies.perm import PERM
from driftsurf.strategies.reset_on_drift import ResetOnDrift
from driftsurf.strategies.sliding_window import SlidingWindow

__all__ = [
    "AUE",
    "DEFAULT_MAX_ROWS",
    "DWM",
    "PERM",
    "Aware",
    "BudgetRule",
    "Candor",
    "DriftSurf",
    "ExponentialDecay",
    "Judge",
    "LearnNSE",
    "LinearDecay",
    "Oblivious",
    "OnePass",
    "PairedLearners",
    "ResetOnDrift",
    "SlidingWindow",
    "ThresholdUnit",
    "Variant",
]
