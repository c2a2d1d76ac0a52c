"""Small values that pass between the parts of the package: rows, batches, ranges of rows, entries of a state.

:mod:`driftsurf.core.contracts` exports all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

FloatArray: TypeAlias = npt.NDArray[np.float64]
IntArray: TypeAlias = npt.NDArray[np.int64]
DenseRows: TypeAlias = npt.NDArray[np.floating[Any]]
Scalar: TypeAlias = bool | int | float | str
State: TypeAlias = dict[str, "Scalar | npt.NDArray[Any]"]
"""Saved state of an object: a flat dictionary of scalars, text and arrays."""
IncrementalState: TypeAlias = dict[str, Any]
"""A state in which the arrays that grow with the rows are ``AppendOnlyArray``."""
Undo: TypeAlias = Callable[[], None]
"""Reverts the mutation that returned it; valid until the next mutation."""


@dataclass(frozen=True, slots=True)
class AppendOnlyArray:
    """Array of a state that a checkpoint saves incrementally.

    Entries are numbered. New entries are appended at the end and old ones are dropped at the start.

    Examples
    --------
    >>> import numpy as np
    >>> losses = [0.5, 0.4, 0.3]
    >>> entry = AppendOnlyArray(losses, first=1, stop=3, read=lambda start, stop: np.array(losses[start:stop]))
    >>> entry.array()
    array([0.4, 0.3])
    """

    owner: object
    """Object that holds the entries. The same owner means the same numbering."""
    first: int
    stop: int
    read: Callable[[int, int], npt.NDArray[Any]]
    """Returns the entries from one number up to, but not including, another."""
    version: int = 0
    """Counts the changes of existing entries."""
    changed: Callable[[int], IntArray | None] = lambda version: np.zeros(0, np.int64)
    """Returns the numbers of the entries changed since a version, in any order; None if the version is too old."""
    ends: bool = False
    """Whether the entries are lengths, and the saved array holds their cumulative sum, starting with 0."""

    def array(self) -> npt.NDArray[Any]:
        """Return the whole array as a state holds it."""
        return self.laid_out(self.read(self.first, self.stop))

    def laid_out(self, entries: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return entries as a state holds them."""
        return np.concatenate([np.zeros(1, entries.dtype), np.cumsum(entries)]) if self.ends else entries


@dataclass(frozen=True, slots=True)
class Pickled:
    """Object of another library inside a state. It is written and read only where pickle is trusted.

    Examples
    --------
    >>> from driftsurf.core.state import to_bytes
    >>> state = {"model": Pickled("MyLearner", {1, 2})}
    >>> to_bytes(state)
    Traceback (most recent call last):
        ...
    driftsurf.errors.CapabilityError: ...
    >>> len(to_bytes(state, trust_pickle=True)) > 0
    True
    """

    owner: str
    """Name of the part that holds the object, for messages."""
    value: Any


class CSR(NamedTuple):
    """Sparse rows: row i has the values ``data[indptr[i]:indptr[i+1]]`` in the columns ``indices`` of that range.

    Examples
    --------
    >>> import numpy as np
    >>> from driftsurf.core.contracts import n_rows
    >>> rows = CSR(np.array([1.5, 2.0]), np.array([0, 2], np.int32), np.array([0, 1, 1, 2]), n_features=3)
    >>> n_rows(rows)
    3
    """

    data: npt.NDArray[np.floating[Any]]
    indices: npt.NDArray[np.int32]
    indptr: npt.NDArray[np.int64]
    n_features: int


Rows: TypeAlias = DenseRows | CSR
Categories: TypeAlias = tuple[tuple[int, int], ...]
"""Categories of rows: ranges (first, stop) of columns, in rising order, of which exactly one is 1 in each row."""


def n_rows(X: Rows) -> int:
    """Return the number of rows, dense or sparse.

    Examples
    --------
    >>> import numpy as np
    >>> n_rows(np.zeros((4, 2)))
    4
    """
    return len(X.indptr) - 1 if isinstance(X, CSR) else len(X)


def take_rows(X: Rows, start: int, stop: int) -> Rows:
    """Return the rows ``start`` to ``stop - 1``, dense or sparse, without copying their values.

    Examples
    --------
    >>> import numpy as np
    >>> take_rows(np.arange(6.0).reshape(3, 2), 1, 3)
    array([[2., 3.],
           [4., 5.]])
    """
    if isinstance(X, CSR):
        return X._replace(indptr=X.indptr[start : stop + 1])
    return X[start:stop]


def gathered(X: Rows, order: IntArray) -> Rows:
    """Return copies of the rows of X with these numbers, in this order.

    Examples
    --------
    >>> import numpy as np
    >>> gathered(np.arange(6.0).reshape(3, 2), np.array([2, 0]))
    array([[4., 5.],
           [0., 1.]])
    """
    if not isinstance(X, CSR):
        return X[order]
    starts, lengths = X.indptr[order], np.diff(X.indptr)[order]
    indptr = np.append(0, np.cumsum(lengths))
    taken = np.repeat(starts - indptr[:-1], lengths) + np.arange(indptr[-1])
    return CSR(X.data[taken], X.indices[taken], indptr, X.n_features)


@dataclass(frozen=True, slots=True)
class Segment:
    """The rows numbered ``lo`` to ``hi - 1`` of a stream.

    Examples
    --------
    >>> len(Segment(10, 25))
    15
    """

    lo: int
    hi: int

    def __len__(self) -> int:
        return self.hi - self.lo


class Batch(NamedTuple):
    """Rows with their targets (class codes 0, 1, ... or numbers) and weights, as the store holds them.

    ``first_row`` is the number of the first row in the stream.

    Examples
    --------
    >>> import numpy as np
    >>> batch = Batch(np.eye(2), y=np.array([0.0, 1.0]), weight=np.ones(2), first_row=500)
    >>> batch.first_row + len(batch.y)
    502
    """

    X: Rows
    y: FloatArray
    weight: FloatArray
    first_row: int = 0


class SampleStore(Protocol):
    """The sample store as a learner sees it: rows by number, never copied.

    Examples
    --------
    >>> import numpy as np
    >>> from driftsurf.core.contracts import Segment
    >>> from driftsurf.core.samples import Samples
    >>> samples: SampleStore = Samples(n_features=1)
    >>> _ = samples.append(np.array([[1.0], [2.0]]), np.array([0.0, 1.0]))
    >>> samples.view(Segment(1, 2)).X
    array([[2.]])
    """

    def view(self, segment: Segment) -> Batch:
        """Return the rows of ``segment``."""
        ...


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
