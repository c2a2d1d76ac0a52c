"""A typed array that grows at its end and is trimmed at its start, both in amortised constant time."""

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
"""Rooms of this size or more are mappings of their own, which the system can make longer without copying."""


class Buffer:
    """Values of one type, one after the other; ``width`` columns each, or none.

    Room doubles when it runs out, a large one without copying what is there; values that were trimmed
    are overwritten by moving the live ones down once they are at most half of the room, so that nothing is
    moved more than once per value appended and the room never exceeds four times the most that was live.

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
        self.first = 0
        """The number of the first live value, if all that were ever added are numbered from 0."""

    @classmethod
    def of(cls, values: npt.NDArray[Any]) -> Buffer:
        """One that holds a copy of these values, and has room for more."""
        buffer = cls.__new__(cls)
        buffer._array = _room((_length(len(values)), *values.shape[1:]), values.dtype)
        buffer._start = buffer._stop = buffer.first = 0
        buffer.write(values)
        return buffer

    def __len__(self) -> int:
        return self._stop - self._start

    @property
    def live(self) -> npt.NDArray[Any]:
        """The values, as a view."""
        return self._array[self._start : self._stop]

    def between(self, a: int, b: int) -> npt.NDArray[Any]:
        """``live[a:b]``."""
        return self._array[self._start + a : self._start + b]

    @property
    def physical(self) -> npt.NDArray[Any]:
        """The whole room, for whoever keeps positions into it."""
        return self._array

    @property
    def stop(self) -> int:
        """Where the next value goes in ``physical``."""
        return self._stop

    @property
    def nbytes(self) -> int:
        """Bytes allocated."""
        return int(self._array.nbytes)

    def append(self, values: npt.NDArray[Any]) -> int:
        """Add values at the end. Returns by how much the live ones moved down to make room."""
        moved = self.adopt(self.plan(len(values)), len(values))
        self.write(values)
        return moved

    def extend(self, count: int, value: float) -> None:
        """Add ``count`` copies of ``value`` at the end."""
        start = len(self)
        self.lengthen(count)
        self.live[start:] = value

    def lengthen(self, count: int) -> None:
        """Add ``count`` values at the end that are yet to be written."""
        if not self.fits(count):
            self.adopt(self.plan(count), count)
        self._stop += count

    def fits(self, count: int) -> bool:
        """Whether ``count`` more values can be written as it is."""
        return self._stop + count <= len(self._array)

    def plan(self, count: int) -> npt.NDArray[Any] | None:
        """The room in which ``count`` more values fit: all that can fail in growing, without changing anything.

        None if they fit as it is or after the live values have moved down, else a larger array.
        """
        live = len(self)
        if self.fits(count) or 2 * (live + count) <= len(self._array):
            return None
        length = _length(live + count)
        if self._lengthened(length):
            return None
        array = _room((length, *self._array.shape[1:]), self._array.dtype)
        array[:live] = self.live
        return array

    def _lengthened(self, length: int) -> bool:
        """Make the room longer where it is, if it is a mapping, nothing was trimmed and nobody looks into it."""
        mapping = _mapping_of(self._array)
        shape, dtype = self._array.shape, self._array.dtype
        if mapping is None or self._start > 0:
            return False
        longer = (length, *shape[1:])
        self._array = np.empty(0)  # our own view is one too
        try:
            mapping.resize(_nbytes(longer, dtype))
            shape = longer
        except (BufferError, OSError, SystemError):  # a view is alive; no memory left; not known to this system
            return False
        finally:
            self._array = _array(shape, dtype, mapping)
        return True

    def adopt(self, plan: npt.NDArray[Any] | None, count: int = 0) -> int:
        """Make the planned room. Returns by how much the live values moved down."""
        live, moved = len(self), self._start
        if plan is not None:
            self._array = plan
        elif self._stop + count > len(self._array):
            self._array[:live] = self.live  # the two do not overlap: less than half of the room is live
        else:
            return 0
        self._start, self._stop = 0, live
        return moved

    def write(self, values: npt.NDArray[Any]) -> None:
        """Put values at the end of the room that is there."""
        stop = self._stop + len(values)
        self._array[self._stop : stop] = values
        self._stop = stop

    def truncate(self, length: int) -> None:
        """Keep the first ``length`` values."""
        self._stop = self._start + length

    def trim(self, count: int) -> None:
        """Drop the first ``count`` values."""
        self._start += count
        self.first += count

    def untrim(self, values: npt.NDArray[Any]) -> None:
        """Take back a ``trim`` of these values; the live ones may have moved down over them since.

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
                self._array = _room((count + live, *self._array.shape[1:]), self._array.dtype)
            self._array[count : count + live] = old  # numpy sees to it if the two overlap
            self._start, self._stop = count, count + live
        self._start -= count
        self.first -= count
        self._array[self._start : self._start + count] = values

    def numbered(self, lo: int, hi: int) -> npt.NDArray[Any]:
        """The values with the numbers ``lo`` to ``hi - 1``, as a view."""
        return self.between(lo - self.first, hi - self.first)


class Touched:
    """Which values of a buffer were written to, and when: bounded, for whoever saves changes only.

    >>> touched = Touched()
    >>> touched.add(np.array([4, 2]), first=10, limit=100)
    >>> touched.version, touched.since(0)
    (1, array([14, 12]))
    """

    __slots__ = ("_count", "_log", "version")

    def __init__(self) -> None:
        self.version = 0
        self._log: deque[tuple[int, npt.NDArray[np.int64]]] = deque()
        self._count = 0

    def add(self, places: npt.NDArray[np.int64], first: int, limit: int) -> None:
        """Note that the values at these ``places``, counted from ``first``, are written; keep at most ``limit``."""
        self._log.append((first, places))
        self._count += len(places)
        self.version += 1
        while self._count > limit:
            self._count -= len(self._log.popleft()[1])

    def since(self, version: int) -> npt.NDArray[np.int64] | None:
        """The numbers written since ``version``; None if that is no longer known."""
        newer = self.version - version
        if newer > len(self._log):
            return None
        recent = itertools.islice(self._log, len(self._log) - newer, None)
        return np.concatenate([np.zeros(0, np.int64), *(places + first for first, places in recent)])


def _length(live: int) -> int:
    """Of the room for so many values and more to come."""
    return max(64, 2 * live)


def _room(shape: tuple[int, ...], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Memory for values to come; it is taken as it is written to."""
    nbytes = _nbytes(shape, dtype)
    if nbytes < MAPPED_BYTES or not can_map():
        return np.empty(shape, dtype)
    try:
        mapping = _mapping(nbytes)
    except OSError as error:
        raise MemoryError(f"no memory for {nbytes / 2**20:.0f} MiB of rows") from error
    with contextlib.suppress(AttributeError, OSError):  # numpy does so too: large pages are faster, where there are any
        mapping.madvise(mmap.MADV_HUGEPAGE)
    return _array(shape, dtype, mapping)


@functools.cache
def can_map() -> bool:
    """Whether there are private mappings here, and views of an array in one keep it from being moved."""
    if not hasattr(mmap, "MAP_PRIVATE"):  # pragma: no cover - Windows
        return False
    mapping = _mapping(mmap.PAGESIZE)
    view = _array((8,), np.dtype(np.uint8), mapping)[2:]
    try:
        mapping.resize(2 * mmap.PAGESIZE)
    except BufferError:
        return _mapping_of(view) is mapping
    return False  # pragma: no cover - a numpy that does not hold what its arrays look into


def _mapping(nbytes: int) -> mmap.mmap:
    return mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


def _array(shape: tuple[int, ...], dtype: np.dtype[Any], mapping: mmap.mmap) -> npt.NDArray[Any]:
    """An array in a mapping, which is held in place by it and its views."""
    # Not np.ndarray(shape, dtype, mapping), which lets go of the mapping.
    return np.frombuffer(mapping, dtype, count=math.prod(shape)).reshape(shape)


def _mapping_of(array: npt.NDArray[Any]) -> mmap.mmap | None:
    base: Any = array
    while isinstance(base, np.ndarray):
        base = base.base
    mapping = getattr(base, "obj", None)
    return mapping if isinstance(mapping, mmap.mmap) else None


def _nbytes(shape: tuple[int, ...], dtype: np.dtype[Any]) -> int:
    return math.prod(shape) * dtype.itemsize
