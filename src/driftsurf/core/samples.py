"""The sample store: keeps every row once, numbered, and shares it among all models as ranges.

Rows arrive at one end of a stream and are forgotten at the other. Loops need them in one contiguous array, so a ring
buffer or a list of blocks would not do: a ``Buffer`` has the live values as a slice of a larger array, its *capacity*.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import math
import mmap
import sys
from collections import deque
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

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

MAPPED_BYTES = 2**22
"""Arrays of at least this size are memory mappings of their own, which the system can lengthen without copying."""


class Buffer:
    """Growable array of scalars, or of rows of ``width`` columns.

    The capacity is doubled when it is exhausted, for large arrays without copying. Trimmed values stay in place until
    the live ones fit into half of the capacity; then the live ones are moved to the front. So a value is moved at most
    once per value appended, and the capacity never exceeds four times the largest number of live values.

    >>> buffer = Buffer(np.float64)
    >>> _ = buffer.append(np.arange(5.0))
    >>> buffer.trim(2)
    >>> buffer.live
    array([2., 3., 4.])
    """

    __slots__ = ("_array", "_start", "_stop", "first")

    def __init__(self, dtype: npt.DTypeLike, width: int | None = None) -> None:
        shape = (0,) if width is None else (0, width)
        self._array: npt.NDArray[Any] = np.empty(shape, dtype)
        self._start = 0
        self._stop = 0
        self.first: int = 0
        """Number of the first live value, where all values ever appended are numbered from 0."""

    @classmethod
    def of(cls, values: npt.NDArray[Any], first: int = 0) -> Buffer:
        """Return a buffer with a copy of these values, numbered from ``first`` on, and capacity for more."""
        buffer = cls.__new__(cls)
        buffer._array = _allocated((_length(len(values)), *values.shape[1:]), values.dtype)
        buffer._start = buffer._stop = 0
        buffer.first = first
        buffer.write(values)
        return buffer

    def __len__(self) -> int:
        return self._stop - self._start

    @property
    def live(self) -> npt.NDArray[Any]:
        """The live values, as a view."""
        return self._array[self._start : self._stop]

    def between(self, a: int, b: int) -> npt.NDArray[Any]:
        """Return ``live[a:b]`` with one slice instead of two."""
        return self._array[self._start + a : self._start + b]

    @property
    def physical(self) -> npt.NDArray[Any]:
        """The whole underlying array, for positions that do not depend on the first live value."""
        return self._array

    @property
    def stop(self) -> int:
        """Position in ``physical`` of the next value to be appended."""
        return self._stop

    @property
    def nbytes(self) -> int:
        """Number of allocated bytes."""
        return int(self._array.nbytes)

    def place(self, length: int) -> tuple[npt.NDArray[Any], int]:
        """Return ``physical`` and the position in it after the first ``length`` live values."""
        return self._array, self._start + length

    def append(self, values: npt.NDArray[Any]) -> int:
        """Append values; return the number of positions by which the live values moved towards the front."""
        moved = self.adopt(self.plan(len(values)), len(values))
        self.write(values)
        return moved

    def extend(self, count: int, value: float) -> None:
        """Append ``count`` copies of ``value``."""
        start = len(self)
        self.lengthen(count)
        self.live[start:] = value

    def lengthen(self, count: int) -> None:
        """Append ``count`` values without initialising them."""
        if not self.fits(count):
            self.adopt(self.plan(count), count)
        self._stop += count

    def fits(self, count: int) -> bool:
        """Return whether ``count`` more values fit without growing or moving anything."""
        return self._stop + count <= len(self._array)

    def plan(self, count: int) -> npt.NDArray[Any] | None:
        """Allocate the array in which ``count`` more values fit, without changing the values of the buffer.

        Growing is split into ``plan``, which can run out of memory, and ``adopt``, which cannot fail. A store with
        several buffers plans all of them before it adopts any, so that an append happens in all buffers or in none.

        Returns a larger array that contains the live values, or None if no other array is needed: the values fit as it
        is, after moving the live ones to the front, or after the mapping was lengthened in place.
        """
        live = len(self)
        if self.fits(count) or 2 * (live + count) <= len(self._array):
            return None
        length = _length(live + count)
        if self._start:  # a full store: with some room, the next rows fit even if they are a little longer
            length += length // 32
        if self._lengthened(length):
            return None
        array = _allocated((length, *self._array.shape[1:]), self._array.dtype)
        array[:live] = self.live
        return array

    def _lengthened(self, length: int) -> bool:
        """Lengthen the array in place, if it is a mapping, nothing was trimmed, and no view of it is alive."""
        mapping = _mapping_of(self._array)
        shape, dtype = self._array.shape, self._array.dtype
        if mapping is None or self._start > 0:
            return False
        longer = (length, *shape[1:])
        self._array = np.empty(0)  # a mapping with views cannot be resized, and our own array is a view
        try:
            mapping.resize(_nbytes(longer, dtype))
            shape = longer
        except (BufferError, OSError, SystemError):  # a view is alive; no memory; not supported here
            return False
        finally:
            self._array = _array(shape, dtype, mapping)
        return True

    def adopt(self, plan: npt.NDArray[Any] | None, count: int = 0) -> int:
        """Use the planned array; return the number of positions by which the live values moved to the front."""
        live, moved = len(self), self._start
        if plan is None:
            if self._stop + count <= len(self._array):
                return 0
            plan = self._array
            plan[:live] = self.live  # no overlap: at most half of the capacity is live
        self._array, self._start, self._stop = plan, 0, live  # one statement: an exception comes before or after it
        return moved

    def write(self, values: npt.NDArray[Any]) -> None:
        """Append values for which there is capacity already."""
        stop = self._stop + len(values)
        self._array[self._stop : stop] = values
        self._stop = stop

    def write_at(self, length: int, values: npt.NDArray[Any]) -> None:
        """Write values after the first ``length`` ones, where there is capacity already; drop those behind them."""
        start = self._start + length
        stop = start + len(values)
        self._array[start:stop] = values
        self._stop = stop

    def shift(self, amount: int) -> None:
        """Subtract a number from all values, in a copy, so that ``put_back`` finds the old ones."""
        array = self._array.copy()
        array[self._start : self._stop] -= amount
        self._array = array

    def mark(self) -> Any:
        """Return a mark of the live values, for ``put_back``.

        Nothing is copied. Values are appended behind the live ones, and where these are moved to the front of the
        array, it is so long that neither they nor the appended ones reach the place where they were.
        """
        array = self._array
        kept: Any = array
        mapping = None if array.base is None else _mapping_of(array)  # the base of an unpickled array is no mapping
        if mapping is not None:  # the mapping itself, since one that an array looks into cannot be lengthened
            kept = mapping, array.dtype, array.shape[1:]
        return kept, self._start, self._stop, self.first

    def put_back(self, mark: Any) -> None:
        """Return to the marked values; those that were overwritten in place keep their new value."""
        array, start, stop, first = mark
        if isinstance(array, tuple):
            mapping, dtype, width = array
            length = len(mapping) // (dtype.itemsize * math.prod(width))
            array = _array((length, *width), dtype, mapping)
        self._array, self._start, self._stop, self.first = array, start, stop, first

    def truncate(self, length: int) -> None:
        """Drop all but the first ``length`` values, or take in values that were written behind the live ones."""
        self._stop = self._start + length

    def trim(self, count: int) -> None:
        """Drop the first ``count`` values."""
        self._start, self.first = self._start + count, self.first + count

    def untrim(self, values: npt.NDArray[Any]) -> None:
        """Undo a ``trim`` of these values, even if the live values have been moved over them since.

        >>> buffer = Buffer(np.float64)
        >>> _ = buffer.append(np.arange(3.0))
        >>> gone = buffer.live[:2].copy()
        >>> buffer.trim(2)
        >>> buffer.untrim(gone)
        >>> buffer.live, buffer.first
        (array([0., 1., 2.]), 0)
        """
        count, live = len(values), len(self)
        if self._start < count:
            old = self.live
            if count + live > len(self._array):
                self._array = _allocated((count + live, *self._array.shape[1:]), self._array.dtype)
            self._array[count : count + live] = old  # numpy handles the overlap
            self._start, self._stop = count, count + live
        self._start -= count
        self.first -= count
        self._array[self._start : self._start + count] = values

    def numbered(self, lo: int, hi: int) -> npt.NDArray[Any]:
        """Return the values numbered ``lo`` to ``hi - 1``, as a view."""
        return self.between(lo - self.first, hi - self.first)


class Touched:
    """Bounded log of the entries of a buffer that were overwritten, so that a checkpoint can save only those.

    >>> touched = Touched()
    >>> touched.add(np.array([4, 2]), first=10, limit=100)
    >>> touched.version, touched.since(0)
    (1, array([14, 12]))
    """

    __slots__ = ("_count", "_log", "version")

    def __init__(self) -> None:
        self.version: int = 0
        self._log: deque[tuple[int, npt.NDArray[np.int64]]] = deque()
        self._count = 0

    def add(self, places: npt.NDArray[np.int64], first: int, limit: int) -> None:
        """Record a write to these ``places``, relative to the entry numbered ``first``; remember at most ``limit``.

        An exception at any line loses no earlier write, provided that it undoes this one.
        """
        # In this order a version has at most one write, and the count is at most that of the remembered entries.
        self.version += 1
        self._log.append((first, places))
        self._count += len(places)
        while self._count > limit:
            self._count -= len(self._log[0][1])
            self._log.popleft()

    def since(self, version: int) -> npt.NDArray[np.int64] | None:
        """Return the numbers of the entries written since ``version``; None if that is no longer known."""
        newer = self.version - version
        if newer > len(self._log):
            return None
        recent = itertools.islice(self._log, len(self._log) - newer, None)
        return np.concatenate([np.zeros(0, np.int64), *(places + first for first, places in recent)])


def _length(live: int) -> int:
    """Capacity for ``live`` values and as many to come."""
    return max(64, 2 * live)


def _allocated(shape: tuple[int, ...], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Allocate an array; the system provides the memory page by page as it is written."""
    nbytes = _nbytes(shape, dtype)
    if nbytes < MAPPED_BYTES or not can_map():
        return np.empty(shape, dtype)
    try:
        mapping = _mapping(nbytes)
    except OSError as error:
        raise MemoryError(f"no memory for {nbytes / 2**20:.0f} MiB of rows") from error
    with contextlib.suppress(AttributeError, OSError):  # huge pages are faster; numpy asks for them too
        mapping.madvise(mmap.MADV_HUGEPAGE)
    return _array(shape, dtype, mapping)


@functools.cache
def can_map() -> bool:
    """Return whether mappings are available, and refuse to be resized while an array looks into them.

    Without the second, a resized mapping would leave views pointing to memory that is gone.
    """
    if sys.platform == "win32":  # pragma: no cover
        return False
    mapping = _mapping(mmap.PAGESIZE)
    view = _array((8,), np.dtype(np.uint8), mapping)[2:]
    try:
        mapping.resize(2 * mmap.PAGESIZE)
    except BufferError:
        return _mapping_of(view) is mapping
    return False  # pragma: no cover - a numpy whose arrays do not hold on to the mapping


def _mapping(nbytes: int) -> mmap.mmap:
    return mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


def _array(shape: tuple[int, ...], dtype: np.dtype[Any], mapping: mmap.mmap) -> npt.NDArray[Any]:
    """Return an array in a mapping; the mapping cannot be resized while the array or a view of it is alive."""
    # Not np.ndarray(shape, dtype, mapping), which does not hold an export of the mapping.
    return np.frombuffer(mapping, dtype, count=math.prod(shape)).reshape(shape)


def _mapping_of(array: npt.NDArray[Any]) -> mmap.mmap | None:
    base: Any = array
    while isinstance(base, np.ndarray):
        base = base.base
    # np.frombuffer keeps its source alive through a memoryview.
    return base.obj if isinstance(base, memoryview) and isinstance(base.obj, mmap.mmap) else None


def _nbytes(shape: tuple[int, ...], dtype: np.dtype[Any]) -> int:
    return math.prod(shape) * dtype.itemsize


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


def as_input(rows: Rows, places: npt.NDArray[np.int64] | None = None) -> Any:
    """Return rows, or some of them, in a form that a session accepts."""
    if not isinstance(rows, CSR):
        return rows if places is None else rows[places]
    from scipy import sparse

    a, b = int(rows.indptr[0]), int(rows.indptr[-1])
    matrix = sparse.csr_array(
        (rows.data[a:b], rows.indices[a:b], rows.indptr - a), shape=(n_rows(rows), rows.n_features)
    )
    return matrix if places is None else matrix[places]
