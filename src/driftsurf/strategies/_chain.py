"""What earlier targets say about the next ones: which label came after each, how often of late; the last number."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from driftsurf.core.contracts import FloatArray, State
from driftsurf.core.fields import Array, FieldRule, Fields, Real, Truth, Whole
from driftsurf.native import maths
from driftsurf.native.experts import chain_after, chain_scores, rate_scores, rates_after

FEW = 30
"""Batches of fewer rows than this are small: the label before them says something about each of their rows."""
MOST_CLASSES = 100
"""With more classes the table of counts would be large, and hardly filled."""
REMEMBERED = 1_000.0
"""Number of rows in which a count of the chain loses half of its value."""
RECENT = 5.0
"""Number of rows in which the count of a recent label loses half of its value."""
LEAD = 0.05
"""The recent rate speaks while its log loss on large batches is so much below that of the shares of all labels."""


@dataclass(frozen=True)
class Chain:
    """Counts of labels: after each last label of the batch before, of late, and of all. Never changed in place."""

    counts: FloatArray
    """Counts (classes, classes) in small batches, of the labels in the columns after those in the rows."""
    rates: FloatArray
    """Counts (2, classes) of the recent labels and of all."""
    last: int = -1
    """Code of the last label; -1 before there was one."""
    lead: float = 0.0
    """By how much the recent rate predicts the labels of a large batch better than the shares of all do."""

    @classmethod
    def of(cls, n_classes: int) -> Self:
        """Return the counts of no labels."""
        n_classes = n_classes if n_classes <= MOST_CLASSES else 0
        return cls(np.zeros((n_classes, n_classes)), np.zeros((2, n_classes)))

    def forecast(self, rows: int, n_classes: int) -> FloatArray | None:
        """Return log-probabilities (rows, classes) of the next rows; None where nothing is known.

        >>> chain = Chain.of(2)
        >>> for label in (0.0, 1.0, 0.0, 1.0, 0.0):
        ...     chain = chain.after(np.array([label]), np.ones(1), 2, 0.9)
        >>> np.exp(chain.forecast(1, 2)).round(2)
        array([[0.17, 0.83]])
        """
        if self.last >= 0 and rows < FEW:
            return chain_scores(self.counts, self.last, rows, n_classes)
        if self.last >= 0 and self.lead > LEAD:
            return rate_scores(self.rates, rows, n_classes)
        return None

    def after(self, y: FloatArray, weight: FloatArray, n_classes: int, keep: float) -> Chain:
        """Return the counts after a batch with these codes; the share ``keep`` of the evidence for the rate is kept."""
        codes = y if len(y) == 1 and weight[0] > 0.0 else y[weight > 0.0]
        if not len(codes) or n_classes > MOST_CLASSES:
            return self
        counts, rates, lead = self.counts, self.rates, self.lead
        if len(counts) < n_classes:
            more = (0, n_classes - len(counts))
            counts, rates = np.pad(counts, more), np.pad(rates, ((0, 0), more))
        rates, gain = rates_after(rates, codes, FADED)
        if self.last >= 0 and len(y) < FEW:
            counts = chain_after(counts, self.last, codes, maths.power(0.5, len(codes) / REMEMBERED))
        elif self.last >= 0:
            lead = keep * lead + (1.0 - keep) * gain
        return Chain(counts, rates, int(codes[-1]), lead)

    def state(self) -> State:
        """Return the entries to save."""
        return dict(vars(self))

    @classmethod
    def from_state(cls, state: Mapping[str, Any], n_classes: int) -> Chain:
        """Return the chain that ``state()`` was called on."""
        known = FIELDS.read(state, n_classes=n_classes)
        return cls(**{name: known[name] for name in FIELDS.entries})


@dataclass(frozen=True)
class Last:
    """The last number, which says much about the next one if few rows are learned at a time."""

    value: float = 0.0
    known: bool = False

    def forecast(self, rows: int, n_classes: int) -> FloatArray | None:
        """Return the last number for each of the next rows; None if it is not known, or they are many."""
        return np.full(rows, self.value) if self.known and rows < FEW else None

    def after(self, y: FloatArray, weight: FloatArray, n_classes: int, keep: float) -> Last:
        """Return the last number of a batch."""
        counted = y[weight > 0.0]
        return Last(float(counted[-1]), True) if len(counted) else self

    def state(self) -> State:
        """Return the entries to save."""
        return dict(vars(self))

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Return what ``state()`` was called on."""
        known = NUMBER.read(state)
        return cls(known["value"], known["known"])


NUMBER = Fields({"value": Real(), "known": Truth()})
"""Saved entries of a last number."""
FADED = maths.power(0.5, 1.0 / RECENT)
FIELDS = Fields(
    {
        "counts": Array(np.float64, ("known", "known"), least=0.0, most=1e12),
        "rates": Array(np.float64, (2, "known"), least=0.0, most=1e15),
        "last": Whole(-1),
        "lead": Real(),
    },
    rules=[
        FieldRule(
            "counts", "must be for no more classes than there are", lambda known: known["known"] <= known["n_classes"]
        ),
        FieldRule("last", "must be the code of a class that is counted", lambda known: known["last"] < known["known"]),
    ],
)
"""Saved entries of a chain."""
