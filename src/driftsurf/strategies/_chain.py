"""How often each label comes after each: what the last label says, if few rows are learned at a time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from driftsurf.core.contracts import FloatArray, State
from driftsurf.core.fields import Array, Fields, Rule, Whole
from driftsurf.native import maths
from driftsurf.native.experts import chain_after, chain_scores

FEW = 30
"""Batches of fewer rows than this are small: the label before them says something about each of their rows."""
MOST_CLASSES = 100
"""With more classes the table of counts would be large, and hardly filled."""
REMEMBERED = 1_000.0
"""Number of rows in which a count loses half of its value."""


@dataclass(frozen=True)
class Chain:
    """Counts of the labels of small batches after each last label of the batch before; never changed in place."""

    counts: FloatArray
    """Counts (classes, classes), of the labels in the columns after those in the rows."""
    last: int = -1
    """Code of the last label; -1 before there was one."""

    @classmethod
    def of(cls, n_classes: int) -> Self:
        """Return the chain that knows nothing."""
        n_classes = n_classes if n_classes <= MOST_CLASSES else 0
        return cls(np.zeros((n_classes, n_classes)))

    def scores(self, rows: int, n_classes: int) -> FloatArray:
        """Return log-probabilities (rows, classes) of the next rows; they are equal where nothing is known.

        >>> chain = Chain.of(2)
        >>> for label in (0.0, 1.0, 0.0, 1.0, 0.0):
        ...     chain = chain.after(np.array([label]), np.ones(1), 2)
        >>> np.exp(chain.scores(1, 2)).round(2)
        array([[0.17, 0.83]])
        """
        if self.last >= 0 and rows < FEW:
            return chain_scores(self.counts, self.last, rows, n_classes)
        return np.full((rows, n_classes), -maths.log(n_classes))

    def after(self, y: FloatArray, weight: FloatArray, n_classes: int) -> Chain:
        """Return the chain after a batch with these codes."""
        codes = y if len(y) == 1 and weight[0] > 0.0 else y[weight > 0.0]
        if not len(codes) or n_classes > MOST_CLASSES:
            return self
        counts = self.counts
        if len(counts) < n_classes:
            counts = np.pad(counts, (0, n_classes - len(counts)))
        if self.last >= 0 and len(y) < FEW:
            counts = chain_after(counts, self.last, codes, maths.power(0.5, len(codes) / REMEMBERED))
        return Chain(counts, int(codes[-1]))

    def state(self) -> State:
        """Return the entries to save."""
        return {"counts": self.counts, "last": self.last}

    @classmethod
    def from_state(cls, state: Mapping[str, Any], n_classes: int) -> Chain:
        """Return the chain that ``state()`` was called on."""
        known = FIELDS.read(state, n_classes=n_classes)
        return cls(known["counts"], known["last"])


FIELDS = Fields(
    {"counts": Array(np.float64, ("known", "known"), least=0.0, most=1e12), "last": Whole(-1)},
    rules=[
        Rule(
            "counts", "must be for no more classes than there are", lambda known: known["known"] <= known["n_classes"]
        ),
        Rule("last", "must be the code of a class that is counted", lambda known: known["last"] < known["known"]),
    ],
)
"""Saved entries of a chain."""
