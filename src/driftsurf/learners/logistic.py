"""L2-regularised logistic regression, trained by STRSAGA or SGD within a compute budget."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Literal, Self

import numpy as np

from driftsurf import _kernels
from driftsurf._values import replace
from driftsurf.base import CSR, Batch, Capabilities, FloatArray, Rows
from driftsurf.errors import CapabilityError
from driftsurf.learners._learner import LinearLearner
from driftsurf.learners._linear import Frame, Linear, margins, margins_of_all
from driftsurf.learners._update import Update

__all__ = ["LogisticRegression", "paper_learner"]

NARROW = 16
"""Up to this many columns two models learn faster in turn; a step at a wider row leaves no time to fill."""


class LogisticRegression(LinearLearner):
    r"""Linear model for two classes: minimises the mean of log(1 + exp(-y w.x)) plus mu/2 |w|^2.

    With ``optimizer="strsaga"`` new rows enter a waiting room; of the rho steps of an update every
    other one admits the oldest waiting row to the sample set S, the rest draw uniformly from S:

    .. math:: w \leftarrow (1 - \eta\mu) w - \eta (g - \alpha_p + A), \qquad \alpha_p \leftarrow g,

    where g is the gradient of the loss at row p, alpha_p the one from its last visit (0 at first)
    and A their average over S. A budget below two steps a row leaves rows waiting; they are admitted
    later, when there is time.

    Parameters
    ----------
    optimizer
        "strsaga"; "saga", whose set grows likewise while every step draws uniformly from it; "sgd", which
        draws uniformly from all rows and keeps no gradients; or "one-pass", which takes one SGD step at each
        new row in order of arrival, whatever the budget, and keeps no row.
    step_size
        eta. "auto" takes 0.1 / L, where L is the curvature of the loss at all but the largest
        tenth of the rows; it is worked out from the first rows, and again at each doubling up to 1,000.
    scale
        Whether to learn as if each column were divided by its usual size (a robust mean of its absolute
        non-zero values), and a column off zero (a price, degrees Kelvin) were first centred, so that
        columns of any unit need no preparation. "auto" does so when the step size is "auto" too; a step
        size of your own is meant for the columns as they are. Worked out when the step size is; rows
        stay as they are, and so does the model at that moment.
    l2
        mu. The intercept is the weight of a constant column and is regularised like the others.
    steps_per_row
        The budget: rho = steps_per_row times the number of new rows.
    steps_per_batch
        A fixed rho for every update, whatever arrives, in place of ``steps_per_row``.
    fit_intercept
        Whether there is a constant column.
    start
        Weights of a fresh model: "zeros", or "uniform" for independent uniform(0, 1) (the paper's).

    Examples
    --------
    >>> from driftsurf.samples import Samples
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

    capabilities: ClassVar[Capabilities] = Capabilities(anchor=True)
    curvature: ClassVar[float] = 0.25

    def __init__(
        self,
        *,
        optimizer: Literal["strsaga", "saga", "sgd", "one-pass"] = "strsaga",
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

    def anchored(self, models: Sequence[Self], shares: FloatArray) -> Self:
        """This fresh model, held by the penalty to the weighted sum of ``models`` instead of the origin."""
        anchor = (shares[:, None] * np.array([model._raw_weights for model in models])).sum(axis=0)
        return self._born(replace(self._fitted, weights=self._fitted.weights - anchor, anchor=anchor))

    def _outputs(self, n_classes: int) -> int | None:
        if n_classes != 2:
            raise CapabilityError(
                f"LogisticRegression tells two classes apart, not {n_classes}: merge classes, or use a learner "
                "whose tasks include 'multiclass', such as SoftmaxRegression."
            )
        return None

    def _run(self, rows: Batch, order: Any, fitted: Linear, table: FloatArray) -> int:
        X, y, weight, _ = rows
        how = fitted.step_size, float(self.l2), fitted.frame, fitted.offsets(X)
        if self._tabled:
            model = fitted.weights, fitted.gradient_sum, table
            if isinstance(X, CSR):
                sparse = X.data, X.indices, X.indptr, y, weight
                return int(_kernels.saga_csr(sparse, order, model, fitted.drawn, *how))
            return int(_kernels.saga_dense((X, y, weight), order, model, fitted.drawn, *how))
        if isinstance(X, CSR):
            _kernels.sgd_csr((X.data, X.indices, X.indptr, y, weight), order, fitted.weights, *how)
        else:
            _kernels.sgd_dense((X, y, weight), order, fitted.weights, *how)
        return 0

    @classmethod
    def _run_all(cls, updates: Sequence[Update]) -> None:
        waiting = list(updates)
        while waiting:
            one = waiting.pop(0)
            if waiting and _can_take_turns(one, waiting[0]):
                _take_turns(one, waiting.pop(0))
            else:
                one.run()

    def _discharge(self, X: Rows, table: FloatArray, gradient_sum: FloatArray, frame: Frame) -> int:
        if isinstance(X, CSR):
            return int(_kernels.discharge_csr(X.data, X.indices, X.indptr, table, gradient_sum, frame))
        return int(_kernels.discharge_dense(X, table, gradient_sum, frame))

    def scores(self, X: Rows) -> FloatArray:
        """Margins w.x + intercept: above 0 means class 1."""
        return margins(self._raw_weights, X)

    def scorer(self) -> Callable[[Rows], FloatArray]:
        """``scores`` as it is now, whatever is learnt later."""
        return functools.partial(margins, self._raw_weights)

    @classmethod
    def joint_scorer(cls, models: Sequence[Self]) -> Callable[[Rows], FloatArray]:
        """``scorer`` of several models in one pass over the rows: a row of the result for each."""
        return functools.partial(margins_of_all, np.array([model._raw_weights for model in models]))

    def row_losses(self, scores: FloatArray, y: FloatArray) -> FloatArray:
        """Logistic loss of each row."""
        losses = np.empty(len(y))
        _kernels.logistic_losses(scores, y, losses)
        return losses


def _can_take_turns(one: Update, two: Update) -> bool:
    X = one.rows.X
    return (
        not isinstance(X, CSR)
        and X.shape[1] <= NARROW
        and one.touched is not None
        and len(one.order) == len(two.order)
        and not (len(one.fitted.anchor) or len(two.fitted.anchor))
    )


def _take_turns(one: Update, two: Update) -> None:
    """The steps of two narrow models in one loop."""
    arguments = [*_arguments(one), *_arguments(two), float(one.model.l2)]
    one.drawn, two.drawn = _kernels.saga_both_dense(*arguments)


def _arguments(update: Update) -> tuple[Any, ...]:
    fitted = update.fitted
    model = fitted.weights, fitted.gradient_sum, update.table
    return update.rows[:3], update.order, model, fitted.drawn, fitted.step_size, fitted.frame


def paper_learner(step_size: float | Literal["auto"], l2: float, **options: Any) -> LogisticRegression:
    """The paper's base learner: columns as they are, weights that start uniform in (0, 1).

    >>> paper_learner(1e-3, 1e-2).start
    'uniform'
    """
    return LogisticRegression(**({"step_size": step_size, "l2": l2, "scale": False, "start": "uniform"} | options))
