"""Ratios of a suite as bars on a logarithmic scale, written as SVG without a library."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING

from driftsurf.errors.visible import escape

if TYPE_CHECKING:
    from benchmarks.harness import Result

WIDTH, LINE, LEFT, RIGHT = 960, 20, 360, 90
STYLE = (
    "text{font:13px system-ui,sans-serif;fill:#222}.title{font-weight:600}.bar{fill:#7a869a}.ours{fill:#2b6cb0}"
    ".one{stroke:#222;stroke-dasharray:3 3}"
)


def picture(suite: str, results: Sequence[Result]) -> str:
    """Return an SVG with a bar for each contender, whose length is the logarithm of its time relative to the anchor."""
    ratios = [statistics.median(score.ratios) for result in results for score in result.scores]
    low, high = math.log10(min(ratios, default=1.0)), math.log10(max(ratios, default=1.0))
    scale = (WIDTH - LEFT - RIGHT) / max(high - low, 0.5)
    one = LEFT - low * scale
    parts, y = [], LINE
    for result in results:
        parts.append(f'<text class="title" x="8" y="{y}">{escape(result.title)}</text>')
        y += LINE
        for score in result.scores:
            ratio = statistics.median(score.ratios)
            end = one + math.log10(ratio) * scale
            ours = " ours" if score.name.startswith(("driftsurf", "whole run")) else ""
            a, b = min(one, end), max(one, end)
            parts += [
                f'<text x="{LEFT - 8}" y="{y}" text-anchor="end">{escape(score.name)}</text>',
                f'<rect class="bar{ours}" x="{a:.1f}" y="{y - 12}" width="{max(b - a, 1.5):.1f}" height="14"/>',
                f'<text x="{b + 6:.1f}" y="{y}">{ratio:.3g}</text>',
            ]
            y += LINE
        y += LINE // 2
    parts.append(f'<line class="one" x1="{one:.1f}" x2="{one:.1f}" y1="4" y2="{y}"/>')
    title = f"{suite}: time over that of the anchor (the dashed line), logarithmic"
    parts.append(f'<text x="8" y="{y + LINE}">{escape(title)}</text>')
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y + 2 * LINE}" role="img" '
        f'aria-label="{escape(title)}"><style>{STYLE}</style><rect width="100%" height="100%" fill="#fff"/>\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )
