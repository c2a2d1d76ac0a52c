"""Linear regression by STRSAGA or SGD, with squared or Huber's loss."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np

from driftsurf._kernels import multi
from driftsurf._options import choice, number
from driftsurf._values import replace
from driftsurf.base import Batch, Capabilities, FloatArray
from driftsurf.errors import CapabilityError
from driftsurf.learners._learner import LinearLearner, Optimizer
from driftsurf.learners._linear import Linear
from driftsurf.learners._multi import MultiLearner

__all__ = ["LinearRegression"]

KINDS = {"squared": multi.SQUARED, "huber": multi.HUBER}


class LinearRegression(MultiLearner):
    r"""Linear model for values: minimises the mean loss of the residuals r = w.x - y plus mu/2 |w|^2.

    The loss is r^2, or Huber's, which is r^2 up to epsilon and :math:`2 \epsilon |r| - \epsilon^2`
    beyond, so that no row pulls harder than one at epsilon.

    With ``scale`` the usual place of the targets (their median) is taken off first, as it is of columns
    off zero: a price or a temperature need not be learnt by the intercept, which is regularised.

    Parameters
    ----------
    loss
        "squared" or "huber".
    epsilon
        Where Huber's loss stops being a square, in units of the target. It is a part of the loss by which
        models are compared, so it is a number and not worked out by each of them.
    optimizer, step_size, scale, l2, steps_per_row, steps_per_batch, fit_intercept, start
        As for :class:`driftsurf.learners.LogisticRegression`.

    Examples
    --------
    >>> from driftsurf.samples import Samples
    >>> X = np.random.default_rng(0).normal(size=(500, 2))
    >>> samples = Samples(n_features=2)
    >>> new = samples.append(X, 300.0 + X @ np.array([2.0, -1.0]))
    >>> model = LinearRegression().fresh(seed=0, n_features=2, n_classes=0)
    >>> _ = model.update(samples, new, steps=5000)
    >>> model.coef.round(1), round(model.intercept)
    (array([ 2., -1.]), 300)
    """

    capabilities: ClassVar[Capabilities] = Capabilities(frozenset({"regression"}), probabilities=False)
    parameters: ClassVar[tuple[str, ...]] = ("loss", "epsilon", *LinearLearner.parameters)
    curvature: ClassVar[float] = 2.0
    quadratic = True
    """Huber's grows in proportion only far from the target; near it, and in what is learnt of a row, it is squared."""

    def __init__(
        self,
        *,
        loss: Literal["squared", "huber"] = "squared",
        epsilon: float = 1.35,
        optimizer: Optimizer = "strsaga",
        step_size: float | Literal["auto"] = "auto",
        scale: bool | Literal["auto"] = "auto",
        l2: float = 1e-4,
        steps_per_row: float = 2.0,
        steps_per_batch: int | None = None,
        fit_intercept: bool = True,
        start: Literal["zeros", "uniform"] = "zeros",
    ) -> None:
        self.loss = loss
        self.epsilon = epsilon
        self.optimizer = optimizer
        self.step_size = step_size
        self.scale = scale
        self.l2 = l2
        self.steps_per_row = steps_per_row
        self.steps_per_batch = steps_per_batch
        self.fit_intercept = fit_intercept
        self.start = start

    def _check_params(self) -> None:
        super()._check_params()
        choice("loss", self.loss, tuple(KINDS))
        number("epsilon", self.epsilon, above=0.0)

    @property
    def _loss(self) -> tuple[int, float]:
        return KINDS[self.loss], float(self.epsilon)

    def _outputs(self, n_classes: int) -> int | None:
        if n_classes:
            raise CapabilityError(
                f"LinearRegression predicts values, not {n_classes} classes: use a learner whose tasks include "
                "'binary' or 'multiclass', such as LogisticRegression or SoftmaxRegression."
            )
        return 1

    def _recentred(self, fitted: Linear, rows: Batch) -> Linear:
        counted = rows.y[rows.weight > 0.0]
        if not (self.fit_intercept and len(counted)):
            return fitted
        target = float(np.median(counted))
        # A model that knows nothing yet starts from there; later it keeps what it predicts.
        return replace(fitted, target=target) if fitted.renew_at == 0 else fitted.retargeted(target)

    def row_losses(self, scores: FloatArray, y: FloatArray) -> FloatArray:
        """The squared error of each row, or Huber's."""
        size = np.abs(scores - y)
        if self.loss == "squared":
            return np.square(size)
        inner = np.minimum(size, self.epsilon)
        return inner * (2.0 * size - inner)
