"""The keys of a keyed run in the terminal, and on a page with their drifts and a map of which models changed when."""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self, TypeAlias

from rich.table import Table

from driftsurf.core import files
from driftsurf.core.decisions import TRANSITION_WORDS
from driftsurf.core.wording import BASELINE_NAMES, BASELINE_WORDS, counted, in_words, optional, plural, significant
from driftsurf.errors import InputError, RunFolderError
from driftsurf.errors.visible import escape, safe_address
from driftsurf.evaluation.summary import Baselines
from driftsurf.keyed.drifts import DRIFT_HEADS, LEAST_ROWS, KeyDrifts, drift_lines
from driftsurf.keyed.folder import PAGE, KeyedFolder
from driftsurf.keyed.options import SHARED_MODELS
from driftsurf.keyed.outcomes import KeyScore, Outcomes, format_time
from driftsurf.registry import register
from driftsurf.report import html
from driftsurf.report.key_page import (
    KEY_PAGES,
    LINES,
    NARROW,
    STYLE,
    WIDE,
    KeyMap,
    KeyStep,
    key_page_name,
    write_key_pages,
)
from driftsurf.report.terminal import console

Keys: TypeAlias = Mapping[Any, Mapping[str, Any]]
"""The entries of the table of keys, by key."""
SHOWN = 20
TABLE_WIDTH = 160
"""Width of the table if the output is not a terminal."""
PAGES, STEPS = 100, 50_000
"""Keys that get a page of their own at most, and time steps of which these pages show the decisions, all together."""
LEAST, TOO_LARGE = 0.001, 1000.0
"""Errors between these are written with three decimals."""
DRIFTS = 100
"""Drifts that the page lists at most."""
FEW = 0.25
"""Share of keys below which a drift of the shared model is that of the keys which it hit."""
TOLD = 3
"""Drifts of the shared model that a sentence tells."""
NAMED = 10
"""Keys that a warning names."""
NUMBERS = 2, 3, 4, 5
"""Columns of the table that hold numbers."""

ORDER = (
    "In quarantine first, then those that drift now, those whose model is no better than a trivial rule, those that "
    "drifted before, then by error"
)


@dataclass(frozen=True)
class KeyedRecord:
    """What the folder of a keyed run says about its keys."""

    name: str
    keys: Keys
    changes: Sequence[KeyStep] = ()
    start: int | None = None
    """The first sequence number."""
    dates: bool = False
    """Whether sequence numbers are dates."""
    regression: bool = False
    """Whether numbers are predicted."""
    scores: Mapping[Any, KeyScore] = field(default_factory=dict)
    """The error of each key beside those of trivial rules; keys of which nothing was scored are left out."""
    drifts: KeyDrifts = field(default_factory=lambda: KeyDrifts({}, 0, 0))
    """The drifts of all keys."""
    shared: Mapping[str, Any] | None = None
    """What the model that keys share has seen, if there is one."""

    @classmethod
    def read(cls, folder: KeyedFolder) -> tuple[Self, Outcomes]:
        """Return the record of the complete epochs, and their outcomes; RunFolderError if there are none yet."""
        folder.about()
        if not folder.epochs():
            raise RunFolderError(f"{str(folder.path)!r} has no complete epoch yet, so that there are no keys to show")
        found = Outcomes.read(folder)
        changes = [
            KeyStep(*row)
            for _, part in folder.parts("journal", ("key", "sequence", "transitions"))
            for row in zip(*part.to_pydict().values(), strict=True)
            if row[2]
        ]
        keys = folder.compact()
        about = found.first, found.dates, found.regression, found.scores, found.drifts
        return cls(folder.path.name, keys, changes, *about, folder.shared()), found

    @property
    def measure(self) -> str:
        """The name of the error: the share of wrong predictions, or the mean absolute error of a regression."""
        return "MAE" if self.regression else "error"

    @property
    def rule(self) -> str:
        """The name of the trivial rule that predicts the same for every row of a time step."""
        return "mean" if self.regression else "majority"

    def only(self, key: Any) -> Self:
        """Return the record of one key."""
        scores = {key: self.scores[key]} if key in self.scores else {}
        drifts = KeyDrifts({key: self.drifts.of(key)}, 1, int(self.keys[key]["scored"] >= LEAST_ROWS))
        return replace(self, keys={key: self.keys[key]}, scores=scores, drifts=drifts, shared=None)


@register("page", "keyed")
def write_keyed_page(folder: KeyedFolder) -> KeyedRecord:
    """Write the page of a keyed run to its folder, with pages of the keys that need attention; return what it shows."""
    record, outcomes = KeyedRecord.read(folder)
    paged = _paged(record)
    write_key_pages(folder, outcomes, {key: record.keys[key] for key in paged})
    files.write_text(folder.path / PAGE, render(record, paged=paged, about=folder.about()), shared=True)
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
    for key, entry in _by_need(record)[:PAGES]:
        steps += entry["steps"]
        if chosen and steps > STEPS:
            break
        chosen.append(key)
    return chosen


# ---------------------------------------------------------------------------- terminal


def print_keys(record: KeyedRecord, *, limit: int | None = None) -> None:
    """Print totals, and the keys that need attention; with a limit so many keys, those that need attention first."""
    out = console()
    out.width = out.width if out.is_terminal else TABLE_WIDTH
    total = _totals(record.keys)
    rules = "".join(f", {BASELINE_NAMES[name]} {_format_error(value)}" for name, value in _rules(record).items())
    out.print(
        f"{counted(total['keys'], 'key')}, {counted(total['rows'], 'row')}, "
        f"{record.measure} {_format_error(total['error'])}{rules}, "
        f"{counted(total['transitions'], 'transition')}, {total['reactive']:,} testing a new model, "
        f"{total['quarantined']:,} in quarantine, {counted(total['duplicates'], 'duplicate')} dropped, "
        + optional(total["gaps"], f"{counted(total['gaps'], 'gap')} filled, ")
        + f"{counted(total['bytes'], 'byte')} of state"
    )
    table = Table(box=None, pad_edge=False, header_style="bold")
    for place, name in enumerate(_heads(record)):
        table.add_column(name, justify="right" if place in NUMBERS else "left")
    needy = sum(_needs_attention(record, key) for key in record.keys)
    shown = _by_need(record)[: min(needy, SHOWN) if limit is None else limit]
    for cells in _cells(record, shown):
        table.add_row(*cells)
    if limit is None:
        out.print(f"{needy:,} of {len(record.keys):,} keys need attention{optional(needy, ':')}")
    if shown:
        out.print(table)
    rest = (needy if limit is None else len(record.keys)) - len(shown)
    if rest > 0:
        out.print(f"... and {rest:,} more {plural('key', rest)}")
    if record.shared is not None:
        out.print(shared_verdict(record))
    for key, one in itertools.islice(record.drifts.items(), SHOWN):
        out.print(f"drift of {key}: {one.describe()}")
    if len(record.drifts) > SHOWN:
        out.print(f"... and {len(record.drifts) - SHOWN:,} more drifts")
    if record.drifts.n_keys > 1 or not record.drifts:
        out.print(_verdict(record))


def _needs_attention(record: KeyedRecord, key: Any) -> bool:
    """Return whether a key is in quarantine, drifts now, or has a model that is no better than a trivial rule."""
    poor = key in record.scores and record.scores[key].no_better
    return bool(record.keys[key]["quarantine"]) or poor or record.drifts.of(key).open is not None


def _verdict(record: KeyedRecord) -> str:
    """Return which keys drifted, and how good the predictions for all keys are beside the better trivial rule."""
    error, measure = _totals(record.keys)["error"], "mean absolute error" if record.regression else "mean error"
    quality = "" if error is None else Baselines(measure, error, _rules(record)).sentence
    return f"{record.drifts.verdict} {quality}".rstrip()


def _of_many_keys(shared: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the drifts of a shared model without those that hit few keys, which are the drifts of these keys."""
    return [one for one in shared["drifts"] if one["keys_hit"] >= FEW * one["keys_judged"]]


def shared_verdict(record: KeyedRecord) -> str:
    """Return what the model that keys share saw, and how many keys each drift hit; "" if keys share none.

    >>> seen = {"row": 900, "open": False, "sentence": "From row 900 on, ...", "keys_hit": 8, "keys_judged": 9}
    >>> shared_verdict(KeyedRecord("shops", {}, shared={"model": "recommended", "rows": 4000, "drifts": [seen]}))
    'All keys share recommended, which saw one drift in 4,000 rows. From row 900 on, ... It hit 8 of 9 keys.'
    """
    if record.shared is None:
        return ""
    drifts = _of_many_keys(record.shared)
    count = "no drift" if not drifts else "one drift" if len(drifts) == 1 else f"{len(drifts):,} drifts"
    told = [f"All keys share {record.shared['model']}, which saw {count} in {record.shared['rows']:,} rows."]
    if len(drifts) > TOLD:
        told.append(f"The last {TOLD}:")
    for one in drifts[-TOLD:]:
        hit = f"It hit {one['keys_hit']:,} of {counted(one['keys_judged'], 'key')}."
        told += [one["sentence"], hit if one["keys_judged"] else "Its keys have too few rows to be counted."]
    return " ".join(told)


def no_better_warning(record: KeyedRecord) -> str:
    """Return a sentence on the keys whose model is no better than a trivial rule; empty if there are none."""
    scores = record.scores
    poor = [key for key, _ in _by_need(record) if key in scores and scores[key].no_better]
    if not poor:
        return ""
    return (
        f"the models of {len(poor):,} of {len(record.keys):,} keys are no better, or hardly better, than a trivial "
        f"rule ({BASELINE_WORDS[record.rule]}, or {BASELINE_WORDS['persistence']} before the time step): "
        f"{in_words(poor, most=NAMED)}"
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


def _rules(record: KeyedRecord) -> dict[str, float]:
    """Return the errors of the trivial rules over the rows of all keys, by name."""
    scores = record.scores.values()
    rows = sum(score.rows for score in scores)
    totals = {
        record.rule: sum(score.constant * score.rows for score in scores),
        "persistence": sum(score.persistence * score.rows for score in scores),
    }
    return {name: total / rows for name, total in totals.items()} if rows else {}


def _heads(record: KeyedRecord) -> tuple[str, ...]:
    faulty = any(entry["quarantine"] for entry in record.keys.values())
    rules = BASELINE_NAMES[record.rule], BASELINE_NAMES["persistence"]
    return "key", "state", "rows", record.measure, *rules, "last change", *["quarantine"] * faulty


def _by_need(record: KeyedRecord) -> list[tuple[Any, Mapping[str, Any]]]:
    """Return the keys in the order of ``ORDER``; those that lose most rows against a trivial rule first."""

    def rank(item: tuple[Any, Mapping[str, Any]]) -> tuple[bool, bool, bool, float, bool, float]:
        key, entry = item
        error, score = entry["error"], record.scores.get(key)
        poor = score is not None and score.no_better
        lost = (score.model - score.trivial) * score.rows if poor and score is not None else 0.0
        own = record.drifts.of(key)
        trouble = not entry["quarantine"], own.open is None, not poor, -lost
        return *trouble, not own, 1.0 if error is None else -error

    return sorted(record.keys.items(), key=rank)


def _cells(record: KeyedRecord, entries: Sequence[tuple[Any, Mapping[str, Any]]]) -> list[list[str]]:
    """Return the cells of a table of some of the keys, with the columns of ``_heads``."""
    columns, scores, dates = len(_heads(record)), record.scores, record.dates
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
    return f"{entry['quarantine']} at {format_time(entry['quarantined_at'], dates)}" + optional(detail, f": {detail}")


def _format_error(value: float | None) -> str:
    """Return an error with three decimals; a small or large one with as many digits as tell it from 0.

    >>> [_format_error(value) for value in (None, 0.0, 0.25, 0.00042, 12_345.6)]
    ['-', '0.000', '0.250', '0.00042', '12,346']
    """
    if value is None:
        return "-"
    return f"{value:.3f}" if value == 0.0 or LEAST <= value < TOO_LARGE else significant(value)


# ---------------------------------------------------------------------------- page


def render(record: KeyedRecord, *, paged: Sequence[Any] = (), about: Mapping[str, Any] | None = None) -> str:
    """Return the page of a keyed run.

    Parameters
    ----------
    record
        What the page shows.
    paged
        The keys that have pages of their own, to which the page links.
    about
        What ``run.json`` says.
    """
    keys, title = record.keys, f"Keys of {record.name}"
    total, measure, rules = _totals(keys), record.measure, _rules(record)
    cards = [
        ("keys", f"{total['keys']:,}"),
        ("rows", f"{total['rows']:,}"),
        (f"{measure} of predictions", _format_error(total["error"])),
        *((f"{measure} of the {BASELINE_NAMES[name]}", _format_error(value)) for name, value in rules.items()),
        ("transitions", f"{total['transitions']:,}"),
        ("testing a new model now", f"{total['reactive']:,}"),
        ("in quarantine", f"{total['quarantined']:,}"),
        ("duplicates dropped", f"{total['duplicates']:,}"),
        ("gaps filled", f"{total['gaps']:,}"),
    ]
    warning = no_better_warning(record)
    body = [
        f"<h1>{escape(title)}</h1>",
        html.note(_what(about)) if about else "",
        _shared(record),
        html.verdict("drifting" if record.drifts.drifting else "fine", _verdict(record)),
        *_drifts(record.drifts, paged),
        html.warning(f"{warning[0].upper()}{warning[1:]}.") if warning else "",
        html.cards(cards),
        *(_map(record) if record.shared is None else []),  # keys that share a model learn row by row
        *_table(record, paged),
    ]
    return html.document(title, body, style=html.look() + STYLE)


def _map(record: KeyedRecord) -> list[str]:
    """Return the map of which models changed when."""
    keys = record.keys
    maps = (KeyMap(keys, record.changes, record.start, record.dates, layout).render() for layout in (WIDE, NARROW))
    return [
        "<h2>Which models changed when</h2>",
        '<p class="soft">Time runs along the column of the sequence. Keys that got a new model first are at the top. '
        f"With more than {LINES} keys a line is a group of keys, and a colour as strong as the share that changed.</p>",
        html.either(*maps),
        html.legend(
            [("changed", "box", "a new model took over"), ("entered", "box", TRANSITION_WORDS["entered"].phrase)]
        ),
    ]


def _shared(record: KeyedRecord) -> str:
    """Return the verdict of the model that keys share; empty if they share none."""
    if record.shared is None:
        return ""
    drifting = any(one["open"] for one in _of_many_keys(record.shared))
    return html.verdict("drifting" if drifting else "fine", shared_verdict(record))


def _drifts(drifts: KeyDrifts, paged: Sequence[Any]) -> list[str]:
    """Return a table of the drifts, key by key."""
    if not len(drifts):
        return []
    linked, lines = set(paged), drift_lines(drifts)[:DRIFTS]
    cells = [
        [_linked(key) if key in linked else escape(name), *map(escape, rest)]
        for (key, _), (name, *rest) in zip(drifts.items(), lines, strict=False)
    ]
    table = html.wide_table(DRIFT_HEADS, cells, numbers=range(1, 7))
    rest = len(drifts) - len(lines)
    more = optional(rest > 0, f" These are {len(lines):,} of {len(drifts):,} drifts; KeyedFolder.drifts() returns all.")
    return ["<h2>Drifts</h2>", html.note(f"Rows are those of a key with a label, from 0.{more}"), table]


def _what(about: Mapping[str, Any]) -> str:
    """Return what was run in one line."""
    learner = about.get("learner", {})
    strategy = learner.get("strategy", {})
    if "share" in learner:
        strategy = {"name": f"differences from {SHARED_MODELS[learner['share']]}"}
    named: dict[str, Any] = {"source": safe_address(str(about["source"]))} if "source" in about else {}
    named |= {word: about.get("columns", {}).get(word) for word in ("key", "sequence", "label")}
    named |= {"strategy": strategy.get("name"), "learner": str(strategy.get("learner", "")).partition("(")[0]}
    named |= {"engine": about.get("engine"), "driftsurf": f"version {about.get('driftsurf', 'unknown')}"}
    return " · ".join(f"{word} {value}" for word, value in named.items() if value)


def _linked(key: Any) -> str:
    """Return the name of a key as a link to its page."""
    return f'<a href="{KEY_PAGES}/{key_page_name(key)}">{escape(str(key))}</a>'


def _table(record: KeyedRecord, paged: Sequence[Any]) -> list[str]:
    """Return the table of keys, those that need attention first, with links to their pages."""
    linked = set(paged)
    shown = _by_need(record)[: max(SHOWN, len(paged))]
    lines = []
    for (key, _), cells in zip(shown, _cells(record, shown), strict=True):
        name, *rest = map(escape, cells)
        if key in linked:
            name = _linked(key)
        lines.append([name, *rest])
    note = f"{ORDER}."
    if len(shown) < len(record.keys):
        note += (
            f" These are {len(shown):,} of {len(record.keys):,} keys; driftsurf keys RUN KEY writes the page of any "
            "other one."
        )
    table = html.wide_table(_heads(record), lines, numbers=NUMBERS)
    return ["<h2>Keys, those that need attention first</h2>", html.note(note), table]
