"""How the keys of a keyed run are doing: in the terminal, and as a page with a map of which drifted when."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, NamedTuple

import numpy as np
from rich.table import Table

from driftsurf.report import html
from driftsurf.report.terminal import console

__all__ = ["Change", "print_keys", "render"]

Keys = Mapping[Any, Mapping[str, Any]]
LINES, SPANS = 60, 120
WIDTH, LEFT, RIGHT, CELL, TOP, BOTTOM = 960, 168, 12, 9, 8, 36
NAME, NAMED, FEW, TICKS = 16, 22, 15, 4
"""Height of a line with a name, letters of it, lines of that height at most; and parts of the axis of time."""
DAY = 86_400_000_000
SHOWN = 20
NUMBERS = 2, 3, 5, 6
"""Columns of the table of keys that hold numbers."""
MARKS = {"switched", "replaced", "reset"}, {"entered"}
"""Kinds of transitions that mean a new model, and a sign of drift."""
STYLE = """
.entered { fill: var(--band); } .changed { fill: var(--drift); } .field { fill: var(--line); opacity: .35; }
"""


class Change(NamedTuple):
    """A time step of a key with transitions."""

    key: Any
    sequence: int
    kinds: str
    """With commas between."""


# ---------------------------------------------------------------------------- terminal


def print_keys(keys: Keys, *, limit: int = SHOWN, dates: bool = False) -> None:
    """The totals, and the keys that need a look: those in quarantine, then those with the largest error."""
    out = console()
    total = _totals(keys)
    out.print(
        f"{total['keys']:,} keys, {total['rows']:,} rows, {_measure(keys)} {_share(total['error'])}, "
        f"{total['transitions']:,} transitions, {total['reactive']:,} reactive, "
        f"{total['quarantined']:,} in quarantine, {total['duplicates']:,} duplicates dropped, "
        + f"{total['gaps']:,} gaps filled, " * (total["gaps"] > 0)
        + f"{total['bytes']:,} bytes of state"
    )
    table = Table(box=None, pad_edge=False, header_style="bold")
    for place, name in enumerate(_heads(keys)):
        table.add_column(name, justify="right" if place in NUMBERS else "left")
    for cells in _lines(_worst(keys)[:limit], dates):
        table.add_row(*cells)
    out.print(table)
    if len(keys) > limit:
        out.print(f"... and {len(keys) - limit:,} more keys, with smaller errors")


def _totals(keys: Keys) -> dict[str, Any]:
    def total(name: str) -> Any:
        return sum(entry.get(name) or 0 for entry in keys.values())  # an earlier version may have counted fewer things

    scored = total("scored")
    return {
        **{name: total(name) for name in ("rows", "transitions", "duplicates", "refused", "gaps", "bytes")},
        "keys": len(keys),
        "error": (total("errors") + total("deviation")) / scored if scored else None,
        "reactive": sum(entry["state"] == "reactive" for entry in keys.values()),
        "quarantined": sum(bool(entry["quarantine"]) for entry in keys.values()),
        "expired": sum(bool(entry["expired"]) for entry in keys.values()),
    }


def _measure(keys: Keys) -> str:
    """What the error is: the share of wrong predictions, or of values their mean distance from the true ones."""
    return "MAE" if any(entry.get("deviation") for entry in keys.values()) else "error"


def _heads(keys: Keys) -> tuple[str, ...]:
    return "key", "state", "rows", _measure(keys), "last transition", "at", "bytes", "quarantine"


def _worst(keys: Keys) -> list[tuple[Any, Mapping[str, Any]]]:
    def rank(item: tuple[Any, Mapping[str, Any]]) -> tuple[bool, float]:
        error = item[1]["error"]
        return not item[1]["quarantine"], -1.0 if error is None else -error

    return sorted(keys.items(), key=rank)


def _lines(entries: Sequence[tuple[Any, Mapping[str, Any]]], dates: bool) -> list[list[str]]:
    return [
        [
            str(key),
            "expired" if entry["expired"] else entry["state"],
            f"{entry['rows']:,}",
            _share(entry["error"]),
            entry["last_transition"] or "none",
            "" if entry["last_transition_at"] is None else _time(entry["last_transition_at"], dates),
            f"{entry['bytes']:,}",
            entry["quarantine"],
        ]
        for key, entry in entries
    ]


def _time(sequence: int, dates: bool, *, whole_days: bool = False) -> str:
    """A sequence number, or the date of which it is the microseconds."""
    if not dates:
        return f"{sequence:,}"
    text = str(np.datetime64(sequence, "us").astype("datetime64[m]")).replace("T", " ")
    return text[:10] if whole_days else text


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


# ---------------------------------------------------------------------------- page


def render(title: str, keys: Keys, changes: Sequence[Change], *, start: int | None = None, dates: bool = False) -> str:
    """The page; ``start`` is where time begins, ``dates`` whether sequence numbers are microseconds of dates."""
    total = _totals(keys)
    cards = [(word, f"{total[name]:,}") for word, name in (("keys", "keys"), ("rows", "rows"))]
    cards += [(f"{_measure(keys)} of predictions", _share(total["error"]))]
    cards += [
        (word, f"{total[name]:,}")
        for word, name in (
            ("transitions", "transitions"),
            ("reactive now", "reactive"),
            ("in quarantine", "quarantined"),
            ("duplicates dropped", "duplicates"),
            ("gaps filled", "gaps"),
        )
    ]
    worst = [[escape(cell) for cell in line] for line in _lines(_worst(keys)[:SHOWN], dates)]
    body = [
        f"<h1>{escape(title)}</h1>",
        '<p class="lead">One adaptive learner for each key.</p>',
        html.cards(cards),
        "<h2>Which keys drifted when</h2>",
        '<p class="soft">Time goes by the column of the sequence. Keys whose model changed first stand first; '
        f"with more than {LINES} keys, a line is a group of them, and a colour as strong as the share that did.</p>",
        f'<div class="chart">{heat_map(keys, changes, start=start, dates=dates)}</div>',
        html.legend(
            [("changed", "box", "a new model took over"), ("entered", "box", "a sign of drift: reactive state")]
        ),
        f"<h2>Keys that need a look</h2><p class='soft'>In quarantine first, then by error; {SHOWN} at most.</p>",
        html.table(_heads(keys), worst, numbers=NUMBERS),
    ]
    return html.document(title, body, style=STYLE)


def heat_map(keys: Keys, changes: Sequence[Change], *, start: int | None = None, dates: bool = False) -> str:
    """Lines of keys, spans of time; a cell says what share of its keys entered a reactive state, or switched."""
    order = _order(keys, changes)
    lines = min(LINES, len(order))
    line_of = {key: place * lines // len(order) for place, key in enumerate(order)}
    groups: list[list[Any]] = [[] for _ in range(lines)]
    for key in order:
        groups[line_of[key]].append(key)
    low, high = _range(keys, changes, start)
    cells: dict[tuple[int, int], tuple[set[Any], set[Any]]] = {}
    for change in changes:
        span = min(SPANS - 1, (change.sequence - low) * SPANS // (high - low))
        for found, kinds in zip(cells.setdefault((line_of[change.key], span), (set(), set())), MARKS, strict=True):
            if kinds & set(change.kinds.split(",")):
                found.add(change.key)
    cell = CELL if lines > FEW else NAME
    base = TOP + cell * lines
    parts = [
        f'<svg viewBox="0 0 {WIDTH} {base + BOTTOM}" role="img" aria-label="which keys drifted when">',
        f'<rect class="field" x="{LEFT}" y="{TOP}" width="{WIDTH - LEFT - RIGHT}" height="{cell * lines}"/>',
    ]
    for (line, span), (switched, entered) in sorted(cells.items()):
        at = low + (high - low) * span // SPANS
        if switched:
            parts.append(
                _cell("changed", line, span, cell, switched, len(groups[line]), f"new model at {_time(at, dates)}")
            )
        elif entered:
            parts.append(
                _cell("entered", line, span, cell, entered, len(groups[line]), f"reactive at {_time(at, dates)}")
            )
    for line in range(0, lines, max(1 if cell >= NAME else 2, lines // 15)):
        more = f" +{len(groups[line]) - 1}" * (len(groups[line]) > 1)
        name = str(groups[line][0])
        name = name if len(name + more) <= NAMED else name[: NAMED - 3 - len(more)] + "..."
        y = TOP + line * cell + cell / 2 + 4
        parts.append(f'<text class="tick" x="{LEFT - 8}" y="{y:g}" text-anchor="end">{escape(name + more)}</text>')
    days = dates and high - low >= TICKS * DAY
    for k in range(TICKS + 1):
        x = LEFT + (WIDTH - LEFT - RIGHT) * k / TICKS
        anchor = {0: "start", TICKS: "end"}.get(k, "middle")
        value = _time(low + (high - 1 - low) * k // TICKS, dates, whole_days=days)
        parts.append(f'<text class="tick" x="{x:.1f}" y="{base + 16}" text-anchor="{anchor}">{value}</text>')
    word = "time" if dates else "sequence"
    parts.append(f'<text class="name" x="{(LEFT + WIDTH) / 2}" y="{base + 32}" text-anchor="middle">{word}</text>')
    return "\n".join([*parts, "</svg>"])


def _cell(css: str, line: int, span: int, cell: int, shown: set[Any], of: int, what: str) -> str:
    width = (WIDTH - LEFT - RIGHT) / SPANS
    names = ", ".join(str(key) for key in sorted(shown, key=str)[:5]) + ", ..." * (len(shown) > 5)
    return (
        f'<rect class="{css}" x="{LEFT + span * width:.1f}" y="{TOP + line * cell}" width="{width:.1f}" '
        f'height="{cell - 1}" opacity="{0.35 + 0.65 * len(shown) / of:.2f}">'
        f"<title>{escape(names)}: {what}</title></rect>"
    )


def _order(keys: Keys, changes: Sequence[Change]) -> list[Any]:
    """Keys by when they first got a new model, so that those that changed together stand together."""
    first: dict[Any, int] = {}
    for change in changes:
        if MARKS[0] & set(change.kinds.split(",")):
            first[change.key] = min(change.sequence, first.get(change.key, change.sequence))
    return sorted(keys, key=lambda key: (key not in first, first.get(key, 0), str(key)))


def _range(keys: Keys, changes: Sequence[Change], start: int | None) -> tuple[int, int]:
    """From the first row, where it is known, to behind the last."""
    tops = [int(entry["high_water"]) for entry in keys.values() if entry["high_water"] is not None]
    low = min((change.sequence for change in changes), default=0)
    high = max(tops, default=0) + 1
    if start is not None:
        return min(start, low if changes else start, high - 1), high
    return (0 if 0 <= low <= high / 2 else min(low, high - 1)), high
