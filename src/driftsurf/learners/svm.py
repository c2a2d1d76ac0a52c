"""A linear support vector machine with the squared hinge loss."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np

from driftsurf._kernels import multi
from driftsurf.base import Capabilities, FloatArray
from driftsurf.errors import CapabilityError
from driftsurf.learners._learner import Optimizer
from driftsurf.learners._multi import MultiLearner

__all__ = ["LinearSVM"]


class LinearSVM(MultiLearner):
    r"""Linear model for two classes: minimises the mean of max(0, 1 - s w.x)^2 plus mu/2 |w|^2, s = -1 or +1.

    Rows beyond the margin have no gradient: what is clear already is left alone. The square makes the
    loss smooth, as variance-reduced steps need it. Scores are margins, not log-odds: there are no
    probabilities.

    Parameters
    ----------
    optimizer, step_size, scale, l2, steps_per_row, steps_per_batch, fit_intercept, start
        As for :class:`driftsurf.learners.LogisticRegression`.

    Examples
    --------
    >>> from driftsurf.samples import Samples
    >>> X = np.linspace(-1, 1, 200).reshape(-1, 1)
    >>> samples = Samples(n_features=1)
    >>> new = samples.append(X, (X[:, 0] > 0).astype(float))
    >>> model = LinearSVM().fresh(seed=0, n_features=1, n_classes=2)
    >>> _ = model.update(samples, new, steps=2000)
    >>> bool(np.mean((model.scores(X) > 0) == (X[:, 0] > 0)) > 0.97)
    True
    """

    capabilities: ClassVar[Capabilities] = Capabilities(probabilities=False)
    curvature: ClassVar[float] = 2.0
    quadratic = True
    kind: ClassVar[int] = multi.SQUARED_HINGE

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

    def _outputs(self, n_classes: int) -> int | None:
        if n_classes != 2:
            raise CapabilityError(
                f"LinearSVM tells two classes apart, not {n_classes}: merge classes, or use a learner whose tasks "
                "include 'multiclass', such as SoftmaxRegression."
            )
        return 1

    def row_losses(self, scores: FloatArray, y: FloatArray) -> FloatArray:
        """The squared hinge loss of each row."""
        return np.square(np.maximum(0.0, 1.0 - (2.0 * y - 1.0) * scores))
