"""Metrics as pure functions over the columns of a trace: arrays with one entry a step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from driftsurf.streams.base import Drift

__all__ = [
    "false_reactions",
    "kappa",
    "kappa_temporal",
    "mean_error",
    "reactions",
    "recovery_by_error",
    "recovery_by_training",
    "share_reactive",
]

Numbers = npt.NDArray[Any]


def mean_error(error: Numbers) -> float:
    """The mean over steps of the share of rows predicted wrongly, as the paper reports it.

    >>> mean_error(np.array([0.5, 0.1]))
    0.3
    """
    return float(np.mean(error))


def kappa(correct: int, true_counts: Numbers, predicted_counts: Numbers) -> float:
    """Cohen's kappa: how far the accuracy lies between that of chance (0) and perfection (1).

    ``true_counts`` and ``predicted_counts`` say how often each class came and was predicted; their
    product is the accuracy of random predictions in the same proportions.

    >>> kappa(correct=75, true_counts=np.array([50, 50]), predicted_counts=np.array([50, 50]))
    0.5
    """
    total = float(np.sum(true_counts))
    accuracy = correct / total
    chance = float(np.dot(true_counts, predicted_counts)) / total**2
    return float("nan") if chance == 1.0 else (accuracy - chance) / (1.0 - chance)


def kappa_temporal(errors: int, persistence_errors: int) -> float:
    """Kappa-T: the same against predicting that the last label comes again; below 0 is worse than that.

    >>> kappa_temporal(errors=10, persistence_errors=40)
    0.75
    """
    return float("nan") if persistence_errors == 0 else 1.0 - errors / persistence_errors


def recovery_by_training(first_row: Numbers, trained_from: Numbers, drifts: Sequence[Drift]) -> list[int | None]:
    """The paper's recovery time, for each drift: steps until the predicting model knows only the new concept.

    Counted from the first step whose batch begins at the end of the drift (its start, if abrupt) or
    later; None if it does not happen before the next drift begins.

    >>> steps = np.arange(6)
    >>> recovery_by_training(10 * steps, np.array([0, 0, 0, 0, 20, 20]), [Drift(20, 20)])
    [2]
    """
    times: list[int | None] = []
    for drift, until in _spans(drifts):
        within = np.flatnonzero((first_row >= drift.end) & (first_row < until))
        good = within[trained_from[within] >= drift.end]
        times.append(int(good[0] - within[0]) if len(good) else None)
    return times


def recovery_by_error(
    first_row: Numbers,
    error: Numbers,
    oracle_error: Numbers,
    drifts: Sequence[Drift],
    tolerance: float = 0.1,
) -> list[int | None]:
    """For each drift: steps from its start until the error is within ``tolerance`` (10 %) of the oracle's.

    The oracle's error is taken as its median until the next drift: at the drift itself its model is
    untrained, and to be no worse than that would be no recovery. None if it does not happen in time.

    >>> steps = np.arange(5)
    >>> error, oracle = np.array([0.1, 0.5, 0.3, 0.2, 0.2]), np.array([0.1, 0.5, 0.2, 0.2, 0.2])
    >>> recovery_by_error(10 * steps, error, oracle, [Drift(10, 10)])
    [2]
    """
    times: list[int | None] = []
    for drift, until in _spans(drifts):
        within = np.flatnonzero((first_row >= drift.start) & (first_row < until))
        level = np.median(oracle_error[within]) if len(within) else np.nan
        good = within[error[within] <= (1.0 + tolerance) * level + 1e-12]
        times.append(int(good[0] - within[0]) if len(good) else None)
    return times


def reactions(transition: Numbers, kind: str = "entered") -> npt.NDArray[np.int64]:
    """The steps at which a reactive state was entered; a step stands once for each time.

    An algorithm that begins anew at once reacts by another ``kind`` of transition, "reset".

    >>> reactions(np.array(["", "entered+greedy", "switched"])).tolist()
    [1]
    """
    times = [kinds.split("+").count(kind) for kinds in transition]
    return np.repeat(np.arange(len(transition)), times).astype(np.int64)


def false_reactions(
    first_row: Numbers,
    rows: Numbers,
    trained_from: Numbers,
    transition: Numbers,
    drifts: Sequence[Drift],
    kind: str = "entered",
) -> int:
    """Reactions with nothing to react to.

    A reaction is false if no drift was under way in its batch and the predicting model was trained on
    rows after the last drift alone: it had recovered from all there was.

    >>> kinds = np.array(["", "entered", "", "entered"])
    >>> false_reactions(10 * np.arange(4), np.full(4, 10), np.zeros(4), kinds, [Drift(30, 30)])
    1
    """
    count = 0
    for step in reactions(transition, kind):
        last_row = first_row[step] + rows[step]
        begun = [drift for drift in drifts if drift.start < last_row]
        under_way = any(first_row[step] < max(drift.end, drift.start + 1) for drift in begun)
        recovered = not begun or trained_from[step] >= max(drift.end for drift in begun)
        count += bool(recovered and not under_way)
    return count


def share_reactive(state: Numbers) -> float:
    """The share of steps spent in the reactive state.

    >>> share_reactive(np.array(["stable", "reactive", "stable", "stable"]))
    0.25
    """
    return float(np.mean(state == "reactive"))


def _spans(drifts: Sequence[Drift]) -> list[tuple[Drift, float]]:
    """Each drift with the row at which the next one begins."""
    starts = [float(drift.start) for drift in drifts[1:]] + [np.inf]
    return list(zip(drifts, starts, strict=False))
