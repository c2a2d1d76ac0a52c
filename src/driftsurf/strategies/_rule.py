"""The rule of DriftSurf: pure functions of numbers, which compiled code inlines.

A risk without evidence is NaN, and every comparison with NaN is false: no evidence, no change.
"""

from __future__ import annotations

import math

from driftsurf.kernels.compile import inline

REGRESSION_LEAD = 1.0 / 3.0
"""Share of the risk of w by which a regression w' must be better to predict, under the prequential judge."""
REGRESSION_MARGIN = 0.2
"""Share of delta by which a regression that can memorise must be better on every batch of T to replace w."""

ContestNumbers = tuple[float, float, float, float, float, float]
"""Fields of ``Contest``."""


@inline
def entering(risk: float, best: float, stable_risk: float, threshold: float, stable_threshold: float) -> int:
    """Return which condition to enter the reactive state holds: 1, 2, or 0 for neither.

    Condition 1: the risk of w on the new batch exceeds its best one, R_b, by more than delta. It fires at abrupt
    drifts. Condition 2: the risk of w exceeds that of the stable model w'' by more than delta'. It fires at drifts so
    gradual that R_b rises with them.

    >>> entering(0.61, 0.38, math.nan, 0.1, 0.05), entering(0.45, 0.38, 0.39, 0.1, 0.05)
    (1, 2)
    """
    if risk > best + threshold:
        return 1
    if risk > stable_risk + stable_threshold:
        return 2
    return 0


@inline
def challenger_predicts(old_risk: float, new_risk: float, greedy: bool) -> bool:
    """Return whether, inside a reactive state, the reactive model w' predicts the next batch (greedy policy)."""
    return greedy and new_risk < old_risk


@inline
def switching(old_risk: float, new_risk: float) -> bool:
    """Return whether, at the end of a reactive state, w' replaces w: its risk over T is strictly lower."""
    return new_risk < old_risk


@inline
def needed_lead(share: float, old_risk: float) -> float:
    """Return by how much w' must be better than w to predict the next batch: a share of the risk of w."""
    return share * old_risk if old_risk > 0.0 else 0.0


@inline
def contest_after(
    contest: ContestNumbers, old_risk: float, new_risk: float, weight: float, margin: float
) -> ContestNumbers:
    """Return the summed losses over T after one more batch, on which w' needs a lead of ``margin``.

    A batch without both risks is no evidence.
    """
    old, new, mass, least_old, least_new, least_margin = contest
    if math.isnan(old_risk + new_risk):
        return old, new, mass, least_old, least_new, least_margin
    if not old_risk - margin - new_risk >= least_old - least_margin - least_new:
        least_old, least_new, least_margin = old_risk, new_risk, margin
    return old + weight * old_risk, new + weight * new_risk, mass + weight, least_old, least_new, least_margin


@inline
def contest_risks(old: float, new: float, weight: float) -> tuple[float, float]:
    """Return the mean risks of w and w' over T; NaN without evidence."""
    if weight > 0.0:
        return old / weight, new / weight
    return math.nan, math.nan


@inline
def closed_credit(value: float, gain: float) -> float:
    """Return the credit of the greedy policy after a reactive state, from -1 to 1."""
    return min(1.0, max(-1.0, value + gain))
