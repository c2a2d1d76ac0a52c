"""Nearest neighbours among the last rows, for classes or numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from driftsurf.core.contracts import Capabilities, Segment
from driftsurf.core.fields import Array, FieldRule, Fields, Real, Values
from driftsurf.core.options import choice, number, whole
from driftsurf.learners._online import COUNTS, OnlineLearner
from driftsurf.native.columns import are_codes
from driftsurf.native.nearest import NeighboursModel
from driftsurf.registry import ALL_TASKS, CLASSIFICATION, REGRESSION, Example, register


@register(
    "learner",
    "nearest-neighbours",
    tasks=ALL_TASKS,
    task_options={"regression": {"task": "regression"}},
    examples=[Example({}, "classes", CLASSIFICATION), Example({"task": "regression"}, "regression", REGRESSION)],
    draws=False,
)
class NearestNeighbours(OnlineLearner):
    r"""Nearest neighbours among the last rows, for classes or numbers.

    Columns are divided by their running standard deviation. Of the last ``window`` rows, the ``neighbours`` with the
    smallest Euclidean distance vote, with weights inverse to their distances, whose mean is 1. The probability of
    class k is

    .. math:: p(k | x) = \frac{v_k + s\, \pi_k}{\sum_j v_j + s},

    where :math:`v_k` are the votes for it, :math:`\pi_k = (n_k + 1) / (n + K)` is its smoothed share of all rows so
    far, and s is ``smoothing``. A number is the weighted mean of those of the neighbours. Of rows at the same distance
    the newest vote. It knows a row as soon as it has learned it, and forgets it ``window`` rows later.

    Parameters
    ----------
    task
        "classification" or "regression".
    neighbours
        Number of rows that vote.
    window
        Number of last rows among which they are.
    smoothing
        Number of votes that the shares of the classes have together.

    Examples
    --------
    >>> import numpy as np
    >>> from driftsurf.core.samples import Samples
    >>> X = np.random.default_rng(0).normal(size=(1_000, 2))
    >>> y = (X[:, 0] * X[:, 1] > 0).astype(float)  # no linear model can tell
    >>> samples = Samples(n_features=2)
    >>> model = NearestNeighbours().fresh(seed=0, n_features=2, n_classes=2)
    >>> _ = model.update(samples, samples.append(X, y), steps=1_000)
    >>> model.scores(np.array([[1.0, 1.0], [1.0, -1.0]])).argmax(axis=1)
    array([1, 0])

    References
    ----------
    T. M. Cover, P. E. Hart. Nearest neighbor pattern classification. IEEE Transactions on Information Theory, 1967.
    S. A. Dudani. The distance-weighted k-nearest-neighbor rule. IEEE Transactions on Systems, Man, and Cybernetics,
    1976.
    """

    def __init__(
        self,
        *,
        task: Literal["classification", "regression"] = "classification",
        neighbours: int = 5,
        window: int = 500,
        smoothing: float = 0.5,
    ) -> None:
        self.task = task
        self.neighbours = neighbours
        self.window = window
        self.smoothing = smoothing

    @property
    def capabilities(self) -> Capabilities:
        """Classes, whose number may grow, or numbers; dense rows; weights; the work is counted in visits of rows."""
        regression = self.task == "regression"
        return Capabilities(
            REGRESSION if regression else CLASSIFICATION,
            sparse=False,
            can_memorise=True,
            probabilities=not regression,
            grows_classes=not regression,
            quadratic_loss=regression,
            gradients=False,
        )

    def _check(self) -> None:
        choice("task", self.task, ("classification", "regression"))
        whole("neighbours", self.neighbours, at_least=1, at_most=1_000)
        whole("window", self.window, at_least=1, at_most=1_000_000)
        number("smoothing", self.smoothing, above=0.0, below=1e9)

    def budget(self, new: Segment) -> int:
        """Return one visit for each new row."""
        return len(new)

    def _first(self, counts: dict[str, int], seed: int) -> NeighboursModel:
        d = counts["n_features"]
        known: dict[str, Any] = {"rows": np.empty((0, d + 2)), "count": np.zeros(counts["n_classes"])}
        known |= {"column_count": 0.0, "column_mean": np.zeros(d), "column_squares": np.zeros(d)}
        return self._loaded(counts | known)

    def _fields(self) -> Fields:
        return FIELDS

    def _loaded(self, known: Mapping[str, Any]) -> NeighboursModel:
        sizes = int(self.neighbours), int(self.window)
        return NeighboursModel(known, neighbours=sizes[0], window=sizes[1], smoothing=float(self.smoothing))


def _are_targets(known: Values) -> bool:
    return not known["n_classes"] or are_codes(np.ascontiguousarray(known["rows"][:, -2]), known["n_classes"])


FIELDS = Fields(
    COUNTS
    | {
        "rows": Array(np.float64, ("*", "n_features+2")),
        "count": Array(np.float64, ("n_classes",), least=0.0),
        "column_count": Real(0.0),
        "column_mean": Array(np.float64, ("n_features",)),
        "column_squares": Array(np.float64, ("n_features",), least=0.0),
    },
    rules=[
        FieldRule("n_classes", "must not be 1", lambda known: known["n_classes"] != 1),
        FieldRule("rows", "must have codes of classes before the last column", _are_targets),
        FieldRule(
            "rows", "must have positive weights in the last column", lambda known: (known["rows"][:, -1] > 0).all()
        ),
    ],
)
"""Saved entries of a model."""
