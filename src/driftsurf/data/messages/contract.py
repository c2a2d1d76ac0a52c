"""The contracts of connectors: read messages from any position, hand each message out once, or take rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeAlias, overload, runtime_checkable

from driftsurf.data.source import Position

Ranges: TypeAlias = Sequence[Any]
"""Which messages belong to a batch, as plain JSON values. Only their connector interprets them."""


class BrokerMessage(NamedTuple):
    """One message of a broker, or one row of a database."""

    place: str
    """Where it stands, for messages to people, such as "partition 2, offset 17"."""
    value: bytes


class Messages(Sequence[BrokerMessage]):
    """Messages of which mostly the values are needed: each is made when it is asked for.

    Parameters
    ----------
    values
        The values of all messages.
    place
        Returns where the message with a number stands.
    """

    def __init__(self, values: Sequence[bytes], place: Callable[[int], str]) -> None:
        self.values: Sequence[bytes] = values
        self.place: Callable[[int], str] = place

    def __len__(self) -> int:
        return len(self.values)

    @overload
    def __getitem__(self, number: int) -> BrokerMessage: ...
    @overload
    def __getitem__(self, number: slice) -> list[BrokerMessage]: ...
    def __getitem__(self, number: int | slice) -> BrokerMessage | list[BrokerMessage]:
        if isinstance(number, slice):
            return [self[one] for one in range(*number.indices(len(self)))]
        return BrokerMessage(self.place(number), self.values[number])


@dataclass(frozen=True, slots=True)
class Plan:
    """The messages of the next batch."""

    ranges: Ranges
    end: Position
    """Position after them."""
    certain: bool = False
    """Whether a plan from the same position would always be the same, so that it need not be logged.

    That is so if there is only one order of messages, and the plan has as many as were asked for.
    """


@runtime_checkable
class Seekable(Protocol):
    """A system that keeps its messages, so that they can be read again from any position.

    Its methods raise SourceError if the system cannot be reached or refuses, and if messages after a position are no
    longer there: the error names the range that is lost. Reconnecting is up to the connector.
    """

    @property
    def name(self) -> str:
        """Name of the stream in messages, without secrets."""
        ...

    def open(self, position: Position, *, bounded: bool) -> None:
        """Connect, and let plans begin at a position; None is the oldest message.

        With ``bounded``, plans end where the stream ends now. A second call begins again elsewhere.
        """
        ...

    def plan(self, most: int, seconds: float) -> Plan | None:
        """Return which messages come next, at most ``most``; None if there is none.

        If there are fewer, wait up to ``seconds`` for more. The next plan begins where this one ends.
        """
        ...

    def read(self, ranges: Ranges) -> Sequence[BrokerMessage]:
        """Return the messages of a plan: the same ones in the same order, whenever asked.

        The next plan begins after them, also if the ranges come from an earlier process.
        """
        ...

    def committed(self, position: Position) -> None:
        """Tell the system, for its monitors only, that everything before a position is learned and saved."""
        ...

    def lag(self) -> int | None:
        """Return how many messages follow the last plan; None if that is not known."""
        ...

    def close(self) -> None:
        """Disconnect; a second call does nothing."""
        ...


class Received(NamedTuple):
    """A message that was handed out, and has to be acknowledged."""

    token: Any
    message: BrokerMessage
    id: str = ""
    """Identity that its sender gave it, by which a second delivery is recognised; "" if it has none."""


@runtime_checkable
class Inbox(Protocol):
    """A system that hands each message out once, and again if it is not acknowledged."""

    @property
    def name(self) -> str:
        """Name of the stream in messages, without secrets."""
        ...

    def open(self) -> None:
        """Connect; messages that were handed out and not acknowledged come again."""
        ...

    def take(self, most: int, seconds: float) -> list[Received]:
        """Return messages, at most ``most``; wait up to ``seconds`` for the first of them."""
        ...

    def waiting(self) -> int | None:
        """Return how many messages were not taken yet; None if the system does not tell."""
        ...

    def done(self, tokens: Sequence[Any]) -> None:
        """Acknowledge messages: they are on disk, and are not handed out again."""
        ...

    def close(self) -> None:
        """Disconnect; a second call does nothing."""
        ...


@runtime_checkable
class Settling(Protocol):
    """An inbox whose silence does not mean that it is empty: it reconnects by itself, or is slow."""

    def settled(self) -> bool:
        """Return whether every message that the system held was taken; wait for a connection that was lost."""
        ...


@runtime_checkable
class Writer(Protocol):
    """A system that takes rows with numbers, and tells how many it holds.

    Its constructor takes the address and the names and types of the columns. It connects to nothing: a run that cannot
    start must not leave traces.
    """

    @property
    def name(self) -> str:
        """Name of the destination in messages, without secrets."""
        ...

    @property
    def exact(self) -> bool:
        """Whether it tells how many rows it holds, so that each is written exactly once.

        Otherwise rows after the last checkpoint are written a second time after a crash.
        """
        ...

    def open(self) -> int:
        """Connect; return the number of the first row that it lacks, 0 if it holds none or cannot tell."""
        ...

    def write(self, first_row: int, rows: Sequence[Mapping[str, Any]]) -> None:
        """Write consecutive rows; they may be buffered until ``flush``."""
        ...

    def flush(self) -> None:
        """Return when all rows that were written are durable in the system."""
        ...

    def clear(self) -> None:
        """Remove all rows; SourceError if the system does not allow that."""
        ...

    def close(self) -> None:
        """Disconnect; a second call does nothing."""
        ...
