"""The sample store: keeps every row once, numbered, and shares it among all models as ranges."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from driftsurf.core.buffer import Buffer
from driftsurf.core.contracts import (
    CSR,
    AppendOnlyArray,
    Batch,
    FloatArray,
    IncrementalState,
    Rows,
    Segment,
    State,
    n_rows,
)
from driftsurf.core.fields import Array, Choice, FieldEntry, FieldRule, Fields, Truth, Values, Whole
from driftsurf.core.state import resolved
from driftsurf.native.columns import are_codes
from driftsurf.native.linear import largest

__all__ = ["Samples"]

DTYPES = {name: np.dtype(name) for name in ("float64", "float32")}


class Samples:
    """Store of the rows of a stream, numbered from 0 in the order of arrival.

    A model holds no rows, only the range of row numbers that it is trained on (in the paper, S' is represented by
    pointers into S). Rows never change once appended. Rows that no model needs any more are released from the front.
    Appending takes amortised constant time.

    Parameters
    ----------
    n_features
        Number of columns.
    sparse
        Whether to store rows as CSR.
    dtype
        Type of the row values: float64, or float32 for half the memory. Weights of models are float64 in any case.

    Examples
    --------
    >>> import numpy as np
    >>> from driftsurf.core.contracts import Segment
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
        self.dtype: np.dtype[Any] = np.dtype(dtype)
        self.first_row: int = 0
        self._y = Buffer(np.float64)
        self._weight = Buffer(np.float64)
        if sparse:
            self._data = Buffer(self.dtype)
            self._indices = Buffer(np.int32)
            # Boundaries of rows as positions in the physical data, so that trimming the front changes none of them.
            self._indptr = Buffer(np.int64)
            self._indptr.extend(1, 0)
        else:
            self._X = Buffer(self.dtype, n_features)

    @property
    def next_row(self) -> int:
        """Number of the next row to be appended."""
        return self.first_row + len(self._y)

    def __len__(self) -> int:
        return len(self._y)

    @property
    def nbytes(self) -> int:
        """Number of bytes allocated for rows, targets and weights."""
        rows = (self._data, self._indices, self._indptr) if self.sparse else (self._X,)
        return sum(buffer.nbytes for buffer in (*rows, self._y, self._weight))

    def append(self, X: Rows, y: FloatArray, weight: FloatArray | None = None) -> Segment:
        """Append rows that the caller has checked; if memory runs out, the store is unchanged.

        Returns the row numbers that they got.
        """
        lo, count = self.next_row, n_rows(X)
        weight = np.ones(count) if weight is None else weight
        if not isinstance(X, CSR) and self._X.fits(count) and self._y.fits(count) and self._weight.fits(count):
            # The usual case: nothing has to grow. The targets come last, because their number is that of the rows: if
            # an exception comes before, the values that have been written are overwritten by the next call.
            known = len(self._y)
            self._X.write_at(known, X)
            self._weight.write_at(known, weight)
            self._y.write_at(known, y)
            return Segment(lo, lo + count)
        self.truncate(lo)
        ends = np.zeros(0, np.int64)
        parts: list[tuple[Buffer, npt.NDArray[Any]]]
        if isinstance(X, CSR):
            a, b = int(X.indptr[0]), int(X.indptr[-1])
            ends = X.indptr[1:] - a
            parts = [(self._data, X.data[a:b]), (self._indices, X.indices[a:b]), (self._indptr, ends)]
        else:
            parts = [(self._X, X)]
        parts += [(self._weight, weight), (self._y, y)]
        plans = [buffer.plan(len(values)) for buffer, values in parts]
        # From here on nothing can fail.
        moved = [buffer.adopt(plan, len(values)) for (buffer, values), plan in zip(parts, plans, strict=True)]
        if self.sparse:
            # The data may have moved to the front, and the boundaries with them. Data and indices always move alike,
            # because they have the same lengths and the same history.
            if moved[0]:
                self._indptr.shift(moved[0])
            ends += self._data.stop
        for buffer, values in parts:
            buffer.write(values)
        return Segment(lo, lo + count)

    def skip(self, count: int) -> None:
        """Give their numbers to dense rows that need not be kept, while the store is empty."""
        for buffer in (self._X, self._weight, self._y):
            buffer.first += count
        self.first_row += count

    def view(self, segment: Segment) -> Batch:
        """Return the rows of ``segment`` as views, which stay valid until the next ``append``."""
        a, b = segment.lo - self.first_row, segment.hi - self.first_row
        if a < 0 or b > len(self):
            raise IndexError(f"{segment} is not within the stored rows {self.first_row} to {self.next_row}")
        X: Rows = self._csr(self._indptr.between(a, b + 1)) if self.sparse else self._X.between(a, b)
        return Batch(X, self._y.between(a, b), self._weight.between(a, b), segment.lo)

    def truncate(self, row: int) -> None:
        """Drop every row from number ``row`` on; the undo of ``append``."""
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

    def mark(self) -> Any:
        """Return a mark of the rows, for ``put_back``."""
        buffers = (self._data, self._indices, self._indptr) if self.sparse else (self._X,)
        return self.first_row, [(one, one.mark()) for one in (*buffers, self._weight, self._y)]

    def put_back(self, mark: Any) -> None:
        """Return to the marked rows, from any point of ``append``, ``truncate`` or ``release``."""
        first_row, buffers = mark
        for buffer, place in buffers:
            buffer.put_back(place)
        self.first_row = first_row

    def release(self, before_row: int) -> None:
        """Release the rows before number ``before_row``; their numbers are never used again."""
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
        """Return the live rows as flat entries; the arrays are views, valid until the next ``append``."""
        return resolved(self.incremental_state())

    def incremental_state(self) -> IncrementalState:
        """Return the state with append-only arrays, whose rows are read only when a checkpoint asks for them."""
        state: IncrementalState = {
            "n_features": self.n_features,
            "sparse": self.sparse,
            "dtype": "float64" if self.dtype == np.float64 else "float32",
            "first_row": self.first_row,
            "y": _growing(self._y, len(self)),
            "weight": _growing(self._weight, len(self)),
        }
        if self.sparse:
            starts = self._indptr

            # Saved as lengths: boundaries are positions in memory, which change when the data moves.
            def lengths(lo: int, hi: int) -> npt.NDArray[Any]:
                return np.diff(starts.numbered(lo, hi + 1))

            state |= {
                "data": _growing(self._data, len(self._data)),
                "indices": _growing(self._indices, len(self._indices)),
            }
            state["indptr"] = AppendOnlyArray(starts, starts.first, starts.first + len(self), lengths, ends=True)
        else:
            state["X"] = _growing(self._X, len(self))
        return state

    @classmethod
    def from_state(cls, state: Mapping[str, Any], n_classes: int = 0) -> Samples:
        """Return the store that was saved as ``state``.

        The targets have to be codes of ``n_classes`` classes, or finite numbers if it is 0.
        """
        (SPARSE if state.get("sparse") is True else DENSE).read(state, n_classes=n_classes)
        samples = cls.__new__(cls)
        samples.n_features, samples.sparse = state["n_features"], state["sparse"]
        samples.dtype = DTYPES[state["dtype"]]
        samples.first_row = state["first_row"]
        for name in ("y", "weight", *(("data", "indices", "indptr") if samples.sparse else ("X",))):
            setattr(samples, f"_{name}", Buffer.of(state[name]))
        return samples

    def _csr(self, indptr: npt.NDArray[np.int64]) -> CSR:
        return CSR(self._data.physical, self._indices.physical, indptr, self.n_features)


def _growing(buffer: Buffer, length: int) -> AppendOnlyArray:
    return AppendOnlyArray(buffer, buffer.first, buffer.first + length, buffer.numbered)


def _are_targets(known: Values) -> bool:
    """Return whether the targets are codes of the known classes, or finite numbers for a regression.

    Compiled code uses the code of a class as an index.
    """
    y, n_classes = np.ascontiguousarray(known["y"]), known["n_classes"]
    return are_codes(y, n_classes) if n_classes else largest(y) < math.inf


_EITHER: dict[str, FieldEntry] = {
    "n_features": Whole(1, 2**31 - 1),
    "sparse": Truth(),
    "dtype": Choice(tuple(DTYPES)),
    "first_row": Whole(),
    "y": Array(np.float64, ("rows",)),
    "weight": Array(np.float64, ("rows",), least=0.0),
}
_TARGETS = FieldRule("y", "must hold codes of the known classes", _are_targets)
DENSE = Fields(_EITHER | {"X": Array("dtype", ("rows", "n_features"))}, rules=[_TARGETS])
SPARSE = Fields(
    _EITHER
    | {
        "data": Array("dtype", ("values",)),
        "indices": Array(np.int32, ("values",), least=0, most="n_features-1"),
        "indptr": Array(np.int64, ("rows+1",)),
    },
    rules=[
        _TARGETS,
        FieldRule(
            "indptr",
            "must rise from 0 to the number of values",
            lambda known: (
                known["indptr"][0] == 0
                and known["indptr"][-1] == known["values"]
                and (known["indptr"][1:] >= known["indptr"][:-1]).all()
            ),
        ),
    ],
)
"""Entries of a saved store of dense and of sparse rows."""
