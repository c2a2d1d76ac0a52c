"""The engine "local": a keyed run in one process, states of keys in an SQLite file."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from driftsurf.core import disk
from driftsurf.core.json_text import parse_json
from driftsurf.core.options import number, whole
from driftsurf.data import BadRow, FileSource, ReadingOptions, Source
from driftsurf.errors import StateError
from driftsurf.keyed.blocks import BlockServer
from driftsurf.keyed.derived import DerivedColumns
from driftsurf.keyed.folder import KeyedFolder
from driftsurf.keyed.grouping import Columns, by_key
from driftsurf.keyed.job import EpochReport, KeyedJob
from driftsurf.keyed.visit import KeyedLearner, Visit
from driftsurf.registry import register

__all__ = ["EPOCH_ROWS", "LocalEngine", "StateStore", "run_local"]

EPOCH_ROWS = 100_000


@register("engine", "local", title="This process")
class LocalEngine:
    """One process on this machine: states in an SQLite file.

    Parameters
    ----------
    epoch
        Rows of an epoch.
    """

    def __init__(self, *, epoch: int = EPOCH_ROWS) -> None:
        self.epoch = epoch

    @property
    def first_rows(self) -> int:
        """How many rows are read to find out what the columns hold."""
        return self.epoch

    def check(self, reading: ReadingOptions) -> None:
        """Raise OptionError if an option cannot be used."""
        whole("epoch", self.epoch, at_least=1)

    def run(self, job: KeyedJob) -> KeyedFolder:
        """Learn all rows that the source has now, behind those of an earlier run."""
        # A row that cannot be read must not stop all keys; it is counted in the epoch.
        reading = replace(job.reading, on_bad_row="skip", drop=job.unused)
        source = FileSource(job.source, reading, batch_size=self.epoch)
        return run_local(
            source, job.out, job.learner, job.columns, ttl=job.ttl, on_epoch=job.on_epoch, derived=job.derived
        )


class Progress(NamedTuple):
    """How far a run has come."""

    epochs: int = 0
    position: Any = None
    """Position of the source after the last epoch."""
    top: int | None = None
    """The largest sequence number of all keys."""


class StateStore:
    """The states of all keys in one SQLite file; an epoch is committed as one transaction.

    ``check_held`` is called before each commit, which does not happen if it raises.
    """

    def __init__(self, path: Path, check_held: Callable[[], None] = lambda: None) -> None:
        self._check_held = check_held
        os.close(disk.private(path, os.O_RDWR | os.O_CREAT))  # SQLite would let others read it
        self._db = sqlite3.connect(path, isolation_level=None)
        try:
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=FULL")  # a committed epoch survives a power loss
            self._db.execute("CREATE TABLE IF NOT EXISTS state (key BLOB PRIMARY KEY, bytes BLOB, high INTEGER)")
            self._db.execute("CREATE INDEX IF NOT EXISTS by_high ON state (high)")
            self._db.execute("CREATE TABLE IF NOT EXISTS progress (one INTEGER PRIMARY KEY, value TEXT)")
        except sqlite3.DatabaseError as error:
            self._db.close()
            raise StateError(f"{str(path)!r}, which holds the states of a run, cannot be opened: {error}") from error

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def progress(self) -> Progress:
        """Return the progress of the last committed epoch."""
        found = self._db.execute("SELECT value FROM progress").fetchone()
        return Progress(*parse_json(found[0])) if found else Progress()

    def get(self, key: Any) -> bytes | None:
        """Return the state of a key, or None."""
        found = self._db.execute("SELECT bytes FROM state WHERE key = ?", (key,)).fetchone()
        return found[0] if found else None

    def silent(self, before: int) -> Iterator[tuple[Any, bytes]]:
        """Yield the keys whose last sequence number is below ``before``, with their states."""
        yield from self._db.execute("SELECT key, bytes FROM state WHERE high < ? ORDER BY key", (before,)).fetchall()

    def keep(self, visits: Mapping[Any, Visit], progress: Progress) -> None:
        """Commit the states of an epoch together with the progress of the run."""
        kept = [(key, visit.state, visit.summary.high_water) for key, visit in visits.items() if visit.state]
        dropped = [(key,) for key, visit in visits.items() if not visit.state]
        with self._db:  # commits, or rolls back after an exception
            self._db.execute("BEGIN IMMEDIATE")
            # The row of a key stays where it is: replacing it would move its bytes.
            self._db.executemany(
                "INSERT INTO state VALUES (?, ?, ?) "
                "ON CONFLICT (key) DO UPDATE SET bytes = excluded.bytes, high = excluded.high",
                kept,
            )
            self._db.executemany("DELETE FROM state WHERE key = ?", dropped)
            self._db.execute("INSERT OR REPLACE INTO progress VALUES (1, ?)", (json.dumps(progress),))
            self._check_held()


def run_local(
    source: Source,
    out: Path,
    learner: KeyedLearner,
    columns: Columns,
    *,
    ttl: float | None = None,
    on_epoch: EpochReport | None = None,
    derived: DerivedColumns | None = None,
) -> KeyedFolder:
    """Learn all rows of a source, one epoch per batch; an earlier run in ``out`` is resumed.

    ``ttl`` is in units of the sequence, measured from the newest row of earlier epochs: keys that are silent for longer
    are dropped, and rows that are later than that are dropped and counted. ``derived`` columns are added to each table.
    """
    derived = DerivedColumns(columns.label) if derived is None else derived
    learner.check()
    if ttl is not None:
        number("ttl", ttl, above=0.0, otherwise=", or None")
    folder = KeyedFolder(out)
    folder.open("local", learner, columns._asdict() | {"ttl": ttl}, derived.words)
    with folder.held(), contextlib.closing(StateStore(out / "state.sqlite", folder.check_held)) as store:
        _run(source, folder, learner, columns, store, ttl, on_epoch, derived)
    return folder


def _run(
    source: Source,
    folder: KeyedFolder,
    learner: KeyedLearner,
    columns: Columns,
    store: StateStore,
    ttl: float | None,
    on_epoch: EpochReport | None,
    derived: DerivedColumns,
) -> None:
    done, server = store.progress(), BlockServer(learner)
    unreadable = 0

    def count(bad: BadRow) -> None:
        nonlocal unreadable
        unreadable += 1

    for table, position in source.tables(done.position, on_skip=count):
        limit = _limit(done.top, ttl)
        grouped = by_key(derived.add_to(table), learner, columns, limit)
        visits = server.serve(grouped.rows, store.get)
        expired = _expired(learner, store, visits, limit)
        server.forget(expired)
        visits |= expired
        tops = [visit.summary.high_water for visit in visits.values() if visit.summary.high_water is not None]
        top = max([*tops, *([] if done.top is None else [done.top])], default=None)
        counts = grouped.counts | {"unreadable": unreadable}
        unreadable = 0
        # The tables come first: if the process ends before the states are kept, the epoch is repeated and rewritten.
        _write(folder, done.epochs, visits, counts, grouped.types, on_epoch)
        done = Progress(done.epochs + 1, position, top)
        store.keep(visits, done)
    last = _expired(learner, store, {}, _limit(done.top, ttl))
    if last:
        kind = "string" if isinstance(next(iter(last)), str) else "int64"
        _write(folder, done.epochs, last, {}, (kind, "string"), on_epoch)
        store.keep(last, done._replace(epochs=done.epochs + 1))


def _limit(top: int | None, ttl: float | None) -> int | None:
    """Return the sequence number below which keys are silent and rows are late; None for no limit."""
    return None if top is None or ttl is None else int(top - ttl)


def _expired(
    learner: KeyedLearner, store: StateStore, visited: Mapping[Any, Visit], limit: int | None
) -> dict[Any, Visit]:
    """Return a last visit for each key that has been silent for too long and has no rows in this epoch."""
    silent = () if limit is None else store.silent(limit)
    return {key: learner.expire(key, state) for key, state in silent if key not in visited}


def _write(
    folder: KeyedFolder,
    epoch: int,
    visits: Mapping[Any, Visit],
    counts: Mapping[str, int],
    types: tuple[str, str],
    on_epoch: EpochReport | None,
) -> None:
    counts = {"keys": len(visits), "rows": sum(len(visit.sequence) for visit in visits.values()), **counts}
    folder.write(epoch, visits, types, counts)
    if on_epoch is not None:
        on_epoch(epoch, counts)
