"""Line charts over time as inline SVG: no library, no script, the same bytes for the same data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape

from driftsurf.decisions import significant

__all__ = ["Chart"]

WIDTH, HEIGHT = 960, 300
LEFT, RIGHT, TOP, BOTTOM = 72, 16, 22, 40


@dataclass
class Chart:
    """A plot of values against steps; marks are drawn in the order they are added.

    >>> chart = Chart(steps=3, top=1.0, y_label="error")
    >>> chart.line([0.5, 0.2, 0.1], css="curve", title="a model")
    >>> chart.render("three steps").startswith("<svg")
    True
    """

    steps: int
    top: float
    y_label: str
    _parts: list[str] = field(default_factory=list)

    def x(self, step: float) -> float:
        """Horizontal place of a step."""
        return LEFT + (WIDTH - LEFT - RIGHT) * step / max(1, self.steps - 1)

    def y(self, value: float) -> float:
        """Vertical place of a value; what lies above the top is drawn at the top."""
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * min(max(value / self.top, 0.0), 1.0)

    def band(self, start: float, end: float, *, css: str, title: str) -> None:
        """Shade the steps from ``start`` to ``end``."""
        a, b = self.x(start), self.x(end)
        self._parts.append(
            f'<rect class="{css}" x="{a:.1f}" y="{TOP}" width="{max(b - a, 1.5):.1f}" '
            f'height="{HEIGHT - TOP - BOTTOM}"><title>{escape(title)}</title></rect>'
        )

    def rule(self, step: float, *, css: str, title: str, label: str = "") -> None:
        """A vertical line, with a label above the plot."""
        a = self.x(step)
        self._parts.append(
            f'<line class="{css}" x1="{a:.1f}" x2="{a:.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}">'
            f"<title>{escape(title)}</title></line>"
        )
        if label:
            self.label(step, label)

    def label(self, step: float, text: str) -> None:
        """A word above the plot."""
        self._parts.append(f'<text class="rule-label" x="{self.x(step):.1f}" y="{TOP - 7}">{escape(text)}</text>')

    def line(self, values: Sequence[float], *, css: str, title: str, at: Sequence[float] | None = None) -> None:
        """A curve through the values, one a step or each ``at`` its place; gaps where a value is not finite."""
        path, pen_up = [], True
        for step, value in zip(range(len(values)) if at is None else at, values, strict=True):
            if not math.isfinite(value):
                pen_up = True
                continue
            path.append(f"{'M' if pen_up else 'L'}{self.x(step):.1f} {self.y(value):.1f}")
            pen_up = False
        self._parts.append(f'<path class="{css}" d="{" ".join(path)}"><title>{escape(title)}</title></path>')

    def dot(self, step: float, value: float, *, css: str, title: str) -> None:
        """A marked point, told when the pointer rests on it."""
        self._parts.append(
            f'<circle class="{css}" cx="{self.x(step):.1f}" cy="{self.y(value):.1f}" r="5" tabindex="0">'
            f"<title>{escape(title)}</title></circle>"
        )

    def render(self, description: str) -> str:
        """The SVG element."""
        return "\n".join(
            [
                f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(description)}">',
                *self._axes(),
                *self._parts,
                "</svg>",
            ]
        )

    def _axes(self) -> list[str]:
        base = HEIGHT - BOTTOM
        parts = []
        for value in _ticks(self.top):
            y, name = self.y(value), _level(value)
            parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
            parts.append(f'<text class="tick" x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{name}</text>')
        for step in _ticks(max(1, self.steps - 1), whole=True):
            place = self.x(step)
            parts.append(f'<line class="axis" x1="{place:.1f}" x2="{place:.1f}" y1="{base}" y2="{base + 5}"/>')
            parts.append(f'<text class="tick" x="{place:.1f}" y="{base + 18}" text-anchor="middle">{step:g}</text>')
        parts.append(f'<line class="axis" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{base}" y2="{base}"/>')
        middle = (LEFT + WIDTH - RIGHT) / 2
        parts.append(f'<text class="name" x="{middle}" y="{HEIGHT - 6}" text-anchor="middle">time step</text>')
        parts.append(
            f'<text class="name" transform="translate(14 {(TOP + base) / 2}) rotate(-90)" '
            f'text-anchor="middle">{escape(self.y_label)}</text>'
        )
        return parts


def _level(value: float) -> str:
    """A round number, short enough to stand beside the axis.

    >>> [_level(value) for value in (0.25, 2000, 30_000, 2.5e6, 4e9, 1.5e11, 1.5e-4, 2e-5)]
    ['0.25', '2000', '30k', '2.5M', '4e9', '1.5e11', '0.00015', '2e-5']
    """
    unit, letter = (1e6, "M") if 1e6 <= value < 1e9 else (1e3, "k") if 1e4 <= value < 1e6 else (1.0, "")
    return significant(value / unit) + letter


def _ticks(top: float, *, whole: bool = False) -> list[float]:
    """About five round numbers from 0 to ``top``."""
    raw = top / 5
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(m * power for m in (1, 2, 5, 10) if m * power >= raw)
    if whole:
        step = max(1.0, round(step))
    return [float(f"{k * step:.10g}") for k in range(int(top / step + 1e-9) + 1)]
