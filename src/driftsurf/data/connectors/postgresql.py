"""PostgreSQL: ``postgresql://host:5432/DATABASE/TABLE``, or ``postgresql://host/DATABASE?query=SELECT...``.

Rows are read in the order of the transactions that wrote them, and only once no transaction can still commit a row
before them. A cursor over an id alone would pass over the rows of a transaction that took its ids early and committed
late.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from driftsurf.data.connectors._postgresql import HORIZON, TOP, Database, Selection
from driftsurf.data.connectors.contract import Message, Plan, Ranges, Seekable
from driftsurf.data.connectors.source import MessageSource
from driftsurf.data.source import Position
from driftsurf.errors import SourceError, StateError
from driftsurf.registry import register

__all__ = ["PostgresReader", "PostgresSource", "PostgresWriter"]

WINDOW = 100
"""A scan of the table serves this many batches; twice as many each time that there are more, up to ``MOST_ROWS``."""
MOST_ROWS = 2**20
PAUSE = 0.2
"""Seconds between two looks for new rows."""
SETTLING = 10.0
"""Seconds for which a run that does not follow waits for transactions that were under way when it began."""
MARKS = "driftsurf_marks"
"""Table in the schema of a destination, with the number of rows that were written to each."""
TYPES = {"text": "text", "integer": "bigint", "boolean": "boolean", "value": "double precision"}

log: logging.Logger = logging.getLogger("driftsurf.connectors")


class _Row(NamedTuple):
    key: list[str]
    value: bytes


class PostgresReader:
    """Reads a table or a query in the order of the transactions that wrote the rows, then by ``order``.

    A position names the last row that was read. Rows are planned once all transactions up to theirs are over.
    """

    def __init__(self, location: str) -> None:
        self._own = Database(location)
        self._selection = Selection(self._own)
        self._after: list[str] | None = None
        """Key of the last row that was planned."""
        self._stop: int | None = None
        self._cursor: Any = None
        self._left = self._batches = 0
        """Rows that the scan under way may still have, and batches for which it was made."""
        self._scanned: tuple[str, float] = "", 0.0
        """The horizon before the last scan, and how long the scan took."""
        self._read: tuple[Ranges, list[Message]] | None = None
        self._listening: Any = None

    @property
    def name(self) -> str:
        """The address without its parameters."""
        return self._own.name

    def open(self, position: Position, *, bounded: bool) -> None:
        """Begin after a position; SourceError if the table is another one by now."""
        self._forget()
        chosen = self._selection
        chosen.look()
        ((top,),) = self._own.rows(f"select {TOP}::text::bigint")
        self._stop = int(top) if bounded else None
        self._after = None
        if position is None:
            return
        if not isinstance(position, Mapping) or not {"table", "key", "after"} <= position.keys():
            raise StateError(f"not a position in a table of PostgreSQL: {position!r}")
        if position["key"] != chosen.names:
            raise SourceError(
                f"{self.name} was read in the order of {', '.join(position['key'])}, and has the order "
                f"{', '.join(chosen.names)} now; name the columns of the former with xid= and order="
            )
        if position["table"] != chosen.table or int(position["after"][0]) >= int(top):
            raise SourceError(
                f"{self.name} is another table than the one that was read before: it was made anew, or restored from "
                "a dump. Start a new run"
            )
        self._after = [str(one) for one in position["after"]]

    def plan(self, most: int, seconds: float) -> Plan | None:
        """Plan the next rows, which are read at once."""
        rows = self._fetch(most)
        if self._stop is None:
            if len(rows) < most and seconds:
                rows += self._wait(most - len(rows), seconds)
        elif not rows:
            rows = self._settle(most)
        if not rows:
            return None
        ranges = [[rows[0].key, rows[-1].key, len(rows), _digest(rows)]]
        self._read = ranges, [self._message(row) for row in rows]
        end = {"table": self._selection.table, "key": self._selection.names, "after": rows[-1].key}
        return Plan(ranges, end, certain=len(rows) == most)

    def read(self, ranges: Ranges) -> list[Message]:
        """Return the rows of a plan; SourceError if they were changed or deleted meanwhile."""
        if self._read is not None and self._read[0] is ranges:
            return self._read[1]
        messages = list[Message]()
        for first, last, count, digest in ranges:
            self._forget()
            select = self._selection.statement(first=True, last=True)
            rows = [self._row(one) for one in self._own.rows(select, (*first, *last))]
            if len(rows) != count or _digest(rows) != digest:
                raise SourceError(
                    f"{self.name}: rows from ({', '.join(first)}) to ({', '.join(last)}) of "
                    f"({', '.join(self._selection.names)}) were changed or deleted after they had been planned: "
                    f"{len(rows):,} of {count:,} are there. Start a new run, and read a table to which rows are only "
                    "added"
                )
            messages += [self._message(row) for row in rows]
            self._after = list(last)
        return messages

    def committed(self, position: Position) -> None:
        """Do nothing: nobody monitors this."""

    def lag(self) -> int | None:
        """Return how many rows follow, also those that wait for a transaction; at most a million are counted."""
        select = self._selection.statement(first=self._after is not None, everything=True)
        count = self._own.sql.SQL("select count(*) from ({} limit {}) s").format(select, MOST_ROWS + 1)
        ((found,),) = self._own.rows(count, self._after or ())
        return max(0, int(found) - (self._after is not None))

    def close(self) -> None:
        """Disconnect."""
        self._forget()
        self._own.close()

    # -------------------------------------------------------------------- scans

    def _fetch(self, most: int) -> list[_Row]:
        """Return the next rows, and move behind them."""
        rows, more = list[_Row](), True
        while len(rows) < most and more:
            found, more = self._own.ask(partial(self._fetch_some, most - len(rows)))
            for row in map(self._row, found):
                if row.key == self._after:
                    raise SourceError(
                        f"{self.name} has several rows with ({', '.join(row.key)}), so that they have no order; name a "
                        "column that tells them apart with order="
                    )
                rows.append(row)
                self._after = row.key
        return rows

    def _fetch_some(self, most: int) -> tuple[list[tuple[Any, ...]], bool]:
        """Return further rows of the scan that is under way, or of a new one, and whether there may be more."""
        if self._cursor is not None and self._cursor.connection is self._own.client:
            found = self._cursor.fetchmany(most)
            self._left -= len(found)
        else:
            self._drop_cursor()
            found = self._scan(most)
        if len(found) == most:
            return found, True
        self._cursor.close()
        self._cursor = None
        if self._left:
            self._batches = 0
        return found, not self._left

    def _scan(self, most: int) -> list[tuple[Any, ...]]:
        """Begin a scan after the last row, and return its first rows."""
        self._batches = min(2 * self._batches or WINDOW, max(1, MOST_ROWS // most))
        self._left = self._batches * most + 1
        horizon, began = self._horizon(), time.monotonic()
        # The server keeps the result of a cursor "with hold", so that no transaction stays open between batches.
        self._cursor = self._own.client.cursor("driftsurf", withhold=True)
        select = self._selection.statement(first=self._after is not None, stop=self._stop)
        self._cursor.execute(self._own.sql.SQL("{} limit {}").format(select, self._left), self._after or ())
        self._scanned = horizon, time.monotonic() - began
        found: list[tuple[Any, ...]] = self._cursor.fetchmany(1)
        if found and list(found[0][:-1]) == self._after:  # the row with which the scan before it ended
            found, self._left = [], self._left - 1
        found += self._cursor.fetchmany(most - len(found))
        self._left -= len(found)
        return found

    def _horizon(self) -> str:
        return str(self._own.client.execute(f"select {HORIZON}::text").fetchone()[0])

    def _wait(self, most: int, seconds: float) -> list[_Row]:
        """Return the rows that come within some seconds, as soon as there are any."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self._own.ask(partial(self._pause, left))
            if self._own.ask(self._horizon) != self._scanned[0] and (rows := self._fetch(most)):
                return rows
        return []

    def _pause(self, left: float) -> None:
        """Wait for a notification, or a little: the longer, the longer a scan takes."""
        pause = min(left, max(PAUSE, 5 * self._scanned[1]))
        channel, client = self._own.address.parameters.get("listen"), self._own.client
        if channel is None:
            time.sleep(pause)
            return
        if self._listening is not client:
            client.execute(self._own.sql.SQL("listen {}").format(self._own.sql.Identifier(channel)))
            self._listening = client
        for _ in client.notifies(timeout=pause, stop_after=1):
            pass

    def _settle(self, most: int) -> list[_Row]:
        """Return further rows of transactions that were under way when reading began, after waiting for their end."""
        end = time.monotonic() + SETTLING
        while (waits := int(self._own.ask(self._horizon)) < (self._stop or 0)) and time.monotonic() < end:
            time.sleep(PAUSE / 4)
        if waits:
            log.warning(
                "%s: a transaction that began before this run has not ended; later rows are left for the next run",
                self.name,
            )
            self._stop = int(self._own.ask(self._horizon))
        return self._fetch(most)

    def _forget(self) -> None:
        """End the scan that is under way."""
        self._read, self._batches = None, 0
        self._drop_cursor()

    def _drop_cursor(self) -> None:
        cursor, self._cursor = self._cursor, None
        if cursor is not None:
            with contextlib.suppress(self._own.library.Error):  # it has ended with its connection
                cursor.close()

    # -------------------------------------------------------------------- rows

    def _row(self, found: tuple[Any, ...]) -> _Row:
        *key, value = found
        if None in key:
            raise SourceError(f"{self.name} has a row without a value in a column that orders it; leave such rows out")
        return _Row(key, b"" if value is None else bytes(value))

    def _message(self, row: _Row) -> Message:
        place = ", ".join(f"{name} {value}" for name, value in zip(self._selection.names, row.key, strict=True))
        return Message(place, row.value)


def _digest(rows: Sequence[_Row]) -> str:
    digest = hashlib.blake2b(digest_size=8)
    for row in rows:
        digest.update(b"%d," % len(row.value) + row.value)
    return digest.hexdigest()


@register(
    "source",
    "postgresql",
    schemes=("postgresql", "postgres"),
    requires=("psycopg",),
    install="pip install 'driftsurf[postgresql]'",
)
class PostgresSource(MessageSource):
    """Rows from a table or a query of PostgreSQL."""

    def connect(self, location: str) -> Seekable:
        """Return the reader of a table."""
        return PostgresReader(location)


class PostgresWriter:
    """Writes rows to a table of PostgreSQL, and their number to a small table beside it, in one transaction."""

    exact: bool = True

    def __init__(self, location: str, columns: Mapping[str, str]) -> None:
        self._own = own = Database(location)
        self._columns = columns
        schema, table = own.place
        self._table = own.identifier(schema, table)
        self._marks = own.identifier(schema, MARKS)
        self._number = 0
        """Number of the table in the database."""

    @property
    def name(self) -> str:
        """The address without its parameters."""
        return self._own.name

    def open(self) -> int:
        """Make the table unless there is one; return the number of the first row that it lacks."""
        own, sql = self._own, self._own.sql
        if own.table() is None:
            cells = [
                sql.SQL(f"{{}} {TYPES[kind]}{' primary key' * (name == 'row')}").format(own.identifier(name))
                for name, kind in self._columns.items()
            ]
            make = sql.SQL("create table if not exists {} ({})").format(self._table, sql.SQL(", ").join(cells))
            own.ask(lambda: own.client.execute(make, ()))
        marks = sql.SQL("create table if not exists {} (relation oid primary key, rows bigint not null)")
        own.ask(lambda: own.client.execute(marks.format(self._marks), ()))
        found = own.table()
        assert found is not None
        self._number = found[0]
        there = [name for name, *_ in own.columns(self._number)]
        missing = [name for name in self._columns if name not in there]
        if missing:
            raise SourceError(
                f"{self.name} has no column {', '.join(map(repr, missing))}, so it is no table of predictions like "
                "these; choose another table"
            )
        return own.ask(self._mark)

    def _mark(self) -> int:
        """Return how many rows were written. A table without a mark, such as one from a dump, is asked itself."""
        client, sql = self._own.client, self._own.sql
        with client.transaction():
            count = sql.SQL("select coalesce(max(row) + 1, 0) from {}").format(self._table)
            mark = (
                "insert into {0} as m values (%s, ({1})) on conflict (relation) do update "
                "set rows = greatest(m.rows, excluded.rows) returning rows"
            )
            return int(client.execute(sql.SQL(mark).format(self._marks, count), (self._number,)).fetchone()[0])

    def write(self, first_row: int, rows: Sequence[Mapping[str, Any]]) -> None:
        """Write rows and their mark in one transaction."""
        if rows:
            self._own.ask(lambda: self._insert(first_row, rows))

    def _insert(self, first_row: int, rows: Sequence[Mapping[str, Any]]) -> None:
        client, sql, after = self._own.client, self._own.sql, first_row + len(rows)
        with client.transaction():
            mark = sql.SQL("select rows from {} where relation = %s for update").format(self._marks)
            (held,) = client.execute(mark, (self._number,)).fetchone() or (0,)
            if held == after:  # the connection was lost after the rows were committed
                return
            if held != first_row:
                raise SourceError(
                    f"{self.name} holds {held:,} rows, and rows from {first_row:,} on were to follow: somebody else "
                    "writes to it, or its server lost rows that it had confirmed"
                )
            names = sql.SQL(", ").join(map(self._own.identifier, self._columns))
            with client.cursor().copy(sql.SQL("copy {} ({}) from stdin").format(self._table, names), ()) as copy:
                for row in rows:
                    copy.write_row([_cell(row[name], kind) for name, kind in self._columns.items()])
            update = sql.SQL("update {} set rows = %s where relation = %s").format(self._marks)
            client.execute(update, (after, self._number))

    def flush(self) -> None:
        """Do nothing: a row that was written is committed."""

    def clear(self) -> None:
        """Remove all rows."""
        self._own.ask(self._clear)

    def _clear(self) -> None:
        client, sql = self._own.client, self._own.sql
        with client.transaction():
            client.execute(sql.SQL("truncate {}").format(self._table), ())
            client.execute(sql.SQL("update {} set rows = 0 where relation = %s").format(self._marks), (self._number,))

    def close(self) -> None:
        """Disconnect."""
        self._own.close()


def _cell(value: Any, kind: str) -> Any:
    """Return a value as PostgreSQL can hold it: its text has no NUL and no half characters."""
    if value is None or kind != "text":
        return value
    return str(value).replace("\0", "\ufffd").encode("utf-8", "replace").decode()
