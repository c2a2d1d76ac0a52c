"""The tables of a report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from itertools import groupby

from driftsurf.decisions import Decision
from driftsurf.evaluation.columns import ColumnMove, clocks_last
from driftsurf.evaluation.records import Order
from driftsurf.evaluation.summary import Summary, ValueSummary
from driftsurf.evaluation.trace import Trace
from driftsurf.report import html

__all__ = ["changes_table", "class_table", "cost_table", "moves_table", "orders_table", "recovery_table"]

MOST_LISTED = 400
MOST_CLASSES = 50
MOST_REACTIONS = 60
COLUMNS_SHOWN = 5
_WORDS = {
    "entered": "reactive state entered",
    "switched": "switched to the new model",
    "kept": "kept the old model",
    "greedy": "predicting model changed",
    "reset": "fresh model",
    "replaced": "newer model took over",
}


def changes_table(decisions: Sequence[Decision]) -> str:
    """Every transition: when, what, why, which models."""
    listed = [(decision, transition) for decision in decisions for transition in decision.transitions]
    if not listed:
        return "<p>No transition: the model stayed in its stable state.</p>"
    rows = [
        (
            f'<button type="button" class="go" data-row="{decision.first_row}">{transition.step}</button>',
            f'<span class="kind {transition.kind}"></span>{_WORDS[transition.kind]}',
            escape(transition.describe().partition(": ")[2]),
            f"{transition.old} &rarr; {transition.new}",
        )
        for decision, transition in listed[:MOST_LISTED]
    ]
    more = len(listed) - MOST_LISTED
    note = f'<p class="soft">The first {MOST_LISTED}; {more:,} more are in the journal.</p>' if more > 0 else ""
    return _wide(html.table(("step", "what", "why", "models"), rows, numbers=(0,))) + note


def orders_table(orders: Sequence[Order]) -> str:
    """What an operator asked for, and what came of it."""
    rows = [(str(order.step), escape(order.kind), escape(order.text)) for order in orders[-MOST_LISTED:]]
    return _wide(html.table(("before step", "order", "what came of it"), rows, numbers=(0,)))


def moves_table(moves: Sequence[ColumnMove]) -> str:
    """For each reaction the columns that changed most: their mean, and their correlation with the label."""
    rows = list[Sequence[str]]()
    reactions = 0
    for step, group in groupby(moves, key=lambda move: move.step):
        reactions += 1
        if reactions > MOST_REACTIONS:
            break
        chosen = clocks_last(list(group), moves)
        real = [move for move in chosen if move.beyond_chance][:COLUMNS_SHOWN]
        if not real:
            rows.append((str(step), '<span class="soft">none beyond chance</span>', "", "", "", ""))
        for place, move in enumerate(real):
            of = f" ({escape(move.label)})" if move.label else ""
            rows.append(
                (
                    str(step) if place == 0 else "",
                    escape(move.name),
                    f"{move.mean_before:.4g} &rarr; {move.mean_after:.4g}",
                    _meter(move.shift / 2, f"{move.shift:+.2f} sd"),
                    f"{move.tie_before:+.2f} &rarr; {move.tie_after:+.2f}{of}",
                    _meter(move.turn / 2, f"{move.turn:+.2f}"),
                )
            )
    heads = ("step", "column", "mean", "shift", "tie to the label", "change")
    steps = max(move.steps for move in moves)
    note = (
        f'<p class="soft">Up to {steps} steps before each reaction against as many from it on. The shift is in '
        "standard deviations; the tie is the correlation with the label, or with being the class in brackets. When a "
        "concept changes and no column moves, the tie shows it. What chance alone may do is left out."
        + f" The first {MOST_REACTIONS} reactions are shown." * (reactions > MOST_REACTIONS)
        + "</p>"
    )
    return note + _wide(html.table(heads, rows, numbers=(0,)))


def _meter(share: float, text: str) -> str:
    """A bar to the left or right of a middle line, with the number beside it."""
    width = min(abs(share), 1.0) * 50.0
    start = 50.0 - width if share < 0 else 50.0
    return (
        f'<span class="meter"><i style="left:{start:.1f}%;width:{width:.1f}%"></i></span>'
        f'<span class="meter-text">{text}</span>'
    )


def class_table(trace: Trace, model: str) -> str:
    """Of each class how often it came, was predicted, and was missed."""
    run = trace.counted(model)
    if f"wrong:{trace.labels[0]}" not in run:
        return ""

    def rows() -> Iterator[Sequence[str]]:
        for label in trace.labels[:MOST_CLASSES]:
            true, predicted, wrong = (int(run[f"{what}:{label}"].sum()) for what in ("true", "predicted", "wrong"))
            share = f"{wrong / true:.3f}" if true else "-"
            yield escape(str(label)), f"{true:,}", f"{predicted:,}", f"{wrong:,}", share

    more = len(trace.labels) - MOST_CLASSES
    note = f'<p class="soft">The first {MOST_CLASSES}; {more:,} more are in the trace.</p>' if more > 0 else ""
    heads = ("class", "rows", "predicted", "missed", "error")
    return _wide(html.table(heads, rows(), numbers=range(1, 5))) + note


def cost_table(trace: Trace, seconds: Mapping[str, float] | None, seconds_from: int = 0) -> str:
    """Gradients, and seconds where they were measured, from a step on."""
    heads = ["model", "gradients", "a row"] + ["seconds", "rows/s"] * bool(seconds)
    rows = []
    for name in trace.models:
        run = trace.of(name)
        gradients, count = int(run["gradients"].sum()), int(run["rows"].sum())
        row = [escape(name), f"{gradients:,}", f"{gradients / count:.2f}"]
        if seconds:
            taken = seconds.get(name, 0.0)
            row += [f"{taken:.3f}", f"{int(run['rows'][seconds_from:].sum()) / taken:,.0f}"] if taken else ["-", "-"]
        rows.append(row)
    note = f'<p class="soft">Seconds since step {seconds_from}, where the run went on.</p>' if seconds_from else ""
    if not seconds:
        note = (
            '<p class="soft">Seconds are measured, so they stand in timings.json: this page is the same each time the '
            "run is repeated. <code>driftsurf explain RUN --html FILE</code> writes one with them.</p>"
        )
    return _wide(html.table(heads, rows, numbers=range(1, len(heads)))) + note


def recovery_table(summary: Summary | ValueSummary) -> str:
    """How long the model took after each true drift."""
    heads = (
        "drift at step",
        "steps until it predicts from new rows alone",
        "steps until its error is within 10&thinsp;% of the oracle&rsquo;s",
    )
    by_error = summary.recovery_by_error or (None,) * len(summary.drift_steps)
    rows = [
        (f"{first}" if first == last else f"{first} to {last}", _or_not(trained), _or_not(close))
        for (first, last), trained, close in zip(
            summary.drift_steps, summary.recovery_by_training, by_error, strict=True
        )
    ]
    note = (
        '<p class="soft">The first count begins with the end of the drift, the second with its start and compares with '
        "the oracle&rsquo;s median error until the next drift.</p>"
    )
    return html.table(heads, rows, numbers=range(3)) + note


def _or_not(value: int | None) -> str:
    return "not in time" if value is None else str(value)


def _wide(table: str) -> str:
    return f'<div class="wide">{table}</div>'
