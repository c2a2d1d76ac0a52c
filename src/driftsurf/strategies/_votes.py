"""Scores of several models for the same rows, and votes from them: labels, errors and shares of the classes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from driftsurf.core import numeric
from driftsurf.core.abilities import JointlyScored, abilities_of
from driftsurf.core.contracts import FloatArray, Learner, Rows
from driftsurf.native import maths
from driftsurf.native.experts import balance_of_votes, true_class_shares

DIGITS = 12
"""Shares of a vote are rounded to this many digits, so that the last bits of a sum do not break a tie."""
LEAST_SHARE = 1e-9
"""Smallest share of a class, which keeps logarithms finite when a vote is unanimous."""


def labels(scores: FloatArray) -> npt.NDArray[np.int64]:
    """Return predicted class codes: a margin above 0 is class 1; otherwise the largest log-probability."""
    chosen: npt.NDArray[np.int64] = (scores > 0.0).astype(np.int64) if scores.ndim == 1 else scores.argmax(axis=1)
    return chosen


def labels_of_all(ballots: Sequence[FloatArray]) -> npt.NDArray[np.int64]:
    """Return the class codes that each of several models predicts: a row for each."""
    if ballots[0].ndim == 1:
        return (np.asarray(ballots) > 0.0).astype(np.int64)
    return np.array([labels(scores) for scores in ballots])


def row_errors(scores: FloatArray, y: FloatArray) -> FloatArray:
    """Return 1 for each row whose predicted class is wrong, else 0, for any number of classes.

    Parameters
    ----------
    scores
        Margins (n,) of the class with code 1, or log-probabilities (n, K), as learners return them.
    y
        True class codes.

    Examples
    --------
    >>> import numpy as np
    >>> row_errors(np.array([-1.5, 0.5]), np.array([0.0, 0.0]))
    array([0., 1.])
    >>> row_errors(np.log([[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]]), np.array([2.0, 1.0]))
    array([0., 1.])
    """
    return np.not_equal(labels(scores), y).astype(np.float64)


def true_class_share(scores: FloatArray, y: FloatArray) -> FloatArray:
    """Return the probability that a model gives to the true class of each row."""
    if scores.ndim == 1:
        return true_class_shares(scores, y)
    return numeric.exp(scores[np.arange(len(y)), y.astype(np.int64)])


def squared_errors(ballots: Sequence[FloatArray], y: FloatArray, regression: bool) -> FloatArray:
    """Return the squared error of each model (a row) on each row of a batch.

    For classes it is (1 - p)^2, where p is the probability of the true class.
    """
    if regression:
        return np.square(np.asarray(ballots) - y)
    return np.square(1.0 - np.array([true_class_share(scores, y) for scores in ballots]))


def repeated(y: FloatArray, times: int) -> FloatArray:
    """Return the targets once for each of several models, to evaluate the scores of all models in one call."""
    copies = np.empty((times, len(y)))
    copies[:] = y  # six times as fast as ``np.concatenate``
    return copies.reshape(-1)


def weighted_vote(ballots: Sequence[FloatArray], weights: FloatArray, regression: bool = False) -> FloatArray:
    """Return the weighted vote of the models' labels as scores; for regression, the weighted mean.

    With two classes, scores are the log-odds of the shares of the vote: above 0 iff class 1 has more than half of the
    weight, and 0 for a tie. With more classes, they are the logarithms of the shares.
    """
    weights = weights / weights.sum()
    if regression:
        mean = np.zeros_like(ballots[0])
        # One by one: numpy adds several rows at once in another order than one row, which changes the last bits.
        for scores, weight in zip(ballots, weights, strict=True):
            mean += scores * weight
        return mean
    if ballots[0].ndim == 1:
        return log_odds(np.round(balance_of_votes(np.asarray(ballots), weights), DIGITS))
    shares = np.zeros_like(ballots[0])
    rows = np.arange(len(shares))
    for scores, weight in zip(ballots, weights, strict=True):
        shares[rows, scores.argmax(axis=1)] += weight
    return numeric.log(np.clip(np.round(shares, DIGITS), LEAST_SHARE, 1.0))


def undecided(scores: FloatArray) -> FloatArray:
    """Return scores of the same shape that favour no class: 0, or equal log-probabilities."""
    return np.zeros_like(scores) if scores.ndim == 1 else np.full_like(scores, -maths.log(scores.shape[1]))


def log_odds(balance: FloatArray) -> FloatArray:
    """Return log((1 + b) / (1 - b)) of the balance b of a vote, between -1 and 1; the sign is exactly that of b."""
    bounded = np.minimum(np.maximum(balance, LEAST_SHARE - 1.0), 1.0 - LEAST_SHARE)  # twice as fast as np.clip
    return numeric.log1p(bounded) - numeric.log1p(-bounded)


JointScorer = Callable[[Rows], Sequence[FloatArray]]


def joint_scorer(learners: Iterable[Learner]) -> JointScorer:
    """Return a function that scores rows with each model as it is now, in order."""
    models = list(learners)
    kinds = {type(model) for model in models}
    if len(kinds) == 1 and JointlyScored in abilities_of(models[0]):
        kind: Any = kinds.pop()
        scorer: JointScorer = kind.joint_scorer(models)
        return scorer
    return functools.partial(_one_by_one, [model.scorer() for model in models])


def _one_by_one(scorers: list[Callable[[Rows], FloatArray]], X: Rows) -> list[FloatArray]:
    return [scorer(X) for scorer in scorers]
