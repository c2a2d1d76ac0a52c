"""A typed array that grows at its end and is trimmed at its start, both in amortised constant time."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt


class Buffer:
    """Values of one type, one after the other; ``width`` columns each, or none.

    Room doubles when it runs out; values that were trimmed are overwritten by moving the live ones
    down once they are at most half of the room, so that nothing is moved more than once per value
    appended and the room never exceeds four times the most that was live.

    >>> buffer = Buffer(np.float64)
    >>> _ = buffer.append(np.arange(5.0))
    >>> buffer.trim(2)
    >>> buffer.live
    array([2., 3., 4.])
    """

    __slots__ = ("_array", "_start", "_stop")

    def __init__(self, dtype: npt.DTypeLike, width: int | None = None) -> None:
        shape = (0,) if width is None else (0, width)
        self._array: npt.NDArray[Any] = np.empty(shape, dtype)
        self._start = 0
        self._stop = 0

    def __len__(self) -> int:
        return self._stop - self._start

    @property
    def live(self) -> npt.NDArray[Any]:
        """The values, as a view."""
        return self._array[self._start : self._stop]

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
        moved = self._reserve(len(values))
        self._array[self._stop : self._stop + len(values)] = values
        self._stop += len(values)
        return moved

    def extend(self, count: int, value: float) -> None:
        """Add ``count`` copies of ``value`` at the end."""
        self._reserve(count)
        self._array[self._stop : self._stop + count] = value
        self._stop += count

    def truncate(self, length: int) -> None:
        """Keep the first ``length`` values."""
        self._stop = self._start + length

    def trim(self, count: int) -> None:
        """Drop the first ``count`` values."""
        self._start += count

    def untrim(self, count: int) -> None:
        """Take back a ``trim`` that nothing was appended after."""
        self._start -= count

    def _reserve(self, count: int) -> int:
        if self._stop + count <= len(self._array):
            return 0
        live, moved = len(self), self._start
        if 2 * (live + count) <= len(self._array):
            self._array[:live] = self._array[self._start : self._stop]
        else:
            room = max(64, 2 * (live + count))
            array = np.empty((room, *self._array.shape[1:]), self._array.dtype)
            array[:live] = self._array[self._start : self._stop]
            self._array = array
        self._start, self._stop = 0, live
        return moved
