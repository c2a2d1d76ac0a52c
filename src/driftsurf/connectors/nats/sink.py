"""Rows in a stream of NATS JetStream."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from driftsurf.connectors.nats.client import ANSWER, Interrupted, Link
from driftsurf.connectors.sink import ConnectorSink, WriterFactory
from driftsurf.errors import SourceError
from driftsurf.registry import register

ROW = "Driftsurf-Row"
"""Header of a message with the number of its row."""
UNANSWERED = 10_000
"""Rows that wait for their acknowledgement at most."""
NOT_NEXT = 10_070, 10_071
"""Codes of the server for a message that does not follow the one that it has to follow."""


class NatsWriter:
    """Writes rows to a stream that has no other messages, and makes the stream if there is none.

    Row n is accepted only after row n - 1: each message names what it has to follow. So a second copy, a gap or another
    writer is refused by the server. The last message of the stream tells how many rows there are.
    """

    exact: bool = True

    def __init__(self, location: str, columns: Mapping[str, str]) -> None:
        self._link = Link(location)
        self._subject = self._link.address.parameters.get("subject", "")
        self._base = 0
        """Sequence that row 0 follows."""
        self._waiting: dict[int, bytes] = {}
        """Rows that are not acknowledged, by their numbers."""
        self._sent = 0
        """Number of the first row that was not sent over this connection."""
        self._checked = 0
        """Number of rows that the stream had when this connection began."""
        self._fault: Exception | None = None
        self._news = asyncio.Event()
        self._inbox = ""
        self._listening: Any = None
        """Client on which acknowledgements are listened to."""

    @property
    def name(self) -> str:
        """The address without its parameters."""
        return self._link.name

    def open(self) -> int:
        """Return the number of the first row that the stream lacks."""
        self.close()
        try:
            return self._link.ask(self._begin)
        except BaseException:
            self.close()
            raise

    async def _begin(self) -> int:
        about = await self._link.about()
        if about is None:
            self._subject = self._subject or self._link.stream
            await self._link.streams.add_stream(name=self._link.stream, subjects=[self._subject])
            about = await self._link.about()
        elif not self._subject:
            subjects = about.config.subjects or []
            if len(subjects) != 1 or any(one in subjects[0] for one in "*>"):
                raise SourceError(
                    f"{self.name} takes messages of the subjects {subjects}; choose one with ?subject=..."
                )
            self._subject = subjects[0]
        return await self._rows(about)

    async def _rows(self, about: Any) -> int:
        """Return how many rows the stream holds, by its last message."""
        if not about.state.messages:
            self._base = about.state.last_seq
            return 0
        last = await self._link.streams.get_msg(self._link.stream, seq=about.state.last_seq)
        number = (last.headers or {}).get(ROW, "")
        if not number.isdecimal() or last.subject != self._subject:
            raise SourceError(
                f"{self.name} holds messages that are no rows of a run with the subject {self._subject!r}; choose a "
                "stream of its own for each run"
            )
        self._base = last.seq - 1 - int(number)
        return int(number) + 1

    # -------------------------------------------------------------------- rows

    def write(self, first_row: int, rows: Sequence[Mapping[str, Any]]) -> None:
        """Send rows without waiting for their acknowledgement."""
        self._waiting |= {number: json.dumps(row).encode() for number, row in enumerate(rows, start=first_row)}
        if len(self._waiting) > UNANSWERED:
            self.flush()
        else:
            self._link.ask(self._send)

    def flush(self) -> None:
        """Return when the server has acknowledged all rows."""
        if self._waiting:
            self._link.ask(self._settle)

    async def _send(self) -> None:
        """Send the rows that were not sent over this connection."""
        client = self._link.client
        if self._listening is not client:
            await self._resume()
        errors: Any = self._link.library.errors
        for number in sorted(one for one in self._waiting if one >= self._sent):
            headers = {
                ROW: str(number),
                "Nats-Expected-Stream": self._link.stream,
                "Nats-Expected-Last-Sequence": str(self._base + number),
                "Nats-Msg-Id": f"{self._base}-{number}",
            }
            if number > self._checked:  # the server does not know the id for ever, so the first one is looked at
                headers["Nats-Expected-Last-Msg-Id"] = f"{self._base}-{number - 1}"
            try:
                await client.publish(self._subject, self._waiting[number], reply=self._inbox, headers=headers)
            except errors.MaxPayloadError as error:
                raise SourceError(f"{self.name}: row {number} is longer than messages of the server may be") from error
            self._sent = number + 1

    async def _resume(self) -> None:
        """Begin with a new connection: forget the rows that the stream has."""
        self._inbox, self._fault = self._link.client.new_inbox(), None
        await self._link.client.subscribe(self._inbox, cb=self._acknowledged)
        base = self._base
        there = await self._rows(await self._link.about())
        first = min(self._waiting, default=there)
        if base != self._base or there < first:
            raise SourceError(f"{self.name} was changed by somebody else; choose a stream of its own for each run")
        self._waiting = {number: value for number, value in self._waiting.items() if number >= there}
        self._sent = self._checked = there
        self._listening = self._link.client

    async def _acknowledged(self, message: Any) -> None:
        answer = json.loads(message.data) if message.data else {}
        if not answer:
            self._fault = Interrupted("nobody takes messages of this subject")
        elif "error" in answer:
            error = answer["error"]
            again = error.get("err_code") in NOT_NEXT  # a row before it was lost, or is there twice
            text = str(error.get("description", error))
            self._fault = self._fault or (Interrupted(text) if again else SourceError(f"{self.name}: {text}"))
        else:
            self._waiting.pop(int(answer["seq"]) - 1 - self._base, None)
        self._news.set()

    async def _settle(self) -> None:
        """Send what was not sent, and wait until every row is acknowledged."""
        try:
            await self._send()
            while self._waiting:
                if self._fault is not None:
                    raise self._fault
                self._news.clear()
                await asyncio.wait_for(self._news.wait(), ANSWER)
        except BaseException:
            self._listening = None  # ask the stream what it has before anything is sent again
            raise

    def clear(self) -> None:
        """Remove all messages of the stream."""

        async def purge() -> int:
            await self._link.streams.purge_stream(self._link.stream)
            self._waiting, self._listening = {}, None
            return await self._rows(await self._link.about())

        self._link.ask(purge)

    def close(self) -> None:
        """Disconnect; rows that are not acknowledged may be lost."""
        self._waiting, self._sent, self._fault, self._listening = {}, 0, None, None
        self._link.close()


@register("sink", "nats", schemes=("nats",), requires=("nats",), install="pip install 'driftsurf[connectors]'")
class NatsSink(ConnectorSink):
    """A stream of NATS JetStream."""

    writer: ClassVar[WriterFactory] = NatsWriter
