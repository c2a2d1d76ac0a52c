"""Topics of an MQTT broker as a source and as a destination."""

from __future__ import annotations

import contextlib
import getpass
import json
import random
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from driftsurf.checks import InboxCase, WriterCase, check_inbox, check_writer
from driftsurf.checks.connectors import COLUMNS
from driftsurf.errors import OptionError
from tests_services.kills import Command, compare, orders, rows_of
from tests_services.servers import require

mqtt = pytest.importorskip("paho.mqtt.client")
Send = Callable[[Sequence[bytes]], None]


class Publisher:
    """Publishes messages with quality 1, each with an identity if it is asked to, and waits for the broker."""

    def __init__(self, topic: str, port: int = 1883) -> None:
        self.topic, self.count = topic, 0
        self.client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, protocol=mqtt.MQTTv5)
        self.client.connect("127.0.0.1", port)
        self.client.loop_start()

    def send(self, messages: Sequence[bytes], *, named: bool = False) -> None:
        from paho.mqtt.properties import Properties

        infos = []
        for one in messages:
            about: Any = Properties(mqtt.PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
            if named:
                about.UserProperty = ("message-id", str(self.count))
            self.count += 1
            infos.append(self.client.publish(self.topic, one, qos=1, properties=about))
        for info in infos:
            info.wait_for_publish(20)

    def close(self) -> None:
        self.client.disconnect()
        self.client.loop_stop()


@pytest.fixture
def publisher(unique: str) -> Iterator[Publisher]:
    """Publishes to the topic of the test."""
    require("mqtt")
    made = Publisher(f"{unique}/1/row")
    yield made
    made.close()


def forget(session: str, port: int = 1883) -> None:
    """Remove a session from the broker."""
    client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, session, protocol=mqtt.MQTTv5)
    client.connect("127.0.0.1", port, clean_start=True)
    client.loop_start()
    while not client.is_connected():
        time.sleep(0.01)
    client.disconnect()
    client.loop_stop()


def test_the_inbox_conforms(publisher: Publisher, unique: str) -> None:
    from driftsurf.data.connectors.mqtt import MqttInbox

    check_inbox(InboxCase(lambda: MqttInbox(f"mqtt://127.0.0.1/{unique}/+/row?client={unique}"), publisher.send))
    forget(unique)


def test_the_writer_conforms(unique: str) -> None:
    from driftsurf.data.connectors.mqtt import MqttInbox, MqttWriter

    require("mqtt")
    reader = MqttInbox(f"mqtt://127.0.0.1/{unique}")
    reader.open()
    found: list[dict[str, Any]] = []

    def held() -> list[dict[str, Any]]:
        while came := reader.take(1_000, 2.0):
            found.extend(json.loads(one.message.value) for one in came)
            reader.done([one.token for one in came])
        return found

    check_writer(WriterCase(lambda: MqttWriter(f"mqtt://127.0.0.1/{unique}", COLUMNS), held))
    reader.close()


def test_wrong_addresses_are_refused() -> None:
    from driftsurf.data.connectors.mqtt import MqttInbox, MqttWriter

    assert MqttInbox("mqtt://host/sensors/#").name == "mqtt://host/sensors/#"
    with pytest.raises(OptionError, match="does not name a topic"):
        MqttInbox("mqtt://host")
    with pytest.raises(OptionError, match="wildcards"):
        MqttWriter("mqtt://host/sensors/+/row", {})


# ---------------------------------------------------------------------------- whole runs


def test_a_run_that_is_killed_ends_like_one_that_is_not(publisher: Publisher, unique: str, tmp_path: Path) -> None:
    source, runs = f"mqtt://127.0.0.1/{unique}/#?client={unique}", []
    for name in ("whole", "killed"):
        subscribe(source)
        publisher.send([*orders(900), b"{", b"\x00\xff", b"[" * 9_000], named=True)  # a broker keeps 1,000
        sink = str(tmp_path / f"{name}.sqlite")
        runs.append(Command(tmp_path / name, source, sink, ("--on-bad-row", "skip", "--every", "1")))
        count = sum(runs[-1].killed(random.Random(n)) for n in range(3)) if name == "killed" else 1
        assert count, "no process was killed before its end: send more rows"
        runs[-1].finish()
        forget(unique)
    compare(runs[0], runs[1], rows_of(tmp_path / "whole.sqlite"), rows_of(tmp_path / "killed.sqlite"))


def subscribe(source: str) -> None:
    """Make the session of a run, so that messages are kept for it."""
    from driftsurf.data.connectors.mqtt import MqttInbox

    inbox = MqttInbox(source)
    inbox.open()
    inbox.close()


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Callable[[], subprocess.Popen[bytes]]]:
    """Starts a broker of the test, which keeps its sessions on disk."""
    program = shutil.which("mosquitto")
    if program is None:
        pytest.skip("mosquitto is not installed")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    config = tmp_path / "mosquitto.conf"
    config.write_text(
        f"listener {port} 127.0.0.1\nallow_anonymous true\npersistence true\npersistence_location {tmp_path}/\n"
        f"user {getpass.getuser()}\nlog_dest none\n"
    )
    running: list[subprocess.Popen[bytes]] = []

    def start() -> subprocess.Popen[bytes]:
        running.append(subprocess.Popen([program, "-c", str(config)]))
        for _ in range(500):
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            time.sleep(0.02)
        return running[-1]

    start.port = port  # type: ignore[attr-defined]
    yield start
    for one in running:
        one.kill()
        one.wait()


def test_a_broker_that_is_restarted_loses_nothing(broker: Any, unique: str) -> None:
    from driftsurf.data.connectors.mqtt import MqttInbox

    server = broker()
    inbox = MqttInbox(f"mqtt://127.0.0.1:{broker.port}/{unique}?client={unique}")
    inbox.open()
    sender = Publisher(unique, broker.port)
    sender.send([b"%d" % n for n in range(10)])
    sender.close()
    first = inbox.take(4, 10.0)
    while len(first) < 4:
        first += inbox.take(4 - len(first), 10.0)
    inbox.done([one.token for one in first])
    second = inbox.take(3, 10.0)  # handed out, and not acknowledged before the broker ends
    server.terminate()  # it writes its sessions to disk
    server.wait()
    broker()
    inbox.done([one.token for one in second])
    sender = Publisher(unique, broker.port)
    sender.send([b"10"])
    sender.close()
    values = [int(one.message.value) for one in (*first, *second)]
    for _ in range(60):
        values += [int(one.message.value) for one in inbox.take(100, 0.5)]
        if 10 in values:
            break
    inbox.close()
    # An acknowledgement that the broker did not read before it ended is lost with it: at least once, in order.
    assert list(dict.fromkeys(values)) == list(range(11))
    assert all(values.count(n) == 1 for n in range(7, 11))
