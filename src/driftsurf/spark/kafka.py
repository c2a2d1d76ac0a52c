"""A Kafka topic as a streaming frame of Spark, read through confluent-kafka without a jar.

An epoch is a range of offsets per partition. Spark keeps the ranges in its checkpoint, so that a repeated epoch has the
same rows. The offset serves as the sequence number of every key whose messages all go to one partition, which is
Kafka's default. This module needs the extras ``spark`` and ``kafka``.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from driftsurf.connectors.kafka import SECONDS, bounds, consumer_settings, lost_messages
from driftsurf.errors import MissingExtraError, OptionError, SourceError

try:
    from confluent_kafka import Consumer, KafkaError, TopicPartition
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql import functions as F
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows

    if not TYPE_CHECKING:
        from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
        from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow
except ImportError as _missing:
    raise MissingExtraError(
        f"a Kafka topic in Spark needs confluent-kafka and pyspark 4.2 ({_missing}): "
        "pip install 'driftsurf[spark,connectors]'"
    ) from _missing

if TYPE_CHECKING:  # types are checked without Spark

    class DataSource:
        """Spark's base class of a source of rows."""

        options: dict[str, str]

    class InputPartition:
        """Spark's base class of a part of a batch."""

    class DataSourceStreamReader:
        """Spark's base class of a reader of a stream."""

    class SupportsTriggerAvailableNow:
        """Spark's base class of a reader that can stop at the rows that are there."""


SCHEMA = "key string, value string, partition int, offset bigint, timestamp bigint"
Offsets = dict[str, int]
"""The next offset to read, by partition."""


def read_kafka(
    spark: SparkSession,
    servers: str,
    topic: str,
    schema: str | None = None,
    *,
    rows_per_epoch: int | None = None,
    **settings: str,
) -> DataFrame:
    """Return a topic, from its first message on, as a streaming frame.

    Parameters
    ----------
    spark
        The session.
    servers, topic
        Where the brokers are, and what to read.
    schema
        The fields of values that are JSON, such as ``"shop string, price double, bought int"``. They become columns
        beside ``kafka_key``, ``partition``, ``offset`` and ``timestamp`` (milliseconds). None leaves values as text.
    rows_per_epoch
        Rows of a micro-batch at most; None for all that are there.
    settings
        Settings of librdkafka, with underscores in place of points: ``security_protocol="SSL"``.
    """
    spark.dataSource.register(SparkKafkaSource)
    options = {"servers": servers, "topic": topic}
    options |= {f"kafka.{name.replace('_', '.')}": value for name, value in settings.items()}
    if rows_per_epoch is not None:
        options["rows"] = str(rows_per_epoch)
    raw = spark.readStream.format(SparkKafkaSource.name()).options(**options).load()
    messages = raw.withColumnRenamed("key", "kafka_key")
    if schema is None:
        return messages
    parsed = messages.withColumn("value", F.from_json("value", schema))
    return parsed.select("value.*", "kafka_key", "partition", "offset", "timestamp")


class SparkKafkaSource(DataSource):
    """A data source of Spark with the options ``servers``, ``topic``, ``rows`` (per epoch) and ``kafka.*``.

    Options that start with ``kafka.`` are passed to librdkafka.
    """

    @classmethod
    def name(cls) -> str:
        """Return the name under which ``format`` finds this source."""
        return "driftsurf-kafka"

    def schema(self) -> str:
        """Return the columns of every topic."""
        return SCHEMA

    def streamReader(self, schema: Any) -> KafkaReader:
        """Return the reader of this topic."""
        return KafkaReader(dict(self.options))


@dataclass
class Range(InputPartition):
    """A range of messages of one partition."""

    partition: int
    start: int
    end: int


class KafkaReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans ranges of offsets on the driver, and reads them on workers."""

    def __init__(self, options: Mapping[str, str]) -> None:
        for name in ("servers", "topic"):
            if name not in options:
                raise OptionError(
                    f"the option {name!r} of the Kafka source is missing: set it with .option({name!r}, ...)"
                )
        self.topic: str = options["topic"]
        self.rows: int | None = int(options["rows"]) if "rows" in options else None
        own = {name.removeprefix("kafka."): value for name, value in options.items() if name.startswith("kafka.")}
        self.settings: dict[str, Any] = consumer_settings(options["servers"], own)
        self.ending: Offsets | None = None

    # -------------------------------------------------------------------- on the driver

    def initialOffset(self) -> Offsets:
        """Return the first message that is still there, for each partition."""
        return {name: low for name, (low, _) in self._bounds().items()}

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return how much an epoch may hold."""
        return ReadAllAvailable() if self.rows is None else ReadMaxRows(self.rows)

    def prepareForTriggerAvailableNow(self) -> None:
        """Fix where this run ends; later messages belong to the next run."""
        self.ending = {name: high for name, (_, high) in self._bounds().items()}

    def latestOffset(self, start: Offsets, limit: ReadLimit) -> Offsets:
        """Return where the next epoch ends; a limit on its rows is shared equally among partitions."""
        ends = self.ending or {name: high for name, (_, high) in self._bounds().items()}
        if isinstance(limit, ReadMaxRows):
            share = max(1, limit.max_rows // max(1, len(ends)))
            ends = {name: min(end, start.get(name, 0) + share) for name, end in ends.items()}
        return {name: max(end, start.get(name, 0)) for name, end in ends.items()}

    def partitions(self, start: Offsets, end: Offsets) -> Sequence[Range]:
        """Return a range for each partition with new messages; a new partition starts at its first message."""
        return [Range(int(name), start.get(name, 0), stop) for name, stop in end.items() if stop > start.get(name, 0)]

    def _bounds(self) -> dict[str, tuple[int, int]]:
        with _consumer(self.settings) as consumer:
            found = bounds(consumer, self.topic, TopicPartition, SECONDS)
        return {str(number): bound for number, bound in found.items()}

    # -------------------------------------------------------------------- on a worker

    def read(self, partition: Range) -> Iterator[tuple[Any, ...]]:
        """Yield the messages of a range; compaction may have removed some of them."""
        with _consumer(self.settings) as consumer:
            place = TopicPartition(self.topic, partition.partition, partition.start)
            low, _ = consumer.get_watermark_offsets(place, SECONDS)
            if low > partition.start:
                raise lost_messages(self.topic, partition.partition, partition.start, min(low, partition.end))
            consumer.assign([place])
            while True:
                message = consumer.poll(SECONDS)
                if message is None:
                    raise SourceError(f"no answer from {self.settings['bootstrap.servers']} within {SECONDS:.0f} s")
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
