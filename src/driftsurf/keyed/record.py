"""The transitions of all keys: a bounded record beside the models."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from driftsurf.core.contracts import FloatArray, IntArray
from driftsurf.core.decisions import Transition
from driftsurf.strategies import _cell_outcome as outcomes
from driftsurf.strategies._cell_arrays import ENTERED
from driftsurf.strategies._cell_outcome import KINDS

__all__ = ["LIMIT", "TRANSITION", "SessionsRecord", "TransitionRecord", "as_entries", "transitions_of"]

LIMIT = 100_000
TRANSITION = np.dtype(
    [
        ("slot", np.int64),
        ("kind", np.int64),
        ("step", np.int64),
        ("condition", np.int64),
        ("left", np.float64),
        ("right", np.float64),
        ("margin", np.float64),
        ("over", np.int64),
        ("old", np.int64),
        ("new", np.int64),
        ("absent", np.int64),
    ],
    align=True,
)
FIELDS = tuple(name for name in TRANSITION.names or () if name not in ("slot", "kind"))
_NUMBERS = "kind", "over", "old", "new", "absent"
_RISKS = "left", "right", "margin"


def transitions_of(slots: IntArray, steps: IntArray, whole: IntArray, real: FloatArray) -> npt.NDArray[Any]:
    """Return the transitions of time steps, given the outcome of each as it is in a log."""
    counts = whole[:, outcomes.TRANSITIONS]
    owner = np.repeat(np.arange(len(counts)), counts)
    number = np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)
    made = np.empty(len(owner), TRANSITION)
    made["slot"], made["step"] = slots[owner], steps[owner]
    for place, name in enumerate(_NUMBERS):
        made[name] = whole[owner, outcomes.TRANSITION + number * outcomes.TRANSITION_SIZE + place]
    for place, name in enumerate(_RISKS):
        made[name] = real[owner, outcomes.COMPARISON + number * outcomes.COMPARED + place]
    made["condition"] = np.where(made["kind"] == ENTERED, whole[owner, outcomes.CONDITION], 0)
    return made


def as_entries(entries: npt.NDArray[Any], others: Sequence[tuple[int, Transition]]) -> npt.NDArray[Any]:
    """Return the transitions of one call, by slot: those of cells, and others with their slots."""
    if not others:
        return entries if len(entries) else np.empty(0, TRANSITION)
    made = np.empty(len(others), TRANSITION)
    for place, (slot, one) in enumerate(others):
        made[place]["slot"], made[place]["kind"] = slot, KINDS.index(one.kind)
        for name in FIELDS:
            value = getattr(one, name)
            made[place][name] = np.nan if value is None else value
    joined = np.concatenate([entries, made]) if len(entries) else made
    return joined[np.argsort(joined["slot"], kind="stable")]


class TransitionRecord:
    """The last ``limit`` transitions, and those of the same call as the oldest of them."""

    def __init__(self, limit: int = LIMIT) -> None:
        self.limit = limit
        self._calls: deque[tuple[int, Any]] = deque()
        """The transitions of each call, and the number of all transitions up to them."""

    def add(self, transitions: npt.NDArray[Any] | Sequence[Any]) -> None:
        """Add the transitions of one call, as the loop gives them; those of the last call are not added twice.

        So a call that was broken off is recorded completely by calling this again.
        """
        calls = self._calls
        total, last = calls[-1] if calls else (0, None)
        if len(transitions) and last is not transitions:
            total += len(transitions)
            calls.append((total, transitions))
        while calls and total - calls[0][0] >= self.limit:
            calls.popleft()

    def table(self, keys: Sequence[Any]) -> dict[str, npt.NDArray[Any]]:
        """Return columns with one entry per transition; ``keys`` are the names by slot."""
        entries = np.concatenate([np.empty(0, TRANSITION), *(call for _, call in self._calls)])
        table: dict[str, npt.NDArray[Any]] = {
            "key": np.array(keys or [0])[entries["slot"]],
            "kind": np.array(KINDS)[entries["kind"]],
        }
        return table | {name: entries[name] for name in FIELDS}

    def of_slot(self, slot: int) -> list[Transition]:
        """Return the transitions of one key."""
        found = [entry for _, call in self._calls for entry in call[call["slot"] == slot].tolist()]
        return [Transition(KINDS[kind], **dict(zip(FIELDS, rest, strict=True))) for _, kind, *rest in found]


class SessionsRecord(TransitionRecord):
    """The last ``limit`` transitions of any strategy; those of a call are a list of slots and transitions."""

    def _entries(self) -> list[tuple[int, Transition]]:
        return [entry for _, call in self._calls for entry in call]

    def table(self, keys: Sequence[Any]) -> dict[str, npt.NDArray[Any]]:
        """Return columns with one entry per transition; ``keys`` are the names by slot."""
        found = self._entries()
        slots = np.array([slot for slot, _ in found], np.int64)
        table: dict[str, npt.NDArray[Any]] = {
            "key": np.array(keys or [0])[slots],
            "kind": np.array([one.kind for _, one in found], "U8"),
        }
        for name in FIELDS:  # a risk that was not computed is None, and becomes NaN
            values = [getattr(one, name) for _, one in found]
            table[name] = np.array(values, np.float64 if name in _RISKS else np.int64)
        return table

    def of_slot(self, slot: int) -> list[Transition]:
        """Return the transitions of one key."""
        return [one for own, one in self._entries() if own == slot]
