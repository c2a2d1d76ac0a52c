"""The rows of several keys in one call, and the time steps that they complete."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from driftsurf.core.contracts import FloatArray, IntArray
from driftsurf.core.decisions import Decision
from driftsurf.core.journal import json_lines
from driftsurf.keyed.rows import KeyRows
from driftsurf.keyed.summary import KeySummary

__all__ = ["Gathered", "Steps"]


@dataclass(slots=True)
class Steps:
    """The time steps of a key in one call."""

    at: list[int]
    records: list[str]
    kinds: list[str]
    next: int
    """The number of the next time step."""
    transitions: int = 0
    last: tuple[str, int] | None = None
    state: str = ""

    def add(self, at: int, decision: Decision) -> None:
        """Add a time step that ended with the row ``at``."""
        self.at.append(at)
        self.records.append("".join(json_lines([decision])))
        self.kinds.append(",".join(one.kind for one in decision.transitions))
        self.next += 1
        self.state = decision.state
        for one in decision.transitions:
            self.transitions += 1
            self.last = one.kind, at
            if one.kind in ("switched", "kept"):
                self.state = "stable"

    def add_line(self, at: int, line: str, state: str) -> None:
        """Add a time step without transitions, whose record is written already."""
        self.at.append(at)
        self.records.append(line)
        self.kinds.append("")
        self.next += 1
        self.state = state

    def changes(self, summary: KeySummary) -> dict[str, Any]:
        """Return what these steps change in the summary of the key."""
        if not self.records:
            return {}
        changes: dict[str, Any] = {"steps": self.next, "state": self.state}
        if self.last is not None:
            changes["last_transition"], changes["last_transition_at"] = self.last
            changes["transitions"] = summary.transitions + self.transitions
        return changes


class Gathered(NamedTuple):
    """The rows of several keys, one key after the other."""

    sequence: IntArray
    X: FloatArray
    y: list[Any]
    starts: IntArray

    @classmethod
    def of(cls, keys: Sequence[Any], rows: Sequence[KeyRows]) -> Gathered:
        """Return the rows of keys in this order."""
        starts = np.zeros(len(rows) + 1, np.int64)
        np.cumsum([len(own) for own in rows], out=starts[1:])
        y: list[Any] = []
        for own in rows:
            y += own.y
        sequence = np.concatenate([own.sequence for own in rows]) if rows else np.zeros(0, np.int64)
        X = np.concatenate([own.X for own in rows]) if rows else np.zeros((0, 0))
        return cls(sequence, np.ascontiguousarray(X, np.float64), y, starts)

    def in_order(self, high: IntArray) -> npt.NDArray[np.bool_]:
        """Return for each key whether all of its rows are new and in order; ``high`` are the high-water marks."""
        n = len(high)
        sizes = np.diff(self.starts)
        if self.sequence.dtype != np.int64:
            return np.zeros(n, np.bool_)
        grows = np.ones(len(self.sequence), np.bool_)
        grows[1:] = self.sequence[1:] > self.sequence[:-1]
        heads = self.starts[:-1][sizes > 0]
        grows[heads] = self.sequence[heads] > high[sizes > 0]
        bad = np.bincount(np.repeat(np.arange(n), sizes)[~grows], minlength=n)
        good: npt.NDArray[np.bool_] = (bad == 0) & (sizes > 0)
        return good

    def places_of(self, chosen: IntArray) -> tuple[IntArray, IntArray]:
        """Return the rows of some keys, key by key, and where those of each start."""
        sizes = np.diff(self.starts)[chosen]
        starts = np.zeros(len(chosen) + 1, np.int64)
        np.cumsum(sizes, out=starts[1:])
        order = np.arange(starts[-1]) + np.repeat(self.starts[:-1][chosen] - starts[:-1], sizes)
        return order, starts
