"""Figures over time as data: drawn once for a page without a script, and given to the script of the page.

A page has :class:`Figure` (curves) and :class:`Bars` (lives of models). Both share an :class:`Overlay`: the drifts and
orders of the run, and the reactions of the model, which a reader can show.
"""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from driftsurf.core.decisions import TRANSITION_WORDS, TransitionKind
from driftsurf.core.wording import significant
from driftsurf.errors.visible import escape, visible_values
from driftsurf.report import html

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


SERIES_STYLES = tuple(f"series-{number}" for number in range(8))
"""CSS classes of curves that have no meaning of their own, each with its colour."""
LEGEND = {
    "found": "drift",
    "drift": "true drift",
    "drifting": "gradual true drift",
    "reactive": "a new model is tested",
    "pinned": "pinned: it predicts but does not learn",
    "order": "order of an operator",
}
"""Words for the marks that all figures share, by CSS class."""
FEW_DAYS = 4 * 86_400
"""Seconds of a run below which its axis shows hours."""


@dataclass(frozen=True)
class Curve:
    """One curve."""

    name: str
    css: str
    values: Sequence[float]
    at: Sequence[float] | None = None
    """The step of each value; by default there is one value for each step."""
    marked: bool = False
    """Whether changes are marked on it."""

    def thinned(self, stride: int) -> Curve:
        """Return a curve with one value for each ``stride`` steps, at most: the mean of those that are known.

        >>> thin = Curve("error", "curve", [0.0, 1.0, math.nan, 0.5, 0.3]).thinned(2)
        >>> thin.values, thin.at
        ([0.5, 0.5, 0.3], [0.5, 3.0, 4.0])
        """
        sums: dict[int, list[tuple[float, float]]] = {}
        for place, value in zip(range(len(self.values)) if self.at is None else self.at, self.values, strict=True):
            known = sums.setdefault(int(place // stride), [])
            if math.isfinite(value):
                known.append((place, value))
        means = [
            [math.fsum(column) / len(known) for column in zip(*known, strict=True)]
            if known
            else [stride * (number + 0.5) - 0.5, math.nan]
            for number, known in sums.items()
        ]
        return replace(self, values=[value for _, value in means], at=[place for place, _ in means])


@dataclass(frozen=True)
class TransitionMark:
    """A transition, at its place among the steps."""

    at: float
    kind: TransitionKind
    text: str


@dataclass(frozen=True)
class EventMark:
    """Something that a reader should know: a drift, another expert or model that took over, an order."""

    at: float
    """Its place among the steps."""
    when: str
    """When it happened; empty if that is not known."""
    kind: Literal["drift", "over", "model", "order"]
    text: str


@dataclass(frozen=True)
class Overlay:
    """What all figures of a page share. Spans are tuples of start, end and text."""

    steps: int
    first_rows: Sequence[int] = ()
    """The first row of each step, and the row after the last one."""
    reactive: Sequence[tuple[float, float, str]] = ()
    drifts: Sequence[tuple[float, float, str]] = ()
    """The true drifts, of a stream that knows them."""
    changes: Sequence[TransitionMark] = ()
    orders: Sequence[tuple[float, float, str]] = ()
    """Orders of an operator. Start and end differ only while the model is pinned."""
    times: Sequence[int] = ()
    """When each step began, in seconds since 1970; empty if that is not known."""
    found: Sequence[tuple[float, float, str, str]] = ()
    """The drifts that were found, from the change to the end, with the name of each."""
    events: Sequence[EventMark] = ()
    """What happened, oldest first."""
    first: int = 0
    """Number of the first step."""

    def tick(self, step: float) -> str:
        """Return the text beside a step on the axis: its date, or its number."""
        if not self.times:
            return f"{self.first + step:g}" if self.first < 1e5 else f"{self.first + step:,.0f}"
        return _date(self.times[min(int(step), len(self.times) - 1)], self.times[-1] - self.times[0])


@dataclass(frozen=True)
class Figure:
    """Curves over the steps of a run."""

    id: str
    description: str
    """For readers who cannot see the figure."""
    unit: str
    """Label of the vertical axis."""
    top: float
    """The largest value on the vertical axis."""
    series: Sequence[Curve]
    bottom: float = 0.0
    """The smallest value on the vertical axis."""

    def render(self, overlay: Overlay) -> str:
        """Return the figure as HTML that needs no script: a drawing with a legend."""
        chart = Chart(overlay.steps, self.top, self.unit, self.bottom, bool(overlay.times), overlay.tick)
        _draw_overlay(chart, overlay)
        for series in self.series:
            chart.line(series.values, css=series.css, title=series.name, at=series.at)
        legend = [(series.css, "line", series.name) for series in self.series] + self._shared_legend(overlay)
        return (
            f'<div class="chart" data-figure="{escape(self.id)}">{chart.render(self.description)}</div>'
            f'<div class="static">{html.legend(legend)}</div>{self._cut_note()}'
        )

    def _cut_note(self) -> str:
        """Return a note on values beyond the axis, which are drawn at its end; empty if there are none."""
        known = [value for series in self.series for value in series.values if math.isfinite(value)]
        ends = [
            ("above", self.top, "upper", "largest", max(known, default=self.top)),
            ("below", self.bottom, "lower", "smallest", min(known, default=self.bottom)),
        ]
        beyond = [
            f"Values {side} {significant(end)} are drawn at the {edge} edge; the {most} is {significant(value)}."
            for side, end, edge, most, value in ends
            if (value > end if side == "above" else value < end)
        ]
        return html.note(" ".join([*beyond, "Zoom in to see them."])) if beyond else ""

    def _shared_legend(self, overlay: Overlay) -> list[tuple[str, str, str]]:
        abrupt = any(stop == start for start, stop, _ in overlay.drifts)
        gradual = any(stop > start for start, stop, _ in overlay.drifts)
        shown = [("found", "box")] * bool(overlay.found)
        shown += [("drift", "line")] * abrupt + [("drifting", "box")] * gradual
        shown += [("pinned", "box")] * any(stop > start for start, stop, _ in overlay.orders)
        shown += [("order", "line")] * any(stop == start for start, stop, _ in overlay.orders)
        return [(css, shape, LEGEND[css]) for css, shape in shown]

    def thinned(self, stride: int) -> Figure:
        """Return the figure with one value of each curve for each ``stride`` steps, at most."""
        return replace(self, series=[series.thinned(stride) for series in self.series])

    def data(self) -> dict[str, Any]:
        """Return plain values for the script."""
        return {
            "id": self.id,
            "about": self.description,
            "unit": self.unit,
            "top": _short(self.top),
            **({"bottom": _short(self.bottom)} if self.bottom else {}),
            "series": [
                {
                    "name": series.name,
                    "css": series.css,
                    "values": [_short(value) for value in series.values],
                    **({} if series.at is None else {"at": [_step(place) for place in series.at]}),
                    **({"marked": True} if series.marked else {}),
                }
                for series in self.series
            ],
        }


def _draw_overlay(chart: Chart, overlay: Overlay) -> None:
    for start, stop, text, name in overlay.found:
        chart.band(start, stop, css="found", title=text)
        chart.rule(start, css="begins", title=text, label=name)
    for start, stop, text in overlay.orders:
        if stop > start:
            chart.band(start, stop, css="pinned", title=text)
            chart.label((start + stop) / 2, text)
        else:
            chart.rule(start, css="order", title=text)
    for start, stop, text in overlay.drifts:
        if stop > start:
            chart.band(start, min(stop, chart.steps - 1), css="drifting", title=text)
        else:
            chart.rule(start, css="drift", title=text)


@dataclass(frozen=True)
class Bar:
    """The life of one model, and the spans in which it predicted."""

    name: str
    start: float
    stop: float
    strong: Sequence[tuple[float, float]]
    text: str


@dataclass(frozen=True)
class Bars:
    """Lives of models, one below the other, over the same steps as the curves."""

    id: str
    description: str
    """For readers who cannot see the figure."""
    bars: Sequence[Bar] = field(default_factory=list)

    HEIGHT = 20

    def render(self, overlay: Overlay) -> str:
        """Return the figure as HTML that needs no script."""
        chart = Chart(overlay.steps, 1.0, "")
        parts = []
        for place, bar in enumerate(self.bars):
            middle = self.HEIGHT * place + 4 + self.HEIGHT / 2
            parts.append(element("text", bar.name, class_="tick", x=LEFT - 8, y=middle + 4, text_anchor="end"))
            strong = [(*span, "strong", 12) for span in bar.strong]
            for start, stop, css, thick in [(bar.start, bar.stop, "life", 4), *strong]:
                a, b = chart.x(max(start - 0.5, 0)), chart.x(min(stop + 0.5, overlay.steps - 1))
                y, width = middle - thick / 2, max(b - a, 1.5)
                parts.append(element("rect", title=bar.text, class_=css, x=a, y=y, width=width, height=thick))
        drawn = drawing(WIDTH, self.HEIGHT * len(self.bars) + 8, self.description, parts)
        return f'<div class="chart" data-figure="{escape(self.id)}">{drawn}</div>'

    def thinned(self, stride: int) -> Bars:
        """Return the figure itself: there are as many bars as models, however many steps there are."""
        return self

    def data(self) -> dict[str, Any]:
        """Return plain values for the script."""
        bars = [
            {"name": bar.name, "from": bar.start, "to": bar.stop, "strong": list(bar.strong), "text": bar.text}
            for bar in self.bars
        ]
        return {"id": self.id, "about": self.description, "bars": bars}


def data(overlay: Overlay, figures: Sequence[Figure | Bars], most: int | None = None) -> dict[str, Any]:
    """Return the data of the script as plain values.

    Parameters
    ----------
    overlay, figures
        What the page shows.
    most
        Values of a curve at most: a longer one is replaced by means over equally many steps. None for all values.
    """
    stride = 1 if most is None else max(1, -(-overlay.steps // most))
    return {
        "steps": overlay.steps,
        **({"first": overlay.first} if overlay.first else {}),
        "stride": stride,
        "firstRows": _knots(overlay.first_rows, stride),
        "times": _knots(overlay.times, stride),
        "found": [[_step(start), _step(stop), text, name] for start, stop, text, name in overlay.found],
        "reactive": [[_step(start), _step(stop), text] for start, stop, text in overlay.reactive],
        "drifts": [[_step(start), _step(stop), text] for start, stop, text in overlay.drifts],
        "orders": [[_step(start), _step(stop), text] for start, stop, text in overlay.orders],
        "legend": LEGEND | {kind: words.phrase for kind, words in TRANSITION_WORDS.items()},
        "changes": [{"at": _step(one.at), "kind": one.kind, "text": one.text} for one in overlay.changes],
        "events": [
            {"at": _step(one.at), "when": one.when, "kind": one.kind, "text": one.text} for one in overlay.events
        ],
        "figures": [(figure if stride == 1 else figure.thinned(stride)).data() for figure in figures],
    }


def _knots(values: Sequence[int], stride: int) -> list[float]:
    """Return every ``stride``-th value, with one beyond the end if need be, so that the last value lies between two.

    >>> _knots([0, 10, 20, 30, 40, 55], 3)
    [0, 30, 67.5]
    """
    chosen: list[float] = list(values[::stride])
    rest = (len(values) - 1) % stride if values else 0
    return [*chosen, chosen[-1] + (values[-1] - chosen[-1]) * stride / rest] if rest else chosen


def as_json(overlay: Overlay, figures: Sequence[Figure | Bars]) -> str:
    """Return the data of the script as JSON that can be embedded: nothing in it ends the element or hides text."""
    found = visible_values(data(overlay, figures))
    text = json.dumps(found, separators=(",", ":"), allow_nan=False, ensure_ascii=True)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _date(seconds: int, span: int) -> str:
    """Return a time as text: to the day, or to the minute in a run of a few days.

    >>> _date(1_700_000_000, span=10**7), _date(1_700_000_000, span=3600)
    ('2023-11-14', '11-14 22:13')
    """
    when = datetime.datetime.fromtimestamp(seconds, datetime.UTC)
    return when.strftime("%m-%d %H:%M" if span < FEW_DAYS else "%Y-%m-%d")


def per_row(part: npt.NDArray[Any], rows: npt.NDArray[Any]) -> list[float]:
    """Divide a column by the number of rows of each step; NaN at steps without rows."""
    return [float(a / b) if b else math.nan for a, b in zip(part.tolist(), rows.tolist(), strict=True)]


def usual_top(values: npt.NDArray[np.float64]) -> float:
    """Return a top for the vertical axis at which usual values fill the plot, though one step may be far above."""
    known = values[~np.isnan(values)]
    highest = float(known.max())
    return 1.08 * (min(highest, 5.0 * float(np.quantile(known, 0.9))) or highest or 1.0)


def _step(place: float) -> float | int:
    """Round a place among the steps to a thousandth of a step."""
    near = round(float(place), 3)
    return int(near) if near.is_integer() else near


def _short(value: float) -> float | int | None:
    """Round a value to five digits, more than can be seen; None if it is not finite."""
    if not math.isfinite(value):
        return None
    short = float(f"{value:.5g}")
    return int(short) if short.is_integer() and abs(short) < 1e15 else short
