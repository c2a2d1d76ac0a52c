"""Kafka: ``kafka://host:9092,host2:9092/TOPIC``, with the settings of librdkafka as parameters.

Each message is a row. Positions are offsets and are kept by the run; the brokers are told of them only if the address
names a group with ``group.id``, for monitors of lag. ``partition`` restricts reading to one partition, and chooses the
one that rows are written to.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from driftsurf.data.connectors._kafka import Cluster, bounds, consumer_settings, lost_messages
from driftsurf.data.connectors.contract import Message, Plan, Ranges, Seekable
from driftsurf.data.connectors.patience import log
from driftsurf.data.connectors.source import MessageSource
from driftsurf.data.source import Position
from driftsurf.errors import SourceError, StateError
from driftsurf.registry import register

__all__ = ["KafkaSource", "KafkaTopic"]

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
        self._read: tuple[Ranges, list[Message]] | None = None

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
        silent = time.monotonic() + self._own.patience.seconds
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
                silent = now + self._own.patience.seconds
            elif now > silent:
                raise self._silence(late)
        return self._make(self._fill(most), full=False) if any(self._waiting.values()) else None

    def _has(self, number: int, take: int) -> bool:
        return len(self._waiting[number]) >= take or self._ended(number)

    def _silence(self, late: Sequence[int]) -> SourceError:
        waited = f"{self._own.patience.seconds:g} s"
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
        ranges, messages, gaps = list[list[int]](), list[Message](), False
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

    def read(self, ranges: Ranges) -> list[Message]:
        """Return the messages of a plan, ordered by partition and offset."""
        if self._read is not None and self._read[0] is ranges:
            return self._read[1]
        at = self._at | {number: first for number, first, _, _ in ranges}
        if any((self._at | self._new).get(number) != first for number, first in at.items()):
            self._at = at
            self._assign()
        messages = list[Message]()
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
        silent = time.monotonic() + self._own.patience.seconds
        while self._arrived[number] < end:
            if self._stop and self._stop.get(number, 0) < end:
                raise SourceError(f"{self.name}, partition {number}, ends before offset {end:,}, which was planned")
            if self._receive(max(count, 100), 1.0):
                silent = time.monotonic() + self._own.patience.seconds
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


@register("source", "kafka", requires=("confluent_kafka",), install="pip install 'driftsurf[kafka]'")
class KafkaSource(MessageSource):
    """Rows from a topic of Kafka."""

    def connect(self, location: str) -> Seekable:
        """Return the reader of a topic."""
        return KafkaTopic(location)


def _message(message: Any) -> Message:
    return Message(f"partition {message.partition()}, offset {message.offset()}", message.value() or b"")


def _read_position(position: Any) -> tuple[dict[int, int], int]:
    if position is None:
        return {}, 0
    try:
        offsets, plans = position
        return {int(number): int(at) for number, at in offsets.items()}, int(plans)
    except (TypeError, ValueError, AttributeError) as error:
        raise StateError(f"not a position in a topic of Kafka: {position!r}") from error
