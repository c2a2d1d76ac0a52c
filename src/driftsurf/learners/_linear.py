"""The linear model in training: weights, coordinates, margins, saved entries."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from driftsurf.core.changes import replace
from driftsurf.core.contracts import CSR, Batch, FloatArray, IntArray, Rows
from driftsurf.core.fields import Array, FieldEntry, FieldRule, Fields, Real, Values, Whole
from driftsurf.errors import DivergenceError, Option, ShapeError
from driftsurf.native import columns, scores
from driftsurf.native.columns import reframe, uncentre
from driftsurf.native.linear import evidence, largest, squared_length

SMALLEST_SIZE = 1e-30
RANGE_MARGIN = 0.1
"""Share of the range of a column by which it is widened on both sides."""
EVIDENCE_ROWS = 10_000.0
"""Number of rows over which the evidence about the predictions of a regression is averaged."""
NOTHING = np.zeros(0)
NOTHING.setflags(write=False)
LARGEST = 1e100
"""Largest weight or gradient sum, far below overflow, so that margins and penalties are finite too."""

Frame: TypeAlias = tuple[FloatArray, FloatArray, IntArray]
"""Coordinates in which a model learns: squared scale factors, centres, and the columns whose centre is not 0."""


def _frame(factor: Any, centre: Any) -> Frame:
    return np.square(factor), centre, np.flatnonzero(centre)


def _limits(low: Any, high: Any) -> FloatArray | None:
    if not len(low):
        return None
    margin = RANGE_MARGIN * (high - low)
    return np.array((low - margin, high + margin))


@dataclass(frozen=True)
class Linear:
    """A linear model in training: everything that an update changes, except the gradient table.

    An update changes the table in place and can put it back; this value is replaced as a whole.
    """

    weights: FloatArray
    """One for each column, the intercept last; with several outputs, one column of weights for each."""
    gradient_sum: FloatArray
    """Sum of the gradients in the table; divided by |S| it is A in the step."""
    factor: FloatArray
    """1 / scale of each column: the model learns as if columns were multiplied by it. The last entry, 1 or 0, says
    whether there is an intercept."""
    centre: FloatArray
    """Subtracted from each column before scaling; the intercept is that of the centred columns."""
    anchor: FloatArray
    """Point that the penalty pulls towards, for unscaled columns; ``weights`` are then the difference. Empty: none."""
    drawn: int = 0
    """Number of rows with an entry in the gradient table."""
    lo: int = -1
    """First row of the sample set S; -1 before the first row. S is the rows lo to admitted; admitted to hi wait."""
    admitted: int = -1
    hi: int = -1
    seen: int = 0
    """Number of rows ever seen."""
    target: float = 0.0
    """Subtracted from the targets of a regression, so that the intercept starts there."""
    low: FloatArray = field(default_factory=lambda: NOTHING)
    high: FloatArray = field(default_factory=lambda: NOTHING)
    """Range of each column over all rows of positive weight that a regression has learned, also those that it has
    forgotten: like the scale, the range belongs to the weights, which still hold what these rows taught. Empty: none.
    """
    evidence: FloatArray = field(default_factory=lambda: NOTHING)
    """Of a regression: weight and mean of the targets seen, and the sums of p t and p p over the rows predicted before
    they were learned, where prediction p and target t are counted from the mean so far. Empty: none."""
    step_size: float = math.nan
    rescale_at: int = 0
    """Value of ``seen`` at which scale and step size are estimated again."""
    seed: int = 0
    words: int = 0
    """Number of random words used: with the seed, the whole random state."""
    gradients: int = 0
    frame: Frame = field(init=False, repr=False)
    """Coordinates given by factor and centre, in the form that the native core uses."""
    limits: FloatArray | None = field(init=False, repr=False)
    """Smallest and largest value (2, columns) to which values to be scored are limited: the range of each column,
    widened on both sides by a tenth of it. None without a range."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "frame", _frame(self.factor, self.centre))
        object.__setattr__(self, "limits", _limits(self.low, self.high))

    def predicting_weights(self, full: FloatArray) -> FloatArray:
        """Return ``full_weights``, drawn towards the mean target as far as ``trust`` says."""
        if len(self.evidence) and (trust := self.trust) < 1.0:
            full = trust * full
            full[-1] += (1.0 - trust) * self.evidence[1]
        return full

    @property
    def trust(self) -> float:
        """Share of a prediction's distance from the mean target that is kept; 1 without evidence.

        It is the factor, from 0 to 1, with the least squared error over the predictions made so far: 0 for a model
        that was no better than the mean.
        """
        if not len(self.evidence):
            return 1.0
        _, _, product, square = self.evidence.tolist()
        return 1.0 if square <= 0.0 else min(max(product / square, 0.0), 1.0)

    @property
    def full_weights(self) -> FloatArray:
        """Weights for unscaled columns and targets, as they were learned."""
        own = self.weights
        if len(self.frame[2]) or self.target:
            own = np.empty_like(self.weights)
            uncentre(by_output(self.weights), self.centre, self.target, by_output(own))
        return own + self.anchor if len(self.anchor) else own

    def offsets(self, X: Rows) -> FloatArray | None:
        """Return what the anchor adds to the margin of each row; None without an anchor."""
        return margins(self.anchor, X) if len(self.anchor) else None

    def penalty(self, l2: float) -> float:
        """Return l2 / 2 |u|^2, where u are the weights of the scaled columns."""
        outputs = self.weights.size // len(self.factor)
        factor = self.factor if outputs == 1 else np.repeat(self.factor, outputs)
        return 0.5 * l2 * squared_length(self.weights.ravel(), factor)

    def reframed(self, rows: Batch) -> Linear:
        """Return the same model with the columns centred and scaled as these rows suggest.

        The change is exact and costs O(d): the gradient table does not depend on the coordinates.
        """
        if self.factor[-1] > 0.0:
            new_centre, sizes = usual_frame(rows.X, rows.weight)
        else:  # without an intercept nothing could make up for a centre
            new_centre, sizes = np.zeros(len(self.factor) - 1), usual_sizes(rows.X, rows.weight)
        weights, gradient_sum = self.weights.copy(), self.gradient_sum.copy()
        factor, centre = self.factor.copy(), self.centre.copy()
        reframe(by_output(weights), by_output(gradient_sum), factor, centre, new_centre, sizes, SMALLEST_SIZE)
        changed = {"weights": weights, "gradient_sum": gradient_sum, "factor": factor, "centre": centre}
        return replace(self, **changed, frame=_frame(factor, centre))

    def retargeted(self, target: float) -> Linear:
        """Return the same model with another centre of the targets."""
        weights = self.weights.copy()
        weights[-1] += self.target - target
        return replace(self, weights=weights, target=target)

    def ranged(self, X: Rows, weight: FloatArray) -> Linear:
        """Return the same model with the range of the columns extended by the rows of positive weight."""
        width = len(self.factor) - 1
        if len(self.low):
            low, high = self.low.copy(), self.high.copy()
        else:
            low, high = np.full(width, np.inf), np.full(width, -np.inf)
        if not extend_range(X, weight, low, high):
            return self
        return replace(self, low=low, high=high, limits=_limits(low, high))

    def judged(self, predicted: FloatArray | None, rows: Batch) -> Linear:
        """Return the same model with more evidence: what it predicted for rows it has not learned yet; None: nothing.

        Evidence fades with a memory of 10,000 rows of positive weight, so that the unit of the weights does not matter.
        """
        weight, mean, product, square = self.evidence.tolist() if len(self.evidence) else (0.0,) * 4
        counted, sums = evidence(rows.y if predicted is None else predicted, rows.y, rows.weight, mean)
        mass, distance, products, squares = sums
        if mass <= 0.0:
            return self
        kept = EVIDENCE_ROWS / (EVIDENCE_ROWS + counted)
        if predicted is not None and weight > 0.0:
            product, square = kept * product + products, kept * square + squares
        weight *= kept
        mean += distance / (weight + mass)
        return replace(self, evidence=np.array([weight + mass, mean, product, square]))

    def widened(self, outputs: int) -> Linear:
        """Return the same model with more outputs, whose weights and gradients are 0."""
        more = np.zeros((len(self.weights), outputs - self.weights.shape[1]))
        weights, gradient_sum = np.hstack([self.weights, more]), np.hstack([self.gradient_sum, more])
        return replace(self, weights=weights, gradient_sum=gradient_sum)

    def check_finite(self) -> None:
        """Raise DivergenceError if training diverged."""
        reached = largest(self.weights, self.gradient_sum)
        if not reached < LARGEST:
            raise diverged(reached, self.step_size)


def diverged(reached: float, step_size: float) -> DivergenceError:
    """Return the error for an update whose weights have become this large."""
    return DivergenceError(
        f"training diverged: the weights reached {reached:g} with step size {step_size:g}. Lower ",
        Option("step_size"),
        " or scale the columns. The update was undone.",
    )


@functools.lru_cache(maxsize=8)
def blank(shape: tuple[int, ...], intercept: bool) -> Linear:
    """Return an untrained model with unscaled columns. Its arrays are shared and read-only."""
    factor = np.ones(shape[0])
    factor[-1] = float(intercept)
    arrays = np.zeros(shape), np.zeros(shape), factor, np.zeros(shape[0]), np.zeros(0)
    for array in arrays:
        array.setflags(write=False)
    return Linear(*arrays)


BLANK = Linear(np.zeros(0), np.zeros(0), np.zeros(0), np.zeros(0), np.zeros(0))


def linear_from(entries: Mapping[str, Any]) -> Linear:
    """Return the model with these saved entries. Twice as fast as ``Linear(**entries)``."""
    made = replace(BLANK, **entries, frame=_frame(entries["factor"], entries["centre"]))
    return replace(made, limits=_limits(made.low, made.high)) if "low" in entries else made


def by_output(weights: FloatArray) -> FloatArray:
    """Return weights as a view with one column per output, also those of a single output."""
    return weights if weights.ndim == 2 else weights[:, None]


def margins(weights: FloatArray, X: Rows) -> FloatArray:
    """Return w.x + intercept for each row."""
    rows = check_width(X, weights)
    out = np.empty(rows)
    scores.margins(X, weights, out)
    return out


def margins_of_all(weights: FloatArray, X: Rows) -> FloatArray:
    """Return w.x + intercept for each row and each of several weight vectors: one row of the result for each."""
    rows = check_width(X, weights[0])
    out = np.empty((len(weights), rows))
    scores.margins(X, weights, out)
    return out


def check_width(X: Rows, weights: FloatArray) -> int:
    """Return the number of rows; ShapeError unless they have as many columns as the weights."""
    # Compiled code does not check the bounds of its arrays.
    rows, width = (len(X.indptr) - 1, X.n_features) if isinstance(X, CSR) else (len(X), X.shape[1])
    if width != len(weights) - 1:
        raise ShapeError(f"X has {width} features, but this model was made for {len(weights) - 1}")
    return rows


@functools.cache
def linear_fields(dimensions: int, *, tabled: bool, regression: bool, anchored: bool) -> Fields:
    """Return the declaration of a linear model.

    ``dimensions`` are those of the weights, and ``tabled`` says whether each row of the sample set has an entry in the
    gradient table. Only a regression has a centre of the targets and ranges of the columns. ``anchored`` says whether
    the penalty may pull towards an anchor.
    """
    outputs = ("outputs",)[: dimensions - 1]
    weights = Array(np.float64, ("width", *outputs), least=-LARGEST, most=LARGEST)
    entries: dict[str, FieldEntry] = {
        "weights": weights,
        "gradient_sum": weights,
        "factor": Array(np.float64, ("width",), least=0.0),
        "centre": Array(np.float64, ("width",)),
        "anchor": Array(np.float64, ("*",)),
        "drawn": Whole(),
        "lo": Whole(-1),
        "admitted": Whole(-1),
        "hi": Whole(-1),
        "seen": Whole(),
        "step_size": Real(least=0.0, missing=True),
        "rescale_at": Whole(),
        "seed": Whole(0, 2**64 - 1),
        "words": Whole(),
        "gradients": Whole(),
        "table": Array(np.float64, ("*", *outputs), least=-LARGEST, most=LARGEST, missing=True),
    }
    lengths = ["width"] if anchored and dimensions == 1 else []

    def anchor_fits(known: Values) -> bool:
        return len(known["anchor"]) in (0, *(known[name] for name in lengths))

    rules = [
        FieldRule("weights", "must have a weight at least for the intercept", lambda known: known["weights"].size > 0),
        FieldRule("centre", "must be 0 for the intercept", lambda known: not known["centre"][-1:].any()),
        FieldRule("anchor", "must be empty, or as long as the weights of a learner with an anchor", anchor_fits),
        FieldRule("admitted", "must be between lo and hi, or -1 as they are", _are_ordered),
        FieldRule(
            "table", "must have an entry for each row of the sample set", _table_fits if tabled else _has_no_table
        ),
        FieldRule("drawn", "must be the number of entries in the table", _drawn_fits),
    ]
    if regression:
        vector = Array(np.float64, ("ranges",))
        entries |= {"target": Real(), "low": vector, "high": vector, "evidence": Array(np.float64, ("evidenced",))}
        rules += [
            FieldRule(
                "low",
                "must be empty or have one value per column",
                lambda known: known["ranges"] in (0, known["width"] - 1),
            ),
            FieldRule("evidence", "must be empty or have four values", lambda known: known["evidenced"] in (0, 4)),
            FieldRule("high", "must not be below low", lambda known: (known["low"] <= known["high"]).all()),
        ]
    return Fields(entries, rules=rules)


def _are_ordered(known: Values) -> bool:
    rows: tuple[int, int, int] = (known["lo"], known["admitted"], known["hi"])
    return rows == (-1, -1, -1) or 0 <= rows[0] <= rows[1] <= rows[2]


def _table_fits(known: Values) -> bool:
    return len(known["table"]) == int(known["admitted"]) - int(known["lo"])


def _has_no_table(known: Values) -> bool:
    return len(known["table"]) == 0


def _drawn_fits(known: Values) -> bool:
    absent = np.isnan(known["table"])
    first = absent if absent.ndim == 1 else absent[:, 0]
    counted: bool = known["drawn"] == len(first) - np.count_nonzero(first)
    return counted and (absent.ndim == 1 or bool((first == absent.T).all()))  # a row has all outputs or none


CAP = 3.0
"""A value counts as at most this multiple of the typical size of its column; DS_CAP of guard.h is the same."""
FAR = 1.0
"""A column is centred if its median is at least this multiple of its typical distance from the median."""
FARTHEST = 10.0
"""The size of a centred column is at least its centre divided by this. A clock or a counter varies little in the first
rows and moves far away later."""
ENOUGH_ROWS = 200
"""Fewest rows from which columns are centred, for the same reason."""
MOST_PASSES = 200
"""Each pass divides a single huge value by a third of the number of rows, so this suffices for 1e150 among ten rows."""
FRAME_RULES = CAP, FAR, FARTHEST, float(ENOUGH_ROWS)
"""The rules above as ``columns.frame`` takes them."""


def extend_range(X: Rows, weight: FloatArray, low: FloatArray, high: FloatArray) -> bool:
    """Extend the range of each column by the rows of positive weight; return whether any value was outside.

    A first range is infinity to -infinity before. A value of 0 that a sparse row does not store belongs to it, too.
    """
    return columns.extend_range(X, weight, low, high) > 0


def usual_norm(X: Rows, weight: FloatArray, factor: FloatArray, centre: FloatArray, quantile: float) -> float:
    """Return a quantile over the rows of positive weight of weight * |factor * (x - centre)|^2.

    Factor and centre have one entry more than there are columns, for the constant column (whose centre is 0). The
    result is 1 if the quantile is 0 or overflows.
    """
    return columns.usual_norm(X, weight, factor, centre, quantile, np.empty(len(weight)))


def usual_sizes(X: Rows, weight: FloatArray) -> FloatArray:
    """Return the typical size of the non-zero values of each column; 0 for a column of zeros.

    This is the mean of |x|, where each value counts as at most three times that mean. So a rare column is measured
    like a frequent one, and outliers hardly matter: each pass reduces their share, until the mean does not change.

    >>> column = np.ones((100, 1)); column[7] = 1e6
    >>> usual_sizes(column, np.ones(100)).round(2)
    array([1.02])
    """
    return _usual_frame(X, weight, centred=False)[1]


def usual_frame(X: Rows, weight: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the centre and the typical size of each column; a size of 0 means that it is not known yet.

    A column with zeros, or around zero, has the centre 0. A column that is never 0 in these rows and far from 0 (its
    median is at least its typical distance from the median, as for a price, a pressure or degrees Kelvin) has its
    median as centre, and a size of at least a tenth of it.

    >>> X = np.column_stack([np.linspace(-1, 1, 201), 20 + np.linspace(-8, 8, 201)])
    >>> centre, sizes = usual_frame(X, np.ones(201))
    >>> centre, sizes.round(1)
    (array([ 0., 20.]), array([0.5, 4. ]))
    """
    return _usual_frame(X, weight, centred=True)


def _usual_frame(X: Rows, weight: FloatArray, *, centred: bool) -> tuple[FloatArray, FloatArray]:
    width = X.n_features if isinstance(X, CSR) else X.shape[1]
    centre, sizes = np.empty((2, width))
    work, values = np.empty((6, width)), np.empty(len(weight))
    columns.frame(X, weight, centred, FRAME_RULES, MOST_PASSES, centre, sizes, work, values)
    return centre, sizes
