"""Base learners: anything that meets :class:`driftsurf.base.Learner`."""

from driftsurf.learners.logistic import LogisticRegression, paper_learner

__all__ = ["LogisticRegression", "paper_learner"]
