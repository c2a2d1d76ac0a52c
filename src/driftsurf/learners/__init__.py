"""Base learners: models that strategies create, train and replace.

The linear learners of this package (STRSAGA, SAGA, SGD) live here, one public class in a file of its own;
:mod:`driftsurf.learners.foreign` adapts models of other libraries, and :mod:`driftsurf.learners.export` turns a trained
linear model into plain arrays or ONNX. A learner implements :class:`driftsurf.core.contracts.Learner`. It knows rows by
their number in a store and nothing of drift, labels, strategies or files.
"""

# The rest of this file is made by `make generate`: do not edit.
from driftsurf.learners.logistic import LogisticRegression, paper_learner
from driftsurf.learners.naive_bayes import NaiveBayes
from driftsurf.learners.perceptron import Perceptron
from driftsurf.learners.regression import LinearRegression
from driftsurf.learners.softmax import SoftmaxRegression
from driftsurf.learners.svm import LinearSVM

__all__ = [
    "LinearRegression",
    "LinearSVM",
    "LogisticRegression",
    "NaiveBayes",
    "Perceptron",
    "SoftmaxRegression",
    "paper_learner",
]
