"""The keys of a keyed run in the terminal, and on a page with a map of which keys drifted when."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self, TypeAlias

from rich.table import Table

from driftsurf.core import files
from driftsurf.core.decisions import TRANSITION_WORDS
from driftsurf.errors import InputError, RunFolderError
from driftsurf.keyed.folder import PAGE, KeyedFolder
from driftsurf.keyed.outcomes import KeyScore, Outcomes
from driftsurf.registry import register
from driftsurf.report import html
from driftsurf.report.key_map import LINES, NARROW, STYLE, WIDE, Change, KeyMap, format_time
from driftsurf.report.key_page import KEY_PAGES, key_page_name, write_key_pages
from driftsurf.report.terminal import console
from driftsurf.report.what_was_run import without_secrets
from driftsurf.visible import escape

__all__ = ["Change", "KeyedRecord", "find_key", "no_better_warning", "print_keys", "render", "write_keyed_page"]

Keys: TypeAlias = Mapping[Any, Mapping[str, Any]]
"""The entries of the table of keys, by key."""
SHOWN = 20
TABLE_WIDTH = 160
"""Width of the table if the output is not a terminal."""
PAGES, STEPS = 100, 50_000
"""Keys that get a page of their own at most, and time steps of which these pages show the decisions, all together."""
TOO_LARGE = 1000.0
"""Errors from here on are written in short."""
NAMED = 10
"""Keys that a warning names."""
NUMBERS = 2, 3, 4, 5
"""Columns of the table that hold numbers."""

NOTHING: Mapping[Any, KeyScore] = {}
ORDER = "In quarantine first, then those whose model is no better than a trivial rule, then by error"


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
    outcomes: Outcomes
    """The predictions whose label is known."""
    scores: Mapping[Any, KeyScore] = field(default_factory=dict)
    """The error of each key beside those of trivial rules; keys of which nothing was scored are left out."""

    @classmethod
    def read(cls, folder: KeyedFolder) -> Self:
        """Read the complete epochs; RunFolderError if there are none yet."""
        folder.about()
        if not folder.epochs():
            raise RunFolderError(f"{str(folder.path)!r} has no complete epoch yet, so that there are no keys to show")
        journal = folder.read("journal", ["key", "sequence", "transitions"])
        rows = zip(journal["key"], journal["sequence"], journal["transitions"], strict=True)
        keys = folder.compact()
        found = Outcomes.read(folder, regression=_is_regression(keys))
        return cls(
            folder.path.name,
            keys,
            [Change(*row) for row in rows if row[2]],
            found.first,
            found.dates,
            found,
            found.scores(),
        )


@register("page", "keyed")
def write_keyed_page(folder: KeyedFolder) -> KeyedRecord:
    """Write the page of a keyed run to its folder, with pages of the keys that need attention; return what it shows."""
    record = KeyedRecord.read(folder)
    paged = _paged(record)
    page = render(
        f"Keys of {record.name}",
        record.keys,
        record.changes,
        start=record.start,
        dates=record.dates,
        scores=record.scores,
        paged=paged,
        about=folder.about(),
    )
    write_key_pages(folder, record.outcomes, {key: record.keys[key] for key in paged})
    files.write_text(folder.path / PAGE, page)
    return record


def find_key(keys: Keys, name: str) -> Any:
    """Return the key with this name, as tables show it; InputError if there is none."""
    named = {str(key): key for key in keys}
    if name not in named:
        near = difflib.get_close_matches(name, named, n=3)
        hint = f"did you mean {', '.join(near)}?" if near else f"the first keys are {', '.join(list(named)[:3])}"
        raise InputError(f"there is no key {name!r} among {len(keys):,} keys; {hint}")
    return named[name]


def _paged(record: KeyedRecord) -> list[Any]:
    """Return the keys that get pages: those that need attention most, as many as fit into the bounds."""
    chosen, steps = list[Any](), 0
    for key, entry in _by_need(record.keys, record.scores)[:PAGES]:
        steps += entry["steps"]
        if chosen and steps > STEPS:
            break
        chosen.append(key)
    return chosen


# ---------------------------------------------------------------------------- terminal


def print_keys(
    keys: Keys, *, limit: int = SHOWN, dates: bool = False, scores: Mapping[Any, KeyScore] = NOTHING
) -> None:
    """Print totals, and the keys that need attention."""
    out = console()
    out.width = out.width if out.is_terminal else TABLE_WIDTH
    total = _totals(keys)
    rules = "".join(f", {name} {_format_error(value)}" for name, value in _rules(keys, scores).items())
    out.print(
        f"{total['keys']:,} key{'s' * (total['keys'] != 1)}, {total['rows']:,} rows, "
        f"{_measure(keys)} {_format_error(total['error'])}{rules}, "
        f"{total['transitions']:,} transitions, {total['reactive']:,} reactive, "
        f"{total['quarantined']:,} in quarantine, {total['duplicates']:,} duplicates dropped, "
        + f"{total['gaps']:,} gaps filled, " * (total["gaps"] > 0)
        + f"{total['bytes']:,} bytes of state"
    )
    table = Table(box=None, pad_edge=False, header_style="bold")
    for place, name in enumerate(_heads(keys)):
        table.add_column(name, justify="right" if place in NUMBERS else "left")
    for cells in _cells(keys, _by_need(keys, scores)[:limit], scores, dates):
        table.add_row(*cells)
    out.print(table)
    if len(keys) > limit:
        out.print(f"... and {len(keys) - limit:,} more keys")


def no_better_warning(keys: Keys, scores: Mapping[Any, KeyScore]) -> str:
    """Return a sentence on the keys whose model is no better than a trivial rule; empty if there are none."""
    poor = [key for key, _ in _by_need(keys, scores) if key in scores and scores[key].no_better]
    if not poor:
        return ""
    names = ", ".join(str(key) for key in poor[:NAMED]) + f" and {len(poor) - NAMED:,} more" * (len(poor) > NAMED)
    one = "mean" if _is_regression(keys) else "majority"
    return (
        f"the models of {len(poor):,} of {len(keys):,} keys are no better than a trivial rule ({one}, or persistence: "
        f"the label of the row before): {names}"
    )


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


def _rules(keys: Keys, scores: Mapping[Any, KeyScore]) -> dict[str, float]:
    """Return the errors of the trivial rules over the rows of all keys, by name."""
    rows = sum(score.rows for score in scores.values())
    names = _heads(keys)[4:6]
    totals = (
        sum(score.constant * score.rows for score in scores.values()),
        sum(score.persistence * score.rows for score in scores.values()),
    )
    return {name: total / rows for name, total in zip(names, totals, strict=True)} if rows else {}


def _is_regression(keys: Keys) -> bool:
    return any(entry["deviation"] for entry in keys.values())


def _measure(keys: Keys) -> str:
    """Return the name of the error: the share of wrong predictions, or the mean absolute error of a regression."""
    return "MAE" if _is_regression(keys) else "error"


def _heads(keys: Keys) -> tuple[str, ...]:
    rule = "mean" if _is_regression(keys) else "majority"
    faulty = any(entry["quarantine"] for entry in keys.values())
    return "key", "state", "rows", _measure(keys), rule, "persistence", "last change", *["quarantine"] * faulty


def _by_need(keys: Keys, scores: Mapping[Any, KeyScore]) -> list[tuple[Any, Mapping[str, Any]]]:
    """Return the keys in the order of ``ORDER``; those that lose most rows against a trivial rule first."""

    def rank(item: tuple[Any, Mapping[str, Any]]) -> tuple[bool, bool, float, float]:
        key, entry = item
        error, score = entry["error"], scores.get(key)
        poor = score is not None and score.no_better
        lost = (score.model - score.trivial) * score.rows if poor and score is not None else 0.0
        return not entry["quarantine"], not poor, -lost, 1.0 if error is None else -error

    return sorted(keys.items(), key=rank)


def _cells(
    keys: Keys, entries: Sequence[tuple[Any, Mapping[str, Any]]], scores: Mapping[Any, KeyScore], dates: bool
) -> list[list[str]]:
    """Return the cells of a table of some of the keys, with the columns of ``_heads``."""
    columns = len(_heads(keys))
    lines = [
        [
            str(key),
            "expired" if entry["expired"] else entry["state"],
            f"{entry['rows']:,}",
            _format_error(entry["error"]),
            _format_error(scores[key].constant if key in scores else None),
            _format_error(scores[key].persistence if key in scores else None),
            _format_change(entry, dates),
            _format_quarantine(entry, dates),
        ]
        for key, entry in entries
    ]
    return [line[:columns] for line in lines]


def _format_change(entry: Mapping[str, Any], dates: bool) -> str:
    """Return the last transition and its place, such as "fresh start at 886"."""
    at, kind = entry["last_transition_at"], entry["last_transition"]
    if at is None:
        return "none"
    return f"{TRANSITION_WORDS[kind].singular if kind in TRANSITION_WORDS else kind} at {format_time(at, dates)}"


def _format_quarantine(entry: Mapping[str, Any], dates: bool) -> str:
    """Return the reason, the row and the value, such as "not_finite at 64: price = inf"; empty without quarantine."""
    if not entry["quarantine"]:
        return ""
    column, value = entry["quarantine_column"], entry["quarantine_value"]
    detail = f"{column} = {value}" if column else value
    return f"{entry['quarantine']} at {format_time(entry['quarantined_at'], dates)}" + f": {detail}" * bool(detail)


def _format_error(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}" if value < TOO_LARGE else f"{value:.4g}"


# ---------------------------------------------------------------------------- page


def render(
    title: str,
    keys: Keys,
    changes: Sequence[Change],
    *,
    start: int | None = None,
    dates: bool = False,
    scores: Mapping[Any, KeyScore] = NOTHING,
    paged: Sequence[Any] = (),
    about: Mapping[str, Any] | None = None,
) -> str:
    """Return the page of a keyed run.

    Parameters
    ----------
    title
        The title of the page.
    keys, changes, start, dates
        As for :class:`~driftsurf.report.key_map.KeyMap`.
    scores
        The error of each key beside those of trivial rules.
    paged
        The keys that have pages of their own, to which the page links.
    about
        What ``run.json`` says.
    """
    total, measure = _totals(keys), _measure(keys)
    cards = [
        ("keys", f"{total['keys']:,}"),
        ("rows", f"{total['rows']:,}"),
        (f"{measure} of predictions", _format_error(total["error"])),
        *((f"{measure} of {name}", _format_error(value)) for name, value in _rules(keys, scores).items()),
        ("transitions", f"{total['transitions']:,}"),
        ("reactive now", f"{total['reactive']:,}"),
        ("in quarantine", f"{total['quarantined']:,}"),
        ("duplicates dropped", f"{total['duplicates']:,}"),
        ("gaps filled", f"{total['gaps']:,}"),
    ]
    warning = no_better_warning(keys, scores)
    body = [
        f"<h1>{escape(title)}</h1>",
        html.note(_what(about)) if about else "",
        '<p class="lead">One adaptive learner per key.</p>',
        html.warning(f"{warning[0].upper()}{warning[1:]}.") if warning else "",
        html.cards(cards),
        "<h2>Which keys drifted when</h2>",
        '<p class="soft">Time runs along the column of the sequence. Keys that got a new model first are at the top. '
        f"With more than {LINES} keys a line is a group of keys, and a colour as strong as the share that changed.</p>",
        html.either(*(KeyMap(keys, changes, start, dates, layout).render() for layout in (WIDE, NARROW))),
        html.legend(
            [("changed", "box", "a new model took over"), ("entered", "box", TRANSITION_WORDS["entered"].phrase)]
        ),
        *_table(keys, scores, paged, dates),
    ]
    return html.document(title, body, style=html.look() + STYLE)


def _what(about: Mapping[str, Any]) -> str:
    """Return what was run in one line."""
    strategy = about.get("learner", {}).get("strategy", {})
    named: dict[str, Any] = {"source": without_secrets(str(about["source"]))} if "source" in about else {}
    named |= {word: about.get("columns", {}).get(word) for word in ("key", "sequence", "label")}
    named |= {"strategy": strategy.get("name"), "learner": str(strategy.get("learner", "")).partition("(")[0]}
    named |= {"engine": about.get("engine"), "driftsurf": f"version {about.get('driftsurf', 'unknown')}"}
    return " · ".join(f"{word} {value}" for word, value in named.items() if value)


def _table(keys: Keys, scores: Mapping[Any, KeyScore], paged: Sequence[Any], dates: bool) -> list[str]:
    """Return the table of keys that need attention, with links to their pages."""
    linked = set(paged)
    shown = _by_need(keys, scores)[: max(SHOWN, len(paged))]
    lines = []
    for (key, _), cells in zip(shown, _cells(keys, shown, scores, dates), strict=True):
        name, *rest = map(escape, cells)
        if key in linked:
            name = f'<a href="{KEY_PAGES}/{key_page_name(key)}">{name}</a>'
        lines.append([name, *rest])
    note = f"{ORDER}."
    if len(shown) < len(keys):
        note += (
            f" These are {len(shown):,} of {len(keys):,} keys; driftsurf keys RUN KEY writes the page of any other one."
        )
    return ["<h2>Keys that need attention</h2>", html.note(note), html.wide_table(_heads(keys), lines, numbers=NUMBERS)]
