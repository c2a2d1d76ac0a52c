"""Figures of a trace with matplotlib, the extra ``figures``, which is imported only here and when it is used."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from driftsurf.core.decisions import TRANSITION_WORDS
from driftsurf.core.drifts import Drifts
from driftsurf.errors import MissingExtraError
from driftsurf.evaluation.trace import Trace
from driftsurf.registry import register
from driftsurf.report.notebook import COLOURS, drift_places, error_curve, found_spans

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_trace"]

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
