"""Drawings as inline SVG, written without a library or a script: the same data give the same bytes.

Every drawing of a page is written with :func:`element`. :class:`Chart` draws curves over time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from driftsurf.core.wording import significant
from driftsurf.errors.visible import escape

WIDTH, HEIGHT = 960, 300
LEFT, RIGHT, TOP, BOTTOM = 72, 16, 22, 40
"""Margins of a chart, in units of the drawing."""


def element(name: str, text: str = "", *, title: str = "", **attributes: str | float) -> str:
    """Return an element of SVG; ``text`` is its content, ``title`` its tooltip. Everything is escaped.

    Attributes are written as in Python: ``class_`` is "class", ``text_anchor`` is "text-anchor".

    >>> element("rect", class_="band", x=72.04, width=8, title="a < b")
    '<rect class="band" x="72.04" width="8"><title>a &lt; b</title></rect>'
    """
    names = {key: key.rstrip("_").replace("_", "-") for key in attributes}
    written = "".join(f' {names[key]}="{_attribute(value)}"' for key, value in attributes.items())
    content = (f"<title>{escape(title)}</title>" if title else "") + escape(text)
    return f"<{name}{written}>{content}</{name}>" if content else f"<{name}{written}/>"


def drawing(width: float, height: float, description: str, parts: Iterable[str], *, standalone: bool = False) -> str:
    """Return a whole drawing; ``standalone`` makes it a valid file of its own."""
    space = ' xmlns="http://www.w3.org/2000/svg" font-family="system-ui, sans-serif"' if standalone else ""
    box = f'viewBox="0 0 {_attribute(width)} {_attribute(height)}"'
    return "\n".join([f'<svg{space} {box} role="img" aria-label="{escape(description)}">', *parts, "</svg>"])


def _attribute(value: str | float) -> str:
    return escape(value) if isinstance(value, str) else f"{round(value, 2):.10g}"


@dataclass
class Chart:
    """A plot of values against steps. Marks are drawn in the order in which they are added.

    >>> chart = Chart(steps=3, top=1.0, y_label="error")
    >>> chart.line([0.5, 0.2, 0.1], css="curve", title="a model")
    >>> chart.render("three steps").startswith("<svg")
    True
    """

    steps: int
    top: float
    y_label: str
    bottom: float = 0.0
    dated: bool = False
    """Whether the axis shows dates of steps rather than their numbers."""
    tick: Callable[[float], str] = "{:g}".format
    """Returns the text beside a step on the axis."""
    _parts: list[str] = field(default_factory=list)

    def x(self, step: float) -> float:
        """Return the horizontal place of a step."""
        return LEFT + (WIDTH - LEFT - RIGHT) * step / max(1, self.steps - 1)

    def y(self, value: float) -> float:
        """Return the vertical place of a value; values beyond the axis are drawn at its end."""
        share = (value - self.bottom) / (self.top - self.bottom)
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * min(max(share, 0.0), 1.0)

    def band(self, start: float, end: float, *, css: str, title: str) -> None:
        """Shade the steps from ``start`` to ``end``."""
        a, b = self.x(start), self.x(end)
        width, height = max(b - a, 1.5), HEIGHT - TOP - BOTTOM
        self._parts.append(element("rect", title=title, class_=css, x=a, y=TOP, width=width, height=height))

    def rule(self, step: float, *, css: str, title: str, label: str = "") -> None:
        """Draw a vertical line, with a label above the plot."""
        a = self.x(step)
        self._parts.append(element("line", title=title, class_=css, x1=a, x2=a, y1=TOP, y2=HEIGHT - BOTTOM))
        if label:
            self.label(step, label)

    def label(self, step: float, text: str) -> None:
        """Write a word above the plot."""
        self._parts.append(element("text", text, class_="rule-label", x=self.x(step), y=TOP - 7))

    def line(self, values: Sequence[float], *, css: str, title: str, at: Sequence[float] | None = None) -> None:
        """Draw a curve through one value for each step, or through values ``at`` steps; NaN leaves a gap.

        A line of one point would be invisible: the value of a single step is drawn over the whole width, and a value
        between gaps as a small ring.
        """
        if self.steps == len(values) == 1:
            values, at = [*values, *values], (0, 1)
        pieces: list[list[tuple[float, float]]] = [[]]
        for step, value in zip(range(len(values)) if at is None else at, values, strict=True):
            if math.isfinite(value):
                pieces[-1].append((self.x(step), self.y(value)))
            elif pieces[-1]:
                pieces.append([])
        path = " ".join(_ring(*piece[0]) if len(piece) == 1 else _polyline(piece) for piece in pieces if piece)
        self._parts.append(element("path", title=title, class_=css, d=path))

    def render(self, description: str) -> str:
        """Return the drawing."""
        return drawing(WIDTH, HEIGHT, description, [*self._axes(), *self._parts])

    def _axes(self) -> list[str]:
        base = HEIGHT - BOTTOM
        parts = []
        for value in _ticks(self.bottom, self.top):
            y = self.y(value)
            parts.append(element("line", class_="grid", x1=LEFT, x2=WIDTH - RIGHT, y1=y, y2=y))
            parts.append(element("text", _level(value), class_="tick", x=LEFT - 8, y=y + 4, text_anchor="end"))
        for step in _ticks(0, max(1, self.steps - 1), whole=True):
            x = self.x(step)
            parts.append(element("line", class_="axis", x1=x, x2=x, y1=base, y2=base + 5))
            parts.append(element("text", self.tick(step), class_="tick", x=x, y=base + 18, text_anchor="middle"))
        parts.append(element("line", class_="axis", x1=LEFT, x2=WIDTH - RIGHT, y1=base, y2=base))
        middle, turned = (LEFT + WIDTH - RIGHT) / 2, f"translate(14 {(TOP + base) / 2:g}) rotate(-90)"
        name = "time" if self.dated else "step"
        parts.append(element("text", name, class_="name", x=middle, y=HEIGHT - 6, text_anchor="middle"))
        parts.append(element("text", self.y_label, class_="name", transform=turned, text_anchor="middle"))
        return parts


def _polyline(points: Sequence[tuple[float, float]]) -> str:
    """Return the path of a line through points."""
    return " ".join(f"{'L' if place else 'M'}{x:.1f} {y:.1f}" for place, (x, y) in enumerate(points))


def _ring(x: float, y: float) -> str:
    """Return the path of a small ring around a point."""
    return f"M{x - 3:.1f} {y:.1f} a3 3 0 1 0 6 0 a3 3 0 1 0 -6 0"


def _level(value: float) -> str:
    """Return a round number that is short enough to stand beside the axis.

    >>> [_level(value) for value in (0.25, 2000, 30_000, 2.5e6, 4e9, 1.5e11, 1.5e-4, 2e-5)]
    ['0.25', '2000', '30k', '2.5M', '4e9', '1.5e11', '0.00015', '2e-5']
    """
    size = abs(value)
    unit, letter = (1e6, "M") if 1e6 <= size < 1e9 else (1e3, "k") if 1e4 <= size < 1e6 else (1.0, "")
    return significant(value / unit) + letter


def _ticks(bottom: float, top: float, *, whole: bool = False) -> list[float]:
    """Return about five round numbers from ``bottom`` to ``top``.

    >>> _ticks(-0.3, 1.0)
    [0.0, 0.5, 1.0]
    """
    raw = (top - bottom) / 5
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(m * power for m in (1, 2, 5, 10) if m * power >= raw)
    if whole:
        step = max(1.0, round(step))
    first, last = math.ceil(bottom / step - 1e-9), math.floor(top / step + 1e-9)
    return [float(f"{k * step:.10g}") for k in range(first, last + 1)]
