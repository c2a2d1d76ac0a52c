"""Topics of an MQTT broker as tests fill them, and sessions that keep what is published to them."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

if TYPE_CHECKING:
    from driftsurf.connectors.mqtt import MqttInbox

PORT = 1883
PATIENCE = 300.0
"""Seconds for an answer of the broker, also on a machine that does much else."""


class Publisher:
    """Publishes messages with quality 1, each with an identity if it is asked to, and waits for the broker."""

    def __init__(self, topic: str, port: int = PORT) -> None:
        self.topic, self.count = topic, 0
        self.client = mqtt.Client(CallbackAPIVersion.VERSION2, protocol=mqtt.MQTTv5)
        self.client.connect("127.0.0.1", port)
        self.client.loop_start()

    def send(self, messages: Sequence[bytes], *, named: bool = False) -> None:
        infos = []
        for one in messages:
            about: Any = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
            if named:
                about.UserProperty = ("message-id", str(self.count))
            self.count += 1
            infos.append(self.client.publish(self.topic, one, qos=1, properties=about))
        for info in infos:
            info.wait_for_publish(PATIENCE)
            assert info.is_published()

    def close(self) -> None:
        self.client.disconnect()
        self.client.loop_stop()


def subscribe(source: str) -> None:
    """Make the session of an address, so that messages are kept for it."""
    from driftsurf.connectors.mqtt import MqttInbox

    inbox = MqttInbox(source)
    inbox.open()
    inbox.close()


def collected(source: str) -> list[dict[str, Any]]:
    """Return the rows that the session of an address has kept, and take them from it."""
    from driftsurf.connectors.mqtt import MqttInbox

    inbox = MqttInbox(source)
    inbox.open()
    found = drained(inbox)
    inbox.close()
    return found


def drained(inbox: MqttInbox) -> list[dict[str, Any]]:
    """Return the rows that the broker holds for an inbox, and take them from it."""
    found = list[dict[str, Any]]()
    while (came := inbox.take(1_000, 1.0)) or not inbox.settled():
        found += [json.loads(one.message.value) for one in came]
        inbox.done([one.token for one in came])
    return found


def forget(session: str, port: int = PORT) -> None:
    """Remove a session from the broker."""
    client = mqtt.Client(CallbackAPIVersion.VERSION2, session, protocol=mqtt.MQTTv5)
    client.connect("127.0.0.1", port, clean_start=True)
    client.loop_start()
    while not client.is_connected():
        time.sleep(0.01)
    client.disconnect()
    client.loop_stop()
