"""A typed array that grows at its end and is trimmed at its start, both in amortised constant time.

Rows arrive at one end of a stream and are forgotten at the other. Loops need them in one contiguous array, so a ring
buffer or a list of blocks would not do. ``Buffer`` keeps the live values as a slice of a larger array, its *capacity*.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import math
import mmap
from collections import deque
from typing import Any

import numpy as np
import numpy.typing as npt

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
    if not hasattr(mmap, "MAP_PRIVATE"):  # pragma: no cover - Windows
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
