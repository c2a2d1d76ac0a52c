"""Precision, recall and F1 of each class, from the counts of a trace; and how well a rare class is found."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from driftsurf.core.contracts import FloatArray
from driftsurf.core.wording import AVERAGE_PRECISION, HARDLY_ABOVE_CHANCE, percent, rare_class
from driftsurf.evaluation import metrics
from driftsurf.evaluation.scores import Scores
from driftsurf.evaluation.trace import OTHER, Trace

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


@dataclass(frozen=True, slots=True)
class RareClass:
    """How well a model finds the rare class of imbalanced labels. Unknown shares are NaN.

    Examples
    --------
    >>> print(RareClass("fraud", 0.02, recall=0.62, precision=0.4, average_precision=0.55).sentence)
    The model finds 62 % of class 'fraud' with a precision of 40 %; average precision 0.55, by chance 0.02.
    """

    label: Any
    share: float
    """Share of the rows that belong to the class, which is the precision of chance."""
    recall: float
    """Share of the rows of the class that were predicted as it."""
    precision: float
    """Share of the rows predicted as the class that belong to it."""
    average_precision: float = math.nan

    @property
    def sentence(self) -> str:
        """How well the class is found, in one sentence."""
        found = f"The model finds {percent(self.recall)} of class {self.label!r}"
        found += "" if math.isnan(self.precision) else f" with a precision of {percent(self.precision)}"
        if math.isnan(self.average_precision):
            return f"{found}, which {percent(self.share)} of the rows belong to."
        return f"{found}; average precision {self.average_precision:.2f}, by chance {self.share:.2g}."

    def headline(self, rules: Iterable[str]) -> list[tuple[str, str, list[str]]]:
        """Return the name of each figure, that of the model, and those of trivial rules, "-" where they are not known.

        The most frequent class so far finds no row, and its scores are all equal, so that its precision is chance.
        """
        majority = [rule == "majority" for rule in rules]
        chance, none = (["-" if not own else text for own in majority] for text in (f"{self.share:.3f}", "0 %"))
        precision = "-" if math.isnan(self.precision) else percent(self.precision)
        ranked = (AVERAGE_PRECISION, f"{self.average_precision:.3f}", chance)
        shown = [] if math.isnan(self.average_precision) else [ranked]
        shown += [("recall", percent(self.recall), none), ("precision", precision, ["-"] * len(majority))]
        return [(f"{name} of class {self.label}", own, others) for name, own, others in shown]

    @property
    def warning(self) -> str:
        """Warning in words if the class is found no better, or hardly better, than by chance; else empty."""
        if math.isnan(self.average_precision):
            return "" if self.recall else f"The model finds no row of class {self.label!r}."
        if self.average_precision >= HARDLY_ABOVE_CHANCE * self.share:
            return ""
        how = "no" if self.average_precision <= self.share else "hardly"
        numbers = f"average precision {self.average_precision:.4f} against {self.share:.4f}"
        return f"The model finds class {self.label!r} {how} better than chance: {numbers}."


def rare_class_of(trace: Trace, model: str, scores: Scores | None = None) -> RareClass | None:
    """Return how well a model finds the rare class, without the warm-up steps; None if labels are not imbalanced.

    ``scores`` has the average precision, if the run recorded it.

    Examples
    --------
    >>> from driftsurf import DriftSurfClassifier, prequential
    >>> from driftsurf.streams import SEA
    >>> rare_class_of(prequential(SEA(n_rows=10_000), DriftSurfClassifier(random_state=0)), "model") is None
    True
    """
    counted = trace.counted(model)
    counts = {label: int(counted[f"true:{label}"].sum()) for label in trace.labels}
    label = rare_class(counts)
    if label is None or label == OTHER:
        return None
    own = class_metrics(trace, model)[label]
    found = math.nan if scores is None else scores.average_precision(label)
    return RareClass(label, own.rows / sum(counts.values()), own.recall, own.precision, found)
