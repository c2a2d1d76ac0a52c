"""Log of a served model in a stream of NATS JetStream: ``nats://host:4222/STREAM``."""

from __future__ import annotations

import asyncio
import importlib
import json
import uuid
from collections.abc import Iterator, Sequence
from struct import Struct
from typing import Any, NamedTuple

from driftsurf.connectors.nats.client import Link
from driftsurf.connectors.nats.sink import NOT_NEXT
from driftsurf.connectors.shared_log import TRIED_SECONDS, Holder, LogEnds, SharedLog
from driftsurf.errors import LogConflictError, LogError
from driftsurf.registry import register

HEADER = "Driftsurf-Records"
"""Header of a message that says which records it has."""
LENGTH = Struct("<I")
SPARE = 1024
"""Bytes of a message that are left for its headers."""
LEASE, LEADER = "_lease", "leader"
"""Suffix of the bucket that has the lease of a stream, and key of the lease in it."""
AT_ONCE = 64
"""Messages that are asked for at a time."""


class RecordPart(NamedTuple):
    """Content of a message: whole records, or a part of one that is longer than a message may be."""

    first: int
    """Number of the first record."""
    records: int
    total: int
    """Bytes of all records before it."""
    size: int
    """Bytes of the records in all their parts."""
    part: int
    parts: int
    writer: str
    """Unique token of an append."""

    @classmethod
    def read(cls, headers: Any, name: str) -> RecordPart:
        """Return what the header of a message says; LogError if it has none."""
        texts = ((headers or {}).get(HEADER) or "").split()
        if len(texts) != len(cls._fields):
            raise LogError(f"{name} holds messages that are no records of a model; choose a stream of its own for it")
        first, records, total, size, part, parts = map(int, texts[:-1])
        return cls(first, records, total, size, part, parts, texts[-1])

    @property
    def last(self) -> bool:
        """Whether the records are complete with this message."""
        return self.part == self.parts - 1

    @property
    def text(self) -> str:
        """The header."""
        return " ".join(map(str, self))


class StreamTail(NamedTuple):
    """The end of a stream: the next record, the bytes of those before it, and the sequence of the last message."""

    next: int
    total: int
    sequence: int


@register("log", "nats", requires=("nats",), install="pip install 'driftsurf[connectors]'")
class NatsLog(SharedLog):
    """A stream of JetStream with the records, a group in each message, and a bucket of keys with the lease.

    Each message names the one that it must follow, so that of two writers one is refused. A record that is longer than
    a message may be is cut; a part without the others, whose writer ended, is no record. ``replicas`` in the address
    is the number of servers that store the stream. They flush messages to their disks after a while
    (``sync_interval``): records that they acknowledged are lost if all of them lose power together.
    """

    def __init__(self, location: str, about: str = "") -> None:
        self._writer, self._reader = Link(location), Link(location)
        for one in (self._writer, self._reader):
            one.retry.seconds = TRIED_SECONDS
        self._stream = self._writer.stream
        self._replicas = self._writer.address.number("replicas", 1)
        self._tail: StreamTail | None = None
        """The end of the stream, as far as this process has written it."""
        self._parts: dict[int, tuple[int, RecordPart]] = {}
        """Sequences of messages that were read last, by the record that they end before."""
        super().__init__(location, about)

    @property
    def name(self) -> str:
        """The address without its parameters."""
        return self._writer.name

    def _make(self, about: str) -> str:
        async def make() -> str:
            found = await self._writer.about()
            if found is None:
                await self._writer.streams.add_stream(
                    name=self._stream,
                    subjects=[self._stream],
                    description=about,
                    num_replicas=self._replicas,
                )
                found = await self._writer.about()
            return str(found.config.description or "")

        stored = self._writer.ask(make)
        try:
            json.loads(stored)["id"]
        except (ValueError, KeyError, TypeError) as error:
            self._leave()
            raise LogError(f"the stream {self.name} was not made for a log; name another one") from error
        return stored

    # ------------------------------------------------------------------------ the end

    async def _message(self, link: Link, sequence: int) -> tuple[RecordPart, bytes]:
        found = await link.streams.get_msg(self._stream, seq=sequence)
        return RecordPart.read(found.headers, self.name), found.data or b""

    async def _state(self, link: Link) -> Any:
        found = await link.about()
        if found is None:
            raise LogError(f"the stream {self.name} is gone")
        return found.state

    async def _end(self, link: Link) -> StreamTail:
        state = await self._state(link)
        if not state.last_seq or not state.messages:
            return StreamTail(0, 0, state.last_seq)
        part, _ = await self._message(link, state.last_seq)
        if not part.last:  # its writer has ended, or is about to send the rest
            return StreamTail(part.first, part.total, state.last_seq)
        return StreamTail(part.first + part.records, part.total + part.size, state.last_seq)

    def _ends(self) -> LogEnds:
        async def ends() -> LogEnds:
            state = await self._state(self._reader)
            if not state.messages:
                return LogEnds()
            end = await self._end(self._reader)
            first, _ = await self._message(self._reader, (await self._state(self._reader)).first_seq)
            return LogEnds(first.first, end.next, first.total, end.total)

        return self._reader.ask(ends)

    # ------------------------------------------------------------------------ writing

    def _messages(self, payloads: Sequence[bytes], tail: StreamTail, most: int) -> Iterator[tuple[RecordPart, bytes]]:
        """Yield the messages of records: as many records in each as it may hold, or a part of one."""
        number, total, writer = tail.next, tail.total, uuid.uuid4().hex
        group, taken, at = list[bytes](), 0, 0
        while at < len(payloads) or group:
            fits = at < len(payloads) and taken + len(payloads[at]) + LENGTH.size <= most
            if fits:
                group.append(payloads[at])
                taken += len(payloads[at]) + LENGTH.size
                at += 1
                continue
            if group:
                size = sum(map(len, group))
                body = b"".join([LENGTH.pack(len(one)) + one for one in group])
                yield RecordPart(number, len(group), total, size, 0, 1, writer), body
                number, total, group, taken = number + len(group), total + size, [], 0
                continue
            long = payloads[at]
            cut = [long[start : start + most] for start in range(0, len(long), most)]
            for place, body in enumerate(cut):
                yield RecordPart(number, 1, total, len(long), place, len(cut), writer), body
            number, total, at = number + 1, total + len(long), at + 1

    def _append(self, payloads: Sequence[bytes], expected: int) -> None:
        link, errors = self._writer, importlib.import_module("nats.js.errors")
        messages: list[tuple[RecordPart, bytes]] | None = None
        done = 0
        tail = self._tail

        async def send() -> StreamTail:
            nonlocal messages, done, tail
            sent_before = messages is not None
            if messages is None:
                if tail is None or tail.next != expected:
                    tail = await self._end(link)
                if tail.next != expected:
                    raise self._conflict(expected, tail.next)
                messages = list(self._messages(payloads, tail, link.client.max_payload - SPARE))
            assert tail is not None
            last = (await self._state(link)).last_seq if sent_before else 0
            while done < len(messages):
                part, body = messages[done]
                follows = tail.sequence + done
                if last <= follows:
                    headers = {HEADER: part.text, "Nats-Expected-Last-Sequence": str(follows)}
                    try:
                        await link.streams.publish(self._stream, body, headers=headers, stream=self._stream)
                    except errors.APIError as error:
                        if error.err_code not in NOT_NEXT:
                            raise
                        last = follows + 1
                        continue
                else:  # it may have come before the connection was lost
                    try:
                        there, _ = await self._message(link, follows + 1)
                    except errors.NotFoundError:
                        raise self._conflict(expected, (await self._end(link)).next) from None
                    if there != part:
                        raise self._conflict(expected, (await self._end(link)).next)
                done += 1
            whole = messages[-1][0]
            return StreamTail(whole.first + whole.records, whole.total + whole.size, tail.sequence + len(messages))

        if not payloads:
            return
        self._tail = None
        self._tail = link.ask(send)

    def _conflict(self, expected: int, there: int) -> LogConflictError:
        return LogConflictError(
            f"the next record of {self.name} is {there}, and not {expected}: another process writes to it"
        )

    # ------------------------------------------------------------------------ reading

    async def _find(self, start: int) -> int:
        """Return the sequence of the message from which record ``start`` is read, or of the first one after it."""
        known = self._parts.get(start)
        if known is not None:
            return known[0] + 1
        state = await self._state(self._reader)
        low: int = state.first_seq
        high: int = state.last_seq
        while low < high:
            middle = (low + high + 1) // 2
            part, _ = await self._message(self._reader, middle)
            low, high = (middle, high) if part.first <= start else (low, middle - 1)
        part, _ = await self._message(self._reader, low)
        first: int = state.first_seq
        return max(first, low - part.part)

    def _fetch(self, start: int, most_bytes: int) -> list[tuple[int, bytes]]:
        missing: Any = importlib.import_module("nats.js.errors").NotFoundError

        async def fetch() -> list[tuple[int, bytes]]:
            state = await self._state(self._reader)
            if not state.messages:
                return []
            try:
                sequence, found, size = await self._find(start), list[tuple[int, bytes]](), 0
                pending, at_once = list[bytes](), 1
                while sequence <= state.last_seq and (size < most_bytes or not found):
                    stop = min(sequence + at_once, state.last_seq + 1)
                    read = [self._message(self._reader, one) for one in range(sequence, stop)]
                    for part, body in await asyncio.gather(*read):
                        pending = [*pending, body] if part.part else [body]
                        if part.last:
                            records = [(part.first, b"".join(pending))] if part.parts > 1 else _unpacked(part, body)
                            found += [one for one in records if one[0] >= start]
                            size += part.size
                            self._parts[part.first + part.records] = sequence, part
                        sequence += 1
                    at_once = AT_ONCE
            except missing:
                return []  # it was dropped meanwhile; the next call finds what is left
            while len(self._parts) > AT_ONCE:
                del self._parts[next(iter(self._parts))]
            return found

        return self._reader.ask(fetch)

    def _total_before(self, number: int) -> int:
        async def total() -> int:
            part, _ = await self._message(self._reader, await self._find(number))
            return part.total if part.first == number else part.total + part.size

        found: int = self._reader.ask(total)
        return found

    def _drop(self, before: int) -> None:
        async def drop() -> None:
            state = await self._state(self._reader)
            sequence = min(await self._find(before), state.last_seq)  # the last message has the numbers
            part, _ = await self._message(self._reader, sequence)
            await self._reader.streams.purge_stream(self._stream, seq=sequence - part.part)

        self._reader.ask(drop)

    # ------------------------------------------------------------------------ the lease

    async def _keys(self, link: Link, seconds: float | None = None) -> Any:
        from nats.js.api import KeyValueConfig

        errors: Any = importlib.import_module("nats.js.errors")
        name = f"{self._stream}{LEASE}".replace(".", "_")
        try:
            return await link.streams.key_value(name)
        except errors.NotFoundError:
            if seconds is None:
                return None
        config = KeyValueConfig(bucket=name, ttl=seconds, replicas=self._replicas)
        return await link.streams.create_key_value(config)

    async def _entry(self, bucket: Any) -> Any:
        errors: Any = importlib.import_module("nats.js.errors")
        try:
            return await bucket.get(LEADER)
        except errors.NotFoundError:  # KeyNotFoundError and KeyDeletedError are kinds of it
            return None

    def _take(self, seconds: float, holder: Holder) -> bool:
        errors: Any = importlib.import_module("nats.js.errors")
        text = json.dumps(holder).encode()

        async def take() -> bool:
            bucket = await self._keys(self._writer, seconds)
            entry = await self._entry(bucket)
            try:
                if entry is None:
                    await bucket.create(LEADER, text)
                elif Holder(*json.loads(entry.value)).token == holder.token:
                    await bucket.update(LEADER, text, last=entry.revision)
                else:
                    return False
            except errors.KeyWrongLastSequenceError:
                return False
            return True

        return self._writer.ask(take)

    def _holder(self) -> Holder | None:
        async def look() -> Holder | None:
            bucket = await self._keys(self._reader)
            entry = None if bucket is None else await self._entry(bucket)
            return None if entry is None else Holder(*json.loads(entry.value))

        return self._reader.ask(look)

    def _give_up(self) -> None:
        async def give_up() -> None:
            bucket = await self._keys(self._writer)
            entry = None if bucket is None else await self._entry(bucket)
            if entry is not None and Holder(*json.loads(entry.value)).token == self.token:
                await bucket.delete(LEADER, last=entry.revision)

        self._writer.ask(give_up)

    def _leave(self) -> None:
        self._writer.close()
        self._reader.close()


def _unpacked(part: RecordPart, body: bytes) -> list[tuple[int, bytes]]:
    """Return the records of a message with their numbers."""
    found, at = list[tuple[int, bytes]](), 0
    for number in range(part.first, part.first + part.records):
        (length,) = LENGTH.unpack_from(body, at)
        at += LENGTH.size + length
        found.append((number, body[at - length : at]))
    return found
