"""The critical-difference diagram of a comparison: mean ranks over the sources, and which of them differ."""

from __future__ import annotations

import math

from driftsurf.evaluation.ranks import Ranking
from driftsurf.report.comparison_chart import NARROW, WIDE, Layout, label, short
from driftsurf.report.svg import drawing, element

__all__ = ["NARROW", "WIDE", "rank_chart"]

LINE, TOP = 20, 62
BAR = 9
"""Distance between the bars of two groups."""


def rank_chart(found: Ranking, layout: Layout = WIDE) -> str:
    """Return the diagram: a line for each model with a dot at its mean rank, and a bar beside models that are alike.

    The models of a bar do not differ by more than the critical difference, whose length is drawn above the axis.
    """
    groups = found.alike
    right = layout.right + BAR * (len(groups) + 2)  # a dot at the last rank stays clear of the bars
    most = len(found.algorithms)
    height = TOP + LINE * most + 6

    def x(rank: float) -> float:
        return layout.left + (layout.width - layout.left - right) * (rank - 1.0) / (most - 1)

    parts = _scale(found, x(1.0), x(1.0 + min(found.critical_difference, most - 1.0)))
    for tick in range(1, most + 1, max(1, math.ceil(most / layout.ticks))):
        line = element("line", x1=x(tick), x2=x(tick), y1=TOP - 8, y2=height, stroke="currentColor", opacity=0.16)
        text = element("text", str(tick), x=x(tick), y=TOP - 14, text_anchor="middle", font_size=12, fill="#888")
        parts += [line, text]
    for place, (name, rank) in enumerate(zip(found.algorithms, found.average_ranks, strict=True)):
        y = TOP + LINE * place + 12
        parts += [
            label(short(name, layout.name_length), layout.left - 12, y, 700 if place == 0 else 400),
            element("circle", title=f"{name}: mean rank {rank:.2f}", cx=x(rank), cy=y, r=4.5, fill="#0072b2"),
            label(f"{rank:.2f}", layout.width - 6, y, 400),
        ]
    for number, group in enumerate(groups):
        first, last = (found.algorithms.index(group[end]) for end in (0, -1))
        across = layout.width - layout.right - BAR * (len(groups) - number) + 4
        title = f"no significant difference: {', '.join(group)}"
        y1, y2 = TOP + LINE * first + 6, TOP + LINE * last + 18
        bar = element("line", title=title, x1=across, x2=across, y1=y1, y2=y2, stroke="#d55e00", stroke_width=4)
        parts.append(bar)
    return drawing(layout.width, height, f"mean ranks of {most} models", parts, standalone=True) + "\n"


def _scale(found: Ranking, start: float, stop: float) -> list[str]:
    """Return the critical difference as a length above the axis."""
    text = f"critical difference {found.critical_difference:.2f}"
    return [
        element("line", x1=start, x2=stop, y1=26, y2=26, stroke="#d55e00", stroke_width=4),
        element("text", text, x=start, y=18, font_size=12, fill="currentColor"),
    ]
