"""Base learners: models that strategies create, train and replace.

The linear learners of this package (STRSAGA, SAGA, SGD) live here, one public class in a file of its own;
:mod:`driftsurf.learners.foreign` adapts models of other libraries, and :mod:`driftsurf.learners.export` turns a trained
linear model into plain arrays or ONNX. A learner implements :class:`driftsurf.core.contracts.Learner`. It knows rows by
their number in a store and nothing of drift, labels, strategies or files.
"""

# The rest of this file is made by `make generate`: do not edit.
from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from driftsurf.learners.logistic import LogisticRegression, paper_learner
    from driftsurf.learners.naive_bayes import NaiveBayes
    from driftsurf.learners.perceptron import Perceptron
    from driftsurf.learners.regression import LinearRegression
    from driftsurf.learners.softmax import SoftmaxRegression
    from driftsurf.learners.svm import LinearSVM
else:
    from typing import Any

__all__ = [
    "LinearRegression",
    "LinearSVM",
    "LogisticRegression",
    "NaiveBayes",
    "Perceptron",
    "SoftmaxRegression",
    "paper_learner",
]

_HOMES = {
    "LinearRegression": "driftsurf.learners.regression",
    "LinearSVM": "driftsurf.learners.svm",
    "LogisticRegression": "driftsurf.learners.logistic",
    "NaiveBayes": "driftsurf.learners.naive_bayes",
    "Perceptron": "driftsurf.learners.perceptron",
    "SoftmaxRegression": "driftsurf.learners.softmax",
    "paper_learner": "driftsurf.learners.logistic",
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Import a public name when it is first used."""
        if name in _HOMES:
            return getattr(import_module(_HOMES[name]), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted(__all__)
