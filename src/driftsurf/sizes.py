"""How large rows and columns are: norms, and the usual size of each column."""

from __future__ import annotations

import numpy as np

from driftsurf import _kernels
from driftsurf.base import CSR, FloatArray, Rows, n_rows

__all__ = ["CAP", "add_magnitudes", "measure", "squared_norms", "usual_frame", "usual_sizes"]

CAP = 3.0
"""A value counts with at most this many times the usual size of its column."""
FAR = 1.0
"""A column is off zero if its median is this many times its usual distance from the median."""
FARTHEST = 10.0
ENOUGH_ROWS = 200
"""A column that creeps (a clock, a counter) varies little at first and goes far later: its size is at least a tenth of
its distance from zero, and it is not centred by a few rows."""
MOST_PASSES = 200
"""Each pass brings a single huge value down by a third of the number of rows: enough for 1e150 among ten."""


def squared_norms(X: Rows, factor: FloatArray, centre: FloatArray) -> FloatArray:
    """|factor * (x - centre)|^2 of each row; infinite where it overflows.

    Both have an entry more than there are columns, for a constant 1 (whose centre is 0).
    """
    out = np.empty(n_rows(X))
    if isinstance(X, CSR):
        _kernels.squared_norms_csr(X.data, X.indices, X.indptr, factor, centre, out)
    else:
        _kernels.squared_norms_dense(X, factor, centre, out)
    return out


def add_magnitudes(X: Rows, weight: FloatArray, cap: FloatArray, total: FloatArray, mass: FloatArray) -> None:
    """Add each column's weighted sum of min(|x|, cap) to ``total``, and the weight of its non-zeros to ``mass``."""
    if isinstance(X, CSR):
        _kernels.add_magnitudes_csr(X.data, X.indices, X.indptr, weight, cap, total, mass)
    else:
        _kernels.add_magnitudes_dense(X, weight, cap, total, mass)


def measure(X: Rows, columns: FloatArray) -> tuple[FloatArray, float, int]:
    """|factor * x|^2 of each row, the largest of these, and how many are 0.

    ``columns`` is (factor, cap, total, mass). The rows enter ``total`` and ``mass``: values up to ``cap``, and no
    row whose squares overflow.
    """
    out = np.empty(n_rows(X))
    factor, cap, total, mass = columns
    if isinstance(X, CSR):
        largest, zeros = _kernels.measure_csr(X.data, X.indices, X.indptr, factor, cap, total, mass, out)
    else:
        largest, zeros = _kernels.measure_dense(X, factor, cap, total, mass, out)
    return out, largest, zeros


def usual_sizes(X: Rows, weight: FloatArray) -> FloatArray:
    """How large each column usually is when it is not zero; 0 for a column without a value.

    The mean of |x|, each value counted with at most three times that mean. So a rare column is
    measured like a common one, values near zero do not matter, and a value of 1e6 among ordinary
    ones hardly does: every pass lowers its part, until the mean stands still.

    >>> column = np.ones((100, 1)); column[7] = 1e6
    >>> usual_sizes(column, np.ones(100)).round(2)
    array([1.02])
    """
    width = X.n_features if isinstance(X, CSR) else X.shape[1]
    sizes = np.full(width, np.inf)
    for _ in range(MOST_PASSES):
        total, mass = np.zeros((2, width))
        add_magnitudes(X, weight, CAP * sizes, total, mass)
        before, sizes = sizes, np.divide(total, mass, out=np.zeros(width), where=mass > 0.0)
        if (before <= 1.01 * sizes).all():  # they only fall
            break
    return sizes


def usual_frame(X: Rows, weight: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Where each column usually is, and how far from there: its centre and size, the latter 0 if unknown.

    A column that has zeros, or lies around zero, is measured from 0. One that is never 0 in these rows
    and lies off it (its median is at least its usual distance from the median: a price, a pressure,
    degrees Kelvin) is measured from its median, in units of at least a tenth of it.

    >>> X = np.column_stack([np.linspace(-1, 1, 201), 20 + np.linspace(-8, 8, 201)])
    >>> centre, sizes = usual_frame(X, np.ones(201))
    >>> centre, sizes.round(1)
    (array([ 0., 20.]), array([0.5, 4. ]))
    """
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


def _never_zero(X: Rows, weight: FloatArray) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """The columns that have a value in every row that counts."""
    counted = (weight > 0.0).astype(np.float64)
    width = X.n_features if isinstance(X, CSR) else X.shape[1]
    total, mass = np.zeros((2, width))
    add_magnitudes(X, counted, np.ones(width), total, mass)
    never: np.ndarray[tuple[int], np.dtype[np.bool_]] = (mass == counted.sum()) & (mass > 0.0)
    return never


def _columns(X: Rows, weight: FloatArray, whole: np.ndarray[tuple[int], np.dtype[np.int64]]) -> FloatArray:
    """These columns, which have a value everywhere, as dense rows; of the rows that count."""
    counted = weight > 0.0
    if not isinstance(X, CSR):
        return X[counted][:, whole].astype(np.float64)
    a, b = X.indptr[0], X.indptr[-1]
    kept = np.isin(X.indices[a:b], whole) & np.repeat(counted, np.diff(X.indptr))
    return X.data[a:b][kept].astype(np.float64).reshape(-1, len(whole))
