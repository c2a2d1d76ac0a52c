"""Names imported from scikit-learn, which has no type annotations: the stub beside this file has them."""

from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, TransformerMixin, clone
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, column_or_1d

__all__ = [
    "BaseEstimator",
    "ClassifierMixin",
    "RegressorMixin",
    "TransformerMixin",
    "available_if",
    "check_is_fitted",
    "check_random_state",
    "clone",
    "column_or_1d",
]
