"""Norms of rows, and the typical centre and size of columns, from which learners derive their scaling."""

from __future__ import annotations

import math

import numpy as np

from driftsurf.core.contracts import CSR, DenseRows, FloatArray, Rows, n_rows
from driftsurf.kernels.columns import (
    add_magnitudes_csr,
    all_within_csr,
    all_within_dense,
    clip_csr,
    clip_dense,
    extend_range_csr,
    extend_range_dense,
    measure_csr,
    measure_dense,
    squared_norms_csr,
    squared_norms_dense,
)
from driftsurf.kernels.frames import frame_dense, select, usual_norm_dense

__all__ = [
    "CAP",
    "clipped",
    "extend_range",
    "limited",
    "measure",
    "squared_norms",
    "usual_frame",
    "usual_norm",
    "usual_sizes",
]

CAP = 3.0
"""A value counts as at most this multiple of the typical size of its column."""
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
"""The rules above as ``frame_dense`` takes them."""


def squared_norms(X: Rows, factor: FloatArray, centre: FloatArray) -> FloatArray:
    """Return the squared norm of factor * (x - centre) for each row; infinity where it overflows.

    Factor and centre have one entry more than there are columns, for the constant column (whose centre is 0).
    """
    out = np.empty(n_rows(X))
    if isinstance(X, CSR):
        squared_norms_csr(X.data, X.indices, X.indptr, factor, centre, out)
    else:
        squared_norms_dense(X, factor, centre, out)
    return out


def add_magnitudes(X: CSR, weight: FloatArray, cap: FloatArray, total: FloatArray, mass: FloatArray) -> None:
    """Add each column's weighted sum of min(|x|, cap) to ``total``, and the weight of its non-zeros to ``mass``."""
    add_magnitudes_csr(X.data, X.indices, X.indptr, weight, cap, total, mass)


def measure(X: Rows, columns: FloatArray, most: float) -> tuple[FloatArray, float, int, int]:
    """Return the squared norm of factor * x for each row, the largest of them, and the numbers of zeros and extremes.

    ``columns`` is (factor, cap, total, mass). The sizes of the rows are added to ``total`` and ``mass``, as in
    ``add_magnitudes``, except for rows whose squares overflow. Extremes are values with |factor * x| > ``most``.
    """
    out = np.empty(n_rows(X))
    factor, cap, total, mass = columns
    if isinstance(X, CSR):
        found = measure_csr(X.data, X.indices, X.indptr, factor, cap, total, mass, most, out)
    else:
        found = measure_dense(X, factor, cap, total, mass, most, out)
    return out, *found


def limited(X: Rows, most: FloatArray) -> Rows:
    """Return rows whose values are at most ``most`` of their column; the same object if all of them are.

    Values are limited in absolute value, to the range -``most`` to ``most``.
    """
    if isinstance(X, CSR):
        a, b = X.indptr[0], X.indptr[-1]
        within = all_within_csr(X.data[a:b], X.indices[a:b], most)
    else:
        within = all_within_dense(X, most)
    return X if within else clipped(X, most)


def clipped(X: Rows, most: FloatArray) -> Rows:
    """Return a copy of rows whose values are limited to the range -``most`` to ``most`` of their column."""
    if isinstance(X, CSR):
        a, b = X.indptr[0], X.indptr[-1]
        values, indices = np.empty_like(X.data[a:b]), X.indices[a:b]
        clip_csr(X.data[a:b], indices, most, values)
        return CSR(values, indices, X.indptr - a, X.n_features)
    rows = np.empty_like(X)
    clip_dense(X, most, rows)
    return rows


def extend_range(X: Rows, weight: FloatArray, low: FloatArray, high: FloatArray) -> bool:
    """Extend the range of each column by the rows of positive weight; return whether any value was outside.

    Zeros of sparse rows are not looked at.
    """
    if isinstance(X, CSR):
        return bool(extend_range_csr(X.data, X.indices, X.indptr, weight, low, high))
    return bool(extend_range_dense(X, weight, low, high))


def usual_norm(X: Rows, weight: FloatArray, factor: FloatArray, centre: FloatArray, quantile: float) -> float:
    """Return a quantile over the rows of positive weight of weight * |factor * (x - centre)|^2.

    Factor and centre have one entry more than there are columns, as for ``squared_norms``. The result is 1 if the
    quantile is 0 or overflows.
    """
    if not isinstance(X, CSR):
        return float(usual_norm_dense(X, weight, factor, centre, quantile, np.empty(len(X))))
    counted = weight > 0.0
    sizes = squared_norms(X, factor, centre)[counted] * weight[counted]
    usual = float(select(sizes, math.floor(quantile * (len(sizes) - 1)))) if len(sizes) else 1.0
    return usual if 0.0 < usual < math.inf else 1.0


def usual_sizes(X: Rows, weight: FloatArray) -> FloatArray:
    """Return the typical size of the non-zero values of each column; 0 for a column of zeros.

    This is the mean of |x|, where each value counts as at most three times that mean. So a rare column is measured
    like a frequent one, and outliers hardly matter: each pass reduces their share, until the mean does not change.

    >>> column = np.ones((100, 1)); column[7] = 1e6
    >>> usual_sizes(column, np.ones(100)).round(2)
    array([1.02])
    """
    if not isinstance(X, CSR):
        return _dense_frame(X, weight, centred=False)[1]
    width = X.n_features
    sizes = np.full(width, np.inf)
    for _ in range(MOST_PASSES):
        total, mass = np.zeros((2, width))
        add_magnitudes(X, weight, CAP * sizes, total, mass)
        before, sizes = sizes, np.divide(total, mass, out=np.zeros(width), where=mass > 0.0)
        if (before <= 1.01 * sizes).all():  # sizes decrease from pass to pass
            break
    return sizes


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
    if not isinstance(X, CSR):
        return _dense_frame(X, weight, centred=True)
    sizes = usual_sizes(X, weight)
    centre = np.zeros(len(sizes))
    whole = np.flatnonzero(_never_zero(X, weight))
    if len(whole) and np.count_nonzero(weight) >= ENOUGH_ROWS:
        block = _columns(X, weight, whole)
        middle = np.median(block, axis=0)
        spread = usual_sizes(np.ascontiguousarray(block - middle), weight[weight > 0.0])
        far = np.abs(middle) >= FAR * spread
        spread = np.maximum(spread, np.abs(middle) / FARTHEST)
        centre[whole[far]], sizes[whole[far]] = middle[far], spread[far]
    return centre, sizes


def _dense_frame(X: DenseRows, weight: FloatArray, *, centred: bool) -> tuple[FloatArray, FloatArray]:
    rows, width = X.shape
    centre, sizes = np.empty((2, width))
    frame_dense(X, weight, centred, FRAME_RULES, MOST_PASSES, centre, sizes, np.empty((6, width)), np.empty(rows))
    return centre, sizes


def _never_zero(X: CSR, weight: FloatArray) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Return which columns are non-zero in every row with a positive weight."""
    counted = (weight > 0.0).astype(np.float64)
    total, mass = np.zeros((2, X.n_features))
    add_magnitudes(X, counted, np.ones(X.n_features), total, mass)
    never: np.ndarray[tuple[int], np.dtype[np.bool_]] = (mass == counted.sum()) & (mass > 0.0)
    return never


def _columns(X: CSR, weight: FloatArray, whole: np.ndarray[tuple[int], np.dtype[np.int64]]) -> FloatArray:
    """Return the columns ``whole``, which have no zeros, as dense rows; only rows with a positive weight."""
    counted = weight > 0.0
    a, b = X.indptr[0], X.indptr[-1]
    kept = np.isin(X.indices[a:b], whole) & np.repeat(counted, np.diff(X.indptr))
    return X.data[a:b][kept].astype(np.float64).reshape(-1, len(whole))
