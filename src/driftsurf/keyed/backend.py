"""What a fleet asks of the code that keeps and serves its models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from driftsurf.core.contracts import DenseRows, FloatArray, IntArray, State
from driftsurf.core.decisions import Transition
from driftsurf.core.targets import ClassTargets
from driftsurf.keyed.keys import Slots

__all__ = ["Codes", "FleetBackend", "Work"]

Codes = npt.NDArray[np.uint8]
"""Classes by code, or reasons for quarantine by code."""


class Work(Protocol):
    """The learning of one call of a fleet, prepared by :meth:`FleetBackend.prepare`."""

    @property
    def predicted(self) -> Codes:
        """The predicted class of each row."""
        ...

    @property
    def diverged(self) -> IntArray:
        """The slots in which training diverged."""
        ...


class FleetBackend(Protocol):
    """The models of all keys of a fleet. A key is known by its slot: 0, 1, 2 ... in order of appearance.

    :class:`~driftsurf.keyed.Fleet` reads input and finds slots; a backend predicts and learns. There is one today,
    ``compiled`` (:class:`~driftsurf.keyed.compiled.backend.CompiledBackend`). A backend that keeps a session per key
    for any strategy would implement the same methods.
    """

    @property
    def bytes_per_key(self) -> int:
        """Bytes that a key takes."""
        ...

    @property
    def nbytes(self) -> int:
        """Bytes allocated for keys."""
        ...

    def reserve(self, n_keys: int, *, weighted: bool = False) -> None:
        """Allocate memory for this many keys, so that ``add`` cannot fail; an error changes nothing.

        With ``weighted``, the rows that follow have weights.
        """
        ...

    def add(self, seeds: npt.NDArray[np.uint64]) -> None:
        """Make the first models of new keys, in the next slots."""
        ...

    def truncate(self, n_keys: int) -> None:
        """Remove every key from this slot on, from any point of ``add``."""
        ...

    def prepare(self, rows: DenseRows, codes: Codes, bad: Codes, slots: Slots, weight: FloatArray | None = None) -> Any:
        """Prepare to predict each row with its key's model as it is when the row arrives, then to learn it.

        ``bad`` holds the reason why a row cannot be learned, 0 if it can; it is empty if all rows can. Returns a
        :class:`Work`, for ``learn``; nothing changes before.
        """
        ...

    def learn(self, work: Any) -> None:
        """Carry out prepared work."""
        ...

    def complete(self, work: Any) -> bool:
        """Complete work that an exception broke off; return False, and change nothing, if no row was learned yet.

        If this is broken off, calling it again completes it; on complete work it does nothing.
        """
        ...

    def scores(self, rows: DenseRows, slots: Slots) -> FloatArray:
        """Return the margin of each row by the model that predicts for its key."""
        ...

    def weights(self, slot: int) -> FloatArray:
        """Return the weights that predict a key's next row, the intercept last."""
        ...

    def readmit(self, slots: Slots) -> None:
        """End the quarantine of keys."""
        ...

    def summary(self) -> dict[str, npt.NDArray[Any]]:
        """Return the columns of the table of keys, by slot."""
        ...

    def transitions(self, keys: Sequence[Any]) -> dict[str, npt.NDArray[Any]]:
        """Return the latest transitions of all keys, whose names by slot are ``keys``."""
        ...

    def journal(self, slot: int) -> list[Transition]:
        """Return the latest transitions of one key."""
        ...

    def session_state(self, slot: int, classes: ClassTargets) -> State:
        """Return the state of a session that continues with the models of one key."""
        ...

    def state(self) -> State:
        """Return everything that decides what comes next, except for the seeds of keys."""
        ...

    def restore(self, state: Mapping[str, Any], seeds: npt.NDArray[np.uint64]) -> None:
        """Replace all models by those of ``state()``."""
        ...
