"""Error over time: the model, other models of the trace, and trivial predictions."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from driftsurf.core.contracts import FloatArray
from driftsurf.evaluation.baselines import BASELINE_WORDS, baseline_errors, baselines
from driftsurf.evaluation.trace import Trace
from driftsurf.report import html
from driftsurf.report.figure import SERIES_STYLES, Figure, Series, usual_top
from driftsurf.report.sections import RunView, Section
from driftsurf.visible import escape

BASELINE_STYLES = {"majority": "limit", "mean": "limit", "persistence": "rival"}
LEAST_TOP = 0.1
"""The axis of a share of rows reaches at least this far."""


def build(run: RunView) -> Iterator[str | Figure]:
    """Return the caption, the figure, and the errors beside those of trivial predictions."""
    yield html.note(_caption(run))
    yield _figure(run)
    trivial = baselines(run.trace, run.model, run.scores)
    rows = [(escape(run.model), trivial.number(trivial.own), "")]
    rows += [
        (
            f'{name}<span class="meaning">{BASELINE_WORDS[name]}</span>',
            trivial.number(error),
            _difference(trivial.own, error),
        )
        for name, error in trivial.others.items()
    ]
    yield html.wide_table(("prediction", trivial.measure, "the model is"), rows, numbers=(1, 2))


def _difference(own: float, other: float) -> str:
    """Return by how much the error of the model is smaller or larger than another one."""
    if own == other or not other:
        return "equally good" if own == other else "worse"
    return f"{abs(1.0 - own / other):.0%} {'better' if own < other else 'worse'}"


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
    trivial = baseline_errors(trace, model)
    series += [Series(name, BASELINE_STYLES[name], _shown(trace, error)) for name, error in trivial.items()]
    series.append(Series(model, "curve", _errors(trace, model), marked=True))
    known = np.concatenate([one.values for one in series])
    top = 1.05 * max(LEAST_TOP, float(np.nanmax(known))) if trace.labels else usual_top(known[np.isfinite(known)])
    unit = "error" if trace.labels else "root mean squared error"
    return Figure("error", f"error of {model} over time", unit, top, series)


def _errors(trace: Trace, model: str) -> list[float]:
    return _shown(trace, trace.of(model)["error" if trace.labels else "squared_error"])


def _shown(trace: Trace, error: FloatArray) -> list[float]:
    """Return shares of rows as they are, and squared errors as roots without the warm-up, for which 0 was predicted."""
    shown = error if trace.labels else np.sqrt(error)
    if not trace.labels and trace.warmup_steps < len(shown):
        shown[: trace.warmup_steps] = np.nan
    found: list[float] = shown.tolist()
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
