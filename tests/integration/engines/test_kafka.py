"""A Kafka topic as a source of Spark: ranges of offsets that can be read again, exactly."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: run make test-engines")

from kafka_broker import Broker
from pyspark.sql import SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from driftsurf.errors import OptionError, SourceError
from driftsurf.keyed import Columns, KeyedOptions, KeyRows
from driftsurf.spark import run_spark, session
from driftsurf.spark.kafka import KafkaReader, Range, read_kafka

SCHEMA = "shop string, price double, age double, bought int"


def send(broker: Broker, topic: str, rows: list[dict[str, Any]]) -> None:
    for row in rows:
        broker.producer.produce(topic, json.dumps(row), key=row["shop"])
    assert broker.producer.flush(120) == 0


@pytest.fixture(scope="module")
def broker() -> Broker:
    return Broker()


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    made = session("local[2]", partitions=2, **{"spark.ui.enabled": "false"})
    made.sparkContext.setLogLevel("OFF")
    yield made
    made.stop()


def sales(n: int, seed: int = 0) -> list[dict[str, Any]]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2)).round(4)
    return [
        {"shop": f"s{int(rng.integers(6))}", "price": price, "age": age, "bought": int(price > 0)}
        for price, age in X.tolist()
    ]


def reader(broker: Broker, topic: str, **options: str) -> KafkaReader:
    return KafkaReader({"servers": broker.servers, "topic": topic, **options})


def test_a_range_is_the_same_rows_whenever_it_is_read(broker: Broker) -> None:
    send(broker, "again", sales(100))
    source = reader(broker, "again")
    start = source.initialOffset()
    end = source.latestOffset(start, ReadAllAvailable())
    assert sum(end.values()) == 100
    ranges = source.partitions(start, end)
    first = [row for one in ranges for row in source.read(one)]
    send(broker, "again", sales(50, seed=1))
    assert [row for one in source.partitions(start, end) for row in source.read(one)] == first
    assert sorted(json.loads(row[1])["price"] for row in first) == sorted(row["price"] for row in sales(100))
    assert {row[2:4] for row in first} == {(one.partition, at) for one in ranges for at in range(one.start, one.end)}
    assert source.partitions(end, end) == []


def test_the_rows_of_an_epoch_are_limited(broker: Broker) -> None:
    send(broker, "small", sales(200))
    source = reader(broker, "small", rows="40")
    limit = source.getDefaultReadLimit()
    assert isinstance(limit, ReadMaxRows)
    start = source.initialOffset()
    source.prepareForTriggerAvailableNow()
    total, epochs = 0, 0
    while (end := source.latestOffset(start, limit)) != start:
        rows = sum(end[name] - start[name] for name in end)
        assert rows <= 40
        total, start, epochs = total + rows, end, epochs + 1
    assert total == 200
    assert epochs >= 5
    send(broker, "small", sales(10, seed=1))
    assert source.latestOffset(start, limit) == start  # later messages belong to the next run


def test_missing_options_and_offsets_beyond_the_end_are_errors(broker: Broker) -> None:
    with pytest.raises(OptionError, match="'topic'"):
        KafkaReader({"servers": "x"})
    send(broker, "short", sales(20))
    source = reader(broker, "short")
    beyond = [Range(0, 0, 10**6), Range(0, 10**6 - 1, 10**6)]
    for one in beyond:
        with pytest.raises(SourceError, match="1000000"):
            list(source.read(one))


def test_a_keyed_run_from_a_topic_resumes_where_it_stopped(broker: Broker, spark: SparkSession, tmp_path: Path) -> None:
    learner = KeyedOptions(classes=(0, 1), batch_size=16, step_size=0.1).learner(("price", "age"))
    columns = Columns("shop", "offset", "bought")
    rows = sales(600)
    for part in (rows[:400], rows[400:]):
        send(broker, "sales", part)
        frame = read_kafka(spark, broker.servers, "sales", SCHEMA, rows_per_epoch=300)
        folder = run_spark(frame, tmp_path / "run", learner, columns)
    keys = folder.keys()
    assert sum(entry["rows"] for entry in keys.values()) == 600
    assert sum(entry["duplicates"] for entry in keys.values()) == 0
    assert len(folder.epochs()) >= 3
    for key, entry in keys.items():
        own = [row for row in rows if row["shop"] == key]
        X = np.array([[row["price"], row["age"]] for row in own])
        visit = learner.visit(key, None, KeyRows(np.arange(len(own)), X, [row["bought"] for row in own]))
        assert (entry["errors"], entry["transitions"]) == (visit.summary.errors, visit.summary.transitions)
    assert read_kafka(spark, broker.servers, "sales").columns == [
        "kafka_key",
        "value",
        "partition",
        "offset",
        "timestamp",
    ]


def test_a_missing_topic_is_named(broker: Broker) -> None:
    with pytest.raises(SourceError, match="'none here'"):
        reader(broker, "none here").initialOffset()
