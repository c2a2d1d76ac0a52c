from driftsurf.errors import DriftsurfError as DriftsurfError
from driftsurf.estimators import (
    AwareClassifier as AwareClassifier,
)
from driftsurf.estimators import (
    DriftSurfClassifier as DriftSurfClassifier,
)
from driftsurf.estimators import (
    DriftSurfRegressor as DriftSurfRegressor,
)
from driftsurf.estimators import (
    PortfolioClassifier as PortfolioClassifier,
)
from driftsurf.estimators import (
    PortfolioRegressor as PortfolioRegressor,
)
from driftsurf.estimators import (
    paper as paper,
)
from driftsurf.estimators import (
    recommended as recommended,
)
from driftsurf.evaluation.prequential import prequential as prequential
from driftsurf.evaluation.trace import Trace as Trace
from driftsurf.explanation.explain import explain as explain
from driftsurf.keyed import Fleet as Fleet
from driftsurf.runs import RunResult as RunResult
from driftsurf.runs import run as run
from driftsurf.saving import load as load
from driftsurf.saving import save as save

__version__: str
__all__: list[str]
