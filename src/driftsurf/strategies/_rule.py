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

USUAL_BATCHES = 32
"""Most batches that the usual risk of a model is a mean of; older ones fade."""

COIN_TOSS = math.log(2.0)
"""Log loss of a coin toss."""
CLASS_MEMORY = 8
"""How many reactive states long ago w may have learned a class that w' has to learn before it is used."""

ContestNumbers = tuple[float, float, float, float, float, float, float, float, float]
"""Fields of ``Contest``."""


@inline
def usual_batches(age: int) -> int:
    """Return how many batches the usual risk of a model is the mean of, given the number of its batches."""
    return min(max(age, 1), USUAL_BATCHES)


@inline
def reference_risk(reference: float, risk: float, age: int, noisy: bool) -> float:
    """Return R_b, with which the next risk of w is compared, after its risk on one more batch; NaN is no evidence.

    R_b is the lowest risk so far. The lowest of many risks over few rows is low by chance, so that with ``noisy`` R_b
    is the usual risk: the mean since the model has learned a batch, of which there are ``age``; old batches fade.

    >>> reference_risk(0.4, 0.5, 2, noisy=False), reference_risk(0.4, 0.5, 2, noisy=True)
    (0.4, 0.45)
    """
    if not noisy or reference == math.inf:
        return risk if risk < reference else reference
    return reference if math.isnan(risk) else reference + (risk - reference) / usual_batches(age)


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
def counts_classes(share: float, risk: float) -> bool:
    """Return whether w' has to know the classes of w to be used, given the risk of w on a batch before learning it.

    A model that is worse than a coin toss is not worth protecting from one that lacks a class.
    """
    return share > 0.0 and not risk > COIN_TOSS


@inline
def remembered_rows(rows: int, batches: int, reactive_length: int) -> int:
    """Return the number of last rows among which the classes of w are counted, given the rows and batches of w'."""
    return CLASS_MEMORY * reactive_length * rows // batches


@inline
def is_missed(count: int, total: int, seen: int, share: float) -> bool:
    """Return whether w' lacks a class: it makes up this share of the last rows of w, and w' has seen no row of it.

    >>> is_missed(30, 1000, 0, 0.01), is_missed(30, 1000, 1, 0.01), is_missed(9, 1000, 0, 0.01)
    (True, False, False)
    """
    return seen == 0 and count > 0 and count >= share * total


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
    old, new, mass, least_old, least_new, least_margin, squares, leads, squared_leads = contest
    if math.isnan(old_risk + new_risk):
        return contest
    if not old_risk - margin - new_risk >= least_old - least_margin - least_new:
        least_old, least_new, least_margin = old_risk, new_risk, margin
    square, lead = weight * weight, old_risk - new_risk
    return (
        old + weight * old_risk,
        new + weight * new_risk,
        mass + weight,
        least_old,
        least_new,
        least_margin,
        squares + square,
        leads + square * lead,
        squared_leads + square * (lead * lead),
    )


@inline
def contest_risks(old: float, new: float, weight: float) -> tuple[float, float]:
    """Return the mean risks of w and w' over T; NaN without evidence."""
    if weight > 0.0:
        return old / weight, new / weight
    return math.nan, math.nan


@inline
def lead_error(contest: ContestNumbers) -> float:
    """Return the standard error of the mean lead of w' over T, from how much its lead varies between batches.

    It is infinite for a single batch.

    >>> contest = 0.0, 0.0, 0.0, math.nan, math.nan, math.nan, 0.0, 0.0, 0.0
    >>> for lead in (0.1, 0.2, 0.3):
    ...     contest = contest_after(contest, lead, 0.0, 32.0, 0.0)
    >>> round(lead_error(contest), 4), round(0.1 / math.sqrt(3), 4)
    (0.0577, 0.0577)
    """
    old, new, mass, _, _, _, squares, leads, squared_leads = contest
    evidence = mass * mass - squares
    if not evidence > 0.0:
        return math.inf
    mean = (old - new) / mass
    return math.sqrt(max(0.0, squared_leads - 2.0 * mean * leads + mean * mean * squares) / evidence)


@inline
def closed_credit(value: float, gain: float) -> float:
    """Return the credit of the greedy policy after a reactive state, from -1 to 1."""
    return min(1.0, max(-1.0, value + gain))
