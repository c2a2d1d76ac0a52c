"""Streams and queues of RabbitMQ as sources and as destinations."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.services.kills import Command, compare, orders, rows_of
from tests.integration.services.rabbit_queues import Broker, first_offset, held
from tests.integration.services.servers import require
from tests.integration.services.services import until

from driftsurf.checks import InboxCase, SeekableCase, WriterCase, check_inbox, check_seekable, check_writer
from driftsurf.checks.connectors import COLUMNS
from driftsurf.errors import SourceError

KINDS = "stream", "classic", "quorum"


@pytest.fixture
def broker() -> Iterator[Broker]:
    require("rabbitmq")
    made = Broker()
    yield made
    made.close()


def test_the_reader_of_a_stream_conforms(broker: Broker, unique: str) -> None:
    from driftsurf.connectors.rabbitmq import RabbitStream

    broker.declare(unique, "stream")
    check_seekable(
        SeekableCase(lambda: RabbitStream(f"amqp://127.0.0.1/{unique}"), lambda some: broker.send(unique, some))
    )


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_the_inbox_conforms(broker: Broker, unique: str, kind: str) -> None:
    from driftsurf.connectors.rabbitmq import RabbitInbox

    broker.declare(unique, kind)
    check_inbox(InboxCase(lambda: RabbitInbox(f"amqp://127.0.0.1/{unique}"), lambda some: broker.send(unique, some)))


@pytest.mark.parametrize("kind", ["stream", "classic"])
def test_the_writer_conforms(broker: Broker, unique: str, kind: str) -> None:
    from driftsurf.connectors.rabbitmq import RabbitWriter

    broker.made.append(unique)
    where = f"amqp://127.0.0.1/{unique}" + "?stream=false" * (kind == "classic")
    check_writer(WriterCase(lambda: RabbitWriter(where, COLUMNS), lambda: held(unique, kind)))


@pytest.mark.parametrize("kind", ["stream", "classic"])
def test_a_destination_that_is_deleted_is_an_error(broker: Broker, unique: str, kind: str) -> None:
    from driftsurf.connectors.rabbitmq import RabbitWriter

    broker.made.append(unique)
    writer = RabbitWriter(f"amqp://127.0.0.1/{unique}" + "?stream=false" * (kind == "classic"), COLUMNS)
    writer.open()
    writer.write(0, [{"row": n} for n in range(10)])
    broker.delete(unique)
    with pytest.raises(SourceError, match=unique):
        writer.write(10, [{"row": n} for n in range(10, 20)])
    writer.close()


def test_the_lag_of_a_stream_is_counted_by_offsets(broker: Broker, unique: str) -> None:
    from driftsurf.connectors.rabbitmq import RabbitStream

    broker.declare(unique, "stream")
    reader = RabbitStream(f"amqp://127.0.0.1/{unique}")
    reader.open(None, bounded=False)
    assert reader.lag() is None
    broker.send(unique, [b"%d" % n for n in range(50)])
    plan = reader.plan(20, 60.0)
    assert plan is not None
    until(lambda: reader.lag() == 30)  # None if the broker is slow
    assert reader.plan(20, 60.0) is not None
    broker.send(unique, [b"50"])
    until(lambda: reader.lag() == 11)
    reader.close()


def test_the_lag_of_a_queue_has_its_messages_and_those_of_the_log(broker: Broker, unique: str, tmp_path: Path) -> None:
    from driftsurf.connectors.rabbitmq import RabbitInbox
    from driftsurf.data.messages.spool import Spool

    broker.declare(unique, "classic")
    broker.send(unique, [b"%d" % n for n in range(2_500)])
    spool = Spool(RabbitInbox(f"amqp://127.0.0.1/{unique}"), tmp_path)
    spool.open(None, bounded=False)
    assert spool.plan(100, 60.0) is not None
    until(lambda: spool.lag() == 2_400)  # messages that are on their way are not counted
    spool.close()
    other = Spool(RabbitInbox(f"amqp://127.0.0.1/{unique}"), tmp_path)
    other.open(None, bounded=False)  # the log has messages that no checkpoint counts as learned
    until(lambda: other.lag() == 2_500)
    other.close()


@pytest.mark.parametrize("kind", KINDS)
def test_the_broker_tells_what_kind_of_queue_it_is(
    broker: Broker, unique: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from driftsurf.connectors import rabbitmq as _rabbitmq
    from driftsurf.connectors.rabbitmq import Queue

    monkeypatch.setattr(_rabbitmq, "ABSENT", 0.1)
    broker.declare(unique, kind)
    broker.send(unique, [b"1"])
    assert Queue(f"amqp://127.0.0.1/{unique}").is_stream() == (kind == "stream")
    with pytest.raises(SourceError, match="declare it first"):
        Queue(f"amqp://127.0.0.1/{unique}-absent").is_stream()
    with pytest.raises(SourceError, match="Check user, password and vhost"):
        Queue(f"amqp://nobody@127.0.0.1/{unique}").is_stream()


def test_messages_that_the_stream_no_longer_keeps_are_named(broker: Broker, unique: str) -> None:
    from driftsurf.connectors.rabbitmq import RabbitStream

    limits = {"x-max-length-bytes": 20_000, "x-stream-max-segment-size-bytes": 5_000}
    broker.declare(unique, "stream", **limits)
    broker.send(unique, [b"x" * 1_000] * 5)
    reader = RabbitStream(f"amqp://127.0.0.1/{unique}")
    reader.open(None, bounded=True)
    plan = reader.plan(3, 0.0)
    reader.close()
    assert plan is not None
    broker.send(unique, [b"x" * 1_000] * 200)
    # If the last message has filled a file, the broker removes it too, and hands out none before the next one comes.
    broker.send(unique, [b"x"])
    until(lambda: first_offset(unique) > 3)  # it removes messages a moment later
    with pytest.raises(SourceError, match=r"the messages 3 to .* were removed"):
        reader.open(plan.end, bounded=True)
    reader.close()
    broker.delete(unique)
    broker.declare(unique, "stream")
    with pytest.raises(SourceError, match="recreated"):
        reader.open(plan.end, bounded=True)
    reader.close()


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_a_run_that_is_killed_ends_like_one_that_is_not(broker: Broker, unique: str, tmp_path: Path, kind: str) -> None:
    broker.declare(unique, kind)
    runs = []
    for name in ("whole", "killed"):
        broker.send(unique, [*orders(3_000), b"{", b"\x00\xff", b"[" * 9_000], named=True)
        sink = str(tmp_path / f"{name}.sqlite")
        runs.append(Command(tmp_path / name, f"amqp://127.0.0.1/{unique}", sink, ("--on-bad-row", "skip")))
        count = sum(runs[-1].killed(random.Random(n)) for n in range(3)) if name == "killed" else 1
        assert count, "no process was killed before its end: send more rows"
        runs[-1].finish()
    whole, killed = rows_of(tmp_path / "whole.sqlite"), rows_of(tmp_path / "killed.sqlite")
    if kind == "classic":
        compare(runs[0], runs[1], whole, killed)
    else:  # hands out messages in another order after its reader was killed, and each once all the same
        labels = [row[2] for row in whole]
        assert sorted(row[2] for row in killed) == sorted(labels)
        assert len(labels) == 3_000
