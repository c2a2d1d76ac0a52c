"""Streams and queues of RabbitMQ as sources and as destinations."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from driftsurf.checks import InboxCase, SeekableCase, WriterCase, check_inbox, check_seekable, check_writer
from driftsurf.checks.connectors import COLUMNS
from driftsurf.errors import SourceError
from tests_services.endings import rows, run
from tests_services.servers import require

pika = pytest.importorskip("pika")
KINDS = "stream", "classic", "quorum"


class Broker:
    """A connection for the queues of a test."""

    def __init__(self) -> None:
        self.connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1"))
        self.channel = self.connection.channel()
        self.channel.confirm_delivery()
        self.made: list[str] = []
        self.count = 0

    def declare(self, queue: str, kind: str, **arguments: Any) -> None:
        self.made.append(queue)
        self.channel.queue_declare(queue, durable=True, arguments={"x-queue-type": kind, **arguments})

    def send(self, queue: str, messages: Sequence[bytes], *, named: bool = False) -> None:
        for one in messages:
            id = str(self.count) if named else None
            self.count += 1
            self.channel.basic_publish("", queue, one, pika.BasicProperties(delivery_mode=2, message_id=id))

    def delete(self, queue: str) -> None:
        self.connection.channel().queue_delete(queue)

    def close(self) -> None:
        for queue in self.made:
            self.delete(queue)
        self.connection.close()


@pytest.fixture
def broker() -> Iterator[Broker]:
    require("rabbitmq")
    made = Broker()
    yield made
    made.close()


def test_the_reader_of_a_stream_conforms(broker: Broker, unique: str) -> None:
    from driftsurf.data.connectors.rabbitmq import RabbitStream

    broker.declare(unique, "stream")
    check_seekable(
        SeekableCase(lambda: RabbitStream(f"amqp://127.0.0.1/{unique}"), lambda some: broker.send(unique, some))
    )


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_the_inbox_conforms(broker: Broker, unique: str, kind: str) -> None:
    from driftsurf.data.connectors.rabbitmq import RabbitInbox

    broker.declare(unique, kind)
    check_inbox(InboxCase(lambda: RabbitInbox(f"amqp://127.0.0.1/{unique}"), lambda some: broker.send(unique, some)))


def held(unique: str, kind: str) -> list[dict[str, Any]]:
    """Return the rows of a queue, without taking them from it."""
    connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1"))
    channel = connection.channel()
    channel.basic_qos(prefetch_count=10_000)
    found = []
    arguments = {"x-stream-offset": "first"} if kind == "stream" else {}
    for method, _, body in channel.consume(unique, inactivity_timeout=2.0, arguments=arguments):
        if method is None:
            break
        found.append(json.loads(body))
    connection.close()
    return found


@pytest.mark.parametrize("kind", ["stream", "classic"])
def test_the_writer_conforms(broker: Broker, unique: str, kind: str) -> None:
    from driftsurf.data.connectors.rabbitmq import RabbitWriter

    broker.made.append(unique)
    where = f"amqp://127.0.0.1/{unique}" + "?stream=false" * (kind == "classic")
    check_writer(WriterCase(lambda: RabbitWriter(where, COLUMNS), lambda: held(unique, kind)))


@pytest.mark.parametrize("kind", KINDS)
def test_the_broker_tells_what_kind_of_queue_it_is(broker: Broker, unique: str, kind: str) -> None:
    from driftsurf.data.connectors.rabbitmq import _Queue

    broker.declare(unique, kind)
    broker.send(unique, [b"1"])
    assert _Queue(f"amqp://127.0.0.1/{unique}").is_stream() == (kind == "stream")
    with pytest.raises(SourceError, match="declare it first"):
        _Queue(f"amqp://127.0.0.1/{unique}-absent").is_stream()
    with pytest.raises(SourceError, match="Check user, password and vhost"):
        _Queue(f"amqp://nobody@127.0.0.1/{unique}").is_stream()


def test_messages_that_the_stream_no_longer_keeps_are_named(broker: Broker, unique: str) -> None:
    from driftsurf.data.connectors.rabbitmq import RabbitStream

    limits = {"x-max-length-bytes": 20_000, "x-stream-max-segment-size-bytes": 5_000}
    broker.declare(unique, "stream", **limits)
    broker.send(unique, [b"x" * 1_000] * 5)
    reader = RabbitStream(f"amqp://127.0.0.1/{unique}")
    reader.open(None, bounded=True)
    plan = reader.plan(3, 0.0)
    reader.close()
    assert plan is not None
    broker.send(unique, [b"x" * 1_000] * 200)
    with pytest.raises(SourceError, match=r"the messages 3 to .* were removed"):
        reader.open(plan.end, bounded=True)
    reader.close()
    broker.delete(unique)
    broker.declare(unique, "stream")
    with pytest.raises(SourceError, match="made anew"):
        reader.open(plan.end, bounded=True)
    reader.close()


@pytest.mark.parametrize("kind", ["stream", "classic"])
def test_a_run_that_is_killed_ends_like_one_that_is_not(broker: Broker, unique: str, tmp_path: Path, kind: str) -> None:
    options: dict[str, Any] = {"label": "sold", "id": "id", "model": "driftsurf"}
    found, messages = [], [json.dumps(row).encode() for row in rows(1_000)]
    broker.declare(unique, kind)
    for name, kills in (("calm", ()), ("killed", (2, 3, 1, 6))):
        if kind == "classic" or name == "calm":
            broker.send(unique, messages, named=True)
        sink = f"{unique}-{name}"
        broker.made.append(sink)
        place = f"amqp://127.0.0.1/{unique}"
        files = run(place, tmp_path / name, kills=kills, predictions=f"amqp://127.0.0.1/{sink}", **options)
        found.append((files, held(sink, "stream")))
    assert len(found[0][1]) == 1_000
    assert found[0] == found[1]
