"""Figures over time as data: drawn once for a page without a script, and given to the script of the page.

A page has :class:`Figure` (curves) and :class:`Bars` (lives of models). Both share an :class:`Overlay`: the drifts and
orders of the run, and the reactions of the model, which a reader can show.
"""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from driftsurf.core.decisions import TRANSITION_WORDS, TransitionKind
from driftsurf.core.wording import significant
from driftsurf.errors.visible import escape, visible_values
from driftsurf.report import html
from driftsurf.report.svg import LEFT, WIDTH, Chart, drawing, element

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
