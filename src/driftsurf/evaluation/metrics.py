"""Metrics as pure functions of the columns of a trace, which have one entry for each step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from driftsurf.streams.base import DriftSpan

Numbers = npt.NDArray[Any]
Transitions = Sequence[Sequence[str]]
"""The kinds of the transitions of each step, as :meth:`Trace.transitions` returns them."""


def mean_error(error: Numbers, rows: Numbers) -> float:
    """Mean over all rows, from the mean of each step and its number of rows: every row counts the same.

    For steps of equal size it is the mean over the steps, which the paper reports. Steps whose error is NaN are left
    out; the mean is NaN if all are.

    >>> mean_error(np.array([0.5, 0.1]), rows=np.array([10, 30]))
    0.2
    """
    known = ~np.isnan(error)
    return float(np.average(error[known], weights=rows[known])) if known.any() else float("nan")


def average_precision(others: Numbers, own: Numbers) -> float:
    """Precision averaged over the rows of a class: of all rows with a score at least as high, the share of the class.

    ``others`` and ``own`` count the scores of other rows and of rows of the class in rising bins. The rows of a bin are
    taken to be mixed evenly, so that the precision in its middle counts for all of them. By chance, the average
    precision is the share of the class; it is NaN without a row of the class.

    >>> average_precision(np.array([3, 1, 0]), np.array([0, 1, 1]))  # 1 of 1 row, then 2 of 2.5
    0.9
    """
    there = np.flatnonzero(own)[::-1]
    found, rows = (np.cumsum(counts[::-1])[::-1] - (counts - 1) / 2 for counts in (own, others + own))
    return float(np.average((found / rows)[there], weights=own[there])) if len(there) else float("nan")


def kappa(correct: int, true_counts: Numbers, predicted_counts: Numbers) -> float:
    """Cohen's kappa: where the accuracy lies between chance (0) and perfection (1).

    ``true_counts`` and ``predicted_counts`` are the rows of each class and the rows predicted as it. Chance is the
    accuracy of random predictions in the same proportions.

    >>> kappa(correct=75, true_counts=np.array([50, 50]), predicted_counts=np.array([50, 50]))
    0.5
    """
    total = float(np.sum(true_counts))
    accuracy = correct / total
    chance = float(np.dot(true_counts, predicted_counts)) / total**2
    return float("nan") if chance == 1.0 else (accuracy - chance) / (1.0 - chance)


def kappa_temporal(errors: int, persistence_errors: int) -> float:
    """Kappa-T: where the accuracy lies between repeating the last label before each step (0) and perfection (1).

    >>> kappa_temporal(errors=10, persistence_errors=40)
    0.75
    """
    return float("nan") if persistence_errors == 0 else 1.0 - errors / persistence_errors


def recovery_by_training(first_row: Numbers, trained_from: Numbers, drifts: Sequence[DriftSpan]) -> list[int | None]:
    """Steps after each drift until the predicting model is trained on rows of the new concept alone.

    This is the paper's recovery time. It counts from the first step whose batch begins at or after the end of the
    drift. It is None if the next drift begins before that.

    >>> steps = np.arange(6)
    >>> recovery_by_training(10 * steps, np.array([0, 0, 0, 0, 20, 20]), [DriftSpan(20, 20)])
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
    drifts: Sequence[DriftSpan],
    tolerance: float = 0.1,
) -> list[int | None]:
    """Steps from the start of each drift until the error is within ``tolerance`` (10 %) of the oracle's.

    The oracle's error is its median until the next drift: right after the drift its model is untrained, and an error
    as large as that is no recovery. The time is None if the next drift begins before the recovery.

    >>> steps = np.arange(5)
    >>> error, oracle = np.array([0.1, 0.5, 0.3, 0.2, 0.2]), np.array([0.1, 0.5, 0.2, 0.2, 0.2])
    >>> recovery_by_error(10 * steps, error, oracle, [DriftSpan(10, 10)])
    [2]
    """
    times: list[int | None] = []
    for drift, until in _spans(drifts):
        within = np.flatnonzero((first_row >= drift.start) & (first_row < until))
        level = np.median(oracle_error[within]) if len(within) else np.nan
        good = within[error[within] <= (1.0 + tolerance) * level + 1e-12]
        times.append(int(good[0] - within[0]) if len(good) else None)
    return times


def reactions(transitions: Transitions, kind: str = "entered") -> npt.NDArray[np.int64]:
    """Steps at which the strategy reacted; a step appears once for each reaction.

    DriftSurf reacts by entering the reactive state. An algorithm that resets at once reacts by the ``kind`` "reset".

    >>> reactions([(), ("entered", "greedy"), ("switched",)]).tolist()
    [1]
    """
    times = [list(kinds).count(kind) for kinds in transitions]
    return np.repeat(np.arange(len(transitions)), times).astype(np.int64)


def false_reactions(
    first_row: Numbers,
    rows: Numbers,
    trained_from: Numbers,
    transitions: Transitions,
    drifts: Sequence[DriftSpan],
    kind: str = "entered",
) -> int:
    """Number of reactions without a cause.

    A reaction is false if no drift happens in its batch and the predicting model has recovered from all earlier
    drifts: it was trained only on rows after them.

    >>> kinds = [(), ("entered",), (), ("entered",)]
    >>> false_reactions(10 * np.arange(4), np.full(4, 10), np.zeros(4), kinds, [DriftSpan(30, 30)])
    1
    """
    count = 0
    for step in reactions(transitions, kind):
        last_row = first_row[step] + rows[step]
        begun = [drift for drift in drifts if drift.start < last_row]
        under_way = any(first_row[step] < max(drift.end, drift.start + 1) for drift in begun)
        recovered = not begun or trained_from[step] >= max(drift.end for drift in begun)
        count += bool(recovered and not under_way)
    return count


def share_reactive(state: Numbers) -> float:
    """Share of the steps in the reactive state.

    >>> share_reactive(np.array(["stable", "reactive", "stable", "stable"]))
    0.25
    """
    return float(np.mean(state == "reactive"))


def _spans(drifts: Sequence[DriftSpan]) -> list[tuple[DriftSpan, float]]:
    """Return each drift with the row at which the next one begins."""
    starts = [float(drift.start) for drift in drifts[1:]] + [np.inf]
    return list(zip(drifts, starts, strict=False))
