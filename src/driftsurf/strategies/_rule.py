"""The rule of DriftSurf: pure functions of numbers, which compiled code inlines.

A risk without evidence is NaN, and every comparison with NaN is false: no evidence, no change.
"""

from __future__ import annotations

from driftsurf.kernels.compile import inline


@inline
def entering(risk: float, best: float, stable_risk: float, threshold: float, stable_threshold: float) -> int:
    """Return which condition to enter the reactive state holds: 1, 2, or 0 for neither.

    Condition 1: the risk of w on the new batch exceeds its best one, R_b, by more than delta. It fires at abrupt
    drifts. Condition 2: the risk of w exceeds that of the stable model w'' by more than delta'. It fires at drifts so
    gradual that R_b rises with them.

    >>> import math
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
