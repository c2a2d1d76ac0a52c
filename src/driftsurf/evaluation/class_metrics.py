"""Precision, recall and F1 of each class, from the counts of a trace."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from driftsurf.core.contracts import FloatArray
from driftsurf.evaluation import metrics
from driftsurf.evaluation.trace import Trace

__all__ = [
    "ClassMetrics",
    "ClassQuality",
    "class_metrics",
    "class_metrics_over_time",
    "class_quality",
    "describe_later_classes",
]

MOST_NAMED = 8
"""Classes that a sentence names."""


@dataclass(frozen=True, slots=True)
class ClassMetrics:
    """How well one class was predicted. A share is NaN if there are no rows to count.

    Examples
    --------
    >>> from driftsurf import DriftSurfClassifier, prequential
    >>> from driftsurf.evaluation import class_metrics
    >>> from driftsurf.streams import SEA
    >>> trace = prequential(SEA(n_rows=10_000), DriftSurfClassifier(random_state=0))
    >>> found = class_metrics(trace, "model")[1]
    >>> found.rows, round(found.precision, 2), round(found.recall, 2)
    (5000, 0.98, 0.97)
    """

    rows: int
    """Rows of the class."""
    predicted: int
    """Rows that were predicted as the class."""
    precision: float
    """Share of the rows predicted as the class that belong to it."""
    recall: float
    """Share of the rows of the class that were predicted as it."""
    f1: float
    """Harmonic mean of precision and recall; 0 if no row was predicted correctly."""


@dataclass(frozen=True, slots=True)
class ClassQuality:
    """How well a classifier predicted, beyond the share of wrong rows, which hides rare classes and wrong certainty."""

    kappa: float | None
    """Cohen's kappa: 1 if every row is right, 0 if no more rows are right than by chance; None for a single class."""
    balanced_error: float
    """Share of wrong rows of each class, averaged over the classes."""
    log_loss: float | None
    """Mean of -log p(true class); None for a model without probabilities."""


def class_quality(trace: Trace, model: str, first_step: int = 0) -> ClassQuality:
    """Return kappa, balanced error and log loss of all rows from a step on.

    Examples
    --------
    >>> from driftsurf import DriftSurfClassifier, prequential
    >>> from driftsurf.streams import SEA
    >>> found = class_quality(prequential(SEA(n_rows=10_000), DriftSurfClassifier(random_state=0)), "model", 1)
    >>> round(found.kappa, 2), round(found.balanced_error, 2)
    (0.96, 0.02)
    """
    run = {name: column[first_step:] for name, column in trace.of(model).items()}
    true, predicted, wrong = (
        np.array([run[f"{what}:{label}"].sum() for label in trace.labels], np.int64)
        for what in ("true", "predicted", "wrong")
    )
    there = true > 0
    kappa = metrics.kappa(int(true.sum() - wrong.sum()), true, predicted)
    loss = metrics.mean_error(run["log_loss"], run["rows"])
    return ClassQuality(
        None if np.isnan(kappa) else float(kappa),
        float(np.mean(wrong[there] / true[there])),
        None if np.isnan(loss) else loss,
    )


def class_metrics(trace: Trace, model: str) -> dict[Any, ClassMetrics]:
    """Return precision, recall and F1 of each class of a trace, without the warm-up steps.

    Examples
    --------
    >>> from driftsurf import DriftSurfClassifier, prequential
    >>> from driftsurf.streams import SEA
    >>> found = class_metrics(prequential(SEA(n_rows=10_000), DriftSurfClassifier(random_state=0)), "model")
    >>> {label: round(one.f1, 2) for label, one in found.items()}
    {-1: 0.97, 1: 0.97}
    """
    counted = trace.counted(model)
    found = {}
    for label in trace.labels:
        totals = {what: counted[f"{what}:{label}"].sum(keepdims=True) for what in ("true", "predicted", "wrong")}
        precision, recall, f1 = (float(one[0]) for one in _shares(totals))
        found[label] = ClassMetrics(int(totals["true"][0]), int(totals["predicted"][0]), precision, recall, f1)
    return found


def class_metrics_over_time(trace: Trace, model: str, label: Any) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return precision, recall and F1 of one class at each step; NaN where a share has no rows."""
    run = trace.of(model)
    return _shares({what: run[f"{what}:{label}"] for what in ("true", "predicted", "wrong")})


def describe_later_classes(trace: Trace, model: str) -> str:
    """Return a sentence on the classes whose first row came after the first scored step; empty if there are none."""
    run = trace.of(model)
    begun = int(np.argmax(run["rows"] > 0))
    first = {label: int(np.argmax(run[f"true:{label}"] > 0)) for label in trace.labels}
    later = [f"{label!r} at step {run['step'][place]}" for label, place in first.items() if place > begun]
    if not later:
        return ""
    more = f" and {len(later) - MOST_NAMED:,} more" if len(later) > MOST_NAMED else ""
    what = "A class" if len(later) == 1 else "Classes"
    return f"{what} that the first batch did not have: {', '.join(later[:MOST_NAMED])}{more}."


def _shares(counts: Mapping[str, npt.NDArray[Any]]) -> tuple[FloatArray, FloatArray, FloatArray]:
    right = (counts["true"] - counts["wrong"]).astype(np.float64)
    precision, recall, f1 = (
        np.divide(times * right, rows, out=np.full(len(right), np.nan), where=rows > 0)
        for times, rows in ((1, counts["predicted"]), (1, counts["true"]), (2, counts["true"] + counts["predicted"]))
    )
    return precision, recall, f1
