"""Queues of RabbitMQ for tests."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Sequence
from typing import Any

import pika  # type: ignore[import-untyped]

PORT = 5672
PATIENCE = 300.0
"""Seconds for an answer of the broker, also on a machine that does much else."""


def connect(port: int = PORT) -> Any:
    """Return a connection to a broker of this machine."""
    # Without heartbeats: a test that does something else for a minute answers none.
    options = {"heartbeat": 0, "socket_timeout": PATIENCE, "stack_timeout": PATIENCE}
    return pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port, **options))


class Broker:
    """A connection for the queues of a test."""

    def __init__(self, port: int = PORT) -> None:
        self.connection = connect(port)
        self.channel = self.connection.channel()
        self.made: list[str] = []
        self.kinds: dict[str, str] = {}
        self.count = 0

    def declare(self, queue: str, kind: str, **arguments: Any) -> None:
        self.made.append(queue)
        self.kinds[queue] = kind
        self.channel.queue_declare(queue, durable=True, arguments={"x-queue-type": kind, **arguments})

    def send(self, queue: str, messages: Sequence[bytes], *, named: bool = False) -> None:
        """Publish messages in one transaction, or to a stream; return when the broker has all of them."""
        channel = self.connection.channel()
        streams = self.kinds.get(queue) == "stream"
        if not streams:
            channel.tx_select()
        for place, one in enumerate(messages):
            id = str(self.count) if named else None
            self.count += 1
            if streams and place == len(messages) - 1:  # a stream keeps the order, so this is an answer for all
                channel.confirm_delivery()
            channel.basic_publish("", queue, one, pika.BasicProperties(delivery_mode=2, message_id=id))
        if not streams:
            channel.tx_commit()
        channel.close()

    def delete(self, queue: str) -> None:
        self.connection.channel().queue_delete(queue)

    def close(self) -> None:
        for queue in self.made:
            self.delete(queue)
        self.connection.close()


def first_offset(stream: str, port: int = PORT) -> int:
    """Return the offset of the oldest message of a stream; -1 if none comes for a while."""
    connection = connect(port)
    channel = connection.channel()
    channel.basic_qos(prefetch_count=1)
    arguments = {"x-stream-offset": "first"}
    _, about, _ = next(channel.consume(stream, inactivity_timeout=5.0, arguments=arguments))
    with contextlib.suppress(pika.exceptions.AMQPError):  # the client gives messages back, which a stream refuses
        connection.close()
    return -1 if about is None else int(about.headers["x-stream-offset"])


def held(unique: str, kind: str, port: int = PORT) -> list[dict[str, Any]]:
    """Return the rows of a queue, without taking them from it.

    They end when none comes for a while, and the broker has no others: a busy one may pause.
    """
    connection = connect(port)
    channel = connection.channel()
    channel.basic_qos(prefetch_count=0 if kind == "classic" else 10_000)
    found, end = list[dict[str, Any]](), time.monotonic() + PATIENCE
    arguments = {"x-stream-offset": "first"} if kind == "stream" else {}
    for method, _, body in channel.consume(unique, inactivity_timeout=2.0, arguments=arguments):
        if method is not None:
            found.append(json.loads(body))
            if kind == "stream":  # keeps its messages, and hands out no more than were acknowledged
                channel.basic_ack(method.delivery_tag)
            continue
        assert time.monotonic() < end, f"{len(found)} rows came, and the broker has more"
        count = channel.queue_declare(unique, passive=True).method.message_count
        if count <= (len(found) if kind == "stream" else 0) and not channel.get_waiting_message_count():
            break
    connection.close()
    return found
