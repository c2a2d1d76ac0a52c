"""What earlier targets say about the next ones: which label came after each, how often of late; the last numbers."""

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
MEMORIES = 5.0, 25.0
"""Numbers of rows in which the two running means of a trail lose half of their value."""
TRAIL = 3 + len(MEMORIES)
"""Number of columns of a trail."""
LONGEST = 250
"""Of a batch, so many last targets count for a trail; its means have forgotten the ones before."""
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


@dataclass(frozen=True)
class Trail:
    """The last targets, as columns that trees can split: the last three, and two running means."""

    last: tuple[float, ...] = (0.0,) * 3
    """The last targets, the newest first."""
    sums: tuple[float, ...] = (0.0,) * len(MEMORIES)
    """Sums of the targets, of which older ones are forgotten."""
    masses: tuple[float, ...] = (0.0,) * len(MEMORIES)
    """The same sums with ones in place of targets."""

    @property
    def columns(self) -> tuple[float, ...]:
        """Values of the columns for the next rows."""
        return (*self.last, *(sum_ / mass if mass else 0.0 for sum_, mass in zip(self.sums, self.masses, strict=True)))

    def after(self, y: FloatArray) -> Trail:
        """Return the trail after these targets."""
        found = self
        for target in y[-LONGEST:].tolist():
            parts = zip(FORGOTTEN, found.sums, found.masses, strict=True)
            sums, masses = zip(*((keep * old + target, keep * mass + 1.0) for keep, old, mass in parts), strict=True)
            found = Trail((target, *found.last[:-1]), sums, masses)
        return found

    def beside(self, X: FloatArray) -> FloatArray:
        """Return rows with these columns after their own, the same in each row.

        >>> Trail().after(np.array([1.0, 0.0])).beside(np.array([[7.0]])).round(2)
        array([[7.  , 0.  , 1.  , 0.  , 0.47, 0.49]])
        """
        rows = np.empty((len(X), X.shape[1] + TRAIL), X.dtype)
        rows[:, :-TRAIL], rows[:, -TRAIL:] = X, self.columns
        return rows

    def along(self, X: FloatArray, y: FloatArray) -> FloatArray:
        """Return rows with columns of the targets before each of them, those of earlier rows of ``X`` included."""
        rows, trail = self.beside(X), self
        for place in range(1, len(y)):
            trail = trail.after(y[place - 1 : place])
            rows[place, -TRAIL:] = trail.columns
        return rows

    def state(self) -> State:
        """Return the entries to save."""
        return {name: np.array(value) for name, value in vars(self).items()}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Return the trail that ``state()`` was called on."""
        return cls(**{name: tuple(values.tolist()) for name, values in PAST.read(state).items()})


FORGOTTEN = tuple(maths.power(0.5, 1.0 / memory) for memory in MEMORIES)
PAST = Fields(
    {
        "last": Array(np.float64, (3,)),
        "sums": Array(np.float64, (len(MEMORIES),)),
        "masses": Array(np.float64, (len(MEMORIES),), least=0.0, most=100.0),
    }
)
"""Saved entries of a trail."""
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
