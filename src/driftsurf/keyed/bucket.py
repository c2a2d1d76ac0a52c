"""The states of many keys as one value: an index, then the bytes of each key.

An engine that pays for every value in its store keeps a bucket of keys in each. When a bucket is rewritten, the
bytes of keys that have not changed are copied as they are, without being read.

Layout, little-endian: the magic number, the number of buckets of the run, the number of keys, the kind of keys, the
length of the keys (8 bytes each); then for each key its high-water mark and the length of its state (8 bytes each), the
keys (integers of 8 bytes; or the length of each in UTF-8, 8 bytes, followed by all text), the checksum of everything up
to here (8 bytes), and the states.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np

from driftsurf.errors import StateError
from driftsurf.keyed.results import NEVER

__all__ = ["Bucket", "regrouped"]

MAGIC = int.from_bytes(b"dsbuckt1", "little")
HEAD = 5
"""Numbers before the index."""
WORD = 8
NUMBERS, TEXT = 0, 1
"""Kinds of keys."""
Entry: TypeAlias = tuple[int, memoryview | bytes]
"""High-water mark and state of a key."""


class Bucket:
    """Keys with their states and high-water marks.

    Parameters
    ----------
    buckets
        How many buckets the run has. It is saved, since with another number a key would belong to another bucket.

    Examples
    --------
    >>> bucket = Bucket(4)
    >>> bucket.put("b", 7, b"state of b")
    >>> bucket.put("a", 3, b"state of a")
    >>> again = Bucket.read(bucket.to_bytes(), 4)
    >>> list(again), again.get("a"), again.get("c")
    (['a', 'b'], b'state of a', None)
    """

    def __init__(self, buckets: int) -> None:
        self.buckets = buckets
        self._entries: dict[Any, Entry] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._entries)

    def __contains__(self, key: object) -> bool:
        return key in self._entries

    def get(self, key: Any) -> bytes | None:
        """Return the state of a key, or None."""
        found = self._entries.get(key)
        return None if found is None else bytes(found[1])

    def put(self, key: Any, high: int | None, state: memoryview | bytes) -> None:
        """Keep the state of a key."""
        self._entries[key] = NEVER if high is None else high, state

    def entries(self) -> Iterator[tuple[Any, int, memoryview | bytes]]:
        """Yield each key with its high-water mark (for ``put``) and its state."""
        for key, (high, state) in self._entries.items():
            yield key, high, state

    @property
    def nbytes(self) -> int:
        """Bytes of all states."""
        return sum(len(state) for _, state in self._entries.values())

    def to_bytes(self) -> bytes:
        """Return all keys as bytes, in the order of the keys: the same keys and states give the same bytes."""
        keys = sorted(self._entries)
        entries = [self._entries[key] for key in keys]
        kind = TEXT if keys and isinstance(keys[0], str) else NUMBERS
        names = _from_text(keys) if kind == TEXT else np.array(keys, np.int64).tobytes()
        head = np.array([MAGIC, self.buckets, len(keys), kind, len(names)], np.int64)
        index = np.array([(high, len(state)) for high, state in entries], np.int64)
        before = b"".join([head.tobytes(), index.tobytes(), names])
        return b"".join([before, _checksum(before), *(state for _, state in entries)])

    @classmethod
    def read(cls, data: bytes | memoryview | None, buckets: int) -> Bucket:
        """Return the bucket that ``to_bytes`` wrote, an empty one for None; StateError for anything else.

        Only the index is checked: each state has a checksum of its own, which is checked when the key is visited.
        """
        bucket = cls(buckets)
        if data is None:
            return bucket
        view = memoryview(data).cast("B")
        try:
            magic, number, count, kind, length = _numbers(view[: HEAD * WORD])
            if magic != MAGIC or not (0 <= count <= len(view) and 0 <= length <= len(view)):
                raise ValueError("it does not begin as a bucket")
            middle = (HEAD + 2 * count) * WORD
            end = middle + length
            if _checksum(view[:end]) != view[end : end + WORD]:
                raise ValueError("its checksum is wrong")
            index = _numbers(view[HEAD * WORD : middle])
            highs, sizes = index[::2], index[1::2]
            keys = _to_text(view[middle:end], count) if kind == TEXT else _numbers(view[middle:end])
            stops = (end + WORD + np.cumsum(np.array(sizes, np.int64))).tolist()
            if (stops[-1] if stops else end + WORD) != len(view):
                raise ValueError("its length is wrong")
        except (ValueError, UnicodeDecodeError) as error:
            raise StateError(f"the saved states of a bucket of keys cannot be read: {error}", entry="bucket") from error
        cls.check_number(number, buckets)
        for key, high, size, stop in zip(keys, highs, sizes, stops, strict=True):
            bucket._entries[key] = high, view[stop - size : stop]
        return bucket

    @staticmethod
    def check_number(saved: int, buckets: int) -> None:
        """Raise StateError if keys were saved in another number of buckets than the run has."""
        if saved != buckets:
            raise StateError(
                f"the saved states of keys are in {saved} buckets, and the run has {buckets}: use the same number, or "
                "start a new run",
                entry="buckets",
            )


def _numbers(data: memoryview) -> list[int]:
    values: list[int] = np.frombuffer(data, np.int64).tolist()
    return values


def _from_text(keys: Sequence[str]) -> bytes:
    words = [key.encode() for key in keys]
    return b"".join([np.array([len(word) for word in words], np.int64).tobytes(), *words])


def _to_text(data: memoryview, count: int) -> list[str]:
    sizes = _numbers(data[: count * WORD])
    stops = np.cumsum(np.array([count * WORD, *sizes])).tolist()[1:]
    return [str(data[stop - size : stop], "utf-8") for size, stop in zip(sizes, stops, strict=True)]


def _checksum(data: bytes | memoryview) -> bytes:
    return hashlib.blake2b(data, digest_size=WORD).digest()


def regrouped(entries: Iterable[tuple[Any, int, memoryview | bytes]], buckets: int) -> bytes:
    """Return a bucket of these keys, which were in other buckets before, as bytes."""
    bucket = Bucket(buckets)
    for key, high, state in entries:
        bucket.put(key, high, state)
    return bucket.to_bytes()
