"""A perceptron with one hidden layer, trained by Adam."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from driftsurf.core.changes import lazy, replace
from driftsurf.core.contracts import CSR, Batch, Capabilities, FloatArray, IntArray, Rows, Segment, State
from driftsurf.core.fields import Array, FieldRule, Fields, Real, Truth, Values, Whole
from driftsurf.core.options import choice, number, whole
from driftsurf.learners._online import COUNTS, Moments, Online, OnlineLearner, counts_of
from driftsurf.native.experts import network_outputs, standardise, train_network
from driftsurf.native.linear import fill_uniform
from driftsurf.registry import ALL_TASKS, CLASSIFICATION, REGRESSION, Example, register

F4 = npt.NDArray[np.float32]
LARGEST = 1e6
"""Parameters stay within this; Adam moves them by about its rate at each step, so that only damage goes beyond."""
FARTHEST = 10.0
"""Standardised targets are limited to this for learning."""


@dataclass(frozen=True)
class Network(Online):
    """Parameters, Adam's moments, and the moments of the columns and of the target."""

    hidden: int
    seed: int
    words: int
    """Number of random words used."""
    steps: int
    """Number of Adam's steps so far."""
    centred: bool
    """Whether columns are centred: those of sparse rows are not, since their zeros would be lost."""
    theta: F4
    first: F4
    """Running mean of gradients."""
    second: F4
    """Running mean of squared gradients."""
    columns: Moments
    target: Moments

    @lazy
    def frame(self) -> tuple[FloatArray, FloatArray]:
        """Centre and factor of each column."""
        return standardise(self.columns.arrays, self.centred)

    @lazy
    def unit(self) -> tuple[float, float]:
        """Centre and scale of the target."""
        return _unit(self.target)


def _unit(target: Moments) -> tuple[float, float]:
    """Return the centre and the scale of targets with these moments."""
    centre, factor = standardise(target.arrays, True)
    return float(centre[0]), 1.0 / float(factor[0]) if factor[0] else 1.0


@register(
    "learner",
    "perceptron",
    tasks=ALL_TASKS,
    task_options={"regression": {"task": "regression"}},
    examples=[Example({}, "classes", CLASSIFICATION), Example({"task": "regression"}, "regression", REGRESSION)],
)
class Perceptron(OnlineLearner[Network]):
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

    def _first(self, seed: int, n_features: int, n_classes: int) -> Network:
        hidden, outputs = int(self.hidden), n_classes or 1
        layers = (n_features, hidden), (hidden, outputs)
        theta, words = np.zeros(_size(n_features, hidden, outputs), np.float32), 0
        start = 0
        for wide, deep in layers:
            weights, drawn = theta[start : start + wide * deep], np.empty(wide * deep)
            words = fill_uniform(drawn, seed, words)
            weights[:] = drawn
            # Uniform within the bound of Glorot and Bengio.
            weights[:] = (2.0 * weights - 1.0) * math.sqrt(6.0 / (wide + deep))
            start += wide * deep + deep
        blank = np.zeros_like(theta)
        columns, target = Moments.of_nothing(1, n_features), Moments.of_nothing(1, 1)
        return Network(n_features, n_classes, -1, 0, hidden, seed, words, 0, True, theta, blank, blank, columns, target)

    def _learned(self, known: Network, batch: Batch, steps: int) -> Network:
        X, y, weight, _ = batch
        centred = known.centred if known.hi >= 0 else not isinstance(X, CSR)
        if centred and isinstance(X, CSR):
            X = _dense(X)  # a model that began with dense rows centres its columns
        targets: dict[str, Any] = {}
        if not known.n_classes:
            target = known.target.after(y[:, None], weight)
            unit = _unit(target)
            y = np.clip((y - unit[0]) / unit[1], -FARTHEST, FARTHEST)
            targets = {"target": target}
        order, words = _order(len(y), steps, known.seed, known.words)
        plan = order, int(self.rows_per_step), float(self.rate), known.steps, known.hidden, known.n_classes
        state = known.columns.arrays, centred, known.theta, known.first, known.second
        found = train_network(X, y, weight, *plan, *state)
        if found is None:
            return replace(known)
        columns, frame, theta, first, second, done = found
        learned = {"theta": theta, "first": first, "second": second, "steps": done, "words": words}
        after = replace(known, columns=Moments(*columns), centred=centred, **learned, **targets)
        vars(after).pop("unit", None)
        vars(after)["frame"] = frame
        return after

    def _grown(self, known: Network, n_classes: int) -> Network:
        d, H, K = known.n_features, known.hidden, known.n_classes
        a = (d + 1) * H

        def widened(vector: F4) -> F4:
            """Return a vector of parameters with 0 for each new class."""
            more = n_classes - K
            upper = np.pad(vector[a : a + H * K].reshape(H, K), ((0, 0), (0, more))).reshape(-1)
            return np.concatenate([vector[:a], upper, np.pad(vector[a + H * K :], (0, more))])

        parts = {name: widened(getattr(known, name)) for name in ("theta", "first", "second")}
        return replace(known, **parts)

    def _scored(self, known: Network, X: Rows) -> FloatArray:
        out = network_outputs(X, known.hidden, known.n_classes, known.frame, known.theta)
        if known.n_classes:
            return out
        centre, scale = known.unit
        return np.asarray(out[:, 0] * scale + centre) if known.hi >= 0 else np.zeros(len(out))

    def _fields(self) -> Fields:
        return FIELDS

    def _entries(self, known: Network) -> State:
        state: State = {name: getattr(known, name) for name in OWN}
        for prefix, moments in (("column", known.columns), ("target", known.target)):
            state[f"{prefix}_count"] = float(moments.count[0])
            state[f"{prefix}_mean"], state[f"{prefix}_squares"] = moments.mean[0], moments.squares[0]
        return state

    def _loaded(self, known: Mapping[str, Any]) -> Network:
        moments = [
            Moments(
                np.array([known[f"{prefix}_count"]]), known[f"{prefix}_mean"][None], known[f"{prefix}_squares"][None]
            )
            for prefix in ("column", "target")
        ]
        return Network(**counts_of(known), **{name: known[name] for name in OWN}, columns=moments[0], target=moments[1])


def _size(n_features: int, hidden: int, outputs: int) -> int:
    """Return the number of parameters."""
    return (n_features + 1) * hidden + (hidden + 1) * outputs


def _dense(X: CSR) -> FloatArray:
    """Return sparse rows as a dense array."""
    out = np.zeros((len(X.indptr) - 1, X.n_features))
    rows = np.repeat(np.arange(len(out)), np.diff(X.indptr))
    values = slice(int(X.indptr[0]), int(X.indptr[-1]))
    out[rows, X.indices[values]] = X.data[values]
    return out


def _order(rows: int, steps: int, seed: int, words: int) -> tuple[IntArray, int]:
    """Return passes over all rows, each in another random order, and the number of random words used so far."""
    if rows == 1:
        return np.zeros(steps, np.int64), words + steps
    passes = -(-steps // rows)
    keys = np.empty(passes * rows)
    words = fill_uniform(keys, seed, words)
    return np.ascontiguousarray(keys.reshape(passes, rows).argsort(axis=1).reshape(-1)[:steps]), words


OWN = "hidden", "seed", "words", "steps", "centred", "theta", "first", "second"
"""Entries of a network that are saved as they are."""


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
