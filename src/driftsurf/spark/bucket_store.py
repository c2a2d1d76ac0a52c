"""The states of a bucket of keys as Spark keeps them, and what serves the keys of buckets.

A *bucket* is many keys as one value: an index, then the bytes of each key. An engine that pays for every value in its
store keeps a bucket of keys in each. When a bucket is rewritten, the bytes of keys that have not changed are copied as
they are, without being read. Layout, little-endian: the magic number, the number of buckets of the run, the number of
keys, the kind of keys, the length of the keys (8 bytes each); then for each key its high-water mark and the length of
its state (8 bytes each), the keys (integers of 8 bytes; or the length of each in UTF-8, 8 bytes, followed by all text),
the checksum of everything up to here (8 bytes), and the states.

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
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np

from driftsurf.core.fields import Array, Fields
from driftsurf.core.state import from_bytes, nest, pick, to_bytes
from driftsurf.errors import StateError
from driftsurf.keyed.key_cache import MOST_BYTES, KeyCache
from driftsurf.keyed.results import NEVER, Results
from driftsurf.keyed.rows import RowsByKey
from driftsurf.keyed.visit import KeyedLearner

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


SPAN = 32
"""So many changes are kept at most, each in one of so many places."""
DIGEST = 16
CHECKSUM = 8
LAYOUT = struct.Struct(f"<8s5q{DIGEST}s{DIGEST}s")
HEAD_MAGIC = b"dshead01"
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
        data = LAYOUT.pack(HEAD_MAGIC, *self)
        return data + hashlib.blake2b(data, digest_size=CHECKSUM).digest()

    @classmethod
    def read(cls, data: bytes, buckets: int) -> Head:
        """Return the head that ``to_bytes`` wrote for a run with so many buckets; StateError for anything else."""
        body, checksum = data[: LAYOUT.size], data[LAYOUT.size :]
        if hashlib.blake2b(body, digest_size=CHECKSUM).digest() != checksum:
            raise StateError("the saved head of a bucket of keys cannot be read: its checksum is wrong", entry="bucket")
        magic, *values = LAYOUT.unpack(body)
        head = cls(*values)
        if magic != HEAD_MAGIC or not (0 <= head.base <= head.version <= head.base + SPAN):
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


EMPTY = RowsByKey.of({})


class Known(NamedTuple):
    """A bucket as this process has last seen it: the keys that are open have the states of this version."""

    version: int
    digest: bytes
    highs: dict[Any, int]
    """All keys of the bucket, and their high-water marks."""


class ServedBucket(NamedTuple):
    """Results of serving a bucket."""

    results: Results
    oldest: int | None
    """The smallest high-water mark of its keys; None without one."""


class BucketServer:
    """Serves buckets of keys.

    Parameters
    ----------
    learner
        How every key is learned.
    buckets
        How many buckets the run has.
    most_bytes
        Memory for keys that are kept open, as of :class:`~driftsurf.keyed.key_cache.KeyCache`.
    """

    def __init__(self, learner: KeyedLearner, buckets: int, most_bytes: int = MOST_BYTES) -> None:
        self._learner = learner
        self._buckets = buckets
        self._server = KeyCache(learner, most_bytes)
        self._known: dict[int, Known] = {}

    def serve(
        self, name: int, values: Values, rows: RowsByKey = EMPTY, first: Callable[[], bytes | None] = lambda: None
    ) -> ServedBucket:
        """Predict and learn the rows of some keys of a bucket, and keep the changes.

        ``first`` returns the keys that a bucket without values begins with, as bytes, or None.
        """
        log = BucketLog(values, self._buckets, first)
        highs = self._open(name, log)
        self._server.forget([key for key in rows.names if key not in highs])  # of an attempt that failed
        results = self._server.serve(rows, log) if len(rows) else Results()
        return self._keep(name, log, highs, results)

    def expire(self, name: int, values: Values, before: int, first: Callable[[], bytes | None]) -> ServedBucket:
        """Drop the keys of a bucket whose high-water mark is below ``before``."""
        log = BucketLog(values, self._buckets, first)
        highs = self._open(name, log)
        silent = sorted(key for key, high in highs.items() if NEVER < high < before)
        states = self._server.states(silent, log)
        results = Results({key: self._learner.expire(key, state) for key, state in states.items() if state})
        return self._keep(name, log, highs, results)

    def entries(self, name: int, values: Values) -> Iterator[tuple[Any, int, bytes]]:
        """Yield all keys of a bucket with their high-water marks and their bytes."""
        log = BucketLog(values, self._buckets)
        highs = self._open(name, log)
        for key, high, state in self._whole(log, highs, Results()).entries():
            yield key, high, bytes(state)

    def _open(self, name: int, log: BucketLog) -> dict[Any, int]:
        """Return the keys of a bucket with their high-water marks, after bringing those that are open up to date."""
        known = self._known.pop(name, None)  # an error in what follows must not leave it behind
        missed = None if known is None else log.since(known.version, known.digest)
        if known is None or missed is None:
            highs = log.highs()
            self._server.forget(highs.keys() | (known.highs.keys() if known else set()))
            return highs
        for changes in missed:
            self._server.forget(list(changes.visited))
            if changes.rows is not None:
                self._server.follow(changes.rows)
            changes.apply_to(known.highs)
        return known.highs

    def _keep(self, name: int, log: BucketLog, highs: dict[Any, int], results: Results) -> ServedBucket:
        """Keep what a bucket has become: its changes, and all keys if the changes take more bytes than they do."""
        self._server.forget(results.visits.keys())
        changes, head = Changes.of(results, self._buckets), log.head
        if results.n_keys or log.imported:
            before = dict(highs)
            changes.apply_to(highs)
            small = head.changed_bytes + changes.least_bytes <= head.whole_bytes
            data = changes.to_bytes() if small or 2 * changes.least_bytes <= head.whole_bytes else None
            whole = None
            if data is None or log.imported or not small or head.version - head.base + 1 >= SPAN:
                whole = self._whole(log, before, results)
            head = log.put(whole, None if log.imported else data)
        self._known[name] = Known(head.version, head.digest, highs)
        return ServedBucket(results, min((high for high in highs.values() if high != NEVER), default=None))

    def _whole(self, log: BucketLog, highs: dict[Any, int], results: Results) -> Bucket:
        """Return all keys of a bucket as they are after these results; ``highs`` are the marks before them."""
        whole, unchanged = Bucket(self._buckets), set(log.whole)
        for changes in log.changes:
            unchanged -= {*changes.visited, *(changes.rows or ())}
        served = [name for part in results.parts for name in part.names]
        unchanged -= {*results.visits, *served}
        for key, high, state in log.whole.entries():
            if key in unchanged:
                whole.put(key, high, state)
        changed = [*{key: None for key in (*highs, *served) if key not in unchanged and key not in results.visits}]
        self._server.open([key for key in changed if key not in served], log)
        marks = highs | results.high_waters()
        for key, found in self._server.states(changed, log, results.parts).items():
            assert found is not None
            whole.put(key, marks[key], found)
        for key, visit in results.visits.items():
            if visit.state:
                whole.put(key, visit.summary.high_water, visit.state)
        return whole


_SERVER: list[tuple[Any, BucketServer]] = []
"""The server of this process, and what it is for."""


def server_for(learner: KeyedLearner, buckets: int) -> BucketServer:
    """Return the server of this process for these options, a new one if it had another."""
    readmitted = tuple(sorted(learner.readmitted.items()))
    wanted = learner.options_digest, learner.max_bytes, learner.max_pending, readmitted, buckets
    if not _SERVER or _SERVER[0][0] != wanted:
        _SERVER[:] = [(wanted, BucketServer(learner, buckets))]
    return _SERVER[0][1]
