"""Gaussian naive Bayes, learned row by row without keeping any."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from driftsurf.core.contracts import Capabilities, Segment
from driftsurf.core.fields import Array, FieldRule, Fields
from driftsurf.core.options import number
from driftsurf.learners._online import COUNTS, OnlineLearner
from driftsurf.native.online import BayesModel
from driftsurf.registry import CLASSIFICATION, register


@register("learner", "naive-bayes", title="Naive Bayes", tasks=CLASSIFICATION, draws=False)
class NaiveBayes(OnlineLearner):
    r"""Gaussian naive Bayes: each column of each class is normal, and columns are independent given the class.

    .. math::
        \log p(k | x) = \log \pi_k
        - \sum_c \Big(\log \sigma_{kc} + \frac{(x_c - \mu_{kc})^2}{2 \sigma_{kc}^2}\Big) + \text{const},

    where :math:`\pi_k = (n_k + 1) / (n + K)` is the smoothed share of the class, and :math:`\mu_{kc}` is the mean of
    column c over its :math:`n_k` rows. The variance :math:`\sigma_{kc}^2` is that of these rows and of ``smoothing``
    rows more with the variance of the column over all classes, so that a class with few rows, or with equal ones, is
    not taken to be certain. This does not depend on the units of the columns. It learns each row once, keeps none,
    forgets nothing, and is at its best with few rows.

    Parameters
    ----------
    smoothing
        Number of rows that the variance of a column over all classes counts for.

    Examples
    --------
    >>> import numpy as np
    >>> from driftsurf.core.samples import Samples
    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> y = (np.abs(X[:, 0]) > 1).astype(float)
    >>> samples = Samples(n_features=2)
    >>> model = NaiveBayes().fresh(seed=0, n_features=2, n_classes=2)
    >>> _ = model.update(samples, samples.append(X, y), steps=300)
    >>> bool(np.mean(model.scores(X).argmax(axis=1) == y) > 0.9)
    True

    References
    ----------
    T. F. Chan, G. H. Golub, R. J. LeVeque. Algorithms for computing the sample variance: analysis and
    recommendations. The American Statistician, 1983.
    """

    def __init__(self, *, smoothing: float = 1.0) -> None:
        self.smoothing = smoothing

    @property
    def capabilities(self) -> Capabilities:
        """Any number of classes, dense and sparse rows, weights; the work is counted in visits of rows."""
        return Capabilities(CLASSIFICATION, grows_classes=True, gradients=False)

    def _check(self) -> None:
        number("smoothing", self.smoothing, above=0.0)

    def budget(self, new: Segment) -> int:
        """Return one visit for each new row."""
        return len(new)

    def _first(self, counts: dict[str, int], seed: int) -> BayesModel:
        K, d = counts["n_classes"], counts["n_features"]
        return self._loaded(counts | {"count": np.zeros(K), "mean": np.zeros((K, d)), "squares": np.zeros((K, d))})

    def _fields(self) -> Fields:
        return FIELDS

    def _loaded(self, known: Mapping[str, Any]) -> BayesModel:
        return BayesModel(known, smoothing=float(self.smoothing))


FIELDS = Fields(
    COUNTS
    | {
        "count": Array(np.float64, ("n_classes",), least=0.0),
        "mean": Array(np.float64, ("n_classes", "n_features")),
        "squares": Array(np.float64, ("n_classes", "n_features"), least=0.0),
    },
    rules=[FieldRule("n_classes", "must be at least 2", lambda known: known["n_classes"] >= 2)],
)
"""Saved entries of a model."""
