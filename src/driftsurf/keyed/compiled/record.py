"""The transitions of all keys: a bounded record beside the models."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from driftsurf.core.decisions import Transition, TransitionKind
from driftsurf.keyed.compiled.layout import TRANSITION

__all__ = ["KINDS", "LIMIT", "TransitionRecord"]

KINDS: tuple[TransitionKind, ...] = "entered", "greedy", "switched", "kept"
"""By their codes in the compiled loops, from 1 on."""
LIMIT = 100_000
FIELDS = tuple(name for name in TRANSITION.names or () if name not in ("slot", "kind"))


class TransitionRecord:
    """The last ``limit`` transitions, and those of the same call as the oldest of them."""

    def __init__(self, limit: int = LIMIT) -> None:
        self.limit = limit
        self._calls: deque[npt.NDArray[Any]] = deque()
        self._length = 0

    def add(self, transitions: npt.NDArray[Any]) -> None:
        """Add the transitions of one call, as the compiled loops give them."""
        if len(transitions):
            self._calls.append(transitions)
            self._length += len(transitions)
        while self._length - len(self._calls[0] if self._calls else ()) >= self.limit:
            self._length -= len(self._calls.popleft())

    def table(self, keys: Sequence[Any]) -> dict[str, npt.NDArray[Any]]:
        """Return columns with one entry per transition; ``keys`` are the names by slot."""
        entries = np.concatenate([np.empty(0, TRANSITION), *self._calls])
        table: dict[str, npt.NDArray[Any]] = {
            "key": np.array(keys or [0])[entries["slot"]],
            "kind": np.array(KINDS)[entries["kind"] - 1],
        }
        return table | {name: entries[name] for name in FIELDS}

    def of_slot(self, slot: int) -> list[Transition]:
        """Return the transitions of one key."""
        found = [entry for call in self._calls for entry in call[call["slot"] == slot].tolist()]
        return [Transition(KINDS[kind - 1], **dict(zip(FIELDS, rest, strict=True))) for _, kind, *rest in found]
