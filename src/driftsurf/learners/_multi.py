"""Base class of linear learners with one weight column per output, in loops that are generic in the loss."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from driftsurf.core.contracts import CSR, Batch, FloatArray, Rows
from driftsurf.learners._learner import LinearLearner
from driftsurf.learners._linear import Linear, check_width
from driftsurf.native import scores
from driftsurf.native.linear import multi_saga, multi_sgd

LARGEST_STEP = 1.0 / 3.0
"""Largest step size, times the curvature, up to which SAGA is known to converge."""


class MultiLearner(LinearLearner):
    """A linear learner with a column of weights for each output. A subclass names its loss and converts outputs."""

    kind: ClassVar[int]
    """Number of the loss in the native core."""

    @property
    def _loss(self) -> tuple[int, float]:
        """Number of the loss in the native core, and its width (for Huber's)."""
        return self.kind, 0.0

    @property
    def _reach(self) -> float:
        """Largest step at a row, as a share of the step to its minimum; no limit if the user chose the step size."""
        return LARGEST_STEP if self.step_size == "auto" else math.inf

    @staticmethod
    def read(outputs: FloatArray) -> FloatArray:
        """Convert outputs (n, K) to scores; by default the only column."""
        return outputs.reshape(-1)

    def _run(self, rows: Batch, order: Any, fitted: Linear, table: FloatArray) -> int:
        X, y, weight, _ = rows
        weights, sums = fitted.weights, fitted.gradient_sum
        loss = *self._loss, fitted.target, self._reach
        how = fitted.step_size, float(self.l2), fitted.frame, loss, weights.shape[1]
        # For dense rows the loops run along the columns of one output, which must be contiguous.
        turned, turned_sums = (
            (weights, sums) if isinstance(X, CSR) else (np.ascontiguousarray(matrix.T) for matrix in (weights, sums))
        )
        drawn = 0
        if self._tabled:
            drawn = multi_saga(X, y, weight, order, (turned, turned_sums, table), fitted.drawn, *how)
        else:
            multi_sgd(X, y, weight, order, turned, *how)
        if not isinstance(X, CSR):
            weights[:], sums[:] = turned.T, turned_sums.T
        return drawn

    def scores(self, X: Rows) -> FloatArray:
        """Return the scores of rows."""
        return self._scorer_with(self._raw_weights)(X)

    def scorer(self) -> Callable[[Rows], FloatArray]:
        """Return ``scores`` of the model as it is now; later updates do not affect it."""
        return self._scorer_with(self._raw_weights)

    def _scorer_with(self, weights: FloatArray) -> Callable[[Rows], FloatArray]:
        """Return the function that scores rows with these weights, within the limits of the model as it is now."""
        return functools.partial(score_rows, self.read, weights, self._fitted.limits)


def score_rows(
    read: Callable[[FloatArray], FloatArray], weights: FloatArray, limits: FloatArray | None, X: Rows
) -> FloatArray:
    """Return the scores of rows; a function of weights and limits alone, so that a scorer can keep old ones."""
    outputs = np.empty((check_width(X, weights), weights.shape[1]))
    scores.outputs(X, weights if isinstance(X, CSR) else np.ascontiguousarray(weights.T), outputs, limits)
    return read(outputs)
