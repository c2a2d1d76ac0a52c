"""Residuals of a regression over time, and how much of the variance the predictions explain."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from driftsurf.evaluation.scores import QUANTILES
from driftsurf.report import html
from driftsurf.report.figure import Curve, Figure, usual_top
from driftsurf.report.sections import RunView, Section

CAPTION = (
    "Prediction minus true value at each step: the median, the middle half of the rows (25 to 75 %) and nearly all "
    "of them (5 to 95 %). Above 0 the model predicted too much."
)
R2_CAPTION = (
    "R² of each step: 1 is perfect, and 0 is as good as the mean of the step itself, which no model knows beforehand. "
    "Mean absolute error and root mean squared error are in the unit of the label."
)
STYLES = "series-4", "series-1", "curve", "series-1", "series-4"


def build(run: RunView) -> Iterator[str | Figure]:
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
        Curve(name, css, quantiles[:, k].tolist()) for k, (name, css) in enumerate(zip(names, STYLES, strict=True))
    ]
    known = np.abs(quantiles[first:])
    reach = usual_top(known.max(axis=1))
    yield html.note(CAPTION)
    yield Figure(
        "residuals", f"residuals of {run.model} over time", "prediction minus truth", reach, series, bottom=-reach
    )
    yield html.note(R2_CAPTION)
    yield _errors(run, first)
    yield _explained(run, first)


def _errors(run: RunView, first: int) -> Figure:
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


SECTION = Section("Residuals", 46, build)
