"""Parts from elsewhere: any scikit-learn, river or PyTorch model as a base learner, river's detectors as ours."""

from __future__ import annotations

from typing import Any

from driftsurf.adapters.river import RiverLearner
from driftsurf.adapters.river_detector import RiverDetector, as_detector
from driftsurf.adapters.sklearn import SklearnLearner
from driftsurf.adapters.torch import TorchLearner
from driftsurf.base import Learner
from driftsurf.errors import OptionError

__all__ = ["RiverDetector", "RiverLearner", "SklearnLearner", "TorchLearner", "as_detector", "as_learner"]


def as_learner(model: Any) -> Learner:
    """``model`` if it is a learner, else in the adapter for its kind.

    >>> from sklearn.linear_model import SGDClassifier
    >>> as_learner(SGDClassifier())
    SklearnLearner(estimator=SGDClassifier())
    """
    if not isinstance(model, type):
        if all(hasattr(model, name) for name in ("capabilities", "fresh", "budget", "update", "row_losses")):
            learner: Learner = model
            return learner
        if type(model).__module__.startswith("river."):
            return RiverLearner(model)
        if all(hasattr(model, name) for name in ("fit", "predict", "get_params")):
            return SklearnLearner(model)
    raise OptionError(
        f"learner is {model!r}, which does not meet driftsurf.base.Learner; use a learner of driftsurf.learners, a "
        "scikit-learn or river estimator as it is, a PyTorch module in driftsurf.adapters.TorchLearner, or None for "
        "the default"
    )
