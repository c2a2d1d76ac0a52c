"""The compiled backend as a fleet uses it: with labels in place of codes."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from driftsurf.core.contracts import DenseRows
from driftsurf.core.decisions import Transition
from driftsurf.core.frames import unmasked
from driftsurf.core.targets import ClassTargets
from driftsurf.core.typing import TargetLike
from driftsurf.errors import DivergenceError
from driftsurf.keyed.backend import Codes
from driftsurf.keyed.compiled.backend import REASON_CODES, CompiledBackend, compiled_options, fleet_shape
from driftsurf.keyed.compiled.threads import Threads
from driftsurf.keyed.compiled.work import PreparedWork
from driftsurf.keyed.keys import Slots
from driftsurf.session.session import Session
from driftsurf.strategies import DriftSurf

__all__ = ["LabelledBackend", "bytes_of_key", "is_compiled"]


def is_compiled(template: Session) -> bool:
    """Return whether the compiled backend serves keys that start with this session, whatever columns there are."""
    targets, strategy = template.targets, template.strategy
    return (
        isinstance(targets, ClassTargets)
        and targets.closed
        and len(targets.labels) == 2
        and template.guard_factor is None
        and type(strategy) is DriftSurf
        and strategy.max_rows is not None
        and compiled_options(strategy, 1) is not None
    )


def bytes_of_key(template: Session, n_features: int) -> int:
    """Return the bytes that a key takes in the compiled backend."""
    strategy, batch_size = template.strategy, template.batch_size
    assert isinstance(strategy, DriftSurf)
    assert batch_size is not None
    return fleet_shape(strategy, n_features, batch_size).bytes_per_key


class LabelledBackend(CompiledBackend):
    """The compiled backend for a closed set of two labels.

    Implements :class:`~driftsurf.keyed.backend.FleetBackend`.

    Parameters
    ----------
    template
        What a key starts with, for which ``is_compiled`` is true; keys differ only in the seed.
    n_features
        Columns of every row.
    threads
        Threads to use.
    tolerant
        Whether an unknown label puts its key in quarantine; if not, it is an error.
    """

    def __init__(self, template: Session, n_features: int, threads: Threads, *, tolerant: bool) -> None:
        targets, strategy = template.targets, template.strategy
        assert isinstance(targets, ClassTargets)
        assert isinstance(strategy, DriftSurf)
        assert template.batch_size is not None
        super().__init__(n_features, strategy, template.batch_size, threads)
        self._targets = targets
        self._tolerant = tolerant

    def read_labels(self, y: TargetLike, n_rows: int) -> tuple[Codes, Codes]:
        """Return the codes of labels, and the reason why each is bad (empty if none is)."""
        bad = np.zeros(0, np.uint8)
        first, second = self._targets.labels
        labels = np.asarray(unmasked(y, "y"))
        if labels.shape == (n_rows,):
            positive = labels == second
            unknown = ~(positive | (labels == first))
            if not unknown.any():
                return positive.astype(np.uint8), bad
            if self._tolerant:
                return positive.astype(np.uint8), unknown * np.uint8(REASON_CODES["bad_label"])
        return self._targets.read(y, n_rows)[1].astype(np.uint8), bad

    def predicted(self, work: PreparedWork) -> npt.NDArray[Any]:
        """Return the predicted label of each row."""
        labels: npt.NDArray[Any] = self._targets.array[work.predicted]
        return labels

    def faults(self, work: PreparedWork) -> dict[int, Exception]:
        """Return the errors of time steps that failed, by slot."""
        return {int(slot): DivergenceError("training diverged") for slot in work.diverged}

    def predict(self, rows: DenseRows, slots: Slots) -> npt.NDArray[Any]:
        """Return the label that the model of each row's key predicts."""
        labels: npt.NDArray[Any] = self._targets.array[(self.scores(rows, slots) > 0.0).astype(np.int64)]
        return labels

    def journal(self, slot: int) -> list[Transition]:
        """Return the latest transitions of one key."""
        return [one.named(self._targets.labels) for one in super().journal(slot)]

    def session(self, slot: int, fresh: Session) -> Session:
        """Return a session that continues with a copy of the models of one key."""
        fresh.restore(self.session_state(slot, self._targets))
        return fresh
