"""A Kafka topic as a streaming frame of Spark, without a jar: Spark's Python Data Source API on confluent-kafka.

An epoch is a range of offsets for each partition, which Spark keeps in its checkpoint: repeated, it is the same rows.
The offset is a sequence number for every key whose messages all go to one partition, as they do by default. It needs
the extras ``spark`` and ``kafka``.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from driftsurf.errors import MissingExtraError, OptionError, SourceError

try:
    from confluent_kafka import Consumer, KafkaError, TopicPartition
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql import functions as F
    from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxRows,
        SupportsTriggerAvailableNow,
    )
except ImportError as missing:
    raise MissingExtraError(
        f"a Kafka topic in Spark needs confluent-kafka and pyspark 4.2 ({missing}): "
        "pip install 'driftsurf[spark,kafka]'"
    ) from missing

__all__ = ["KafkaSource", "read_kafka"]

SCHEMA = "key string, value string, partition int, offset bigint, timestamp bigint"
SECONDS = 30.0
"""For an answer of the brokers."""
Offsets = dict[str, int]
"""By partition: the offset that comes next."""


def read_kafka(
    spark: SparkSession,
    servers: str,
    topic: str,
    schema: str | None = None,
    *,
    rows_an_epoch: int | None = None,
    **settings: str,
) -> DataFrame:
    """A topic from its first message on, as a streaming frame.

    ``schema`` says what the values are as JSON (``"shop string, price double, bought int"``): they become columns
    beside ``kafka_key``, ``partition``, ``offset`` and ``timestamp`` (milliseconds). ``settings`` are those of
    librdkafka, with underscores for points: ``security_protocol="SSL"``.
    """
    spark.dataSource.register(KafkaSource)
    options = {"servers": servers, "topic": topic}
    options |= {f"kafka.{name.replace('_', '.')}": value for name, value in settings.items()}
    if rows_an_epoch is not None:
        options["rows"] = str(rows_an_epoch)
    raw = spark.readStream.format(KafkaSource.name()).options(**options).load()
    told = raw.withColumnRenamed("key", "kafka_key")
    if schema is None:
        return told
    value = told.withColumn("value", F.from_json("value", schema))
    return value.select("value.*", "kafka_key", "partition", "offset", "timestamp")


class KafkaSource(DataSource):  # type: ignore[misc]
    """The options ``servers`` and ``topic``, perhaps ``rows`` (of an epoch), and any of librdkafka after ``kafka.``."""

    @classmethod
    def name(cls) -> str:
        """For ``format``."""
        return "driftsurf-kafka"

    def schema(self) -> str:
        """Of all topics."""
        return SCHEMA

    def streamReader(self, schema: Any) -> KafkaReader:
        """Of this topic."""
        return KafkaReader(dict(self.options))


@dataclass
class Range(InputPartition):  # type: ignore[misc]
    """Messages of one partition."""

    partition: int
    start: int
    end: int


class KafkaReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """Plans ranges of offsets on the driver, reads them on workers."""

    def __init__(self, options: Mapping[str, str]) -> None:
        for name in ("servers", "topic"):
            if name not in options:
                raise OptionError(f"the option {name!r} of a Kafka source is missing: give it with .option()")
        self.topic = options["topic"]
        self.rows = int(options["rows"]) if "rows" in options else None
        own = {name.removeprefix("kafka."): value for name, value in options.items() if name.startswith("kafka.")}
        self.settings = {
            "bootstrap.servers": options["servers"],
            "group.id": "driftsurf",  # offsets are Spark's affair: nothing is ever committed under this name
            "enable.auto.commit": "false",
            "enable.partition.eof": "true",
            "auto.offset.reset": "error",
            **own,
        }
        self.ending: Offsets | None = None

    # -------------------------------------------------------------------- on the driver

    def initialOffset(self) -> Offsets:
        """The first message that there is of each partition."""
        return {name: low for name, (low, _) in self._bounds().items()}

    def getDefaultReadLimit(self) -> ReadLimit:
        """As the option says."""
        return ReadAllAvailable() if self.rows is None else ReadMaxRows(self.rows)

    def prepareForTriggerAvailableNow(self) -> None:
        """What comes later is not part of this run."""
        self.ending = {name: high for name, (_, high) in self._bounds().items()}

    def latestOffset(self, start: Offsets, limit: ReadLimit) -> Offsets:
        """Behind the last message, or as far as the rows of an epoch go, in equal shares of all partitions."""
        ends = self.ending or {name: high for name, (_, high) in self._bounds().items()}
        if isinstance(limit, ReadMaxRows):
            share = max(1, limit.max_rows // max(1, len(ends)))
            ends = {name: min(end, start.get(name, 0) + share) for name, end in ends.items()}
        return {name: max(end, start.get(name, 0)) for name, end in ends.items()}

    def partitions(self, start: Offsets, end: Offsets) -> Sequence[Range]:
        """A range for each partition that has something new; a partition that is new begins with its first message."""
        return [Range(int(name), start.get(name, 0), stop) for name, stop in end.items() if stop > start.get(name, 0)]

    def _bounds(self) -> dict[str, tuple[int, int]]:
        with _consumer(self.settings) as consumer:
            about = consumer.list_topics(self.topic, SECONDS).topics[self.topic]
            if about.error is not None:
                raise SourceError(f"the topic {self.topic!r} cannot be read: {about.error.str()}")
            return {
                str(number): consumer.get_watermark_offsets(TopicPartition(self.topic, number), SECONDS)
                for number in sorted(about.partitions)
            }

    # -------------------------------------------------------------------- on a worker

    def read(self, partition: Range) -> Iterator[tuple[Any, ...]]:
        """All messages of a range, whatever was removed between them."""
        with _consumer(self.settings) as consumer:
            place = TopicPartition(self.topic, partition.partition, partition.start)
            low, _ = consumer.get_watermark_offsets(place, SECONDS)
            if low > partition.start:
                raise SourceError(
                    f"messages {partition.start} to {min(low, partition.end) - 1} of {self.topic!r}, partition "
                    f"{partition.partition}, are gone from the brokers: keep them for longer than a run may rest"
                )
            consumer.assign([place])
            while True:
                message = consumer.poll(SECONDS)
                if message is None:
                    raise SourceError(f"no answer from {self.settings['bootstrap.servers']} in {SECONDS:.0f} s")
                error = message.error()
                at_end = error is not None and error.code() == KafkaError._PARTITION_EOF
                if at_end and message.offset() >= partition.end:
                    return
                if error is not None:
                    raise SourceError(
                        f"{self.topic!r}, partition {partition.partition}, cannot be read up to {partition.end}: "
                        f"{error.str()}"
                    )
                if message.offset() < partition.end:
                    yield (
                        _text(message.key()),
                        _text(message.value()),
                        partition.partition,
                        message.offset(),
                        message.timestamp()[1],
                    )
                if message.offset() >= partition.end - 1:
                    return


def _consumer(settings: Mapping[str, str]) -> contextlib.closing[Any]:
    return contextlib.closing(Consumer(dict(settings)))


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode(errors="replace")
