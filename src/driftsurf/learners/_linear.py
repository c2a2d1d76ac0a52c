"""What linear learners share: the model in training, its coordinates, its margins."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, TypeAlias

import numpy as np

from driftsurf import _kernels
from driftsurf._values import replace
from driftsurf.base import CSR, Batch, FloatArray, IntArray, Rows
from driftsurf.errors import DivergenceError, Option, ShapeError, StateError
from driftsurf.sizes import usual_frame, usual_sizes

SMALLEST_SIZE = 1e-30
FLOAT = np.dtype(np.float64)
LARGEST = 1e100
"""Of a weight or a sum of gradients: far below overflow, so that margins and penalties of a model are finite too."""

Frame: TypeAlias = tuple[FloatArray, FloatArray, IntArray]
"""The coordinates in which a model learns: gains, centre, and the columns whose centre is not 0."""


def _frame(factor: Any, centre: Any) -> Frame:
    return np.square(factor), centre, np.flatnonzero(centre)


@dataclass(frozen=True)
class Linear:
    """A linear model in training: all that an update changes, except the gradient table.

    The table is changed in place and put back; this is replaced as a whole.
    """

    weights: FloatArray
    """One for each feature, the intercept last; with several outputs, one column for each."""
    gradient_sum: FloatArray
    factor: FloatArray
    """1 / scale of each column: the model learns as if columns were multiplied by it. Last, 1 or 0: the intercept."""
    centre: FloatArray
    """Taken off each column first; the intercept is that of the centred columns."""
    anchor: FloatArray
    """The point that the penalty holds it to, in raw coordinates; ``weights`` are then the difference. Empty: none."""
    drawn: int = 0
    """Rows with an entry in the gradient table."""
    lo: int = -1
    """The sample set S is the rows lo to admitted; those from admitted to hi wait. -1: no row yet."""
    admitted: int = -1
    hi: int = -1
    seen: int = 0
    """Rows ever given."""
    target: float = 0.0
    """Taken off the targets of a regression: the intercept is learnt from there."""
    step_size: float = math.nan
    renew_at: int = 0
    """``seen`` at which scale and step size are worked out again."""
    seed: int = 0
    words: int = 0
    """Random words used: with the seed, the whole random state."""
    gradients: int = 0
    frame: Frame = field(init=False, repr=False)
    """The coordinates that factor and centre say, as the kernels take them."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "frame", _frame(self.factor, self.centre))

    @property
    def raw_weights(self) -> FloatArray:
        """The weights for columns and targets as they are."""
        own = self.weights
        if len(self.frame[2]) or self.target:
            own = own.copy()
            own[-1] -= (self.weights * along(self.centre, self.weights)).sum(axis=0) - self.target
        return own + self.anchor if len(self.anchor) else own

    def offsets(self, X: Rows) -> FloatArray | None:
        """What the anchor adds to the margin of each row; None without one."""
        return margins(self.anchor, X) if len(self.anchor) else None

    def penalty(self, l2: float) -> float:
        """l2 / 2 |u|^2, u the weights in its own coordinates."""
        factor = self.factor if self.weights.ndim == 1 else np.repeat(self.factor, self.weights.shape[1])
        return 0.5 * l2 * float(_kernels.squared_length(self.weights.ravel(), factor))

    def reframed(self, rows: Batch) -> Linear:
        """The same model in columns less their usual place and divided by their usual size in these rows.

        The table holds one scalar per row whatever the coordinates. The sum of the gradients carries the
        gain of each column as a factor, and the sum of the scalars themselves is that of the intercept. So
        the change is exact and costs O(d).
        """
        factor = self.factor.copy()
        if factor[-1] > 0.0:
            centre, sizes = usual_frame(rows.X, rows.weight)
        else:  # no intercept that could make up for a centre
            centre, sizes = np.zeros(len(factor) - 1), usual_sizes(rows.X, rows.weight)
        factor[:-1][sizes > 0.0] = 1.0 / np.clip(sizes[sizes > 0.0], SMALLEST_SIZE, 1.0 / SMALLEST_SIZE)
        centre = np.append(centre, 0.0)
        shift = along(centre - self.centre, self.weights)
        weights = self.weights.copy()
        weights[-1] += (weights * shift).sum(axis=0)
        old, new = (along(np.square(gains), weights) for gains in (self.factor, factor))
        plain = np.divide(self.gradient_sum, old, out=np.zeros_like(weights), where=new > 0.0)
        gradient_sum = new * (plain - shift * plain[-1])
        changed = {"weights": weights, "gradient_sum": gradient_sum, "factor": factor, "centre": centre}
        return replace(self, **changed, frame=_frame(factor, centre))

    def retargeted(self, target: float) -> Linear:
        """The same model with another number taken off the targets."""
        weights = self.weights.copy()
        weights[-1] += self.target - target
        return replace(self, weights=weights, target=target)

    def widened(self, outputs: int) -> Linear:
        """The same model with more outputs, whose weights and gradients are 0."""
        more = np.zeros((len(self.weights), outputs - self.weights.shape[1]))
        weights, gradient_sum = np.hstack([self.weights, more]), np.hstack([self.gradient_sum, more])
        return replace(self, weights=weights, gradient_sum=gradient_sum)

    def check_finite(self) -> None:
        """DivergenceError if training went astray."""
        largest = _kernels.largest_of_two(self.weights.ravel(), self.gradient_sum.ravel())
        if not largest < LARGEST:
            raise DivergenceError(
                f"training diverged: the weights reached {largest:g} with step size {self.step_size:g}. Lower ",
                Option("step_size"),
                " or scale the columns; the update was taken back.",
            )

    def check(self, table: Any, *, tabled: bool, dimensions: int) -> None:
        """StateError unless the entries fit together.

        ``tabled``: admitted rows have an entry in the table; ``dimensions``: those of the weights.
        """
        # Bytes can be made up; whatever they say must not lead compiled code outside its arrays.
        vectors = self.factor, self.centre, self.anchor
        matrices = self.weights, self.gradient_sum, table
        rows = self.lo, self.admitted, self.hi
        counts = self.drawn, self.seen, self.renew_at, self.gradients, self.words, self.seed
        if not (
            all(isinstance(v, np.ndarray) and v.dtype == FLOAT for v in (*vectors, *matrices))
            and all(vector.ndim == 1 for vector in vectors)
            and all(matrix.ndim == dimensions and matrix.shape[1:] == self.weights.shape[1:] for matrix in matrices)
            and len({len(vector) for vector in (*vectors[:2], *matrices[:2])}) == 1
            and len(self.anchor) in (0, len(self.weights))
            and self.weights.size >= 1
            and all(_kernels.largest(values) < math.inf for values in vectors)
            and all(_kernels.largest(values.ravel()) < LARGEST for values in (self.weights, self.gradient_sum))
            and all(type(number) is int for number in (*rows, *counts))
            and isinstance(self.step_size, float)
            and isinstance(self.target, float)
            and (rows == (-1, -1, -1) or 0 <= self.lo <= self.admitted <= self.hi < 2**62)
            and all(0 <= count < 2**62 for count in counts[:-1])
            and 0 <= self.seed < 2**64
            and len(table) == (self.admitted - self.lo if tabled else 0)
            and self.drawn == np.count_nonzero(~np.isnan(table[:, 0] if dimensions == 2 else table))
        ):
            raise StateError("the entries of the saved model do not fit together: they are no linear model's")


@functools.lru_cache(maxsize=8)
def blank(shape: tuple[int, ...], intercept: bool) -> Linear:
    """A model that knows nothing: weights of 0, columns as they are. Nobody changes its arrays in place."""
    factor = np.ones(shape[0])
    factor[-1] = float(intercept)
    arrays = np.zeros(shape), np.zeros(shape), factor, np.zeros(shape[0]), np.zeros(0)
    for array in arrays:
        array.setflags(write=False)
    return Linear(*arrays)


SAVED = [entry.name for entry in fields(Linear) if entry.init]
"""The entries that are saved; the rest follows from them."""
SAVED_OF_CLASSES = [name for name in SAVED if name != "target"]
"""Classes have no target to take off."""
BLANK = Linear(np.zeros(0), np.zeros(0), np.zeros(0), np.zeros(0), np.zeros(0))


def revived(entries: Mapping[str, Any]) -> Linear:
    """The model with these saved entries, to be checked: what ``Linear(**entries)`` gives, in half of its time."""
    return replace(BLANK, **entries, frame=_frame(entries["factor"], entries["centre"]))


def along(vector: FloatArray, weights: FloatArray) -> FloatArray:
    """A number for each feature, shaped so that it multiplies the weights of all outputs."""
    return vector if weights.ndim == 1 else vector[:, None]


def margins(weights: FloatArray, X: Rows) -> FloatArray:
    """w.x + intercept of each row."""
    rows = check_width(X, weights)
    out = np.empty(rows)
    if isinstance(X, CSR):
        _kernels.margins_csr(X.data, X.indices, X.indptr, weights, out)
    else:
        _kernels.margins_dense(X, weights, out)
    return out


def margins_of_all(weights: FloatArray, X: Rows) -> FloatArray:
    """w.x + intercept of each row under each of several weights: a row of the result for each."""
    rows = check_width(X, weights[0])
    out = np.empty((len(weights), rows))
    if isinstance(X, CSR):
        _kernels.margins_of_all_csr(X.data, X.indices, X.indptr, weights, out)
    else:
        _kernels.margins_of_all_dense(X, weights, out)
    return out


def check_width(X: Rows, weights: FloatArray) -> int:
    """The number of rows; ShapeError unless they are as wide as the weights say."""
    # Compiled code does not look at the bounds of its arrays.
    rows, width = (len(X.indptr) - 1, X.n_features) if isinstance(X, CSR) else (len(X), X.shape[1])
    if width != len(weights) - 1:
        raise ShapeError(f"X has {width} features, but this model was made for {len(weights) - 1}")
    return rows
