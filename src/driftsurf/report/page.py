"""The report of a run: one self-contained HTML page, from the trace and the journal alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

import numpy as np

from driftsurf.decisions import Decision, Transition
from driftsurf.evaluation.summary import Summary, summarise
from driftsurf.evaluation.trace import Trace
from driftsurf.report import html
from driftsurf.report.svg import Chart

__all__ = ["render"]

MOST_MARKED_STEPS = 2_000
"""In longer runs marks would hide the curve."""
MOST_LISTED = 400


def render(trace: Trace, decisions: Sequence[Decision], *, model: str, oracle: str | None = None) -> str:
    """The page for one model of a trace, with the oracle's curve beside it."""
    summary = summarise(trace, model, oracle)
    transitions = [transition for decision in decisions for transition in decision.transitions]
    body = [
        f"<h1>{escape(model)} on {escape(trace.stream)}</h1>",
        f'<p class="soft">{_extent(trace, model)}</p>',
        f'<p class="lead">{escape(_lead(summary))}</p>',
        _cards(summary, trace, oracle),
        "<h2>Error over time</h2>",
        '<p class="soft">The share of each batch that was predicted wrongly, before learning it. '
        "Rest the pointer on a mark for what happened there."
        + (
            f" {escape(oracle)} is an oracle: it is told of each drift, and begins anew with an untrained model then, "
            "which a weak drift may not be worth.</p>"
            if oracle and trace.drifts
            else "</p>"
        ),
        _error_chart(trace, decisions, model, oracle),
        *(_watched(trace, decisions) if _has_one_model(decisions) else []),
        "<h2>Every change, and why</h2>",
        _transition_table(transitions),
    ]
    if summary.drift_steps:
        body += ["<h2>Recovery from the true drifts</h2>", _recovery_table(summary)]
    return html.document(f"{model} on {trace.stream}", body)


def _has_one_model(decisions: Sequence[Decision]) -> bool:
    """Whether one model predicts at a time; of an ensemble there is no one risk to show."""
    return all(any(record.role == "predictive" for record in decision.models) for decision in decisions)


def _watched(trace: Trace, decisions: Sequence[Decision]) -> list[str]:
    return [
        "<h2>What the model watched</h2>",
        '<p class="soft">The risk (regularised log loss) on each batch before learning it. Above the dotted line it is '
        "a sign of drift, and a fresh model begins to compete. The green line is the model beside it, which starts "
        "high because a fresh model has learnt nothing yet.</p>",
        _risk_chart(trace, decisions),
    ]


def _extent(trace: Trace, model: str) -> str:
    run = trace.of(model)
    steps, rows = len(run["step"]), int(run["rows"].sum())
    endless = any(drift.start == 0 and drift.end >= rows for drift in trace.drifts)
    known = "drifting all the time" if endless else _count(len(trace.drifts), "known drift") if trace.drifts else ""
    text = f"{_count(rows, 'row')} in {_count(steps, 'step')} of {trace.batch_size:,}"
    return f"{text}; {known or 'no known drift'}."


def _lead(summary: Summary) -> str:
    text = f"Mean error {summary.mean_error:.3f}. "
    if not summary.reactions:
        return text + "It saw no sign of drift and kept one model throughout."
    text += f"It reacted {_times(summary.reactions)} and switched to a new model {_times(summary.switches)}. "
    late = [time for time in summary.recovery_by_training if time is not None]
    drifts = len(summary.drift_steps)
    if drifts and len(late) == drifts:
        text += f"After each of the {drifts} drifts it came to predict from new rows alone, "
        text += f"at the latest {_count(max(late), 'step')} after the drift."
    elif drifts:
        text += f"It came to predict from new rows alone after {len(late)} of the {drifts} drifts; "
        text += "after the others its model went on learning with rows from before."
    return text


def _cards(summary: Summary, trace: Trace, oracle: str | None) -> str:
    values = [("mean error", f"{summary.mean_error:.3f}")]
    if oracle is not None:
        values.append((f"{oracle} (oracle)", f"{summarise(trace, oracle).mean_error:.3f}"))
    gradients = summary.gradients / int(trace.of(summary.model)["rows"].sum())
    values += [
        ("kappa", f"{summary.kappa:.3f}"),
        ("reactions", str(summary.reactions)),
        ("of which false", str(summary.false_reactions)),
        ("time reactive", f"{summary.share_reactive:.0%}"),
        ("gradients a row", f"{gradients:.2f}"),
    ]
    return html.cards(values)


def _error_chart(trace: Trace, decisions: Sequence[Decision], model: str, oracle: str | None) -> str:
    run = trace.of(model)
    error = run["error"]
    shown = [error] if oracle is None else [error, trace.of(oracle)["error"]]
    chart = Chart(len(error), 1.05 * max(0.1, float(np.max(shown))), "error")
    _drifts_and_states(chart, trace, decisions)
    if oracle is not None:
        chart.line(trace.of(oracle)["error"].tolist(), css="oracle", title=f"{oracle}, the oracle")
    chart.line(error.tolist(), css="curve", title=model)
    for decision in decisions:
        for transition in decision.transitions:
            if transition.kind in ("switched", "kept") and len(decisions) <= MOST_MARKED_STEPS:
                at = int(_place(trace, decision))
                chart.dot(at, float(error[at]), css=transition.kind, title=transition.describe())
    legend = [("curve", "line", model)]
    legend += [("oracle", "line", f"{oracle}, the oracle")] * (oracle is not None)
    legend += _drift_legend(trace)
    words = {"switched": "switched to the new model", "kept": "kept the old model"}
    seen = {transition.kind for decision in decisions for transition in decision.transitions}
    legend += [("reactive", "box", "reactive state")] * ("entered" in seen)
    legend += [(kind, "dot", text) for kind, text in words.items() if kind in seen]
    return f'<div class="chart">{chart.render(f"error of {model} over time")}</div>' + html.legend(legend)


def _risk_chart(trace: Trace, decisions: Sequence[Decision]) -> str:
    risk, limit, rival = [], [], []
    for decision in decisions:
        by_role = {record.role: record for record in decision.models}
        predictive, challenger = by_role["predictive"], by_role.get("reactive") or by_role.get("stable")
        risk.append(_number(predictive.risk_before))
        limit.append(_number(predictive.best_risk) + (decision.threshold or 0.0))
        rival.append(_number(challenger.risk_before if challenger else None))
    finite = np.array([value for value in risk + limit if np.isfinite(value)] or [1.0])
    chart = Chart(len(trace.of(trace.models[0])["step"]), _top(finite), "risk")
    _drifts_and_states(chart, trace, decisions)
    at = [_place(trace, decision) for decision in decisions]
    chart.line(limit, css="limit", title="best risk + threshold", at=at)
    chart.line(rival, css="rival", title="stable or reactive model", at=at)
    chart.line(risk, css="curve", title="predictive model", at=at)
    legend = [("curve", "line", "predictive model"), ("limit", "line", "its best risk + threshold")]
    legend += [("rival", "line", "stable or reactive model beside it")] * bool(np.isfinite(rival).any())
    legend += _drift_legend(trace)
    legend += [("reactive", "box", "reactive state")] * any(d.state == "reactive" for d in decisions)
    return f'<div class="chart">{chart.render("risk over time")}</div>' + html.legend(legend)


def _place(trace: Trace, decision: Decision) -> float:
    """Where a decision stands among the steps of the trace: a model may gather rows into steps of its own."""
    first_rows = trace.columns["first_row"][trace.columns["model"] == trace.models[0]]
    return max(0.0, float(np.searchsorted(first_rows, decision.first_row, side="right")) - 1.0)


def _drifts_and_states(chart: Chart, trace: Trace, decisions: Sequence[Decision]) -> None:
    size = trace.batch_size
    for first, last in _reactive_spans(decisions):
        half = 0.5 * first.rows / size
        edges = max(_place(trace, first) - half, 0), min(_place(trace, last) + half, chart.steps - 1)
        chart.band(*edges, css="reactive", title=f"reactive state, steps {first.step} to {last.step}")
    for drift in trace.drifts:
        if drift.end > drift.start:
            title = f"drift from step {drift.start / size:g} to {drift.end / size:g}"
            chart.band(drift.start / size, min(drift.end / size, chart.steps - 1), css="drifting", title=title)
            if drift.start:
                chart.label((drift.start + drift.end) / 2 / size, "drift")
        else:
            chart.rule(drift.start / size, css="drift", title=f"drift at step {drift.start / size:g}", label="drift")


def _reactive_spans(decisions: Sequence[Decision]) -> Iterable[tuple[Decision, Decision]]:
    first = None
    for decision in decisions:
        if decision.reactive_step == 1:
            first = decision
        ends = decision.reactive_step == decision.reactive_length or decision is decisions[-1]
        if first is not None and decision.state == "reactive" and ends:
            yield first, decision
            first = None


def _drift_legend(trace: Trace) -> list[tuple[str, str, str]]:
    gradual = any(drift.end > drift.start for drift in trace.drifts)
    abrupt = any(drift.end == drift.start for drift in trace.drifts)
    return [("drift", "line", "true drift")] * abrupt + [("drifting", "box", "drift under way")] * gradual


def _transition_table(transitions: Sequence[Transition]) -> str:
    if not transitions:
        return "<p>No transition: the model stayed in its stable state.</p>"
    words = {
        "entered": "reactive state entered",
        "switched": "switched to the new model",
        "kept": "kept the old model",
        "greedy": "predicting model changed",
        "reset": "fresh model",
    }
    rows = [
        (str(t.step), words[t.kind], escape(t.describe().partition(": ")[2]), f"{t.old} &rarr; {t.new}")
        for t in transitions[:MOST_LISTED]
    ]
    more = len(transitions) - MOST_LISTED
    note = f'<p class="soft">The first {MOST_LISTED}; {more:,} more are in the journal.</p>' if more > 0 else ""
    return html.table(("step", "what", "why", "models"), rows, numbers=(0,)) + note


def _recovery_table(summary: Summary) -> str:
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


def _number(value: float | None) -> float:
    return float("nan") if value is None else value


def _top(values: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> float:
    """A scale on which the usual values fill the plot: one wild first step must not flatten the rest."""
    return float(max(1e-3, 1.08 * min(values.max(), 5.0 * np.quantile(values, 0.9))))


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


def _count(count: int, what: str) -> str:
    return f"{count:,} {what}{'s' * (count != 1)}"
