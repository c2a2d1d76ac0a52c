"""The compiled backend as a fleet uses it: with labels in place of codes."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import numpy.typing as npt

from driftsurf.core.contracts import DenseRows
from driftsurf.core.decisions import Transition
from driftsurf.core.frames import unmasked
from driftsurf.core.state import nest
from driftsurf.core.targets import ClassTargets, RegressionTargets
from driftsurf.core.typing import TargetLike
from driftsurf.errors import DivergenceError, InputError
from driftsurf.kernels.guard import MEMORY
from driftsurf.keyed.backend import Codes
from driftsurf.keyed.compiled.backend import REASON_CODES, CompiledBackend, compiled_models, fleet_shape
from driftsurf.keyed.compiled.threads import Threads
from driftsurf.keyed.compiled.work import PreparedWork
from driftsurf.keyed.keys import Slots
from driftsurf.session.session import Session
from driftsurf.strategies import DriftSurf
from driftsurf.strategies.compiled.suitable import is_supported

__all__ = ["LabelledBackend", "bytes_of_key", "is_compiled"]

MOST_CLASSES = 256
"""Codes of classes are single bytes."""
_NONE_BAD = np.zeros(0, np.uint8)


def is_compiled(template: Session) -> bool:
    """Return whether the compiled backend serves keys that start with this session, whatever columns there are."""
    targets, strategy = template.targets, template.strategy
    if isinstance(targets, ClassTargets) and targets.closed and not 2 <= len(targets.labels) <= MOST_CLASSES:
        return False
    return (
        type(strategy) is DriftSurf
        and strategy.max_rows is not None
        and is_supported(strategy.learner)
        and compiled_models(strategy, 1, targets.n_classes) is not None
    )


def bytes_of_key(template: Session, n_features: int, *, fills: bool = False) -> int:
    """Return the bytes that a key takes in the compiled backend, once it has many rows."""
    strategy, batch_size = template.strategy, template.batch_size
    assert isinstance(strategy, DriftSurf)
    assert batch_size is not None
    guarded = template.guard_factor is not None
    shape = fleet_shape(strategy, n_features, template.targets.n_classes, batch_size, fills=fills, guarded=guarded)
    return shape.bytes_per_key + (8 * MEMORY if guarded else 0)


class LabelledBackend(CompiledBackend):
    """The compiled backend for a closed set of labels, or for numbers.

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
        Whether a label that cannot be learned puts its key in quarantine; if not, it is an error.
    fills
        Whether rows are float64 with NaN for gaps, which are filled with the means of their key.
    """

    def __init__(
        self, template: Session, n_features: int, threads: Threads, *, tolerant: bool, fills: bool = False
    ) -> None:
        targets, strategy = template.targets, template.strategy
        assert isinstance(strategy, DriftSurf)
        assert template.batch_size is not None
        how: Any = {"fills": fills, "guard": template.guard_factor}
        super().__init__(n_features, strategy, targets.n_classes, template.batch_size, threads, **how)
        self._targets = targets
        self._tolerant = tolerant

    def read_labels(self, y: TargetLike, n_rows: int) -> tuple[npt.NDArray[Any], Codes]:
        """Return the codes of labels, or numbers, and the reason why each is bad (empty if none is)."""
        labels = np.asarray(unmasked(y, "y"))
        known = self._targets.labels
        if len(known) == 2 and labels.shape == (n_rows,):  # two comparisons, the usual case
            first, second = labels == known[0], labels == known[1]
            if (first | second).all():
                return second.view(np.uint8), _NONE_BAD
        try:
            return self._targets.read(y, n_rows)[1].astype(self._shape.label_type), _NONE_BAD
        except InputError:
            if not self._tolerant or labels.shape != (n_rows,):
                raise
        codes, unknown = self._found(labels)
        return codes, unknown * np.uint8(REASON_CODES["bad_label"])

    def _found(self, labels: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
        """Return the codes of labels, or numbers, and which of them cannot be learned; these have the code 0."""
        codes, unknown = np.zeros(len(labels), self._shape.label_type), np.ones(len(labels), np.bool_)
        for code, label in enumerate(self._targets.labels):
            own = labels == label
            codes[own], unknown = code, unknown & ~own
        if self._shape.valued:
            for place in range(len(labels)):
                try:
                    codes[place], unknown[place] = self._targets.read(labels[place : place + 1], 1)[1][0], False
                except InputError:
                    continue
        return codes, unknown

    def predicted(self, work: PreparedWork) -> npt.NDArray[Any]:
        """Return the predicted label of each row."""
        return self._targets.decode(work.predicted)

    def faults(self, work: PreparedWork) -> dict[int, Exception]:
        """Return the errors of time steps that failed, by slot."""
        return {int(slot): DivergenceError("training diverged") for slot in work.diverged}

    def predict(self, rows: DenseRows, slots: Slots) -> npt.NDArray[Any]:
        """Return the label that the model of each row's key predicts."""
        return self._targets.decode(self.predicted_codes(rows, slots))

    def journal(self, slot: int) -> list[Transition]:
        """Return the latest transitions of one key."""
        return [one.named(self._targets.labels) for one in super().journal(slot)]

    def session(self, slot: int, fresh: Session) -> Session:
        """Return a session that continues with a copy of the models of one key."""
        fresh.restore(self.session_state(slot) | nest("classes", self._targets_of(slot).state()))
        return fresh

    def _targets_of(self, slot: int) -> ClassTargets | RegressionTargets:
        """Return the labels, or what a key knows about the numbers to predict."""
        targets, known = self._targets, self._store.range[slot]
        if isinstance(targets, RegressionTargets) and len(known):
            return dataclasses.replace(targets, low=float(known[0]), high=float(known[1]))
        return targets
