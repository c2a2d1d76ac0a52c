"""Unit of the risk, which makes one threshold mean the same for targets of any scale."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from driftsurf.core.contracts import Batch, Learner, State
from driftsurf.core.fields import Array, Fields, Real, Rule
from driftsurf.native.linear import weighted_sum

WINDOW = 25


@dataclass(frozen=True, slots=True)
class RiskUnit:
    """Risk of a trivial model over the last 25 batches, divided by ln 2.

    The trivial model predicts, for every row of a batch, the mean target of the batch before. The median of its risks,
    in the learner's own loss, is to a regression what ln 2, the log loss of a coin toss, is to two classes. So a
    threshold of 0.1 is the same share of it in both.

    >>> RiskUnit(recent=(8.0, 9.0, 1e6)).value * math.log(2)
    9.0
    """

    recent: tuple[float, ...] = ()
    """Risks of the trivial model on the last batches, oldest first."""
    centre: float = math.nan
    """Mean target of the last batch."""

    @property
    def value(self) -> float:
        """Factor of the thresholds; 1 before the first batch."""
        return statistics.median(self.recent) / math.log(2) if self.recent else 1.0

    def after_batch(self, batch: Batch, learner: Learner) -> RiskUnit:
        """Return the unit after one more batch; a batch without weight changes nothing."""
        total, mass = weighted_sum(batch.y, batch.weight)
        if mass <= 0.0:
            return self
        mean = total / mass
        guess = np.full(len(batch.y), mean if math.isnan(self.centre) else self.centre)
        lost, _ = weighted_sum(learner.row_losses(guess, batch.y), batch.weight)
        return RiskUnit((*self.recent, lost / mass)[-WINDOW:], mean)

    def state(self) -> State:
        """Return the state as flat entries."""
        return {"recent": np.array(self.recent, np.float64), "centre": self.centre}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> RiskUnit:
        """Return the unit that ``state()`` was called on."""
        known = FIELDS.read(state)
        return cls(tuple(known["recent"].tolist()), known["centre"])


FIELDS = Fields(
    {"recent": Array(np.float64, ("*",)), "centre": Real(missing=True)},
    rules=[Rule("recent", f"must have at most {WINDOW} values", lambda known: len(known["recent"]) <= WINDOW)],
)
"""Saved entries of the unit."""
