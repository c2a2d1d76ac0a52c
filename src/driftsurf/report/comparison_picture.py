"""The picture of a comparison: for each source the error of each model with its interval, as SVG."""

from __future__ import annotations

import math
from html import escape

from driftsurf.experiments.compare import Comparison, Standings

__all__ = ["picture"]

WIDTH, LEFT, RIGHT = 960, 330, 60
LINE, GAP, TOP = 17, 12, 34
CUT = 2.0
"""Errors beyond twice that of the mean lie at the edge: those of a model that diverges would hide all others."""
COLOURS = "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#767676", "#000000"
"""Of Okabe and Ito, which all eyes tell apart."""


def picture(result: Comparison) -> str:
    """A line a model: a dot at its mean error, a bar for the interval."""
    groups = [*result.sources, *([result.overall] if len(result.sources) > 1 else [])]
    highest = max(one.error.high for group in groups for one in group.models)
    between = 1 if highest <= 1.0 else 2
    tenths = between * max(1, math.ceil(10 * min(highest, CUT) / between))
    top = tenths / 10
    height = TOP + sum(GAP + LINE * (len(group.models) + 1) for group in groups)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
        f'aria-label="errors of {len(result.overall.models)} models" font-family="system-ui, sans-serif">'
    ]
    for k in range(0, tenths + 1, between):
        place = _x(k / 10, top)
        parts.append(
            f'<line x1="{place:.1f}" x2="{place:.1f}" y1="{TOP - 8}" y2="{height - 4}" stroke="#ccc"/>'
            f'<text x="{place:.1f}" y="{TOP - 14}" text-anchor="middle" font-size="12" fill="#888">'
            f"{k / 10:.1f}</text>"
        )
    at = TOP
    for group in groups:
        parts += _group(group, at, top)
        at += GAP + LINE * (len(group.models) + 1)
    return "\n".join([*parts, "</svg>\n"])


def _group(group: Standings, at: int, top: float) -> list[str]:
    parts = [
        f'<text x="8" y="{at + 12}" font-size="13" font-weight="600" fill="currentColor">{escape(group.title)}</text>'
    ]
    best = group.winner.model
    for k, one in enumerate(group.models):
        y = at + LINE * (k + 1) + 8
        colour = COLOURS[k % len(COLOURS)]
        low, middle, high = (_x(value, top) for value in (one.error.low, one.error.value, one.error.high))
        weight = ' font-weight="700"' * (one.model == best)
        words = f"{one.model}: {one.error.value:.4f} ({one.error.low:.4f} to {one.error.high:.4f})"
        parts.append(
            f'<text x="{LEFT - 12}" y="{y + 4}" text-anchor="end" font-size="12"{weight} fill="currentColor">'
            f"{escape(_short(one.model))}</text>"
            f'<line x1="{low:.1f}" x2="{high:.1f}" y1="{y}" y2="{y}" stroke="{colour}" stroke-width="3" opacity="0.5"/>'
            f'<circle cx="{middle:.1f}" cy="{y}" r="4.5" fill="{colour}"><title>{escape(words)}</title></circle>'
            f'<text x="{WIDTH - 6}" y="{y + 4}" text-anchor="end" font-size="12"{weight} fill="currentColor">'
            f"{one.error.value:.3f}</text>"
        )
    return parts


def _x(value: float, top: float) -> float:
    return LEFT + (WIDTH - LEFT - RIGHT) * min(value / top, 1.0)


def _short(name: str) -> str:
    return name if len(name) <= 46 else f"{name[:45]}…"
