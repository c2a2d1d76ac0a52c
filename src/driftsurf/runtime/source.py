"""Where the rows of a run come from, and how to go on from any place in them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Protocol, TypeAlias

from driftsurf._options import whole
from driftsurf.base import State
from driftsurf.errors import StateError
from driftsurf.streams.base import Stream

__all__ = ["Position", "Source", "StreamSource"]

Position: TypeAlias = Any
"""A place in a source, as plain values that JSON can hold; None is the beginning."""


class Source(Protocol):
    """Batches of labelled rows, the same ones from any place that was once named."""

    @property
    def labels(self) -> tuple[Any, ...]:
        """The classes."""
        ...

    @property
    def skipped(self) -> int:
        """Rows that were left out and told."""
        ...

    def batches(self, position: Position = None) -> Iterator[tuple[Any, Any, Position]]:
        """Rows, their labels, and the place after them, from ``position`` on."""
        ...

    def bad_rows(self) -> str:
        """Lines of JSON for the rows left out since the last call; to be asked for once a batch is taken."""
        ...

    def state(self) -> State:
        """What it fixed by the first rows, such as how columns are encoded, and counted since."""
        ...

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over what ``state()`` gave."""
        ...


class StreamSource:
    """A built-in stream: made again from its seed, and passed over up to the row where a run goes on.

    Examples
    --------
    >>> from driftsurf.streams import SEA
    >>> source = StreamSource(SEA(n_rows=1_000), batch_size=400)
    >>> [(len(y), place) for _, y, place in source.batches(400)]
    [(400, 800), (200, 1000)]
    """

    skipped = 0

    def __init__(self, stream: Stream, batch_size: int) -> None:
        self.stream = stream
        self.batch_size = whole("batch_size", batch_size, at_least=1)

    @property
    def labels(self) -> tuple[Any, ...]:
        """The classes."""
        return tuple(self.stream.classes)

    def batches(self, position: Position = None) -> Iterator[tuple[Any, Any, Position]]:
        """Rows, their labels, and the number of the row after them."""
        row = 0 if position is None else position
        steps, rest = divmod(row, self.batch_size) if type(row) is int else (0, 1)
        if row == self.stream.n_rows:
            return
        if rest or not 0 <= row < self.stream.n_rows:
            raise StateError(f"row {row!r} is no place between two batches of {self.batch_size} of {self.stream!r}")
        for X, y in islice(self.stream.batches(self.batch_size), steps, None):
            row += len(y)
            yield X, y, row

    def bad_rows(self) -> str:
        """There are none."""
        return ""

    def state(self) -> State:
        """There is none."""
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Nothing to take over."""
