"""Sparse rows that an encoder of this package has made, which a session takes as they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from driftsurf.core.contracts import CSR, gathered

__all__ = ["EncodedRows"]


@dataclass(frozen=True, slots=True, eq=False)
class EncodedRows:
    """CSR rows in canonical form by construction. Everything else takes them for a sparse matrix of scipy.

    A session does not look at them again if they are finite, which saves the checks of the same values in every batch,
    and scipy's own when it makes a matrix.
    """

    csr: CSR
    finite: bool
    """Whether all values are finite."""

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of columns."""
        return len(self.csr.indptr) - 1, self.csr.n_features

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the values."""
        return self.csr.data.dtype

    @property
    def format(self) -> str:
        """Name of the storage format."""
        return "csr"

    @property
    def data(self) -> npt.NDArray[np.floating[Any]]:
        """The values, row after row."""
        return self.csr.data

    @property
    def indices(self) -> npt.NDArray[np.int32]:
        """The column of each value."""
        return self.csr.indices

    @property
    def indptr(self) -> npt.NDArray[np.int64]:
        """Where each row begins."""
        return self.csr.indptr

    def __getitem__(self, kept: npt.NDArray[np.bool_]) -> EncodedRows:
        """Return the rows for which ``kept`` is true."""
        rows = gathered(self.csr, np.flatnonzero(kept))
        assert isinstance(rows, CSR)
        return EncodedRows(rows, self.finite)

    def tocsr(self) -> Any:
        """Return the rows as ``scipy.sparse.csr_array``."""
        from scipy import sparse

        data, indices, indptr, _ = self.csr
        return sparse.csr_array((data, indices, indptr.astype(np.int32, copy=False)), shape=self.shape)
