"""Reset on drift: one model that is replaced by a fresh one whenever a detector signals."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from driftsurf.core.abilities import check_contract
from driftsurf.core.contracts import Batch, Detector, FloatArray, Learner, State
from driftsurf.registry import CLASSIFICATION, register
from driftsurf.strategies._pool import DEFAULT_MAX_ROWS
from driftsurf.strategies._single import SingleModel
from driftsurf.strategies._votes import row_errors


@register(
    "strategy", "reset-on-drift", title="Reset on drift", tasks=CLASSIFICATION, needs={"detector"}, family="detector"
)
class ResetOnDrift(SingleModel):
    """One model, which a fresh one replaces when a drift detector signals on its errors.

    This is the paper's MDDM, and likewise DDM, EDDM, ADWIN and FHDDM. Before a batch is learned, its errors are fed to
    the detector row by row; the detector continues across batches. On a signal, the rest of the batch is not fed, a
    fresh detector takes over, and a fresh model learns the batch. In the first batch, which an untrained model
    predicts, a signal means nothing: the detector is replaced and fed with the rest. Rows without weight are no
    evidence and reach the detector as NaN.

    Parameters
    ----------
    learner
        Template of all models. It must be a classifier.
    detector
        Template of the detector: one of :mod:`driftsurf.detectors`, or any object that implements
        :class:`driftsurf.core.contracts.Detector`.
    max_rows, dtype, seed
        As for :class:`driftsurf.strategies.DriftSurf`.

    Examples
    --------
    >>> import numpy as np
    >>> from driftsurf.core.contracts import Batch
    >>> from driftsurf.detectors import MDDM
    >>> from driftsurf.learners import LogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> strategy = ResetOnDrift(LogisticRegression(), MDDM(), seed=1)
    >>> strategy.begin(n_features=2, sparse=False, n_classes=2)
    >>> for step in range(30):  # the labels are inverted from step 15 on
    ...     X = rng.normal(size=(100, 2))
    ...     y = ((X[:, 0] > 0) == (step < 15)).astype(float)
    ...     for transition in strategy.step(Batch(X, y, np.ones(100))).transitions:
    ...         print(transition.describe())
    step 15: MDDM signalled at row 1518: started a fresh model
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
        check_contract(self.detector, Detector, "detector", "one of driftsurf.detectors, such as MDDM()")
        self.detector.check()
        self._require_classes()

    def first_memory(self) -> Detector:
        """Return a fresh detector."""
        return self.detector.fresh()

    def watch(self, step: int, memory: Any, batch: Batch, scores: Callable[[], FloatArray]) -> tuple[str, Any]:
        """Feed the errors of a batch to the detector; return what it signalled, and the detector that continues."""
        return watched(memory, scores(), batch, first=step == 0)

    @property
    def nbytes(self) -> int:
        """Bytes held for rows, model and detector."""
        memory = self._stored_live.memory.state().values()
        return super().nbytes + sum(np.asarray(value).nbytes for value in memory)

    def memory_state(self, memory: Detector) -> State:
        """Return the state of the detector."""
        return memory.state()

    def memory_from(self, state: Mapping[str, Any]) -> Detector:
        """Return the saved detector."""
        return type(self.detector).from_state(self.detector, state)


def watched(detector: Detector, scores: FloatArray, batch: Batch, *, first: bool) -> tuple[str, Detector]:
    """Feed the errors of a batch to a copy of a detector, up to the first signal.

    Return why a drift is signalled ("": it is not), and the detector that continues: a fresh one after a signal. In the
    ``first`` batch of a stream, which an untrained model predicts, a signal means nothing: the detector is replaced and
    fed with the rest. Rows without weight are no evidence and reach the detector as NaN.
    """
    wrong = np.where(batch.weight > 0.0, row_errors(scores, batch.y), np.nan)
    detector = copy.deepcopy(detector)
    found = detector.update(wrong)
    if first:
        while found:
            detector = detector.fresh()
            wrong = wrong[found.consumed :]
            found = detector.update(wrong)
    if not found:
        return "", detector
    return f"{type(detector).__name__} signalled at row {batch.first_row + found.consumed - 1}", detector.fresh()
