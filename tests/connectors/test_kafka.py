"""Topics of Kafka as sources and destinations, with the broker that librdkafka has for tests."""

from __future__ import annotations

import itertools
import json
import logging
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("confluent_kafka")

from kafka_broker import KEPT, PARTITIONS, Broker

from driftsurf.checks import SeekableCase, WriterCase, check_seekable, check_writer
from driftsurf.checks.connectors import COLUMNS
from driftsurf.connectors import kafka
from driftsurf.connectors.kafka import KafkaSource, KafkaTopic, KafkaWriter
from driftsurf.data.messages.contract import Plan
from driftsurf.data.reading_options import ReadingOptions
from driftsurf.errors import OptionError, SourceError, StateError


@pytest.fixture(scope="module")
def broker() -> Broker:
    return Broker()


@pytest.fixture
def topic() -> str:
    return f"t{uuid.uuid4().hex[:8]}"


@pytest.fixture
def url(broker: Broker, topic: str) -> str:
    """Address of a topic that exists and is empty."""
    broker.producer.list_topics(topic, timeout=30)
    return f"kafka://{broker.servers}/{topic}"


def rows(count: int, first: int = 0) -> list[bytes]:
    return [json.dumps({"n": n}).encode() for n in range(first, first + count)]


def plans(topic: KafkaTopic, most: int) -> list[Plan]:
    found = []
    while (plan := topic.plan(most, 0.0)) is not None:
        found.append(plan)
    return found


@pytest.mark.parametrize("partition", [None, 2])
def test_the_reader_conforms(broker: Broker, url: str, topic: str, partition: int | None) -> None:
    def send(messages: Sequence[bytes]) -> None:
        broker.send(topic, messages, partition)

    def forget(count: int) -> None:
        for number in range(PARTITIONS):
            broker.send(topic, [b"x" * (KEPT // 4)] * 6, number)

    address = url if partition is None else f"{url}?partition={partition}"
    check_seekable(SeekableCase(lambda: KafkaTopic(address), send, forget))


def test_the_writer_conforms(broker: Broker, url: str, topic: str) -> None:
    def held() -> list[dict[str, Any]]:
        return [json.loads(one.value()) for one in broker.held(topic, 1)]

    check_writer(WriterCase(lambda: KafkaWriter(f"{url}?partition=1", COLUMNS), held))


# ---------------------------------------------------------------------------- plans


def test_a_plan_takes_an_equal_share_of_every_partition(broker: Broker, url: str, topic: str) -> None:
    broker.send(topic, rows(400))
    reader = KafkaTopic(url)
    reader.open(None, bounded=True)
    found = plans(reader, 50)
    assert [len(plan.ranges) for plan in found] == [PARTITIONS] * 8
    # What does not divide evenly goes round, so that no partition falls behind.
    assert [[one[3] for one in plan.ranges] for plan in found[:3]] == [
        [13, 13, 12, 12],
        [12, 13, 13, 12],
        [12, 12, 13, 13],
    ]
    # Where the first plan begins depends on what the brokers still keep, so it is logged.
    assert [plan.certain for plan in found] == [False, *[True] * 7]
    assert found[-1].end == [{"0": 100, "1": 100, "2": 100, "3": 100}, 8]
    reader.close()


def test_certain_plans_are_made_again_at_every_position(broker: Broker, url: str, topic: str) -> None:
    broker.send(topic, rows(1000))
    reader = KafkaTopic(url)
    reader.open(None, bounded=True)
    first = plans(reader, 20)
    reader.close()
    assert [number for number, plan in enumerate(first) if not plan.certain] == [0, 32]
    broker.send(topic, rows(300), partition=1)
    for before, plan in itertools.pairwise(first[10:21]):
        again = KafkaTopic(url)
        again.open(json.loads(json.dumps(before.end)), bounded=False)
        assert again.plan(20, 0.0) == plan
        again.close()


def test_a_partition_that_has_little_is_filled_up_by_others(broker: Broker, url: str, topic: str) -> None:
    broker.send(topic, rows(30), partition=0)
    broker.send(topic, rows(3), partition=3)
    reader = KafkaTopic(url)
    reader.open(None, bounded=True)
    found = plans(reader, 20)
    assert [[one[3] for one in plan.ranges] for plan in found] == [[17, 0, 0, 3], [13]]
    assert not any(plan.certain for plan in found)
    reader.close()


def test_a_partition_that_was_added_becomes_part_of_a_logged_plan(broker: Broker, url: str, topic: str) -> None:
    broker.send(topic, rows(40))
    # As if partition 3 had been added after the position was saved.
    position = [{"0": 2, "1": 2, "2": 2}, 5]
    reader = KafkaTopic(url)
    reader.open(position, bounded=True)
    found = plans(reader, 6)
    certain, logged = found[0], found[4]
    assert certain.certain
    assert [one[0] for one in certain.ranges] == [0, 1, 2]
    assert not logged.certain
    assert [3, 0] in [one[:2] for one in logged.ranges]
    end: Any = found[-1].end
    assert end[0] == {"0": 10, "1": 10, "2": 10, "3": 10}
    reader.close()


def test_messages_of_a_plan_are_ordered_by_partition_and_offset(broker: Broker, url: str, topic: str) -> None:
    broker.send(topic, rows(12))
    reader = KafkaTopic(url)
    reader.open(None, bounded=True)
    plan = reader.plan(100, 0.0)
    assert plan is not None
    places = [one.place for one in reader.read(plan.ranges)]
    assert places == [f"partition {p}, offset {o}" for p in range(PARTITIONS) for o in range(3)]
    reader.close()


def test_partitions_pause_while_too_much_is_in_memory(
    broker: Broker, url: str, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.send(topic, [b"%06d" % n for n in range(200)])
    monkeypatch.setattr(kafka, "BUFFERED", 300)
    reader = KafkaTopic(url)
    reader.open(None, bounded=True)
    found = [one.value for plan in iter(lambda: reader.plan(20, 0.0), None) for one in reader.read(plan.ranges)]
    assert sorted(found) == [b"%06d" % n for n in range(200)]
    reader.close()


def test_messages_that_were_planned_and_are_gone_are_an_error(broker: Broker, url: str, topic: str) -> None:
    broker.send(topic, rows(5), partition=0)
    reader = KafkaTopic(url)
    reader.open(None, bounded=True)
    with pytest.raises(SourceError, match="1 of the 3 messages from offset 0 to 1"):
        reader.read([[0, 0, 2, 3]])
    with pytest.raises(SourceError, match="ends before offset 9"):
        reader.read([[1, 0, 9, 9]])
    reader.close()


def test_messages_that_the_broker_deletes_while_it_is_read_are_named(broker: Broker, url: str, topic: str) -> None:
    broker.send(topic, rows(5), partition=0)
    reader = KafkaTopic(url)
    reader.open(None, bounded=False)
    assert reader.plan(5, 0.0) is not None
    reader.close()
    broker.send(topic, [b"x" * (KEPT // 4)] * 6, partition=0)
    reader.open(None, bounded=False)  # at what is still there
    with pytest.raises(SourceError, match=rf"messages 2 to \d+ of '{topic}', partition 0, were deleted"):
        reader.read([[0, 2, 5, 3]])
    with pytest.raises(SourceError, match=rf"messages 5 to \d+ of '{topic}', partition 0, were deleted"):
        reader.open([{"0": 5}, 1], bounded=False)
    reader.close()


def test_a_topic_that_lost_its_messages_or_partitions_is_an_error(broker: Broker, url: str, topic: str) -> None:
    broker.send(topic, rows(5), partition=0)
    with pytest.raises(SourceError, match="partition 0, ends at offset 5, but was read up to 7"):
        KafkaTopic(url).open([{"0": 7}, 1], bounded=True)
    with pytest.raises(SourceError, match="partition 9, ends at offset 0"):
        KafkaTopic(url).open([{"9": 1}, 1], bounded=True)


def test_a_topic_that_does_not_exist_is_named(broker: Broker, topic: str) -> None:
    with pytest.raises(SourceError, match=rf"the topic '{topic}' cannot be read: Broker: Unknown topic"):
        KafkaTopic(f"kafka://{broker.servers}/{topic}").open(None, bounded=True)


def test_offsets_are_told_to_a_group_only_if_the_address_names_one(broker: Broker, url: str, topic: str) -> None:
    from confluent_kafka import Consumer, TopicPartition

    broker.send(topic, rows(8))
    monitor = Consumer({"bootstrap.servers": broker.servers, "group.id": f"g-{topic}"})
    places = [TopicPartition(topic, 0)]
    for address, expected in ((url, -1001), (f"{url}?group.id=g-{topic}", 2)):
        reader = KafkaTopic(address)
        reader.open(None, bounded=True)
        plan = reader.plan(10, 0.0)
        assert plan is not None
        reader.committed(plan.end)
        reader.close()
        assert monitor.committed(places, 30)[0].offset == expected
    monitor.close()


def test_empty_and_hostile_messages_go_to_the_side(broker: Broker, url: str, topic: str) -> None:
    hostile = [None, b"\x00", b"{", b"[" * 100_000, b'{"n": 1e999}', b'"' + b"x" * 2**20 + b'"']
    broker.send(topic, [*rows(3), *hostile, *rows(2, first=3)], partition=0)
    source = KafkaSource(url, ReadingOptions(on_bad_row="skip"), batch_size=4)
    bad: list[Any] = []
    found = [n for table, _ in source.tables(on_skip=bad.append) for n in table["n"].values.tolist()]
    assert found == [0, 1, 2, 3, 4]
    assert [one.file.rpartition(", ")[2] for one in bad] == [f"offset {n}" for n in range(3, 9)]


# ---------------------------------------------------------------------------- writers


def test_a_partition_with_other_messages_is_no_destination(broker: Broker, url: str, topic: str) -> None:
    broker.send(topic, rows(1), partition=0)
    with pytest.raises(SourceError, match="partition 0, holds messages that are no rows of a run"):
        KafkaWriter(url, COLUMNS).open()
    with pytest.raises(SourceError, match="has no partition 9; choices: 0 to 3"):
        KafkaWriter(f"{url}?partition=9", COLUMNS).open()


def test_another_writer_is_noticed(broker: Broker, url: str, topic: str) -> None:
    writer = KafkaWriter(url, COLUMNS)
    assert writer.open() == 0
    writer.write(0, [{"row": 0}])
    writer.flush()
    broker.send(topic, [b"{}"], partition=0)
    writer.write(1, [{"row": 1}])
    with pytest.raises(SourceError, match="at offset 2, expected 1: somebody else writes to it"):
        writer.flush()
    writer.close()


def test_a_full_queue_of_the_producer_waits(broker: Broker, url: str, topic: str) -> None:
    writer = KafkaWriter(f"{url}?queue.buffering.max.messages=10", COLUMNS)
    writer.open()
    writer.write(0, [{"row": n} for n in range(500)])
    writer.flush()
    writer.close()
    assert len(broker.held(topic)) == 500


# ---------------------------------------------------------------------------- addresses and outages


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("kafka://host", "does not name a topic; write kafka://HOST:PORT/TOPIC"),
        ("kafka://host/a/b", "names more than a topic"),
        ("kafka://host/t?auto.offset.reset=latest", "is set by driftsurf; leave it out"),
        ("kafka://host/t?sasl.password=hunter2", "must name where the secret is: env:NAME or file:PATH"),
        ("kafka://me@host/t", "sasl.mechanism=SCRAM-SHA-512"),
        ("kafka://host/t?partition=x", "must be a whole number"),
    ],
)
def test_wrong_addresses_are_refused(text: str, match: str) -> None:
    with pytest.raises(OptionError, match=match) as caught:
        KafkaTopic(text)
    assert "hunter2" not in str(caught.value)


def test_an_unknown_setting_is_named(broker: Broker, url: str) -> None:
    with pytest.raises(OptionError, match=r'No such configuration property: "fetch.min"'):
        KafkaTopic(f"{url}?fetch.min=3").open(None, bounded=True)


def test_a_password_reaches_the_client_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_PASSWORD", "hunter2")
    location = "kafka://me@host/t?security.protocol=SASL_SSL&sasl.mechanism=PLAIN&password=env:KAFKA_PASSWORD"
    own = KafkaTopic(location)._own
    settings = own.settings()
    assert (settings["sasl.username"], settings["sasl.password"]) == ("me", "hunter2")
    assert "hunter2" not in own.name + repr(own.address)


def test_brokers_that_cannot_be_reached_are_named_after_a_while(caplog: pytest.LogCaptureFixture) -> None:
    reader = KafkaTopic("kafka://127.0.0.1:1/t")
    reader._own.retry.seconds = 0.3
    with (
        caplog.at_level(logging.WARNING, "driftsurf.connectors"),
        pytest.raises(SourceError, match=r"kafka://127.0.0.1:1/t cannot be reached for 0.3 s"),
    ):
        reader.open(None, bounded=True)
    assert "trying again" in caplog.text


def test_a_broker_that_falls_silent_is_named(url: str, topic: str) -> None:
    lost = Broker()
    lost.send(topic, rows(4))
    reader = KafkaTopic(f"kafka://{lost.servers}/{topic}")
    reader.open(None, bounded=False)
    assert reader.plan(4, 0.0) is not None
    reader._own.retry.seconds = 0.5
    del lost.producer  # the broker goes with it
    with pytest.raises(SourceError, match=r"cannot be reached for 0.5 s"):
        reader.plan(4, 60.0)
    reader.close()


def test_a_slow_broker_is_waited_for(topic: str) -> None:
    slow = Broker(**{"test.mock.broker.rtt": 200})
    slow.send(topic, rows(100))
    reader = KafkaTopic(f"kafka://{slow.servers}/{topic}")
    reader.open(None, bounded=True)
    found = [one.value for plan in iter(lambda: reader.plan(30, 0.0), None) for one in reader.read(plan.ranges)]
    reader.close()
    assert sorted(found) == sorted(rows(100))
    writer = KafkaWriter(f"kafka://{slow.servers}/{topic}-out", COLUMNS)
    writer.open()
    writer.write(0, [{"row": n} for n in range(100)])
    writer.flush()
    assert writer.open() == 100
    writer.close()


def test_another_position_is_refused(url: str) -> None:
    with pytest.raises(StateError, match="not a position in a topic"):
        KafkaTopic(url).open({"file": "x"}, bounded=True)


def test_a_killed_run_learns_the_batches_that_it_had_planned(
    broker: Broker, url: str, topic: str, tmp_path: Path
) -> None:
    def batches(resumed: bool) -> list[list[float]]:
        source = KafkaSource(url, batch_size=10)
        source.keep_plans(tmp_path, keep=2, resumed=resumed, name="plans.jsonl")
        return [table["n"].values.tolist() for table, _ in source.tables()]

    broker.send(topic, rows(43))
    planned = batches(resumed=False)
    broker.send(topic, rows(20, first=43))
    again = batches(resumed=True)
    assert again[: len(planned)] == planned
    assert sorted(n for batch in again for n in batch) == list(range(63))
