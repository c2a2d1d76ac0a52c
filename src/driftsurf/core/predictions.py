"""Predictions that were made before their rows were learned: their losses, and the last ones in memory."""

from __future__ import annotations

import itertools
from collections import deque
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from driftsurf.core import functions
from driftsurf.core.contracts import FloatArray
from driftsurf.core.forks import RenewedLock
from driftsurf.native import maths

__all__ = ["RecentPredictions", "log_losses"]

LEAST_PROBABILITY = 1e-15
"""Smallest probability in log loss, which keeps it finite."""
MOST_ROWS = 100_000
"""Number of predicted rows that are held in memory: 4 MB with two classes."""
MOST_SCORES = 20
"""Scores of a row that are held; with more classes there are none."""
MOST_CALLS = 1_000
"""Number of calls whose predictions are held apart; those of many small calls are joined to one table."""
PREDICTED = "row", "true", "predicted", "log_loss"
"""Columns of the predictions that are held, beside their scores."""


def log_losses(scores: FloatArray, true: npt.NDArray[Any]) -> FloatArray:
    """Return -log p(true class) of each row, with p of at least 1e-15.

    ``scores`` are log-odds (n,) of the class with code 1, or log-probabilities (n, K) by code.

    >>> log_losses(np.log([[0.2, 0.8], [0.5, 0.5]]), np.array([1, 0])).round(2)
    array([0.22, 0.69])
    """
    if scores.ndim == 1:
        margins = np.where(true == 1, -scores, scores)
        return np.maximum(margins, 0.0) + functions.log1p(functions.exp(-np.abs(margins)))
    logs = scores[np.arange(len(true)), true]
    return np.asarray(-np.maximum(logs, maths.log(LEAST_PROBABILITY)))


class _Call(NamedTuple):
    """Predictions of one call."""

    next_row: int
    true: npt.NDArray[Any]
    predicted: npt.NDArray[Any]
    scores: FloatArray
    probabilities: bool

    @property
    def kind(self) -> object:
        """Calls of the same kind have scores whose losses can be computed together."""
        return self.probabilities, self.scores.shape[1:]


class RecentPredictions:
    """The last predictions that were made before their rows were learned.

    They take the memory of ``limit`` rows with one score each, so there are fewer rows with more scores. Adding a call
    costs next to nothing: tables are put together, and losses computed, when somebody asks, from any thread.

    Examples
    --------
    >>> recent = RecentPredictions(limit=3)
    >>> for row in (0, 2):
    ...     recent.add(row + 2, np.array([1, 0]), np.array([1, 1]), np.array([2.2, 0.4]), probabilities=True)
    >>> recent.table()["row"].tolist(), recent.table()["scores"].shape
    ([1.0, 2.0, 3.0], (3, 1))
    """

    def __init__(self, limit: int = MOST_ROWS) -> None:
        self.limit = limit
        self._joined: FloatArray = np.zeros((len(PREDICTED), 0))
        self._scores: FloatArray = np.zeros((0, 1))
        self._calls: deque[_Call] = deque()
        self._waiting = 0
        """Number of rows in the calls."""
        self._lock = RenewedLock()

    def add(
        self,
        next_row: int,
        true: npt.NDArray[Any],
        predicted: npt.NDArray[Any],
        scores: FloatArray,
        probabilities: bool,
    ) -> None:
        """Add the rows before ``next_row``: codes of classes, or numbers, and their scores.

        ``probabilities`` says whether the scores are log-odds or log-probabilities.
        """
        calls = self._calls
        with self._lock:
            calls.append(_Call(next_row, true, predicted, scores, probabilities))
            self._waiting += len(true)
            while self._waiting - len(calls[0].true) >= self.limit:  # the later calls are enough
                self._waiting -= len(calls.popleft().true)
            if len(calls) >= MOST_CALLS:
                self._join()

    def __reduce__(self) -> tuple[type[RecentPredictions], tuple[int]]:
        """Leave the predictions out of pickles and copies."""
        return type(self), (self.limit,)

    def table(self) -> dict[str, FloatArray]:
        """Return the columns ``row`` (its number), ``true``, ``predicted`` and ``log_loss``, oldest row first.

        ``scores`` has one column with margins, or a column of log-probabilities for each class; no column if there are
        too many classes.
        """
        with self._lock:
            self._join()
            return {**dict(zip(PREDICTED, self._joined, strict=True)), "scores": self._scores}

    def _join(self) -> None:
        """Join the calls to one table, and forget the oldest rows."""
        if not self._calls:
            return
        tables = [_joined(list(group)) for _, group in itertools.groupby(self._calls, key=lambda call: call.kind)]
        before = self._scores[:, 0] if self._scores.shape[1] == 1 else self._scores
        scores = before, *(call.scores for call in self._calls)
        width = max(1 if part.ndim == 1 else max(2, part.shape[1]) for part in scores)
        width = 0 if width > MOST_SCORES or not self._scores.shape[1] else width
        kept = self.limit * (len(PREDICTED) + 1) // (len(PREDICTED) + max(width, 1))
        self._joined = np.concatenate([self._joined, *tables], axis=1)[:, -kept:]
        self._scores = np.concatenate([_widened(part, width) for part in scores])[-kept:]
        self._calls.clear()
        self._waiting = 0


def _joined(calls: list[_Call]) -> FloatArray:
    """Return the columns of calls of the same kind, without their scores."""
    rows = np.concatenate([np.arange(call.next_row - len(call.true), call.next_row) for call in calls])
    true = np.concatenate([call.true for call in calls])
    predicted = np.concatenate([call.predicted for call in calls])
    losses = np.full(len(true), np.nan)
    if calls[0].probabilities:
        losses = log_losses(np.concatenate([call.scores for call in calls]), true)
    return np.stack([rows, true, predicted, losses])


def _widened(scores: FloatArray, width: int) -> FloatArray:
    """Return scores with this many columns: margins become log-probabilities, and an unknown class has none."""
    if width <= 1:
        return scores[:, None] if width else np.zeros((len(scores), 0))
    logs = -np.logaddexp(0.0, np.column_stack([scores, -scores])) if scores.ndim == 1 else scores
    return np.pad(logs, ((0, 0), (0, width - logs.shape[1])), constant_values=-np.inf)
