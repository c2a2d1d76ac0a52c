"""Adapters that turn models of scikit-learn, LightGBM, river and PyTorch into base learners.

Each library has one file. An adapter imports its library only when it is used. It adds what a foreign model lacks: rows
by number, scores of one shape, a risk, an undo and, where possible, an exact state. No learner of this package's own
lives here.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from driftsurf import registry
from driftsurf.core.abilities import check_contract, missing_members
from driftsurf.core.contracts import Learner
from driftsurf.core.options import shown
from driftsurf.errors import OptionError

if TYPE_CHECKING:
    from driftsurf.learners.foreign.boosting import BoostedTrees
    from driftsurf.learners.foreign.lazy_boosting import LazyBoostedTrees
    from driftsurf.learners.foreign.river import RiverLearner
    from driftsurf.learners.foreign.sklearn import SklearnLearner
    from driftsurf.learners.foreign.torch import TorchLearner

__all__ = [
    "BoostedTrees",
    "LazyBoostedTrees",
    "RiverLearner",
    "SklearnLearner",
    "TorchLearner",
    "as_learner",
]

_HOMES = {
    "BoostedTrees": "boosting",
    "LazyBoostedTrees": "lazy_boosting",
    "RiverLearner": "river",
    "SklearnLearner": "sklearn",
    "TorchLearner": "torch",
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Import an adapter when it is first used: the trees need no other."""
        if name in _HOMES:
            return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def as_learner(model: Any) -> Learner:
    """Return ``model`` if it is a learner, else the adapter for its kind around it.

    Examples
    --------
    >>> from sklearn.linear_model import SGDClassifier
    >>> as_learner(SGDClassifier())
    SklearnLearner(estimator=SGDClassifier())
    """
    if isinstance(model, str):
        known = {entry.name: f"{entry.part.__name__}()" for entry in registry.entries("learner")}
        raise OptionError(
            f"learner is the text {model!r}; {registry.nearest(model, known)}pass a learner, such as "
            f"{', '.join(known.values())}, a scikit-learn or river estimator, or None for the default"
        )
    if not isinstance(model, type) and missing_members(model, Learner):
        if type(model).__module__.startswith("river."):
            from driftsurf.learners.foreign.river import RiverLearner

            return RiverLearner(model)
        from driftsurf.learners.foreign.sklearn import SklearnEstimator, SklearnLearner

        missing = missing_members(model, SklearnEstimator)
        if not missing:
            return SklearnLearner(model)
        if "predict" not in missing:
            raise OptionError(
                f"learner is {shown(model)}, which looks like a scikit-learn estimator but has no "
                f"{' and no '.join(missing)}; add what is missing, or derive its class from sklearn.base.BaseEstimator "
                "for get_params"
            )
    check_contract(
        model,
        Learner,
        "learner",
        "a learner of driftsurf.learners, a scikit-learn or river estimator, a PyTorch module in "
        "driftsurf.learners.foreign.TorchLearner, or None for the default",
    )
    learner: Learner = model
    return learner
