"""The estimated error of the rows of a run: signs of errors of predictions, and losses once labels come."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from driftsurf.core.contracts import FloatArray, State
from driftsurf.session.error_estimate import ErrorEstimate
from driftsurf.session.error_tracker import ErrorTracker, RowSigns, signs_of
from driftsurf.session.observation import Observation


class RunEstimates:
    """Estimates the error of the leading model of a run, whether labels come with their rows or later."""

    def __init__(self, *, regression: bool) -> None:
        self.tracker = ErrorTracker(regression)
        """Replaced as a whole when the run resumes."""

    @property
    def newest(self) -> ErrorEstimate | None:
        """The estimate for the newest rows; None before there is one."""
        return self.tracker.estimate

    def observed(self, own: Observation) -> ErrorEstimate | None:
        """Estimate the error of rows that a model predicted, then learn it; None unless rows make up a block."""
        tracker = self.tracker
        before, first = tracker.estimate, tracker.next_row
        regression, probabilities = tracker.regression, own.probabilities
        tracker.predicted(signs_of(own.scores, own.disagreement, regression=regression, probabilities=probabilities))
        found = tracker.estimate
        tracker.labelled(first, self.losses(own.true, own.predicted))
        return None if found is before else found

    def came(self, signs: RowSigns | None, first_row: int) -> None:
        """Estimate the error of rows that came, from the number ``first_row`` on; None for rows without predictions."""
        if signs is not None:
            self.tracker.next_row = first_row
            self.tracker.predicted(signs)

    def losses(self, true: Any, predicted: Any) -> FloatArray:
        """Return the loss of each row."""
        if self.tracker.regression:
            return np.asarray(np.square(true - predicted), np.float64)
        return np.asarray(true != predicted, np.float64)

    def state(self) -> State:
        """Return what later estimates need, for a checkpoint."""
        return self.tracker.state()

    def restore(self, state: Mapping[str, Any]) -> None:
        """Resume from what :meth:`state` returned."""
        self.tracker = ErrorTracker.from_state(state, regression=self.tracker.regression)
