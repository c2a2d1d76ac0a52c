"""A stream of rows that are in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from driftsurf.core.contracts import CSR, FloatArray
from driftsurf.core.frames import SparseMatrix
from driftsurf.errors import LabelError, NonFiniteError, OptionError, ShapeError, ValueTypeError
from driftsurf.streams.base import Block, DriftSpan, Stream, block_sizes


class ArrayStream(Stream):
    """A stream of the rows of arrays, in their order.

    Parameters
    ----------
    X
        Rows of numbers, without a constant column: an array, or a sparse matrix for a sparse stream.
    y
        Labels -1 and +1.
    drifts
        Drifts of the rows, if they are known.
    name
        What tables and figures call it.

    Notes
    -----
    Arrays of float64 and int64 are not copied; blocks and batches are read-only views of them. Blocks of a sparse
    matrix are copies.

    Examples
    --------
    >>> stream = ArrayStream([[0.0], [1.0], [2.0]], [-1, 1, 1], name="tiny")
    >>> [(float(x[0]), y) for x, y in stream]
    [(0.0, -1), (1.0, 1), (2.0, 1)]
    """

    name: str
    drifts: tuple[DriftSpan, ...]
    sparse: bool

    def __init__(self, X: Any, y: npt.ArrayLike, *, drifts: Sequence[DriftSpan] = (), name: str = "arrays") -> None:
        self.sparse = isinstance(X, SparseMatrix)
        self.X = _read_sparse(X) if self.sparse else _read_dense(X)
        labels = np.asarray(y)
        self.drifts = tuple(drifts)
        self.name = name
        self._check(labels)
        self.y: npt.NDArray[np.int64] = np.ascontiguousarray(labels, dtype=np.int64)

    def _check(self, labels: npt.NDArray[np.generic]) -> None:
        if self.X.ndim != 2 or 0 in self.X.shape:
            raise ShapeError(f"X must have at least one row and one column; got the shape {self.X.shape}")
        if labels.shape != self.X.shape[:1]:
            raise ShapeError(f"y must have one label for each of {self.n_rows} rows; got the shape {labels.shape}")
        if not self.sparse and not np.isfinite(self.X).all():
            row = np.isfinite(self.X).all(axis=1).argmin()
            raise NonFiniteError(f"row {row} of X contains NaN or infinity; drop or fill such rows")
        unknown = ~np.isin(labels, self.classes)
        if unknown.any():
            label = labels[unknown.argmax()]
            raise LabelError(
                f"labels must be -1 or 1; got {label!r} in row {unknown.argmax()} of y. "
                "Pass numpy.where(y == positive, 1, -1)"
            )
        for drift in self.drifts:
            if drift.end > self.n_rows:
                raise OptionError(f"{drift} must end within the {self.n_rows} rows")

    @property
    def n_rows(self) -> int:
        """Number of rows of X."""
        return int(self.X.shape[0])

    @property
    def n_features(self) -> int:
        """Number of columns of X."""
        return int(self.X.shape[1])

    def blocks(self) -> Iterator[Block]:
        """Yield views of the arrays."""
        X, y = self.X, self.y.view()
        y.flags.writeable = False
        if not self.sparse:
            X = X.view()
            X.flags.writeable = False
        at = 0
        for size in block_sizes(self.n_rows):
            yield X[at : at + size], y[at : at + size]
            at += size


def _read_dense(X: npt.ArrayLike) -> FloatArray:
    try:
        return np.ascontiguousarray(X, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueTypeError(f"X must be numbers; encode text columns first ({error})") from error


def _read_sparse(X: Any) -> Any:
    """Return a CSR matrix of float64 with sorted columns, checked as the rows that a model learns from are."""
    from scipy.sparse import csr_array, get_index_dtype

    from driftsurf.core.input import read_rows, read_schema

    rows = read_rows(X, read_schema(X))
    assert isinstance(rows, CSR)
    narrow = get_index_dtype(maxval=int(rows.indptr[-1]))  # scikit-learn refuses wider indices than necessary
    return csr_array((rows.data, rows.indices, rows.indptr.astype(narrow)), shape=X.shape)
