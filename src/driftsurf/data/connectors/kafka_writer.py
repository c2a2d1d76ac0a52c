"""Rows in a topic of Kafka."""

from __future__ import annotations

import importlib
import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

from driftsurf.data.connectors._kafka import Cluster, consumer_settings
from driftsurf.errors import SourceError

__all__ = ["KafkaWriter"]

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
        last, silent = None, time.monotonic() + self._own.patience.seconds
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
        least, silent = len(self._producer), time.monotonic() + self._own.patience.seconds
        while len(self._producer) > until:
            self._producer.poll(0.1)
            self._check()
            if len(self._producer) < least:
                least, silent = len(self._producer), time.monotonic() + self._own.patience.seconds
            elif time.monotonic() > silent:
                raise SourceError(
                    f"{self.name} has not taken {least:,} rows for {self._own.patience.seconds:g} s. Check the brokers"
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
