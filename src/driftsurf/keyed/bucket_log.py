"""The states of a bucket of keys as an engine keeps them: all keys as they once were, and the changes since then.

Writing all keys of a bucket costs much more than writing the few rows that they have had in an epoch. So an epoch adds
its *changes*: the rows of keys that were served together, and the bytes of keys that were visited on their own. Once
the changes take more bytes than the keys, all keys are rewritten. Learning rows again is exact, and for a few rows
it takes less time than reading the key they belong to.

A small *head* says which changes belong to a bucket. Its digest names the history of the bucket: two processes that
have the same digest have the same models.
"""

from __future__ import annotations

import functools
import hashlib
import struct
from collections.abc import Callable, Collection, Iterator
from typing import Any, NamedTuple, Protocol

import numpy as np

from driftsurf.core.fields import Array, Fields
from driftsurf.core.state import from_bytes, nest, pick, to_bytes
from driftsurf.errors import StateError
from driftsurf.keyed.bucket import Bucket
from driftsurf.keyed.results import Results
from driftsurf.keyed.rows import RowsByKey

__all__ = ["SPAN", "BucketLog", "Changes", "Head", "Values", "ValuesInMemory", "digest_of"]

SPAN = 32
"""So many changes are kept at most, each in one of so many places."""
DIGEST = 16
CHECKSUM = 8
LAYOUT = struct.Struct(f"<8s5q{DIGEST}s{DIGEST}s")
MAGIC = b"dshead01"
FIELDS = Fields({"visited": Array(np.uint8, ("*",))}, parts=["rows"])
"""Saved entries of changes; without rows there is no part."""


class Values(Protocol):
    """Stored values of a bucket in an engine; all values of one write become visible together, or none does."""

    def head(self) -> bytes | None:
        """Return the head, or None."""
        ...

    def whole(self) -> bytes | None:
        """Return all keys as they were last written, or None."""
        ...

    def changes(self, place: int) -> bytes | None:
        """Return the changes in a place, or None."""
        ...

    def put(self, head: bytes, whole: bytes | None, changes: bytes | None, place: int) -> None:
        """Keep a head, and all keys or changes or both."""
        ...


class ValuesInMemory:
    """The values of a bucket in memory, as they were read from a store."""

    def __init__(self, head: bytes | None = None, whole: bytes | None = None, changes: dict[int, bytes] | None = None):
        self._head = head
        self._whole = whole
        self._changes: dict[int, bytes] = {} if changes is None else changes

    def head(self) -> bytes | None:
        """Return the head, or None."""
        return self._head

    def whole(self) -> bytes | None:
        """Return all keys as they were last written, or None."""
        return self._whole

    def changes(self, place: int) -> bytes | None:
        """Return the changes in a place, or None."""
        return self._changes.get(place)

    def put(self, head: bytes, whole: bytes | None, changes: bytes | None, place: int) -> None:
        """Keep a head, and all keys or changes or both."""
        self._head = head
        self._whole = self._whole if whole is None else whole
        if changes is not None:
            self._changes[place] = changes


def digest_of(data: bytes, before: bytes = b"") -> bytes:
    """Return the digest of a bucket after changes, or of one that was written as a whole."""
    return hashlib.blake2b(data, digest_size=DIGEST, key=before).digest()


class Head(NamedTuple):
    """Which changes belong to a bucket."""

    buckets: int
    """How many buckets the run has."""
    version: int = 0
    """How often the bucket was written."""
    base: int = 0
    """The version in which all keys were written."""
    whole_bytes: int = 0
    changed_bytes: int = 0
    """Bytes of all changes since then."""
    digest: bytes = bytes(DIGEST)
    base_digest: bytes = bytes(DIGEST)

    def to_bytes(self) -> bytes:
        """Return the head as bytes, with a checksum behind them."""
        data = LAYOUT.pack(MAGIC, *self)
        return data + hashlib.blake2b(data, digest_size=CHECKSUM).digest()

    @classmethod
    def read(cls, data: bytes, buckets: int) -> Head:
        """Return the head that ``to_bytes`` wrote for a run with so many buckets; StateError for anything else."""
        body, checksum = data[: LAYOUT.size], data[LAYOUT.size :]
        if hashlib.blake2b(body, digest_size=CHECKSUM).digest() != checksum:
            raise StateError("the saved head of a bucket of keys cannot be read: its checksum is wrong", entry="bucket")
        magic, *values = LAYOUT.unpack(body)
        head = cls(*values)
        if magic != MAGIC or not (0 <= head.base <= head.version <= head.base + SPAN):
            raise StateError(f"the saved head of a bucket of keys cannot be used: {head}", entry="bucket")
        Bucket.check_number(head.buckets, buckets)
        return head


class Changes(NamedTuple):
    """Changes of a bucket in one epoch."""

    rows: RowsByKey | None
    """The rows of keys that were served together."""
    visited: Bucket
    """Keys that were visited on their own; their bytes are empty if they were dropped."""

    @classmethod
    def of(cls, results: Results, buckets: int) -> Changes:
        """Return the changes that led to these results."""
        visited = Bucket(buckets)
        for key, visit in results.visits.items():
            visited.put(key, visit.summary.high_water if visit.state else None, visit.state)
        names = {name for part in results.parts for name in part.names}
        return cls(results.parts[0].rows.only(names) if names else None, visited)

    @property
    def least_bytes(self) -> int:
        """A lower bound of the bytes that they take."""
        rows = 0 if self.rows is None else self.rows.X.nbytes + 24 * len(self.rows.sequence)
        return rows + self.visited.nbytes

    def to_bytes(self) -> bytes:
        """Return the changes as bytes."""
        rows = {} if self.rows is None else nest("rows", self.rows.state())
        return to_bytes({"visited": np.frombuffer(self.visited.to_bytes(), np.uint8), **rows})

    @classmethod
    def read(cls, data: bytes, buckets: int) -> Changes:
        """Return the changes that ``to_bytes`` wrote; StateError for anything else."""
        state = from_bytes(data)
        visited = Bucket.read(FIELDS.read(state)["visited"].tobytes(), buckets)
        own = pick("rows", state)
        return cls(RowsByKey.from_state(own) if own else None, visited)

    def apply_to(self, highs: dict[Any, int]) -> None:
        """Put in the high-water marks of these keys, and remove keys that were dropped."""
        if self.rows is not None:
            last = self.rows.sequence[self.rows.order[self.rows.starts[1:] - 1]].tolist()
            highs.update(zip(self.rows.names, last, strict=True))
        for key, high, state in self.visited.entries():
            if state:
                highs[key] = high
            else:
                highs.pop(key, None)


class BucketLog:
    """A bucket as it is kept: the saved states of its keys, and the rows that came after them.

    Parameters
    ----------
    values
        What is kept.
    buckets
        How many buckets the run has.
    first
        Returns the keys that a bucket without values begins with, as bytes, or None.
    """

    def __init__(self, values: Values, buckets: int, first: Callable[[], bytes | None] = lambda: None) -> None:
        self._values = values
        self.imported: bool = False
        """Whether the keys are those that the bucket begins with, and have to be written."""
        head = values.head()
        if head is not None:
            self.head: Head = Head.read(head, buckets)
            return
        self.head = Head(buckets)
        data = values.whole()
        if data is None:
            data = first()
            self.imported = data is not None
        self.whole = Bucket.read(data, buckets)
        if data is not None:
            self.head = Head(buckets, whole_bytes=len(data), digest=digest_of(data), base_digest=digest_of(data))

    @functools.cached_property
    def whole(self) -> Bucket:
        """All keys as they were last written."""
        data = self._values.whole()
        if data is None:
            raise StateError("the saved states of a bucket of keys are missing", entry="bucket")
        return Bucket.read(data, self.head.buckets)

    @functools.cached_property
    def changes(self) -> list[Changes]:
        """The changes since all keys were written."""
        found = self.since(self.head.base, self.head.base_digest)
        if found is None:
            raise StateError("the saved changes of a bucket of keys do not belong to its states", entry="bucket")
        return found

    def since(self, version: int, digest: bytes) -> list[Changes] | None:
        """Return the changes after a version; None if they are not kept, or the version was another one."""
        if not self.head.version - SPAN <= version <= self.head.version:
            return None
        kept: list[bytes] = []
        for number in range(version + 1, self.head.version + 1):
            data = self._values.changes(number % SPAN)
            if data is None:
                return None
            digest = digest_of(data, digest)
            kept.append(data)
        return [Changes.read(data, self.head.buckets) for data in kept] if digest == self.head.digest else None

    def highs(self) -> dict[Any, int]:
        """Return all keys with their high-water marks."""
        found = {key: high for key, high, _ in self.whole.entries()}
        for changes in self.changes:
            changes.apply_to(found)
        return found

    def get(self, key: Any) -> bytes | None:
        """Return the bytes of a key as they were last written, without the rows after them; or None."""
        for changes in reversed(self.changes):
            if key in changes.visited:
                return changes.visited.get(key) or None
        return self.whole.get(key)

    def tails(self, keys: Collection[Any]) -> Iterator[RowsByKey]:
        """Yield the rows of keys that came after their bytes were written, in the order in which they came."""
        if not keys:  # then nothing has to be read
            return
        last = {key: number for number, changes in enumerate(self.changes) for key in changes.visited}
        for number, changes in enumerate(self.changes):
            own = {key for key in keys if last.get(key, -1) < number}
            if changes.rows is not None and not own.isdisjoint(changes.rows.names):
                yield changes.rows.only(own)

    def put(self, whole: Bucket | None, changes: bytes | None) -> Head:
        """Keep all keys, or changes, or both; return the new head."""
        head, version = self.head, self.head.version + 1
        data = None if whole is None else whole.to_bytes()
        digest = digest_of(data or b"") if changes is None else digest_of(changes, head.digest)
        if data is not None:
            head = Head(head.buckets, version, version, len(data), 0, digest, digest)
        else:
            changed = head.changed_bytes + len(changes or b"")
            head = head._replace(version=version, changed_bytes=changed, digest=digest)
        self._values.put(head.to_bytes(), data, changes, version % SPAN)
        return head
