"""Base learners: anything that meets :class:`driftsurf.base.Learner`."""

from driftsurf.learners.logistic import LogisticRegression

__all__ = ["LogisticRegression"]
