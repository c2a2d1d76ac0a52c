"""The figures of a report: what of the trace and the journal is drawn over time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from driftsurf.decisions import Decision
from driftsurf.evaluation.lineage import lineages
from driftsurf.evaluation.records import Order, pinned
from driftsurf.evaluation.trace import Trace
from driftsurf.report.figure import Bar, Bars, Change, Figure, Overlay, Series

__all__ = ["figures_of", "overlay_of"]

MOST_MARKED_STEPS = 2_000
"""In longer runs marks would hide the curve."""
MOST_CLASSES = 8
MOST_MODELS = 40


def overlay_of(trace: Trace, decisions: Sequence[Decision], orders: Sequence[Order] = ()) -> Overlay:
    """The states, the true drifts, the transitions and the orders."""
    run = trace.of(trace.models[0])
    size = trace.batch_size
    reactive = []
    for first, last in _reactive_spans(decisions):
        half = 0.5 * first.rows / size
        words = f"reactive state, steps {first.step} to {last.step}"
        reactive.append((_place(trace, first) - half, _place(trace, last) + half, words))
    drifts = []
    for drift in trace.drifts:
        words = f"drift at step {drift.start / size:g}"
        if drift.end > drift.start:
            words = f"drift from step {drift.start / size:g} to {drift.end / size:g}"
        drifts.append((drift.start / size, drift.end / size, words))
    changes = [
        Change(_place(trace, decision), transition.kind, transition.describe())
        for decision in decisions
        for transition in decision.transitions
    ]
    if len(decisions) > MOST_MARKED_STEPS:
        changes = [change for change in changes if change.kind in ("switched", "reset", "replaced")]
    steps = len(run["step"])
    return Overlay(steps, run["first_row"].tolist(), reactive, drifts, changes, _ordered(orders, steps - 1))


def _ordered(orders: Sequence[Order], last: int) -> list[tuple[float, float, str]]:
    """Spans in which the model was pinned, and the places of other orders, as far as there is something drawn."""
    marks: list[tuple[float, float, str]] = []
    for first, stop in pinned(orders):
        words = f"pinned from step {first}" + ("" if stop is None else f" to {stop - 1}")
        marks.append((first, last if stop is None else min(stop, last), words))
    marks += [
        (order.step, order.step, f"{order.kind} ordered before step {order.step}: {order.text}")
        for order in orders
        if order.kind not in ("pin", "unpin")
    ]
    return [mark for mark in marks if mark[0] <= last]


def figures_of(trace: Trace, decisions: Sequence[Decision], model: str, oracle: str | None) -> Iterator[Figure | Bars]:
    """All figures that there is something to draw for."""
    yield _error(trace, model, oracle)
    risk = _risk(trace, decisions)
    if risk is not None:
        yield risk
    lives = _lives(trace, decisions)
    if lives.bars:
        yield lives
    if trace.labels and f"wrong:{trace.labels[0]}" in trace.columns:
        yield _classes(trace, model)
    yield _costs(trace)


def _error(trace: Trace, model: str, oracle: str | None) -> Figure:
    named = [name for name in trace.models if name != model]
    others = {name: f"series-{place % MOST_CLASSES}" for place, name in enumerate(named)}
    if oracle is not None:
        others[oracle] = "oracle"
    series = [
        Series(f"{name}, the oracle" if name == oracle else name, css, _errors(trace, name))
        for name, css in others.items()
    ]
    if not trace.labels:
        simple = {"predicting the value before": "persistence_error", "predicting the mean so far": "constant_error"}
        css = ("oracle", "limit") if oracle is None else ("series-0", "series-1")
        series += [
            Series(name, style, _roots(trace, model, column))
            for (name, column), style in zip(simple.items(), css, strict=True)
        ]
    series.append(Series(model, "curve", _errors(trace, model)))
    known = np.concatenate([one.values for one in series])
    top = 1.05 * max(0.1, float(known.max())) if trace.labels else _top(known[np.isfinite(known)])
    unit = "error" if trace.labels else "root mean squared error"
    return Figure("error", f"error of {model} over time", unit, top, series, marked=model)


def _errors(trace: Trace, model: str) -> list[float]:
    """Shares of rows; of values the root of the mean squared error, which has their unit."""
    error: list[float] = trace.of(model)["error"].tolist() if trace.labels else _roots(trace, model, "squared_error")
    return error


def _roots(trace: Trace, model: str, column: str) -> list[float]:
    """Without the steps that do not count: there zero was predicted, however large the values are."""
    roots = np.sqrt(trace.of(model)[column])
    if trace.untaught < len(roots):
        roots[: trace.untaught] = np.nan
    found: list[float] = roots.tolist()
    return found


def _risk(trace: Trace, decisions: Sequence[Decision]) -> Figure | None:
    risk, limit, rival, at = [], [], [], []
    for decision in decisions:
        by_role = {record.role: record for record in decision.models}
        predictive, challenger = by_role.get("predictive"), by_role.get("reactive") or by_role.get("stable")
        if predictive is None:
            continue
        at.append(_place(trace, decision))
        risk.append(_number(predictive.risk_before))
        best = _number(predictive.best_risk)
        limit.append(best + decision.threshold if decision.threshold is not None else float("nan"))
        rival.append(_number(challenger.risk_before if challenger else None))
    finite = np.array([value for value in risk + limit if np.isfinite(value)])
    if not len(finite):
        return None
    series = [
        Series("its best risk + threshold", "limit", limit, at),
        Series("stable or reactive model beside it", "rival", rival, at),
        Series("predictive model", "curve", risk, at),
    ]
    shown = [one for one in series if np.isfinite(one.values).any()]
    return Figure("risk", "risk over time", "risk", _top(finite), shown, marked="predictive model")


def _classes(trace: Trace, model: str) -> Figure:
    """The most frequent classes; a class that did not come in a step has a gap there."""
    run = trace.of(model)
    often = sorted(trace.labels, key=lambda label: -int(run[f"true:{label}"].sum()))[:MOST_CLASSES]
    series = [
        Series(str(label), f"series-{place}", _share(run[f"wrong:{label}"], run[f"true:{label}"]))
        for place, label in enumerate(sorted(often, key=trace.labels.index))
    ]
    return Figure("classes", f"error of {model} by class over time", "error", 1.0, series)


def _costs(trace: Trace) -> Figure:
    series = [
        Series(name, "curve" if place == 0 else f"series-{(place - 1) % MOST_CLASSES}", values)
        for place, name in enumerate(trace.models)
        for values in [_share(trace.of(name)["gradients"], trace.of(name)["rows"])]
    ]
    top = 1.1 * max([value for one in series for value in one.values], default=1.0)
    return Figure("costs", "gradients a row over time", "gradients a row", max(top, 1e-3), series)


def _lives(trace: Trace, decisions: Sequence[Decision]) -> Bars:
    """The models that predicted, or the last ones if they are many."""
    models = lineages(decisions)
    if len(models) > MOST_MODELS:
        models = [model for model in models if model.predicted][-MOST_MODELS:]
    places = {decision.step: _place(trace, decision) for decision in decisions}

    def place(step: int) -> float:
        return places.get(step, float(step))

    bars = [
        Bar(
            str(model.id),
            place(model.born),
            place(model.last_step),
            [(place(first), place(last)) for first, last in model.predicted],
            model.describe(),
        )
        for model in models
    ]
    return Bars("models", "the models of the run over time", bars)


def _share(part: npt.NDArray[Any], whole: npt.NDArray[Any]) -> list[float]:
    return [float(a / b) if b else float("nan") for a, b in zip(part.tolist(), whole.tolist(), strict=True)]


def _place(trace: Trace, decision: Decision) -> float:
    """Where a decision stands among the steps of the trace: a model may gather rows into steps of its own."""
    return decision.first_row / trace.batch_size


def _reactive_spans(decisions: Sequence[Decision]) -> Iterator[tuple[Decision, Decision]]:
    """The first and the last step of each reactive state; a rollback may end one early, or begin in the middle."""
    span = list[Decision]()
    for decision in decisions:
        if span and decision.reactive_step != span[-1].reactive_step + 1:
            yield span[0], span[-1]
            span.clear()
        if decision.state == "reactive":
            span.append(decision)
    if span:
        yield span[0], span[-1]


def _number(value: float | None) -> float:
    return float("nan") if value is None else value


def _top(values: npt.NDArray[np.float64]) -> float:
    """A scale on which the usual values fill the plot: one wild first step must not flatten the rest."""
    highest = float(values.max())
    return 1.08 * (min(highest, 5.0 * float(np.quantile(values, 0.9))) or highest or 1.0)
