"""Multinomial logistic regression: any number of classes, which may grow while it learns."""

from __future__ import annotations

import math
from typing import ClassVar, Literal

import numpy as np

from driftsurf._buffer import Buffer
from driftsurf._kernels import multi
from driftsurf.base import Capabilities, FloatArray, Undo
from driftsurf.errors import CapabilityError
from driftsurf.learners._learner import Optimizer
from driftsurf.learners._multi import MultiLearner

__all__ = ["SoftmaxRegression"]


class SoftmaxRegression(MultiLearner):
    r"""Linear model for K classes: minimises the mean of -log p(y|x) plus mu/2 |W|^2.

    .. math:: p(k | x) = \frac{\exp(w_k \cdot x)}{\sum_j \exp(w_j \cdot x)}.

    The gradient of a row is K scalars, p(k|x) - [y = k], times the row: the table of STRSAGA holds these.
    Scores are the logarithms of the probabilities, (n, K), also for two classes. A class that appears
    later starts with weights 0, as all do: the others' sum to 0, so it gets at most 1 / (K + 1) of the
    probability until it is learnt.

    Parameters
    ----------
    optimizer, step_size, scale, l2, steps_per_row, steps_per_batch, fit_intercept, start
        As for :class:`driftsurf.learners.LogisticRegression`.

    Examples
    --------
    >>> from driftsurf.samples import Samples
    >>> X = np.random.default_rng(0).normal(size=(500, 2))
    >>> y = np.argmax(np.column_stack([X, -X.sum(axis=1)]), axis=1)
    >>> samples = Samples(n_features=2)
    >>> new = samples.append(X, y.astype(float))
    >>> model = SoftmaxRegression().fresh(seed=0, n_features=2, n_classes=3)
    >>> _ = model.update(samples, new, steps=5000)
    >>> bool(np.mean(model.scores(X).argmax(axis=1) == y) > 0.95)
    True

    References
    ----------
    E. Jothimurugesan, A. Tahmasbi, P. B. Gibbons, S. Tirthapura. Variance-reduced stochastic
    gradient descent on streaming data. NeurIPS 2018.
    """

    capabilities: ClassVar[Capabilities] = Capabilities(frozenset({"binary", "multiclass"}), grows_classes=True)
    curvature: ClassVar[float] = 0.5
    kind: ClassVar[int] = multi.SOFTMAX

    def __init__(
        self,
        *,
        optimizer: Optimizer = "strsaga",
        step_size: float | Literal["auto"] = "auto",
        scale: bool | Literal["auto"] = "auto",
        l2: float = 1e-4,
        steps_per_row: float = 2.0,
        steps_per_batch: int | None = None,
        fit_intercept: bool = True,
        start: Literal["zeros", "uniform"] = "zeros",
    ) -> None:
        self.optimizer = optimizer
        self.step_size = step_size
        self.scale = scale
        self.l2 = l2
        self.steps_per_row = steps_per_row
        self.steps_per_batch = steps_per_batch
        self.fit_intercept = fit_intercept
        self.start = start

    @staticmethod
    def read(outputs: FloatArray) -> FloatArray:
        """Log-probabilities."""
        multi.log_softmax(outputs)
        return outputs

    def _outputs(self, n_classes: int) -> int | None:
        if n_classes < 2:
            raise CapabilityError("SoftmaxRegression tells classes apart (its tasks do not include 'regression').")
        return n_classes

    @property
    def _reach(self) -> float:
        return math.inf  # the gradient is bounded

    def row_losses(self, scores: FloatArray, y: FloatArray) -> FloatArray:
        """-log p of the true class of each row."""
        return -scores[np.arange(len(y)), y.astype(np.int64)]

    def grow(self, *, n_classes: int | None = None, n_features: int | None = None) -> Undo:
        """Make room for more classes."""
        if n_classes is None or n_features is not None:
            return super().grow(n_classes=n_classes, n_features=n_features)
        fitted, table = self._fitted, self._table
        more = n_classes - fitted.weights.shape[1]
        if more <= 0:
            return lambda: None
        wider = Buffer(np.float64, n_classes)
        wider.first = table.first
        # A class that was not there has no gradient in the average.
        wider.append(np.hstack([table.live, np.zeros((len(table), more))]))

        def undo() -> None:
            self._fitted, self._table = fitted, table

        self._fitted, self._table = fitted.widened(n_classes), wider
        return undo
