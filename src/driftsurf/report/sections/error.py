"""Error over time: the model, other models of the trace, and trivial predictions; with the numbers that matter."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from driftsurf.core.contracts import FloatArray
from driftsurf.core.wording import BASELINE_NAMES, counted
from driftsurf.evaluation.summary import baseline_errors
from driftsurf.evaluation.trace import Trace
from driftsurf.report import html
from driftsurf.report.figure import SERIES_STYLES, Curve, Figure, usual_top
from driftsurf.report.sections import RunView, Section
from driftsurf.report.sections.numbers import main_numbers

BASELINE_STYLES = {"majority": "limit", "mean": "limit", "persistence": "rival"}
FEW_ROWS, POINT_ROWS = 10, 50
"""In steps of fewer rows, a point of the curve is about so many rows."""
LEAST_TOP = 0.1
"""The axis of a share of rows reaches at least this far."""


def build(run: RunView) -> Iterator[str | Figure]:
    """Return the figure, its caption, and the numbers."""
    yield _figure(run)
    yield html.note(f"{_caption(run)} {_extent(run)}")
    yield html.cards(main_numbers(run))


def _figure(run: RunView) -> Figure:
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
        Curve(BASELINE_NAMES[name], BASELINE_STYLES[name], _shown(trace, error)) for name, error in trivial.items()
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
    return _shown(trace, trace.of(model)["error" if trace.labels else "squared_error"])


def _shown(trace: Trace, error: FloatArray) -> list[float]:
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


SECTION = Section("Error over time", 10, build, folded=False)
