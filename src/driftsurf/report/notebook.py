"""Views of traces and runs in a notebook: tables, small figures, plots with matplotlib, and the progress of a run."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import numpy as np
import numpy.typing as npt

from driftsurf.core.decisions import TRANSITION_WORDS, Decision, alike, describe_alike, plain_expert
from driftsurf.core.drifts import Drifts
from driftsurf.core.frames import html_table
from driftsurf.core.wording import BASELINE_NAMES, counted, optional, significant
from driftsurf.errors import MissingExtraError
from driftsurf.errors.visible import escape
from driftsurf.evaluation.scores import Scores
from driftsurf.evaluation.summary import baselines, verdict_of
from driftsurf.evaluation.trace import Trace
from driftsurf.registry import register
from driftsurf.report.terminal import ProgressBar
from driftsurf.runs.plan import RunProgress, RunStart
from driftsurf.runs.result import RunResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = "#0072b2", "#888888", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"
WIDTH, HEIGHT, MARGIN = 640, 130, 48
SHOWN = 10
"""Number of transitions of a run that are listed."""


@register("page", "trace-html")
def trace_html(trace: Trace, drifts: Mapping[str, Drifts] | None = None, scores: Scores | None = None) -> str:
    """Return a trace as HTML: a curve of the error and a table with a line for each model.

    ``drifts`` are those that were found, by model; ``scores`` are those of the first model, if they were recorded.
    """
    if trace.is_empty:
        return f"<p>Trace of {escape(trace.stream)}: no row was scored</p>"
    steps, rows = len(np.unique(trace.columns["step"])), int(trace.of(trace.models[0])["rows"].sum())
    head = f"{escape(trace.stream)}: {counted(rows, 'row')} in {counted(steps, 'step')}"
    return f"<div><p>{head}</p>{_curves(trace, drifts or {})}{html_table(*_lines(trace, scores))}</div>"


@register("page", "run-html")
def result_html(result: RunResult) -> str:
    """Return the result of a run as HTML: the verdict, drifts, errors, a link to the page, and the rest folded."""
    link = f'<p>page: <a href="{escape(_address(result.page))}">{escape(str(result.page))}</a></p>'
    if result.keys is not None:
        drifts_html = result.drifts._repr_html_()
        return f"<div><p>{escape(result.model)} for each of {len(result.keys):,} keys</p>{drifts_html}{link}</div>"
    drifts, experts = result.drifts, result.experts
    parts = [f"<p><b>{escape(verdict_of(result.trace, result.model, drifts, result.scores).text)}</b></p>"]
    parts += [drifts._repr_html_()] if len(drifts) else []
    parts += [trace_html(result.trace, {result.model: drifts}, result.scores), link]
    if len(experts):
        parts.append(_folded("Experts at the end", experts._repr_html_()))
    listed = result.transitions
    if listed:
        shown = listed[-SHOWN:]
        named = any(one.expert for one in shown)
        last = [(one.step, one.phrase, one.reason, *[plain_expert(one.expert)] * named) for one in shown]
        head = "step", "what happened", "reason", *["expert"] * named
        more = "" if len(listed) <= SHOWN else f"; the last {SHOWN} of {len(listed):,}"
        parts.append(_folded(f"What the model did{more}", html_table(head, last)))
    return f"<div>{''.join(parts)}</div>"


def _folded(title: str, content: str) -> str:
    return f"<details><summary>{escape(title)}</summary>{content}</details>"


def _address(page: Path) -> str:
    """Return the address of a page: relative to the notebook if it is below its folder, which a server shows too."""
    page, here = page.resolve(), Path.cwd()
    return quote(page.relative_to(here).as_posix()) if page.is_relative_to(here) else page.as_uri()


def _lines(trace: Trace, scores: Scores | None) -> tuple[Sequence[str], list[Sequence[Any]]]:
    """Return the head and the lines of the table of models, with the trivial predictions at the end."""
    first = baselines(trace, trace.models[0], scores)
    names = [name for name, _, _ in first.headline]
    lines: list[Sequence[Any]] = []
    for model in trace.models:
        found = first if model == trace.models[0] else baselines(trace, model)
        own = {name: number for name, number, _ in found.headline}
        lines.append((model, *(own.get(name, "-") for name in names)))
    for place, rule in enumerate(first.others):
        lines.append((f"{BASELINE_NAMES[rule]} (trivial rule)", *(others[place] for _, _, others in first.headline)))
    return ("model", *names), lines


def _curves(trace: Trace, found: Mapping[str, Drifts]) -> str:
    """Return the error of each model at each step as a small figure with an axis.

    Dashed lines are the true drifts, areas the drifts that were found.
    """
    curves = {model: error_curve(trace, model) for model in trace.models[: len(COLOURS)]}
    finite = np.concatenate([values[np.isfinite(values)] for values in curves.values()])
    top, steps = float(finite.max(initial=0.0)) or 1.0, max(map(len, curves.values()))
    lines, key = list[str](), list[str]()
    for (model, values), colour in reversed([*zip(curves.items(), COLOURS, strict=False)]):
        points = " ".join(
            f"{_across(place, steps):.1f},{HEIGHT - 4 - (HEIGHT - 8) * value / top:.1f}"
            for place, value in enumerate(values.tolist())
            if math.isfinite(value)
        )
        lines.append(f'<polyline fill="none" stroke="{colour}" stroke-width="1.5" points="{points}"/>')
        key.append(f'<span style="color:{colour}">&#9644;</span> {escape(model)}')
    lines += [
        f'<line x1="{at:.1f}" x2="{at:.1f}" y1="0" y2="{HEIGHT}" stroke="#d55e00" stroke-dasharray="5 4"/>'
        for at in (_across(place, steps) for place in drift_places(trace))
    ]
    what = "error" if trace.labels else "root mean squared error"
    spans = [span for model in found for span in found_spans(trace, model, found[model])]
    drifts = optional(trace.drifts, "; dashed: drift") + optional(spans, "; shaded: drift that was found")
    areas = [
        f'<rect x="{_across(first, steps):.1f}" width="{max(2.0, _across(last, steps) - _across(first, steps)):.1f}" '
        f'y="0" height="{HEIGHT}" fill="#d55e00" fill-opacity="0.2"/>'
        for first, last in spans
    ]
    first, last = int(trace.columns["step"].min()), int(trace.columns["step"].max())
    marks = [(0, HEIGHT - 2, "end", "0"), (0, 12, "end", significant(top, 3))]
    marks += [(4, HEIGHT + 13, "start", f"step {first:,}"), (WIDTH - 4, HEIGHT + 13, "end", f"step {last:,}")]
    texts = "".join(
        f'<text x="{x}" y="{y}" text-anchor="{anchor}" font-size="11" fill="#777777">{text}</text>'
        for x, y, anchor, text in marks
    )
    axis = f'<path d="M4 0V{HEIGHT - 4}H{WIDTH - 4}" fill="none" stroke="#999999"/>'
    return (
        f'<svg viewBox="{-MARGIN} 0 {WIDTH + MARGIN} {HEIGHT + 18}" width="{WIDTH + MARGIN}" '
        f'style="max-width:100%" role="img" '
        f'aria-label="{what} of each step">{"".join([*areas, axis, *lines])}{texts}</svg>'
        f"<p>{what} of each step: {' '.join(reversed(key))}{drifts}</p>"
    )


def _across(place: float, steps: int) -> float:
    return 4 + (WIDTH - 8) * place / max(steps - 1, 1)


def error_curve(trace: Trace, model: str) -> npt.NDArray[np.float64]:
    """Return the share of wrong rows, or the root mean squared error, of each step of one model; NaN in the warm-up."""
    columns = trace.of(model)
    found = np.array(columns["error"] if trace.labels else np.sqrt(columns["squared_error"]))
    found[: trace.warmup_steps] = np.nan
    return found


def drift_places(trace: Trace) -> Iterator[float]:
    """Yield the step at which each known drift starts."""
    first_rows = trace.of(trace.models[0])["first_row"]
    for drift in trace.drifts:
        if drift.start:
            yield float(np.searchsorted(first_rows, drift.start))


def found_spans(trace: Trace, model: str, drifts: Drifts) -> Iterator[tuple[float, float]]:
    """Yield the first and the last place on the curve of each drift that was found; an open one lasts to the end."""
    columns = trace.of(model)
    ends = columns["first_row"] + columns["rows"]
    for one in drifts:
        last = int(ends[-1]) if one.ended_at_row is None else one.ended_at_row
        first, stop = (min(int(np.searchsorted(ends, row, side="right")), len(ends) - 1) for row in (one.row, last))
        yield float(first), float(stop)


# ---------------------------------------------------------------------------- progress


@register("page", "progress")
def run_progress(wanted: bool | None) -> RunProgress | None:
    """Return what shows the progress of a run; without a wish, None unless the code runs in a notebook."""
    if in_notebook():
        return NotebookProgress()
    return TerminalProgress() if wanted else None


def in_notebook() -> bool:
    """Return whether this code runs in a notebook, which can show HTML."""
    ipython: Any = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return type(shell).__name__ == "ZMQInteractiveShell"


class TerminalProgress:
    """The progress bar of the command line, on standard error."""

    def start(self, start: RunStart) -> None:
        """Show that the run begins."""
        regression = start.regression
        self._bar = ProgressBar(start.name, start.n_steps, model=start.model, errors=True, regression=regression)
        self._bar.passed(start.first_step, start.drifts)
        self._bar.__enter__()

    def step(self, step: int, model: str, error: float, decisions: tuple[Decision, ...]) -> None:
        """Show one step of one model."""
        self._bar(step, model, error, decisions)

    def close(self) -> None:
        """Remove the bar."""
        self._bar.__exit__(None, None, None)


class NotebookProgress:
    """A progress bar below a cell, replaced in place. It needs no package besides IPython."""

    UPDATES = 100
    """Number of times that the bar changes in a run of known length; else it changes at every such step."""

    def start(self, start: RunStart) -> None:
        """Show that the run begins."""
        ipython: Any = import_module("IPython.display")
        self._start = start
        self._html: Any = ipython.HTML
        self._last, self._done = "", start.first_step
        self._handle: Any = ipython.display(self._html(self._bar(start.first_step)), display_id=True)

    def step(self, step: int, model: str, error: float, decisions: tuple[Decision, ...]) -> None:
        """Show one step of one model."""
        if model != self._start.model:
            return
        for decision in decisions:
            for group in alike(decision.transitions):
                self._last = describe_alike(group)
        done, total = step + 1, self._start.n_steps
        self._done = done
        if done % max(1, (total or self.UPDATES) // self.UPDATES) == 0 or done == total:
            self._handle.update(self._html(self._bar(done)))

    def close(self) -> None:
        """Leave the bar as it is; without a known number of steps, full."""
        if self._start.n_steps is None:
            self._handle.update(self._html(self._bar(self._done, ended=True)))

    def _bar(self, done: int, *, ended: bool = False) -> str:
        total = self._start.n_steps
        sizes = 'value="1"' if ended else "" if total is None else f'value="{done}" max="{total}"'
        steps = f"{done:,} steps" if total is None else f"{done:,} of {total:,} steps"
        last = f"; {escape(self._last)}" if self._last else ""
        return f"<div>{escape(self._start.name)} <progress {sizes}></progress> {steps}{last}</div>"


MARKS = {"entered": "v", "switched": "^", "kept": "x", "reset": "^", "replaced": "^", "recalled": "^"}


@register("page", "plot")
def plot_trace(trace: Trace, ax: Axes | None = None, drifts: Mapping[str, Drifts] | None = None) -> Axes:
    """Draw the error of each model at each step, the known drifts, and the transitions of the first model.

    With ``drifts``, those that were found by model, these are marked in place of transitions.
    """
    if ax is None:
        try:
            from matplotlib import pyplot
        except ImportError as error:
            raise MissingExtraError("plot() needs matplotlib: pip install 'driftsurf[figures]'") from error
        ax = pyplot.subplots(figsize=(9, 3.5), layout="constrained")[1]
    for place, model in enumerate(trace.models):
        colour = COLOURS[place % len(COLOURS)]
        ax.plot(error_curve(trace, model), label=model, color=colour, lw=1.4, zorder=3 if not place else 2)
    if trace.models:
        _mark(ax, trace, drifts)
        ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
    ax.set(title=trace.stream, xlabel="step", ylabel="error" if trace.labels else "root mean squared error")
    ax.set_ylim(bottom=0.0)
    return ax


def _mark(ax: Axes, trace: Trace, found: Mapping[str, Drifts] | None) -> None:
    """Mark the known drifts as dashed lines, and the drifts that were found, or the transitions of the first model."""
    for number, at in enumerate(drift_places(trace)):
        ax.axvline(at, color="#d55e00", ls="--", lw=1.0, label=None if number else "drift")
    if found is not None:
        spans = [span for model, drifts in found.items() for span in found_spans(trace, model, drifts)]
        for number, (first, last) in enumerate(spans):
            label = None if number else "drift that was found"
            ax.axvspan(first, max(last, first + 0.5), color="#d55e00", alpha=0.2, lw=0, label=label)
        return
    values = error_curve(trace, trace.models[0])
    kinds = trace.transitions(trace.models[0])
    for kind, mark in MARKS.items():
        places = [place for place, found in enumerate(kinds) if kind in found]
        if places:
            words = TRANSITION_WORDS[kind]  # type: ignore[index]
            ax.plot(places, values[places], mark, color="#222222", ms=5, zorder=4, label=words.phrase)
