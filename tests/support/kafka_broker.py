"""A Kafka broker with the real protocol on loopback, which librdkafka has for tests: no server is needed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

PARTITIONS = 4
"""Partitions of every topic."""
KEPT = 5 * 2**20
"""Bytes that the broker keeps of a partition at most."""
PATIENCE = 120.0
"""Seconds for an answer of the broker, also on a machine that does much else."""


class Broker:
    """A broker that runs as long as this object lives, and keeps ``KEPT`` bytes of each partition."""

    def __init__(self, **settings: Any) -> None:
        own = {"test.mock.num.brokers": 1, "bootstrap.servers": "none", "log_level": 0, "message.max.bytes": 10**8}
        self.producer = Producer(own | settings)
        brokers = self.producer.list_topics(timeout=PATIENCE).brokers.values()
        self.servers = ",".join(f"{broker.host}:{broker.port}" for broker in brokers)

    def send(self, topic: str, messages: Sequence[bytes | None], partition: int | None = None) -> None:
        """Append messages to a partition, or to all in turn."""
        for place, one in enumerate(messages):
            at = place % PARTITIONS if partition is None else partition
            self.producer.produce(topic, one, partition=at)
            if place % 1000 == 999:
                self.producer.flush(PATIENCE)
        assert self.producer.flush(PATIENCE) == 0

    def held(self, topic: str, partition: int = 0) -> list[Any]:
        """Return the messages of a partition."""
        consumer = Consumer({"bootstrap.servers": self.servers, "group.id": "held", "enable.partition.eof": True})
        low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), PATIENCE)
        consumer.assign([TopicPartition(topic, partition, low)])
        found = list[Any]()
        while len(found) < high - low:
            message = consumer.poll(PATIENCE)
            assert message is not None
            if message.error() is None:
                found.append(message)
        consumer.close()
        return found
