"""Error over time: the model, other models of the trace, and trivial predictions."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from driftsurf.evaluation.trace import Trace
from driftsurf.report import html
from driftsurf.report.figure import SERIES_STYLES, Figure, Series, usual_top
from driftsurf.report.sections import RunView, Section

LEAST_TOP = 0.1
"""The axis of a share of rows reaches at least this far."""


def build(run: RunView) -> Iterator[str | Figure]:
    """Return the caption and the figure."""
    yield html.note(_caption(run))
    yield _figure(run)


def _figure(run: RunView) -> Figure:
    trace, model, oracle = run.trace, run.model, run.oracle
    others = [name for name in trace.models if name != model]
    styles = {name: SERIES_STYLES[place % len(SERIES_STYLES)] for place, name in enumerate(others)}
    if oracle is not None:
        styles[oracle] = "oracle"
    series = [
        Series(f"{name} (oracle)" if name == oracle else name, css, _errors(trace, name))
        for name, css in styles.items()
    ]
    if not trace.labels:
        trivial = {"repeating the last target": "persistence_error", "mean target so far": "constant_error"}
        styles_left = ("oracle", "limit") if oracle is None else SERIES_STYLES[:2]
        series += [
            Series(name, css, _roots(trace, model, column))
            for (name, column), css in zip(trivial.items(), styles_left, strict=True)
        ]
    series.append(Series(model, "curve", _errors(trace, model), marked=True))
    known = np.concatenate([one.values for one in series])
    top = 1.05 * max(LEAST_TOP, float(known.max())) if trace.labels else usual_top(known[np.isfinite(known)])
    unit = "error" if trace.labels else "root mean squared error"
    return Figure("error", f"error of {model} over time", unit, top, series)


def _errors(trace: Trace, model: str) -> list[float]:
    """Return the share of wrong rows of each step; for regression the root mean squared error, in its unit."""
    error: list[float] = trace.of(model)["error"].tolist() if trace.labels else _roots(trace, model, "squared_error")
    return error


def _roots(trace: Trace, model: str, column: str) -> list[float]:
    """Return the roots of a column of squared errors, without the warm-up steps, for which zero was predicted."""
    roots = np.sqrt(trace.of(model)[column])
    if trace.warmup_steps < len(roots):
        roots[: trace.warmup_steps] = np.nan
    found: list[float] = roots.tolist()
    return found


def _caption(run: RunView) -> str:
    trace = run.trace
    text = "The share of each batch that was predicted wrongly, before the batch was learned."
    if not trace.labels:
        text = "The root mean squared error of each batch before it was learned, in the unit of the label."
        if trace.warmup_steps:
            text += " The first batch is left out, because nothing had been learned before it."
    if run.oracle and trace.drifts:
        when = "at each" if trace.labels else "after the first batch of each"
        text += (
            f" The oracle ({run.oracle}) knows the drifts and starts a fresh model {when}, which may not pay off for a "
            "weak drift."
        )
    return text


SECTION = Section("Error over time", 10, build)
