"""The work of learning: gradients over time, and gradients and seconds in all."""

from __future__ import annotations

import math
from collections.abc import Iterator

from driftsurf.errors.visible import escape
from driftsurf.report import html
from driftsurf.report.figure import SERIES_STYLES, Curve, Figure, per_row
from driftsurf.report.sections import RunView, Section
from driftsurf.runs.folder import WORK, WORK_PER_ROW


def build(run: RunView) -> Iterator[str | Figure]:
    """Return the figure and the table."""
    per = WORK_PER_ROW[run.work]
    yield html.note(f"{per[0].upper()}{per[1:]} in each step: the work of learning.")
    yield _figure(run)
    yield from _table(run)


def _figure(run: RunView) -> Figure:
    models = run.trace.models
    styles = ["curve", *(SERIES_STYLES[place % len(SERIES_STYLES)] for place in range(len(models) - 1))]
    series = [
        Curve(name, css, per_row(run.trace.of(name)["gradients"], run.trace.learned(name)))
        for name, css in zip(models, styles, strict=True)
    ]
    top = 1.1 * max([value for one in series for value in one.values if not math.isnan(value)], default=1.0)
    unit = WORK_PER_ROW[run.work]
    return Figure("costs", f"{unit} over time", unit, max(top, 1e-3), series)


def _table(run: RunView) -> Iterator[str]:
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


SECTION = Section("Costs", 80, build)
