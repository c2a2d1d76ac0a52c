"""Topics of an MQTT broker as a source and as a destination."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.integration.services.kills import Command, compare, orders, rows_of
from tests.integration.services.private_servers import MqttServer
from tests.integration.services.servers import require
from tests.integration.services.services import until

from driftsurf.checks import InboxCase, WriterCase, check_inbox, check_writer
from driftsurf.checks.connectors import COLUMNS
from driftsurf.errors import OptionError

pytest.importorskip("paho.mqtt.client")

from tests.integration.services.mqtt_topics import PATIENCE, Publisher, drained, forget, subscribe


@pytest.fixture
def publisher(unique: str) -> Iterator[Publisher]:
    """Publishes to the topic of the test."""
    require("mqtt")
    made = Publisher(f"{unique}/1/row")
    yield made
    made.close()


def test_the_inbox_conforms(publisher: Publisher, unique: str) -> None:
    from driftsurf.connectors.mqtt import MqttInbox

    check_inbox(InboxCase(lambda: MqttInbox(f"mqtt://127.0.0.1/{unique}/+/row?client={unique}"), publisher.send))
    forget(unique)


def test_the_writer_conforms(unique: str) -> None:
    from driftsurf.connectors.mqtt import MqttInbox, MqttWriter

    require("mqtt")
    reader = MqttInbox(f"mqtt://127.0.0.1/{unique}")
    reader.open()
    found: list[dict[str, Any]] = []

    def held() -> list[dict[str, Any]]:
        found.extend(drained(reader))
        return found

    check_writer(WriterCase(lambda: MqttWriter(f"mqtt://127.0.0.1/{unique}", COLUMNS), held))
    reader.close()


def test_wrong_addresses_are_refused() -> None:
    from driftsurf.connectors.mqtt import MqttInbox, MqttWriter

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


def test_rows_that_are_written_without_a_connection_arrive(unique: str, tmp_path: Path) -> None:
    from driftsurf.connectors.mqtt import MqttInbox, MqttWriter

    broker = MqttServer(tmp_path)
    address = f"mqtt://127.0.0.1:{broker.port}/{unique}"
    inbox, writer = MqttInbox(f"{address}?client={unique}"), MqttWriter(address, COLUMNS)
    inbox.open()
    writer.open()
    broker.end()  # it writes its sessions to disk
    until(lambda: not writer._own.connected)
    writer.write(0, [{"row": n} for n in range(10)])
    broker.start()
    writer.flush()
    until(lambda: inbox._own.connected)
    assert [row["row"] for row in drained(inbox)] == list(range(10))
    for one in (writer, inbox, broker):
        one.close()


def test_a_broker_that_is_restarted_loses_nothing(unique: str, tmp_path: Path) -> None:
    from driftsurf.connectors.mqtt import MqttInbox

    broker = MqttServer(tmp_path)
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
    broker.end()  # it writes its sessions to disk
    broker.start()
    inbox.done([one.token for one in second])
    sender = Publisher(unique, broker.port)
    sender.send([b"10"])
    sender.close()
    values = [int(one.message.value) for one in (*first, *second)]
    end = time.monotonic() + PATIENCE
    while 10 not in values and time.monotonic() < end:
        values += [int(one.message.value) for one in inbox.take(100, 0.5)]
    inbox.close()
    broker.close()
    # An acknowledgement that the broker did not read before it ended is lost with it: at least once, in order.
    assert list(dict.fromkeys(values)) == list(range(11))
    assert all(values.count(n) == 1 for n in range(7, 11))
