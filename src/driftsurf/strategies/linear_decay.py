"""Linear decay: one model whose rows lose weight in proportion to their age."""

from __future__ import annotations

from driftsurf.core.contracts import FloatArray
from driftsurf.registry import ALL_TASKS, Example, register
from driftsurf.strategies.sliding_window import SlidingWindow


@register(
    "strategy",
    "linear-decay",
    title="Linear decay",
    tasks=ALL_TASKS,
    needs={"weights"},
    batches={"window": 20},
    examples=[Example({"window": 200})],
)
class LinearDecay(SlidingWindow):
    r"""One model over the last rows, whose weights fall linearly with their age.

    A row that :math:`a` newer rows have followed has its own weight times

    .. math:: w(a) = 1 - a / W, \qquad a = 0, 1, \dots, W - 1,

    and is forgotten when W others have followed it: a :class:`~driftsurf.strategies.SlidingWindow` whose rows fade.
    The weight applies to a gradient at the moment it is computed. A learner that stores gradients (STRSAGA, SAGA) has
    them from the last visit to each row, with the weight of that time, until the row is drawn again.

    Parameters
    ----------
    learner
        Template of the model. It needs the capability ``weights``.
    window
        W, the age in rows at which a row is forgotten.
    max_rows, dtype, seed
        As for :class:`driftsurf.strategies.DriftSurf`; the window already bounds the rows.

    Examples
    --------
    >>> import numpy as np
    >>> from driftsurf.core.contracts import Batch
    >>> from driftsurf.learners import LogisticRegression
    >>> strategy = LinearDecay(LogisticRegression(), window=400)
    >>> strategy.begin(n_features=1, sparse=False, n_classes=2)
    >>> X = np.linspace(-1, 1, 100).reshape(-1, 1)
    >>> for sign in (1, 1, 1, 1, -1, -1, -1, -1):  # the labels are inverted once
    ...     decision = strategy.step(Batch(X, (sign * X[:, 0] > 0).astype(float), np.ones(100)))
    >>> bool(strategy.scores(np.array([[0.5]]))[0] > 0)
    False

    References
    ----------
    I. Koychev. Gradual forgetting for adaptation to concept drift. ECAI Workshop on Current Issues in
    Spatio-Temporal Reasoning, 2000.
    """

    def _check(self) -> None:
        super()._check()
        self._require("weights")

    def _fades(self) -> bool:
        return True

    def _fading(self, age: FloatArray) -> FloatArray:
        return 1.0 - age / self.window
