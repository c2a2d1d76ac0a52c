"""Rows as the library's core takes them: dense or CSR, and read-only."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from driftsurf.core.contracts import CSR, DenseRows, Rows


def as_rows(X: npt.NDArray[Any], sparse: bool) -> Rows:
    """Return the rows as a contiguous array, or as CSR."""
    if not sparse:
        return np.ascontiguousarray(X)
    row, column = np.nonzero(X)
    indptr = np.searchsorted(row, np.arange(len(X) + 1)).astype(np.int64)
    return CSR(X[row, column], column.astype(np.int32), indptr, X.shape[1])


def frozen(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return a read-only copy, for inputs of the core that must never be written."""
    array = array.copy()
    array.flags.writeable = False
    return array


def csr_view(X: DenseRows) -> CSR:
    """Return the rows as a read-only CSR view into a larger store, whose other values are poisoned."""
    row, column = np.nonzero(X)
    indptr = 2 + np.searchsorted(row, np.arange(len(X) + 1))
    data = np.concatenate([[np.nan] * 2, X[row, column], [np.nan]]).astype(X.dtype)
    indices = np.concatenate([[2**30] * 2, column, [2**30]]).astype(np.int32)
    return CSR(frozen(data), frozen(indices), frozen(indptr.astype(np.int64)), X.shape[1])
