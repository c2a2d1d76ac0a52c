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
    """1 where the predicted class is wrong, else 0."""
    return np.not_equal(labels(scores), y).astype(np.float64)


def true_class_share(scores: FloatArray, y: FloatArray) -> FloatArray:
    """The probability that a model gives to the true class of each row."""
    if scores.ndim == 1:
        shares = np.empty(len(y))
        _kernels.true_class_shares(scores, y, shares)
        return shares
    return np.exp(scores[np.arange(len(y)), y.astype(np.int64)])


def squared_errors(ballots: Sequence[FloatArray], y: FloatArray, values: bool) -> FloatArray:
    """(1 - p)^2, p the probability of the true class, of each model (a row) and row; of values, the squared error."""
    if values:
        return np.square(np.asarray(ballots) - y)
    if ballots[0].ndim == 1:
        margins = np.asarray(ballots)
        shares = true_class_share(margins.reshape(-1), repeated(y, len(margins))).reshape(margins.shape)
    else:
        shares = np.array([true_class_share(scores, y) for scores in ballots])
    return np.square(1.0 - shares)


def repeated(y: FloatArray, times: int) -> FloatArray:
    """The targets once for each of several models: what a row gets depends on its score, not on whose it is."""
    return np.concatenate([y] * times)


def weighted_vote(ballots: Sequence[FloatArray], weights: FloatArray, values: bool = False) -> FloatArray:
    """The weighted vote of the models' labels, as scores; of values, their weighted mean.

    With two classes, the log-odds of the shares of the vote: above 0 iff class 1 has more than half of
    the weight, and a tie is 0. With more, the logarithms of the shares. Shares are rounded, so that the
    last bits of a sum do not break a tie.
    """
    weights = weights / weights.sum()
    if values:
        mean = np.zeros_like(ballots[0])
        for scores, weight in zip(ballots, weights, strict=True):  # numpy's sum of one row would add in another order
            mean += scores * weight
        return mean
    if ballots[0].ndim == 1:
        balance = np.empty(len(ballots[0]))
        _kernels.balance_of_votes(np.asarray(ballots), weights, balance)
        return log_odds(np.round(balance, DIGITS))
    shares = np.zeros_like(ballots[0])
    rows = np.arange(len(shares))
    for scores, weight in zip(ballots, weights, strict=True):
        shares[rows, scores.argmax(axis=1)] += weight
    return np.log(np.clip(np.round(shares, DIGITS), LEAST_SHARE, 1.0))


def undecided(scores: FloatArray) -> FloatArray:
    """Scores of the same shape that speak for nothing: 0, or equal shares."""
    return np.zeros_like(scores) if scores.ndim == 1 else np.full_like(scores, -np.log(scores.shape[1]))


DIGITS = 12
LEAST_SHARE = 1e-9
"""No vote is so unanimous that the other side is impossible: logarithms stay finite."""


def log_odds(balance: FloatArray) -> FloatArray:
    """log((1 + b) / (1 - b)) of the balance b of a vote between -1 and 1; its sign is exactly that of b."""
    bounded = np.minimum(np.maximum(balance, LEAST_SHARE - 1.0), 1.0 - LEAST_SHARE)  # in half the time of np.clip
    return np.asarray(np.log1p(bounded) - np.log1p(-bounded))
