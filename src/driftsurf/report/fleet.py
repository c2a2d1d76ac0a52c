"""How the keys of a keyed run are doing: in the terminal, and as a page with a map of which drifted when."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, NamedTuple

from rich.table import Table

from driftsurf.report import html
from driftsurf.report.terminal import console

__all__ = ["Change", "print_keys", "render"]

Keys = Mapping[Any, Mapping[str, Any]]
LINES, SPANS = 60, 120
WIDTH, LEFT, RIGHT, CELL, TOP, BOTTOM = 960, 120, 12, 9, 8, 36
SHOWN = 20
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


def print_keys(keys: Keys, *, limit: int = SHOWN) -> None:
    """The totals, and the keys that need a look: those in quarantine, then those with the largest error."""
    out = console()
    total = _totals(keys)
    out.print(
        f"{total['keys']:,} keys, {total['rows']:,} rows, error {_share(total['error'])}, "
        f"{total['transitions']:,} transitions, {total['reactive']:,} reactive, "
        f"{total['quarantined']:,} in quarantine, {total['duplicates']:,} duplicates dropped, "
        f"{total['bytes']:,} bytes of state"
    )
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("key", "state", "rows", "error", "last transition", "at", "bytes", "quarantine"):
        table.add_column(name, justify="right" if name in ("rows", "error", "at", "bytes") else "left")
    for cells in _lines(_worst(keys)[:limit]):
        table.add_row(*cells)
    out.print(table)
    if len(keys) > limit:
        out.print(f"... and {len(keys) - limit:,} more keys, with smaller errors")


def _totals(keys: Keys) -> dict[str, Any]:
    def total(name: str) -> int:
        return sum(int(entry[name]) for entry in keys.values())

    scored = total("scored")
    return {
        **{name: total(name) for name in ("rows", "transitions", "duplicates", "refused", "bytes")},
        "keys": len(keys),
        "error": total("errors") / scored if scored else None,
        "reactive": sum(entry["state"] == "reactive" for entry in keys.values()),
        "quarantined": sum(bool(entry["quarantine"]) for entry in keys.values()),
        "expired": sum(bool(entry["expired"]) for entry in keys.values()),
    }


def _worst(keys: Keys) -> list[tuple[Any, Mapping[str, Any]]]:
    def rank(item: tuple[Any, Mapping[str, Any]]) -> tuple[bool, float]:
        error = item[1]["error"]
        return not item[1]["quarantine"], -1.0 if error is None else -error

    return sorted(keys.items(), key=rank)


def _lines(entries: Sequence[tuple[Any, Mapping[str, Any]]]) -> list[list[str]]:
    return [
        [
            str(key),
            "expired" if entry["expired"] else entry["state"],
            f"{entry['rows']:,}",
            _share(entry["error"]),
            entry["last_transition"] or "none",
            "" if entry["last_transition_at"] is None else f"{entry['last_transition_at']:,}",
            f"{entry['bytes']:,}",
            entry["quarantine"],
        ]
        for key, entry in entries
    ]


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


# ---------------------------------------------------------------------------- page


def render(title: str, keys: Keys, changes: Sequence[Change]) -> str:
    """The page."""
    total = _totals(keys)
    cards = [(word, f"{total[name]:,}") for word, name in (("keys", "keys"), ("rows", "rows"))]
    cards += [("error of predictions", _share(total["error"]))]
    cards += [
        (word, f"{total[name]:,}")
        for word, name in (
            ("transitions", "transitions"),
            ("reactive now", "reactive"),
            ("in quarantine", "quarantined"),
            ("duplicates dropped", "duplicates"),
        )
    ]
    heads = "key", "state", "rows", "error", "last transition", "at", "bytes", "quarantine"
    worst = [[escape(cell) for cell in line] for line in _lines(_worst(keys)[:SHOWN])]
    body = [
        f"<h1>{escape(title)}</h1>",
        '<p class="lead">One adaptive learner for each key.</p>',
        html.cards(cards),
        "<h2>Which keys drifted when</h2>",
        '<p class="soft">Time goes by sequence number. Keys whose model changed first stand first; with more than '
        f"{LINES} keys, a line is a group of them, and a colour as strong as the share that changed.</p>",
        f'<div class="chart">{heat_map(keys, changes)}</div>',
        html.legend(
            [("changed", "box", "a new model took over"), ("entered", "box", "a sign of drift: reactive state")]
        ),
        f"<h2>Keys that need a look</h2><p class='soft'>In quarantine first, then by error; {SHOWN} at most.</p>",
        html.table(heads, worst, numbers=(2, 3, 5, 6)),
    ]
    return html.document(title, body, style=STYLE)


def heat_map(keys: Keys, changes: Sequence[Change]) -> str:
    """Lines of keys, spans of time; a cell says what share of its keys entered a reactive state, or switched."""
    order = _order(keys, changes)
    lines = min(LINES, len(order))
    line_of = {key: place * lines // len(order) for place, key in enumerate(order)}
    groups: list[list[Any]] = [[] for _ in range(lines)]
    for key in order:
        groups[line_of[key]].append(key)
    low, high = _range(keys, changes)
    cells: dict[tuple[int, int], tuple[set[Any], set[Any]]] = {}
    for change in changes:
        span = min(SPANS - 1, (change.sequence - low) * SPANS // (high - low))
        for found, kinds in zip(cells.setdefault((line_of[change.key], span), (set(), set())), MARKS, strict=True):
            if kinds & set(change.kinds.split(",")):
                found.add(change.key)
    base = TOP + CELL * lines
    parts = [
        f'<svg viewBox="0 0 {WIDTH} {base + BOTTOM}" role="img" aria-label="which keys drifted when">',
        f'<rect class="field" x="{LEFT}" y="{TOP}" width="{WIDTH - LEFT - RIGHT}" height="{CELL * lines}"/>',
    ]
    for (line, span), (switched, entered) in sorted(cells.items()):
        at = low + (high - low) * span // SPANS
        if switched:
            parts.append(_cell("changed", line, span, switched, len(groups[line]), f"new model at {at:,}"))
        elif entered:
            parts.append(_cell("entered", line, span, entered, len(groups[line]), f"reactive at {at:,}"))
    for line in range(0, lines, max(1, lines // 15)):
        name = str(groups[line][0]) + f" +{len(groups[line]) - 1}" * (len(groups[line]) > 1)
        y = TOP + line * CELL + CELL - 1
        parts.append(f'<text class="tick" x="{LEFT - 8}" y="{y}" text-anchor="end">{escape(name[:16])}</text>')
    for k in range(6):
        x = LEFT + (WIDTH - LEFT - RIGHT) * k / 5
        anchor = "end" if k == 5 else "middle"
        value = low + (high - low) * k // 5
        parts.append(f'<text class="tick" x="{x:.1f}" y="{base + 16}" text-anchor="{anchor}">{value:,}</text>')
    parts.append(f'<text class="name" x="{(LEFT + WIDTH) / 2}" y="{base + 32}" text-anchor="middle">sequence</text>')
    return "\n".join([*parts, "</svg>"])


def _cell(css: str, line: int, span: int, shown: set[Any], of: int, what: str) -> str:
    width = (WIDTH - LEFT - RIGHT) / SPANS
    names = ", ".join(str(key) for key in sorted(shown, key=str)[:5]) + ", ..." * (len(shown) > 5)
    return (
        f'<rect class="{css}" x="{LEFT + span * width:.1f}" y="{TOP + line * CELL}" width="{width:.1f}" '
        f'height="{CELL - 1}" opacity="{0.35 + 0.65 * len(shown) / of:.2f}">'
        f"<title>{escape(names)}: {what}</title></rect>"
    )


def _order(keys: Keys, changes: Sequence[Change]) -> list[Any]:
    """Keys by when they first got a new model, so that those that changed together stand together."""
    first: dict[Any, int] = {}
    for change in changes:
        if MARKS[0] & set(change.kinds.split(",")):
            first[change.key] = min(change.sequence, first.get(change.key, change.sequence))
    return sorted(keys, key=lambda key: (key not in first, first.get(key, 0), str(key)))


def _range(keys: Keys, changes: Sequence[Change]) -> tuple[int, int]:
    """From the first row, or 0, to behind the last."""
    tops = [int(entry["high_water"]) for entry in keys.values() if entry["high_water"] is not None]
    low = min((change.sequence for change in changes), default=0)
    high = max(tops, default=0) + 1
    return (0 if 0 <= low <= high / 2 else min(low, high - 1)), high
