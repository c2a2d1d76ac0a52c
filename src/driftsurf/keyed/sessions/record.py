"""The transitions of all keys of a fleet of sessions: a bounded record beside the models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from driftsurf.core.decisions import Transition
from driftsurf.keyed.record import FIELDS, TransitionRecord

__all__ = ["SessionsRecord"]

REALS = "left", "right", "margin"


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
            table[name] = np.array(values, np.float64 if name in REALS else np.int64)
        return table

    def of_slot(self, slot: int) -> list[Transition]:
        """Return the transitions of one key."""
        return [one for own, one in self._entries() if own == slot]
