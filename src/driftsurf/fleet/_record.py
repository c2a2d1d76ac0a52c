"""The transitions of all keys: a record beside the models, bounded in memory."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
import numpy.typing as npt

from driftsurf.decisions import Transition, TransitionKind
from driftsurf.fleet._layout import TRANSITION

__all__ = ["KINDS", "LIMIT", "Record"]

KINDS: tuple[TransitionKind, ...] = "entered", "greedy", "switched", "kept"
"""By their numbers in the compiled loops, from 1 on."""
LIMIT = 100_000
FIELDS = tuple(name for name in TRANSITION.names or () if name not in ("slot", "kind"))


class Record:
    """The last ``limit`` transitions, and as many more as make the oldest call whole."""

    def __init__(self, limit: int = LIMIT) -> None:
        self.limit = limit
        self._parts: deque[npt.NDArray[Any]] = deque()
        self._length = 0

    def add(self, transitions: npt.NDArray[Any]) -> None:
        """Those of one call, as the compiled loops give them."""
        if len(transitions):
            self._parts.append(transitions)
            self._length += len(transitions)
        while self._length - len(self._parts[0] if self._parts else ()) >= self.limit:
            self._length -= len(self._parts.popleft())

    def table(self, keys: list[Any]) -> dict[str, npt.NDArray[Any]]:
        """One entry a transition; ``keys`` by slot."""
        entries = np.concatenate([np.empty(0, TRANSITION), *self._parts])
        table: dict[str, npt.NDArray[Any]] = {
            "key": np.array(keys or [0])[entries["slot"]],
            "kind": np.array(KINDS)[entries["kind"] - 1],
        }
        return table | {name: entries[name] for name in FIELDS}

    def of(self, slot: int) -> list[Transition]:
        """Those of one key."""
        found = [entry for part in self._parts for entry in part[part["slot"] == slot].tolist()]
        return [Transition(KINDS[kind - 1], **dict(zip(FIELDS, rest, strict=True))) for _, kind, *rest in found]
