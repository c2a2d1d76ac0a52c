"""Adaptive learning from data streams under concept drift.

>>> from driftsurf import DriftSurfClassifier
>>> model = DriftSurfClassifier(random_state=0)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from driftsurf.errors import DriftsurfError
    from driftsurf.estimators import (
        AwareClassifier,
        DriftSurfClassifier,
        DriftSurfRegressor,
        PortfolioClassifier,
        PortfolioRegressor,
        paper,
        recommended,
    )
    from driftsurf.evaluation.prequential import prequential
    from driftsurf.evaluation.trace import Trace
    from driftsurf.explanation.explain import explain
    from driftsurf.keyed import Fleet
    from driftsurf.runs import RunResult, run
    from driftsurf.saving import load, save

__all__ = [
    "AwareClassifier",
    "DriftSurfClassifier",
    "DriftSurfRegressor",
    "DriftsurfError",
    "Fleet",
    "PortfolioClassifier",
    "PortfolioRegressor",
    "RunResult",
    "Trace",
    "__version__",
    "explain",
    "load",
    "paper",
    "prequential",
    "recommended",
    "run",
    "save",
]

__version__ = "0.2.0"

_HOMES = {
    "AwareClassifier": "driftsurf.estimators",
    "DriftSurfClassifier": "driftsurf.estimators",
    "DriftSurfRegressor": "driftsurf.estimators",
    "DriftsurfError": "driftsurf.errors",
    "Fleet": "driftsurf.keyed",
    "PortfolioClassifier": "driftsurf.estimators",
    "PortfolioRegressor": "driftsurf.estimators",
    "RunResult": "driftsurf.runs",
    "Trace": "driftsurf.evaluation",
    "explain": "driftsurf.explanation",
    "load": "driftsurf.saving",
    "paper": "driftsurf.estimators",
    "prequential": "driftsurf.evaluation",
    "recommended": "driftsurf.estimators",
    "run": "driftsurf.runs",
    "save": "driftsurf.saving",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for, so that ``import driftsurf`` stays light."""
    if name in _HOMES:
        from importlib import import_module

        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'driftsurf' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
