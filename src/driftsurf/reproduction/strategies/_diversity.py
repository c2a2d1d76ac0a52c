"""Diversity of models: Yule's Q of their right and wrong predictions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from driftsurf.core.contracts import Batch, FloatArray
from driftsurf.strategies._votes import row_errors

DIGITS = 12
"""Sums of Q are rounded to this many digits, so that their last bits do not decide which model is removed."""


def right_together(ballots: Sequence[FloatArray], batch: Batch) -> FloatArray:
    """Return the weight of the rows on which both of two models are right; on the diagonal, that of each alone."""
    right = 1.0 - np.array([row_errors(scores, batch.y) for scores in ballots])
    return np.asarray((right * batch.weight) @ right.T)


def yule_q(joint: FloatArray, mass: float) -> FloatArray:
    """Return Q of each pair of models, given what ``right_together`` returned for rows of a total weight.

    With the weights N of the rows on which both (11), one (10, 01) or none (00) of two models is right,
    Q = (N11 N00 - N01 N10) / (N11 N00 + N01 N10). It is 1 for models that are right on the same rows, 0 for independent
    ones and -1 for models that are right on different rows. Where it is not defined, as for two models without a
    mistake, it is 1.

    >>> right = np.array([[1.0, 1.0, 0.0, 0.0], [1.0, 0.0, 1.0, 0.0], [0.0, 0.0, 1.0, 1.0]])
    >>> yule_q(right @ right.T, mass=4.0)
    array([[ 1.,  0., -1.],
           [ 0.,  1.,  0.],
           [-1.,  0.,  1.]])
    """
    own = np.diag(joint)
    only = np.maximum(own[:, None] - joint, 0.0)
    none = np.maximum(mass - own[:, None] - own[None, :] + joint, 0.0)
    agreeing, differing = joint * none, only * only.T
    total = agreeing + differing
    q: FloatArray = np.divide(agreeing - differing, total, out=np.ones_like(total), where=total > 0.0)
    return q


def most_alike(joint: FloatArray, mass: float) -> int:
    """Return the place of the model without which the mean Q of the others is lowest; the first one of a tie.

    >>> right = np.array([[1.0, 1.0, 0.0, 0.0], [1.0, 0.0, 1.0, 0.0], [0.0, 0.0, 1.0, 1.0]])
    >>> most_alike(right @ right.T, mass=4.0)  # the other two differ on every row
    1
    """
    q = yule_q(joint, mass)
    return int(np.argmax(np.round(q.sum(axis=1) - np.diag(q), DIGITS)))
