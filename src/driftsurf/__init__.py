"""Adaptive learning from data streams under concept drift.

>>> from driftsurf import DriftSurfClassifier
>>> model = DriftSurfClassifier(random_state=0)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from driftsurf.core.exports import exports

if TYPE_CHECKING:  # the public names, which exports() reads here
    from driftsurf.errors import DriftsurfError as DriftsurfError
    from driftsurf.estimators import AwareClassifier as AwareClassifier
    from driftsurf.estimators import DriftSurfClassifier as DriftSurfClassifier
    from driftsurf.estimators import DriftSurfRegressor as DriftSurfRegressor
    from driftsurf.estimators import PortfolioClassifier as PortfolioClassifier
    from driftsurf.estimators import PortfolioRegressor as PortfolioRegressor
    from driftsurf.estimators import paper as paper
    from driftsurf.estimators import recommended as recommended
    from driftsurf.evaluation.prequential import prequential as prequential
    from driftsurf.evaluation.trace import Trace as Trace
    from driftsurf.keyed import Fleet as Fleet
    from driftsurf.runs import RunResult as RunResult
    from driftsurf.runs import run as run
    from driftsurf.runs.explanation.explain import explain as explain
    from driftsurf.saving import load as load
    from driftsurf.saving import save as save

    __all__: list[str]
else:
    __getattr__, __dir__, __all__ = exports(__name__, "__version__")

__version__ = "0.2.0"
