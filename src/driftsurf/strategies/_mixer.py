"""Weights of the experts of a portfolio, learned from how well each predicted the batches so far."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from driftsurf.core.changes import replace
from driftsurf.core.contracts import FloatArray, State
from driftsurf.core.fields import Array, FieldRule, Fields, Real, Values
from driftsurf.native.experts import after_classes, after_values, mixed

TURNED = 0.5
"""Sum of the weights of experts that are trusted for their fresh models, which are too sure after one batch."""
REMEMBERED = 0.3
"""Share of the evidence for the weights that is kept then."""
LARGEST = 1e12
"""Weights and curvatures stay within this."""


@dataclass(frozen=True)
class Mixer:
    """Weights of the experts, and what is known about them."""

    weights: FloatArray
    """v, not negative: one for the numbers of each expert; for classes, those of probabilities, then those of votes."""
    precision: FloatArray
    """A: summed curvature of the losses of earlier batches, of which older ones are slowly forgotten."""
    votes: bool
    """Whether the experts predict classes, and vote."""
    unit: float = 0.0
    """Usual squared error of the mixture of numbers; 0 before the first batch."""

    @classmethod
    def of(cls, experts: int, ridge: float, *, votes: bool) -> Mixer:
        """Return the mixer that knows nothing: equal weights of numbers or probabilities, and none of votes."""
        weights = np.full(experts, 1.0 / experts)
        if votes:
            weights = np.concatenate([weights, np.zeros(experts)])
        return cls(weights, ridge * np.eye(len(weights)), votes)

    @property
    def experts(self) -> int:
        """Number of experts."""
        return len(self.weights) // (2 if self.votes else 1)

    def widened(self, more: int) -> Mixer:
        """Return the mixer with more experts after the others, of weight 0, about which nothing is known."""
        each, parts = self.experts, 2 if self.votes else 1
        places = [part * (each + more) + place for part in range(parts) for place in range(each)]
        weights = np.zeros(parts * (each + more))
        weights[places] = self.weights
        precision = float(self.precision.diagonal().min()) * np.eye(len(weights))
        precision[np.ix_(places, places)] = self.precision
        return replace(self, weights=weights, precision=precision)

    @property
    def shares(self) -> list[float]:
        """Weight of each expert, of its probabilities and its votes together, as a share of the sum of all."""
        each = self.weights.reshape(2, -1).sum(axis=0) if self.votes else self.weights
        total, count = float(each.sum()), len(each)
        return [float(weight) / total if total > 0.0 else 1.0 / count for weight in each]

    def mixed_classes(self, G: FloatArray) -> FloatArray:
        """Return the log-probabilities of the mixture, given what ``stacked_shares`` made of those of the experts."""
        return mixed(G, self.weights)

    def mixed_values(self, m: FloatArray) -> FloatArray:
        """Return the numbers that the mixture predicts, given those of the experts (rows, experts)."""
        return np.asarray((m * np.array(self.shares)).sum(axis=1))  # BLAS has an order of sums for each processor

    def after_classes(self, G: FloatArray, y: FloatArray, weight: FloatArray, keep: float, ridge: float) -> Mixer:
        """Return the mixer after a batch with these codes, which the experts had not learned yet."""
        return self._with(after_classes(G, y, weight, self.weights, self.precision, keep, ridge))

    def after_values(
        self, m: FloatArray, y: FloatArray, weight: FloatArray, keep: float, ridge: float, part: float = 1.0
    ) -> Mixer:
        """Return the mixer after a batch with these numbers.

        Errors are in units of that of the mixture on this batch. Their size often changes by more than an order of
        magnitude along a stream, and batches with large ones would decide alone. The error on a batch that counts as
        ``part`` of one is noise, and moves the usual one by so much.
        """
        error = float((weight * np.square(self.mixed_values(m) - y)).sum() / weight.sum())
        if part < 1.0 and self.unit > 0.0:
            error = self.unit + part * (error - self.unit)
        if not 0.0 < error < np.inf:  # the mixture is exactly right, or a prediction is not finite: nothing to compare
            return self
        found = after_values(m, y, weight, math.sqrt(error), self.weights, self.precision, keep, ridge)
        return replace(self._with(found), unit=error)

    def _with(self, found: tuple[FloatArray, FloatArray] | None) -> Mixer:
        return self if found is None else replace(self, weights=found[0], precision=found[1])

    def turned_to(self, places: Sequence[int], ridge: float) -> Mixer:
        """Return the mixer that trusts the experts at these places alone, and readily learns other weights."""
        weights = np.zeros_like(self.weights)
        weights[list(places)] = TURNED / len(places)
        precision = REMEMBERED * self.precision + (1.0 - REMEMBERED) * ridge * np.eye(len(weights))
        return replace(self, weights=weights, precision=precision)

    def state(self) -> State:
        """Return the entries to save."""
        state: State = {"weights": self.weights, "precision": self.precision}
        return state if self.votes else state | {"unit": self.unit}

    @classmethod
    def from_state(cls, state: Mapping[str, Any], experts: int, *, votes: bool) -> Mixer:
        """Return the mixer that ``state()`` was called on."""
        known = FIELDS.read(state, parts=2 * experts if votes else experts)
        return cls(known["weights"], known["precision"], votes, known.get("unit", 0.0))


def _is_positive(known: Values) -> bool:
    A = known["precision"]
    if not (A == A.T).all():
        return False
    try:
        np.linalg.cholesky(A)
    except np.linalg.LinAlgError:
        return False
    return True


FIELDS = Fields(
    {
        "weights": Array(np.float64, ("parts",), least=0.0, most=LARGEST),
        "precision": Array(np.float64, ("parts", "parts"), least=-LARGEST, most=LARGEST),
        "unit": Real(0.0),
    },
    optional=["unit"],
    rules=[FieldRule("precision", "must be symmetric and positive definite", _is_positive)],
)
"""Saved entries of a mixer."""
