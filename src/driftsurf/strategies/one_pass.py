"""One pass: each row is learned once, on arrival, and not kept."""

from __future__ import annotations

from typing import Any

from driftsurf.core.contracts import Learner
from driftsurf.registry import ALL_TASKS, register
from driftsurf.strategies._single import SingleModel


@register("strategy", "one-pass", title="One pass", tasks=ALL_TASKS, needs={"one_pass"})
class OnePass(SingleModel):
    """One model that takes one gradient step at each new row, in order of arrival, and stores no rows.

    The paper's 1PASS-SGD. It forgets at a rate given by its step size, so it follows drift without detecting it. The
    compute budget rho is one step per row, whatever the learner's own budget is.

    Parameters
    ----------
    learner
        Template of the model. It needs the capability ``one_pass``.
    max_rows, dtype, seed
        As for :class:`driftsurf.strategies.DriftSurf`.

    Examples
    --------
    >>> import numpy as np
    >>> from driftsurf.core.contracts import Batch
    >>> from driftsurf.learners import LogisticRegression
    >>> strategy = OnePass(LogisticRegression(step_size=0.5))
    >>> strategy.begin(n_features=1, sparse=False, n_classes=2)
    >>> X = np.linspace(-1, 1, 100).reshape(-1, 1)
    >>> decision = strategy.step(Batch(X, (X[:, 0] > 0).astype(float), np.ones(100)))
    >>> decision.gradients, bool(strategy.scores(np.array([[0.5]]))[0] > 0)
    (100, True)
    """

    def _check(self) -> None:
        self._require("one_pass")

    def _template(self) -> Learner:
        learner: Any = self.learner
        template: Learner = learner.one_pass()
        return template
