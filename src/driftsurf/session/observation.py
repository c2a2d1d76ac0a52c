"""Result of one call to a session: the predictions made before learning, and the decisions."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from driftsurf.core.contracts import FloatArray
from driftsurf.core.decisions import Decision
from driftsurf.core.journal import log_losses

if TYPE_CHECKING:
    from driftsurf.session.error_estimate import ErrorEstimate


def probability_of_second(margins: FloatArray) -> FloatArray:
    """Return the probability of the second of two classes, 1 / (1 + exp(-margin)).

    The same as ``scipy.special.expit``, which takes a tenth of the time of a short run to import.
    """
    return np.asarray(np.exp(-np.logaddexp(0.0, -margins)))


@dataclass(frozen=True, slots=True)
class Origin:
    """Number of a time step whose labels came late, and the models that had predicted its rows.

    The model is the one that predicted most of the scored rows, the newest of several; -1 if no row was scored.
    """

    step: int
    first_row: int
    """The first row of the step, in the order in which rows are learned."""
    learned: int = 0
    """Number of rows that the step learned; 0 if it is not complete."""
    predicted_by: int = -1
    trained_from: int = -1
    oldest_version: int = -1
    """Number of time steps that the oldest model behind the predictions had learned."""
    newest_version: int = -1
    unscored: npt.NDArray[Any] = field(default_factory=lambda: np.zeros(0))
    """Labels that the step learned of rows without a prediction, which came before there was a model."""


# Not frozen: a frozen dataclass takes three times as long to create, which is as long as predicting a few rows.
@dataclass(slots=True)
class Observation:
    """Predictions made before the rows were learned, and the decisions of the completed time steps.

    Examples
    --------
    >>> from driftsurf.learners import LogisticRegression
    >>> from driftsurf.session import Session
    >>> from driftsurf.strategies import DriftSurf
    >>> session = Session(DriftSurf(LogisticRegression()), classes=("no", "yes"))
    >>> _ = session.observe([[9.5], [2.0], [8.0], [1.5]] * 25, ["no", "yes", "no", "yes"] * 25)
    >>> found = session.observe([[2.0], [9.0]], ["yes", "yes"])
    >>> found.labels, found.error, found.decisions[0].state
    (array(['yes', 'no'], dtype='<U3'), 0.5, 'reactive')
    """

    labels: npt.NDArray[Any]
    """Predicted labels; for regression, predicted numbers."""
    predicted: npt.NDArray[Any]
    """Codes of the predicted labels; for regression, the same as ``labels``."""
    true: npt.NDArray[Any]
    """Codes of the true labels; for regression, the true numbers."""
    scores: FloatArray
    """Margins (n,), log-probabilities (n, K) by code, or predicted numbers (n,)."""
    decisions: tuple[Decision, ...]
    """One for each time step that the call completed: one, or any number with a buffer."""
    probabilities: bool = True
    """Whether scores are log-odds or log-probabilities."""
    origin: Origin | None = None
    """Step and models of rows whose labels came late; None for rows that were predicted just before."""
    lags: npt.NDArray[np.int64] | None = None
    """Time steps learned between the prediction of each row and its label; None if rows were predicted just before."""
    current: npt.NDArray[Any] | None = None
    """Codes that ``scores`` predict, where ``predicted`` are answers of earlier models; None if both are the same."""
    disagreement: FloatArray | None = None
    """How far the experts of a portfolio disagreed about each row (rows, signs); None unless it was asked for."""
    estimated_error: ErrorEstimate | None = None
    """The error as it was estimated before any label of these rows came; None unless a run estimates it."""

    @property
    def errors(self) -> int:
        """Number of wrong predictions; for regression, of predictions that are not exactly right."""
        return int(np.count_nonzero(self.predicted != self.true))

    @property
    def error(self) -> float:
        """Share of wrong predictions; for regression, the root mean squared error; NaN without rows."""
        return math.sqrt(self.mean_loss) if self.predicted.dtype.kind == "f" else self.mean_loss

    @property
    def mean_loss(self) -> float:
        """Share of wrong predictions; for regression, the mean squared error, whose mean over rows can be taken."""
        if not len(self.true):
            return float("nan")
        regression = self.predicted.dtype.kind == "f"
        return float(self.squared_errors().mean()) if regression else self.errors / len(self.true)

    def log_losses(self) -> FloatArray:
        """Return -log p(true class) of each row, with p of at least 1e-15; NaN without probabilities."""
        if not self.probabilities:
            return np.full(len(self.true), np.nan)
        return log_losses(self.scores, self.true)

    def squared_errors(self) -> FloatArray:
        """Return the squared error of each row, for regression."""
        return np.asarray(np.square(self.predicted - self.true))
