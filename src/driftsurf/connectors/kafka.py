"""Kafka: ``kafka://host:9092,host2:9092/TOPIC``, with the settings of librdkafka as parameters.

Each message is a row. Positions are offsets and are kept by the run; the brokers are told of them only if the address
names a group with ``group.id``, for monitors of lag. ``partition`` restricts reading to one partition, and chooses the
one that rows are written to.
"""

from __future__ import annotations

import importlib
import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

from driftsurf.connectors.sink import ConnectorSink, WriterFactory
from driftsurf.core.secrets import read_secret
from driftsurf.data.messages.client import PASSWORD, Address, RetryPolicy, log
from driftsurf.data.messages.contract import BrokerMessage, Plan, Ranges, Seekable
from driftsurf.data.messages.source import MessageSource
from driftsurf.data.source import Position
from driftsurf.errors import OptionError, SourceError, StateError
from driftsurf.registry import register

FORM = "kafka://HOST:PORT/TOPIC"
PARTITION = "partition"
RESERVED = "bootstrap.servers", "enable.auto.commit", "enable.partition.eof", "auto.offset.reset", "enable.idempotence"
"""Settings of librdkafka on which exact reading and writing depend."""
_SECRET = re.compile(r"password|secret|key\.pem|oauthbearer\.config|token", re.IGNORECASE)
SECONDS = 30.0
"""How long to wait for the brokers, where nobody waits for an answer."""
ANSWER = 10.0
"""Seconds that one request may take."""

Result = TypeVar("Result")


class _Unreachable(Exception):
    """The brokers do not answer now."""


class Cluster:
    """The brokers and the topic of an address."""

    def __init__(self, location: str) -> None:
        address = Address.parse(location, port=9092, known=None)
        self.address: Address = address
        self.topic: str = address.part(0, "a topic", FORM)
        if len(address.path) > 1:
            raise OptionError(f"the address {address.name!r} names more than a topic; write {FORM}")
        self.partition: int | None = address.number(PARTITION, 0) if PARTITION in address.parameters else None
        self.own: dict[str, str] = {
            name: text for name, text in address.parameters.items() if name not in (PASSWORD, PARTITION)
        }
        for name, text in self.own.items():
            if name in RESERVED:
                raise OptionError(f"the parameter {name!r} of {self.name!r} is set by driftsurf; leave it out")
            if _SECRET.search(name) and not text.startswith(("env:", "file:")):
                raise OptionError(
                    f"the parameter {name!r} of {self.name!r} must name where the secret is: env:NAME or file:PATH"
                )
        if address.user and not {"sasl.mechanism", "sasl.mechanisms"} & self.own.keys():
            raise OptionError(
                f"the address {self.name!r} names a user; add the parameters security.protocol and sasl.mechanism, "
                "such as security.protocol=SASL_SSL&sasl.mechanism=SCRAM-SHA-512"
            )
        # Imported here, so that this file can be imported where the client is not installed.
        self.library: Any = importlib.import_module("confluent_kafka")
        self.retry: RetryPolicy = RetryPolicy(self.name, (_Unreachable,))
        self.down: bool = False
        """Whether no broker could be reached lately."""
        self._refused = ""

    @property
    def name(self) -> str:
        """The address without its parameters."""
        return self.address.name

    @property
    def answer(self) -> float:
        """Seconds that one request may take."""
        return min(ANSWER, self.retry.seconds)

    def settings(self) -> dict[str, Any]:
        """Return the settings of librdkafka that the address has, with their secrets."""
        own: dict[str, Any] = {
            name: read_secret(name, text).value if _SECRET.search(name) else text for name, text in self.own.items()
        }
        password = self.address.password()
        if self.address.user:
            own["sasl.username"] = self.address.user
        if password is not None:
            own["sasl.password"] = password.value
        # Errors come to error_cb; librdkafka would repeat each of them on the console.
        return own | {"error_cb": self._note, "log_level": 2}

    @property
    def servers(self) -> str:
        """Where the brokers are."""
        return self.address.hosts or "localhost"

    def make(self, kind: str, settings: dict[str, Any]) -> Any:
        """Return a client of librdkafka."""
        try:
            return getattr(self.library, kind)(settings)
        except self.library.KafkaException as error:
            raise OptionError(f"{self.name}: {error.args[0].str()}") from None  # the cause may show a secret

    def _note(self, error: Any) -> None:
        """Note an error that librdkafka itself will try to mend."""
        codes = self.library.KafkaError
        if error.code() in (codes._AUTHENTICATION, codes.SASL_AUTHENTICATION_FAILED, codes._SSL):
            self._refused = error.str()
        elif error.code() == codes._ALL_BROKERS_DOWN and not self.down:
            self.down = True
            log.warning("%s cannot be reached, trying again: %s", self.name, error.str())

    def ask(self, act: Callable[[], Result], serve: Callable[[], Any] | None = None) -> Result:
        """Return the answer of the brokers; SourceError if they cannot be reached for long, or refuse.

        ``serve`` lets librdkafka call ``error_cb``, which tells why the brokers refuse.
        """

        def attempt() -> Result:
            try:
                return act()
            except self.library.KafkaException as error:
                if serve is not None:
                    serve()
                if self._refused:
                    raise SourceError(f"{self.name}: {self._refused}") from error
                if self.passes(error.args[0]):
                    raise _Unreachable(error.args[0].str()) from error
                raise SourceError(f"{self.name}: {error.args[0].str()}") from error

        answer = self.retry.call(attempt)
        self.down, self._refused = False, ""  # a broker that is starting refuses users whom it knows later
        return answer

    def passes(self, error: Any) -> bool:
        """Return whether an error may pass by itself."""
        codes = self.library.KafkaError
        brief = (
            *(codes._TRANSPORT, codes._TIMED_OUT, codes._ALL_BROKERS_DOWN, codes._RESOLVE, codes._WAIT_COORD),
            *(codes.LEADER_NOT_AVAILABLE, codes.NOT_LEADER_FOR_PARTITION, codes.REQUEST_TIMED_OUT),
        )
        return error.retriable() or error.code() in brief

    def place(self, partition: int, offset: int = 0) -> Any:
        """Return a place in the topic for librdkafka."""
        return self.library.TopicPartition(self.topic, partition, offset)


def consumer_settings(servers: str, own: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a consumer that reads ranges of offsets, with those of the user."""
    return {
        "bootstrap.servers": servers,
        "group.id": "driftsurf",  # required, but unused: the offsets are kept by the reader
        "enable.auto.commit": "false",
        "enable.partition.eof": "true",
        "auto.offset.reset": "error",
        **own,
    }


def bounds(consumer: Any, topic: str, make_place: Any, seconds: float) -> dict[int, tuple[int, int]]:
    """Return the first offset that is there, and the one after the last, for each partition of a topic.

    ``make_place`` is ``confluent_kafka.TopicPartition``.
    """
    about = consumer.list_topics(topic, seconds).topics[topic]
    if about.error is not None:
        raise SourceError(f"the topic {topic!r} cannot be read: {about.error.str()}")
    return {
        number: consumer.get_watermark_offsets(make_place(topic, number), seconds)
        for number in sorted(about.partitions)
    }


def lost_messages(topic: str, partition: int, first: int, low: int) -> SourceError:
    """Return the error for messages that the brokers deleted before they were read."""
    return SourceError(
        f"messages {first} to {low - 1} of {topic!r}, partition {partition}, were deleted by the brokers before they "
        "were read: raise the topic's retention, and start a new run"
    )


RENEWED = 32
"""Every plan with a number that this divides looks at all partitions, and is logged."""
REFRESHED = 60.0
"""Seconds after which new partitions are looked for."""
BUFFERED = 64 * 2**20
"""Bytes of messages that wait for their plan at most, before partitions that are ahead of others pause."""


class KafkaTopic:
    """Reads the partitions of a topic by their offsets, without a consumer group.

    A position is the next offset of each partition, and the number of plans so far. A plan takes an equal share of each
    partition. If a partition has less than its share, what the plan takes depends on when it is made. If all have
    theirs, another process makes the same plan, so that it need not be logged. Partitions that are added to a topic
    become part of the next plan that is logged, which is one in ``RENEWED`` at least.

    A range is a partition, the offsets of its first message and after its last one, and the number of messages, which
    is smaller than the range where the brokers have compacted the topic, or where transactions ended.
    """

    def __init__(self, location: str) -> None:
        self._own = Cluster(location)
        self._consumer: Any = None
        self._at: dict[int, int] = {}
        """Offset at which the next plan begins, by partition."""
        self._new: dict[int, int] = {}
        """First offsets of the partitions that no plan had yet."""
        self._plans = 0
        self._stop: dict[int, int] = {}
        """Offset at which reading ends, by partition; empty if it does not end."""
        self._high: dict[int, int] = {}
        self._waiting: dict[int, list[Any]] = {}
        """Messages that arrived, and are in no plan yet."""
        self._bytes = 0
        self._arrived: dict[int, int] = {}
        """Offset after the last one that arrived."""
        self._paused: set[int] = set()
        self._looked = 0.0
        self._read: tuple[Ranges, list[BrokerMessage]] | None = None

    @property
    def name(self) -> str:
        """The address without its parameters."""
        return self._own.name

    def open(self, position: Position, *, bounded: bool) -> None:
        """Begin at a position; SourceError if messages after it are gone."""
        self.close()
        try:
            self._begin(position, bounded=bounded)
        except BaseException:
            self.close()
            raise

    def _begin(self, position: Position, *, bounded: bool) -> None:
        settings = consumer_settings(self._own.servers, self._own.settings())
        self._consumer = consumer = self._own.make("Consumer", settings)
        found = self._own.ask(self._bounds, lambda: consumer.poll(0))
        self._at, self._plans = _read_position(position)
        for number, at in self._at.items():
            low, high = found.get(number, (0, -1))
            if at < low:
                raise lost_messages(self._own.topic, number, at, low)
            if at > high:
                raise SourceError(
                    f"{self.name}, partition {number}, ends at offset {max(high, 0):,}, but was read up to {at:,}: the "
                    "topic was recreated, or lost messages. Start a new run, or restore the topic"
                )
        self._new = {number: low for number, (low, _) in found.items() if number not in self._at}
        self._high = {number: high for number, (_, high) in found.items()}
        self._stop = dict(self._high) if bounded else {}
        self._assign()

    def _bounds(self) -> dict[int, tuple[int, int]]:
        found = bounds(self._consumer, self._own.topic, self._own.library.TopicPartition, self._own.answer)
        only = self._own.partition
        if only is None:
            return found
        if only not in found:
            raise SourceError(f"{self.name} has no partition {only}; choices: 0 to {len(found) - 1}")
        return {only: found[only]}

    def _assign(self) -> None:
        """Let the brokers send all messages that are in no plan yet."""
        self._arrived = self._new | self._at
        self._waiting = {number: [] for number in self._arrived}
        self._paused, self._bytes, self._read = set(), 0, None
        self._looked = time.monotonic()
        self._consumer.assign([self._own.place(number, at) for number, at in self._arrived.items()])

    # -------------------------------------------------------------------- messages that arrive

    def _receive(self, most: int, seconds: float) -> bool:
        """Wait up to ``seconds`` for messages, and sort what has come by partition; return whether any came."""
        if self._own.down:
            self._own.ask(lambda: self._consumer.list_topics(self._own.topic, self._own.answer))
        came = self._consumer.consume(most, 0) or self._consumer.consume(1, seconds)
        for message in came:
            error = message.error()
            if error is not None:
                self._take_error(error, message.partition(), message.offset())
            else:
                self._waiting[message.partition()].append(message)
                self._bytes += len(message)
        for number, waiting in self._waiting.items():
            if waiting:
                self._arrived[number] = max(self._arrived[number], waiting[-1].offset() + 1)
                stop = self._stop.get(number, 0)
                while self._stop and waiting and waiting[-1].offset() >= stop:
                    self._bytes -= len(waiting.pop())
        self._pause(most)
        return bool(came)

    def _take_error(self, error: Any, number: int, offset: int) -> None:
        codes = self._own.library.KafkaError
        if error.code() == codes._PARTITION_EOF:
            self._arrived[number] = max(self._arrived.get(number, 0), offset)
        elif error.code() == codes._AUTO_OFFSET_RESET:
            low, high = self._own.ask(self._bounds).get(number, (0, 0))
            if offset < low:
                raise lost_messages(self._own.topic, number, offset, low)
            raise SourceError(
                f"{self.name}, partition {number}, ends at offset {high:,}, before {offset:,}: it lost messages"
            )
        elif self._own.passes(error):
            log.warning("%s, partition %d: %s; trying again", self.name, number, error.str())
        else:
            raise SourceError(f"{self.name}, partition {number}: {error.str()}")

    def _pause(self, most: int) -> None:
        """Let partitions that are ahead of others wait while there is too much in memory."""
        wait = set[int]()
        if self._bytes > BUFFERED // 2:  # a partition that a plan may lack goes on in any case
            ahead = {number for number, waiting in self._waiting.items() if len(waiting) >= most}
            wait = ahead if self._bytes > BUFFERED else ahead & self._paused
        for act, numbers in ((self._consumer.pause, wait - self._paused), (self._consumer.resume, self._paused - wait)):
            if numbers:
                act([self._own.place(number) for number in sorted(numbers)])
        self._paused = wait

    def _ended(self, number: int) -> bool:
        """Return whether everything of a partition has arrived that is known to be there."""
        if self._stop:
            return self._arrived[number] >= self._stop[number]
        _, high = self._consumer.get_watermark_offsets(self._own.place(number), cached=True)
        self._high[number] = max(self._high.get(number, 0), high)
        return self._arrived[number] >= self._high[number]

    def _look_for_partitions(self) -> None:
        """Notice partitions that were added; they begin with their first message."""
        if self._stop or self._own.partition is not None or time.monotonic() - self._looked < REFRESHED:
            return
        self._looked = time.monotonic()
        found = self._own.ask(
            lambda: self._consumer.list_topics(self._own.topic, self._own.answer).topics[self._own.topic]
        )
        added = found.partitions.keys() - self._arrived.keys()
        if added:
            self._new |= {n: low for n, (low, _) in self._own.ask(self._bounds).items() if n in added}
            self._assign()

    # -------------------------------------------------------------------- plans

    def plan(self, most: int, seconds: float) -> Plan | None:
        """Plan an equal share of every partition, if they have it; otherwise what is there after ``seconds``."""
        self._look_for_partitions()
        deadline = time.monotonic() + seconds
        silent = time.monotonic() + self._own.retry.seconds
        while True:
            shares = self._shares(most, sorted(self._at))
            if shares and self._plans % RENEWED and all(len(self._waiting[n]) >= take for n, take in shares.items()):
                return self._make(shares, full=True)
            wanted = self._shares(most, sorted(self._arrived))
            late = [n for n, take in wanted.items() if not self._has(n, max(take, shares.get(n, 0)))]
            now = time.monotonic()
            if not late and (now >= deadline or sum(map(len, self._waiting.values())) >= most):
                break
            # Messages that are known to be there are waited for longer than those that may come.
            if self._receive(most, 1.0 if late else min(1.0, deadline - now)):
                silent = now + self._own.retry.seconds
            elif now > silent:
                raise self._silence(late)
        return self._make(self._fill(most), full=False) if any(self._waiting.values()) else None

    def _has(self, number: int, take: int) -> bool:
        return len(self._waiting[number]) >= take or self._ended(number)

    def _silence(self, late: Sequence[int]) -> SourceError:
        waited = f"{self._own.retry.seconds:g} s"
        return SourceError(
            f"{self.name}: no message of the partitions {list(late)} came for {waited}. Check the brokers"
        )

    def _shares(self, most: int, partitions: Sequence[int]) -> dict[int, int]:
        """Return how many messages a full plan takes from each partition; what is left over goes round."""
        if not partitions:
            return {}
        share, rest = divmod(most, len(partitions))
        return {
            number: share + ((place - self._plans) % len(partitions) < rest) for place, number in enumerate(partitions)
        }

    def _fill(self, most: int) -> dict[int, int]:
        """Return how many messages to take from each partition if some have less than their share."""
        there = {number: len(self._waiting[number]) for number in sorted(self._arrived)}
        takes = {number: min(take, there[number]) for number, take in self._shares(most, list(there)).items()}
        left = most - sum(takes.values())
        for number, take in takes.items():
            more = min(left, there[number] - take)
            takes[number] += more
            left -= more
        return takes

    def _make(self, takes: Mapping[int, int], *, full: bool) -> Plan:
        """Make a plan of the first messages of each partition."""
        ranges, messages, gaps = list[list[int]](), list[BrokerMessage](), False
        for number, take in takes.items():
            at = self._at.get(number, self._new.get(number, 0))
            taken = self._take(number, take)
            end = taken[-1].offset() + 1 if taken else at
            gaps |= end - at != take
            if taken or number in self._new:  # a range without messages makes a partition part of the position
                ranges.append([number, at, end, take])
            self._pass(number, end)
            messages += [_message(one) for one in taken]
        self._plans += 1
        self._read = ranges, messages
        return Plan(ranges, self._position(), certain=full and not gaps)

    def _take(self, number: int, count: int) -> list[Any]:
        taken = self._waiting[number][:count]
        del self._waiting[number][:count]
        self._bytes -= sum(map(len, taken))
        return taken

    def _pass(self, number: int, end: int) -> None:
        self._at[number] = end
        self._new.pop(number, None)

    def _position(self) -> list[Any]:
        return [{str(number): at for number, at in sorted(self._at.items())}, self._plans]

    # -------------------------------------------------------------------- reading

    def read(self, ranges: Ranges) -> list[BrokerMessage]:
        """Return the messages of a plan, ordered by partition and offset."""
        if self._read is not None and self._read[0] is ranges:
            return self._read[1]
        at = self._at | {number: first for number, first, _, _ in ranges}
        if any((self._at | self._new).get(number) != first for number, first in at.items()):
            self._at = at
            self._assign()
        messages = list[BrokerMessage]()
        for number, first, end, count in ranges:
            self._await(number, end, count)
            held = [one.offset() for one in self._waiting[number][: count + 1]]
            taken = self._take(number, sum(offset < end for offset in held))
            if len(taken) != count:
                raise SourceError(
                    f"{self.name}, partition {number}: {count - len(taken):,} of the {count:,} messages from offset "
                    f"{first:,} to {end - 1:,} were deleted after they had been planned. Start a new run"
                )
            self._pass(number, end)
            messages += [_message(one) for one in taken]
        self._plans += 1
        return messages

    def _await(self, number: int, end: int, count: int) -> None:
        """Wait until all messages of a partition before an offset have arrived."""
        silent = time.monotonic() + self._own.retry.seconds
        while self._arrived[number] < end:
            if self._stop and self._stop.get(number, 0) < end:
                raise SourceError(f"{self.name}, partition {number}, ends before offset {end:,}, which was planned")
            if self._receive(max(count, 100), 1.0):
                silent = time.monotonic() + self._own.retry.seconds
            elif time.monotonic() > silent:
                raise self._silence([number])

    def committed(self, position: Position) -> None:
        """Tell the brokers, if the address names a group; without one there is nobody to tell."""
        if "group.id" in self._own.own and self._consumer is not None:
            offsets = [self._own.place(number, at) for number, at in _read_position(position)[0].items()]
            try:
                self._consumer.commit(offsets=offsets, asynchronous=True)
            except self._own.library.KafkaException as error:
                log.warning("%s: offsets were not told to the group: %s", self.name, error.args[0].str())

    def lag(self) -> int | None:
        """Return how many offsets follow, as far as is known; a few of them may have no message."""
        if self._consumer is None:
            return None
        for number in self._arrived:
            self._ended(number)
        behind = {n: (self._new | self._at)[n] if held else self._arrived[n] for n, held in self._waiting.items()}
        return sum(max(0, self._high[number] - at) for number, at in behind.items())

    def close(self) -> None:
        """Disconnect."""
        self._read = None
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None


@register("source", "kafka", requires=("confluent_kafka",), install="pip install 'driftsurf[connectors]'")
class KafkaSource(MessageSource):
    """Rows from a topic of Kafka."""

    def connect(self, location: str) -> Seekable:
        """Return the reader of a topic."""
        return KafkaTopic(location)


def _message(message: Any) -> BrokerMessage:
    return BrokerMessage(f"partition {message.partition()}, offset {message.offset()}", message.value() or b"")


def _read_position(position: Any) -> tuple[dict[int, int], int]:
    if position is None:
        return {}, 0
    try:
        offsets, plans = position
        return {int(number): int(at) for number, at in offsets.items()}, int(plans)
    except (TypeError, ValueError, AttributeError) as error:
        raise StateError(f"not a position in a topic of Kafka: {position!r}") from error


ROW = "row"
"""Header of a message with the number of its row."""


class KafkaWriter:
    """Writes rows to one partition of a topic, whose last message tells the number of the last row.

    The idempotent producer of librdkafka keeps order and repeats what was not acknowledged, without copies.
    """

    exact: bool = True

    def __init__(self, location: str, columns: Mapping[str, str]) -> None:
        self._own = Cluster(location)
        self._partition = self._own.partition or 0
        self._producer: Any = None
        self._next = -1
        """Offset of the next message, by which another writer is noticed; -1 before the first one."""
        self._fault = ""

    @property
    def name(self) -> str:
        """The address without its parameters."""
        return self._own.name

    def open(self) -> int:
        """Return the number of the first row that the partition lacks."""
        self.close()
        self._fault = ""
        settings = self._own.settings() | {
            "bootstrap.servers": self._own.servers,
            "enable.idempotence": True,
            "message.timeout.ms": 0,  # a message that was given up, while later ones arrive, would be a gap
            "message.max.bytes": self._own.own.get("message.max.bytes", 10**9),  # the brokers decide
        }
        self._producer = producer = self._own.make("Producer", settings)
        # A producer asks for the topic in a way that creates it, where the brokers allow that.
        about = self._own.ask(lambda: producer.list_topics(self._own.topic, self._own.answer), lambda: producer.poll(0))
        found = about.topics[self._own.topic]
        if found.error is not None:
            raise SourceError(f"the topic {self._own.topic!r} cannot be written to: {found.error.str()}")
        if self._partition not in found.partitions:
            choices = f"0 to {len(found.partitions) - 1}"
            raise SourceError(f"{self.name} has no partition {self._partition}; choices: {choices}")
        return self._rows()

    def _rows(self) -> int:
        """Return how many rows the partition holds, by its last message."""
        consumer = self._own.make("Consumer", consumer_settings(self._own.servers, self._own.settings()))
        try:
            place = self._own.place(self._partition)
            low, high = self._own.ask(lambda: consumer.get_watermark_offsets(place, self._own.answer))
            self._next, back = high, 1
            while high > low:  # the last offsets may hold no message: transactions of others end there
                first = max(low, high - back)
                last = self._last(consumer, first)
                if last is not None:
                    return self._number(last) + 1
                if first == low:
                    break
                back *= 10
            return 0
        finally:
            consumer.close()

    def _last(self, consumer: Any, first: int) -> Any:
        """Return the last message from an offset on; None if there is none."""
        consumer.assign([self._own.place(self._partition, first)])
        last, silent = None, time.monotonic() + self._own.retry.seconds
        while time.monotonic() < silent:
            message = consumer.poll(1.0)
            if message is None:
                continue
            error = message.error()
            if error is None:
                last = message
                if message.offset() + 1 >= self._next:
                    return last
            elif error.code() == self._own.library.KafkaError._PARTITION_EOF:
                return last
            elif not self._own.passes(error):
                raise SourceError(f"{self.name}, partition {self._partition}: {error.str()}")
        raise SourceError(f"{self.name}: the last message of partition {self._partition} cannot be read")

    def _number(self, message: Any) -> int:
        text = dict(message.headers() or ()).get(ROW, b"")
        if not (text and text.isdigit()):
            raise SourceError(
                f"{self.name}, partition {self._partition}, holds messages that are no rows of a run; choose another "
                "topic or partition"
            )
        return int(text)

    def write(self, first_row: int, rows: Sequence[Mapping[str, Any]]) -> None:
        """Hand rows to the producer, which sends them in batches."""
        for number, row in enumerate(rows, start=first_row):
            self._produce(number, json.dumps(row).encode())
        self._producer.poll(0)
        self._check()

    def _produce(self, number: int, value: bytes) -> None:
        headers = [(ROW, b"%d" % number)]
        while True:
            try:
                self._producer.produce(
                    self._own.topic, value, partition=self._partition, headers=headers, on_delivery=self._delivered
                )
                return
            except BufferError:  # the queue of the producer is full
                self._progress(len(self._producer) - 1)

    def _delivered(self, error: Any, message: Any) -> None:
        if error is not None:
            self._fault = self._fault or f"a row cannot be written: {error.str()}"
        elif message.offset() != self._next:
            self._fault = self._fault or (
                f"partition {self._partition} got a row at offset {message.offset():,}, expected {self._next:,}: "
                "somebody else writes to it"
            )
        else:
            self._next += 1

    def _progress(self, until: int) -> None:
        """Return when at most ``until`` rows wait for their acknowledgement."""
        least, silent = len(self._producer), time.monotonic() + self._own.retry.seconds
        while len(self._producer) > until:
            self._producer.poll(0.1)
            self._check()
            if len(self._producer) < least:
                least, silent = len(self._producer), time.monotonic() + self._own.retry.seconds
            elif time.monotonic() > silent:
                raise SourceError(
                    f"{self.name} has not taken {least:,} rows for {self._own.retry.seconds:g} s. Check the brokers"
                )

    def _check(self) -> None:
        if self._fault:
            raise SourceError(f"{self.name}: {self._fault}")

    def flush(self) -> None:
        """Return when the brokers have acknowledged all rows."""
        self._progress(0)
        self._check()

    def clear(self) -> None:
        """Delete the messages of the partition."""
        settings = {name: value for name, value in self._own.settings().items() if name not in ("group.id",)}
        admin_module: Any = importlib.import_module("confluent_kafka.admin")
        admin = admin_module.AdminClient(settings | {"bootstrap.servers": self._own.servers})
        end = self._own.place(self._partition, self._own.library.OFFSET_END)
        try:
            for future in admin.delete_records([end]).values():
                future.result(self._own.answer)
        except (self._own.library.KafkaException, TimeoutError) as error:
            raise SourceError(f"{self.name}: the rows cannot be deleted: {error}") from error

    def close(self) -> None:
        """Disconnect; rows that are not acknowledged may be lost."""
        if self._producer is not None:
            self._producer.purge()
            self._producer = None


@register(
    "sink", "kafka", schemes=("kafka",), requires=("confluent_kafka",), install="pip install 'driftsurf[connectors]'"
)
class KafkaSink(ConnectorSink):
    """A topic of Kafka."""

    writer: ClassVar[WriterFactory] = KafkaWriter
