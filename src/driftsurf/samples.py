"""The sample store: every row kept once, raw and numbered, shared by all models as ranges."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from driftsurf import _kernels
from driftsurf._buffer import Buffer
from driftsurf.base import CSR, Batch, FloatArray, Growing, Parts, Rows, Segment, State, n_rows
from driftsurf.errors import StateError
from driftsurf.state import resolved

__all__ = ["Samples"]

DTYPES = {name: np.dtype(name) for name in ("float64", "float32")}


class Samples:
    """Rows of a stream, numbered from 0 in the order of arrival.

    A model holds no rows, only the numbers of the first and last one it is trained on (the paper:
    S' can be represented by pointers into S). Rows are never changed once appended; those that
    nobody needs any more are released from the front, and appending is amortised constant time.

    Parameters
    ----------
    n_features
        Columns of every row.
    sparse
        Whether rows are kept as CSR.
    dtype
        float64, or float32 for half the memory; weights of models are float64 either way.

    Examples
    --------
    >>> samples = Samples(n_features=2)
    >>> samples.append(np.ones((3, 2)), np.array([0.0, 1.0, 1.0]))
    Segment(lo=0, hi=3)
    >>> samples.release(before_row=1)
    >>> samples.view(Segment(1, 3)).y
    array([1., 1.])
    """

    def __init__(self, n_features: int, *, sparse: bool = False, dtype: npt.DTypeLike = np.float64) -> None:
        self.n_features = n_features
        self.sparse = sparse
        self.dtype = np.dtype(dtype)
        self.first_row = 0
        self._y = Buffer(np.float64)
        self._weight = Buffer(np.float64)
        if sparse:
            self._data = Buffer(self.dtype)
            self._indices = Buffer(np.int32)
            self._indptr = Buffer(np.int64)  # where each row begins and ends in the physical data
            self._indptr.extend(1, 0)
        else:
            self._X = Buffer(self.dtype, n_features)

    @property
    def next_row(self) -> int:
        """The number that the next row will get."""
        return self.first_row + len(self._y)

    def __len__(self) -> int:
        return len(self._y)

    @property
    def nbytes(self) -> int:
        """Bytes allocated for rows, targets and weights."""
        rows = (self._data, self._indices, self._indptr) if self.sparse else (self._X,)
        return sum(buffer.nbytes for buffer in (*rows, self._y, self._weight))

    def append(self, X: Rows, y: FloatArray, weight: FloatArray | None = None) -> Segment:
        """Add rows at the end, all or nothing; the caller has checked them."""
        lo, count = self.next_row, n_rows(X)
        weight = np.ones(count) if weight is None else weight
        if not isinstance(X, CSR) and self._X.fits(count) and self._y.fits(count) and self._weight.fits(count):
            self._X.write(X)
            self._y.write(y)
            self._weight.write(weight)
            return Segment(lo, lo + count)
        parts: list[tuple[Buffer, npt.NDArray[Any]]] = [
            (self._y, y),
            (self._weight, weight),
        ]
        ends = np.zeros(0, np.int64)
        if isinstance(X, CSR):
            a, b = int(X.indptr[0]), int(X.indptr[-1])
            ends = X.indptr[1:] - a
            parts += [(self._data, X.data[a:b]), (self._indices, X.indices[a:b]), (self._indptr, ends)]
        else:
            parts.append((self._X, X))
        plans = [buffer.plan(len(values)) for buffer, values in parts]
        # Nothing from here on can fail. Data and indices have the same history, so they move alike.
        moved = [buffer.adopt(plan, len(values)) for (buffer, values), plan in zip(parts, plans, strict=True)]
        if self.sparse:
            self._indptr.live[:] -= moved[2]
            ends += self._data.stop
        for buffer, values in parts:
            buffer.write(values)
        return Segment(lo, lo + count)

    def view(self, segment: Segment) -> Batch:
        """The rows of ``segment``, as views that stay valid until the next ``append``."""
        a, b = segment.lo - self.first_row, segment.hi - self.first_row
        if a < 0 or b > len(self):
            raise IndexError(f"{segment} is not within the stored rows {self.first_row} to {self.next_row}")
        X: Rows = self._csr(self._indptr.between(a, b + 1)) if self.sparse else self._X.between(a, b)
        return Batch(X, self._y.between(a, b), self._weight.between(a, b), segment.lo)

    def truncate(self, row: int) -> None:
        """Take back every row from ``row`` on: the undo of ``append``."""
        keep = row - self.first_row
        if self.sparse:
            drop = self._data.stop - int(self._indptr.live[keep])
            self._data.truncate(len(self._data) - drop)
            self._indices.truncate(len(self._indices) - drop)
            self._indptr.truncate(keep + 1)
        else:
            self._X.truncate(keep)
        self._y.truncate(keep)
        self._weight.truncate(keep)

    def release(self, before_row: int) -> None:
        """Free the rows before ``before_row``; their numbers are never used again."""
        count = min(before_row, self.next_row) - self.first_row
        if count <= 0:
            return
        if self.sparse:
            values = int(self._indptr.live[count] - self._indptr.live[0])
            self._data.trim(values)
            self._indices.trim(values)
            self._indptr.trim(count)
        else:
            self._X.trim(count)
        self._y.trim(count)
        self._weight.trim(count)
        self.first_row += count

    def state(self) -> State:
        """The live rows, whatever the buffers around them look like, as views until the next ``append``."""
        return resolved(self.parts())

    def parts(self) -> Parts:
        """The same, with rows that are read when they are asked for."""
        state: Parts = {
            "n_features": self.n_features,
            "sparse": self.sparse,
            "dtype": "float64" if self.dtype == np.float64 else "float32",
            "first_row": self.first_row,
            "y": _growing(self._y),
            "weight": _growing(self._weight),
        }
        if self.sparse:
            starts = self._indptr

            def lengths(lo: int, hi: int) -> npt.NDArray[Any]:
                return np.diff(starts.numbered(lo, hi + 1))

            state |= {"data": _growing(self._data), "indices": _growing(self._indices)}
            state["indptr"] = Growing(starts, starts.first, starts.first + len(self), lengths, ends=True)
        else:
            state["X"] = _growing(self._X)
        return state

    @classmethod
    def from_state(cls, state: Mapping[str, Any], n_classes: int | None = None) -> Samples:
        """The store that gave ``state``.

        ``n_classes`` says what its targets have to be: codes of so many classes, or values if it is 0; None: anything.
        """
        _check_state(state)
        if n_classes is not None:
            _check_targets(state["y"], n_classes)
        samples = cls.__new__(cls)
        samples.n_features, samples.sparse = state["n_features"], state["sparse"]
        samples.dtype = DTYPES[state["dtype"]]
        samples.first_row = state["first_row"]
        for name in ("y", "weight", *(("data", "indices", "indptr") if samples.sparse else ("X",))):
            setattr(samples, f"_{name}", Buffer.of(state[name]))
        return samples

    def _csr(self, indptr: npt.NDArray[np.int64]) -> CSR:
        return CSR(self._data.physical, self._indices.physical, indptr, self.n_features)


def _growing(buffer: Buffer) -> Growing:
    return Growing(buffer, buffer.first, buffer.first + len(buffer), buffer.numbered)


def _check_state(state: Mapping[str, Any]) -> None:
    # Bytes can be made up; whatever they say must not lead compiled code outside its arrays.
    n_features, sparse, first_row, y = (state[name] for name in ("n_features", "sparse", "first_row", "y"))
    if not (
        type(n_features) is int
        and n_features >= 1
        and type(sparse) is bool
        and state["dtype"] in DTYPES
        and type(first_row) is int
        and 0 <= first_row < 2**62
        and _is_array(y, DTYPES["float64"], (-1,))
        and _is_array(state["weight"], DTYPES["float64"], y.shape)
        and (
            _is_csr(state, len(y), n_features)
            if sparse
            else _is_array(state["X"], DTYPES[state["dtype"]], (len(y), n_features))
        )
    ):
        raise StateError("the entries of the saved rows do not fit together: they are no sample store's")


def _check_targets(y: FloatArray, n_classes: int) -> None:
    # The code of a class is a place in an array, and compiled code does not look at the bounds of its arrays.
    values = np.ascontiguousarray(y)
    if not (_kernels.are_codes(values, n_classes) if n_classes else _kernels.largest(values) < math.inf):
        good = (y >= 0.0) & (y < n_classes) & (y == np.floor(y)) if n_classes else np.isfinite(y)
        wanted = f"no code of one of {n_classes} classes" if n_classes else "no finite value"
        raise StateError(f"a target of the saved rows is {y[np.argmin(good)]}, which is {wanted}")


def _is_csr(state: Mapping[str, Any], n: int, n_features: int) -> bool:
    data, indices, indptr = state["data"], state["indices"], state["indptr"]
    return bool(
        _is_array(data, DTYPES[state["dtype"]], (-1,))
        and _is_array(indices, np.dtype(np.int32), data.shape)
        and _is_array(indptr, np.dtype(np.int64), (n + 1,))
        and indptr[0] == 0
        and indptr[-1] == len(data)
        and np.all(indptr[1:] >= indptr[:-1])
        and np.all((indices >= 0) & (indices < n_features))
    )


def _is_array(value: Any, dtype: np.dtype[Any], shape: tuple[int, ...]) -> bool:
    """Whether it is an array of this type and shape; -1 is any length."""
    return (
        isinstance(value, np.ndarray)
        and value.dtype == dtype
        and value.ndim == len(shape)
        and all(m in (-1, n) for m, n in zip(shape, value.shape, strict=True))
    )
