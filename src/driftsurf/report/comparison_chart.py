"""Charts of a comparison as SVG: the error of each model on each source, with its interval, and over time."""

from __future__ import annotations

import math
from typing import NamedTuple

from driftsurf.comparison.compare import Comparison, Standings
from driftsurf.comparison.matches import FIRST_STEP
from driftsurf.report import html
from driftsurf.report.svg import Chart, drawing, element

__all__ = ["CURVE_STYLE", "NARROW", "TRIVIAL", "WIDE", "Layout", "chart", "curves", "label", "short"]

TRIVIAL = "majority", "mean", "persistence"
"""Models that are trivial rules."""

LINE, GAP, TOP = 17, 12, 34
CUT = 2.0
"""Errors above twice that of the mean prediction are drawn at the edge: a model that diverges would hide the others."""
COLOURS = "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#767676", "currentColor"
"""The colours of Okabe and Ito, which people with colour blindness can tell apart."""


CURVE_STYLE = (
    "".join(f".model-{k} {{ stroke: {colour}; }}" for k, colour in enumerate(COLOURS))
    + "[class^=model-] { fill: none; stroke-width: 1.5; }"
    + " .winner { stroke-width: 3; } .trivial { stroke-dasharray: 2 4; }"
)
"""Style of the curves of :func:`curves`, which have the colours of :func:`chart`."""


class Layout(NamedTuple):
    """The size of a chart."""

    width: int
    left: int
    """Width of the names of models."""
    right: int
    """Width of the numbers at the right."""
    name_length: int
    """Characters of a name at most."""
    ticks: int
    """Numbers on the axis at most, beside 0."""


WIDE, NARROW = Layout(960, 330, 60, 46, 10), Layout(348, 164, 46, 19, 4)
"""Layouts for a screen and for a phone."""


def chart(result: Comparison, layout: Layout = WIDE) -> str:
    """Return the chart: a line for each model, with a dot at its mean error and a bar for the interval."""
    groups = [*result.sources, *([result.overall] if len(result.sources) > 1 else [])]
    highest = max(one.error.high for group in groups for one in group.models)
    between = next(size for size in (1, 2, 5, 10) if 10 * min(highest, CUT) <= size * layout.ticks)
    tenths = between * max(1, math.ceil(10 * min(highest, CUT) / between))
    top = tenths / 10
    height = TOP + sum(GAP + LINE * (len(group.models) + 1) for group in groups)
    parts = []
    for k in range(0, tenths + 1, between):
        x = _x(k / 10, top, layout)
        line = element("line", x1=x, x2=x, y1=TOP - 8, y2=height - 4, stroke="currentColor", opacity=0.16)
        parts.append(line)
        parts.append(element("text", f"{k / 10:.1f}", x=x, y=TOP - 14, text_anchor="middle", font_size=12, fill="#888"))
    y = TOP
    for group in groups:
        parts += _group(group, y, top, layout)
        y += GAP + LINE * (len(group.models) + 1)
    description = f"errors of {len(result.overall.models)} models"
    return drawing(layout.width, height, description, parts, standalone=True) + "\n"


def _group(group: Standings, top_line: int, top: float, layout: Layout) -> list[str]:
    parts = [element("text", group.title, x=8, y=top_line + 12, font_size=13, font_weight=600, fill="currentColor")]
    for k, one in enumerate(group.models):
        y = top_line + LINE * (k + 1) + 8
        colour = COLOURS[k % len(COLOURS)]
        low, middle, high = (_x(value, top, layout) for value in (one.error.low, one.error.value, one.error.high))
        weight = 700 if one.model == group.winner.model else 400
        numbers = f"{one.model}: {one.error.value:.4f} ({one.error.low:.4f} to {one.error.high:.4f})"
        parts += [
            label(short(one.model, layout.name_length), layout.left - 12, y, weight),
            element("line", x1=low, x2=high, y1=y, y2=y, stroke=colour, stroke_width=3, opacity=0.5),
            element("circle", title=numbers, cx=middle, cy=y, r=4.5, fill=colour),
            label(f"{one.error.value:.3f}", layout.width - 6, y, weight),
        ]
    return parts


def curves(source: Standings, y_label: str) -> str:
    """Return the error of each model on one source over time, with a legend, as HTML."""
    ours = [max(one.curve) for one in source.models if one.model not in TRIVIAL] or [CUT]
    drawn = Chart(source.steps, 1.05 * max(0.1, min(max(ours), CUT)), y_label)
    entries = []
    for k, one in enumerate(source.models):
        css = f"model-{k % len(COLOURS)}" + " winner" * (one.model == source.winner.model)
        css += " trivial" * (one.model in TRIVIAL)
        width = (source.steps - FIRST_STEP) / len(one.curve)
        at = [FIRST_STEP + (place + 0.5) * width - 0.5 for place in range(len(one.curve))]
        drawn.line(one.curve, css=css, title=one.model, at=at)
        entries.append((css, "line", one.model))
    picture = drawn.render(f"error over time of {len(source.models)} models on {source.title}")
    return f'<div class="chart">{picture}</div>{html.legend(entries)}'


def label(text: str, x: float, y: float, weight: int) -> str:
    """Return text that ends at x, in the middle of the line at y."""
    anchor, colour = "end", "currentColor"
    return element("text", text, x=x, y=y + 4, text_anchor=anchor, font_size=12, font_weight=weight, fill=colour)


def _x(value: float, top: float, layout: Layout) -> float:
    return layout.left + (layout.width - layout.left - layout.right) * min(value / top, 1.0)


def short(name: str, longest: int) -> str:
    """Return a name of at most so many characters."""
    return name if len(name) <= longest else f"{name[: longest - 1]}…"
