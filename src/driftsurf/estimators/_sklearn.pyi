"""Types of what is used of scikit-learn, which has no annotations."""

from collections.abc import Callable
from typing import Any, Self, TypeVar

import numpy as np
import numpy.typing as npt

from driftsurf.core.frames import RandomState, TableLike, TargetLike

T = TypeVar("T")

class BaseEstimator:
    """Parameters by name: the arguments of the constructor."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters; with ``deep`` also those of parts, as ``learner__l2``."""

    def set_params(self, **params: Any) -> Self:
        """Set parameters, also those of parts, as ``learner__l2=0.1``. They take effect with the next ``fit``."""

    def __sklearn_tags__(self) -> Any: ...

class ClassifierMixin:
    """The method ``score`` of a classifier."""

    def score(self, X: TableLike, y: TargetLike, sample_weight: TargetLike | None = None) -> float:
        """Return the accuracy of ``predict`` on rows with known labels."""

class RegressorMixin:
    """The method ``score`` of a regressor."""

    def score(self, X: TableLike, y: TargetLike, sample_weight: TargetLike | None = None) -> float:
        """Return the coefficient of determination of ``predict`` on rows with known targets."""

class TransformerMixin:
    """The method ``fit_transform`` of a transformer."""

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """Fit to the rows, then transform them."""

def available_if(check: Callable[[Any], bool]) -> Callable[[T], T]:
    """Hide a method of an estimator for which ``check`` raises AttributeError."""

def check_is_fitted(estimator: object) -> None:
    """Raise NotFittedError for an estimator without data."""

def check_random_state(seed: RandomState) -> np.random.RandomState:
    """Return a generator of random numbers for a seed."""

def clone(estimator: T, *, safe: bool = True) -> T:
    """Return an unfitted estimator with the same parameters."""

def column_or_1d(y: Any, *, warn: bool = False) -> npt.NDArray[Any]:
    """Return a column as a one-dimensional array."""
