"""Serves the buckets of keys of an engine that starts many processes, each of which sees some buckets of an epoch.

A process keeps the models of keys open after it has served them. When it sees a bucket again, others may have served
the bucket in between: then it learns the changes that they have kept, and reads nothing else. What a process has open
is used only if its history is that of the bucket. So results do not depend on which process serves a bucket.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from driftsurf.keyed.bucket import Bucket
from driftsurf.keyed.bucket_log import SPAN, BucketLog, Changes, Values
from driftsurf.keyed.key_cache import MOST_BYTES, KeyCache
from driftsurf.keyed.results import NEVER, Results
from driftsurf.keyed.rows import RowsByKey
from driftsurf.keyed.visit import KeyedLearner

__all__ = ["BucketServer", "Served", "server_for"]

EMPTY = RowsByKey.of({})


class Known(NamedTuple):
    """A bucket as this process has last seen it: the keys that are open have the states of this version."""

    version: int
    digest: bytes
    highs: dict[Any, int]
    """All keys of the bucket, and their high-water marks."""


class Served(NamedTuple):
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
    ) -> Served:
        """Predict and learn the rows of some keys of a bucket, and keep the changes.

        ``first`` returns the keys that a bucket without values begins with, as bytes, or None.
        """
        log = BucketLog(values, self._buckets, first)
        highs = self._open(name, log)
        self._server.forget([key for key in rows.names if key not in highs])  # of an attempt that failed
        results = self._server.serve(rows, log) if len(rows) else Results()
        return self._keep(name, log, highs, results)

    def expire(self, name: int, values: Values, before: int, first: Callable[[], bytes | None]) -> Served:
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

    def _keep(self, name: int, log: BucketLog, highs: dict[Any, int], results: Results) -> Served:
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
        return Served(results, min((high for high in highs.values() if high != NEVER), default=None))

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
