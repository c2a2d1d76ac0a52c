"""What a Spark query costs before anything is learnt: a sum over rows, and a state as large as a learner's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor

STATE = bytes(10_000)


class Trivial(StatefulProcessor):  # type: ignore[misc]
    """In a module of its own, since workers import it."""

    def init(self, handle: Any) -> None:
        """Begin on a worker."""
        self._state = handle.getValueState("state", "bytes binary")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        """Read the state, add up the rows, write the state."""
        self._state.get()
        total = 0.0
        for row in rows:
            total += row["features"][0]
        self._state.update((STATE,))
        yield Row(key=key[0], total=total)

    def close(self) -> None:
        """Nothing is held."""
