"""From scores to votes: what ensembles and detectors read in the scores of a model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from driftsurf import _kernels
from driftsurf.base import FloatArray


def labels(scores: FloatArray) -> npt.NDArray[np.int64]:
    """The class codes that scores mean: a margin above 0 is class 1; of log-probabilities the largest."""
    chosen: npt.NDArray[np.int64] = (scores > 0.0).astype(np.int64) if scores.ndim == 1 else scores.argmax(axis=1)
    return chosen


def errors(scores: FloatArray, y: FloatArray) -> FloatArray:
    """1 where the prediction is wrong, else 0."""
    return np.not_equal(labels(scores), y).astype(np.float64)


def true_class_share(scores: FloatArray, y: FloatArray) -> FloatArray:
    """The probability that a model gives to the true class of each row."""
    if scores.ndim == 1:
        shares = np.empty(len(y))
        _kernels.true_class_shares(scores, y, shares)
        return shares
    return np.exp(scores[np.arange(len(y)), y.astype(np.int64)])


def weighted_vote(ballots: Sequence[FloatArray], weights: FloatArray) -> FloatArray:
    """The weighted vote of the models' labels, as scores.

    With two classes, the log-odds of the shares of the vote: above 0 iff class 1 has more than half of
    the weight, and a tie is 0. With more, the logarithms of the shares. Shares are rounded, so that the
    last bits of a sum do not break a tie.
    """
    weights = weights / weights.sum()
    if ballots[0].ndim == 1:
        balance = np.zeros(len(ballots[0]))
        for scores, weight in zip(ballots, weights, strict=True):
            balance += np.where(scores > 0.0, weight, -weight)
        return log_odds(np.round(balance, DIGITS))
    shares = np.zeros_like(ballots[0])
    rows = np.arange(len(shares))
    for scores, weight in zip(ballots, weights, strict=True):
        shares[rows, scores.argmax(axis=1)] += weight
    return np.log(np.clip(np.round(shares, DIGITS), LEAST_SHARE, 1.0))


DIGITS = 12
LEAST_SHARE = 1e-9
"""No vote is so unanimous that the other side is impossible: logarithms stay finite."""


def log_odds(balance: FloatArray) -> FloatArray:
    """log((1 + b) / (1 - b)) of the balance b of a vote between -1 and 1; its sign is exactly that of b."""
    bounded = np.clip(balance, LEAST_SHARE - 1.0, 1.0 - LEAST_SHARE)
    return np.asarray(np.log1p(bounded) - np.log1p(-bounded))
