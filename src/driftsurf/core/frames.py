"""Protocols of the tables that other libraries pass in, so that none of them has to be imported.

Rows may be anything that ``numpy.asarray`` understands, a frame of pandas or polars, or a sparse matrix of scipy.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

__all__ = ["Frame", "LazyFrame", "PandasCategories", "PandasFrame", "PandasSeries", "SparseMatrix"]


@runtime_checkable
class Frame(Protocol):
    """Table with columns, such as a DataFrame of pandas or polars."""

    @property
    def columns(self) -> Iterable[Any]:
        """Names of the columns."""

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of columns."""


@runtime_checkable
class PandasFrame(Frame, Protocol):
    """Frame whose columns are selected by position, because names may be repeated."""

    @property
    def iloc(self) -> Any:
        """Selection by position."""


@runtime_checkable
class PandasSeries(Protocol):
    """Column of a pandas frame, which may use a nullable type."""

    @property
    def dtype(self) -> Any:
        """Type of the values, with the ``kind`` of a numpy type."""

    def isna(self) -> Any:
        """Return which values are missing."""

    def to_numpy(self, dtype: Any = ..., *, na_value: object = ...) -> npt.NDArray[Any]:
        """Return the values as an array."""


@runtime_checkable
class PandasCategories(Protocol):
    """Type of a categorical column of pandas."""

    @property
    def categories(self) -> Any:
        """The values that a cell may have."""

    @property
    def ordered(self) -> Any:
        """Whether the values have an order."""


@runtime_checkable
class LazyFrame(Protocol):
    """Query that becomes a frame when it is collected, such as a LazyFrame of polars."""

    def collect(self) -> Any:
        """Return the frame."""


@runtime_checkable
class SparseMatrix(Protocol):
    """Sparse matrix or array of scipy."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Length of each axis."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the values."""

    @property
    def format(self) -> str:
        """Name of the storage format, such as ``csr``."""

    def tocsr(self) -> Any:
        """Return the matrix in CSR format."""
