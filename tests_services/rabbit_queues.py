"""Queues of RabbitMQ for tests."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pika  # type: ignore[import-untyped]


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
