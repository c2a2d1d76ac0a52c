"""Messages that are handed out once, with an inbox in memory: kept before they are acknowledged, each read once."""

from __future__ import annotations

import json
import socket
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from driftsurf.checks import InboxCase, SeekableCase, check_inbox
from driftsurf.checks.connectors import SEEKABLE, ends_where_the_stream_ended
from driftsurf.data.messages import spool as module
from driftsurf.data.messages.client import watched
from driftsurf.data.messages.contract import BrokerMessage, Inbox, Received
from driftsurf.data.messages.spool import InboxSource, Spool
from driftsurf.errors import SourceError, SourceUnreachableError


class MemoryQueue:
    """Messages with identities, which are handed out until they are acknowledged."""

    def __init__(self, *messages: bytes, named: bool = True) -> None:
        self.waiting: deque[tuple[int, bytes]] = deque()
        self.count = 0
        self.named = named
        self.send(messages)

    def send(self, messages: Sequence[bytes]) -> None:
        for one in messages:
            self.waiting.append((self.count, one))
            self.count += 1


class MemoryInbox:
    """Takes from a queue in memory; what it has not acknowledged when it is closed is handed out again."""

    name = "memory://queue"

    def __init__(self, queue: MemoryQueue) -> None:
        self.queue = queue
        self.out: dict[int, bytes] = {}
        self.dies_before_done = False

    def open(self) -> None:
        self.close()

    def take(self, most: int, seconds: float) -> list[Received]:
        found = list[Received]()
        while self.queue.waiting and len(found) < most:
            number, value = self.queue.waiting.popleft()
            self.out[number] = value
            found.append(Received(number, BrokerMessage("queue", value), f"id {number}" * self.queue.named))
        return found

    def waiting(self) -> int | None:
        return len(self.queue.waiting)

    def done(self, tokens: Sequence[Any]) -> None:
        if self.dies_before_done:
            raise KeyboardInterrupt
        for one in tokens:
            self.out.pop(one, None)

    def close(self) -> None:
        self.queue.waiting.extendleft(reversed(self.out.items()))
        self.out.clear()


class MemorySource(InboxSource):
    def __init__(self, queue: MemoryQueue, **options: Any) -> None:
        self.queue = queue
        super().__init__("memory://queue", **options)

    def inbox(self, location: str) -> Inbox:
        return MemoryInbox(self.queue)


def rows(count: int, first: int = 0) -> list[bytes]:
    return [json.dumps({"n": n}).encode() for n in range(first, first + count)]


def test_the_double_conforms() -> None:
    queue = MemoryQueue()
    check_inbox(InboxCase(lambda: MemoryInbox(queue), queue.send))


def test_a_spool_can_be_read_from_any_position(tmp_path: Path) -> None:
    queue = MemoryQueue()
    case = SeekableCase(lambda: Spool(MemoryInbox(queue), tmp_path / "spool"), queue.send)
    for check in SEEKABLE:
        if check is not ends_where_the_stream_ended:  # a queue does not tell where it ends
            check(case)


def source(queue: MemoryQueue, folder: Path, **options: Any) -> MemorySource:
    made = MemorySource(queue, batch_size=10, **options)
    made.keep_plans(folder, keep=2, resumed=True, name="plans.jsonl")
    return made


def numbers(made: MemorySource, position: Any = None) -> list[list[float]]:
    return [table["n"].values.tolist() for table, _ in made.tables(position)]


def test_a_killed_process_reads_each_message_once(tmp_path: Path) -> None:
    queue = MemoryQueue(*rows(25))
    made = source(queue, tmp_path)
    tables = made.tables()
    _, position = next(tables)
    next(tables)
    made.connector.close()
    queue.send(rows(10, first=25))
    again = numbers(source(queue, tmp_path), json.loads(json.dumps(position)))
    assert again == [list(range(10, 20)), list(range(20, 30)), list(range(30, 35))]


@pytest.mark.parametrize("named", [True, False])
def test_messages_that_were_kept_and_not_acknowledged(tmp_path: Path, *, named: bool) -> None:
    queue = MemoryQueue(*rows(25), named=named)
    made = source(queue, tmp_path)
    assert isinstance(made.connector, Spool)
    assert isinstance(made.connector.inbox, MemoryInbox)
    made.connector.inbox.dies_before_done = True
    with pytest.raises(KeyboardInterrupt):
        numbers(made)
    found = [n for batch in numbers(source(queue, tmp_path)) for n in batch]
    assert found == ([] if named else list(range(10))) + list(range(25))


def test_a_message_that_is_sent_twice_is_read_once(tmp_path: Path) -> None:
    queue = MemoryQueue(*rows(5))
    queue.waiting.extend(list(queue.waiting))
    assert numbers(source(queue, tmp_path)) == [[0, 1, 2, 3, 4]]


def test_identities_are_forgotten_in_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REMEMBERED", 20)
    queue = MemoryQueue(*rows(100))
    made = source(queue, tmp_path)
    list(made.tables())
    assert isinstance(made.connector, Spool)
    assert len(made.connector._known) == 20


def test_messages_that_no_checkpoint_needs_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SEGMENT_BYTES", 200)
    queue = MemoryQueue(*rows(500))
    made = source(queue, tmp_path)
    positions = []
    for _, position in made.tables():
        made.committed(position)
        positions.append(position)
        assert len(list((tmp_path / "messages").iterdir())) < 12
    assert numbers(source(queue, tmp_path), positions[-2]) == [list(range(490, 500))]
    with pytest.raises(SourceError, match="are not in"):
        numbers(source(queue, tmp_path), positions[0])


class LostInbox(MemoryInbox):
    """Hands out a message each time that its connection is restored, of three."""

    lost = 3

    def settled(self) -> bool:
        self.lost -= 1
        if self.lost >= 0:
            self.queue.send(rows(1))
        return self.lost < 0


def test_silence_ends_a_bounded_source_only_if_its_inbox_has_settled() -> None:
    for bounded, count in ((True, 3), (False, 0)):
        spool = Spool(LostInbox(MemoryQueue()))
        spool.open(None, bounded=bounded)
        plan = spool.plan(10, 0.0)
        assert (0 if plan is None else plan.end) == count
        spool.close()


def test_mqtt_without_a_connection_waits_no_longer_than_asked() -> None:
    pytest.importorskip("paho.mqtt.client")
    from driftsurf.connectors.mqtt import MqttInbox

    inbox = MqttInbox("mqtt://localhost/orders")
    inbox._own._lost = time.monotonic()
    assert inbox.take(10, 0.01) == []  # not SourceUnreachableError after a minute

    class Ended(Exception):
        """The service ends."""

    def end(reason: str) -> None:
        raise Ended(reason)

    with pytest.raises(Ended, match="localhost"), watched(end):
        inbox.settled()


def test_mqtt_with_a_broker_that_does_not_answer_is_not_at_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("paho.mqtt.client")
    from driftsurf.connectors import mqtt

    class Silent:
        """A client whose broker is busy."""

        def unsubscribe(self, topic: str) -> None:
            """Send nothing."""

    inbox = mqtt.MqttInbox("mqtt://localhost/orders")
    inbox._own.client = Silent()
    monkeypatch.setattr(mqtt, "LOST", 0.01)
    monkeypatch.setattr(mqtt, "SETTLING", 0.01)
    with pytest.raises(SourceUnreachableError, match="localhost"):
        inbox.settled()


def test_the_lag_of_a_stream_that_cannot_be_reached_is_given_up_soon() -> None:
    pytest.importorskip("pika")
    from driftsurf.connectors.rabbitmq import RabbitStream

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # without listening, so that connections are refused
        stream = RabbitStream(f"amqp://127.0.0.1:{taken.getsockname()[1]}/orders")
        stream._next = 5
        with pytest.raises(SourceUnreachableError, match="for 1 s"):
            stream.lag()


def test_without_checkpoints_nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert numbers(MemorySource(MemoryQueue(*rows(12)), batch_size=10)) == [list(range(10)), [10, 11]]
    assert list(tmp_path.iterdir()) == []
