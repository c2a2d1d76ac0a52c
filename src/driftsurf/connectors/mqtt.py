"""MQTT 5: ``mqtt://host:1883/sensors/+/row``, ``mqtts://`` with TLS.

Messages are delivered at least once: the broker keeps a session for the run, and hands out again what the run has not
acknowledged.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import secrets
import socket
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import unquote, urlsplit

from driftsurf.connectors.sink import ConnectorSink, WriterFactory
from driftsurf.data.messages.client import Address, RetryPolicy, log, tell
from driftsurf.data.messages.contract import BrokerMessage, Inbox, Received
from driftsurf.data.messages.spool import InboxSource, Spool
from driftsurf.errors import OptionError, SourceError, SourceUnreachableError
from driftsurf.registry import register

FORM = "mqtt://HOST:PORT/TOPIC"
PARAMETERS = "client", "session", "ca", "cert", "key"
SESSION = 7 * 24 * 3600
"""Seconds for which the broker keeps messages for a run that is not connected, unless the address says otherwise."""
IN_FLIGHT = 1_000
"""Messages that are handed out before one of them is acknowledged."""
IDENTITY = "message-id"
"""User property that tells a second delivery from a second message."""
NOTHING = "driftsurf/nothing"
"""Topic to which nobody is subscribed."""
SETTLING = 5.0
"""Seconds for which the end of a connection waits for the broker."""
LATER = 136, 137, 139, 151, 159
"""Reasons of a broker that will take connections later: unavailable, busy, ending, over its quota or its rate."""
SLICE = 0.5
"""Seconds after which a wait for a connection asks whether it should end."""
LOST = 60.0
"""Seconds without a connection after which reading or writing fails."""


class _MqttConnection:
    """A client of a broker, with a thread of its own that keeps the connection."""

    def __init__(self, location: str) -> None:
        location = location.replace("#", "%23")  # a wildcard of topics, and not the fragment of an address
        secure = location.partition(":")[0].lower() == "mqtts"
        self.address = Address.parse(location, port=8883 if secure else 1883, known=PARAMETERS)
        self.topic = unquote(urlsplit(location).path[1:])
        if not self.topic:
            self.address.part(0, "a topic", FORM)
        self.secure = secure
        # Imported here, so that this file can be imported where the client is not installed.
        self.library: Any = importlib.import_module("paho.mqtt.client")
        self.properties: Any = importlib.import_module("paho.mqtt.properties")
        self.retry = RetryPolicy(self.name, (OSError,))
        self.client: Any = None
        self.changed = threading.Condition()
        self._refused = ""
        self._lost = 0.0
        """When the connection was lost; 0 if there is one."""
        self.connections: int = 0
        """Number of connections so far."""

    @property
    def name(self) -> str:
        """The address without its parameters."""
        return self.address.name.replace("%23", "#")

    def connect(self, client_id: str, session: int, received: Any = None) -> None:
        """Connect and subscribe, and return when both is done."""
        address, library = self.address, self.library
        self.close()
        client = self.client = library.Client(
            library.CallbackAPIVersion.VERSION2, client_id, protocol=library.MQTTv5, manual_ack=received is not None
        )
        password = address.password()
        if address.user:
            client.username_pw_set(address.user, None if password is None else password.value)
        if self.secure:
            given = address.parameters
            client.tls_set(given.get("ca"), given.get("cert"), given.get("key"))
        client.max_inflight_messages_set(IN_FLIGHT)
        client.max_queued_messages_set(0)
        client.reconnect_delay_set(1, 5)
        client.on_connect = self._on_connect
        client.on_disconnect = self._on_disconnect
        client.on_publish = self._on_publish
        if received is not None:
            client.on_message = received
            client.on_subscribe = self._on_subscribe
        about = self.properties.Properties(library.PacketTypes.CONNECT)
        about.SessionExpiryInterval = session
        about.ReceiveMaximum = IN_FLIGHT
        self._refused, self._ready, self._lost = "", False, time.monotonic()
        start = library.MQTT_CLEAN_START_FIRST_ONLY if not session else False
        self.retry.call(
            lambda: client.connect(address.host, address.port, keepalive=60, clean_start=start, properties=about)
        )
        client.loop_start()
        self.wait(lambda: self._ready, LOST)
        self.check()
        if not self._ready:
            raise SourceUnreachableError(f"{self.name} did not answer for {LOST:g} s; check host and port")

    def _on_connect(self, client: Any, data: Any, flags: Any, reason: Any, properties: Any) -> None:
        if reason.is_failure and reason.value in LATER:
            log.warning("%s cannot be reached, trying again: %s", self.name, reason)
            return
        if reason.is_failure:
            self._refused = str(reason)
        elif client.on_message is not None:
            options: Any = importlib.import_module("paho.mqtt.subscribeoptions").SubscribeOptions
            client.subscribe(self.topic, options=options(qos=1, retainHandling=2))
        with self.changed:
            self._lost = 0.0
            self.connections += 1
            self._ready = self._ready or client.on_message is None
            self.changed.notify_all()

    def _on_subscribe(self, client: Any, data: Any, id: int, reasons: Any, properties: Any) -> None:
        with self.changed:
            if any(one.is_failure for one in reasons):
                self._refused = str(reasons[0])
            self._ready = True
            self.changed.notify_all()

    def _on_publish(self, client: Any, data: Any, id: int, reason: Any, properties: Any) -> None:
        with self.changed:  # the client counts a row that the broker refused as published, too
            if reason.is_failure and not self._refused:
                self._refused = str(reason)
            self.changed.notify_all()

    def _on_disconnect(self, client: Any, data: Any, flags: Any, reason: Any, properties: Any) -> None:
        with self.changed:
            self._lost = self._lost or time.monotonic()
            self.changed.notify_all()
        self.retry.failures += 1

    @property
    def connected(self) -> bool:
        """Whether there is a connection now."""
        return not self._lost

    def wait(self, met: Any, seconds: float) -> None:
        """Wait until a condition is met, or the broker refuses, for at most some seconds."""
        with self.changed:
            self.changed.wait_for(lambda: bool(self._refused) or met(), seconds)

    def check(self) -> None:
        """Raise SourceError if the broker refuses, or has not been reached for long."""
        if self._refused:
            raise SourceError(f"{self.name} refuses: {self._refused}. Check credentials and permissions")
        if self._lost and time.monotonic() - self._lost > LOST:
            raise SourceUnreachableError(
                f"{self.name} cannot be reached for {LOST:g} s. Start it, or check host and port"
            )

    def settle(self, seconds: float) -> bool:
        """Wait until the broker has read everything that was sent to it, and what it sent before has come.

        Acknowledgements have no answer, and a broker drops those that it has not read when the session connects again:
        so it is asked to end a subscription that does not exist, and answers after what came before. Return whether it
        has answered in time.
        """
        if self.client is None or not self.connected:
            return False
        answered = list[int]()

        def heard(client: Any, data: Any, id: int, reasons: Any, properties: Any) -> None:
            with self.changed:
                answered.append(id)
                self.changed.notify_all()

        self.client.on_unsubscribe = heard
        self.client.unsubscribe(NOTHING)
        self.wait(lambda: bool(answered) or not self.connected, seconds)
        return bool(answered)

    def close(self) -> None:
        """Disconnect."""
        client, self.client = self.client, None
        if client is not None:
            client.disconnect()
            client.loop_stop()


class MqttInbox:
    """Takes messages of quality 1 from a session that the broker keeps.

    Parameters
    ----------
    location
        The address. ``client`` is the name of the session, ``session`` the seconds for which the broker keeps it.
    session
        Name of the session, unless the address has one; "" for a session that ends with the connection.
    """

    def __init__(self, location: str, session: str = "") -> None:
        self._own = _MqttConnection(location)
        self.session: str = self._own.address.parameters.get("client", session)
        self._came: deque[tuple[int, BrokerMessage, str]] = deque()
        self._out: set[int] = set()
        """Numbers of the messages that were handed out and not acknowledged."""

    @property
    def name(self) -> str:
        """The address without its parameters."""
        return self._own.name

    def open(self) -> None:
        """Connect, and subscribe to the topic."""
        self._came.clear()
        self._out.clear()
        lasting = self._own.address.number("session", SESSION) if self.session else 0
        self._own.connect(self.session or f"driftsurf-{secrets.token_hex(8)}", lasting, self._on_message)

    def _on_message(self, client: Any, data: Any, message: Any) -> None:
        """Keep a message. One that is delivered again after a lost connection keeps its number."""
        found = dict(getattr(message.properties, "UserProperty", None) or ())
        with self._own.changed:
            if message.dup and (message.mid in self._out or any(one[0] == message.mid for one in self._came)):
                return
            self._came.append(
                (message.mid, BrokerMessage(f"topic {message.topic}", message.payload), found.get(IDENTITY, ""))
            )
            self._own.changed.notify_all()

    def take(self, most: int, seconds: float) -> list[Received]:
        """Return messages that have come; also without a connection, wait no longer than ``seconds`` for the first."""
        own = self._own
        own.wait(lambda: bool(self._came), seconds)
        own.check()
        found = list[Received]()
        with own.changed:
            while self._came and len(found) < most:
                number, message, identity = self._came.popleft()
                self._out.add(number)
                found.append(Received(number, message, identity))
        return found

    def settled(self) -> bool:
        """Return whether every message that the broker held was taken; wait for a connection that was lost."""
        own = self._own
        lost = not own.connected
        while not own.connected:
            tell(f"{self.name} has lost its connection")
            own.wait(lambda: own.connected, SLICE)
            own.check()
        if lost:
            return False
        before = own.connections
        # The network may be silent: the broker hands out what there is before it answers.
        answered = own.settle(LOST)
        own.check()
        if own.connections != before or not own.connected:
            return False
        if not answered:
            raise SourceUnreachableError(f"{self.name} did not answer for {LOST:g} s; try again")
        return not self._came

    def waiting(self) -> int | None:
        """Return None: a broker of MQTT does not tell how many messages it keeps for a session."""
        return None

    def done(self, tokens: Sequence[Any]) -> None:
        """Acknowledge messages."""
        with self._own.changed:
            self._out.difference_update(tokens)
        for one in tokens:
            self._own.client.ack(one, 1)

    def close(self) -> None:
        """Disconnect; the broker keeps the session."""
        self._own.settle(SETTLING)
        self._own.close()


@register(
    "source", "mqtt", schemes=("mqtt", "mqtts"), requires=("paho",), install="pip install 'driftsurf[connectors]'"
)
class MqttSource(InboxSource):
    """Rows from topics of an MQTT broker."""

    def inbox(self, location: str) -> Inbox:
        """Return the inbox of a topic."""
        return MqttInbox(location)

    def keep_plans(self, folder: Path, *, keep: int, resumed: bool, name: str) -> None:
        """Keep plans and messages in a checkpoint folder, whose place names the session."""
        super().keep_plans(folder, keep=keep, resumed=resumed, name=name)
        assert isinstance(self.connector, Spool)
        assert isinstance(self.connector.inbox, MqttInbox)
        inbox = self.connector.inbox
        address = inbox._own.address.text.partition("?")[0].replace("%23", "#")
        whose = "\n".join([socket.gethostname(), str(folder.resolve()), name, address])
        inbox.session = inbox.session or f"driftsurf-{hashlib.sha256(whose.encode()).hexdigest()[:16]}"


class MqttWriter:
    """Publishes rows to a topic of an MQTT broker, at least once."""

    exact: bool = False

    def __init__(self, location: str, columns: Mapping[str, str]) -> None:
        self._own = _MqttConnection(location)
        if set("+#") & set(self._own.topic):
            raise OptionError(f"predictions are published to one topic; {self._own.topic!r} has wildcards")
        self._sent: deque[Any] = deque()

    @property
    def name(self) -> str:
        """The address without its parameters."""
        return self._own.name

    def open(self) -> int:
        """Connect; return 0, since the broker cannot tell what was published."""
        self._sent.clear()
        self._own.connect(self._own.address.parameters.get("client", f"driftsurf-{secrets.token_hex(8)}"), 0)
        return 0

    def write(self, first_row: int, rows: Sequence[Mapping[str, Any]]) -> None:
        """Publish rows; wait for the broker when many of them are under way."""
        library = self._own.library
        for row in rows:
            sent = self._own.client.publish(self._own.topic, json.dumps(row), qos=1)
            if sent.rc == library.MQTT_ERR_NO_CONN:  # the client keeps the row, and sends it when it is connected again
                sent.rc = library.MQTT_ERR_SUCCESS
            self._sent.append(sent)
            self._settle(IN_FLIGHT)

    def flush(self) -> None:
        """Return when the broker has acknowledged all rows."""
        self._settle(0)

    def _settle(self, under_way: int) -> None:
        while len(self._sent) > under_way:
            self._sent[0].wait_for_publish(1.0)
            if self._sent[0].is_published():
                self._sent.popleft()
            self._own.check()

    def clear(self) -> None:
        """Refuse: a broker does not keep what was published."""
        raise SourceError(f"{self.name}: what was published cannot be removed")

    def close(self) -> None:
        """Disconnect."""
        self._own.close()


@register("sink", "mqtt", schemes=("mqtt", "mqtts"), requires=("paho",), install="pip install 'driftsurf[connectors]'")
class MqttSink(ConnectorSink):
    """A topic of an MQTT broker."""

    writer: ClassVar[WriterFactory] = MqttWriter
