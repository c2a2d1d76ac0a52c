"""The local engine: the keyed step over files in one process, with the outputs of any engine."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from driftsurf._options import number
from driftsurf.engines._rows import Columns, by_key
from driftsurf.engines.keyed import KeyedLearner, Visit
from driftsurf.engines.tables import KeyedFolder
from driftsurf.errors import StateError
from driftsurf.runtime.files import FolderLock
from driftsurf.sources import Source

__all__ = ["StateStore", "run_local"]

Report = Callable[[int, Mapping[str, int]], None]
"""Called after each epoch with its number and its counts."""


class Progress(NamedTuple):
    """How far a run has come."""

    epochs: int = 0
    position: Any = None
    """Of the source, behind the last epoch."""
    top: int | None = None
    """The largest sequence number of all keys."""


class StateStore:
    """The bytes of all keys in one SQLite file: an epoch changes all that it changes, or nothing."""

    def __init__(self, path: Path) -> None:
        self._db = sqlite3.connect(path, isolation_level=None)
        try:
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=FULL")  # what is kept is on the medium
            self._db.execute("CREATE TABLE IF NOT EXISTS state (key BLOB PRIMARY KEY, bytes BLOB, high INTEGER)")
            self._db.execute("CREATE INDEX IF NOT EXISTS by_high ON state (high)")
            self._db.execute("CREATE TABLE IF NOT EXISTS progress (one INTEGER PRIMARY KEY, told TEXT)")
        except sqlite3.DatabaseError as error:
            self._db.close()
            raise StateError(f"{str(path)!r}, which holds the states of a run, cannot be used: {error}") from error

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def progress(self) -> Progress:
        """As it was kept last."""
        found = self._db.execute("SELECT told FROM progress").fetchone()
        return Progress(*json.loads(found[0])) if found else Progress()

    def get(self, key: Any) -> bytes | None:
        """The bytes of a key."""
        found = self._db.execute("SELECT bytes FROM state WHERE key = ?", (key,)).fetchone()
        return found[0] if found else None

    def silent(self, before: int) -> Iterator[tuple[Any, bytes]]:
        """The keys whose last sequence number is below ``before``."""
        yield from self._db.execute("SELECT key, bytes FROM state WHERE high < ? ORDER BY key", (before,)).fetchall()

    def keep(self, visits: Mapping[Any, Visit], progress: Progress) -> None:
        """Keep the states of an epoch and how far the run has come, together."""
        kept = [(key, visit.state, visit.summary.high_water) for key, visit in visits.items() if visit.state]
        gone = [(key,) for key, visit in visits.items() if not visit.state]
        with contextlib.ExitStack() as undo:
            self._db.execute("BEGIN IMMEDIATE")
            undo.callback(self._db.execute, "ROLLBACK")
            self._db.executemany("INSERT OR REPLACE INTO state VALUES (?, ?, ?)", kept)
            self._db.executemany("DELETE FROM state WHERE key = ?", gone)
            self._db.execute("INSERT OR REPLACE INTO progress VALUES (1, ?)", (json.dumps(progress),))
            self._db.execute("COMMIT")
            undo.pop_all()


def run_local(
    source: Source,
    out: Path,
    learner: KeyedLearner,
    columns: Columns,
    *,
    ttl: float | None = None,
    on_epoch: Report | None = None,
) -> KeyedFolder:
    """Run over all rows of a source, each batch of it an epoch; what was done by an earlier run is not done again.

    ``ttl`` is in units of the sequence: a key that is so far behind the newest row of earlier epochs is given up,
    and rows that are so late are dropped and counted.
    """
    learner.check()
    if ttl is not None:
        number("ttl", ttl, above=0.0, otherwise=", or None")
    folder = KeyedFolder(out)
    folder.open("local", learner, columns._asdict() | {"ttl": ttl})
    lock = FolderLock(out)
    try:
        with contextlib.closing(StateStore(out / "state.sqlite")) as store:
            _run(source, folder, learner, columns, store, ttl, on_epoch)
    finally:
        lock.release()
    return folder


def _run(
    source: Source,
    folder: KeyedFolder,
    learner: KeyedLearner,
    columns: Columns,
    store: StateStore,
    ttl: float | None,
    on_epoch: Report | None,
) -> None:
    done = store.progress()
    for table, position in source.tables(done.position):
        given = by_key(table, learner, columns, _limit(done.top, ttl))
        visits = {key: learner.visit(key, store.get(key), own) for key, own in given.rows.items()}
        visits |= _given_up(learner, store, visits, _limit(done.top, ttl))
        tops = [visit.summary.high_water for visit in visits.values() if visit.summary.high_water is not None]
        top = max([*tops, *([] if done.top is None else [done.top])], default=None)
        unreadable = position["skipped"] - (0 if done.position is None else done.position["skipped"])
        counts = given.counts | {"unreadable": unreadable}
        _write(folder, done.epochs, visits, counts, given.types, on_epoch)
        done = Progress(done.epochs + 1, position, top)
        store.keep(visits, done)
    last = _given_up(learner, store, {}, _limit(done.top, ttl))
    if last:
        kind = "string" if isinstance(next(iter(last)), str) else "int64"
        _write(folder, done.epochs, last, {}, (kind, "string"), on_epoch)
        store.keep(last, done._replace(epochs=done.epochs + 1))


def _limit(top: int | None, ttl: float | None) -> int | None:
    """What lies below it is silent, or late."""
    return None if top is None or ttl is None else int(top - ttl)


def _given_up(
    learner: KeyedLearner, store: StateStore, visited: Mapping[Any, Visit], limit: int | None
) -> dict[Any, Visit]:
    silent = () if limit is None else store.silent(limit)
    return {key: learner.expire(key, state) for key, state in silent if key not in visited}


def _write(
    folder: KeyedFolder,
    epoch: int,
    visits: Mapping[Any, Visit],
    counts: Mapping[str, int],
    types: tuple[str, str],
    on_epoch: Report | None,
) -> None:
    counts = {"keys": len(visits), "rows": sum(len(visit.sequence) for visit in visits.values()), **counts}
    folder.write(epoch, visits, types, counts)
    if on_epoch is not None:
        on_epoch(epoch, counts)
