"""Errors by class, over time and in all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from driftsurf.report import html
from driftsurf.report.figure import SERIES_STYLES, Figure, Series, per_row
from driftsurf.report.sections import RunView, Section

MOST_LISTED = 50
"""Classes in the table; the figure has as many as there are colours."""


def build(run: RunView) -> Iterator[str | Figure]:
    """Return the figure and the table; nothing for regression, or if the trace does not count errors by class."""
    if run.trace.labels and f"wrong:{run.trace.labels[0]}" in run.trace.columns:
        yield html.note("The share of the rows of each class that was predicted wrongly.")
        yield _figure(run)
        yield _table(run)


def _figure(run: RunView) -> Figure:
    """Draw the most frequent classes; a class has a gap at steps without rows of it."""
    columns, labels = run.trace.of(run.model), run.trace.labels
    frequent = sorted(labels, key=lambda label: -int(columns[f"true:{label}"].sum()))[: len(SERIES_STYLES)]
    series = [
        Series(str(label), css, per_row(columns[f"wrong:{label}"], columns[f"true:{label}"]))
        for label, css in zip(sorted(frequent, key=labels.index), SERIES_STYLES, strict=False)
    ]
    return Figure("classes", f"error of {run.model} by class over time", "error", 1.0, series)


def _table(run: RunView) -> str:
    columns = run.trace.counted(run.model)
    labels = run.trace.labels

    def rows() -> Iterator[Sequence[str]]:
        for label in labels[:MOST_LISTED]:
            true, predicted, wrong = (int(columns[f"{what}:{label}"].sum()) for what in ("true", "predicted", "wrong"))
            share = f"{wrong / true:.3f}" if true else "-"
            yield escape(str(label)), f"{true:,}", f"{predicted:,}", f"{wrong:,}", share

    more = len(labels) - MOST_LISTED
    note = html.note(f"The first {MOST_LISTED} classes; the trace has {more:,} more.") if more > 0 else ""
    heads = ("class", "rows", "predicted", "predicted wrongly", "error")
    return html.wide_table(heads, rows(), numbers=range(1, 5)) + note


SECTION = Section("Errors by class", 40, build)
