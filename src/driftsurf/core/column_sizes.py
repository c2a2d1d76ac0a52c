"""The usual norm of rows, and the typical centre and size of columns, from which learners derive their scaling."""

from __future__ import annotations

import numpy as np

from driftsurf.core.contracts import CSR, FloatArray, Rows
from driftsurf.native import columns

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
    return _frame(X, weight, centred=False)[1]


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
    return _frame(X, weight, centred=True)


def _frame(X: Rows, weight: FloatArray, *, centred: bool) -> tuple[FloatArray, FloatArray]:
    width = X.n_features if isinstance(X, CSR) else X.shape[1]
    centre, sizes = np.empty((2, width))
    work, values = np.empty((6, width)), np.empty(len(weight))
    columns.frame(X, weight, centred, FRAME_RULES, MOST_PASSES, centre, sizes, work, values)
    return centre, sizes
