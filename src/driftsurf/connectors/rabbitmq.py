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
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, NamedTuple, TypeVar

from driftsurf.connectors.sink import ConnectorSink, WriterFactory
from driftsurf.data.messages.client import Address, RetryPolicy
from driftsurf.data.messages.contract import BrokerMessage, Inbox, Plan, Ranges, Received, Seekable
from driftsurf.data.messages.spool import InboxSource
from driftsurf.data.source import Position
from driftsurf.errors import SourceError, SourceUnreachableError
from driftsurf.registry import register

FORM = "amqp://HOST:PORT/QUEUE"
PARAMETERS = "vhost", "stream", "ca", "cert", "key"
PREFETCH = 1_000
"""Messages that are handed out before one of them is acknowledged."""
LOST = 60.0
"""Seconds after which messages that have to be there are missing."""
ABSENT = 15.0
"""Seconds for which a queue is looked for after a restart: a broker does not find its queues for a while."""
OFFSET = "x-stream-offset"
NOT_FOUND, LOCKED, PRECONDITION_FAILED, NOT_IMPLEMENTED = 404, 405, 406, 540
"""Codes with which the broker refuses."""
STARTING = NOT_FOUND, PRECONDITION_FAILED
"""Codes for a stream whose members have not been started yet."""

Result = TypeVar("Result")


class Delivery(NamedTuple):
    """A message as the broker handed it out."""

    tag: int
    offset: int
    id: str
    body: bytes


def _is_refusal(error: Exception) -> bool:
    """Return whether the broker has refused a user or a virtual host, rather than ended while it was asked.

    The client has the same errors for both; only their text has the code of the broker.

    >>> _is_refusal(OSError("ConnectionClosedByBroker: (403) 'ACCESS_REFUSED'"))
    True
    >>> _is_refusal(OSError("ConnectionClosedByBroker: (320) 'CONNECTION_FORCED'"))
    False
    """
    text = str(error)
    return any(code in text for code in ("(403)", "(530)")) and "is down" not in text


class Queue:
    """A connection to a broker, and what its consumer has received."""

    def __init__(self, location: str) -> None:
        secure = location.partition(":")[0].lower() == "amqps"
        self.address: Address = Address.parse(location, port=5671 if secure else 5672, known=PARAMETERS)
        self.queue: str = self.address.part(0, "a queue", FORM)
        self.secure: bool = secure
        # Imported here, so that this file can be imported where the client is not installed.
        self.library: Any = importlib.import_module("pika")
        self.errors: Any = importlib.import_module("pika.exceptions")
        lost = self.errors.AMQPConnectionError, ConnectionError, TimeoutError, socket.gaierror
        self.retry: RetryPolicy = RetryPolicy(self.name, lost, reconnect=self.close)
        self.connection: Any = None
        self.channel: Any = None
        self.came: deque[Delivery] = deque()
        self.generation: int = 0
        """Number of connections so far: messages of earlier ones can no longer be acknowledged."""
        self._found = False
        """Whether the broker has found the queue before."""

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
            if not _is_refusal(error):
                raise
            raise SourceError(f"{self.name} refuses: {reason_of(error)}. Check user, password and vhost") from error
        self.generation += 1
        self.came.clear()
        self.channel = self.connection.channel()
        return self.channel

    def ask(self, act: Callable[[], Result]) -> Result:
        """Return what ``act`` returns; SourceError if the broker cannot be reached or refuses."""
        absent = 0.0  # when the queue was refused for the first time

        def attempt() -> Result:
            nonlocal absent
            try:
                return act()
            except self.errors.ChannelClosedByBroker as error:
                absent = absent or time.monotonic()
                starting = error.reply_code in STARTING and self._may_be_starting(error)
                if not starting or time.monotonic() > absent + ABSENT:
                    raise
                raise ConnectionError(reason_of(error)) from error

        try:
            return self.retry.call(attempt)
        except self.errors.AMQPError as error:
            self.close()
            if isinstance(error, self.errors.ChannelClosedByBroker) and error.reply_code == NOT_FOUND:
                raise SourceError(f"{self.name}: there is no queue {self.queue!r}; declare it first") from error
            raise SourceError(f"{self.name}: {reason_of(error)}") from error

    def _may_be_starting(self, error: Any) -> bool:
        """Return whether a queue that the broker does not find may be there soon, since the broker was restarted."""
        return error.reply_code != NOT_FOUND or self._found or self.retry.failures > 0

    def is_stream(self) -> bool:
        """Return whether the queue is a stream, by what the broker refuses to do with one."""
        if "stream" in self.address.parameters:
            return self.address.flag("stream")
        return self.ask(self._is_stream)

    def _is_stream(self) -> bool:
        channel = self.connect()
        try:
            channel.queue_declare(self.queue, passive=True)
            self._found = True
            channel.basic_get(self.queue)  # given back when the connection ends
        except (self.errors.ConnectionClosedByBroker, self.errors.ChannelClosedByBroker) as error:
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
        self._found = True

    def _received(self, channel: Any, method: Any, properties: Any, body: bytes) -> None:
        offset = int((properties.headers or {}).get(OFFSET, -1))
        self.came.append(Delivery(method.delivery_tag, offset, properties.message_id or "", body))

    def message_count(self) -> int:
        """Return how many messages the broker counts: those of a stream, or those of a queue that nobody has."""
        return int(self.channel.queue_declare(self.queue, passive=True).method.message_count)

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


def reason_of(error: Any) -> str:
    """Return why the broker or its client failed."""
    return str(getattr(error, "reply_text", "")) or str(error) or type(error).__name__


LAG_SECONDS = 1.0
"""Seconds for which the connection that measures the lag is tried."""
QUIET = 1.0
"""Seconds without a message after which a stream is empty, if the broker counts none."""
SETTLING = 5.0
"""Seconds for which messages are looked for before a stream counts as empty: a busy broker, or one that is just
removing old messages, may hand out none for a while, and counts those of a stream every 5 s."""


class RabbitStream:
    """Reads a stream of RabbitMQ by offsets. A position is the offset of the next message."""

    def __init__(self, location: str) -> None:
        self._own = Queue(location)
        self._next: int | None = None
        """Offset of the next message; None for the oldest one."""
        self._stop: int | None = None
        self._consumes = False
        self._read: tuple[Ranges, list[BrokerMessage]] | None = None

    @property
    def name(self) -> str:
        """The address without its parameters."""
        return self._own.name

    def open(self, position: Position, *, bounded: bool) -> None:
        """Begin at an offset; SourceError if messages from there on are gone."""
        self._restart()
        self._next = None if position is None else int(str(position))
        self._stop = None
        last = self._settled_offset() if bounded or self._next is not None else -1
        if self._next is not None:
            if last + 1 < self._next:
                raise SourceError(
                    f"{self.name} has no message {self._next - 1:,} any more, which was read from it: its last one is "
                    f"{last:,}. If the stream was recreated, start a new run. If it only keeps very few messages, try "
                    "again after the next one has come"
                )
            if last >= 0:
                self._check_kept(self._next)
        if bounded:
            self._stop = last + 1

    def _settled_offset(self) -> int:
        """Return the offset of the last message; look again for a while if those that were read are not there."""
        end, least = time.monotonic() + SETTLING, max(1, self._next or 0) - 1
        while (last := self.last_offset()) < least and time.monotonic() < end:
            time.sleep(0.1)
        return last

    def _edge(self, edge: str, quiet: float = QUIET) -> Delivery | None:
        """Return the first or the last message of the stream; None if none comes for a while, and none is counted.

        The count of the broker is some seconds old, so it only tells that a message has to be there.
        """
        return self._own.ask(partial(self._edge_once, edge, quiet))

    def _edge_once(self, edge: str, quiet: float) -> Delivery | None:
        own = self._own
        self._restart()
        own.consume({OFFSET: edge})
        end = time.monotonic() + own.retry.seconds
        own.wait(quiet)
        while not own.came and own.message_count() and time.monotonic() < end:
            own.wait(quiet)
        found = own.came[0] if own.came else None
        while own.came and edge == "last":
            found = own.came[-1]
            own.came.clear()
            own.channel.basic_ack(found.tag, multiple=True)
            # A channel hands out all messages that follow before it answers: no message before an answer is the end.
            own.message_count()
            own.connection.process_data_events(0)
        self._restart()
        return found

    def last(self, quiet: float = QUIET) -> Delivery | None:
        """Return the last message of the stream; None if none comes within ``quiet`` seconds, and none is counted."""
        return self._edge("last", quiet)

    def last_offset(self, quiet: float = QUIET) -> int:
        """Return the offset of the last message; -1 if there is none."""
        last = self.last(quiet)
        return -1 if last is None else last.offset

    def _check_kept(self, offset: int) -> None:
        """Raise SourceError if the message at an offset was removed by the retention of a stream that has messages."""
        end = time.monotonic() + SETTLING
        while (found := self._edge("first")) is None and time.monotonic() < end:
            time.sleep(0.1)
        if found is not None and found.offset > offset:
            raise SourceError(
                f"{self.name}: the messages {offset:,} to {found.offset - 1:,} were removed before they were read. "
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

    def _collect(self, most: int, stop: int | None, seconds: float) -> list[Delivery]:
        """Return the next messages before an offset; if there are none, wait for some."""
        found, end = list[Delivery](), time.monotonic() + seconds
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

    def _receive(self, most: int, seconds: float) -> list[Delivery]:
        own = self._own
        if not self._consumes or own.connection is None:
            own.consume({OFFSET: "first" if self._next is None else self._next})
            self._consumes = True
        own.wait(seconds)
        found, last = list[Delivery](), None
        while own.came and len(found) < most:
            last = own.came.popleft()
            if last.offset >= (self._next or 0):
                found.append(last)
        if last is not None:
            own.channel.basic_ack(last.tag, multiple=True)
        return found

    def read(self, ranges: Ranges) -> list[BrokerMessage]:
        """Return the messages of a plan."""
        if self._read is not None and self._read[0] is ranges:
            return self._read[1]
        messages = list[BrokerMessage]()
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
        """Return how many offsets follow, by a second connection that reads the last message.

        None before the first message, and if the broker hands out none in time.
        """
        if self._next is None:
            return None
        second = RabbitStream(self._own.address.text)
        second._own.retry.seconds = LAG_SECONDS  # reading waits meanwhile
        last = second.last_offset(0.1)
        return None if last + 1 < self._next else last + 1 - self._next

    def close(self) -> None:
        """Disconnect."""
        self._restart()


def _message(one: Delivery) -> BrokerMessage:
    return BrokerMessage(f"offset {one.offset}", one.body)


# ---------------------------------------------------------------------------- other queues


class RabbitInbox:
    """Takes messages from a queue of RabbitMQ that is no stream."""

    def __init__(self, location: str) -> None:
        self._own = Queue(location)
        self._quiet_since: float | None = None
        """When messages of the queue were first missed, which the broker did not hand out."""

    @property
    def name(self) -> str:
        """The address without its parameters."""
        return self._own.name

    def open(self) -> None:
        """Connect, and begin to receive."""
        self._quiet_since = None
        self._own.ask(lambda: self._own.consume({}))

    def take(self, most: int, seconds: float) -> list[Received]:
        """Return messages that have come."""
        return self._own.ask(partial(self._take, most, seconds))

    def _take(self, most: int, seconds: float) -> list[Received]:
        own = self._own
        if own.connection is None:
            own.consume({})
        own.wait(seconds)
        if seconds and not own.came:  # the network may be silent: a channel hands out what there is before it answers
            if own.message_count():
                own.wait(seconds)
            own.connection.process_data_events(0)
        found = list[Received]()
        while own.came and len(found) < most:
            one = own.came.popleft()
            found.append(Received((own.generation, one.tag), BrokerMessage("", one.body), one.id))
            self._quiet_since = None
        return found

    def settled(self) -> bool:
        """Return whether the queue is empty; after a minute, what is in it belongs to another consumer."""
        if not self.waiting():
            return True
        now = time.monotonic()
        self._quiet_since = self._quiet_since or now
        return now - self._quiet_since > LOST

    def waiting(self) -> int | None:
        """Return how many messages the queue holds, and how many this connection has received and not handed on."""
        return self._own.ask(self._waiting)

    def _waiting(self) -> int:
        own = self._own
        if own.connection is None:
            own.consume({})
        count = own.message_count()
        own.connection.process_data_events(0)  # messages on their way are in neither number
        return count + len(own.came)

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
    "source", "rabbitmq", schemes=("amqp", "amqps"), requires=("pika",), install="pip install 'driftsurf[connectors]'"
)
class RabbitSource(InboxSource):
    """Rows from a stream or another queue of RabbitMQ."""

    connector: Seekable

    def inbox(self, location: str) -> Inbox:
        """Return the inbox of a queue."""
        return RabbitInbox(location)

    def choose_connector(self) -> None:
        """Ask the broker whether the queue is a stream."""
        if not isinstance(self.connector, RabbitStream) and Queue(self.location).is_stream():
            self.connector = RabbitStream(self.location)


COUNTED = 6.0
"""Seconds after which the broker counts messages that were written before: it counts those of a stream every 5 s."""


class RabbitWriter:
    """Publishes rows to a queue of RabbitMQ, which is made as a stream unless there is one.

    The last message of a stream tells the number of the last row, so that each row is there once. A queue of another
    kind cannot be asked, and gets rows at least once.
    """

    def __init__(self, location: str, columns: Mapping[str, str]) -> None:
        self._own = Queue(location)
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
        made = own.ask(self._declare)
        self._stream = own.is_stream()
        if not self._stream:
            own.ask(own.connect)
            return 0
        own.ask(self._lock)
        last = RabbitStream(own.address.text).last(QUIET if made else COUNTED)
        self._next = 0 if last is None else _number(last.body, self.name) + 1
        return self._next

    def _declare(self) -> bool:
        """Declare the queue if it is missing; return whether it was."""
        own = self._own
        try:
            own.connect().queue_declare(own.queue, passive=True)
            return False
        except own.errors.ChannelClosedByBroker as error:
            if error.reply_code != NOT_FOUND:
                raise
            kind = "stream" if own.address.parameters.get("stream", "true") == "true" else "classic"
            own.connect().queue_declare(own.queue, durable=True, arguments={"x-queue-type": kind})
            return True

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
        except (*self._own.retry.errors, self._own.errors.AMQPError):
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
        queues confirm a transaction, once all its messages are on disk.
        """
        own, returned = self._own, list[Any]()
        if own.connection is None or not own.connection.is_open:
            own.connect()
        channel = own.connection.channel()
        if not self._stream:
            channel.add_on_return_callback(lambda *found: returned.append(found))
            channel.tx_select()
        lasting = own.library.BasicProperties(delivery_mode=2, content_type="application/json")
        for body in bodies[:-1]:
            channel.basic_publish("", own.queue, body, lasting)
        if self._stream:
            channel.confirm_delivery()
        channel.basic_publish("", own.queue, bodies[-1], lasting, mandatory=True)
        if not self._stream:
            channel.tx_commit()
            own.connection.process_data_events(0)
        channel.close()
        if returned:
            raise SourceError(f"{self.name}: the queue {own.queue!r} is no longer there")

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


@register(
    "sink", "rabbitmq", schemes=("amqp", "amqps"), requires=("pika",), install="pip install 'driftsurf[connectors]'"
)
class RabbitSink(ConnectorSink):
    """A stream or another queue of RabbitMQ."""

    writer: ClassVar[WriterFactory] = RabbitWriter
