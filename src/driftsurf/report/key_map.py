"""A map of which models of keys changed when, as inline SVG: lines of keys, spans of time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, NamedTuple

from driftsurf.core.decisions import TRANSITION_WORDS
from driftsurf.core.wording import in_words, optional
from driftsurf.keyed.drifts import NEW_MODEL
from driftsurf.keyed.outcomes import format_time
from driftsurf.report.svg import drawing, element

__all__ = ["LINES", "NARROW", "STYLE", "WIDE", "Change", "KeyMap", "Layout"]

LINES, SPANS = 60, 120
"""Lines at most, and cells of a line."""
RIGHT, TOP, BOTTOM = 12, 8, 36
LINE_HEIGHT, TALL_LINE_HEIGHT, MOST_TALL_LINES = 9, 16, 15
"""With few keys lines are tall, so that each has room for its name."""
DAY = 86_400_000_000
SIGN_OF_DRIFT = {"entered"}
STYLE = """
.entered { fill: #e69f00; fill-opacity: .6; } .changed { fill: var(--drift); }
.field { fill: var(--line); opacity: .35; } td { white-space: nowrap; overflow-wrap: normal; }
"""


class Layout(NamedTuple):
    """The size of a map."""

    width: int
    left: int
    """Width of the names of keys."""
    name_length: int
    """Characters of a name at most."""
    ticks: int
    """Parts of the axis of time."""


WIDE, NARROW = Layout(960, 168, 22, 4), Layout(348, 92, 12, 2)
"""Layouts for a screen and for a phone."""


class Change(NamedTuple):
    """A time step of a key with transitions."""

    key: Any
    sequence: int
    kinds: str
    """The kinds of transitions, separated by commas."""

    def has(self, kinds: Set[str]) -> bool:
        """Return whether one of its transitions is of these kinds."""
        return not kinds.isdisjoint(self.kinds.split(","))


@dataclass
class KeyMap:
    """Shows when keys entered a reactive state, and when they got a new model.

    Keys that got a new model at the same time are next to each other. With more than LINES keys a line is a group of
    keys, and the opacity of a cell is the share of them that changed.

    Parameters
    ----------
    keys
        The entries of the table of keys, by key.
    changes
        The time steps with transitions.
    start
        Where time starts; None if it is not known.
    dates
        Whether sequence numbers are microseconds of dates.
    layout
        The size: ``WIDE`` or ``NARROW``.
    """

    keys: Mapping[Any, Mapping[str, Any]]
    changes: Sequence[Change]
    start: int | None = None
    dates: bool = False
    layout: Layout = WIDE

    def render(self) -> str:
        """Return the SVG element."""
        order = self._order()
        n_lines = min(LINES, len(order))
        lines: list[list[Any]] = [[] for _ in range(n_lines)]
        for place, key in enumerate(order):
            lines[place * n_lines // len(order)].append(key)
        height = LINE_HEIGHT if n_lines > MOST_TALL_LINES else TALL_LINE_HEIGHT
        base = TOP + height * n_lines
        field = element("rect", class_="field", x=self.layout.left, y=TOP, width=self._plot, height=base - TOP)
        parts = [field, *self._cells(lines, height), *self._names(lines, height), *self._time_axis(base)]
        return drawing(self.layout.width, base + BOTTOM, "which models changed when", parts)

    @property
    def _plot(self) -> int:
        """Width of the axis of time."""
        return self.layout.width - self.layout.left - RIGHT

    def _order(self) -> list[Any]:
        """Return the keys by when they first got a new model."""
        first: dict[Any, int] = {}
        for change in self.changes:
            if change.has(NEW_MODEL):
                first[change.key] = min(change.sequence, first.get(change.key, change.sequence))
        return sorted(self.keys, key=lambda key: (key not in first, first.get(key, 0), str(key)))

    def _range(self) -> tuple[int, int]:
        """Return the first sequence number, if it is known, and the one after the last."""
        tops = [int(entry["high_water"]) for entry in self.keys.values() if entry["high_water"] is not None]
        low = min((change.sequence for change in self.changes), default=0)
        high = max(tops, default=0) + 1
        if self.start is not None:
            return min(self.start, low if self.changes else self.start, high - 1), high
        return (0 if 0 <= low <= high / 2 else min(low, high - 1)), high

    def _cells(self, lines: list[list[Any]], height: int) -> list[str]:
        low, high = self._range()
        line_of = {key: line for line, group in enumerate(lines) for key in group}
        changed: dict[tuple[int, int], set[Any]] = {}
        entered: dict[tuple[int, int], set[Any]] = {}
        for change in self.changes:
            place = line_of[change.key], min(SPANS - 1, (change.sequence - low) * SPANS // (high - low))
            for found, kinds in ((changed, NEW_MODEL), (entered, SIGN_OF_DRIFT)):
                if change.has(kinds):
                    found.setdefault(place, set()).add(change.key)
        parts = []
        for line, span in sorted(changed.keys() | entered.keys()):
            at = format_time(low + (high - low) * span // SPANS, self.dates)
            keys, css, what = changed.get((line, span), set()), "changed", f"new model at {at}"
            if not keys:
                keys, css, what = entered[line, span], "entered", f"{TRANSITION_WORDS['entered'].phrase} at {at}"
            names = in_words(sorted(keys, key=str), most=5)
            width = self._plot / SPANS
            parts.append(
                element(
                    "rect",
                    title=f"{names}: {what}",
                    class_=css,
                    x=self.layout.left + span * width,
                    y=TOP + line * height,
                    width=width,
                    height=height - 1,
                    opacity=0.35 + 0.65 * len(keys) / len(lines[line]),
                )
            )
        return parts

    def _names(self, lines: list[list[Any]], height: int) -> list[str]:
        parts = []
        for line in range(0, len(lines), max(1 if height >= TALL_LINE_HEIGHT else 2, len(lines) // 15)):
            more = optional(len(lines[line]) > 1, f" +{len(lines[line]) - 1}")
            name = str(lines[line][0])
            if len(name + more) > self.layout.name_length:
                name = name[: self.layout.name_length - 3 - len(more)] + "..."
            y = TOP + line * height + height / 2 + 4
            parts.append(element("text", name + more, class_="tick", x=self.layout.left - 8, y=y, text_anchor="end"))
        return parts

    def _time_axis(self, base: int) -> list[str]:
        low, high = self._range()
        left, ticks = self.layout.left, self.layout.ticks
        days = self.dates and high - low >= ticks * DAY
        parts = []
        for k in range(ticks + 1):
            x = left + self._plot * k / ticks
            anchor = {0: "start", ticks: "end"}.get(k, "middle")
            value = format_time(low + (high - 1 - low) * k // ticks, self.dates, whole_days=days)
            parts.append(element("text", value, class_="tick", x=x, y=base + 16, text_anchor=anchor))
        word = "time" if self.dates else "sequence"
        middle = left + self._plot / 2
        return [*parts, element("text", word, class_="name", x=middle, y=base + 32, text_anchor="middle")]
