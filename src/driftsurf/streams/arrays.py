"""Rows that are already in memory, as a stream."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from driftsurf.base import CSR, FloatArray
from driftsurf.errors import LabelError, NonFiniteError, OptionError, ShapeError, ValueTypeError
from driftsurf.streams.base import Block, Drift, Stream, block_sizes


class ArrayStream(Stream):
    """A stream over arrays, in the order of their rows.

    Parameters
    ----------
    X
        Rows of numbers, without a constant column: an array, or a sparse matrix for a sparse stream.
    y
        Labels -1 and +1.
    drifts
        Where the rows drift, if known.
    name
        What tables and figures call it.

    Notes
    -----
    Arrays of float64 and int64 are not copied; blocks and batches are read-only views of them. Blocks of a
    sparse matrix are copies.

    Examples
    --------
    >>> stream = ArrayStream([[0.0], [1.0], [2.0]], [-1, 1, 1], name="tiny")
    >>> [(float(x[0]), y) for x, y in stream]
    [(0.0, -1), (1.0, 1), (2.0, 1)]
    """

    name: str
    drifts: tuple[Drift, ...]
    sparse: bool

    def __init__(self, X: Any, y: npt.ArrayLike, *, drifts: Sequence[Drift] = (), name: str = "arrays") -> None:
        self.sparse = hasattr(X, "tocsr")
        self.X = _read_sparse(X) if self.sparse else _read_dense(X)
        labels = np.asarray(y)
        self.drifts = tuple(drifts)
        self.name = name
        self._check(labels)
        self.y = np.ascontiguousarray(labels, dtype=np.int64)

    def _check(self, labels: npt.NDArray[np.generic]) -> None:
        if self.X.ndim != 2 or 0 in self.X.shape:
            raise ShapeError(f"X has shape {self.X.shape}; give at least one row and one column, (rows, columns)")
        if labels.shape != self.X.shape[:1]:
            raise ShapeError(f"y has shape {labels.shape} for {self.n_rows} rows; give one label per row")
        if not self.sparse and not np.isfinite(self.X).all():
            row = np.isfinite(self.X).all(axis=1).argmin()
            raise NonFiniteError(f"row {row} of X holds NaN or infinity; drop or fill such rows")
        unknown = ~np.isin(labels, self.classes)
        if unknown.any():
            label = labels[unknown.argmax()]
            remedy = "give numpy.where(y == positive, 1, -1)"
            raise LabelError(f"label {label!r} in row {unknown.argmax()} of y; choices: -1, 1; {remedy}")
        for drift in self.drifts:
            if drift.end > self.n_rows:
                raise OptionError(f"{drift} lies beyond the {self.n_rows} rows; give positions up to there")

    @property
    def n_rows(self) -> int:
        """Rows of X."""
        return int(self.X.shape[0])

    @property
    def n_features(self) -> int:
        """Columns of X."""
        return int(self.X.shape[1])

    def blocks(self) -> Iterator[Block]:
        """Views of the arrays."""
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
        message = f"X cannot be read as numbers ({error}); give a dense array, text columns encoded"
        raise ValueTypeError(message) from error


def _read_sparse(X: Any) -> Any:
    """A CSR matrix of float64 with sorted columns, checked like the rows that a model is given."""
    from scipy.sparse import csr_array, get_index_dtype

    from driftsurf.validation import read_rows, read_schema

    rows = read_rows(X, read_schema(X))
    assert isinstance(rows, CSR)
    narrow = get_index_dtype(maxval=int(rows.indptr[-1]))  # scikit-learn takes no wider index than need be
    return csr_array((rows.data, rows.indices, rows.indptr.astype(narrow)), shape=X.shape)
