"""Norms of the last rows of each key, for the range guard."""

from __future__ import annotations

import numpy as np

from driftsurf.core.contracts import FloatArray, IntArray
from driftsurf.native.guard import MEMORY

__all__ = ["MEMORY", "ROWS_OF_GUARD", "Norms"]

ROWS_OF_GUARD = 5
"""Numbers of a range guard for each column: ``native/c/guard.h`` names them."""
LEAST = 64
"""Fewest norms for which a key takes memory."""
SPARE = 1.25
"""Size of newly allocated memory, as a multiple of what is needed at once."""
KEYS_AT_ONCE = 4096
"""Keys whose norms are moved at a time, which bounds the memory for their indices."""


class Norms:
    """One array with room for some norms of each key: a power of two, up to the 1,024 that a guard remembers.

    A key starts without room, and its room doubles as it gets rows, so that keys with few rows take little memory.

    >>> norms = Norms(2)
    >>> norms = norms.with_room(np.array([1]), np.array([100]))
    >>> norms.room.tolist(), norms.nbytes // 8
    ([0, 128], 160)
    """

    def __init__(self, n_keys: int, size: int = 0) -> None:
        self.values: FloatArray = np.empty(size)  # the system commits a page when it is first written
        self.starts: IntArray = np.zeros(n_keys, np.int64)
        """Where the norms of each key start in ``values``."""
        self.room: IntArray = np.zeros(n_keys, np.int64)
        """Norms that each key can have."""
        self.counts: IntArray = np.zeros(n_keys, np.int64)
        """Norms that each key has, oldest first."""
        self.end: int = 0
        """Where memory that no key uses starts."""

    @property
    def nbytes(self) -> int:
        """Bytes allocated for norms."""
        return self.values.nbytes

    def for_keys(self, n_keys: int) -> Norms:
        """Return the same norms with entries for more keys."""
        made = Norms(n_keys)
        known = min(n_keys, len(self.room))
        made.values, made.end = self.values, self.end
        for name in ("starts", "room", "counts"):
            getattr(made, name)[:known] = getattr(self, name)[:known]
        return made

    def with_room(self, slots: IntArray, counts: IntArray) -> Norms:
        """Return norms with room for this many of each of some keys, and for as many as a guard remembers at most.

        If there is enough memory, this object is changed and returned. What it holds for any key stays valid at any
        point, so that an exception does no harm.
        """
        wanted = _rounded(np.minimum(counts, MEMORY))
        larger = wanted > self.room[slots]
        slots, wanted = slots[larger], wanted[larger]
        if not len(slots):
            return self
        total = int(wanted.sum())
        if self.end + total > len(self.values):
            return self._moved(slots, wanted)
        starts = self.end + np.cumsum(wanted) - wanted
        self.end += total
        _copy(self.values, self.starts[slots], self.room[slots], self.values, starts)
        self.starts[slots] = starts
        self.room[slots] = wanted
        return self

    def compact(self, n_keys: int) -> Norms:
        """Return a copy of the norms of the first keys, without memory that is not in use."""
        return self.for_keys(n_keys)._moved(np.zeros(0, np.int64), np.zeros(0, np.int64), spare=1.0)

    def _moved(self, slots: IntArray, wanted: IntArray, spare: float = SPARE) -> Norms:
        """Return a copy with the norms of all keys one after the other, and this much room for some of them."""
        room = self.room.copy()
        room[slots] = wanted
        made = Norms(len(room), int(spare * room.sum()))
        made.room, made.starts, made.end = room, np.cumsum(room) - room, int(room.sum())
        made.counts = self.counts.copy()
        _copy(self.values, self.starts, self.room, made.values, made.starts)
        return made

    def of(self, slot: int) -> FloatArray:
        """Return the norms of a key, oldest first."""
        start = int(self.starts[slot])
        return self.values[start : start + int(self.counts[slot])].copy()

    def joined(self, n_keys: int) -> FloatArray:
        """Return the norms of the first keys, one key after the other."""
        return self.values[_places(self.starts[:n_keys], self.counts[:n_keys])]

    @classmethod
    def of_joined(cls, counts: IntArray, values: FloatArray) -> Norms:
        """Return the norms that ``joined`` returned, of which each key has this many."""
        made = cls(len(counts)).with_room(np.arange(len(counts)), counts)
        made.counts[:] = counts
        made.values[_places(made.starts, counts)] = values
        return made


def _places(starts: IntArray, counts: IntArray) -> IntArray:
    """Return the places of this many norms of each key."""
    before = np.cumsum(counts) - counts
    places: IntArray = np.arange(int(counts.sum())) + np.repeat(starts - before, counts)
    return places


def _rounded(counts: IntArray) -> IntArray:
    """Return the room for each of these numbers of norms; 0 for none.

    >>> _rounded(np.array([0, 1, 64, 65, 1000])).tolist()
    [0, 64, 64, 128, 1024]
    """
    powers = np.exp2(np.ceil(np.log2(np.maximum(counts, LEAST)))).astype(np.int64)
    rounded: IntArray = np.where(counts > 0, powers, 0)
    return rounded


def _copy(source: FloatArray, old: IntArray, counts: IntArray, target: FloatArray, new: IntArray) -> None:
    """Copy this many norms of each key from their old to their new places."""
    for count in np.unique(counts[counts > 0]).tolist():
        (chosen,) = np.nonzero(counts == count)
        for begin in range(0, len(chosen), KEYS_AT_ONCE):
            some = chosen[begin : begin + KEYS_AT_ONCE]
            places = np.arange(count)
            target[new[some][:, np.newaxis] + places] = source[old[some][:, np.newaxis] + places]
