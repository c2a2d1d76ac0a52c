"""Oblivious: one model trained on all rows, without any adaptation to drift."""

from __future__ import annotations

from driftsurf.registry import ALL_TASKS, register
from driftsurf.strategies._single import SingleModel

__all__ = ["Oblivious"]


@register("strategy", "oblivious", tasks=ALL_TASKS)
class Oblivious(SingleModel):
    """One model that is trained on all rows and never replaced.

    The paper's OBL: it shows how much an algorithm loses by not adapting. The paper trains it with SAGA, where every
    gradient is at a row drawn uniformly from the sample set (``LogisticRegression(optimizer="saga")``); any learner
    can be used.

    Parameters
    ----------
    learner
        Template of the model.
    max_rows, dtype, seed
        As for :class:`driftsurf.strategies.DriftSurf`. A bound on the rows is a slow way of forgetting; None keeps all.

    Examples
    --------
    >>> import numpy as np
    >>> from driftsurf.core.contracts import Batch
    >>> from driftsurf.learners import LogisticRegression
    >>> strategy = Oblivious(LogisticRegression(optimizer="saga"))
    >>> strategy.begin(n_features=1, sparse=False, n_classes=2)
    >>> X = np.linspace(-1, 1, 100).reshape(-1, 1)
    >>> for sign in (1, 1, 1, -1):  # the labels are inverted at the end; it hardly adapts
    ...     decision = strategy.step(Batch(X, (sign * X[:, 0] > 0).astype(float), np.ones(100)))
    >>> bool(strategy.scores(np.array([[0.5]]))[0] > 0)
    True
    """
