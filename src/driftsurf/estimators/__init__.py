"""Estimators with scikit-learn's interface, and our models for river, CapyMOA and MLflow.

An estimator is a thin front of a session: it holds parameters, and learns through
:class:`~driftsurf.session.Session`. No algorithm lives here; strategies are in :mod:`driftsurf.strategies`.
"""

# The rest of this file is made by `make generate`: do not edit.
from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from driftsurf.estimators._made import (
        AUEClassifier,
        AUERegressor,
        AuthorsDriftSurfClassifier,
        AuthorsDriftSurfRegressor,
        CandorClassifier,
        DiversityPoolClassifier,
        DTELClassifier,
        DWMClassifier,
        DWMILClassifier,
        ExponentialDecayClassifier,
        ExponentialDecayRegressor,
        LearnNSEClassifier,
        LinearDecayClassifier,
        LinearDecayRegressor,
        ObliviousClassifier,
        ObliviousRegressor,
        OnePassClassifier,
        OnePassRegressor,
        PairedLearnersClassifier,
        PERMClassifier,
        PERMRegressor,
        ResetOnDriftClassifier,
        SlidingWindowClassifier,
        SlidingWindowRegressor,
    )
    from driftsurf.estimators.base import AdaptiveClassifier, AdaptiveEstimator, AdaptiveRegressor
    from driftsurf.estimators.classes import estimator_class
    from driftsurf.estimators.generated.aware import AwareClassifier, AwareRegressor
    from driftsurf.estimators.generated.driftsurf import DriftSurfClassifier, DriftSurfRegressor
    from driftsurf.estimators.generated.portfolio import PortfolioClassifier, PortfolioRegressor
    from driftsurf.estimators.presets import paper, recommended
else:
    from typing import Any

__all__ = [
    "AUEClassifier",
    "AUERegressor",
    "AdaptiveClassifier",
    "AdaptiveEstimator",
    "AdaptiveRegressor",
    "AuthorsDriftSurfClassifier",
    "AuthorsDriftSurfRegressor",
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
    "AdaptiveClassifier": "driftsurf.estimators.base",
    "AdaptiveEstimator": "driftsurf.estimators.base",
    "AdaptiveRegressor": "driftsurf.estimators.base",
    "AwareClassifier": "driftsurf.estimators.generated.aware",
    "AwareRegressor": "driftsurf.estimators.generated.aware",
    "DriftSurfClassifier": "driftsurf.estimators.generated.driftsurf",
    "DriftSurfRegressor": "driftsurf.estimators.generated.driftsurf",
    "PortfolioClassifier": "driftsurf.estimators.generated.portfolio",
    "PortfolioRegressor": "driftsurf.estimators.generated.portfolio",
    "estimator_class": "driftsurf.estimators.classes",
    "paper": "driftsurf.estimators.presets",
    "recommended": "driftsurf.estimators.presets",
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Import a public name when it is first used; an estimator without source is made from its strategy."""
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
