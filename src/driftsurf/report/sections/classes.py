"""Sections of the run page on predictions: classes, confusions, calibration, residuals of a regression."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from driftsurf.core.contracts import FloatArray
from driftsurf.errors.visible import escape
from driftsurf.evaluation.scores import QUANTILES, ProbabilityOf
from driftsurf.evaluation.summary import class_metrics, class_metrics_over_time, describe_later_classes
from driftsurf.report import html
from driftsurf.report.figure import SERIES_STYLES, Curve, Figure, drawing, element, per_row, usual_top
from driftsurf.report.sections import RunView, section

MOST_CLASSES = 50
"""Classes in the table; the figure has as many as there are colours."""


@section("Classes", 40)
def classes(run: RunView) -> Iterator[str | Figure]:
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
        yield _class_errors(run)
        yield _class_table(run)
        if run.named_classes:
            yield html.note(_quality_caption(run))
            yield _quality(run)


def _class_errors(run: RunView) -> Figure:
    """Draw the classes with the most wrong predictions; a class has a gap at steps without rows of it."""
    columns, labels = run.trace.of(run.model), list(run.trace.labels)
    worst = sorted(labels, key=lambda label: -int(columns[f"wrong:{label}"].sum()))[: len(SERIES_STYLES)]
    series = [
        Curve(str(label), css, per_row(columns[f"wrong:{label}"], columns[f"true:{label}"]))
        for label, css in zip(sorted(worst, key=labels.index), SERIES_STYLES, strict=False)
    ]
    return Figure("classes", f"error of {run.model} by class over time", "error", 1.0, series)


def _class_table(run: RunView) -> str:
    counted, labels = run.trace.counted(run.model), run.trace.labels
    metrics = class_metrics(run.trace, run.model)

    def rows() -> Iterator[Sequence[str]]:
        for label in labels[:MOST_CLASSES]:
            one, wrong = metrics[label], int(counted[f"wrong:{label}"].sum())
            counts = f"{one.rows:,}", f"{one.predicted:,}", f"{wrong:,}"
            error = wrong / one.rows if one.rows else math.nan
            yield escape(str(label)), *counts, *map(_share, (error, one.precision, one.recall, one.f1))

    more = len(labels) - MOST_CLASSES
    note = html.note(f"The first {MOST_CLASSES} classes; the trace has {more:,} more.") if more > 0 else ""
    heads = ("class", "rows", "predicted", "predicted wrongly", "error", "precision", "recall", "F1")
    return html.wide_table(heads, rows(), numbers=range(1, len(heads))) + note


def _share(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.3f}"


def _quality_caption(run: RunView) -> str:
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


MOST_PAIRS = 10
FEW_CLASSES = 3
"""Up to this many classes, the matrix says it all."""
CONFUSION_CAPTION = (
    "Each line is a true class, each column a prediction. The shade is the share of the rows of the true class."
)
WARM_UP = " The first batch is left out."


@section("Confusions", 42)
def confusion(run: RunView) -> Iterator[str]:
    """Return the most frequent confusions and the whole matrix; nothing if pairs of classes were not counted."""
    if run.scores is None or not run.scores.labels:
        return
    labels, counts = run.scores.confusion()
    order = sorted(range(len(labels)), key=lambda place: run.class_order(labels[place]))
    names = [escape(str(labels[place])) for place in order]
    table = counts[order][:, order].tolist()
    if len(names) > FEW_CLASSES:
        yield from _pairs(names, table)
    lines = []
    for name, line in zip(names, table, strict=True):
        total = sum(line)
        shades = ((round(100 * count / total) if total else 0, count) for count in line)
        cells = "".join(f'<td class="number" style="--share:{shade}%">{count:,}</td>' for shade, count in shades)
        lines.append(f'<tr><th scope="row">{name}</th>{cells}<td class="number soft">{total:,}</td></tr>')
    heads = "".join(f'<th class="number" scope="col">{name}</th>' for name in names)
    first = f'<tr><th>true \\ predicted</th>{heads}<th class="number">rows</th></tr>'
    yield html.note(CONFUSION_CAPTION + WARM_UP * bool(run.trace.warmup_steps))
    yield f'<div class="wide"><table class="confusion">{first}{"".join(lines)}</table></div>'


def _pairs(names: Sequence[str], table: Sequence[Sequence[int]]) -> Iterator[str]:
    """Return the most frequent confusions as a table."""
    wrong = [(count, a, b) for a, line in enumerate(table) for b, count in enumerate(line) if count and a != b]
    if not wrong:
        return
    frequent = sorted(wrong, key=lambda one: (-one[0], one[1], one[2]))[:MOST_PAIRS]
    rows = [
        (names[a], names[b], f"{count:,}", f"{100 * count / sum(table[a]):.0f} % of {names[a]}")
        for count, a, b in frequent
    ]
    yield html.wide_table(("rows of", "were predicted as", "rows", "share"), rows, numbers=(2,))
    total = sum(count for count, _, _ in wrong)
    if len(wrong) > len(frequent):
        yield html.note(f"The {MOST_PAIRS} most frequent confusions; in all, {total:,} rows were confused.")


SIZE, LEFT, BOTTOM, GAP = 340, 56, 40, 12
"""Size and margins of the square drawing."""


@section("Calibration", 44)
def calibration(run: RunView) -> Iterator[str | Figure]:
    """Return the calibration curve and the figure over time; nothing if the run has no probabilities."""
    if run.scores is None:
        return
    positive = run.positive if run.scores.probability_of == "second" else None
    of: ProbabilityOf = "predicted" if positive is None else "second"
    probability, share, rows = run.scores.calibration(of)
    if not len(rows):
        return
    means, shares = run.scores.calibration_over_time(of)
    if positive is not None and run.scores.labels[1] != positive:  # the other class was counted
        probability, share, rows = 1.0 - probability[::-1], 1.0 - share[::-1], rows[::-1]
        means, shares = 1.0 - means, 1.0 - shares
    what = "correct predictions" if positive is None else f"class {positive}"
    whose = "the predicted class" if positive is None else f"class {positive}"
    yield html.note(
        f"Rows are grouped by their probability of {whose}. A point on the diagonal has the right probability; below "
        "it the model is too sure. Larger points have more rows. On average probability and share differ by "
        f"{run.scores.calibration_error(of):.3f} (the expected calibration error)."
    )
    yield _calibration_curve(probability, share, rows.astype(np.float64), what)
    yield html.note(f"Mean probability of {whose} and share of {what} at each step.")
    series = [
        Curve(f"share of {what}", "oracle", shares.tolist()),
        Curve("mean probability", "curve", means.tolist()),
    ]
    highest = float(np.nanmax(np.concatenate([means, shares])))
    yield Figure("calibration", f"calibration of {run.model} over time", "share", min(1.05, 1.2 * highest), series)


def _calibration_curve(probability: FloatArray, share: FloatArray, rows: FloatArray, what: str) -> str:
    """Return the calibration curve over the whole run as a square drawing."""

    def x(value: float) -> float:
        return LEFT + (SIZE - LEFT - GAP) * value

    def y(value: float) -> float:
        return SIZE - BOTTOM - (SIZE - BOTTOM - GAP) * value

    parts = []
    for tick in (0.0, 0.25, 0.5, 0.75, 1.0):
        parts.append(element("line", class_="grid", x1=x(0), x2=x(1), y1=y(tick), y2=y(tick)))
        parts.append(element("text", f"{tick:g}", class_="tick", x=LEFT - 8, y=y(tick) + 4, text_anchor="end"))
        parts.append(element("text", f"{tick:g}", class_="tick", x=x(tick), y=y(0) + 16, text_anchor="middle"))
    parts.append(element("line", class_="oracle", x1=x(0), y1=y(0), x2=x(1), y2=y(1)))
    places = list(zip(probability.tolist(), share.tolist(), strict=True))
    path = "M" + " L".join(f"{x(a):.1f} {y(b):.1f}" for a, b in places)
    parts.append(element("path", class_="curve", d=path))
    for (a, b), count in zip(places, rows.tolist(), strict=True):
        text = f"probability {a:.3f}, share {b:.3f}, {count:,.0f} rows"
        radius = 2.5 + 4.0 * float(np.sqrt(count / rows.max()))
        parts.append(element("circle", title=text, class_="dot", cx=x(a), cy=y(b), r=radius))
    middle, turned = (x(0) + x(1)) / 2, f"translate(12 {(y(0) + y(1)) / 2:g}) rotate(-90)"
    parts.append(element("text", "probability", class_="name", x=middle, y=SIZE - 6, text_anchor="middle"))
    parts.append(element("text", f"share of {what}", class_="name", transform=turned, text_anchor="middle"))
    drawn = drawing(SIZE, SIZE, f"calibration curve: share of {what} by probability", parts)
    return f'<div class="square">{drawn}</div>'


RESIDUALS_CAPTION = (
    "Prediction minus true value at each step: the median, the middle half of the rows (25 to 75 %) and nearly all "
    "of them (5 to 95 %). Above 0 the model predicted too much."
)
R2_CAPTION = (
    "R² of each step: 1 is perfect, and 0 is as good as the mean of the step itself, which no model knows beforehand. "
    "Mean absolute error and root mean squared error are in the unit of the label."
)
RESIDUALS_STYLES = "series-4", "series-1", "curve", "series-1", "series-4"


@section("Residuals", 46)
def residuals(run: RunView) -> Iterator[str | Figure]:
    """Return the figures; nothing for classes, or if the run did not record residuals."""
    if run.scores is None or run.trace.labels:
        return
    first = run.trace.warmup_steps if len(run.scores.lines) > run.trace.warmup_steps else 0
    unknown = [np.nan] * len(QUANTILES)
    quantiles = np.array([line.get("quantiles", unknown) for line in run.scores.lines], np.float64)
    quantiles[:first] = np.nan  # zero was predicted before anything was learned
    names = [f"{100 * quantile:.0f} % of the rows are below" for quantile in QUANTILES]
    names[len(names) // 2] = "median"
    series = [
        Curve(name, css, quantiles[:, k].tolist())
        for k, (name, css) in enumerate(zip(names, RESIDUALS_STYLES, strict=True))
    ]
    known = np.abs(quantiles[first:])
    reach = usual_top(known.max(axis=1))
    yield html.note(RESIDUALS_CAPTION)
    yield Figure(
        "residuals", f"residuals of {run.model} over time", "prediction minus truth", reach, series, bottom=-reach
    )
    yield html.note(R2_CAPTION)
    yield _residual_errors(run, first)
    yield _explained(run, first)


def _residual_errors(run: RunView, first: int) -> Figure:
    columns = run.trace.of(run.model)
    absolute, root = columns["absolute_error"].astype(np.float64), np.sqrt(columns["squared_error"])
    absolute[:first] = root[:first] = np.nan
    series = [
        Curve("root mean squared error", "series-0", root.tolist()),
        Curve("mean absolute error", "curve", absolute.tolist()),
    ]
    return Figure("sizes", f"errors of {run.model} over time", "error", usual_top(root[first:]), series)


def _explained(run: RunView, first: int) -> Figure:
    assert run.scores is not None
    columns = run.trace.of(run.model)
    spread = run.scores.column("squares") / columns["rows"]
    share = np.full(len(spread), np.nan)
    np.divide(columns["squared_error"], spread, out=share, where=spread > 0)
    explained = 1.0 - share
    explained[:first] = np.nan
    low = float(np.nanmin(np.append(explained, 0.0)))
    return Figure(
        "r2", f"R² of {run.model} over time", "R²", 1.05, [Curve("R²", "curve", explained.tolist())], max(low, -1.0)
    )
