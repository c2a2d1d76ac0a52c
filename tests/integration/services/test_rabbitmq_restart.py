"""A node of RabbitMQ that is killed and started again: streams and queues go on where they were."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pika")

from tests.integration.services.private_servers import RabbitServer
from tests.integration.services.rabbit_queues import Broker, held

from driftsurf.checks.connectors import COLUMNS
from driftsurf.connectors import rabbitmq as _rabbitmq
from driftsurf.connectors.rabbitmq import RabbitInbox, RabbitStream, RabbitWriter
from driftsurf.data.messages.spool import Spool

PATIENCE = 300.0
"""Seconds in which a node has to start, also on a machine that does much else."""


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look for streams longer than usual, which a node that has just started finds after a while."""
    monkeypatch.setattr(_rabbitmq, "ABSENT", PATIENCE)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RabbitServer]:
    """A node of its own."""
    made = RabbitServer(tmp_path_factory.mktemp("rabbitmq"))
    yield made
    made.close()


def rows(count: int) -> list[bytes]:
    return [json.dumps({"n": n}).encode() for n in range(count)]


def fill(server: RabbitServer, queue: str, kind: str, messages: list[bytes]) -> None:
    with contextlib.closing(Broker(server.port)) as broker:
        broker.declare(queue, kind)
        broker.made.clear()  # it outlives this connection
        broker.send(queue, messages, named=True)


def restart(server: RabbitServer) -> threading.Thread:
    """Kill the node, and start it while somebody else waits for it."""
    server.kill()
    thread = threading.Thread(target=server.start)
    thread.start()
    return thread


def test_a_reader_and_a_writer_of_streams_go_on(server: RabbitServer, unique: str) -> None:
    url = f"amqp://127.0.0.1:{server.port}"
    fill(server, unique, "stream", rows(300))
    reader, writer = RabbitStream(f"{url}/{unique}"), RabbitWriter(f"{url}/{unique}-scores", COLUMNS)
    reader._own.retry.seconds = writer._own.retry.seconds = PATIENCE
    reader.open(None, bounded=True)
    assert writer.open() == 0
    found = list[bytes]()
    for part in range(3):
        plan = reader.plan(100, 0.0)
        assert plan is not None
        found += [one.value for one in reader.read(plan.ranges)]
        thread = restart(server) if part < 2 else None
        writer.write(part * 100, [{"row": part * 100 + n} for n in range(100)])
        if thread is not None:
            thread.join()
    assert reader.plan(100, 0.0) is None
    reader.close()
    writer.close()
    assert found == rows(300)
    assert [row["row"] for row in held(f"{unique}-scores", "stream", server.port)] == list(range(300))


def test_messages_of_a_queue_come_once(server: RabbitServer, unique: str, tmp_path: Path) -> None:
    fill(server, unique, "classic", rows(2_500))
    inbox = RabbitInbox(f"amqp://127.0.0.1:{server.port}/{unique}")
    inbox._own.retry.seconds = PATIENCE
    spool = Spool(inbox, tmp_path / "messages")
    spool.open(None, bounded=True)
    values, thread = list[Any](), None
    while (plan := spool.plan(500, 0.0)) is not None:
        values += [one.value for one in spool.read(plan.ranges)]
        if thread is None:
            thread = restart(server)
    assert thread is not None
    thread.join()
    spool.close()
    assert values == rows(2_500)
