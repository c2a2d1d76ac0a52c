"""RabbitMQ: ``amqp://host:5672/QUEUE``, ``amqps://`` with TLS.

A stream keeps its messages, and is read by their offsets. Any other queue hands each message out once, so its messages
are kept in a log of our own. The broker is asked which of both a queue is.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import socket
import ssl
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

from driftsurf.data.connectors.address import Address
from driftsurf.data.connectors.contract import Inbox, Message, Plan, Ranges, Received, Seekable
from driftsurf.data.connectors.inbox import InboxSource
from driftsurf.data.connectors.patience import Patience
from driftsurf.data.connectors.source import MessagePosition
from driftsurf.data.source import Position
from driftsurf.data.sources._columns import OnSkip
from driftsurf.data.tables import Table
from driftsurf.errors import SourceError, SourceUnreachableError
from driftsurf.registry import register

__all__ = ["RabbitInbox", "RabbitSource", "RabbitStream", "RabbitWriter"]

FORM = "amqp://HOST:PORT/QUEUE"
PARAMETERS = "vhost", "stream", "ca", "cert", "key"
PREFETCH = 1_000
"""Messages that are handed out before one of them is acknowledged."""
QUIET = 1.0
"""Seconds without a message after which the end of a stream is reached."""
LOST = 60.0
"""Seconds after which messages that have to be there are missing."""
OFFSET = "x-stream-offset"
NOT_FOUND, LOCKED, NOT_IMPLEMENTED = 404, 405, 540
"""Codes with which the broker refuses."""

Result = TypeVar("Result")


class _Delivery(NamedTuple):
    tag: int
    offset: int
    id: str
    body: bytes


class _Queue:
    """A connection to a broker, and what its consumer has received."""

    def __init__(self, location: str) -> None:
        secure = location.partition(":")[0].lower() == "amqps"
        self.address = Address.parse(location, port=5671 if secure else 5672, known=PARAMETERS)
        self.queue = self.address.part(0, "a queue", FORM)
        self.secure = secure
        # Imported here, so that this file can be imported where the client is not installed.
        self.library: Any = importlib.import_module("pika")
        self.errors: Any = importlib.import_module("pika.exceptions")
        lost = self.errors.AMQPConnectionError, ConnectionError, TimeoutError, socket.gaierror
        self.patience = Patience(self.name, lost, reconnect=self.close)
        self.connection: Any = None
        self.channel: Any = None
        self.came: deque[_Delivery] = deque()
        self.generation: int = 0
        """Number of connections so far: messages of earlier ones can no longer be acknowledged."""

    @property
    def name(self) -> str:
        """The address without its parameters."""
        return self.address.name

    def connect(self) -> Any:
        """Return a channel of a new connection."""
        self.close()
        library, address = self.library, self.address
        password = address.password()
        credentials = library.PlainCredentials(
            address.user or "guest", "guest" if password is None else password.value, erase_on_connect=False
        )
        tls = None
        if self.secure:
            given = address.parameters
            context = ssl.create_default_context(cafile=given.get("ca"))
            if "cert" in given:
                context.load_cert_chain(given["cert"], given.get("key"))
            tls = library.SSLOptions(context, address.host)
        parameters = library.ConnectionParameters(
            address.host,
            address.port,
            address.parameters.get("vhost", "/"),
            credentials,
            heartbeat=300,  # learning a batch may take long
            blocked_connection_timeout=60,
            ssl_options=tls,
        )
        try:
            self.connection = library.BlockingConnection(parameters)
        except (self.errors.ProbableAuthenticationError, self.errors.ProbableAccessDeniedError) as error:
            raise SourceError(f"{self.name} refuses: {_reason(error)}. Check user, password and vhost") from error
        self.generation += 1
        self.came.clear()
        self.channel = self.connection.channel()
        return self.channel

    def ask(self, act: Callable[[], Result]) -> Result:
        """Return what ``act`` returns; SourceError if the broker cannot be reached or refuses."""
        try:
            return self.patience.call(act)
        except self.errors.AMQPError as error:
            self.close()
            raise SourceError(f"{self.name}: {_reason(error)}") from error

    def is_stream(self) -> bool:
        """Return whether the queue is a stream, by what the broker refuses to do with one."""
        if "stream" in self.address.parameters:
            return self.address.flag("stream")
        return self.ask(self._is_stream)

    def _is_stream(self) -> bool:
        channel = self.connect()
        try:
            channel.queue_declare(self.queue, passive=True)
            channel.basic_get(self.queue)  # given back when the connection ends
        except (self.errors.ConnectionClosedByBroker, self.errors.ChannelClosedByBroker) as error:
            if error.reply_code == NOT_FOUND:
                raise SourceError(f"{self.name}: there is no queue {self.queue!r}; declare it first") from error
            if error.reply_code != NOT_IMPLEMENTED:
                raise
            return True
        finally:
            self.close()
        return False

    def consume(self, arguments: Mapping[str, Any]) -> None:
        """Begin to receive messages."""
        channel = self.connect()
        channel.basic_qos(prefetch_count=PREFETCH)
        channel.basic_consume(self.queue, self._received, arguments=dict(arguments))

    def _received(self, channel: Any, method: Any, properties: Any, body: bytes) -> None:
        offset = int((properties.headers or {}).get(OFFSET, -1))
        self.came.append(_Delivery(method.delivery_tag, offset, properties.message_id or "", body))

    def wait(self, seconds: float) -> None:
        """Wait for a message, unless there is one."""
        end = time.monotonic() + seconds
        while not self.came:
            left = max(0.0, end - time.monotonic())
            self.connection.process_data_events(min(left, 1.0))
            if not left:
                break

    def close(self) -> None:
        """Disconnect. Messages that were received and not acknowledged are handed out again."""
        connection, self.connection, self.channel = self.connection, None, None
        self.came.clear()
        if connection is not None and connection.is_open:
            with contextlib.suppress(self.errors.AMQPError):  # it may have ended by itself
                connection.close()


def _reason(error: Any) -> str:
    return str(getattr(error, "reply_text", "")) or str(error) or type(error).__name__


# ---------------------------------------------------------------------------- streams


class RabbitStream:
    """Reads a stream of RabbitMQ by offsets. A position is the offset of the next message."""

    def __init__(self, location: str) -> None:
        self._own = _Queue(location)
        self._next: int | None = None
        """Offset of the next message; None for the oldest one."""
        self._stop: int | None = None
        self._consumes = False
        self._read: tuple[Ranges, list[Message]] | None = None

    @property
    def name(self) -> str:
        """The address without its parameters."""
        return self._own.name

    def open(self, position: Position, *, bounded: bool) -> None:
        """Begin at an offset; SourceError if messages from there on are gone."""
        self._restart()
        self._next = None if position is None else int(str(position))
        self._stop = None
        last = self.last_offset() if bounded or self._next is not None else -1
        if self._next is not None:
            if last + 1 < self._next:
                raise SourceError(
                    f"{self.name} has no message {self._next - 1:,} any more, which was read from it: its last one is "
                    f"{last:,}. The stream was made anew; start a new run"
                )
            self._check_kept(self._next)
        if bounded:
            self._stop = last + 1

    def _edge(self, edge: str, quiet: float) -> list[_Delivery]:
        """Return the messages from the beginning of the stream or of its last chunk on, until none comes for a while.

        The count of the broker is some seconds old, so it only tells that a message has to be there.
        """
        return self._own.ask(partial(self._edge_once, edge, quiet))

    def _edge_once(self, edge: str, quiet: float) -> list[_Delivery]:
        own = self._own
        self._restart()
        own.consume({OFFSET: edge})
        found = list[_Delivery]()
        end = time.monotonic() + LOST
        while True:
            own.wait(quiet)
            if not own.came:
                count = own.channel.queue_declare(own.queue, passive=True).method.message_count
                if found or not count or time.monotonic() > end:
                    break
            while own.came:
                found.append(own.came.popleft())
            if edge == "first" and found:
                break
            if found:
                own.channel.basic_ack(found[-1].tag, multiple=True)
                del found[:-1]
        self._restart()
        return found

    def last(self) -> _Delivery | None:
        """Return the last message of the stream; None if it is empty."""
        found = self._edge("last", QUIET)
        return found[-1] if found else None

    def last_offset(self) -> int:
        """Return the offset of the last message; -1 if there is none."""
        last = self.last()
        return -1 if last is None else last.offset

    def _check_kept(self, offset: int) -> None:
        """Raise SourceError if the message at an offset was removed by the retention of the stream."""
        found = self._edge("first", QUIET)
        if found and found[0].offset > offset:
            raise SourceError(
                f"{self.name}: the messages {offset:,} to {found[0].offset - 1:,} were removed before they were read. "
                "Start a new run, and let the stream keep more messages"
            )

    def _restart(self) -> None:
        self._read, self._consumes = None, False
        self._own.close()

    def plan(self, most: int, seconds: float) -> Plan | None:
        """Plan the next messages, which are read at once."""
        if self._stop is not None:
            if self._stop <= (self._next or 0):
                return None
            seconds = LOST
        found = self._collect(most, self._stop, seconds)
        if not found:
            return None
        ranges = [[found[0].offset, found[-1].offset, len(found)]]
        self._read = ranges, [_message(one) for one in found]
        # Never certain: a slow broker may hand out fewer messages in the same time.
        return Plan(ranges, found[-1].offset + 1)

    def _collect(self, most: int, stop: int | None, seconds: float) -> list[_Delivery]:
        """Return the next messages before an offset; if there are none, wait for some."""
        found, end = list[_Delivery](), time.monotonic() + seconds
        while len(found) < most and (stop is None or (self._next or 0) < stop):
            before = len(found)
            for one in self._own.ask(partial(self._receive, most - len(found), max(0.0, end - time.monotonic()))):
                if self._next is not None and one.offset > self._next:
                    self._own.close()
                    self._check_kept(self._next)  # or the numbers between are the broker's own records
                if stop is None or one.offset < stop:
                    found.append(one)
                self._next = one.offset + 1
            if len(found) == before and time.monotonic() >= end:
                break
        if stop is not None and not found:
            raise SourceUnreachableError(
                f"{self.name}: the messages before {stop:,} did not come within {LOST:g} s; try again"
            )
        return found

    def _receive(self, most: int, seconds: float) -> list[_Delivery]:
        own = self._own
        if not self._consumes or own.connection is None:
            own.consume({OFFSET: "first" if self._next is None else self._next})
            self._consumes = True
        own.wait(seconds)
        found, last = list[_Delivery](), None
        while own.came and len(found) < most:
            last = own.came.popleft()
            if last.offset >= (self._next or 0):
                found.append(last)
        if last is not None:
            own.channel.basic_ack(last.tag, multiple=True)
        return found

    def read(self, ranges: Ranges) -> list[Message]:
        """Return the messages of a plan."""
        if self._read is not None and self._read[0] is ranges:
            return self._read[1]
        messages = list[Message]()
        for first, last, count in ranges:
            if self._next != first:
                self._restart()
                self._next = int(first)
            found = self._collect(count, last + 1, LOST)
            if len(found) != count or found[0].offset != first:
                raise SourceError(
                    f"{self.name}: of the {count:,} messages from {first:,} to {last:,}, which had been planned, "
                    f"{len(found):,} are there. Start a new run, and let the stream keep more messages"
                )
            messages += [_message(one) for one in found]
        return messages

    def committed(self, position: Position) -> None:
        """Do nothing: the broker keeps no positions of readers."""

    def lag(self) -> int | None:
        """Return None: the broker does not tell the last offset."""
        return None

    def close(self) -> None:
        """Disconnect."""
        self._restart()


def _message(one: _Delivery) -> Message:
    return Message(f"offset {one.offset}", one.body)


# ---------------------------------------------------------------------------- other queues


class RabbitInbox:
    """Takes messages from a queue of RabbitMQ that is no stream."""

    def __init__(self, location: str) -> None:
        self._own = _Queue(location)

    @property
    def name(self) -> str:
        """The address without its parameters."""
        return self._own.name

    def open(self) -> None:
        """Connect, and begin to receive."""
        self._own.ask(lambda: self._own.consume({}))

    def take(self, most: int, seconds: float) -> list[Received]:
        """Return messages that have come."""
        return self._own.ask(partial(self._take, most, seconds))

    def _take(self, most: int, seconds: float) -> list[Received]:
        own = self._own
        if own.connection is None:
            own.consume({})
        own.wait(seconds)
        found = list[Received]()
        while own.came and len(found) < most:
            one = own.came.popleft()
            found.append(Received((own.generation, one.tag), Message("", one.body), one.id))
        return found

    def done(self, tokens: Sequence[Any]) -> None:
        """Acknowledge messages. Those of a connection that was lost are handed out again."""
        own = self._own
        try:
            for generation, tag in tokens:
                if generation == own.generation and own.channel is not None:
                    own.channel.basic_ack(tag)
        except own.errors.AMQPError:
            own.close()

    def close(self) -> None:
        """Disconnect."""
        self._own.close()


@register(
    "source", "rabbitmq", schemes=("amqp", "amqps"), requires=("pika",), install="pip install 'driftsurf[rabbitmq]'"
)
class RabbitSource(InboxSource):
    """Rows from a stream or another queue of RabbitMQ."""

    connector: Seekable

    def inbox(self, location: str) -> Inbox:
        """Return the inbox of a queue."""
        return RabbitInbox(location)

    def tables(
        self, position: Position = None, *, on_skip: OnSkip | None = None
    ) -> Iterator[tuple[Table, MessagePosition]]:
        """Ask the broker what kind of queue it is, and yield batches of rows."""
        if not isinstance(self.connector, RabbitStream) and _Queue(self.location).is_stream():
            self.connector = RabbitStream(self.location)
        return super().tables(position, on_skip=on_skip)


# ---------------------------------------------------------------------------- writing


class RabbitWriter:
    """Publishes rows to a queue of RabbitMQ, which is made as a stream unless there is one.

    The last message of a stream tells the number of the last row, so that each row is there once. A queue of another
    kind cannot be asked, and gets rows at least once.
    """

    def __init__(self, location: str, columns: Mapping[str, str]) -> None:
        self._own = _Queue(location)
        self._stream: bool | None = None
        self._next = 0

    @property
    def name(self) -> str:
        """The address without its parameters."""
        return self._own.name

    @property
    def exact(self) -> bool:
        """Whether the queue is a stream."""
        return self._stream is not False

    def open(self) -> int:
        """Declare the queue if it is missing; return the number of the first row that it lacks."""
        own = self._own
        own.ask(self._declare)
        self._stream = own.is_stream()
        if not self._stream:
            own.ask(own.connect)
            return 0
        own.ask(self._lock)
        last = RabbitStream(own.address.text).last()
        self._next = 0 if last is None else _number(last.body, self.name) + 1
        return self._next

    def _declare(self) -> None:
        own = self._own
        try:
            own.connect().queue_declare(own.queue, passive=True)
        except own.errors.ChannelClosedByBroker as error:
            if error.reply_code != NOT_FOUND:
                raise
            kind = "stream" if own.address.parameters.get("stream", "true") == "true" else "classic"
            own.connect().queue_declare(own.queue, durable=True, arguments={"x-queue-type": kind})

    def _lock(self) -> None:
        """Hold a queue that only one connection can have, which ends after the messages of the connection before."""
        own, end = self._own, time.monotonic() + LOST
        while True:
            try:
                own.connect().queue_declare(f"{own.queue}.writer", exclusive=True)
                return
            except own.errors.ChannelClosedByBroker as error:
                if error.reply_code != LOCKED or time.monotonic() > end:
                    raise
                time.sleep(0.2)

    def write(self, first_row: int, rows: Sequence[Mapping[str, Any]]) -> None:
        """Publish rows, and return when the broker has confirmed them."""
        bodies = [json.dumps(row).encode() for row in rows]
        if not bodies:
            return
        if not self._stream:
            self._own.ask(partial(self._publish, bodies))
            return
        try:
            self._publish(bodies)
        except (*self._own.patience.errors, self._own.errors.AMQPError):
            there = self.open()  # any part of the rows may be there
            if not first_row <= there <= first_row + len(bodies):
                raise SourceError(
                    f"{self.name} holds {there:,} rows, and rows from {first_row:,} on were to follow: somebody else "
                    "writes to it, or it lost rows"
                ) from None
            if there < first_row + len(bodies):
                self._own.ask(partial(self._publish, bodies[there - first_row :]))

    def _publish(self, bodies: Sequence[bytes]) -> None:
        """Publish messages in one go.

        A stream keeps the order of a channel, so the confirmation of the last message is one for all of them. Other
        queues confirm each.
        """
        own = self._own
        if own.connection is None or not own.connection.is_open:
            own.connect()
        channel = own.connection.channel()
        if not self._stream:
            channel.confirm_delivery()
        lasting = own.library.BasicProperties(delivery_mode=2, content_type="application/json")
        for body in bodies[:-1]:
            channel.basic_publish("", own.queue, body, lasting)
        if self._stream:
            channel.confirm_delivery()
        channel.basic_publish("", own.queue, bodies[-1], lasting, mandatory=True)
        channel.close()

    def flush(self) -> None:
        """Do nothing: rows that were written are confirmed."""

    def clear(self) -> None:
        """Remove all messages of a queue; a stream refuses."""
        if self._stream:
            raise SourceError(f"{self.name}: RabbitMQ removes no messages from a stream; delete it, or choose another")
        self._own.ask(lambda: self._own.connect().queue_purge(self._own.queue))

    def close(self) -> None:
        """Disconnect."""
        self._own.close()


def _number(body: bytes, name: str) -> int:
    """Return the number of the row in a message."""
    try:
        return int(json.loads(body)["row"])
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise SourceError(f"{name} holds messages that are no rows of a run; choose another stream") from error
