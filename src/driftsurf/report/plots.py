"""Figures of a trace with matplotlib, the extra ``figures``, which is imported only here and when it is used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from driftsurf.core.decisions import TRANSITION_WORDS
from driftsurf.errors import MissingExtraError
from driftsurf.evaluation.trace import Trace
from driftsurf.registry import register
from driftsurf.report.notebook import COLOURS, drift_places, error_curve

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_trace"]

MARKS = {"entered": "v", "switched": "^", "kept": "x", "reset": "^", "replaced": "^", "recalled": "^"}


@register("page", "plot")
def plot_trace(trace: Trace, ax: Axes | None = None) -> Axes:
    """Draw the error of each model at each step, the transitions of the first model, and the known drifts."""
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
        _mark(ax, trace)
        ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
    ax.set(title=trace.stream, xlabel="step", ylabel="error" if trace.labels else "root mean squared error")
    ax.set_ylim(bottom=0.0)
    return ax


def _mark(ax: Axes, trace: Trace) -> None:
    """Mark the transitions of the first model on its curve, and the drifts as dashed lines."""
    for number, at in enumerate(drift_places(trace)):
        ax.axvline(at, color="#d55e00", ls="--", lw=1.0, label=None if number else "drift")
    values = error_curve(trace, trace.models[0])
    kinds = trace.transitions(trace.models[0])
    for kind, mark in MARKS.items():
        places = [place for place, found in enumerate(kinds) if kind in found]
        if places:
            words = TRANSITION_WORDS[kind]  # type: ignore[index]
            ax.plot(places, values[places], mark, color="#222222", ms=5, zorder=4, label=words.phrase)
