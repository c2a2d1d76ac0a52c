"""Pages of a keyed run: the map of all keys, and the page of one key, made as that of a run."""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from driftsurf.core import files
from driftsurf.core.decisions import TRANSITION_WORDS, Decision
from driftsurf.core.journal import json_lines, read_lines
from driftsurf.core.wording import in_words, optional
from driftsurf.errors.visible import escape
from driftsurf.evaluation.scoring import Scorebook
from driftsurf.evaluation.trace import TIME, Trace, TraceBuilder
from driftsurf.keyed.drifts import NEW_MODEL
from driftsurf.keyed.folder import PAGE, KeyedFolder
from driftsurf.keyed.options import SHARED_MODELS
from driftsurf.keyed.outcomes import NOTHING, KeyOutcomes, Outcomes, format_time
from driftsurf.report import html
from driftsurf.report.figure import drawing, element
from driftsurf.report.run_page import render
from driftsurf.report.sections import RunView
from driftsurf.session.observation import Origin

KEY_PAGES = "key_pages"
"""The folder of the pages of keys, in the run folder."""
NAME_LENGTH = 40


def key_page_name(key: Any) -> str:
    """Return the file name of the page of a key: readable, and different for every key.

    >>> key_page_name("São Paulo/3")
    'S-o-Paulo-3-5fadbefe.html'
    """
    readable = re.sub(r"[^A-Za-z0-9_.]+", "-", str(key)).strip("-.")[:NAME_LENGTH]
    return f"{readable}-{hashlib.blake2b(str(key).encode(), digest_size=4).hexdigest()}.html"


def write_key_pages(folder: KeyedFolder, outcomes: Outcomes, keys: Mapping[Any, Mapping[str, Any]]) -> None:
    """Write the pages of keys, whose entries are given, to the run folder, in place of earlier pages."""
    place = folder.path / KEY_PAGES
    files.make_folder(place)
    journal, rows = _journal(folder, keys), outcomes.of(keys)
    for key, entry in keys.items():
        page = _render(folder, outcomes, key, rows[key], entry, journal[key])
        files.write_text(place / key_page_name(key), page, shared=True)
    for name in set(files.names(place)) - {key_page_name(key) for key in keys}:
        if name.endswith(".html"):
            files.remove(place / name)


def render_key(
    folder: KeyedFolder, outcomes: Outcomes, key: Any, entry: Mapping[str, Any], *, link: bool = True
) -> str:
    """Return the page of one key, whose entry is given; with ``link`` it begins with a link to the page of all keys."""
    rows, journal = outcomes.of([key])[key], _journal(folder, [key])[key]
    return _render(folder, outcomes, key, rows, entry, journal, link=link)


def _render(
    folder: KeyedFolder,
    outcomes: Outcomes,
    key: Any,
    rows: KeyOutcomes,
    entry: Mapping[str, Any],
    journal: Sequence[tuple[int, str]],
    *,
    link: bool = True,
) -> str:
    learner = folder.about().get("learner", {})
    strategy = learner.get("strategy", {}).get("name", "model")
    if "share" in learner:
        strategy, journal = (
            f"differences from {SHARED_MODELS[learner['share']]}",
            _steps_without_journal(outcomes, rows),
        )
    trace, decisions = trace_key(outcomes, rows, journal, model=strategy, stream=f"{key} of {folder.path.name}")
    own = outcomes.drifts.of(key)
    decisions = [
        replace(one, drifts=tuple(drift for drift in own if min(drift.step, len(decisions) - 1) == place))
        for place, one in enumerate(decisions)
    ]
    above = [f'<p class="soft"><a href="../{PAGE}">all keys of {escape(folder.path.name)}</a></p>'] if link else []
    if entry["quarantine"]:
        at = format_time(entry["quarantined_at"], outcomes.dates)
        why = f"The key has been in quarantine since {at} and no longer learns: {entry['quarantine_message']}"
        above.append(html.warning(why))
    return render(RunView(trace, decisions, strategy), above=above)


def _steps_without_journal(outcomes: Outcomes, rows: KeyOutcomes) -> list[tuple[int, str]]:
    """Return time steps of a key that learns row by row, and has no journal."""
    size = outcomes.batch_size or len(rows.sequence)
    steps = [(start, min(start + size, len(rows.sequence))) for start in range(0, len(rows.sequence), size)]
    lines = [
        json_lines([Decision(step, start, stop - start, "stable", 0, 0, 0, ())])
        for step, (start, stop) in enumerate(steps)
    ]
    return [(int(rows.sequence[stop - 1]), "".join(line)) for (_, stop), line in zip(steps, lines, strict=True)]


def _journal(folder: KeyedFolder, keys: Collection[Any]) -> Mapping[Any, list[tuple[int, str]]]:
    """Return the sequence numbers and records of the time steps of these keys."""
    found: dict[Any, list[tuple[int, str]]] = {key: [] for key in keys}
    for _, part in folder.parts("journal", ("key", "sequence", "record"), keys=keys):
        for key, at, record in zip(*part.to_pydict().values(), strict=True):
            found[key].append((at, record))
    return found


def trace_key(
    outcomes: Outcomes, rows: KeyOutcomes, journal: Sequence[tuple[int, str]], *, model: str, stream: str
) -> tuple[Trace, list[Decision]]:
    """Return what the trace and the decisions of a run over the rows of one key alone would be.

    Log losses are not known: a keyed run stores labels only. A first time step without predictions, since there was
    nothing to predict with, is shown as what an untrained model predicts, and left out of mean errors. Where labels
    come late, every time step has a line, also one without predictions, and the model is that in use when they came.
    """
    decisions = read_lines("".join(record for _, record in journal))
    ends = np.searchsorted(rows.sequence, [at for at, _ in journal], side="right").tolist()
    cuts = sorted({0, len(rows.sequence), *ends})
    at_end = dict[int, list[Decision]]()
    for end, decision in zip(ends, decisions, strict=True):
        at_end.setdefault(end, []).append(decision)
    seen = set() if outcomes.regression else {*rows.true.tolist(), *rows.predicted.tolist()}
    labels = tuple(label for code, label in enumerate(outcomes.labels) if code in seen)
    book = Scorebook(labels)
    builder, warmup, begun = TraceBuilder(labels), 0, list[int]()
    origin, learned = None, 0
    for start, stop in itertools.pairwise(cuts):
        y, predicted = (_values(outcomes, values[start:stop]) for values in (rows.true, rows.predicted))
        known = ~np.isnan(predicted) if outcomes.regression else rows.predicted[start:stop] != NOTHING
        made = at_end.get(stop, [])
        if outcomes.late:
            in_use = (made[0].predicted_by, made[0].trained_from) if made else ()
            origin = Origin(book.step_number + 1, learned, sum(decision.rows for decision in made), *in_use)
            learned += origin.learned
        elif not start and not known.any():
            warmup, known = 1, ~known
            predicted = np.full(len(y), 0.0) if outcomes.regression else np.full(len(y), labels[0])
        if known.any() or origin is not None:
            book.step(y[known], origin)
            builder.add(book.row(model, y[known], predicted[known], None, made, origin))
            begun.append(int(rows.sequence[start]))
    size = outcomes.batch_size or max((decision.rows for decision in decisions), default=1)
    columns = builder.build(stream, size, (), {}).columns
    if outcomes.dates:
        columns[TIME] = np.array(begun, "datetime64[us]").astype("datetime64[s]").astype(np.str_)
    return Trace(stream, size, (), labels, columns, warmup_steps=warmup), decisions


def _values(outcomes: Outcomes, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return labels from their codes; the first one where there is none."""
    return values if outcomes.regression else np.array(outcomes.labels)[np.maximum(values, 0)]


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


class MapSize(NamedTuple):
    """The size of a map."""

    width: int
    left: int
    """Width of the names of keys."""
    name_length: int
    """Characters of a name at most."""
    ticks: int
    """Parts of the axis of time."""


WIDE, NARROW = MapSize(960, 168, 22, 4), MapSize(348, 92, 12, 2)
"""Layouts for a screen and for a phone."""


class KeyStep(NamedTuple):
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
    changes: Sequence[KeyStep]
    start: int | None = None
    dates: bool = False
    layout: MapSize = WIDE

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
