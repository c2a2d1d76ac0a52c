"""Sections of the run page on what happened: drifts, events, reactions, inputs and columns that moved."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from driftsurf.core.decisions import Decision, Transition, alike, phrase_of, plain_expert
from driftsurf.core.wording import optional, significant
from driftsurf.errors.visible import escape
from driftsurf.evaluation.column_moves import ColumnMove, name_counters, without_counters
from driftsurf.report import html
from driftsurf.report.figure import EventMark
from driftsurf.report.sections import RunView, events_of, section
from driftsurf.runs.explanation.lineage import experts_of
from driftsurf.runs.explanation.records import BEGAN_REACTIVE, begins_reactive
from driftsurf.session.drift_monitor import PEAK_ROWS

SHOWN, MOST_EVENTS = 12, 400
LEAST_SHARE = 0.05
"""Share from which on an expert is named."""


@section("What happened", 14, folded=False)
def events(run: RunView) -> Iterator[str]:
    """Return the experts that predict now, and the newest events; earlier ones are folded."""
    shares = shares_of(run)
    if shares:
        yield html.note(f"The prediction is a mixture; at the end of the run: {shares}.")
    events = events_of(run)
    if not events:
        return
    early, late = events[-MOST_EVENTS:-SHOWN], events[-SHOWN:]
    if early:
        cut = f", of {len(events):,} in all" if len(events) > MOST_EVENTS else ""
        count = f"{len(early):,} earlier event{'s' * (len(early) != 1)}"
        yield f"<details><summary>{count}{cut}</summary>{_event_table(early)}</details>"
    yield _event_table(late)


def shares_of(run: RunView) -> str:
    """Return the experts with the largest shares in the prediction; empty if the model has no experts."""
    names = experts_of(run.decisions)
    if not names:
        return ""
    weights = [record.weight or 0.0 for record in run.decisions[-1].models]
    pairs = sorted(zip(weights, names, strict=True), key=lambda pair: -pair[0])
    return " · ".join(f"{name} {100 * share:.0f} %" for share, name in pairs if share >= LEAST_SHARE)


def _event_table(events: Sequence[EventMark]) -> str:
    timed = any(one.when for one in events)
    rows = [
        (
            f'<button type="button" class="go" data-step="{one.at:.10g}">{int(one.at)}</button>',
            *[f'<span class="when">{escape(one.when)}</span>'] * timed,
            f'<span class="kind {one.kind}"></span>{escape(one.text)}',
        )
        for one in events
    ]
    return html.wide_table(("step", *["time"] * timed, "what happened"), rows, numbers=(0,))


MOST_DRIFTS = 100


@section("Drifts and their causes", 12, folded=False)
def drifts(run: RunView) -> Iterator[str]:
    """Return the table; nothing without a drift."""
    if not run.drifts:
        return
    shown = run.drifts[-MOST_DRIFTS:]
    metric, rises = shown.rises()
    rows = [
        (
            f'<button type="button" class="go" data-step="{run.place(one.row):.10g}">{one.number}</button>',
            f'{escape(one.row_text)}<span class="meaning">{escape(one.time or "")}</span>',
            f'<span class="when">{escape(rise)}</span>',
            escape(one.end_text),
            escape(one.cause_sentence()) + optional(one.mark, f" <b>A person marked it as {one.mark}.</b>"),
            one.evidence_text,
        )
        for one, rise in zip(shown, rises, strict=True)
    ]
    heads = ("drift", "began at", escape(metric), "end", "cause", "evidence")
    yield html.wide_table(heads, rows, numbers=(0, 5))
    if len(run.drifts) > MOST_DRIFTS:
        yield html.note(f"The last {MOST_DRIFTS} of {len(run.drifts):,} drifts.")
    yield html.note(_drift_meaning(run))


def _drift_meaning(run: RunView) -> str:
    """Return what the errors and the evidence are."""
    text = (
        f"The first error is the usual one, the second the highest of {PEAK_ROWS} rows in a row, which "
        "may be higher than that of any batch in the figure."
    )
    if run.drifts.open is not None:
        text += " While a drift goes on, it is the highest one when there was last news of the drift."
    if run.about.get("served") or run.trace.late_predictors(run.model) is not None:
        text += (
            " Both are of the model as it was when the labels came. The answers in the figure were given earlier, when "
            "the model knew less, and may have been wrong more often and for longer."
        )
    return (
        f"{text} Evidence is the factor by which the rows speak against chance: without a drift, a run reaches 100 "
        "with a probability of at most 1 %."
    )


MOST_REACTIONS = 400
NAMED = (
    "Each expert is listed. Where reactions are counted, those of experts that overlap are one, and so are their "
    "switches."
)


@section("Every reaction of the model, and why", 50)
def changes(run: RunView) -> Iterator[str]:
    """Return the table of transitions."""
    listed = [(decision, group) for decision in run.decisions for group in alike(decision.transitions)]
    if begins_reactive(run.decisions):
        yield f"<p>{BEGAN_REACTIVE}</p>"
    if not listed:
        if run.looks_for_drift:
            yield "<p>The model never reacted.</p>"
        return

    def when(decision: Decision) -> list[str]:
        """Return the time of the step of a decision, if it is known."""
        time = run.when(run.steps.of_decision(decision))
        return [f'<span class="when">{time}</span>'] * bool(time)

    named = any(group[0].expert for _, group in listed)
    if named:
        yield html.note(NAMED)
    rows = [
        (
            f'<button type="button" class="go" data-step="{run.steps.of_decision(decision):.10g}">'
            f"{group[0].step}</button>",
            *when(decision),
            f'<span class="kind {group[0].kind}"></span>{escape(_done(group))}',
            "<br>".join(
                escape(f"{plain_expert(one.expert)}: {one.reason}" if len(group) > 1 else one.reason) for one in group
            ),
            *["<br>".join(escape(plain_expert(one.expert)) for one in group)] * named,
            "<br>".join(f"{one.old} &rarr; {one.new}" for one in group),
        )
        for decision, group in listed[:MOST_REACTIONS]
    ]
    heads = ("step", *["time"] * bool(run.when(0)), "change", "reason", *["expert"] * named, "models")
    yield html.wide_table(heads, rows, numbers=(0,))
    more = len(listed) - MOST_REACTIONS
    if more > 0:
        yield html.note(f"The first {MOST_REACTIONS} changes; the journal has {more:,} more.")


def _done(group: Sequence[Transition]) -> str:
    """Return what was done; the experts have a column of their own."""
    return group[0].phrase if len(group) == 1 else phrase_of(group)


MOST_INPUTS = 100


@section("Inputs that moved without harm", 60)
def inputs(run: RunView) -> Iterator[str]:
    """Return the table; nothing if no column moved."""
    if not run.changes:
        return
    rows = [
        (
            f'<button type="button" class="go" data-step="{run.place(one.row):.10g}">{one.step}</button>',
            f'row {one.row:,}<span class="meaning">{escape(one.time or "")}</span>',
            escape(", ".join(one.columns)),
        )
        for one in run.changes[-MOST_INPUTS:]
    ]
    yield html.wide_table(("step", "noticed from", "columns, the one that moved most first"), rows, numbers=(0,))
    yield html.note("These columns have other values than before. The error did not rise, so that none is a drift.")


MOST_EXPLAINED = 60
COLUMNS_SHOWN = 5


@section("Columns that changed", 70)
def columns(run: RunView) -> Iterator[str]:
    """Return the table of columns; nothing if no columns were recorded."""
    if run.moves:
        yield from tables(run.moves)


def tables(moves: Sequence[ColumnMove]) -> Iterator[str]:
    """Return the explanation, the table, and a note if it does not have all reactions."""
    reactions = [(step, list(group)) for step, group in groupby(moves, key=lambda move: move.step)]
    yield html.note(
        f"Up to {max(move.steps for move in moves)} steps before each reaction are compared with as many from it on. "
        "The shift of the mean is in standard deviations. The correlation is that with the label, or with belonging to "
        "the class in brackets; it can change while no mean does. Changes that chance alone explains are left out."
        f"{_names_explained(moves)}"
    )
    parts = [(step, *without_counters(group, moves)) for step, group in reactions[:MOST_EXPLAINED]]
    rows = [row for step, others, _ in parts for row in _column_rows(step, others)]
    heads = ("step", "column", "mean", "shift", "correlation with the label", "change")
    yield html.wide_table(heads, rows, numbers=(0,))
    if counters := name_counters(move for _, _, found in parts for move in found):
        yield html.note(f"{counters[0].upper()}{counters[1:]}.")
    if len(reactions) > MOST_EXPLAINED:
        yield html.note(f"The first {MOST_EXPLAINED} of {len(reactions)} reactions are shown.")


def _names_explained(moves: Sequence[ColumnMove]) -> str:
    """Return what names of columns that the encoder made of others mean, if there are any."""
    names = [move.name for move in moves]
    means = {
        "=": "A name such as city=Rome is 1 where the column has that value, else 0.",
        "is missing": "A name that ends in \u201cis missing\u201d is 1 where the cell is empty, else 0.",
        "(hash ": "Of a column with many words, those with the same (hash) number are counted together.",
    }
    return "".join(f" {text}" for part, text in means.items() if any(part in name for name in names))


def _column_rows(step: int, moves: Sequence[ColumnMove]) -> Iterator[Sequence[str]]:
    chosen = [move for move in moves if move.beyond_chance][:COLUMNS_SHOWN]
    headed = bool(chosen) and not chosen[0].calendar
    if not headed:
        what = f"none{' but the calendar' * bool(chosen)} beyond chance"
        yield str(step), f'<span class="soft">{what}</span>', "", "", "", ""
    for place, move in enumerate(chosen):
        of_class = f" ({escape(move.label)})" if move.label else ""
        yield (
            str(step) if headed and place == 0 else "",
            escape(move.name),
            f"{significant(move.mean_before)} &rarr; {significant(move.mean_after)}",
            _meter(move.shift / 2, f"{move.shift:+z.2f} sd"),
            f"{move.correlation_before:+z.2f} &rarr; {move.correlation_after:+z.2f}{of_class}",
            _meter(move.correlation_change / 2, f"{move.correlation_change:+z.2f}"),
        )


def _meter(share: float, text: str) -> str:
    """Return a bar to the left or right of a middle line, with the number beside it; ``share`` is from -1 to 1."""
    width = min(abs(share), 1.0) * 50.0
    start = 50.0 - width if share < 0 else 50.0
    return (
        f'<span class="meter"><i style="left:{start:.1f}%;width:{width:.1f}%"></i></span>'
        f'<span class="meter-text">{text}</span>'
    )
