"""Cost of a Spark query without learning: a sum over rows, and a state as large as a learner's.

In a module of its own, since workers import it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd
from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor

from benchmarks._state import STATE


class _Trivial(StatefulProcessor):  # type: ignore[misc]
    def init(self, handle: Any) -> None:
        """Start on a worker."""
        self._state = handle.getValueState("state", "bytes binary")

    def close(self) -> None:
        """Close nothing."""


class InRows(_Trivial):
    """Rows of a key arrive one by one."""

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        """Read the state, add up the rows, write the state."""
        self._state.get()
        total = 0.0
        for row in rows:
            total += row["features"][0]
        self._state.update((STATE,))
        yield Row(key=key[0], total=total)


class InFrames(_Trivial):
    """Rows of a key arrive as frames of pandas."""

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:
        """Read the state, add up the rows, write the state."""
        self._state.get()
        total = _total(rows)
        self._state.update((STATE,))
        yield pd.DataFrame({"key": [key[0]], "total": [total]})


def in_groups(key: Any, frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
    """Read the state, add up the rows, and write the state, with the older interface."""
    _ = state.getOption
    total = _total(frames)
    state.update((STATE,))
    yield pd.DataFrame({"key": [key[0]], "total": [total]})


def _total(frames: Iterator[pd.DataFrame]) -> float:
    return sum(float(features[0]) for frame in frames for features in frame["features"])
