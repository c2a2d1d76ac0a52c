"""A broker in memory, with several partitions: the plain double of a connector."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from driftsurf.data.messages.contract import BrokerMessage, Plan, Ranges
from driftsurf.data.source import Position
from driftsurf.errors import SourceError


@dataclass
class MemoryTopic:
    """Messages by partition; ``first`` of them are forgotten."""

    partitions: list[list[bytes]]
    first: list[int] = field(default_factory=list)
    next: int = 0

    def __post_init__(self) -> None:
        self.first = [0] * len(self.partitions)

    def send(self, messages: Sequence[bytes]) -> None:
        """Append messages to the partitions in turn."""
        for one in messages:
            self.partitions[self.next % len(self.partitions)].append(one)
            self.next += 1

    def forget(self, count: int) -> None:
        """Forget the first messages of every partition."""
        self.first = [count] * len(self.partitions)


class MemoryConnector:
    """Reads a topic in memory by offsets; a plan takes from all partitions what has come."""

    name = "memory://topic"

    def __init__(self, topic: MemoryTopic) -> None:
        self.topic = topic
        self._at: list[int] = []
        self._stop: list[int] | None = None
        self.commits: list[Position] = []

    def open(self, position: Position, *, bounded: bool) -> None:
        """Begin at offsets."""
        self._at = list(self.topic.first) if position is None else [int(one) for one in position]  # type: ignore[union-attr]
        for at, first in zip(self._at, self.topic.first, strict=True):
            if at < first:
                raise SourceError(f"the messages {at} to {first} are gone")
        self._stop = [len(one) for one in self.topic.partitions] if bounded else None

    def plan(self, most: int, seconds: float) -> Plan | None:
        """Plan an equal share of each partition first, then what is left."""
        ends = [len(one) for one in self.topic.partitions] if self._stop is None else self._stop
        ranges, left = [], most
        for number, (at, end) in enumerate(zip(self._at, ends, strict=True)):
            share = min(end - at, max(1, most // len(ends)), left)
            if share > 0:
                ranges.append([number, at, at + share])
                self._at[number] += share
                left -= share
        return Plan(ranges, list(self._at)) if ranges else None

    def read(self, ranges: Ranges) -> list[BrokerMessage]:
        """Return the messages of a plan."""
        found = []
        for number, first, stop in ranges:
            if first < self.topic.first[number]:
                raise SourceError(f"the messages {first} to {self.topic.first[number]} are gone")
            values = self.topic.partitions[number][first:stop]
            found += [BrokerMessage(f"partition {number}, offset {first + k}", value) for k, value in enumerate(values)]
            self._at[number] = stop
        return found

    def committed(self, position: Position) -> None:
        """Remember the position."""
        self.commits.append(position)

    def lag(self) -> int | None:
        """Return how many messages follow."""
        return sum(len(one) - at for one, at in zip(self.topic.partitions, self._at, strict=True))

    def close(self) -> None:
        """Do nothing."""


class MemoryTable:
    """A writer that keeps its rows in memory, by the name of the destination."""

    tables: ClassVar[dict[str, list[dict[str, Any]]]] = {}
    exact = True

    def __init__(self, location: str, columns: Mapping[str, str]) -> None:
        self.name = location
        self.columns = dict(columns)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """What the table holds."""
        return self.tables.setdefault(self.name, [])

    def open(self) -> int:
        """Return the number of rows."""
        return len(self.rows)

    def write(self, first_row: int, rows: Sequence[Mapping[str, Any]]) -> None:
        """Append rows, which must be the next ones."""
        assert first_row == len(self.rows)
        assert all(list(row) == list(self.columns) for row in rows)
        self.rows.extend(dict(row) for row in rows)

    def flush(self) -> None:
        """Do nothing."""

    def clear(self) -> None:
        """Remove all rows."""
        self.rows.clear()

    def close(self) -> None:
        """Do nothing."""
