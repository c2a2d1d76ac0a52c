"""RabbitMQ: ``amqp://host:5672/QUEUE``, ``amqps://`` with TLS.

A stream keeps its messages, and is read by their offsets. Any other queue hands each message out once, so its messages
are kept in a log of our own. The broker is asked which of both a queue is.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from typing import Any

from driftsurf.data.connectors._rabbitmq import LOST, OFFSET, Delivery, Queue
from driftsurf.data.connectors.contract import Inbox, Message, Plan, Ranges, Received, Seekable
from driftsurf.data.connectors.inbox import InboxSource
from driftsurf.data.source import Position
from driftsurf.errors import SourceError, SourceUnreachableError
from driftsurf.registry import register

__all__ = ["RabbitInbox", "RabbitSource", "RabbitStream"]

LAG_PATIENCE = 1.0
"""Seconds for which the connection that measures the lag is tried."""
QUIET = 1.0
"""Seconds without a message after which a stream is empty, if the broker counts none."""
SETTLING = 5.0
"""Seconds for which messages are looked for before a stream counts as empty: a busy broker, or one that is just
removing old messages, may hand out none for a while, and counts those of a stream every 5 s."""


class RabbitStream:
    """Reads a stream of RabbitMQ by offsets. A position is the offset of the next message."""

    def __init__(self, location: str) -> None:
        self._own = Queue(location)
        self._next: int | None = None
        """Offset of the next message; None for the oldest one."""
        self._stop: int | None = None
        self._consumes = False
        self._read: tuple[Ranges, list[Message]] | None = None

    @property
    def name(self) -> str:
        """The address without its parameters."""
        return self._own.name

    def open(self, position: Position, *, bounded: bool) -> None:
        """Begin at an offset; SourceError if messages from there on are gone."""
        self._restart()
        self._next = None if position is None else int(str(position))
        self._stop = None
        last = self._settled_offset() if bounded or self._next is not None else -1
        if self._next is not None:
            if last + 1 < self._next:
                raise SourceError(
                    f"{self.name} has no message {self._next - 1:,} any more, which was read from it: its last one is "
                    f"{last:,}. If the stream was recreated, start a new run. If it only keeps very few messages, try "
                    "again after the next one has come"
                )
            if last >= 0:
                self._check_kept(self._next)
        if bounded:
            self._stop = last + 1

    def _settled_offset(self) -> int:
        """Return the offset of the last message; look again for a while if those that were read are not there."""
        end, least = time.monotonic() + SETTLING, max(1, self._next or 0) - 1
        while (last := self.last_offset()) < least and time.monotonic() < end:
            time.sleep(0.1)
        return last

    def _edge(self, edge: str, quiet: float = QUIET) -> Delivery | None:
        """Return the first or the last message of the stream; None if none comes for a while, and none is counted.

        The count of the broker is some seconds old, so it only tells that a message has to be there.
        """
        return self._own.ask(partial(self._edge_once, edge, quiet))

    def _edge_once(self, edge: str, quiet: float) -> Delivery | None:
        own = self._own
        self._restart()
        own.consume({OFFSET: edge})
        end = time.monotonic() + own.patience.seconds
        own.wait(quiet)
        while not own.came and own.message_count() and time.monotonic() < end:
            own.wait(quiet)
        found = own.came[0] if own.came else None
        while own.came and edge == "last":
            found = own.came[-1]
            own.came.clear()
            own.channel.basic_ack(found.tag, multiple=True)
            # A channel hands out all messages that follow before it answers: no message before an answer is the end.
            own.message_count()
            own.connection.process_data_events(0)
        self._restart()
        return found

    def last(self, quiet: float = QUIET) -> Delivery | None:
        """Return the last message of the stream; None if none comes within ``quiet`` seconds, and none is counted."""
        return self._edge("last", quiet)

    def last_offset(self, quiet: float = QUIET) -> int:
        """Return the offset of the last message; -1 if there is none."""
        last = self.last(quiet)
        return -1 if last is None else last.offset

    def _check_kept(self, offset: int) -> None:
        """Raise SourceError if the message at an offset was removed by the retention of a stream that has messages."""
        end = time.monotonic() + SETTLING
        while (found := self._edge("first")) is None and time.monotonic() < end:
            time.sleep(0.1)
        if found is not None and found.offset > offset:
            raise SourceError(
                f"{self.name}: the messages {offset:,} to {found.offset - 1:,} were removed before they were read. "
                "Start a new run, and let the stream keep more messages"
            )

    def _restart(self) -> None:
        self._read, self._consumes = None, False
        self._own.close()

    def plan(self, most: int, seconds: float) -> Plan | None:
        """Plan the next messages, which are read at once."""
        if self._stop is not None:
            if self._stop <= (self._next or 0):
                return None
            seconds = LOST
        found = self._collect(most, self._stop, seconds)
        if not found:
            return None
        ranges = [[found[0].offset, found[-1].offset, len(found)]]
        self._read = ranges, [_message(one) for one in found]
        # Never certain: a slow broker may hand out fewer messages in the same time.
        return Plan(ranges, found[-1].offset + 1)

    def _collect(self, most: int, stop: int | None, seconds: float) -> list[Delivery]:
        """Return the next messages before an offset; if there are none, wait for some."""
        found, end = list[Delivery](), time.monotonic() + seconds
        while len(found) < most and (stop is None or (self._next or 0) < stop):
            before = len(found)
            for one in self._own.ask(partial(self._receive, most - len(found), max(0.0, end - time.monotonic()))):
                if self._next is not None and one.offset > self._next:
                    self._own.close()
                    self._check_kept(self._next)  # or the numbers between are the broker's own records
                if stop is None or one.offset < stop:
                    found.append(one)
                self._next = one.offset + 1
            if len(found) == before and time.monotonic() >= end:
                break
        if stop is not None and not found:
            raise SourceUnreachableError(
                f"{self.name}: the messages before {stop:,} did not come within {LOST:g} s; try again"
            )
        return found

    def _receive(self, most: int, seconds: float) -> list[Delivery]:
        own = self._own
        if not self._consumes or own.connection is None:
            own.consume({OFFSET: "first" if self._next is None else self._next})
            self._consumes = True
        own.wait(seconds)
        found, last = list[Delivery](), None
        while own.came and len(found) < most:
            last = own.came.popleft()
            if last.offset >= (self._next or 0):
                found.append(last)
        if last is not None:
            own.channel.basic_ack(last.tag, multiple=True)
        return found

    def read(self, ranges: Ranges) -> list[Message]:
        """Return the messages of a plan."""
        if self._read is not None and self._read[0] is ranges:
            return self._read[1]
        messages = list[Message]()
        for first, last, count in ranges:
            if self._next != first:
                self._restart()
                self._next = int(first)
            found = self._collect(count, last + 1, LOST)
            if len(found) != count or found[0].offset != first:
                raise SourceError(
                    f"{self.name}: of the {count:,} messages from {first:,} to {last:,}, which had been planned, "
                    f"{len(found):,} are there. Start a new run, and let the stream keep more messages"
                )
            messages += [_message(one) for one in found]
        return messages

    def committed(self, position: Position) -> None:
        """Do nothing: the broker keeps no positions of readers."""

    def lag(self) -> int | None:
        """Return how many offsets follow, by a second connection that reads the last message.

        None before the first message, and if the broker hands out none in time.
        """
        if self._next is None:
            return None
        second = RabbitStream(self._own.address.text)
        second._own.patience.seconds = LAG_PATIENCE  # reading waits meanwhile
        last = second.last_offset(0.1)
        return None if last + 1 < self._next else last + 1 - self._next

    def close(self) -> None:
        """Disconnect."""
        self._restart()


def _message(one: Delivery) -> Message:
    return Message(f"offset {one.offset}", one.body)


# ---------------------------------------------------------------------------- other queues


class RabbitInbox:
    """Takes messages from a queue of RabbitMQ that is no stream."""

    def __init__(self, location: str) -> None:
        self._own = Queue(location)
        self._quiet_since: float | None = None
        """When messages of the queue were first missed, which the broker did not hand out."""

    @property
    def name(self) -> str:
        """The address without its parameters."""
        return self._own.name

    def open(self) -> None:
        """Connect, and begin to receive."""
        self._quiet_since = None
        self._own.ask(lambda: self._own.consume({}))

    def take(self, most: int, seconds: float) -> list[Received]:
        """Return messages that have come."""
        return self._own.ask(partial(self._take, most, seconds))

    def _take(self, most: int, seconds: float) -> list[Received]:
        own = self._own
        if own.connection is None:
            own.consume({})
        own.wait(seconds)
        if seconds and not own.came:  # the network may be silent: a channel hands out what there is before it answers
            if own.message_count():
                own.wait(seconds)
            own.connection.process_data_events(0)
        found = list[Received]()
        while own.came and len(found) < most:
            one = own.came.popleft()
            found.append(Received((own.generation, one.tag), Message("", one.body), one.id))
            self._quiet_since = None
        return found

    def settled(self) -> bool:
        """Return whether the queue is empty; after a minute, what is in it belongs to another consumer."""
        if not self.waiting():
            return True
        now = time.monotonic()
        self._quiet_since = self._quiet_since or now
        return now - self._quiet_since > LOST

    def waiting(self) -> int | None:
        """Return how many messages the queue holds, and how many this connection has received and not handed on."""
        return self._own.ask(self._waiting)

    def _waiting(self) -> int:
        own = self._own
        if own.connection is None:
            own.consume({})
        count = own.message_count()
        own.connection.process_data_events(0)  # messages on their way are in neither number
        return count + len(own.came)

    def done(self, tokens: Sequence[Any]) -> None:
        """Acknowledge messages. Those of a connection that was lost are handed out again."""
        own = self._own
        try:
            for generation, tag in tokens:
                if generation == own.generation and own.channel is not None:
                    own.channel.basic_ack(tag)
        except own.errors.AMQPError:
            own.close()

    def close(self) -> None:
        """Disconnect."""
        self._own.close()


@register(
    "source", "rabbitmq", schemes=("amqp", "amqps"), requires=("pika",), install="pip install 'driftsurf[rabbitmq]'"
)
class RabbitSource(InboxSource):
    """Rows from a stream or another queue of RabbitMQ."""

    connector: Seekable

    def inbox(self, location: str) -> Inbox:
        """Return the inbox of a queue."""
        return RabbitInbox(location)

    def choose_connector(self) -> None:
        """Ask the broker whether the queue is a stream."""
        if not isinstance(self.connector, RabbitStream) and Queue(self.location).is_stream():
            self.connector = RabbitStream(self.location)
