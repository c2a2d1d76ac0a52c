"""Queues of RabbitMQ for tests."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pika  # type: ignore[import-untyped]

PORT = 5672


def connect(port: int = PORT) -> Any:
    """Return a connection to a broker of this machine."""
    return pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port))


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


def held(unique: str, kind: str, port: int = PORT) -> list[dict[str, Any]]:
    """Return the rows of a queue, without taking them from it."""
    connection = connect(port)
    channel = connection.channel()
    channel.basic_qos(prefetch_count=0 if kind == "classic" else 10_000)
    found = []
    arguments = {"x-stream-offset": "first"} if kind == "stream" else {}
    for method, _, body in channel.consume(unique, inactivity_timeout=2.0, arguments=arguments):
        if method is None:
            break
        found.append(json.loads(body))
    connection.close()
    return found
