"""Drift detectors that watch the errors of a strategy's model."""

from __future__ import annotations

import copy

import numpy as np

from driftsurf.core.contracts import Batch, Detector, FloatArray
from driftsurf.strategies._votes import row_errors


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
