"""Linear regression with squared or Huber's loss, trained by STRSAGA, SAGA or SGD."""

from __future__ import annotations

import math
from typing import ClassVar, Literal

import numpy as np

from driftsurf.core.changes import replace
from driftsurf.core.contracts import Batch, Capabilities, FloatArray, SampleStore, Segment
from driftsurf.core.options import choice, number
from driftsurf.errors import CapabilityError
from driftsurf.learners._linear import Linear
from driftsurf.learners._multi import MultiLearner
from driftsurf.learners._options import Optimizer
from driftsurf.native.columns import median_target
from driftsurf.native.linear import HUBER, SQUARED, output_losses
from driftsurf.registry import REGRESSION, Example, register

KINDS = {"squared": SQUARED, "huber": HUBER}


@register(
    "learner",
    "linear",
    title="Linear regression",
    tasks=REGRESSION,
    default_for=REGRESSION,
    examples=[Example(), Example({"loss": "huber"}, "huber")],
)
class LinearRegression(MultiLearner):
    r"""Linear regression with squared or Huber's loss.

    It minimises the mean loss of the residuals r = w.x - y plus mu/2 w.w. The loss is r^2, or Huber's, which is r^2
    up to epsilon and :math:`2 \epsilon |r| - \epsilon^2` beyond, so that no row pulls harder than one at epsilon.

    With ``scale`` the median of the targets is subtracted first, as is the centre of columns that are far from zero:
    the intercept, which is penalised, need not learn a price or a temperature. Values are then limited to the range
    that their column had in the rows learned, widened by a tenth of it, before they are scored: a model that starts in
    autumn has not seen January, and the slope that it has found from October to December need not hold there. Rows of
    weight 0 do not count for the range. Rows that are forgotten later do, as they do for the weights. Finally,
    predictions are drawn towards the mean target, by the factor from 0 to 1 that would have suited the rows so far when
    each was predicted before it was learned: a model that was no better than the mean predicts the mean until it is.

    Parameters
    ----------
    loss
        "squared" or "huber".
    epsilon
        Residual at which Huber's loss stops being quadratic, in units of the target. It is a fixed number and not
        estimated, since models are compared by this loss.
    optimizer, step_size, scale, l2, steps_per_row, steps_per_batch, fit_intercept, start
        As for :class:`driftsurf.learners.LogisticRegression`.

    Examples
    --------
    >>> import numpy as np
    >>> from driftsurf.core.samples import Samples
    >>> X = np.random.default_rng(0).normal(size=(500, 2))
    >>> samples = Samples(n_features=2)
    >>> new = samples.append(X, 300.0 + X @ np.array([2.0, -1.0]))
    >>> model = LinearRegression().fresh(seed=0, n_features=2, n_classes=0)
    >>> _ = model.update(samples, new, steps=5000)
    >>> model.coef.round(1), round(model.intercept)
    (array([ 2., -1.]), 300)
    """

    capabilities: Capabilities = Capabilities(
        frozenset({"regression"}), linear=True, one_pass=True, quadratic_loss=True, probabilities=False
    )
    # Huber's loss grows in proportion only far from the target; near it, and in its gradients, it is quadratic.
    curvature: ClassVar[float] = 2.0

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
        super().__init__(
            optimizer=optimizer,
            step_size=step_size,
            scale=scale,
            l2=l2,
            steps_per_row=steps_per_row,
            steps_per_batch=steps_per_batch,
            fit_intercept=fit_intercept,
            start=start,
        )
        self.loss = loss
        self.epsilon = epsilon

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
                f"LinearRegression predicts numbers, not {n_classes} classes; use a learner whose tasks include "
                "'binary' or 'multiclass', such as LogisticRegression or SoftmaxRegression."
            )
        return 1

    def _met(self, fitted: Linear, samples: SampleStore, new: int) -> Linear:
        if not self._scaled:
            return fitted
        rows = samples.view(Segment(new, fitted.hi))
        predicted, judged_by = None, rows
        if len(fitted.evidence):
            predicted = self._scorer_with(self._both_weights()[0])(rows.X)  # the model itself is still unchanged
            if self.loss == "huber":  # no row counts more than one at epsilon
                near = predicted + np.clip(rows.y - predicted, -self.epsilon, self.epsilon)
                judged_by = rows._replace(y=near)
        return fitted.judged(predicted, judged_by).ranged(rows.X, rows.weight)

    def _recentred(self, fitted: Linear, rows: Batch) -> Linear:
        target = median_target(rows.y, rows.weight, np.empty(len(rows.y))) if self.fit_intercept else math.nan
        if math.isnan(target):
            return fitted
        # An untrained model starts from there; a trained one keeps its predictions.
        return replace(fitted, target=target) if fitted.rescale_at == 0 else fitted.retargeted(target)

    def row_losses(self, scores: FloatArray, y: FloatArray) -> FloatArray:
        """Return the squared error, or Huber's loss, of each row."""
        losses = np.empty(len(y))
        output_losses(scores, y, *self._loss, losses)
        return losses
