"""The keys of a keyed run in the terminal, and on a page with a map of which keys drifted when."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Self, TypeAlias

from rich.table import Table

from driftsurf.core import files
from driftsurf.core.decisions import TRANSITION_WORDS
from driftsurf.errors import RunFolderError
from driftsurf.keyed.folder import PAGE, KeyedFolder
from driftsurf.registry import register
from driftsurf.report import html
from driftsurf.report.key_map import LINES, STYLE, Change, KeyMap, format_time
from driftsurf.report.terminal import console

__all__ = ["Change", "KeyedRecord", "print_keys", "render", "write_keyed_page"]

Keys: TypeAlias = Mapping[Any, Mapping[str, Any]]
"""The entries of the table of keys, by key."""
SHOWN = 20
NUMBERS = 2, 3, 5, 6
"""Columns of the table that hold numbers."""


DATES = 10**14, 4_102_444_800_000_000
"""Sequence numbers between these are shown as dates: microseconds from March 1973 to the end of 2099."""


@dataclass(frozen=True)
class KeyedRecord:
    """What the folder of a keyed run says about its keys."""

    name: str
    keys: Keys
    changes: list[Change]
    start: int | None
    """The first sequence number."""
    dates: bool
    """Whether sequence numbers are dates."""

    @classmethod
    def read(cls, folder: KeyedFolder) -> Self:
        """Read the complete epochs; RunFolderError if there are none yet."""
        folder.about()
        if not folder.epochs():
            raise RunFolderError(f"{str(folder.path)!r} has no complete epoch yet, so that there are no keys to show")
        journal = folder.read("journal", ["key", "sequence", "transitions"])
        rows = zip(journal["key"], journal["sequence"], journal["transitions"], strict=True)
        sequence = folder.read("predictions", ["sequence"])["sequence"]
        return cls(
            folder.path.name,
            folder.compact(),
            [Change(*row) for row in rows if row[2]],
            min(sequence, default=None),
            bool(sequence) and DATES[0] < min(sequence) <= max(sequence) < DATES[1],
        )


@register("page", "keyed")
def write_keyed_page(folder: KeyedFolder) -> KeyedRecord:
    """Write the page of a keyed run to its folder, and return what it shows."""
    record = KeyedRecord.read(folder)
    page = render(f"Keys of {record.name}", record.keys, record.changes, start=record.start, dates=record.dates)
    files.write_text(folder.path / PAGE, page)
    return record


# ---------------------------------------------------------------------------- terminal


def print_keys(keys: Keys, *, limit: int = SHOWN, dates: bool = False) -> None:
    """Print totals, and the keys that need attention: those in quarantine, then those with the largest error."""
    out = console()
    total = _totals(keys)
    out.print(
        f"{total['keys']:,} keys, {total['rows']:,} rows, {_measure(keys)} {_format_error(total['error'])}, "
        f"{total['transitions']:,} transitions, {total['reactive']:,} reactive, "
        f"{total['quarantined']:,} in quarantine, {total['duplicates']:,} duplicates dropped, "
        + f"{total['gaps']:,} gaps filled, " * (total["gaps"] > 0)
        + f"{total['bytes']:,} bytes of state"
    )
    table = Table(box=None, pad_edge=False, header_style="bold")
    for place, name in enumerate(_heads(keys)):
        table.add_column(name, justify="right" if place in NUMBERS else "left")
    for cells in _cells(_worst(keys)[:limit], dates):
        table.add_row(*cells)
    out.print(table)
    if len(keys) > limit:
        out.print(f"... and {len(keys) - limit:,} more keys, with smaller errors")


def _totals(keys: Keys) -> dict[str, Any]:
    def total(name: str) -> Any:
        return sum(entry[name] for entry in keys.values())

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
    """Return the name of the error: the share of wrong predictions, or the mean absolute error of a regression."""
    return "MAE" if any(entry["deviation"] for entry in keys.values()) else "error"


def _heads(keys: Keys) -> tuple[str, ...]:
    return "key", "state", "rows", _measure(keys), "last transition", "at", "bytes", "quarantine"


def _worst(keys: Keys) -> list[tuple[Any, Mapping[str, Any]]]:
    def rank(item: tuple[Any, Mapping[str, Any]]) -> tuple[bool, float]:
        error = item[1]["error"]
        return not item[1]["quarantine"], -1.0 if error is None else -error

    return sorted(keys.items(), key=rank)


def _cells(entries: Sequence[tuple[Any, Mapping[str, Any]]], dates: bool) -> list[list[str]]:
    return [
        [
            str(key),
            "expired" if entry["expired"] else entry["state"],
            f"{entry['rows']:,}",
            _format_error(entry["error"]),
            entry["last_transition"] or "none",
            "" if entry["last_transition_at"] is None else format_time(entry["last_transition_at"], dates),
            f"{entry['bytes']:,}",
            _format_quarantine(entry, dates),
        ]
        for key, entry in entries
    ]


def _format_quarantine(entry: Mapping[str, Any], dates: bool) -> str:
    """Return the reason, the row and the value, such as "not_finite at 64: price = inf"; empty without quarantine."""
    if not entry["quarantine"]:
        return ""
    column, value = entry["quarantine_column"], entry["quarantine_value"]
    detail = f"{column} = {value}" if column else value
    return f"{entry['quarantine']} at {format_time(entry['quarantined_at'], dates)}" + f": {detail}" * bool(detail)


def _format_error(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


# ---------------------------------------------------------------------------- page


def render(title: str, keys: Keys, changes: Sequence[Change], *, start: int | None = None, dates: bool = False) -> str:
    """Return the page of a keyed run; the arguments are those of :class:`~driftsurf.report.key_map.KeyMap`."""
    total = _totals(keys)
    cards = [
        ("keys", f"{total['keys']:,}"),
        ("rows", f"{total['rows']:,}"),
        (f"{_measure(keys)} of predictions", _format_error(total["error"])),
        ("transitions", f"{total['transitions']:,}"),
        ("reactive now", f"{total['reactive']:,}"),
        ("in quarantine", f"{total['quarantined']:,}"),
        ("duplicates dropped", f"{total['duplicates']:,}"),
        ("gaps filled", f"{total['gaps']:,}"),
    ]
    worst = [[escape(cell) for cell in line] for line in _cells(_worst(keys)[:SHOWN], dates)]
    body = [
        f"<h1>{escape(title)}</h1>",
        '<p class="lead">One adaptive learner per key.</p>',
        html.cards(cards),
        "<h2>Which keys drifted when</h2>",
        '<p class="soft">Time runs along the column of the sequence. Keys that got a new model first are at the top. '
        f"With more than {LINES} keys a line is a group of keys, and a colour as strong as the share that changed.</p>",
        f'<div class="chart">{KeyMap(keys, changes, start, dates).render()}</div>',
        html.legend(
            [("changed", "box", "a new model took over"), ("entered", "box", TRANSITION_WORDS["entered"].phrase)]
        ),
        f"<h2>Keys that need attention</h2><p class='soft'>In quarantine first, then by error; {SHOWN} at most.</p>",
        html.table(_heads(keys), worst, numbers=NUMBERS),
    ]
    return html.document(title, body, style=STYLE)
