"""A perceptron with one hidden layer, trained by Adam."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from driftsurf.core.contracts import Capabilities, Segment
from driftsurf.core.fields import Array, FieldRule, Fields, Real, Truth, Values, Whole
from driftsurf.core.options import choice, number, whole
from driftsurf.learners._online import COUNTS, OnlineLearner
from driftsurf.native.linear import fill_uniform
from driftsurf.native.online import NetworkModel
from driftsurf.registry import ALL_TASKS, CLASSIFICATION, REGRESSION, Example, register

LARGEST = 1e6
"""Parameters stay within this; Adam moves them by about its rate at each step, so that only damage goes beyond."""


@register(
    "learner",
    "perceptron",
    tasks=ALL_TASKS,
    task_options={"regression": {"task": "regression"}},
    examples=[Example({}, "classes", CLASSIFICATION), Example({"task": "regression"}, "regression", REGRESSION)],
)
class Perceptron(OnlineLearner):
    r"""A network with one hidden layer of rectified linear units, for classes or numbers.

    .. math:: z = W_2^\top \max(0, W_1^\top \tilde x + b_1) + b_2,

    where :math:`\tilde x` are the columns, centred and scaled by their running mean and standard deviation and limited
    to 10 standard deviations. The probabilities of the classes are the softmax of z; a number is z times the running
    standard deviation of the target plus its mean. Adam minimises the log loss or the squared error: some passes over
    each new batch in random order, one step for every few rows. It keeps no rows, so that it forgets at its own pace.
    Columns of sparse rows are scaled and not centred, and a step changes only the weights of columns that occur in its
    rows.

    Parameters
    ----------
    task
        "classification" or "regression".
    hidden
        Number of units.
    rate
        Adam's step size.
    rows_per_step
        Number of rows of a step.
    passes
        Number of passes over each new batch.

    Examples
    --------
    >>> import numpy as np
    >>> from driftsurf.core.samples import Samples
    >>> X = np.random.default_rng(0).normal(size=(1_000, 2))
    >>> y = (X[:, 0] * X[:, 1] > 0).astype(float)  # no linear model can tell
    >>> samples = Samples(n_features=2)
    >>> model = Perceptron().fresh(seed=0, n_features=2, n_classes=2)
    >>> _ = model.update(samples, samples.append(X, y), steps=20_000)
    >>> bool(np.mean(model.scores(X).argmax(axis=1) == y) > 0.95)
    True

    References
    ----------
    D. P. Kingma, J. Ba. Adam: A method for stochastic optimization. ICLR 2015.
    """

    def __init__(
        self,
        *,
        task: Literal["classification", "regression"] = "classification",
        hidden: int = 64,
        rate: float = 3e-3,
        rows_per_step: int = 32,
        passes: float = 5.0,
    ) -> None:
        self.task = task
        self.hidden = hidden
        self.rate = rate
        self.rows_per_step = rows_per_step
        self.passes = passes

    @property
    def capabilities(self) -> Capabilities:
        """Classes, whose number may grow, or numbers; dense and sparse rows; weights."""
        regression = self.task == "regression"
        tasks = REGRESSION if regression else CLASSIFICATION
        return Capabilities(
            tasks,
            can_memorise=True,
            probabilities=not regression,
            grows_classes=not regression,
            quadratic_loss=regression,
        )

    def _check(self) -> None:
        choice("task", self.task, ("classification", "regression"))
        whole("hidden", self.hidden, at_least=1, at_most=4096)
        number("rate", self.rate, above=0.0, below=1.0)
        whole("rows_per_step", self.rows_per_step, at_least=1)
        number("passes", self.passes, above=0.0, below=1e4)

    def budget(self, new: Segment) -> int:
        """Return ``passes`` visits of each new row; fractions are carried over by counting from row 0."""
        return int(self.passes * new.hi) - int(self.passes * new.lo)

    def _first(self, counts: dict[str, int], seed: int) -> NetworkModel:
        d, hidden, outputs = counts["n_features"], int(self.hidden), counts["n_classes"] or 1
        theta, words, start = np.zeros(_size(d, hidden, outputs), np.float32), 0, 0
        for wide, deep in (d, hidden), (hidden, outputs):
            drawn = np.empty(wide * deep)
            words = fill_uniform(drawn, seed, words)
            weights = theta[start : start + wide * deep]
            weights[:] = drawn
            # Uniform within the bound of Glorot and Bengio.
            weights[:] = (2.0 * weights - 1.0) * math.sqrt(6.0 / (wide + deep))
            start += wide * deep + deep
        known: dict[str, Any] = {"hidden": hidden, "seed": seed, "words": words, "steps": 0, "centred": True}
        known |= {"theta": theta, "first": np.zeros_like(theta), "second": np.zeros_like(theta)}
        for prefix, columns in (("column", d), ("target", 1)):
            known[f"{prefix}_count"] = 0.0
            known[f"{prefix}_mean"], known[f"{prefix}_squares"] = np.zeros(columns), np.zeros(columns)
        return self._loaded(counts | known)

    def _fields(self) -> Fields:
        return FIELDS

    def _loaded(self, known: Mapping[str, Any]) -> NetworkModel:
        pace = float(self.passes), float(self.rate), int(self.rows_per_step)
        return NetworkModel(known, passes=pace[0], rate=pace[1], rows_per_step=pace[2])


def _size(n_features: int, hidden: int, outputs: int) -> int:
    """Return the number of parameters."""
    return (n_features + 1) * hidden + (hidden + 1) * outputs


def _theta_fits(known: Values) -> bool:
    return bool(known["size"] == _size(known["n_features"], known["hidden"], known["n_classes"] or 1))


_PARAMETERS = Array(np.float32, ("size",), least=-LARGEST, most=LARGEST)
FIELDS = Fields(
    COUNTS
    | {
        "hidden": Whole(1, 4096),
        "seed": Whole(0, 2**64 - 1),
        "words": Whole(),
        "steps": Whole(),
        "centred": Truth(),
        "theta": _PARAMETERS,
        "first": _PARAMETERS,
        "second": Array(np.float32, ("size",), least=0.0),
        "column_count": Real(0.0),
        "column_mean": Array(np.float64, ("n_features",)),
        "column_squares": Array(np.float64, ("n_features",), least=0.0),
        "target_count": Real(0.0),
        "target_mean": Array(np.float64, (1,)),
        "target_squares": Array(np.float64, (1,), least=0.0),
    },
    rules=[
        FieldRule("n_classes", "must not be 1", lambda known: known["n_classes"] != 1),
        FieldRule("theta", "must have the size that columns, units and classes require", _theta_fits),
    ],
)
"""Saved entries of a model."""
