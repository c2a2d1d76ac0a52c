"""Softmax regression for any number of classes, which may grow during learning."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from driftsurf.core.contracts import Capabilities, FloatArray, Undo
from driftsurf.core.samples import Buffer
from driftsurf.errors import CapabilityError
from driftsurf.learners._linear import Linear
from driftsurf.learners._multi import MultiLearner
from driftsurf.native.experts import log_losses
from driftsurf.native.linear import SOFTMAX
from driftsurf.native.scores import log_softmax
from driftsurf.registry import CLASSIFICATION, name_of, register


@register("learner", "softmax", title="Softmax regression", tasks=CLASSIFICATION, default_for={"multiclass"})
class SoftmaxRegression(MultiLearner):
    r"""Softmax (multinomial logistic) regression for any number of classes.

    It minimises the mean of -log p(y|x) plus mu/2 times the sum of its squared weights, where

    .. math:: p(k | x) = \frac{\exp(w_k \cdot x)}{\sum_j \exp(w_j \cdot x)}.

    The gradient at a row is K scalars, p(k|x) - [y = k], times the row; the table of STRSAGA holds these scalars.
    Scores are log-probabilities (n, K), even for two classes. A class that appears later starts with weights 0, as all
    do: the weights of the others sum to 0, so it gets at most 1 / (K + 1) of the probability until it is learned.

    Parameters
    ----------
    optimizer, step_size, scale, l2, steps_per_row, steps_per_batch, fit_intercept, start
        As for :class:`driftsurf.learners.LogisticRegression`.

    Examples
    --------
    >>> import numpy as np
    >>> from driftsurf.core.samples import Samples
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

    capabilities: Capabilities = Capabilities(
        frozenset({"binary", "multiclass"}), linear=True, one_pass=True, grows_classes=True
    )
    curvature: ClassVar[float] = 0.5
    kind: ClassVar[int] = SOFTMAX

    @staticmethod
    def read(outputs: FloatArray) -> FloatArray:
        """Convert outputs to log-probabilities, in place."""
        log_softmax(outputs)
        return outputs

    def _outputs(self, n_classes: int) -> int | None:
        if n_classes < 2:
            raise CapabilityError(
                f"the learner {name_of('learner', self)} needs at least 2 classes, not {n_classes}: its tasks do not "
                "include 'regression'; use linear."
            )
        return n_classes

    @property
    def _reach(self) -> float:
        return math.inf  # the gradient is bounded

    def row_losses(self, scores: FloatArray, y: FloatArray) -> FloatArray:
        """Return -log p(true class) of each row."""
        return log_losses(scores, y, math.inf)

    def grow(self, n_classes: int) -> Undo:
        """Make room for more classes."""
        fitted, table = self._fitted, self._table

        def undo() -> None:
            self._fitted, self._table = fitted, table

        self._fitted, self._table = self._grown(fitted, table, n_classes)
        return undo

    def _grown(self, fitted: Linear, table: Buffer, n_classes: int) -> tuple[Linear, Buffer]:
        """Return a model and its gradient table with room for more classes; the given ones stay as they are."""
        more = n_classes - fitted.weights.shape[1]
        if more <= 0:
            return fitted, table
        # A new class has had no gradient so far, so its entries are 0; a row that was never drawn has none at all.
        new = np.where(np.isnan(table.live[:, :1]), math.nan, 0.0)
        entries = np.hstack([table.live, np.repeat(new, more, axis=1)])
        return fitted.widened(n_classes), Buffer.of(entries, table.first)
