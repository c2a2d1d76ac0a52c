"""Errors, precision, recall and F1 by class, over time and in all."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from driftsurf.core.contracts import FloatArray
from driftsurf.errors.visible import escape
from driftsurf.evaluation.summary import class_metrics, class_metrics_over_time, describe_later_classes
from driftsurf.report import html
from driftsurf.report.figure import SERIES_STYLES, Curve, Figure, per_row
from driftsurf.report.sections import RunView, Section

MOST_LISTED = 50
"""Classes in the table; the figure has as many as there are colours."""


def build(run: RunView) -> Iterator[str | Figure]:
    """Return the figures and the table; nothing for regression, or if the trace does not count errors by class."""
    if run.trace.labels and f"wrong:{run.trace.labels[0]}" in run.trace.columns:
        later = describe_later_classes(run.trace, run.model)
        which = ""
        if len(run.trace.labels) > len(SERIES_STYLES):
            which = (
                f" The figure has the {len(SERIES_STYLES)} classes with the most wrong predictions, because more "
                "curves could not be told apart; the table has the others."
            )
        yield html.note(f"The share of the rows of each class that was predicted wrongly.{which} {later}".rstrip())
        yield _errors(run)
        yield _table(run)
        if run.named_classes:
            yield html.note(_caption(run))
            yield _quality(run)


def _errors(run: RunView) -> Figure:
    """Draw the classes with the most wrong predictions; a class has a gap at steps without rows of it."""
    columns, labels = run.trace.of(run.model), list(run.trace.labels)
    worst = sorted(labels, key=lambda label: -int(columns[f"wrong:{label}"].sum()))[: len(SERIES_STYLES)]
    series = [
        Curve(str(label), css, per_row(columns[f"wrong:{label}"], columns[f"true:{label}"]))
        for label, css in zip(sorted(worst, key=labels.index), SERIES_STYLES, strict=False)
    ]
    return Figure("classes", f"error of {run.model} by class over time", "error", 1.0, series)


def _table(run: RunView) -> str:
    counted, labels = run.trace.counted(run.model), run.trace.labels
    metrics = class_metrics(run.trace, run.model)

    def rows() -> Iterator[Sequence[str]]:
        for label in labels[:MOST_LISTED]:
            one, wrong = metrics[label], int(counted[f"wrong:{label}"].sum())
            counts = f"{one.rows:,}", f"{one.predicted:,}", f"{wrong:,}"
            error = wrong / one.rows if one.rows else math.nan
            yield escape(str(label)), *counts, *map(_share, (error, one.precision, one.recall, one.f1))

    more = len(labels) - MOST_LISTED
    note = html.note(f"The first {MOST_LISTED} classes; the trace has {more:,} more.") if more > 0 else ""
    heads = ("class", "rows", "predicted", "predicted wrongly", "error", "precision", "recall", "F1")
    return html.wide_table(heads, rows(), numbers=range(1, len(heads))) + note


def _share(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.3f}"


def _caption(run: RunView) -> str:
    whose = "the mean over the classes" if run.positive is None else f"those of class {run.positive}"
    text = (
        f"Precision is the share of rows predicted as a class that belong to it, recall the share of its rows that "
        f"were found, and F1 their harmonic mean; the figure shows {whose}."
    )
    if run.scores is not None and not math.isnan(run.scores.auc):
        text += " ROC AUC is the chance that a row of a class has a higher score for it than another row of the step."
    return text


def _quality(run: RunView) -> Figure:
    """Draw precision, recall and F1 of the positive class, or their means over all classes, and the ROC AUC."""
    labels = run.named_classes if run.positive is None else [run.positive]
    by_class = [class_metrics_over_time(run.trace, run.model, label) for label in labels]
    series = [
        Curve(name, css, _mean([one[place] for one in by_class]))
        for place, (name, css) in enumerate(zip(("precision", "recall", "F1"), SERIES_STYLES, strict=False))
    ]
    if run.scores is not None and not math.isnan(run.scores.auc):
        series.append(Curve("ROC AUC", "curve", run.scores.column("auc").tolist()))
    return Figure("quality", f"precision, recall and F1 of {run.model} over time", "share", 1.0, series)


def _mean(curves: Sequence[FloatArray]) -> list[float]:
    """Return the mean of several curves at each step, without those that are not known there."""
    values = np.array(curves)
    known = ~np.isnan(values)
    total, count = np.where(known, values, 0.0).sum(axis=0), known.sum(axis=0)
    found: list[float] = np.where(count > 0, total / np.maximum(count, 1), np.nan).tolist()
    return found


SECTION = Section("Classes", 40, build)
