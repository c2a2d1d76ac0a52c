"""Predictions in brokers and databases: one sink for each connector that can write."""

from __future__ import annotations

import importlib
from typing import Any, ClassVar

from driftsurf.data.connectors.contract import Writer
from driftsurf.data.connectors.sqlite import SqliteWriter
from driftsurf.errors import Option, RunFolderError
from driftsurf.registry import register
from driftsurf.runs.predictions import PredictionBatch
from driftsurf.runs.sinks._base import SinkContext

__all__ = [
    "ConnectorSink",
    "KafkaSink",
    "MqttSink",
    "NatsSink",
    "PostgresSink",
    "RabbitSink",
    "RedisSink",
    "SqliteSink",
]


class ConnectorSink:
    """Predictions as rows of a broker or database, which is asked after a crash how many it holds.

    A writer that cannot tell gets the rows after the last checkpoint a second time.
    """

    writer: ClassVar[str]
    """Module and class of the writer."""

    def __init__(self, destination: str, context: SinkContext) -> None:
        self.context = context
        module, _, name = self.writer.partition(":")
        make: Any = getattr(importlib.import_module(module), name)
        self._writer: Writer = make(destination, context.columns)

    def begin(self) -> None:
        """Connect, and make sure that no rows of another run are there."""
        there = self._writer.open()
        if there and not self.context.overwrite:
            raise RunFolderError(
                f"{self._writer.name} already holds {there:,} rows; choose another destination for ",
                Option(self.context.option),
                ", or remove them with ",
                Option("overwrite", True),
            )
        if there:
            self._writer.clear()

    def resume(self, row: int) -> int:
        """Connect; return the first row that the destination lacks."""
        there = self._writer.open()
        if not self._writer.exact:
            return row
        if there < row:
            raise RunFolderError(
                f"{self._writer.name} holds {there:,} rows, but the checkpoint counts {row:,} as written: rows were "
                "removed. Restore them, or start a new run"
            )
        return there

    def take(self, predictions: PredictionBatch) -> None:
        """Write the predictions of a batch."""
        self._writer.write(predictions.first_row, list(predictions.rows()))

    def flush(self) -> None:
        """Return when everything is durable that was taken."""
        self._writer.flush()

    def finish(self) -> None:
        """Disconnect after the last batch."""
        self._writer.flush()
        self.close()

    def close(self) -> None:
        """Disconnect."""
        self._writer.close()


@register("sink", "redis", schemes=("redis", "rediss"), requires=("redis",), install="pip install 'driftsurf[redis]'")
class RedisSink(ConnectorSink):
    """A stream of Redis."""

    writer: ClassVar[str] = "driftsurf.data.connectors.redis:RedisWriter"


@register("sink", "kafka", schemes=("kafka",), requires=("confluent_kafka",), install="pip install 'driftsurf[kafka]'")
class KafkaSink(ConnectorSink):
    """A topic of Kafka."""

    writer: ClassVar[str] = "driftsurf.data.connectors.kafka_writer:KafkaWriter"


@register(
    "sink",
    "postgresql",
    schemes=("postgresql", "postgres"),
    requires=("psycopg",),
    install="pip install 'driftsurf[postgresql]'",
)
class PostgresSink(ConnectorSink):
    """A table of PostgreSQL."""

    writer: ClassVar[str] = "driftsurf.data.connectors.postgresql:PostgresWriter"


@register("sink", "mqtt", schemes=("mqtt", "mqtts"), requires=("paho",), install="pip install 'driftsurf[mqtt]'")
class MqttSink(ConnectorSink):
    """A topic of an MQTT broker."""

    writer: ClassVar[str] = "driftsurf.data.connectors.mqtt:MqttWriter"


@register(
    "sink", "rabbitmq", schemes=("amqp", "amqps"), requires=("pika",), install="pip install 'driftsurf[rabbitmq]'"
)
class RabbitSink(ConnectorSink):
    """A stream or another queue of RabbitMQ."""

    writer: ClassVar[str] = "driftsurf.data.connectors.rabbitmq_writer:RabbitWriter"


@register("sink", "nats", schemes=("nats",), requires=("nats",), install="pip install 'driftsurf[nats]'")
class NatsSink(ConnectorSink):
    """A stream of NATS JetStream."""

    writer: ClassVar[str] = "driftsurf.data.connectors.nats_writer:NatsWriter"


@register("sink", "sqlite", endings=(".sqlite", ".db"))
class SqliteSink(ConnectorSink):
    """A table in a file of SQLite, which has the name of what it holds: predictions, journal or trace."""

    writer: ClassVar[str] = "driftsurf.data.connectors.sqlite:SqliteWriter"

    def __init__(self, destination: str, context: SinkContext) -> None:
        super().__init__(destination, context)
        assert isinstance(self._writer, SqliteWriter)
        self._writer.table = context.option.removesuffix("_to")
