"""Connections to RabbitMQ, and the messages that a consumer receives on them."""

from __future__ import annotations

import contextlib
import importlib
import socket
import ssl
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

from driftsurf.data.connectors.address import Address
from driftsurf.data.connectors.patience import Patience
from driftsurf.errors import SourceError

__all__ = ["LOCKED", "LOST", "NOT_FOUND", "OFFSET", "Delivery", "Queue"]

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
        self.patience: Patience = Patience(self.name, lost, reconnect=self.close)
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
            return self.patience.call(attempt)
        except self.errors.AMQPError as error:
            self.close()
            if isinstance(error, self.errors.ChannelClosedByBroker) and error.reply_code == NOT_FOUND:
                raise SourceError(f"{self.name}: there is no queue {self.queue!r}; declare it first") from error
            raise SourceError(f"{self.name}: {reason_of(error)}") from error

    def _may_be_starting(self, error: Any) -> bool:
        """Return whether a queue that the broker does not find may be there soon, since the broker was restarted."""
        return error.reply_code != NOT_FOUND or self._found or self.patience.failures > 0

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
