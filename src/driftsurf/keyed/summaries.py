"""The summaries of open keys, in columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from driftsurf.core.contracts import FloatArray, IntArray
from driftsurf.keyed.results import NEVER, Steps
from driftsurf.keyed.summary import KeySummary, chained

__all__ = ["Summaries"]

COUNTS = "rows", "steps", "scored", "errors", "duplicates", "refused", "gaps", "transitions", "bytes"
MARKS = "high_water", "last_transition_at"
TEXTS = "state", "last_transition", "digest"


class Summaries:
    """The summary of each slot, in columns. Keys in quarantine and keys with rows that wait have no slot."""

    def __init__(self) -> None:
        self._columns: dict[str, npt.NDArray[Any]] = {
            **{name: np.zeros(0, np.int64) for name in (*COUNTS, *MARKS)},
            **{name: np.zeros(0, np.object_) for name in TEXTS},
            "deviation": np.zeros(0),
        }

    def grow(self, slots: int) -> None:
        """Make room for more slots."""
        for name, column in self._columns.items():
            more = np.zeros(slots - len(column), column.dtype)
            self._columns[name] = np.concatenate([column, more])

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        return self._columns[name]

    def put(self, slots: Any, summary: KeySummary) -> None:
        """Set the summary of one slot or more."""
        for name, column in self._columns.items():
            value = getattr(summary, name)
            column[slots] = NEVER if value is None else value

    def get(self, slot: int) -> KeySummary:
        """Return the summary of a slot."""
        own = {name: column[slot] for name, column in self._columns.items()}
        own = {name: value if name in TEXTS else value.item() for name, value in own.items()}
        own |= {name: None for name in MARKS if own[name] == NEVER}
        return KeySummary(**own)

    def columns(self, slots: IntArray) -> dict[str, npt.NDArray[Any]]:
        """Return a copy of the summaries of slots."""
        return {name: column[slots] for name, column in self._columns.items()}

    def add(self, slots: IntArray, counts: dict[str, IntArray], high: IntArray, deviation: FloatArray | None) -> None:
        """Add the counts of a call, and set the high-water marks."""
        for name, more in counts.items():
            self._columns[name][slots] += more
        self._columns["high_water"][slots] = high
        if deviation is not None:
            self._columns["deviation"][slots] = deviation

    def add_steps(self, slots: list[int], steps: Steps) -> None:
        """Add time steps; the keys have these slots."""
        own = self._columns
        for group, at, record, kinds, state in zip(*steps, strict=True):
            slot = slots[group]
            own["steps"][slot] += 1
            own["state"][slot] = state
            own["digest"][slot] = chained(own["digest"][slot], (record,))
            if kinds:
                names = kinds.split(",")
                own["transitions"][slot] += len(names)
                own["last_transition"][slot], own["last_transition_at"][slot] = names[-1], at
