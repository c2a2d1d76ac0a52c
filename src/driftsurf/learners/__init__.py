"""Base learners: anything that meets :class:`driftsurf.base.Learner`."""

from driftsurf.learners.logistic import LogisticRegression, paper_learner
from driftsurf.learners.regression import LinearRegression
from driftsurf.learners.softmax import SoftmaxRegression
from driftsurf.learners.svm import LinearSVM

__all__ = ["LinearRegression", "LinearSVM", "LogisticRegression", "SoftmaxRegression", "paper_learner"]
