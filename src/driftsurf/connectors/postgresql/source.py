"""PostgreSQL: ``postgresql://host:5432/DATABASE/TABLE``, or ``postgresql://host/DATABASE?query=SELECT...``.

Rows are read in the order of the transactions that wrote them, and only once no transaction can still commit a row
before them. A cursor over an id alone would pass over the rows of a transaction that took its ids early and committed
late.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

from driftsurf.connectors.postgresql.client import HORIZON, TOP, Database, Selection
from driftsurf.connectors.postgresql.scans import Rows, Scans
from driftsurf.data.messages.contract import BrokerMessage, Messages, Plan, Ranges, Seekable
from driftsurf.data.messages.source import MessageSource
from driftsurf.data.source import Position
from driftsurf.errors import SourceError, StateError
from driftsurf.registry import register

COUNTED = 2**20
"""Rows that are counted at most."""
PAUSE = 0.2
"""Seconds between two looks for new rows."""
SETTLING = 10.0
"""Seconds for which a run that does not follow waits for transactions that were under way when it began."""

log: logging.Logger = logging.getLogger("driftsurf.connectors")


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
        self._scans: Scans | None = None
        self._read: tuple[Ranges, Messages] | None = None
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
                f"{self.name} is another table than the one that was read before: it was recreated, or restored from "
                "a dump. Start a new run"
            )
        self._after = [str(one) for one in position["after"]]

    def plan(self, most: int, seconds: float) -> Plan | None:
        """Plan the next rows, which are read at once."""
        rows = self._fetch(most, again=self._stop is None)
        if self._stop is None:
            if len(rows) < most and seconds:
                rows.add(self._wait(most - len(rows), seconds))
        elif not rows:
            rows = self._settle(most)
        if not rows:
            return None
        first, last, count = rows.key(0), rows.key(-1), len(rows)
        ranges = [[first, last, count, _digest(rows.values)]]
        self._read = ranges, self._messages(rows)
        end = {"table": self._selection.table, "key": self._selection.names, "after": last}
        return Plan(ranges, end, certain=count == most)

    def read(self, ranges: Ranges) -> Sequence[BrokerMessage]:
        """Return the rows of a plan; SourceError if they were changed or deleted meanwhile."""
        if self._read is not None and self._read[0] is ranges:
            return self._read[1]
        messages = list[BrokerMessage]()
        for first, last, count, digest in ranges:
            self._forget()
            select = self._selection.statement(first=True, last=True)
            rows = Rows(self._own.rows(select, (*first, *last)))
            if len(rows) != count or _digest(rows.values) != digest:
                raise SourceError(
                    f"{self.name}: rows from ({', '.join(first)}) to ({', '.join(last)}) of "
                    f"({', '.join(self._selection.names)}) were changed or deleted after they had been planned: "
                    f"{len(rows):,} of {count:,} are there. Start a new run, and read a table to which rows are "
                    "only added"
                )
            messages += self._messages(rows)
            self._after = list(last)
        return messages

    def committed(self, position: Position) -> None:
        """Do nothing: nobody monitors this."""

    def lag(self) -> int | None:
        """Return how many rows follow, also those that wait for a transaction; at most a million are counted."""
        select = self._selection.statement(first=self._after is not None, everything=True)
        count = self._own.sql.SQL("select count(*) from ({} limit {}) s").format(select, COUNTED + 1)
        ((found,),) = self._own.rows(count, self._after or ())
        return max(0, int(found) - (self._after is not None))

    def close(self) -> None:
        """Disconnect."""
        self._forget()
        self._own.close()

    # -------------------------------------------------------------------- scans

    def _fetch(self, most: int, *, again: bool) -> Rows:
        """Return the next rows, and move behind them; with ``again``, those that have come by now."""
        rows = self._own.ask(partial(self._take, most, again))
        if not rows:
            return rows
        if any(None in one for one in rows.keys):
            raise SourceError(f"{self.name} has a row without a value in a column that orders it; leave such rows out")
        same = next((one for one, other in pairwise(zip(*rows.keys, strict=True)) if one == other), None)
        if same is not None or rows.key(0) == self._after:
            twice = rows.key(0) if same is None else map(str, same)
            raise SourceError(
                f"{self.name} has several rows with ({', '.join(twice)}), so that they have no order; name a column "
                "that tells them apart with order="
            )
        self._after = rows.key(-1)
        return rows

    def _take(self, most: int, again: bool) -> Rows:
        if self._scans is None:
            self._scans = Scans(self._selection, self._after, self._stop)
        try:
            return self._scans.take(most, again=again)
        except self._own.library.Error:
            self._forget()
            raise

    def _horizon(self) -> int:
        return int(self._own.client.execute(f"select {HORIZON}::text").fetchone()[0])

    def _wait(self, most: int, seconds: float) -> Rows:
        """Return the rows that come within some seconds, as soon as there are any."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self._own.ask(partial(self._pause, left))
            known = 0 if self._scans is None else self._scans.horizon
            if self._own.ask(self._horizon) != known and (rows := self._fetch(most, again=True)):
                return rows
        return Rows()

    def _pause(self, left: float) -> None:
        """Wait for a notification, or a little: the longer, the longer a scan takes."""
        pause = min(left, max(PAUSE, 0.0 if self._scans is None else 5 * self._scans.seconds))
        channel, client = self._own.address.parameters.get("listen"), self._own.client
        if channel is None:
            time.sleep(pause)
            return
        if self._listening is not client:
            client.execute(self._own.sql.SQL("listen {}").format(self._own.sql.Identifier(channel)))
            self._listening = client
        for _ in client.notifies(timeout=pause, stop_after=1):
            pass

    def _settle(self, most: int) -> Rows:
        """Return further rows of transactions that were under way when reading began, after waiting for their end."""
        end, stop = time.monotonic() + SETTLING, self._stop or 0
        if self._scans is not None and self._scans.horizon >= stop:  # all of them were over before the last scan
            return Rows()
        while (waits := self._own.ask(self._horizon) < stop) and time.monotonic() < end:
            time.sleep(PAUSE / 4)
        if waits:
            log.warning(
                "%s: a transaction that began before this run has not ended; later rows are left for the next run",
                self.name,
            )
            self._stop = self._own.ask(self._horizon)
            self._forget()  # scans end there
        return self._fetch(most, again=True)

    def _forget(self) -> None:
        """End the scan that is under way."""
        self._read = None
        scans, self._scans = self._scans, None
        if scans is not None:
            scans.close()

    # -------------------------------------------------------------------- rows

    def _messages(self, rows: Rows) -> Messages:
        names = self._selection.names
        return Messages(
            rows.values, lambda n: ", ".join(f"{name} {one}" for name, one in zip(names, rows.key(n), strict=True))
        )


def _digest(values: Sequence[bytes]) -> str:
    data = b"".join([b"%d,%b" % (len(value), value) for value in values])
    return hashlib.blake2b(data, digest_size=8).hexdigest()


@register(
    "source",
    "postgresql",
    schemes=("postgresql", "postgres"),
    requires=("psycopg",),
    install="pip install 'driftsurf[connectors]'",
)
class PostgresSource(MessageSource):
    """Rows from a table or a query of PostgreSQL."""

    def connect(self, location: str) -> Seekable:
        """Return the reader of a table."""
        return PostgresReader(location)
