"""How far predicted numbers were off: intervals that hold the share of numbers that is asked for, under drift too."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from driftsurf.core.contracts import FloatArray, State
from driftsurf.core.fields import Array, Fields

COVERAGES = np.array([0.5, 0.8, 0.9, 0.95, 0.99])
"""Shares of numbers within an interval for which the error is followed; others are interpolated."""
MOST = 500
"""Number of the last errors."""
RATE, FASTEST = 0.005, 0.5
"""By how much the share moves for each row, and at most for a batch, in units of the distance to what was seen."""
WIDER = 4.0
"""Growth of an interval beyond the largest error for each unit of a negative share."""


@dataclass(frozen=True)
class Residuals:
    r"""The last errors of predicted numbers, and the shares of them that lie beyond intervals; never changed in place.

    An interval for the coverage c reaches as far as the :math:`1 - a` quantile of the last errors. Where errors grow,
    too many numbers lie outside; so a starts at :math:`\alpha = 1 - c` and moves by :math:`0.005 (\alpha - m)` for each
    row, where m is 1 if the number lay outside. In the long run the share of numbers inside is c, however they drift.

    References
    ----------
    I. Gibbs, E. Candès. Adaptive conformal inference under distribution shift. NeurIPS 2021.
    """

    sizes: FloatArray
    """Absolute errors of the last rows, oldest first."""
    beyond: FloatArray
    """The share a for each of ``COVERAGES``."""

    @classmethod
    def of_nothing(cls) -> Self:
        """Return what is known before the first error."""
        return cls(np.zeros(0), 1.0 - COVERAGES)

    def width(self, coverage: float) -> float:
        """Return how far an interval reaches to each side; infinity before the first error.

        >>> known = Residuals.of_nothing()
        >>> known.width(0.9)
        inf
        >>> for size in range(1, 100):
        ...     known = known.with_errors(np.array([float(size % 10)]))
        >>> known.width(0.5), known.width(0.9)
        (5.0, 9.0)
        """
        moved = float(np.interp(coverage, COVERAGES, self.beyond - (1.0 - COVERAGES)))
        return _quantile(np.sort(self.sizes), 1.0 - coverage + moved)

    def with_errors(self, sizes: FloatArray) -> Residuals:
        """Return what is known after these absolute errors, of predictions that were made before they were learned."""
        if not len(sizes):
            return self
        beyond = self.beyond
        if len(self.sizes):
            known, share = np.sort(self.sizes), min(RATE * len(sizes), FASTEST)
            missed = np.array([float(np.count_nonzero(sizes > _quantile(known, one))) for one in beyond.tolist()])
            beyond = np.clip(beyond + share * (1.0 - COVERAGES - missed / len(sizes)), -1.0, 1.0)
        return Residuals(np.concatenate([self.sizes, sizes])[-MOST:], beyond)

    def state(self) -> State:
        """Return the entries to save."""
        return {"sizes": self.sizes, "beyond": self.beyond}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Return what ``state()`` was called on."""
        known = FIELDS.read(state)
        return cls(known["sizes"], known["beyond"])


def _quantile(rising: FloatArray, beyond: float) -> float:
    """Return the size beyond which this share of rising sizes lies; more than the largest one for a share below 0."""
    count = len(rising)
    if not count:
        return math.inf
    rank = math.ceil((1.0 - beyond) * (count + 1))
    if rank > count:
        return float(rising[-1]) * (1.0 + WIDER * max(0.0, -beyond))
    return float(rising[max(rank, 1) - 1])


FIELDS = Fields(
    {
        "sizes": Array(np.float64, ("rows",), least=0.0),
        "beyond": Array(np.float64, (len(COVERAGES),), least=-1.0, most=1.0),
    }
)
"""Saved entries of residuals."""
