"""Logistic regression with an L2 penalty, trained by STRSAGA, SAGA or SGD within a compute budget."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Literal, Self

import numpy as np

from driftsurf.core.changes import replace
from driftsurf.core.contracts import CSR, Batch, Capabilities, FloatArray, Rows
from driftsurf.core.samples import Buffer
from driftsurf.errors import CapabilityError
from driftsurf.learners._learner import AUTO_STEP, Update
from driftsurf.learners._linear import Linear, margins, margins_of_all
from driftsurf.learners.softmax import SoftmaxRegression
from driftsurf.native.linear import logistic_losses, saga, saga_both, sgd
from driftsurf.native.scores import MarginScorer
from driftsurf.registry import register

NARROW = 64
"""Up to this many columns, two models learn faster in alternation: the steps of one fill the waits of the other."""


@register(
    "learner",
    "logistic",
    title="Logistic regression",
    tasks={"binary"},
    instead={"multiclass": "softmax"},
    default_for={"binary"},
)
class LogisticRegression(SoftmaxRegression):
    r"""Logistic regression for two classes. A third class makes it softmax regression, which keeps what was learned.

    It minimises the mean of log(1 + exp(-y w.x)) plus mu/2 w.w. With ``optimizer="strsaga"`` new rows enter a waiting
    room. Every other of the rho steps of an update admits the oldest waiting row to the sample set S; the rest draw
    uniformly from S:

    .. math:: w \leftarrow (1 - \eta\mu) w - \eta (g - \alpha_p + A), \qquad \alpha_p \leftarrow g,

    where g is the gradient of the loss at row p, alpha_p the one from its last visit (0 at first) and A their average
    over S. With a budget below two steps per row, some rows keep waiting and are admitted later.

    Parameters
    ----------
    optimizer
        "strsaga"; "saga", whose sample set grows likewise while every step draws uniformly from it; "sgd", which draws
        uniformly from all rows and stores no gradients; or "one-pass", which takes one SGD step at each new row, in
        order of arrival, whatever the budget, and stores no rows.
    step_size
        eta. "auto" uses 0.1 / L, where L is the curvature of the loss at all but the largest tenth of the rows; it is
        estimated from the first rows, and again at each doubling of their number up to 1,000.
    scale
        Whether to learn as if each column were divided by its typical size (a robust mean of its absolute non-zero
        values) and, if its values are far from zero (prices, degrees Kelvin), first centred, so that columns in any
        unit need no preparation. "auto" scales when the step size is "auto" too; a step size of your own is meant for
        unscaled columns. The scale is estimated together with the step size; stored rows are not changed.
    l2
        mu. The intercept is the weight of a constant column and is penalised like the others.
    steps_per_row
        Budget: rho = steps_per_row times the number of new rows.
    steps_per_batch
        A fixed rho for every update, in place of ``steps_per_row``.
    fit_intercept
        Whether there is a constant column.
    start
        Weights of a fresh model: "zeros", or "uniform" for independent uniform(0, 1) as in the paper.

    Examples
    --------
    >>> import numpy as np
    >>> from driftsurf.core.samples import Samples
    >>> X = np.linspace(-1, 1, 200).reshape(-1, 1)
    >>> samples = Samples(n_features=1)
    >>> new = samples.append(X, (X[:, 0] > 0).astype(float))
    >>> model = LogisticRegression(l2=1e-3).fresh(seed=0, n_features=1, n_classes=2)
    >>> _ = model.update(samples, new, steps=2000)
    >>> bool(np.mean((model.scores(X) > 0) == (X[:, 0] > 0)) > 0.97)
    True

    References
    ----------
    E. Jothimurugesan, A. Tahmasbi, P. B. Gibbons, S. Tirthapura. Variance-reduced stochastic
    gradient descent on streaming data. NeurIPS 2018.
    """

    capabilities: Capabilities = dataclasses.replace(SoftmaxRegression.capabilities, anchor=True)
    curvature: ClassVar[float] = 0.25

    def anchored(self, models: Sequence[Self], shares: FloatArray) -> Self:
        """Return this unfitted model with a penalty that pulls towards the weighted sum of ``models``."""
        anchor = (shares[:, None] * np.array([model._raw_weights for model in models])).sum(axis=0)
        return self._make(replace(self._fitted, weights=self._fitted.weights - anchor, anchor=anchor))

    def _outputs(self, n_classes: int) -> int | None:
        return None if n_classes == 2 else super()._outputs(n_classes)

    def _dimensions(self, saved: Any) -> int:
        return 2 if np.ndim(saved) == 2 else 1  # softmax regression after a third class

    def _curvature(self, fitted: Linear) -> float:
        return self.curvature if fitted.weights.ndim == 1 else super().curvature

    def _grown(self, fitted: Linear, table: Buffer, n_classes: int) -> tuple[Linear, Buffer]:
        """Return a model with room for more classes; the third makes it the same model with an output per class."""
        if n_classes <= 2:
            return fitted, table
        if fitted.weights.ndim == 2:
            return super()._grown(fitted, table, n_classes)
        if len(fitted.anchor):
            raise CapabilityError(f"a model with an anchor is for 2 classes and cannot grow to {n_classes}")
        # Half of the weights for one class, and their negative for the other, give the same log-odds. Gradients of the
        # two classes are opposite. The curvature doubles, so that an automatic step size is about halved.
        step_size = fitted.step_size
        if self.step_size == "auto":
            step_size = AUTO_STEP / (2.0 * AUTO_STEP / step_size - float(self.l2))
        weights, sums, entries = (
            np.column_stack([-v, v]) for v in (0.5 * fitted.weights, fitted.gradient_sum, table.live)
        )
        paired = replace(fitted, weights=weights, gradient_sum=sums, step_size=step_size)
        return super()._grown(paired, Buffer.of(entries, table.first), n_classes)

    def _run(self, rows: Batch, order: Any, fitted: Linear, table: FloatArray) -> int:
        if fitted.weights.ndim == 2:
            return super()._run(rows, order, fitted, table)
        X, y, weight, _ = rows
        how = fitted.step_size, float(self.l2), fitted.frame, fitted.offsets(X)
        if self._tabled:
            model = fitted.weights, fitted.gradient_sum, table
            return saga(X, y, weight, order, model, fitted.drawn, *how)
        sgd(X, y, weight, order, fitted.weights, *how)
        return 0

    @classmethod
    def _run_all(cls, updates: Sequence[Update]) -> None:
        waiting = list(updates)
        while waiting:
            one = waiting.pop(0)
            if waiting and _can_alternate(one, waiting[0]):
                _alternate(one, waiting.pop(0))
            else:
                one.run()

    def scores(self, X: Rows) -> FloatArray:
        """Return the margins w.x + intercept, above 0 for class 1; log-probabilities of more than two classes."""
        weights = self._raw_weights
        return margins(weights, X) if weights.ndim == 1 else super().scores(X)

    def scorer(self) -> Callable[[Rows], FloatArray]:
        """Return ``scores`` of the model as it is now; later updates do not affect it."""
        weights = self._raw_weights
        return MarginScorer(weights) if weights.ndim == 1 else super().scorer()

    @classmethod
    def joint_scorer(cls, models: Sequence[Self]) -> Callable[[Rows], Sequence[FloatArray]]:
        """Return a function that scores rows with several models in one pass: one entry of the result for each."""
        weights = [model._raw_weights for model in models]
        if weights[0].ndim == 1:
            joint: Any = functools.partial(margins_of_all, np.array(weights))
            return joint  # type: ignore[no-any-return]  # a row of its result for each model
        return functools.partial(_one_by_one, [model.scorer() for model in models])

    def row_losses(self, scores: FloatArray, y: FloatArray) -> FloatArray:
        """Return the logistic loss of each row; with more than two classes, -log p(true class)."""
        if scores.ndim == 2:
            return super().row_losses(scores, y)
        losses = np.empty(len(y))
        logistic_losses(scores, y, losses)
        return losses


def _one_by_one(scorers: Sequence[Callable[[Rows], FloatArray]], X: Rows) -> list[FloatArray]:
    return [scorer(X) for scorer in scorers]


def _can_alternate(one: Update, two: Update) -> bool:
    X = one.rows.X
    return (
        not isinstance(X, CSR)
        and one.fitted.weights.ndim == 1
        and X.shape[1] <= NARROW
        and one.touched is not None
        and len(one.order) == len(two.order)
        and not (len(one.fitted.anchor) or len(two.fitted.anchor))
    )


def _alternate(one: Update, two: Update) -> None:
    """Take the steps of two narrow models in one loop, in alternation."""
    one.drawn, two.drawn = saga_both(_arguments(one), _arguments(two), float(one.model.l2))


def _arguments(update: Update) -> tuple[Any, ...]:
    fitted = update.fitted
    model = fitted.weights, fitted.gradient_sum, update.table
    return *update.rows[:3], update.order, model, fitted.drawn, fitted.step_size, fitted.frame


def paper_learner(step_size: float | Literal["auto"], l2: float, **options: Any) -> LogisticRegression:
    """Return the paper's base learner: unscaled columns, first weights uniform in (0, 1).

    Examples
    --------
    >>> paper_learner(1e-3, 1e-2).start
    'uniform'
    """
    return LogisticRegression(**({"step_size": step_size, "l2": l2, "scale": False, "start": "uniform"} | options))
