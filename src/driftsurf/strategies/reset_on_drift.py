"""Reset on drift: one model, replaced by a fresh one whenever a detector signals."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np

from driftsurf.base import Detector, Learner, Segment, State
from driftsurf.errors import OptionError
from driftsurf.strategies._pool import DEFAULT_MAX_ROWS
from driftsurf.strategies._single import Single, SingleModel
from driftsurf.strategies._votes import errors

__all__ = ["ResetOnDrift"]


class ResetOnDrift(SingleModel):
    """A drift detector watches the errors of the model; when it signals, a fresh model begins with this batch.

    The paper's MDDM, and DDM, EDDM, ADWIN and FHDDM alike. The detector is fed the errors of a batch row
    by row before the batch is learnt, and runs on across batches. On a signal the rest of the batch is
    not fed, the detector is made anew, and the fresh model learns the batch that gave it. In the first
    batch, which an untrained model predicts, a signal says nothing: the detector begins anew, and goes on.
    Rows without weight are no evidence; they reach the detector as NaN.

    Parameters
    ----------
    learner
        The template of all models. It has to tell classes apart.
    detector
        The template of the detector; one of :mod:`driftsurf.detectors`, or any that meets their contract.
    max_rows, dtype, seed
        As for :class:`driftsurf.strategies.DriftSurf`.

    Examples
    --------
    >>> from driftsurf.base import Batch
    >>> from driftsurf.detectors import MDDM
    >>> from driftsurf.learners import LogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> strategy = ResetOnDrift(LogisticRegression(), MDDM(), seed=1)
    >>> strategy.begin(n_features=2, sparse=False, n_classes=2)
    >>> for step in range(30):  # the labels turn around at step 15
    ...     X = rng.normal(size=(100, 2))
    ...     y = ((X[:, 0] > 0) == (step < 15)).astype(float)
    ...     for transition in strategy.step(Batch(X, y, np.ones(100))).transitions:
    ...         print(transition.describe())
    step 15: MDDM signalled at row 1518: fresh model
    """

    def __init__(
        self,
        learner: Learner,
        detector: Detector,
        *,
        max_rows: int | None = DEFAULT_MAX_ROWS,
        dtype: str = "float64",
        seed: int = 0,
    ) -> None:
        super().__init__(learner, max_rows=max_rows, dtype=dtype, seed=seed)
        self.detector = detector

    def _check(self) -> None:
        if isinstance(self.detector, type) or not all(
            hasattr(self.detector, name) for name in ("fresh", "update", "drift")
        ):
            raise OptionError(f"detector is {self.detector!r}; give one of driftsurf.detectors, such as MDDM()")
        self.detector.check()
        self._check_classes()

    def _memory(self) -> Detector:
        return self.detector.fresh()

    def _watch(self, live: Single, segment: Segment) -> tuple[str, Any]:
        batch = self._pool.samples.view(segment)
        wrong = np.where(batch.weight > 0.0, errors(self._pool.scores(live.model, segment), batch.y), np.nan)
        detector = copy.deepcopy(live.memory)
        consumed = detector.update(wrong)
        if live.step == 0:
            while detector.drift:
                detector = detector.fresh()
                wrong = wrong[consumed:]
                consumed = detector.update(wrong)
        if not detector.drift:
            return "", detector
        why = f"{type(detector).__name__} signalled at row {segment.lo + consumed - 1}"
        return why, detector.fresh()

    @property
    def nbytes(self) -> int:
        """Bytes held for rows, the model and the detector."""
        memory = self._live.memory.state().values()
        return super().nbytes + sum(np.asarray(value).nbytes for value in memory)

    def _memory_state(self, memory: Detector) -> State:
        return memory.state()

    def _memory_from(self, state: Mapping[str, Any]) -> Detector:
        return type(self.detector).from_state(self.detector, state)
