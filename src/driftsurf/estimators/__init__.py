"""Estimators with scikit-learn's interface, and our models for river, CapyMOA and MLflow.

An estimator is a thin front of a session: it holds parameters, and learns through
:class:`~driftsurf.session.Session`. No algorithm lives here; strategies are in :mod:`driftsurf.strategies`.
"""

# The rest of this file is made by `make generate`: do not edit.
from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from driftsurf.estimators.base import AdaptiveClassifier, AdaptiveEstimator, AdaptiveRegressor
    from driftsurf.estimators.classes import estimator_class
    from driftsurf.estimators.generated.aue import AUEClassifier, AUERegressor
    from driftsurf.estimators.generated.aware import AwareClassifier, AwareRegressor
    from driftsurf.estimators.generated.candor import CandorClassifier
    from driftsurf.estimators.generated.diversity_pool import DiversityPoolClassifier
    from driftsurf.estimators.generated.driftsurf import DriftSurfClassifier, DriftSurfRegressor
    from driftsurf.estimators.generated.dtel import DTELClassifier
    from driftsurf.estimators.generated.dwm import DWMClassifier
    from driftsurf.estimators.generated.dwmil import DWMILClassifier
    from driftsurf.estimators.generated.exponential_decay import ExponentialDecayClassifier, ExponentialDecayRegressor
    from driftsurf.estimators.generated.learn_nse import LearnNSEClassifier
    from driftsurf.estimators.generated.linear_decay import LinearDecayClassifier, LinearDecayRegressor
    from driftsurf.estimators.generated.oblivious import ObliviousClassifier, ObliviousRegressor
    from driftsurf.estimators.generated.one_pass import OnePassClassifier, OnePassRegressor
    from driftsurf.estimators.generated.paired_learners import PairedLearnersClassifier
    from driftsurf.estimators.generated.perm import PERMClassifier, PERMRegressor
    from driftsurf.estimators.generated.portfolio import PortfolioClassifier, PortfolioRegressor
    from driftsurf.estimators.generated.reset_on_drift import ResetOnDriftClassifier
    from driftsurf.estimators.generated.sliding_window import SlidingWindowClassifier, SlidingWindowRegressor
    from driftsurf.estimators.presets import paper, recommended
else:
    from typing import Any

__all__ = [
    "AUEClassifier",
    "AUERegressor",
    "AdaptiveClassifier",
    "AdaptiveEstimator",
    "AdaptiveRegressor",
    "AwareClassifier",
    "AwareRegressor",
    "CandorClassifier",
    "DTELClassifier",
    "DWMClassifier",
    "DWMILClassifier",
    "DiversityPoolClassifier",
    "DriftSurfClassifier",
    "DriftSurfRegressor",
    "ExponentialDecayClassifier",
    "ExponentialDecayRegressor",
    "LearnNSEClassifier",
    "LinearDecayClassifier",
    "LinearDecayRegressor",
    "ObliviousClassifier",
    "ObliviousRegressor",
    "OnePassClassifier",
    "OnePassRegressor",
    "PERMClassifier",
    "PERMRegressor",
    "PairedLearnersClassifier",
    "PortfolioClassifier",
    "PortfolioRegressor",
    "ResetOnDriftClassifier",
    "SlidingWindowClassifier",
    "SlidingWindowRegressor",
    "estimator_class",
    "paper",
    "recommended",
]

_HOMES = {
    "AUEClassifier": "driftsurf.estimators.generated.aue",
    "AUERegressor": "driftsurf.estimators.generated.aue",
    "AdaptiveClassifier": "driftsurf.estimators.base",
    "AdaptiveEstimator": "driftsurf.estimators.base",
    "AdaptiveRegressor": "driftsurf.estimators.base",
    "AwareClassifier": "driftsurf.estimators.generated.aware",
    "AwareRegressor": "driftsurf.estimators.generated.aware",
    "CandorClassifier": "driftsurf.estimators.generated.candor",
    "DTELClassifier": "driftsurf.estimators.generated.dtel",
    "DWMClassifier": "driftsurf.estimators.generated.dwm",
    "DWMILClassifier": "driftsurf.estimators.generated.dwmil",
    "DiversityPoolClassifier": "driftsurf.estimators.generated.diversity_pool",
    "DriftSurfClassifier": "driftsurf.estimators.generated.driftsurf",
    "DriftSurfRegressor": "driftsurf.estimators.generated.driftsurf",
    "ExponentialDecayClassifier": "driftsurf.estimators.generated.exponential_decay",
    "ExponentialDecayRegressor": "driftsurf.estimators.generated.exponential_decay",
    "LearnNSEClassifier": "driftsurf.estimators.generated.learn_nse",
    "LinearDecayClassifier": "driftsurf.estimators.generated.linear_decay",
    "LinearDecayRegressor": "driftsurf.estimators.generated.linear_decay",
    "ObliviousClassifier": "driftsurf.estimators.generated.oblivious",
    "ObliviousRegressor": "driftsurf.estimators.generated.oblivious",
    "OnePassClassifier": "driftsurf.estimators.generated.one_pass",
    "OnePassRegressor": "driftsurf.estimators.generated.one_pass",
    "PERMClassifier": "driftsurf.estimators.generated.perm",
    "PERMRegressor": "driftsurf.estimators.generated.perm",
    "PairedLearnersClassifier": "driftsurf.estimators.generated.paired_learners",
    "PortfolioClassifier": "driftsurf.estimators.generated.portfolio",
    "PortfolioRegressor": "driftsurf.estimators.generated.portfolio",
    "ResetOnDriftClassifier": "driftsurf.estimators.generated.reset_on_drift",
    "SlidingWindowClassifier": "driftsurf.estimators.generated.sliding_window",
    "SlidingWindowRegressor": "driftsurf.estimators.generated.sliding_window",
    "estimator_class": "driftsurf.estimators.classes",
    "paper": "driftsurf.estimators.presets",
    "recommended": "driftsurf.estimators.presets",
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Import a public name when it is first used; estimators of other packages are found through the registry."""
        if name in _HOMES:
            return getattr(import_module(_HOMES[name]), name)
        if not name.startswith("_"):
            from driftsurf.estimators.classes import find_estimator

            found = find_estimator(name)
            if found is not None:
                return found
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted(__all__)
