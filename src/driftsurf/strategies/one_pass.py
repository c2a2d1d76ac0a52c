"""One pass: each row is learnt once, as it comes, and not kept."""

from __future__ import annotations

from driftsurf.base import Learner
from driftsurf.errors import CapabilityError
from driftsurf.strategies._single import SingleModel

__all__ = ["OnePass"]


class OnePass(SingleModel):
    """One model that takes one gradient step at each new row, in order of arrival, and keeps no row.

    The paper's 1PASS-SGD. It forgets at a rate given by its step size, so it follows drift without
    knowing of it; the compute budget rho is one step a row, whatever the learner's own is.

    Parameters
    ----------
    learner
        The template of the model. It has to know how to learn in one pass (``learner.one_pass()``).
    max_rows, dtype, seed
        As for :class:`driftsurf.strategies.DriftSurf`.

    Examples
    --------
    >>> import numpy as np
    >>> from driftsurf.base import Batch
    >>> from driftsurf.learners import LogisticRegression
    >>> strategy = OnePass(LogisticRegression(step_size=0.5))
    >>> strategy.begin(n_features=1, sparse=False, n_classes=2)
    >>> X = np.linspace(-1, 1, 100).reshape(-1, 1)
    >>> decision = strategy.step(Batch(X, (X[:, 0] > 0).astype(float), np.ones(100)))
    >>> decision.gradients, bool(strategy.scores(np.array([[0.5]]))[0] > 0)
    (100, True)
    """

    def _check(self) -> None:
        if not hasattr(self.learner, "one_pass"):
            raise CapabilityError(
                f"{type(self.learner).__name__} cannot learn in one pass (it has no one_pass method); "
                "use a learner that can, such as LogisticRegression"
            )

    def _template(self) -> Learner:
        made: Learner = self.learner.one_pass()  # type: ignore[attr-defined]
        return made
