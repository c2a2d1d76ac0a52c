"""Linear decay: one model whose rows lose weight in proportion to their age."""

from __future__ import annotations

from driftsurf._options import whole
from driftsurf.base import FloatArray, Learner
from driftsurf.strategies._ageing import AgeingModel
from driftsurf.strategies._reweighted import check_weights

__all__ = ["LinearDecay"]


class LinearDecay(AgeingModel):
    r"""One model that minimises its loss over the last rows, each with a weight that falls to 0 with its age a:

    .. math:: w(a) = 1 - a / W, \qquad a = 0, 1, \dots, W - 1,

    times the weight that the row came with. A row that W others have followed is forgotten.

    The decay shows in a gradient at the moment when it is taken. A learner that keeps gradients (STRSAGA, SAGA)
    has them from the last visit to each row, with the weight of that time, until the row is drawn again;
    a row that is forgotten takes with it exactly what was kept for it.

    Parameters
    ----------
    learner
        The template of the model. It needs the capability ``weights``.
    window
        W, the age in rows at which a row counts for nothing.
    max_rows, dtype, seed
        As for :class:`driftsurf.strategies.DriftSurf`; the window bounds the rows already.

    Examples
    --------
    >>> import numpy as np
    >>> from driftsurf.base import Batch
    >>> from driftsurf.learners import LogisticRegression
    >>> strategy = LinearDecay(LogisticRegression(), window=400)
    >>> strategy.begin(n_features=1, sparse=False, n_classes=2)
    >>> X = np.linspace(-1, 1, 100).reshape(-1, 1)
    >>> for sign in (1, 1, 1, 1, -1, -1, -1, -1):  # the labels turn around once
    ...     decision = strategy.step(Batch(X, (sign * X[:, 0] > 0).astype(float), np.ones(100)))
    >>> bool(strategy.scores(np.array([[0.5]]))[0] > 0)
    False

    References
    ----------
    I. Koychev. Gradual forgetting for adaptation to concept drift. ECAI Workshop on Current Issues in
    Spatio-Temporal Reasoning, 2000.
    """

    def __init__(
        self,
        learner: Learner,
        *,
        window: int = 10_000,
        max_rows: int | None = None,
        dtype: str = "float64",
        seed: int = 0,
    ) -> None:
        super().__init__(learner, max_rows=max_rows, dtype=dtype, seed=seed)
        self.window = window

    def _check(self) -> None:
        whole("window", self.window, at_least=1)
        check_weights(self.learner, self)

    def _span(self) -> int:
        return int(self.window)

    def _faded(self, age: FloatArray) -> FloatArray:
        return 1.0 - age / self.window
