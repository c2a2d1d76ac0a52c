"""Rows in a queue of RabbitMQ."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from driftsurf.data.connectors._rabbitmq import LOCKED, LOST, NOT_FOUND, Queue
from driftsurf.data.connectors.rabbitmq import QUIET, RabbitStream
from driftsurf.errors import SourceError

__all__ = ["RabbitWriter"]

COUNTED = 6.0
"""Seconds after which the broker counts messages that were written before: it counts those of a stream every 5 s."""


class RabbitWriter:
    """Publishes rows to a queue of RabbitMQ, which is made as a stream unless there is one.

    The last message of a stream tells the number of the last row, so that each row is there once. A queue of another
    kind cannot be asked, and gets rows at least once.
    """

    def __init__(self, location: str, columns: Mapping[str, str]) -> None:
        self._own = Queue(location)
        self._stream: bool | None = None
        self._next = 0

    @property
    def name(self) -> str:
        """The address without its parameters."""
        return self._own.name

    @property
    def exact(self) -> bool:
        """Whether the queue is a stream."""
        return self._stream is not False

    def open(self) -> int:
        """Declare the queue if it is missing; return the number of the first row that it lacks."""
        own = self._own
        made = own.ask(self._declare)
        self._stream = own.is_stream()
        if not self._stream:
            own.ask(own.connect)
            return 0
        own.ask(self._lock)
        last = RabbitStream(own.address.text).last(QUIET if made else COUNTED)
        self._next = 0 if last is None else _number(last.body, self.name) + 1
        return self._next

    def _declare(self) -> bool:
        """Declare the queue if it is missing; return whether it was."""
        own = self._own
        try:
            own.connect().queue_declare(own.queue, passive=True)
            return False
        except own.errors.ChannelClosedByBroker as error:
            if error.reply_code != NOT_FOUND:
                raise
            kind = "stream" if own.address.parameters.get("stream", "true") == "true" else "classic"
            own.connect().queue_declare(own.queue, durable=True, arguments={"x-queue-type": kind})
            return True

    def _lock(self) -> None:
        """Hold a queue that only one connection can have, which ends after the messages of the connection before."""
        own, end = self._own, time.monotonic() + LOST
        while True:
            try:
                own.connect().queue_declare(f"{own.queue}.writer", exclusive=True)
                return
            except own.errors.ChannelClosedByBroker as error:
                if error.reply_code != LOCKED or time.monotonic() > end:
                    raise
                time.sleep(0.2)

    def write(self, first_row: int, rows: Sequence[Mapping[str, Any]]) -> None:
        """Publish rows, and return when the broker has confirmed them."""
        bodies = [json.dumps(row).encode() for row in rows]
        if not bodies:
            return
        if not self._stream:
            self._own.ask(partial(self._publish, bodies))
            return
        try:
            self._publish(bodies)
        except (*self._own.patience.errors, self._own.errors.AMQPError):
            there = self.open()  # any part of the rows may be there
            if not first_row <= there <= first_row + len(bodies):
                raise SourceError(
                    f"{self.name} holds {there:,} rows, and rows from {first_row:,} on were to follow: somebody else "
                    "writes to it, or it lost rows"
                ) from None
            if there < first_row + len(bodies):
                self._own.ask(partial(self._publish, bodies[there - first_row :]))

    def _publish(self, bodies: Sequence[bytes]) -> None:
        """Publish messages in one go.

        A stream keeps the order of a channel, so the confirmation of the last message is one for all of them. Other
        queues confirm a transaction, once all its messages are on disk.
        """
        own, returned = self._own, list[Any]()
        if own.connection is None or not own.connection.is_open:
            own.connect()
        channel = own.connection.channel()
        if not self._stream:
            channel.add_on_return_callback(lambda *found: returned.append(found))
            channel.tx_select()
        lasting = own.library.BasicProperties(delivery_mode=2, content_type="application/json")
        for body in bodies[:-1]:
            channel.basic_publish("", own.queue, body, lasting)
        if self._stream:
            channel.confirm_delivery()
        channel.basic_publish("", own.queue, bodies[-1], lasting, mandatory=True)
        if not self._stream:
            channel.tx_commit()
            own.connection.process_data_events(0)
        channel.close()
        if returned:
            raise SourceError(f"{self.name}: the queue {own.queue!r} is no longer there")

    def flush(self) -> None:
        """Do nothing: rows that were written are confirmed."""

    def clear(self) -> None:
        """Remove all messages of a queue; a stream refuses."""
        if self._stream:
            raise SourceError(f"{self.name}: RabbitMQ removes no messages from a stream; delete it, or choose another")
        self._own.ask(lambda: self._own.connect().queue_purge(self._own.queue))

    def close(self) -> None:
        """Disconnect."""
        self._own.close()


def _number(body: bytes, name: str) -> int:
    """Return the number of the row in a message."""
    try:
        return int(json.loads(body)["row"])
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise SourceError(f"{name} holds messages that are no rows of a run; choose another stream") from error
