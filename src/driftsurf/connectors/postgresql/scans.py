"""Scans of a table or query of PostgreSQL, by a thread that reads ahead while others learn."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import Any

from driftsurf.connectors.postgresql.client import HORIZON, Database, Selection

WINDOW = 32
"""The first scan serves this many batches, each further one ``GROWTH`` times as many."""
GROWTH = 4
MOST_ROWS, MOST_BYTES = 2**20, 2**28
"""Rows of a scan at most, and about how many bytes of messages the server may keep for it."""
AHEAD_BYTES = 2**23
"""Bytes of messages after which the thread stops reading ahead."""
WORK_MEMORY = "64MB"
"""Least memory of the server in which a scan is sorted; with less of it, it is sorted on disk."""
ENDING = 10.0
"""Seconds for which the end of a scan is waited for."""


class Rows:
    """Rows by columns: the parts of their keys, and their messages. Objects for single rows are what takes time."""

    def __init__(self, found: Sequence[tuple[Any, ...]] = ()) -> None:
        *keys, values = zip(*found, strict=True) if found else ((),)
        self.keys: list[tuple[Any, ...]] = keys
        self.values: list[bytes] = [b"" if value is None else bytes(value) for value in values]

    def __len__(self) -> int:
        return len(self.values)

    def key(self, place: int) -> list[str]:
        """Return the key of a row as text."""
        return [str(one[place]) for one in self.keys]

    def cut(self, most: int) -> Rows:
        """Remove rows from the beginning, and return them."""
        first = Rows()
        first.keys, first.values = [one[:most] for one in self.keys], self.values[:most]
        self.keys, self.values = [one[most:] for one in self.keys], self.values[most:]
        return first

    def add(self, other: Rows) -> None:
        """Append rows."""
        if not self:
            self.keys, self.values = other.keys, other.values
        elif other:
            self.keys = [one + more for one, more in zip(self.keys, other.keys, strict=True)]
            self.values = self.values + other.values

    @property
    def size(self) -> int:
        """Number of bytes of all messages."""
        return sum(map(len, self.values))


class Scans:
    """The rows of a selection after a key, with a connection and a thread of its own.

    The thread reads ahead until enough is in memory, so that the server scans and sorts while earlier rows are learned.
    If the connection is lost, so are the scans: the error is raised by :meth:`take`, and others have to be made.

    Parameters
    ----------
    selection
        The rows; its columns are known already.
    after
        Key of the last row before those that are wanted; None for all rows.
    stop
        Number of the transaction before which rows end; None for no end.
    """

    def __init__(self, selection: Selection, after: list[str] | None, stop: int | None) -> None:
        self._own = Database(selection.database.address.text)
        self._selection = selection
        self._after = after
        self._stop = stop
        self.horizon: int = 0
        """Number before which all transactions were over when the last scan began."""
        self.seconds: float = 0.0
        """How long the last scan took."""
        self._cursor: Any = None
        self._window = self._left = 0
        """Rows for which the last scan was made, and how many of them may still come."""
        self._found: deque[Rows] = deque()
        self._bytes = self._sum = self._count = 0
        """Bytes in memory, and bytes and rows so far."""
        self._ended = self._closed = False
        """Whether the last scan has come to the end of the rows, and whether no more are wanted."""
        self._error: BaseException | None = None
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def take(self, most: int, *, again: bool) -> Rows:
        """Return the next rows: fewer than ``most`` if the last scan has no more of them.

        With ``again``, a scan that ended before this call does not count.
        """
        rows, begun = Rows(), not again
        while len(rows) < most:
            self._wait()
            if self._found:
                rows.add(self._pop(most - len(rows)))
            elif self._ended and begun:
                break
            else:
                self._begin(most)
                begun = True
        if not self._ended and self._bytes < AHEAD_BYTES // 2:
            self._begin(most)
        return rows

    def close(self) -> None:
        """End the thread and the connection."""
        self._closed, thread = True, self._thread
        if thread is not None:
            self._own.cancel(ENDING)
            thread.join(ENDING)
            if thread.is_alive():  # the server does not answer: the connection ends with the thread
                return
        self._disconnect()

    def _disconnect(self) -> None:
        cursor, self._cursor = self._cursor, None
        if cursor is not None:
            with contextlib.suppress(self._own.library.Error):  # it may have ended with its connection
                cursor.close()
        self._own.close()

    # -------------------------------------------------------------------- rows in memory

    def _wait(self) -> None:
        """Wait until there are rows or the thread has ended; raise the error with which it ended."""
        with self._changed:
            self._changed.wait_for(lambda: self._found or self._thread is None)
            if self._error is not None and not self._found:
                raise self._error

    def _pop(self, most: int) -> Rows:
        with self._changed:
            found = self._found[0].cut(most) if len(self._found[0]) > most else self._found.popleft()
            self._bytes -= found.size
        return found

    # -------------------------------------------------------------------- the thread

    def _begin(self, most: int) -> None:
        """Let the thread read ahead, unless it does."""
        if self._thread is None and self._error is None:
            self._ended = False
            self._thread = threading.Thread(target=self._fill, args=(most,), name="driftsurf-postgresql", daemon=True)
            self._thread.start()

    def _fill(self, most: int) -> None:
        try:
            while not self._ended and not self._closed and self._bytes < AHEAD_BYTES:
                found, ended = self._fetch(most)
                size = found.size
                with self._changed:
                    self._bytes, self._sum, self._count = self._bytes + size, self._sum + size, self._count + len(found)
                    self._ended = ended
                    if found:
                        self._found.append(found)
                        self._changed.notify_all()
        except Exception as error:
            self._error = error
        finally:
            with self._changed:
                self._thread = None
                self._changed.notify_all()
            if self._closed:
                self._disconnect()

    def _fetch(self, most: int) -> tuple[Rows, bool]:
        """Return further rows of the scan that is under way, or of a new one, and whether they were its last."""
        found = Rows(self._scan(most) if self._cursor is None else self._cursor.fetchmany(most))
        self._left -= len(found)
        if found:
            self._after = found.key(-1)
        if len(found) == most:
            return found, False
        self._cursor.close()
        self._cursor = None
        ended = self._left > 0
        self._window = 0 if ended else self._window
        return found, ended

    def _scan(self, most: int) -> list[tuple[Any, ...]]:
        """Begin a scan after the last row, and return its first rows."""
        limits = [GROWTH * self._window or WINDOW * most, MOST_ROWS]
        if self._sum:
            limits.append(MOST_BYTES * self._count // self._sum)
        self._window = max(most, min(limits))
        self._left = self._window + 1
        client = self._own.client
        self.horizon, began = int(client.execute(f"select {HORIZON}::text").fetchone()[0]), time.monotonic()
        # The server keeps the result of a cursor "with hold", so that no transaction stays open between batches.
        self._cursor = client.cursor("driftsurf", withhold=True)
        select = self._selection.statement(first=self._after is not None, stop=self._stop)
        with client.transaction():
            client.execute(
                f"select set_config('work_mem', '{WORK_MEMORY}', true) "
                f"where pg_size_bytes(current_setting('work_mem')) < pg_size_bytes('{WORK_MEMORY}')"
            )
            limited = self._own.sql.SQL("{} limit {}").format(select, self._left)
            self._cursor.execute(limited, self._after or (), binary=True)
        self.seconds = time.monotonic() - began
        found: list[tuple[Any, ...]] = self._cursor.fetchmany(1)
        if found and [str(one) for one in found[0][:-1]] == self._after:  # the row with which the scan before it ended
            found, self._left = [], self._left - 1
        if len(found) < most:  # asked for no rows, a cursor returns one
            found += self._cursor.fetchmany(most - len(found))
        return found
