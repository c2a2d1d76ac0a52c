"""Oblivious: one model, trained on everything, that knows nothing of drift."""

from __future__ import annotations

from driftsurf.strategies._single import SingleModel

__all__ = ["Oblivious"]


class Oblivious(SingleModel):
    """One model that is never replaced.

    The paper's OBL: how much an algorithm loses that does not adapt. The paper trains it by SAGA with
    every gradient at a row drawn uniformly from the sample set
    (``LogisticRegression(optimizer="saga")``); any learner will do.

    Parameters
    ----------
    learner
        The template of the model.
    max_rows, dtype, seed
        As for :class:`driftsurf.strategies.DriftSurf`. A cap on the rows is a slow way of forgetting;
        None keeps all.

    Examples
    --------
    >>> import numpy as np
    >>> from driftsurf.base import Batch
    >>> from driftsurf.learners import LogisticRegression
    >>> strategy = Oblivious(LogisticRegression(optimizer="saga"))
    >>> strategy.begin(n_features=1, sparse=False, n_classes=2)
    >>> X = np.linspace(-1, 1, 100).reshape(-1, 1)
    >>> for sign in (1, 1, 1, -1):  # the labels turn around once; it hardly notices
    ...     decision = strategy.step(Batch(X, (sign * X[:, 0] > 0).astype(float), np.ones(100)))
    >>> bool(strategy.scores(np.array([[0.5]]))[0] > 0)
    True
    """
