"""Predictions that were made before their rows were learned: their losses, and the last ones in memory."""

from __future__ import annotations

import itertools
from collections import deque
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from driftsurf.core.contracts import FloatArray

__all__ = ["RecentPredictions", "log_losses"]

LEAST_PROBABILITY = 1e-15
"""Smallest probability in log loss, which keeps it finite."""
MOST_ROWS = 100_000
"""Number of predicted rows that are held in memory: 3.2 MB."""
MOST_CALLS = 1_000
"""Number of calls whose predictions are held apart; smaller calls are joined to one table."""


def log_losses(scores: FloatArray, true: npt.NDArray[Any]) -> FloatArray:
    """Return -log p(true class) of each row, with p of at least 1e-15.

    ``scores`` are log-odds (n,) of the class with code 1, or log-probabilities (n, K) by code.

    >>> log_losses(np.log([[0.2, 0.8], [0.5, 0.5]]), np.array([1, 0])).round(2)
    array([0.22, 0.69])
    """
    if scores.ndim == 1:
        return np.logaddexp(0.0, np.where(true == 1, -scores, scores))
    logs = scores[np.arange(len(true)), true]
    return np.asarray(-np.maximum(logs, np.log(LEAST_PROBABILITY)))


class _Call(NamedTuple):
    """Predictions of one call."""

    next_row: int
    true: npt.NDArray[Any]
    predicted: npt.NDArray[Any]
    scores: FloatArray | None

    @property
    def kind(self) -> object:
        """Calls of the same kind have scores that can be joined."""
        return None if self.scores is None else self.scores.shape[1:]


class RecentPredictions:
    """The last predictions that were made before their rows were learned, up to ``limit`` rows.

    Adding a call costs next to nothing: numbers are put together, and losses computed, when somebody asks.

    Examples
    --------
    >>> recent = RecentPredictions(limit=3)
    >>> for row in (0, 2):
    ...     recent.add(row + 2, np.array([1, 0]), np.array([1, 1]), np.array([0.1, 0.9]))
    >>> recent.table()["row"].tolist()
    [1.0, 2.0, 3.0]
    """

    def __init__(self, limit: int = MOST_ROWS) -> None:
        self.limit = limit
        self._joined: FloatArray = np.zeros((4, 0))
        self._calls: deque[_Call] = deque()
        self._waiting = 0
        """Number of rows in the calls."""

    def add(
        self, next_row: int, true: npt.NDArray[Any], predicted: npt.NDArray[Any], scores: FloatArray | None
    ) -> None:
        """Add the rows before ``next_row``: codes of classes, or numbers, and scores if they are probabilities."""
        calls = self._calls
        calls.append(_Call(next_row, true, predicted, scores))
        self._waiting += len(true)
        while self._waiting - len(calls[0].true) >= self.limit:  # the later calls are enough
            self._waiting -= len(calls.popleft().true)
        if len(calls) >= MOST_CALLS:
            self._join()

    def __reduce__(self) -> tuple[type[RecentPredictions], tuple[int]]:
        """Leave the predictions out of pickles and copies."""
        return type(self), (self.limit,)

    def table(self) -> dict[str, FloatArray]:
        """Return the columns ``row`` (its number), ``true``, ``predicted`` and ``log_loss``, oldest row first."""
        self._join()
        return dict(zip(("row", "true", "predicted", "log_loss"), self._joined, strict=True))

    def _join(self) -> None:
        """Join the calls to one table, and forget the oldest rows."""
        parts = [self._joined]
        for _, group in itertools.groupby(self._calls, key=lambda call: call.kind):
            parts.append(_joined(list(group)))
        self._joined = np.concatenate(parts, axis=1)[:, -self.limit :]
        self._calls.clear()
        self._waiting = 0


def _joined(calls: list[_Call]) -> FloatArray:
    """Return the table of calls of the same kind."""
    rows = np.concatenate([np.arange(call.next_row - len(call.true), call.next_row) for call in calls])
    true = np.concatenate([call.true for call in calls])
    predicted = np.concatenate([call.predicted for call in calls])
    scores = [call.scores for call in calls if call.scores is not None]
    losses = log_losses(np.concatenate(scores), true) if scores else np.full(len(true), np.nan)
    return np.stack([rows, true, predicted, losses])
