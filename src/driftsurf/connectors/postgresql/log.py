"""Log of a served model in PostgreSQL: ``postgresql://host:5432/DATABASE/LOG``, a table with a row for each record."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

from driftsurf.connectors.postgresql.client import Database
from driftsurf.connectors.shared_log import TRIED_SECONDS, Holder, LogEnds, SharedLog
from driftsurf.errors import LogConflictError, OptionError
from driftsurf.registry import register

HEAD = "_head"
"""Suffix of the table with the head of a log: its numbers, and who has the lease."""
LONGEST = 63 - len(HEAD)
ROWS = 4096
"""Records that are looked at in one query."""


@register(
    "log",
    "postgresql",
    schemes=("postgresql", "postgres"),
    requires=("psycopg",),
    install="pip install 'driftsurf[connectors]'",
)
class PostgresLog(SharedLog):
    """A table of PostgreSQL, and a row beside it by which writers are kept apart.

    A transaction that appends changes that row from the number that it expects, so that of two writers one is refused,
    also if the record with which the other would collide has been dropped. Times of leases are those of the server.
    """

    def __init__(self, location: str, about: str = "") -> None:
        self._own, self._reader = Database(location), Database(location)
        for one in (self._own, self._reader):
            one.retry.seconds = TRIED_SECONDS
        schema, table = self._own.place
        if len(table) > LONGEST:
            raise OptionError(f"the name of the log {table!r} is too long; use at most {LONGEST} characters")
        self._names = self._own.identifier(schema, table), self._own.identifier(schema, table + HEAD)
        super().__init__(location, about)

    @property
    def name(self) -> str:
        """The address without its parameters."""
        return self._own.name

    def _run(self, own: Database, statement: str, *values: Any) -> Any:
        """Execute a statement in which {0} is the log and {1} its head."""
        return own.client.execute(own.sql.SQL(statement).format(*self._names), values)

    def _one(self, own: Database, statement: str, *values: Any) -> Any:
        """Return the first row of a statement, or None; it may be executed twice if the connection is lost."""
        return own.ask(lambda: self._run(own, statement, *values).fetchone())

    def _make(self, about: str) -> str:
        def make() -> str:
            self._run(self._own, "select pg_advisory_xact_lock(hashtext(%s))", self.name)  # two may make it at once
            self._run(
                self._own,
                "create table if not exists {0} "
                "(number bigint primary key, total bigint not null, payload bytea not null)",
            )
            self._run(
                self._own,
                "create table if not exists {1} (one boolean primary key check (one), about text not null, "
                "first bigint not null, next bigint not null, dropped bigint not null, total bigint not null, "
                "writer text not null, holder text not null, address text not null, until timestamptz not null)",
            )
            self._run(
                self._own,
                "insert into {1} values (true, %s, 0, 0, 0, 0, '', '', '', '-infinity') on conflict do nothing",
                about,
            )
            return str(self._run(self._own, "select about from {1}").fetchone()[0])

        def whole() -> str:
            with self._own.client.transaction():
                return make()

        return self._own.ask(whole)

    def _ends(self) -> LogEnds:
        return LogEnds(*self._one(self._reader, "select first, next, dropped, total from {1}"))

    def _append(self, payloads: Sequence[bytes], expected: int) -> None:
        writer, size = uuid.uuid4().hex, sum(map(len, payloads))

        # One statement: a process that is paused must never hold the lock of the head, for which others would wait.
        statement = (
            "with head as (update {1} set next = next + %s, total = total + %s, writer = %s where next = %s "
            "returning total), records as (insert into {0} select r.number, head.total - r.above, r.payload "
            "from head, unnest(%s::bigint[], %s::bigint[], %b::bytea[]) as r (number, above, payload)) "
            "select true from head"
        )
        numbers, above, left = list(range(expected, expected + len(payloads))), list[int](), size
        for payload in payloads:
            above.append(left)
            left -= len(payload)
        values = len(payloads), size, writer, expected, numbers, above, list(payloads)

        def append() -> None:
            if not payloads or self._run(self._own, statement, *values).fetchone() is not None:
                return
            there, last = self._run(self._own, "select next, writer from {1}").fetchone()
            if last != writer:  # otherwise the connection was lost after the statement had been carried out
                raise LogConflictError(
                    f"the next record of {self.name} is {there}, and not {expected}: another process writes to it"
                )

        self._own.ask(append)

    def _fetch(self, start: int, most_bytes: int) -> list[tuple[int, bytes]]:
        statement = (
            "select number, payload from (select number, payload, total + octet_length(payload) - first_value(total) "
            "over (order by number) as read from {0} where number >= %s order by number limit %s) t "
            "where read <= %s or number = %s order by number"
        )
        own = self._reader
        rows: list[tuple[int, bytes]] = own.ask(
            lambda: self._run(own, statement, start, ROWS, most_bytes, start).fetchall()
        )
        if rows:
            return rows
        dropped = "select number, payload from {0} where number = (select first from {1}) and number > %s"
        found = self._one(own, dropped, start)
        return [] if found is None else [found]

    def _total_before(self, number: int) -> int:
        found = self._one(self._reader, "select total from {0} where number = %s", number)
        if found is None:
            found = self._one(self._reader, "select total from {1}")
        return int(found[0])

    def _drop(self, before: int) -> None:
        total = self._total_before(before)

        statement = (
            "with records as (delete from {0} where number < %s) "
            "update {1} set first = %s, dropped = %s where first < %s and next >= %s returning true"
        )
        with self._writing:
            self._one(self._own, statement, before, before, total, before, before)

    def _take(self, seconds: float, holder: Holder) -> bool:
        statement = (
            "update {1} set holder = %s, address = %s, until = clock_timestamp() + make_interval(secs => %s) "
            "where holder in (%s, '') or until < clock_timestamp() returning true"
        )
        return self._one(self._own, statement, *holder, seconds, holder.token) is not None

    def _holder(self) -> Holder | None:
        found = self._one(
            self._reader, "select holder, address from {1} where holder <> '' and until >= clock_timestamp()"
        )
        return None if found is None else Holder(*found)

    def _give_up(self) -> None:
        self._one(self._own, "update {1} set holder = '', address = '' where holder = %s returning true", self.token)

    def _leave(self) -> None:
        self._own.close()
        self._reader.close()
