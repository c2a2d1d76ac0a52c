"""How large rows and columns are: norms, and the usual size of each column."""

from __future__ import annotations

import numpy as np

from driftsurf import _kernels
from driftsurf.base import CSR, FloatArray, Rows, n_rows

__all__ = ["CAP", "add_magnitudes", "squared_norms", "usual_sizes"]

CAP = 3.0
"""A value counts with at most this many times the usual size of its column."""
MOST_PASSES = 200
"""Each pass brings a single huge value down by a third of the number of rows: enough for 1e150 among ten."""


def squared_norms(X: Rows, factor: FloatArray) -> FloatArray:
    """|factor * x|^2 of each row, the last factor being that of a constant 1; infinite where it overflows."""
    out = np.empty(n_rows(X))
    if isinstance(X, CSR):
        _kernels.squared_norms_csr(X.data, X.indices, X.indptr, factor, out)
    else:
        _kernels.squared_norms_dense(X, factor, out)
    return out


def add_magnitudes(X: Rows, weight: FloatArray, cap: FloatArray, total: FloatArray, mass: FloatArray) -> None:
    """Add each column's weighted sum of min(|x|, cap) to ``total``, and the weight of its non-zeros to ``mass``."""
    if isinstance(X, CSR):
        _kernels.add_magnitudes_csr(X.data, X.indices, X.indptr, weight, cap, total, mass)
    else:
        _kernels.add_magnitudes_dense(X, weight, cap, total, mass)


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
