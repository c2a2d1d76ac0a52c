"""The unit of a risk, so that one threshold serves targets of any scale."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from driftsurf import _kernels
from driftsurf.base import Batch, Learner, State

WINDOW = 25


@dataclass(frozen=True, slots=True)
class RiskUnit:
    """How large a risk is that means nothing was learnt, over ln 2, from the last 25 batches.

    The trivial predictor says for every row of a batch the mean of the batch before. The median of its
    risks, in the learner's own loss, is to a regression what ln 2, the log loss of tossing a coin, is to
    two classes: so a threshold of 0.1 is the same share of it in both.

    >>> RiskUnit(recent=(8.0, 9.0, 1e6)).value * math.log(2)
    9.0
    """

    recent: tuple[float, ...] = ()
    centre: float = math.nan

    @property
    def value(self) -> float:
        """What a threshold is multiplied by; 1 before there is a batch."""
        return statistics.median(self.recent) / math.log(2) if self.recent else 1.0

    def met(self, batch: Batch, learner: Learner) -> RiskUnit:
        """The unit after one more batch; a batch without weight says nothing."""
        total, mass = _kernels.weighted_sum(batch.y, batch.weight)
        if mass <= 0.0:
            return self
        mean = total / mass
        guess = np.full(len(batch.y), mean if math.isnan(self.centre) else self.centre)
        lost, _ = _kernels.weighted_sum(learner.row_losses(guess, batch.y), batch.weight)
        return RiskUnit((*self.recent, lost / mass)[-WINDOW:], mean)

    def state(self) -> State:
        """As flat entries."""
        return {"recent": np.array(self.recent, np.float64), "centre": self.centre}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> RiskUnit:
        """The unit that gave ``state``."""
        return cls(tuple(float(risk) for risk in state["recent"]), float(state["centre"]))
