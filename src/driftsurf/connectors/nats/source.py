"""NATS JetStream: ``nats://host:4222/STREAM``, and ``?subject=orders.eu`` for the messages of one subject.

Each message is a row. Positions are sequences of the stream and are kept by the run: the server has no durable
consumer.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from driftsurf.connectors.nats.client import ANSWER, Interrupted, Link
from driftsurf.data.messages.contract import BrokerMessage, Plan, Ranges, Seekable
from driftsurf.data.messages.source import MessageSource
from driftsurf.data.source import Position
from driftsurf.errors import SourceError, StateError
from driftsurf.registry import register

KEPT = 300.0
"""Seconds after which the server forgets a reader that has vanished."""


class _Item(NamedTuple):
    """A message and its sequence in the stream."""

    sequence: int
    value: bytes


class _Puller:
    """Asks for the messages of a stream in their order, from a sequence on."""

    def __init__(self, link: Link, first: int) -> None:
        self.next = first
        """The sequence that the next message has at least."""
        self.name = ""
        self._link = link
        self.client = link.client
        self._delivered = 0
        self._inbox = ""
        self._items: list[_Item] = []
        self._most = 0
        self._done: asyncio.Future[None] | None = None

    async def begin(self, subject: str | None) -> None:
        """Make a consumer, which the server forgets by itself, and listen to it."""
        api: Any = importlib.import_module("nats.js.api")
        config = api.ConsumerConfig(
            deliver_policy=api.DeliverPolicy.BY_START_SEQUENCE,
            opt_start_seq=self.next,
            ack_policy=api.AckPolicy.NONE,
            filter_subject=subject,
            inactive_threshold=KEPT,
            mem_storage=True,
        )
        self.name = (await self._link.streams.add_consumer(self._link.stream, config)).name
        self._inbox = self.client.new_inbox()
        # Not more is sent than was asked for, so that nothing must be dropped.
        await self.client.subscribe(self._inbox, cb=self._take, pending_msgs_limit=0, pending_bytes_limit=0)

    async def _take(self, message: Any) -> None:
        """Take a message, or the news that there is no other one."""
        done = self._done
        if done is None or done.done():
            return
        if not message.reply:
            status = (message.headers or {}).get("Status", "")
            if status in ("404", "408"):  # no messages; the time is over
                done.set_result(None)
            else:
                done.set_exception(Interrupted(f"the server ended a request with status {status}"))
            return
        # $JS.ACK.(DOMAIN.ACCOUNT.)STREAM.CONSUMER.DELIVERIES.SEQUENCE.DELIVERED.TIME.PENDING
        parts = message.reply.split(".")
        place = 5 if len(parts) == 9 else 7
        sequence, delivered = int(parts[place]), int(parts[place + 1])
        if delivered != self._delivered + 1:
            done.set_exception(Interrupted(f"messages before sequence {sequence} were lost on the way"))
            return
        self._delivered, self.next = delivered, sequence + 1
        self._items.append(_Item(sequence, message.data))
        if len(self._items) == self._most:
            done.set_result(None)

    async def pull(self, most: int, seconds: float) -> list[_Item]:
        """Return the next messages, at most ``most``; wait up to ``seconds`` for them."""
        self._items, self._most = [], most
        self._done = done = asyncio.get_running_loop().create_future()
        wish = {"batch": most, **({"expires": round(seconds * 1e9)} if seconds else {"no_wait": True})}
        subject = f"$JS.API.CONSUMER.MSG.NEXT.{self._link.stream}.{self.name}"
        await self.client.publish(subject, json.dumps(wish).encode(), reply=self._inbox)
        count = -1
        while not done.done():
            if count == len(self._items):
                raise Interrupted("the server does not answer")
            count = len(self._items)
            await asyncio.wait((done,), timeout=seconds + ANSWER)
        done.result()
        return self._items


class NatsStream:
    """Reads a stream of JetStream by the sequences of its messages.

    A position is the sequence of the last message that was read. The next messages are asked for while those before
    them are learned.
    """

    def __init__(self, location: str) -> None:
        self._link = Link(location)
        self._subject = self._link.address.parameters.get("subject")
        self._last, self._stop = 0, -1
        self._puller: _Puller | None = None
        self._ahead: tuple[int, asyncio.Future[list[_Item]]] | None = None
        """Number of messages that were asked for, and the future of them."""
        self._read: tuple[Ranges, list[BrokerMessage]] | None = None

    @property
    def name(self) -> str:
        """The address without its parameters."""
        return self._link.name

    def open(self, position: Position, *, bounded: bool) -> None:
        """Begin after a position; SourceError if messages after it are gone."""
        if position is not None and (not isinstance(position, int) or isinstance(position, bool)):
            raise StateError(f"not a position in a stream of NATS: {position!r}")
        self.close()
        try:
            self._begin(position, bounded=bounded)
        except BaseException:
            self.close()
            raise

    def _begin(self, position: int | None, *, bounded: bool) -> None:
        about = self._link.ask(self._link.about)
        if about is None:
            raise SourceError(f"{self.name}: the server has no stream {self._link.stream!r}; create it")
        first, last = about.state.first_seq, about.state.last_seq
        self._stop = last if bounded else -1
        self._last = max(0, first - 1) if position is None else position
        if self._last > last:
            raise SourceError(
                f"{self.name} ends at sequence {last:,}, but was read up to {self._last:,}: it was recreated, or lost "
                "messages. Start a new run, or restore the stream"
            )
        self._check_kept(self._last, first)

    def _check_kept(self, last: int, first: int) -> None:
        """Raise SourceError unless the stream still has what follows a sequence."""
        if first > last + 1:
            other = "" if self._subject is None else ", some of which may have had other subjects,"
            raise SourceError(
                f"{self.name}: the messages {last + 1:,} to {first - 1:,}{other} were removed before they were read. "
                "Start a new run, and let the stream keep more messages"
            )

    # -------------------------------------------------------------------- messages

    def _fetch(self, most: int, seconds: float) -> list[_Item]:
        """Return the next messages, at most ``most``; wait up to ``seconds`` if there are fewer."""
        try:
            found = self._link.retry.call(lambda: self._fetch_once(most, seconds))
        except BaseException:
            self._forget()
            raise
        before = self._last
        for item in found:
            if item.sequence != before + 1:  # of another subject, deleted one by one, or lost
                about = self._link.ask(self._link.about)
                self._check_kept(before, about.state.first_seq)
                break
            before = item.sequence
        return found

    def _fetch_once(self, most: int, seconds: float) -> list[_Item]:
        try:
            found = self._asked(most)
            if len(found) < most and seconds:
                found = found + self._pull(most - len(found), seconds)
        except Interrupted:
            self._forget()
            raise
        if len(found) == most and (self._stop < 0 or found[-1].sequence < self._stop):
            self._ahead = most, self._start(most, 0.0)
        return found

    def _asked(self, most: int) -> list[_Item]:
        """Return the messages that were asked for already, or those that are there."""
        ahead, self._ahead = self._ahead, None
        if ahead is not None:
            found = self._link.result(ahead[1])
            if ahead[0] == most and (not found or found[0].sequence > self._last):
                return found
            self._forget()
        return self._pull(most, 0.0)

    def _pull(self, most: int, seconds: float) -> list[_Item]:
        return self._link.result(self._start(most, seconds))

    def _start(self, most: int, seconds: float) -> asyncio.Future[list[_Item]]:
        """Ask for messages after the last one that was asked for."""

        async def pull() -> list[_Item]:
            if self._puller is None or self._puller.client is not self._link.client:
                self._puller = _Puller(self._link, self._last + 1)
                await self._puller.begin(self._subject)
            return await self._puller.pull(most, seconds)

        return self._link.start(self._link.connected(pull))

    def _forget(self) -> None:
        """Start again after the last message that was read, because requested messages may be lost."""
        ahead, self._ahead = self._ahead, None
        if ahead is not None:
            with contextlib.suppress(Interrupted, SourceError):
                self._link.result(ahead[1])
        puller, self._puller = self._puller, None
        if puller is not None and puller.client.is_connected and puller.name:
            with contextlib.suppress(Interrupted, SourceError):
                work = self._link.streams.delete_consumer(self._link.stream, puller.name)
                self._link.result(self._link.start(work))

    # -------------------------------------------------------------------- the contract

    def plan(self, most: int, seconds: float) -> Plan | None:
        """Plan the next messages, which are read at once, since their sequences may have gaps."""
        if 0 <= self._stop <= self._last:
            return None
        found = self._fetch(most, seconds)
        if self._stop >= 0:
            found = [item for item in found if item.sequence <= self._stop]
        if not found:
            return None
        ranges = [[found[0].sequence, found[-1].sequence, len(found)]]
        self._last = found[-1].sequence
        self._read = ranges, _messages(found)
        return Plan(ranges, self._last, certain=len(found) == most)

    def read(self, ranges: Ranges) -> list[BrokerMessage]:
        """Return the messages of a plan."""
        if self._read is not None and self._read[0] is ranges:
            return self._read[1]
        messages = list[BrokerMessage]()
        for first, last, count in ranges:
            self._forget()
            self._last = first - 1
            found = [item for item in self._fetch(count, 0.0) if item.sequence <= last]
            if len(found) != count or found[0].sequence != first:
                raise SourceError(
                    f"{self.name}: {max(1, count - len(found)):,} of the {count:,} messages from {first} to {last} "
                    "were removed after they had been planned. Start a new run, and let the stream keep more messages"
                )
            messages += _messages(found)
            self._last = last
        return messages

    def committed(self, position: Position) -> None:
        """Do nothing: without a durable consumer there is nobody to tell."""

    def lag(self) -> int | None:
        """Return how many messages follow; with a subject, None."""
        if self._subject is not None:
            return None
        about = self._link.ask(self._link.about)
        return None if about is None else max(0, about.state.last_seq - self._last)

    def close(self) -> None:
        """Disconnect."""
        self._read = None
        if self._link.client is not None:
            self._forget()
        self._ahead = self._puller = None
        self._link.close()


@register("source", "nats", requires=("nats",), install="pip install 'driftsurf[connectors]'")
class NatsSource(MessageSource):
    """Rows from a stream of NATS JetStream."""

    def connect(self, location: str) -> Seekable:
        """Return the reader of a stream."""
        return NatsStream(location)


def _messages(items: Sequence[_Item]) -> list[BrokerMessage]:
    return [BrokerMessage(f"sequence {sequence}", value) for sequence, value in items]
