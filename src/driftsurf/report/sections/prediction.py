"""Sections of the run page on the error over time and before labels, all numbers, recovery from drifts, and costs."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from driftsurf.core.contracts import FloatArray
from driftsurf.core.wording import BASELINE_NAMES, BASELINE_WORDS, counted, percent, significant
from driftsurf.errors.visible import escape
from driftsurf.evaluation.summary import (
    ClassificationSummary,
    Summary,
    baseline_errors,
    class_metrics,
    estimated_errors,
    summarise_classification,
    summarise_regression,
)
from driftsurf.evaluation.trace import Trace
from driftsurf.report import html
from driftsurf.report.figure import SERIES_STYLES, Curve, Figure, per_row, usual_top
from driftsurf.report.sections import RunView, section
from driftsurf.runs.explanation.lineage import experts_of
from driftsurf.runs.folder import WORK, WORK_PER_ROW

BASELINE_STYLES = {"majority": "limit", "mean": "limit", "persistence": "rival"}
FEW_ROWS, POINT_ROWS = 10, 50
"""In steps of fewer rows, a point of the curve is about so many rows."""
LEAST_TOP = 0.1
"""The axis of a share of rows reaches at least this far."""


@section("Error over time", 10, folded=False)
def error(run: RunView) -> Iterator[str | Figure]:
    """Return the figure, its caption, and the numbers."""
    yield _error_figure(run)
    yield html.note(f"{_caption(run)} {_extent(run)}")
    yield html.cards(main_numbers(run))


def _error_figure(run: RunView) -> Figure:
    trace, model, oracle = run.trace, run.model, run.oracle
    others = [name for name in trace.models if name != model]
    styles = {name: SERIES_STYLES[place % len(SERIES_STYLES)] for place, name in enumerate(others)}
    if oracle is not None:
        styles[oracle] = "oracle"
    series = [
        Curve(f"{name} (oracle)" if name == oracle else name, css, _errors(trace, name)) for name, css in styles.items()
    ]
    trivial = baseline_errors(trace, model)
    if run.trivial.rare is not None:  # a whole batch predicted as the rare class would hide the other curves
        del trivial["persistence"]
    series += [
        Curve(BASELINE_NAMES[name], BASELINE_STYLES[name], _smoothed(trace, error)) for name, error in trivial.items()
    ]
    series.append(Curve(model, "curve", _errors(trace, model), marked=True))
    stride = _stride(run)
    if stride > 1:
        series = [one.thinned(stride) for one in series]
    known = np.concatenate([one.values for one in series])
    known = known[np.isfinite(known)]
    top = 1.05 * max(LEAST_TOP, known.max(initial=0.0)) if trace.labels or not len(known) else usual_top(known)
    unit = "error" if trace.labels else "root mean squared error"
    return Figure("error", f"error of {model} over time", unit, top, series)


def _stride(run: RunView) -> int:
    """Return how many steps a point of the curve is the mean of: in steps of few rows, shares are mostly 0 or 1."""
    rows = float(run.trace.of(run.model)["rows"].mean())
    return math.ceil(POINT_ROWS / rows) if run.trace.labels and 0 < rows < FEW_ROWS else 1


def _errors(trace: Trace, model: str) -> list[float]:
    return _smoothed(trace, trace.of(model)["error" if trace.labels else "squared_error"])


def _smoothed(trace: Trace, error: FloatArray) -> list[float]:
    """Return shares of rows as they are, and squared errors as roots, without what an untrained model predicted."""
    shown = error.copy() if trace.labels else np.sqrt(error)
    shown[: trace.warmup_steps] = np.nan
    found: list[float] = shown.tolist()
    return found


def _caption(run: RunView) -> str:
    trace = run.trace
    text = "The share of each batch that was predicted wrongly, before the batch was learned."
    if not trace.labels:
        text = "The root mean squared error of each batch before it was learned, in the unit of the label."
    stride = _stride(run)
    if stride > 1:
        text += f" A point of the curve is the mean of {stride} steps."
    if run.oracle and trace.drifts:
        when = "at each" if trace.labels else "after the first batch of each"
        text += (
            f" The oracle ({run.oracle}) knows the drifts and starts a fresh model {when}, which may not pay off for a "
            "weak drift."
        )
    return text


def _extent(run: RunView) -> str:
    """Return rows, steps and, for a stream whose true drifts are known, those in words."""
    trace, columns = run.trace, run.trace.of(run.model)
    steps, rows = len(columns["step"]), int(columns["rows"].sum())
    endless = any(drift.start == 0 and drift.end >= rows for drift in trace.drifts)
    drifts = "it drifts all the time" if endless else counted(len(trace.drifts), "true drift")
    text = f"{counted(rows, 'row')} in {counted(steps, 'step')} of {_sizes(columns['rows'])}"
    if trace.drifts or run.oracle is not None:  # the drifts of a file or of a service are not known
        text += f"; {drifts if trace.drifts else 'no true drift'}"
    text += "."
    if run.unlabelled:
        text += f" Without a label, and therefore only predicted: {counted(run.unlabelled, 'row')}."
    if not trace.warmup_steps:
        return text
    if steps <= trace.warmup_steps:
        return f"{text} There is only one batch, so everything was predicted before anything was learned."
    return f"{text} The first batch is left out, here and in mean errors: nothing had been learned before it."


def _sizes(rows: npt.NDArray[Any]) -> str:
    """Return the sizes of the steps in words; a shorter last step is not mentioned."""
    rows = rows[rows > 0]
    least, most = int(rows[: max(len(rows) - 1, 1)].min()), int(rows.max())
    return counted(most, "row") if least == most else f"{int(rows.min()):,} to {most:,} rows"


@section("Error before the labels", 11, folded=False)
def estimates(run: RunView) -> Iterator[str | Figure]:
    """Return the estimated and the true error as a figure, and a sentence; nothing if the run estimated no error."""
    found = estimated_errors(run.trace, run.model)
    if found is None:
        return
    at, shares = found.at.tolist(), bool(run.trace.labels)
    series = [
        Curve("90 % interval, lower end", "limit", found.low.tolist(), at),
        Curve("90 % interval, upper end", "limit", found.high.tolist(), at),
        Curve("true error", "rival", found.true.tolist(), at),
        Curve("estimated error", "curve", found.value.tolist(), at, marked=True),
    ]
    known = np.concatenate([found.true, found.value])
    top = 1.05 * max(LEAST_TOP, float(known.max()), float(np.quantile(found.high, 0.9)))
    unit = "error" if shares else "root mean squared error"
    yield Figure("estimate", "estimated and true error over time", unit, top if shares else usual_top(known), series)
    yield html.note(
        f"{found.describe(shares=shares)} It is estimated from the model's own probabilities, how far its experts "
        "disagree, and the labels that had come. No estimate can see labels that change while the inputs stay."
    )


@section("All numbers", 16)
def numbers(run: RunView) -> Iterator[str]:
    """Return the table of errors, and the numbers that do not stand at the top of the page."""
    trivial = run.trivial
    rows = [(escape(run.model), trivial.number(trivial.own), "")]
    rows += [
        (
            f'{BASELINE_NAMES[name]}<span class="meaning">{BASELINE_WORDS[name]}</span>',
            trivial.number(error),
            _difference(trivial.own, error),
        )
        for name, error in trivial.others.items()
    ]
    yield html.wide_table(("prediction", trivial.measure, "the model is"), rows, numbers=(1, 2))
    yield html.cards(_other_numbers(run))


def _difference(own: float, other: float) -> str:
    """Return by how much the error of the model is smaller or larger than another one."""
    if own == other or not other:
        return "equally good" if own == other else "worse"
    return f"{percent(abs(1.0 - own / other))} {'better' if own < other else 'worse'}"


def main_numbers(run: RunView) -> Iterator[tuple[str, str]]:
    """Yield the few numbers that stand at the top of the page."""
    summary, trace, oracle, trivial = run.summary, run.trace, run.oracle, run.trivial
    classes = isinstance(summary, ClassificationSummary)
    *rare, (measure, error, _) = trivial.headline
    for name, own, (majority, *_) in rare:
        yield name if majority == "-" else f"{name}; of the most frequent class {majority}", own
    yield measure, error
    if not trivial.learned:
        return
    if oracle is not None:
        yield (
            f"{oracle} (oracle)",
            f"{summarise_classification(trace, oracle).mean_error:.4f}"
            if classes
            else significant(summarise_regression(trace, oracle).root_mean_squared_error),
        )
    if trivial.others:
        name = min(trivial.others, key=trivial.others.__getitem__)
        yield f"{trivial.measure} when {BASELINE_WORDS[name]}", trivial.number(trivial.others[name])
    if not isinstance(summary, ClassificationSummary):
        yield "mean absolute error", significant(summary.mean_absolute_error)
        if run.scores is not None and not math.isnan(r2 := run.scores.r_squared(summary.mean_squared_error)):
            yield "R²", f"{r2:.3f}"
        return
    if trivial.rare is not None:
        return
    if run.scores is not None and not math.isnan(run.scores.auc):
        yield "ROC AUC", f"{run.scores.auc:.3f}"
    if run.positive is not None and f"wrong:{run.positive}" in trace.columns:
        yield f"F1 of class {run.positive}", f"{class_metrics(trace, run.model)[run.positive].f1:.3f}"


def _other_numbers(run: RunView) -> Iterator[tuple[str, str]]:
    summary = run.summary
    if not run.trivial.learned:
        return
    if isinstance(summary, ClassificationSummary):
        if run.trivial.rare is not None and run.scores is not None and not math.isnan(run.scores.auc):
            yield "ROC AUC", f"{run.scores.auc:.3f}"
        if not math.isnan(summary.kappa):  # it is undefined where classes are counted together
            yield "kappa", f"{summary.kappa:.3f}"
    else:
        yield "skill over the mean", f"{summary.skill_over_mean:.3f}"
        yield "skill over repeating the last label", f"{summary.skill:.3f}"
    for name, count in reaction_rows(summary, run.looks_for_drift, experts=bool(experts_of(run.decisions))).items():
        yield name, str(count)
        if name.startswith("reactions") and summary.false_reactions is not None:
            yield "false reactions", str(summary.false_reactions)
    if run.looks_for_drift == "thresholds":
        yield "steps that test a new model", percent(summary.share_reactive)
    if not math.isnan(work := run.trace.gradients_per_row(summary.model)):
        yield WORK_PER_ROW[run.work], f"{work:.2f}"


def reaction_rows(summary: Summary, looks_for_drift: str, *, experts: bool) -> dict[str, int]:
    """Return how often a model reacted, by name: what the detection of drift can lead to, and what happened.

    ``looks_for_drift`` is what :func:`~driftsurf.runs.explanation.records.looks_for_drift` returns. With ``experts`` it
    is a portfolio, and the names say that its experts did it.
    """
    by = " by experts" if experts else ""
    both, fresh = (
        looks_for_drift == "thresholds" or summary.reactions > 0,
        looks_for_drift == "detector" or summary.fresh_starts > 0,
    )
    rows = {f"reactions{by}": summary.reactions} if both else {}
    rows |= {f"switches to a new model{by}": summary.switches} if both or summary.switches else {}
    return rows | ({f"fresh starts{by}": summary.fresh_starts} if fresh else {})


@section("Recovery from the known drifts", 90)
def recovery(run: RunView) -> Iterator[str]:
    """Return the table of recovery times; nothing without known drifts."""
    summary = run.summary
    if not summary.drift_steps:
        return
    heads = (
        "drift at step",
        "steps until it predicts from new rows alone",
        "steps until its error is within 10&thinsp;% of the oracle&rsquo;s",
    )
    by_error = summary.recovery_by_error or (None,) * len(summary.drift_steps)
    rows = [
        (f"{first}" if first == last else f"{first} to {last}", _recovery_time(trained), _recovery_time(close))
        for (first, last), trained, close in zip(
            summary.drift_steps, summary.recovery_by_training, by_error, strict=True
        )
    ]
    yield html.wide_table(heads, rows, numbers=range(3))
    yield html.note(
        "The first number counts from the end of the drift, the second from its start. The error of the oracle is its "
        "median until the next drift."
    )


def _recovery_time(steps: int | None) -> str:
    return "not before the next drift" if steps is None else str(steps)


@section("Costs", 80)
def costs(run: RunView) -> Iterator[str | Figure]:
    """Return the figure and the table."""
    per = WORK_PER_ROW[run.work]
    yield html.note(f"{per[0].upper()}{per[1:]} in each step: the work of learning.")
    yield _cost_figure(run)
    yield from _cost_table(run)


def _cost_figure(run: RunView) -> Figure:
    models = run.trace.models
    styles = ["curve", *(SERIES_STYLES[place % len(SERIES_STYLES)] for place in range(len(models) - 1))]
    series = [
        Curve(name, css, per_row(run.trace.of(name)["gradients"], run.trace.learned(name)))
        for name, css in zip(models, styles, strict=True)
    ]
    top = 1.1 * max([value for one in series for value in one.values if not math.isnan(value)], default=1.0)
    unit = WORK_PER_ROW[run.work]
    return Figure("costs", f"{unit} over time", unit, max(top, 1e-3), series)


def _cost_table(run: RunView) -> Iterator[str]:
    heads = ["model", WORK[run.work], WORK_PER_ROW[run.work]] + ["seconds", "rows/s"] * bool(run.seconds)
    rows = []
    for name in run.trace.models:
        columns = run.trace.of(name)
        gradients, work = int(columns["gradients"].sum()), run.trace.gradients_per_row(name)
        row = [escape(name), f"{gradients:,}", "-" if math.isnan(work) else f"{work:.2f}"]
        if run.seconds:
            taken = run.seconds.get(name, 0.0)
            measured = int(run.trace.learned(name)[run.seconds_from :].sum())
            row += [f"{taken:.3f}", f"{measured / taken:,.0f}"] if taken else ["-", "-"]
        rows.append(row)
    yield html.wide_table(heads, rows, numbers=range(1, len(heads)))
    if not run.seconds and not run.about.get("served"):  # a served model records no seconds
        yield (
            '<p class="soft">Measured seconds are in timings.json, so that this page is the same each time the run is '
            "repeated. <code>driftsurf explain RUN --html FILE</code> writes a page with them.</p>"
        )
    elif run.seconds_from:
        yield html.note(f"Seconds since step {run.seconds_from}, where the run was resumed.")
