"""The report of a run: one self-contained HTML page, from the trace, the journal and what lies beside them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape

from driftsurf.decisions import Decision, significant
from driftsurf.errors import InputError
from driftsurf.evaluation.columns import ColumnMove
from driftsurf.evaluation.records import Order, RunRecord, pinned
from driftsurf.evaluation.summary import Summary, ValueSummary, summarise, summarise_values
from driftsurf.evaluation.trace import Trace
from driftsurf.report import html, interactive
from driftsurf.report.curves import figures_of, overlay_of
from driftsurf.report.figure import Bars, Figure
from driftsurf.report.listings import changes_table, class_table, cost_table, moves_table, orders_table, recovery_table

__all__ = ["render", "render_record"]

ORACLE = "aware"
"""The model of a trace that is told of the drifts, by the name that ``driftsurf run`` gives it."""


def render_record(record: RunRecord) -> str:
    """The page of a run that is on disk, with the seconds that were measured."""
    if record.trace is None:
        raise InputError("the run has no trace.csv: there is nothing to draw")
    models = record.trace.models
    return render(
        record.trace,
        record.decisions,
        model=models[0],
        oracle=ORACLE if ORACLE in models[1:] else None,
        moves=record.moves,
        orders=record.orders,
        seconds=record.seconds,
        seconds_from=record.seconds_from,
    )


def render(
    trace: Trace,
    decisions: Sequence[Decision],
    *,
    model: str,
    oracle: str | None = None,
    moves: Sequence[ColumnMove] = (),
    orders: Sequence[Order] = (),
    seconds: Mapping[str, float] | None = None,
    seconds_from: int = 0,
) -> str:
    """The page for one model of a trace, with the curves of the others beside it.

    Everything but ``seconds`` is the same for every run of the same thing, to the byte; they are left out unless given.
    They were measured from step ``seconds_from`` on, where a resumed run went on.
    """
    summary = (summarise if trace.labels else summarise_values)(trace, model, oracle)
    overlay = overlay_of(trace, decisions, orders)
    figures = {figure.id: figure for figure in figures_of(trace, decisions, model, oracle)}

    def drawn(name: str, title: str, words: str) -> list[str]:
        figure: Figure | Bars | None = figures.get(name)
        if figure is None:
            return []
        return [f"<h2>{title}</h2>", f'<p class="soft">{words}</p>', figure.render(overlay)]

    body = [
        f"<h1>{escape(model)} on {escape(trace.stream)}</h1>",
        f'<p class="soft">{_extent(trace, model)}</p>',
        f'<p class="lead">{escape(_lead(summary) + _pinned(orders))}</p>',
        html.cards(_cards(summary, trace, oracle)),
        interactive.TOOLBAR,
        *drawn("error", "Error over time", _error_words(trace, oracle)),
        *drawn(
            "risk",
            "What the model watched",
            "The risk (regularised loss) on each batch before learning it. Above the dotted line it is a sign of "
            "drift, and a fresh model begins to compete. The green line is the model beside it, which starts high "
            "because a fresh model has learnt nothing yet.",
        ),
        *drawn(
            "models",
            "The models",
            "Each line is a model, from its birth to its end; thick where it predicted, thin where it learnt beside "
            "another one.",
        ),
        *drawn("classes", "Errors by class", "Of the rows of each class, the share that was predicted wrongly."),
        *([class_table(trace, model)] if trace.labels else []),
        "<h2>Every change, and why</h2>",
        changes_table(decisions),
    ]
    if orders:
        body += ["<h2>Orders of an operator</h2>", orders_table(orders)]
    if moves:
        body += ["<h2>Which columns moved</h2>", moves_table(moves)]
    body += drawn("costs", "Costs", "Gradients spent on each row of a step: what learning costs.")
    body.append(cost_table(trace, seconds, seconds_from))
    if summary.drift_steps:
        body += ["<h2>Recovery from the true drifts</h2>", recovery_table(summary)]
    return interactive.document(f"{model} on {trace.stream}", body, overlay, list(figures.values()))


def _extent(trace: Trace, model: str) -> str:
    run = trace.of(model)
    steps, rows = len(run["step"]), int(run["rows"].sum())
    endless = any(drift.start == 0 and drift.end >= rows for drift in trace.drifts)
    known = "drifting all the time" if endless else _count(len(trace.drifts), "known drift") if trace.drifts else ""
    text = f"{_count(rows, 'row')} in {_count(steps, 'step')} of {trace.batch_size:,}"
    first = ""
    if trace.untaught:
        first = " Errors without the first batch, which nobody had learnt before."
        if steps <= trace.untaught:
            first = " One batch only: nothing was predicted by a model that had learnt."
    return f"{text}; {known or 'no known drift'}.{first}"


def _lead(summary: Summary | ValueSummary) -> str:
    if isinstance(summary, Summary):
        text = f"Mean error {summary.mean_error:.3f}. "
    else:
        text = f"Root mean squared error {significant(summary.root_mean_squared_error)}, in the unit of the label. "
    if not summary.reactions:
        return text + "It saw no sign of drift."
    text += f"It reacted {_times(summary.reactions)} and switched to a new model {_times(summary.switches)}. "
    return text + _recovered(summary) if summary.drift_steps else text


def _pinned(orders: Sequence[Order]) -> str:
    spans = [f"from step {first} " + ("on" if stop is None else f"to {stop - 1}") for first, stop in pinned(orders)]
    return f" An operator pinned it {', '.join(spans)}: there it learnt nothing." if spans else ""


def _recovered(summary: Summary | ValueSummary) -> str:
    drifts = len(summary.drift_steps)
    late = [time for time in summary.recovery_by_training if time is not None]
    if len(late) == drifts:
        text = f"After each of the {drifts} drifts it came to predict from new rows alone, "
        return text + f"at the latest {_count(max(late), 'step')} after the drift."
    text = f"It came to predict from new rows alone after {len(late)} of the {drifts} drifts; "
    return text + "after the others its model went on learning with rows from before."


def _cards(summary: Summary | ValueSummary, trace: Trace, oracle: str | None) -> Iterable[tuple[str, str]]:
    if isinstance(summary, Summary):
        yield "mean error", f"{summary.mean_error:.3f}"
        if oracle is not None:
            yield f"{oracle} (oracle)", f"{summarise(trace, oracle).mean_error:.3f}"
        if not math.isnan(summary.kappa):  # classes that are counted together have no share by chance
            yield "kappa", f"{summary.kappa:.3f}"
    else:
        yield "root mean squared error", significant(summary.root_mean_squared_error)
        if oracle is not None:
            yield f"{oracle} (oracle)", significant(summarise_values(trace, oracle).root_mean_squared_error)
        yield "mean absolute error", significant(summary.mean_absolute_error)
        yield "skill over the mean so far", f"{summary.skill_over_mean:.3f}"
        yield "skill over the last value", f"{summary.skill:.3f}"
    yield "reactions", str(summary.reactions)
    if trace.drifts:
        yield "of which false", str(summary.false_reactions)
    yield "switches", str(summary.switches)
    yield "time reactive", f"{summary.share_reactive:.0%}"
    yield "gradients a row", f"{summary.gradients / int(trace.of(summary.model)['rows'].sum()):.2f}"


def _error_words(trace: Trace, oracle: str | None) -> str:
    what = "share of each batch that was predicted wrongly"
    if not trace.labels:
        what = "root of the mean squared error of each batch, in the unit of the label"
    text = f"The {what}, before learning it."
    if not trace.labels and trace.untaught:
        text += " Not drawn: the first batch, which nobody had learnt before."
    if oracle and trace.drifts:
        told = "told of each drift, and begins anew with an untrained model then"
        if not trace.labels:
            told = "told of each drift after its first batch, and goes on with a fresh model"
        text += f" {escape(oracle)} is an oracle: it is {told}, which a weak drift may not be worth."
    return text


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


def _count(count: int, what: str) -> str:
    return f"{count:,} {what}{'s' * (count != 1)}"
