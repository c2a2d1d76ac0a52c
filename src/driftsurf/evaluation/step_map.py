"""The step of a trace in which a row was scored or a decision was made, whatever the sizes of the steps are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from driftsurf.core.decisions import Decision

__all__ = ["StepMap"]


@dataclass(frozen=True, eq=False)
class StepMap:
    """Finds the step of a row, of a decision and of an order.

    Places are numbers of steps with a fraction: 3.5 is the middle of the rows of step 3.

    Examples
    --------
    >>> steps = StepMap(first_row=np.array([0, 10, 40]), rows=np.array([10, 30, 5]))
    >>> steps.of_row(10), steps.of_row(25), steps.of_row(45)
    (1.0, 1.5, 3.0)
    """

    first_row: npt.NDArray[Any]
    """The first row of each step."""
    rows: npt.NDArray[Any]
    """The number of rows of each step."""
    last_decision: npt.NDArray[Any] | None = None
    """The number of the last decision made up to each step, where the run recorded it. A model may learn fewer rows
    than are scored, or other ones: one that is pinned, or whose labels come late. Then rows do not tell the step."""
    decisions: npt.NDArray[Any] | None = None
    """How many decisions were made since the step before, where the run recorded it."""
    taken: npt.NDArray[Any] | None = None
    """The number of the batch that each step scored, where the run recorded it: a batch without labels has no step."""

    @classmethod
    def of(cls, columns: Mapping[str, npt.NDArray[Any]]) -> StepMap:
        """Return the map for the columns of one model of a trace."""
        return cls(columns["first_row"], columns["rows"])

    def of_row(self, row: float) -> float:
        """Return the place of a row; that of a row after the last one is the number of steps."""
        step = int(np.searchsorted(self.first_row, row, side="right")) - 1
        step = min(max(step, 0), len(self.first_row) - 1)
        share = (row - self.first_row[step]) / max(int(self.rows[step]), 1)
        return float(step + min(max(share, 0.0), 1.0))

    def of_batch(self, number: float) -> float:
        """Return the place of a batch of the run, counted from 0."""
        return number if self.taken is None else float(np.searchsorted(self.taken, number))

    def of_decision(self, decision: Decision) -> float:
        """Return the place at which a decision was made."""
        return self._span(decision)[0]

    def around(self, first: Decision, last: Decision) -> tuple[float, float]:
        """Return where the span of two decisions begins and ends: half a decision before and after them."""
        (start, wide), (stop, wide_too) = self._span(first), self._span(last)
        return start - wide / 2, stop + wide_too / 2

    def places(self, decisions: Sequence[Decision]) -> dict[int, float]:
        """Return the place of each decision, by its number."""
        return {decision.step: self.of_decision(decision) for decision in decisions}

    def _span(self, decision: Decision) -> tuple[float, float]:
        """Return the place of a decision, and the number of steps that it is about."""
        last = self.last_decision
        if last is None or self.decisions is None:
            start = self.of_row(decision.first_row)
            return start, self.of_row(decision.rows_seen) - start
        step = min(int(np.searchsorted(last, decision.step)), len(last) - 1)
        made = max(int(self.decisions[step]), 1)
        place = decision.step - (int(last[step]) - made + 1)
        return step + min(max(place, 0), made) / made, 1.0 / made
