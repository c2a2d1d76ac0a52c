"""Redis Streams: ``redis://host:6379/DATABASE/STREAM``, ``rediss://`` with TLS.

An entry with one field is a message, whose value is a row. An entry with several fields is a row itself: its fields are
columns, and text that is written like a number is one.
"""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from driftsurf.connectors.sink import ConnectorSink, WriterFactory
from driftsurf.data.messages.client import Address, RetryPolicy
from driftsurf.data.messages.contract import BrokerMessage, Plan, Ranges, Seekable
from driftsurf.data.messages.source import MessageSource
from driftsurf.data.source import Position
from driftsurf.errors import OptionError, SourceError, StateError
from driftsurf.registry import register

FORM = "redis://HOST:PORT/DATABASE/STREAM"
PARAMETERS = "ca", "cert", "key"
OLDEST = "0-0"
_NUMBER = re.compile(rb"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")


class _Connection:
    """A stream of a Redis server."""

    def __init__(self, location: str) -> None:
        self.address = address = Address.parse(location, port=6379, known=PARAMETERS)
        database = address.part(0, "a database and a stream", FORM)
        if not database.isdecimal():
            raise OptionError(f"{database!r} is no database of Redis, which are numbers; write {FORM}")
        self.database, self.stream = int(database), address.part(1, "a stream", FORM)
        # Imported here, so that this file can be imported where the client is not installed.
        self.library: Any = importlib.import_module("redis")
        errors = self.library.ConnectionError, self.library.TimeoutError, self.library.BusyLoadingError
        # Both are errors of connections, too.
        refusals = self.library.AuthenticationError, self.library.exceptions.AuthorizationError
        self.retry = RetryPolicy(self.name, errors, refuses=lambda error: isinstance(error, refusals))
        self.client: Any = None

    @property
    def name(self) -> str:
        """The address without its parameters."""
        return self.address.name

    def connect(self) -> None:
        """Make a client; the server is reached with the first command."""
        address = self.address
        password = address.password()
        tls: dict[str, Any] = {}
        if address.scheme == "rediss":
            names = {"ca": "ssl_ca_certs", "cert": "ssl_certfile", "key": "ssl_keyfile"}
            tls = {"ssl": True} | {
                names[one]: address.parameters[one] for one in PARAMETERS if one in address.parameters
            }
        self.client = self.library.Redis(
            address.host,
            address.port,
            self.database,
            username=address.user or None,
            password=None if password is None else password.value,
            socket_connect_timeout=10,
            socket_timeout=60,
            **tls,
        )

    def ask(self, command: str, *arguments: Any, **options: Any) -> Any:
        """Return the answer to a command; SourceError if the server cannot be reached or refuses it."""
        if self.client is None:
            self.connect()
        try:
            return self.retry.call(lambda: getattr(self.client, command)(*arguments, **options))
        except self.library.RedisError as error:
            raise SourceError(f"{self.name}: {error}") from error

    def about(self) -> dict[str, Any]:
        """Return what the server knows about the stream; an empty dictionary if there is none."""
        try:
            found: dict[str, Any] = self.ask("xinfo_stream", self.stream)
        except SourceError as error:
            if "no such key" in str(error):
                return {}
            raise
        return found

    def close(self) -> None:
        """Disconnect."""
        if self.client is not None:
            self.client.close()
            self.client = None


class RedisStream:
    """Reads a stream of Redis by the ids of its entries, without a consumer group.

    A position is the id of the last entry that was read, and the number of entries up to it since the stream was made,
    by which entries that were trimmed before they were read are found.
    """

    def __init__(self, location: str) -> None:
        self._own = _Connection(location)
        self._last, self._count, self._stop = OLDEST, 0, ""
        self._read: tuple[Ranges, list[BrokerMessage]] | None = None

    @property
    def name(self) -> str:
        """The address without its parameters."""
        return self._own.name

    def open(self, position: Position, *, bounded: bool) -> None:
        """Begin after a position; SourceError if entries after it are gone."""
        about = self._own.about()
        added, length = int(about.get("entries-added", 0)), int(about.get("length", 0))
        self._stop = _text(about.get("last-generated-id", OLDEST)) if bounded else ""
        if position is None:
            self._last, self._count = OLDEST, added - length
            return
        if not isinstance(position, Sequence) or len(position) != 2:
            raise StateError(f"not a position in a stream of Redis: {position!r}")
        self._last, self._count = str(position[0]), int(position[1])
        gone = added - length - self._count
        deleted = _text(about.get("max-deleted-entry-id", OLDEST))
        if added < self._count:
            raise SourceError(
                f"{self.name} has had {added:,} entries, but {self._count:,} were read from it: it was recreated, or "
                "lost by a restart. Start a new run, or restore the stream"
            )
        if gone > 0 or _order(deleted) > _order(self._last):
            first = about.get("first-entry")
            until = _text(first[0]) if first else "its end"
            lost = f"{gone:,} entries" if gone > 0 else "entries"
            raise SourceError(
                f"{self.name}: {lost} between {self._last} and {until} were trimmed or deleted before they were read. "
                "Start a new run, and let the stream keep more entries"
            )

    def plan(self, most: int, seconds: float) -> Plan | None:
        """Plan the next entries, which are read at once, since Redis does not tell their ids without them."""
        if self._stop and _order(self._last) >= _order(self._stop):
            return None
        found = self._fetch(most, seconds)
        if not found:
            return None
        ranges = [[found[0][0], found[-1][0], len(found)]]
        self._last, self._count = found[-1][0], self._count + len(found)
        self._read = ranges, [_message(id, fields) for id, fields in found]
        return Plan(ranges, [self._last, self._count], certain=len(found) == most)

    def _fetch(self, most: int, seconds: float) -> list[tuple[str, Mapping[bytes, bytes]]]:
        """Return up to ``most`` entries after the last one."""
        found = self._range(f"({self._last}", self._stop or "+", most)
        if len(found) < most and seconds:
            after = found[-1][0] if found else self._last
            more = self._own.ask("xread", {self._own.stream: after}, count=1, block=max(1, round(seconds * 1000)))
            if more:
                found = self._range(f"({self._last}", "+", most)
        return found

    def _range(self, first: str, last: str, most: int) -> list[tuple[str, Mapping[bytes, bytes]]]:
        found = self._own.ask("xrange", self._own.stream, first, last, count=most)
        return [(_text(id), fields) for id, fields in found]

    def read(self, ranges: Ranges) -> list[BrokerMessage]:
        """Return the entries of a plan."""
        if self._read is not None and self._read[0] is ranges:
            return self._read[1]
        messages = list[BrokerMessage]()
        for first, last, count in ranges:
            found = self._range(first, last, count)
            if len(found) != count:
                raise SourceError(
                    f"{self.name}: {count - len(found):,} of the {count:,} entries from {first} to {last} were trimmed "
                    "or deleted after they had been planned. Start a new run, and let the stream keep more entries"
                )
            messages += [_message(id, fields) for id, fields in found]
            self._last, self._count = last, self._count + count
        return messages

    def committed(self, position: Position) -> None:
        """Do nothing: without a consumer group there is nobody to tell."""

    def lag(self) -> int | None:
        """Return how many entries follow."""
        return max(0, int(self._own.about().get("entries-added", 0)) - self._count)

    def close(self) -> None:
        """Disconnect."""
        self._read = None
        self._own.close()


@register(
    "source", "redis", schemes=("redis", "rediss"), requires=("redis",), install="pip install 'driftsurf[connectors]'"
)
class RedisSource(MessageSource):
    """Rows from a stream of Redis."""

    def connect(self, location: str) -> Seekable:
        """Return the reader of a stream."""
        return RedisStream(location)


class RedisWriter:
    """Writes rows to a stream of Redis; row n has the id (n + 1)-0, so that Redis refuses a second copy."""

    exact: bool = True

    def __init__(self, location: str, columns: Mapping[str, str]) -> None:
        self._own = _Connection(location)

    @property
    def name(self) -> str:
        """The address without its parameters."""
        return self._own.name

    def open(self) -> int:
        """Return the number of the first row that the stream lacks."""
        last = _text(self._own.about().get("last-generated-id", OLDEST))
        rows, part = _order(last)
        if part:
            raise SourceError(
                f"{self.name} holds entries that are no rows of a run, up to {last}; choose another stream"
            )
        return rows

    def write(self, first_row: int, rows: Sequence[Mapping[str, Any]]) -> None:
        """Append rows in one round trip."""
        self._own.ask("ping")
        self._own.retry.call(lambda: self._append(first_row, [json.dumps(row) for row in rows]))

    def _append(self, first_row: int, texts: Sequence[str]) -> None:
        client = self._own.client
        pipeline = client.pipeline(transaction=False)
        for number, text in enumerate(texts, start=first_row):
            pipeline.xadd(self._own.stream, {"value": text}, id=f"{number + 1}-0")
        # A batch that is repeated after a lost connection may be there in part: Redis refuses what it has.
        refused = [
            one for one in pipeline.execute(raise_on_error=False) if isinstance(one, self._own.library.RedisError)
        ]
        unknown = next((one for one in refused if "equal or smaller" not in str(one)), None)
        if unknown is not None:
            raise SourceError(f"{self.name}: {unknown}") from unknown
        if refused and _order(self._last()) < (first_row + len(texts), 0):
            raise SourceError(f"{self.name} refused rows that it does not have; somebody else writes to it")

    def _last(self) -> str:
        return _text(self._own.about().get("last-generated-id", OLDEST))

    def flush(self) -> None:
        """Do nothing: a row that was written has been acknowledged. How durable it is, Redis is configured for."""

    def clear(self) -> None:
        """Remove the stream."""
        self._own.ask("delete", self._own.stream)

    def close(self) -> None:
        """Disconnect."""
        self._own.close()


def _message(id: str, fields: Mapping[bytes, bytes]) -> BrokerMessage:
    place = f"entry {id}"
    if len(fields) == 1:
        return BrokerMessage(place, next(iter(fields.values())))
    cells = {_text(name): _cell(value) for name, value in (fields or {}).items()}
    return BrokerMessage(
        place, ("{" + ", ".join(f"{json.dumps(name)}: {cell}" for name, cell in cells.items()) + "}").encode()
    )


def _cell(value: bytes) -> str:
    """Return a value as JSON: a number if it is written like one, else text."""
    if _NUMBER.fullmatch(value):
        return value.decode()
    return json.dumps(value.decode("utf-8", "backslashreplace"))


def _text(value: bytes | str) -> str:
    return value if isinstance(value, str) else value.decode("utf-8", "backslashreplace")


def _order(id: str) -> tuple[int, int]:
    first, _, second = id.partition("-")
    return int(first), int(second or 0)


@register(
    "sink", "redis", schemes=("redis", "rediss"), requires=("redis",), install="pip install 'driftsurf[connectors]'"
)
class RedisSink(ConnectorSink):
    """A stream of Redis."""

    writer: ClassVar[WriterFactory] = RedisWriter
