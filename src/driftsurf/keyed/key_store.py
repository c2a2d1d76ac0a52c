"""What a fleet asks of the code that keeps and serves its models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from driftsurf.core.contracts import DenseRows, FloatArray, State
from driftsurf.core.decisions import Transition
from driftsurf.core.fields import Array
from driftsurf.core.typing import TargetLike
from driftsurf.keyed.keys import Slots
from driftsurf.keyed.quarantine import Reason
from driftsurf.session.session import Session

__all__ = ["MEANS", "REASONS", "Codes", "KeyStore"]

Codes = npt.NDArray[np.uint8]
"""Classes by code, or reasons for quarantine by code."""
REASONS: tuple[Reason, ...] = "", "not_finite", "bad_label", "diverged", "continuous_label"
"""Reasons for quarantine by their codes, which ``native/store.pyx`` knows too."""


MEANS = Array(np.float64, ("n_keys", 2, "n_features"), missing=True)
"""Saved numbers and sums of the values of each column, where gaps are filled; the sums may have overflowed."""


class KeyStore(Protocol):
    """The models of all keys of a fleet. A key is known by its slot: 0, 1, 2 ... in order of appearance.

    :class:`~driftsurf.keyed.Fleet` reads rows and finds slots; a backend reads labels, predicts and learns. There are
    three: :class:`~driftsurf.keyed.cell_store.CellStore` serves DriftSurf around a linear learner in one native loop,
    :class:`~driftsurf.keyed.growing_store.GrowingStore` the same with classes that are not named, and
    :class:`~driftsurf.keyed.session_store.SessionStore` any model.
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

    def read_labels(self, y: TargetLike, n_rows: int) -> tuple[Any, Codes]:
        """Return labels as ``prepare`` takes them, and the reason why each cannot be learned, by code.

        The reasons are empty if there are none, or if ``prepare`` will find them.
        """
        ...

    def prepare(self, rows: DenseRows, labels: Any, bad: Codes, slots: Slots, weight: FloatArray | None = None) -> Any:
        """Prepare to predict each row with its key's model as it is when the row arrives, then to learn it.

        ``bad`` holds the reason why a row cannot be learned, 0 if it can; it is empty if all rows can. Returns the
        work, for ``learn``; nothing changes before. An error changes nothing.
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

    def predicted(self, work: Any) -> npt.NDArray[Any]:
        """Return the predicted label of each row of complete work."""
        ...

    def faults(self, work: Any) -> dict[int, Exception]:
        """Return why time steps of complete work failed, by slot; these keys are in quarantine."""
        ...

    def predict(self, rows: DenseRows, slots: Slots) -> npt.NDArray[Any]:
        """Return the label, or number, that the model of each row's key predicts."""
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

    def session(self, slot: int, fresh: Session) -> Session:
        """Return a session that continues with a copy of the models of one key.

        ``fresh`` is the session that this key began with; a backend may change and return it.
        """
        ...

    def state(self) -> State:
        """Return everything that decides what comes next, except for the seeds of keys."""
        ...

    def restore(self, state: Mapping[str, Any], seeds: npt.NDArray[np.uint64]) -> None:
        """Replace all models by those of ``state()``."""
        ...
