"""The states of keys in one SQLite file, as the local engine keeps them.

A state is not rewritten whenever its key has rows. The rows of an epoch are kept as one value, the *tail* of the keys
that were served together, and each of these keys is written as a whole in one of ``SPAN`` epochs. Its bytes and the
rows that came after them are its state: learning these rows again is exact, and takes less time than writing it would.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from driftsurf import __version__
from driftsurf.core import disk
from driftsurf.core.files import parse_json
from driftsurf.core.options import shown
from driftsurf.core.state import from_bytes, to_bytes
from driftsurf.errors import Option, StateError, StateVersionError
from driftsurf.keyed.results import Results, Visit
from driftsurf.keyed.rows import RowsByKey

LAYOUT = 1
"""Number of the layout of the file; files of earlier versions have 0."""
SPAN = 32
"""Every key is written as a whole in one of so many epochs, and tails are kept for as long."""


class EpochProgress(NamedTuple):
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
        self.path: Path = path
        self._highs: dict[Any, int] | None = None
        os.close(disk.private(path, os.O_RDWR | os.O_CREAT))  # SQLite would let others read it
        self._db = sqlite3.connect(path, isolation_level=None)
        try:
            with self._named_errors():
                self._begin()
        except StateError:
            self._db.close()
            raise

    def _begin(self) -> None:
        """Create the tables in a new file; StateVersionError if an earlier version has written it."""
        self._db.execute("PRAGMA page_size=32768")  # of a new file: most values are large
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=FULL")  # a committed epoch survives a power loss
        tables = self._db.execute("SELECT count(*) FROM sqlite_master WHERE name = 'progress'").fetchone()[0]
        layout = self._db.execute("PRAGMA user_version").fetchone()[0]
        if tables and layout != LAYOUT:
            raise StateVersionError(
                f"{str(self.path)!r} has layout {layout}; this is driftsurf {__version__}, which uses layout {LAYOUT}. "
                "Start a new run with another ",
                Option("out"),
            )
        self._db.execute(f"PRAGMA user_version={LAYOUT}")
        self._db.execute(
            "CREATE TABLE IF NOT EXISTS state (key BLOB PRIMARY KEY, bytes BLOB, high INTEGER, epochs INTEGER)"
        )
        self._db.execute("CREATE INDEX IF NOT EXISTS by_high ON state (high)")
        self._db.execute("CREATE TABLE IF NOT EXISTS tail (epoch INTEGER PRIMARY KEY, bytes BLOB)")
        self._db.execute("CREATE TABLE IF NOT EXISTS progress (one INTEGER PRIMARY KEY, value TEXT)")
        self._db.execute("CREATE TABLE IF NOT EXISTS shared (one INTEGER PRIMARY KEY, bytes BLOB)")
        self._db.execute("SELECT key, bytes, high, epochs FROM state LIMIT 0")

    @contextlib.contextmanager
    def _named_errors(self) -> Iterator[None]:
        """Context in which an error of SQLite, such as that of a full disk, becomes one that names the file."""
        try:
            yield
        except sqlite3.Error as error:
            remedy = "put back a copy of the folder, or start a new run"
            if isinstance(error, sqlite3.OperationalError):  # not the file itself: a full disk, or a lock
                remedy = "the last complete epoch is kept; correct the cause, and run the same command again"
            raise StateError(
                f"{str(self.path)!r}, which holds the states of a run, cannot be used ({error}); {remedy}"
            ) from error

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def progress(self) -> EpochProgress:
        """Return the progress of the last committed epoch."""
        with self._named_errors():
            found = self._db.execute("SELECT value FROM progress").fetchone()
        try:
            return EpochProgress(*parse_json(found[0])) if found else EpochProgress()
        except (ValueError, TypeError) as error:
            raise StateError(f"{str(self.path)!r} is damaged: its progress is {shown(found[0])}") from error

    # -------------------------------------------------------------------- reading

    def shared(self) -> bytes | None:
        """Return the model that keys share, or None."""
        with self._named_errors():
            found = self._db.execute("SELECT bytes FROM shared").fetchone()
        return None if found is None else bytes(found[0])

    def get(self, key: Any) -> bytes | None:
        """Return the bytes of a key as they were last written, without the rows of its tail; or None."""
        return self._saved(key)[0]

    def _saved(self, key: Any) -> tuple[bytes | None, int]:
        """Return the bytes of a key, and after how many epochs they were written."""
        with self._named_errors():
            found = self._db.execute("SELECT bytes, epochs FROM state WHERE key = ?", (key,)).fetchone()
        if found is None:
            return None, 0
        data, epochs = found
        if not isinstance(data, bytes) or not isinstance(epochs, int):
            raise StateError(f"{str(self.path)!r} is damaged: the state of the key {key!r} is {shown(data)}")
        return data or None, epochs

    def tails(self, keys: Collection[Any]) -> Iterator[RowsByKey]:
        """Yield the rows of keys that came after their bytes were written, epoch by epoch."""
        since = {key: self._saved(key)[1] for key in keys if key in self._tailed()}
        if since:
            for epoch, rows in self._read_tails(min(since.values())):
                own = rows.only({key for key, epochs in since.items() if epochs <= epoch})
                if len(own):
                    yield own

    def _read_tails(self, start: int) -> Iterator[tuple[int, RowsByKey]]:
        """Yield the epochs that have a tail, and the rows in it."""
        with self._named_errors():
            epochs = self._db.execute("SELECT epoch FROM tail WHERE epoch >= ? ORDER BY epoch", (start,)).fetchall()
        for (epoch,) in epochs:
            with self._named_errors():
                (data,) = self._db.execute("SELECT bytes FROM tail WHERE epoch = ?", (epoch,)).fetchone()
            try:
                if not isinstance(data, bytes):
                    raise StateError(f"it is {shown(data)}")
                yield epoch, RowsByKey.from_state(from_bytes(data))
            except StateError as error:
                raise StateError(f"{str(self.path)!r} is damaged: the rows of epoch {epoch}: {error}") from error

    def _tailed(self) -> dict[Any, int]:
        """Return the keys with rows that came after their bytes were written, and their high-water marks."""
        if self._highs is None:
            highs: dict[Any, int] = {}
            epoch_of: dict[Any, int] = {}
            for epoch, rows in self._read_tails(0):
                last = rows.sequence[rows.order[rows.starts[1:] - 1]].tolist()
                highs.update(zip(rows.names, last, strict=True))
                epoch_of.update(dict.fromkeys(rows.names, epoch))
            highs = {key: high for key, high in highs.items() if self._saved(key)[1] <= epoch_of[key]}
            self._highs = highs
        return self._highs

    def silent(self, before: int) -> list[Any]:
        """Return the keys whose last sequence number is below ``before``."""
        with self._named_errors():
            found = self._db.execute("SELECT key FROM state WHERE high < ?", (before,)).fetchall()
        tailed = self._tailed()
        return sorted(
            [key for (key,) in found if key not in tailed] + [key for key, high in tailed.items() if high < before]
        )

    # -------------------------------------------------------------------- writing

    def keep(
        self,
        done: Results | Mapping[Any, Visit],
        progress: EpochProgress,
        states_of: Callable[[Collection[Any]], Mapping[Any, bytes | None]] = lambda keys: {},
        shared: bytes | None = None,
    ) -> None:
        """Commit an epoch: the progress of the run, and the states of keys after it.

        Parameters
        ----------
        done
            What came of the epoch. Visits bring the bytes of their keys; of keys that were served together, the rows
            are kept.
        progress
            How far the run has come with this epoch.
        states_of
            Returns the bytes of keys with all rows that they have had. It is called with the keys that are to be
            written as a whole.
        shared
            The model that keys share, if there is one.
        """
        results, epoch = done if isinstance(done, Results) else Results(done), progress.epochs - 1
        highs = self._tailed() | results.high_waters()
        due = [key for key in highs if key not in results.visits and is_due(key, epoch)]
        whole: list[tuple[Any, bytes | None, int | None, int]] = [
            (key, state, highs[key], progress.epochs) for key, state in states_of(due).items()
        ]
        for key, visit in results.visits.items():
            # Rows of a key that is dropped may be in tails that are still kept, and belong to it no longer.
            high = visit.summary.high_water if visit.state else None
            whole.append((key, visit.state, high, progress.epochs))
        written = {key for key, *_ in whole}
        names = {name for part in results.parts for name in part.names}
        tail = [to_bytes(results.parts[0].rows.only(names).state())] if names - written else []
        with self._named_errors(), self._db:  # commits, or rolls back after an exception
            self._db.execute("BEGIN IMMEDIATE")
            # The row of a key stays where it is: replacing it would move its bytes.
            self._db.executemany(
                "INSERT INTO state VALUES (?, ?, ?, ?) ON CONFLICT (key) DO UPDATE "
                "SET bytes = excluded.bytes, high = excluded.high, epochs = excluded.epochs",
                whole,
            )
            self._db.executemany("INSERT INTO tail VALUES (?, ?)", [(epoch, data) for data in tail])
            self._db.execute("DELETE FROM tail WHERE epoch <= ?", (epoch - SPAN + 1,))
            self._db.execute(
                "DELETE FROM state WHERE high IS NULL AND length(bytes) = 0 "
                "AND (epochs <= ? OR NOT EXISTS (SELECT 1 FROM tail))",
                (epoch - SPAN + 2,),
            )
            if shared is not None:
                self._db.execute("INSERT OR REPLACE INTO shared VALUES (1, ?)", (shared,))
            self._db.execute("INSERT OR REPLACE INTO progress VALUES (1, ?)", (json.dumps(progress),))
            self._check_held()
        self._highs = {key: high for key, high in highs.items() if key not in written}


def is_due(key: Any, epoch: int) -> bool:
    """Return whether a key with a tail is written as a whole in an epoch: the same for all processes."""
    number = zlib.crc32(key.encode()) if isinstance(key, str) else int(key)
    return (number + epoch) % SPAN == 0
