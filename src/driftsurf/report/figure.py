"""A figure over time as data: drawn once without a script, and handed to the script that makes it interactive."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

from driftsurf.report import html
from driftsurf.report.svg import LEFT, WIDTH, Chart

__all__ = ["Bar", "Bars", "Change", "Figure", "Overlay", "Series", "as_data"]


@dataclass(frozen=True)
class Series:
    """One curve."""

    name: str
    css: str
    values: Sequence[float]
    at: Sequence[float] | None = None
    """Where each value stands, in steps; by default one a step."""


@dataclass(frozen=True)
class Change:
    """A transition, at its place among the steps."""

    at: float
    kind: str
    text: str


@dataclass(frozen=True)
class Overlay:
    """What all figures of a page share."""

    steps: int
    first_rows: Sequence[int] = ()
    reactive: Sequence[tuple[float, float, str]] = ()
    """From, to, in words."""
    drifts: Sequence[tuple[float, float, str]] = ()
    changes: Sequence[Change] = ()
    orders: Sequence[tuple[float, float, str]] = ()
    """Of an operator: from, to (the same, unless the model is pinned), in words."""


@dataclass(frozen=True)
class Figure:
    """Curves over the steps of a run."""

    id: str
    about: str
    """In words, for who cannot see it."""
    unit: str
    top: float
    series: Sequence[Series]
    marked: str = ""
    """The name of the series on which changes are marked; '' for none."""

    def render(self, overlay: Overlay) -> str:
        """Without a script: a picture with a legend."""
        chart = Chart(overlay.steps, self.top, self.unit)
        for start, stop, words in overlay.reactive:
            chart.band(max(start, 0), min(stop, chart.steps - 1), css="reactive", title=words)
        for start, stop, words in overlay.orders:
            if stop > start:
                chart.band(start, stop, css="pinned", title=words)
                chart.label((start + stop) / 2, words)
            else:
                chart.rule(start, css="order", title=words)
        for start, stop, words in overlay.drifts:
            if stop > start:
                chart.band(start, min(stop, chart.steps - 1), css="drifting", title=words)
                if start:
                    chart.label((start + stop) / 2, "drift")
            else:
                chart.rule(start, css="drift", title=words, label="drift")
        for series in self.series:
            chart.line(series.values, css=series.css, title=series.name, at=series.at)
        for series in self.series:
            if series.name == self.marked and series.at is None:
                for change in overlay.changes:
                    at = min(max(int(change.at), 0), len(series.values) - 1)
                    if change.kind in ("switched", "kept") and math.isfinite(series.values[at]):
                        chart.dot(at, series.values[at], css=change.kind, title=change.text)
        legend = [(series.css, "line", series.name) for series in self.series] + self._shared_legend(overlay)
        return (
            f'<div class="chart" data-figure="{escape(self.id)}">{chart.render(self.about)}</div>'
            f'<div class="static">{html.legend(legend)}</div>'
        )

    def _shared_legend(self, overlay: Overlay) -> list[tuple[str, str, str]]:
        abrupt = any(stop == start for start, stop, _ in overlay.drifts)
        gradual = any(stop > start for start, stop, _ in overlay.drifts)
        kinds = {change.kind for change in overlay.changes} if self.marked else set()
        legend = [("drift", "line", "true drift")] * abrupt + [("drifting", "box", "drift under way")] * gradual
        legend += [("reactive", "box", "reactive state")] * bool(overlay.reactive)
        legend += [("pinned", "box", "pinned: predicts, learns nothing")] * any(b > a for a, b, _ in overlay.orders)
        legend += [("order", "line", "an operator's order")] * any(a == b for a, b, _ in overlay.orders)
        words = {"switched": "switched to the new model", "kept": "kept the old model"}
        return legend + [(kind, "dot", text) for kind, text in words.items() if kind in kinds]

    def data(self) -> dict[str, Any]:
        """For the script."""
        return {
            "id": self.id,
            "about": self.about,
            "unit": self.unit,
            "top": _short(self.top),
            "marked": self.marked,
            "series": [
                {
                    "name": series.name,
                    "css": series.css,
                    "values": [_short(value) for value in series.values],
                    **({} if series.at is None else {"at": [_step(place) for place in series.at]}),
                }
                for series in self.series
            ],
        }


@dataclass(frozen=True)
class Bar:
    """The life of one model: from, to; and the spans in which it predicted."""

    name: str
    start: float
    stop: float
    strong: Sequence[tuple[float, float]]
    text: str


@dataclass(frozen=True)
class Bars:
    """Lives of models, one below the other, over the same steps as the curves."""

    id: str
    about: str
    bars: Sequence[Bar] = field(default_factory=list)

    HEIGHT = 20

    def render(self, overlay: Overlay) -> str:
        """Without a script."""
        chart = Chart(overlay.steps, 1.0, "")
        height = self.HEIGHT * len(self.bars) + 8
        parts = [f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(self.about)}">']
        for place, bar in enumerate(self.bars):
            y = self.HEIGHT * place + 4
            middle = y + self.HEIGHT / 2
            name = f'x="{LEFT - 8}" y="{middle + 4:g}" text-anchor="end">{escape(bar.name)}'
            parts.append(f'<text class="tick" {name}</text>')
            strong = [(*span, "strong", 12) for span in bar.strong]
            for start, stop, css, thick in [(bar.start, bar.stop, "life", 4), *strong]:
                a, b = chart.x(max(start - 0.5, 0)), chart.x(min(stop + 0.5, overlay.steps - 1))
                parts.append(
                    f'<rect class="{css}" x="{a:.1f}" y="{middle - thick / 2:g}" width="{max(b - a, 1.5):.1f}" '
                    f'height="{thick}"><title>{escape(bar.text)}</title></rect>'
                )
        return f'<div class="chart" data-figure="{escape(self.id)}">{"".join(parts)}</svg></div>'

    def data(self) -> dict[str, Any]:
        """For the script."""
        bars = [
            {"name": bar.name, "from": bar.start, "to": bar.stop, "strong": list(bar.strong), "text": bar.text}
            for bar in self.bars
        ]
        return {"id": self.id, "about": self.about, "bars": bars}


def as_data(overlay: Overlay, figures: Sequence[Figure | Bars]) -> str:
    """Everything as JSON that can stand inside a page: no character in it can end the element it is in."""
    told = {
        "steps": overlay.steps,
        "firstRows": list(overlay.first_rows),
        "reactive": [[_step(start), _step(stop), words] for start, stop, words in overlay.reactive],
        "drifts": [[_step(start), _step(stop), words] for start, stop, words in overlay.drifts],
        "orders": [[_step(start), _step(stop), words] for start, stop, words in overlay.orders],
        "changes": [{"at": _step(one.at), "kind": one.kind, "text": one.text} for one in overlay.changes],
        "figures": [figure.data() for figure in figures],
    }
    text = json.dumps(told, separators=(",", ":"), allow_nan=False, ensure_ascii=True)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _step(place: float) -> float | int:
    """A place among the steps, to a thousandth of one, however many there are."""
    near = round(float(place), 3)
    return int(near) if near.is_integer() else near


def _short(value: float) -> float | int | None:
    """Five digits, which is what can be seen; None for what is not finite."""
    if not math.isfinite(value):
        return None
    short = float(f"{value:.5g}")
    return int(short) if short.is_integer() and abs(short) < 1e15 else short
