"""Streams of messages as sources, with a broker in memory: batches, plans, bad messages, formats, addresses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from memory_broker import MemoryConnector, MemoryTopic

from driftsurf.checks import SeekableCase, check_seekable
from driftsurf.data.messages.client import Address
from driftsurf.data.messages.contract import Plan, Seekable
from driftsurf.data.messages.source import MessageSource, PlanLog
from driftsurf.data.reading_options import ReadingOptions
from driftsurf.data.source import Planning, Source
from driftsurf.errors import BadRowError, CheckError, OptionError, SchemaError, SourceError, StateError


class MemorySource(MessageSource):
    """A source of messages in memory."""

    def __init__(self, topic: MemoryTopic, reading: ReadingOptions | None = None, **options: Any) -> None:
        self.topic = topic
        super().__init__("memory://topic", reading, **options)

    def connect(self, location: str) -> Seekable:
        """Return a connector of the topic."""
        return MemoryConnector(self.topic)


def rows(count: int, first: int = 0) -> list[bytes]:
    return [json.dumps({"n": n, "city": ["Rome", "Oslo"][n % 2]}).encode() for n in range(first, first + count)]


def topic(*messages: bytes, partitions: int = 1) -> MemoryTopic:
    made = MemoryTopic([[] for _ in range(partitions)])
    made.send(messages)
    return made


def numbers(source: MessageSource, position: Any = None) -> list[list[float]]:
    return [table["n"].values.tolist() for table, _ in source.tables(position)]


@pytest.mark.parametrize("partitions", [1, 3])
def test_the_double_conforms(partitions: int) -> None:
    made = topic(partitions=partitions)
    check_seekable(SeekableCase(lambda: MemoryConnector(made), made.send, made.forget))


def test_a_connector_that_loses_messages_does_not_conform() -> None:
    class Lossy(MemoryConnector):
        def read(self, ranges: Any) -> Any:
            return super().read(ranges)[1:]

    made = topic()
    with pytest.raises(CheckError, match="reads_everything_in_order"):
        check_seekable(SeekableCase(lambda: Lossy(made), made.send))


def test_messages_become_batches() -> None:
    source = MemorySource(topic(*rows(25)), batch_size=10)
    assert isinstance(source, Source)
    assert isinstance(source, Planning)
    assert [len(batch) for batch in numbers(source)] == [10, 10, 5]
    position = json.loads(json.dumps(next(place for _, place in source.tables())))
    assert numbers(source, position) == [list(range(10, 20)), list(range(20, 25))]


def test_a_bounded_source_ends_where_the_stream_ended_when_it_was_opened() -> None:
    made = topic(*rows(10))
    tables = MemorySource(made, batch_size=5).tables()
    next(tables)
    made.send(rows(10, first=10))
    assert len(list(tables)) == 1


def test_only_as_many_rows_are_read_as_asked_for() -> None:
    assert numbers(MemorySource(topic(*rows(10)), ReadingOptions(rows=7), batch_size=5)) == [[0, 1, 2, 3, 4], [5, 6]]


def test_a_followed_source_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    made = topic(*rows(3))
    waits = []

    def follow() -> bool:
        waits.append(1)
        if len(waits) == 2:
            made.send(rows(2, first=3))
        return len(waits) < 4

    assert numbers(MemorySource(made, batch_size=10, follow=follow)) == [[0, 1, 2], [3, 4]]


# ---------------------------------------------------------------------------- plans


def test_a_killed_process_reads_the_batches_that_it_had_planned(tmp_path: Path) -> None:
    made = topic(*rows(5), partitions=2)

    def source(*, resumed: bool) -> MemorySource:
        one = MemorySource(made, batch_size=10)
        one.keep_plans(tmp_path, keep=2, resumed=resumed, name="plans.jsonl")
        return one

    planned = numbers(source(resumed=False))
    assert len(planned) == 1
    made.send(rows(20, first=5))  # they would be part of the first batch now
    again = numbers(source(resumed=True))
    assert again[0] == planned[0]
    assert sorted(n for batch in again for n in batch) == list(range(25))
    assert numbers(source(resumed=False))[0] != planned[0]  # a new run plans anew


def test_a_torn_plan_was_never_read(tmp_path: Path) -> None:
    path = tmp_path / "plans.jsonl"
    log = PlanLog(path)
    log.add(None, Plan([[0, 0, 5]], [5]))
    log.add([5], Plan([[0, 5, 9]], [9]))
    log.close()
    path.write_bytes(path.read_bytes()[:-3])
    again = PlanLog(path)
    again.load()
    assert again.get(None) == Plan([[0, 0, 5]], [5])
    assert again.get([5]) is None
    again.add([5], Plan([[0, 5, 7]], [7]))
    again.close()
    third = PlanLog(path)
    third.load()
    assert third.get([5]) == Plan([[0, 5, 7]], [7])


def test_a_damaged_log_of_plans_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "plans.jsonl"
    path.write_text("x\n")
    with pytest.raises(StateError, match="is damaged"):
        PlanLog(path).load()


def test_plans_that_no_checkpoint_needs_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("driftsurf.data.messages.source.TRIMMED_BYTES", 200)
    log = PlanLog(tmp_path / "plans.jsonl", keep=2)
    for n in range(50):
        log.add([n], Plan([[0, n, n + 1]], [n + 1]))
        log.committed([n + 1])
    assert log.get([10]) is None
    assert log.get([49]) is not None
    assert (tmp_path / "plans.jsonl").stat().st_size < 300
    log.close()
    again = PlanLog(tmp_path / "plans.jsonl")
    again.load()
    assert again.get([49]) == Plan([[0, 49, 50]], [50])


# ---------------------------------------------------------------------------- messages


HOSTILE = [
    b"",
    b"\x00",
    b"\xff\xfe",
    b"{",
    b"[" * 100_000,
    b'{"n": 1e999}',
    b'{"n": "x"}',
    b"[1]",
    b"null",
    b'{"n": NaN}',
]


def test_poisoned_messages_are_skipped_and_named() -> None:
    made = topic(*rows(3), *HOSTILE, *rows(2, first=3))
    source = MemorySource(made, ReadingOptions(on_bad_row="skip"), batch_size=6)
    bad: list[Any] = []
    found = [n for table, _ in source.tables(on_skip=bad.append) for n in table["n"].values.tolist()]
    assert found == [0, 1, 2, 3, 4]
    assert [one.file for one in bad] == [f"memory://topic, partition 0, offset {3 + n}" for n in range(len(HOSTILE))]
    assert str(bad[0]) == "memory://topic, partition 0, offset 3: the message is empty"


def test_a_poisoned_message_is_an_error_by_default() -> None:
    with pytest.raises(BadRowError, match=r"memory://topic, partition 0, offset 1: .* Correct the row, or skip"):
        numbers(MemorySource(topic(*rows(1), b"{")))


def test_a_message_may_be_written_on_several_lines() -> None:
    assert numbers(MemorySource(topic(b'{\r\n  "n": 1,\n  "city": "Rome"\n}'))) == [[1.0]]


@given(st.lists(st.binary(max_size=40), max_size=20))
def test_any_message_is_a_row_or_a_bad_row(values: list[bytes]) -> None:
    good = rows(1)
    source = MemorySource(topic(*good, *values, *good), ReadingOptions(on_bad_row="skip"), batch_size=7)
    bad: list[Any] = []
    try:
        count = sum(len(table) for table, _ in source.tables(on_skip=bad.append))
    except SchemaError:  # an object with another column
        return
    assert count + len(bad) == 2 + len(values)


def test_lines_of_csv() -> None:
    made = topic(b"1,Rome", b'2,"Oslo, north"\r\n', b"3,x\n4,y", b"x,Rome")
    source = MemorySource(
        made, ReadingOptions(format="csv", names=("n", "city"), kinds={"n": "number"}, on_bad_row="skip")
    )
    bad: list[Any] = []
    (table, _), *_ = source.tables(on_skip=bad.append)
    assert table["n"].values.tolist() == [1.0, 2.0]
    assert [one.file[-8:] for one in bad] == ["offset 2", "offset 3"]
    with pytest.raises(OptionError, match="no header; name their columns"):
        MemorySource(made, ReadingOptions(format="csv")).check()


def arrow(**columns: Any) -> bytes:
    table = pa.table(columns)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


def test_arrow_messages_hold_any_number_of_rows() -> None:
    made = topic(arrow(n=[1.0, 2.0], city=["Rome", None]), b"x", arrow(n=[3.0]), arrow(n=["x"], city=["Oslo"]))
    source = MemorySource(made, ReadingOptions(format="arrow", on_bad_row="skip"))
    bad: list[Any] = []
    (table, _), *_ = source.tables(on_skip=bad.append)
    assert table["n"].values.tolist() == [1.0, 2.0, 3.0]
    assert table["city"].missing().tolist() == [False, True, True]
    assert [one.file[-8:] for one in bad] == ["offset 1", "offset 3"]


def test_formats_that_are_no_messages_and_batches_by_time_are_refused() -> None:
    with pytest.raises(OptionError, match="one of the formats jsonl, csv, arrow; got 'parquet'"):
        MemorySource(topic(), ReadingOptions(format="parquet")).check()
    with pytest.raises(OptionError, match="batch_seconds"):
        MemorySource(topic(), batch_seconds=60.0, time="at").check()


def test_a_position_of_something_else_is_refused() -> None:
    with pytest.raises(StateError, match="not a position of a stream of messages"):
        MemorySource(topic()).tables({"file": "x.csv"})


def test_lost_messages_are_named() -> None:
    made = topic(*rows(20))
    position = next(place for _, place in MemorySource(made, batch_size=5).tables())
    made.forget(10)
    with pytest.raises(SourceError, match="5 to 10 are gone"):
        numbers(MemorySource(made), position)


# ---------------------------------------------------------------------------- addresses


def test_addresses() -> None:
    address = Address.parse("redis://me@[::1]:7000/0/my%20stream?password=env:X", port=6379)
    assert (address.host, address.port, address.user, address.path) == ("::1", 7000, "me", ["0", "my stream"])
    assert address.name == "redis://***@[::1]:7000/0/my%20stream"
    several = Address.parse("kafka://a:1,b:2/orders", port=9092, known=None)
    assert (several.hosts, several.host, several.port) == ("a:1,b:2", "a", 1)


def test_a_password_in_an_address_is_refused_and_not_shown() -> None:
    with pytest.raises(OptionError) as caught:
        Address.parse("redis://me:hunter2@host/0/orders", port=6379)
    assert "hunter2" not in str(caught.value)


def test_a_password_comes_from_the_environment_or_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REDIS_PASSWORD", "hunter2")
    address = Address.parse("redis://host/0/orders?password=env:REDIS_PASSWORD", port=6379)
    password = address.password()
    assert password is not None
    assert password.value == "hunter2"
    assert "hunter2" not in repr(address)
    assert Address.parse("redis://host/0/orders", port=6379).password() is None


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("redis://host:x/0/orders", "the port in the address"),
        ("redis://host/0/orders?passwordd=env:X", "did you mean 'password'"),
    ],
)
def test_wrong_addresses_are_refused(text: str, match: str) -> None:
    with pytest.raises(OptionError, match=match):
        Address.parse(text, port=6379)


def test_parts_and_parameters_of_an_address_are_checked() -> None:
    address = Address.parse("nats://host?tls=maybe&n=-1", port=4222, known=("tls", "n"))
    with pytest.raises(OptionError, match="does not name a stream; write nats://HOST/STREAM"):
        address.part(0, "a stream", "nats://HOST/STREAM")
    with pytest.raises(OptionError, match="must be true or false; got 'maybe'"):
        address.flag("tls")
    with pytest.raises(OptionError, match="must be a whole number; got '-1'"):
        address.number("n", 1)
