"""Events of a run: the marks that all its figures share, and descriptions in plain words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from driftsurf.core.decisions import INSIDE, Decision, Transition, alike, describe_alike, expert_noun
from driftsurf.core.wording import percent
from driftsurf.evaluation.trace import StepMap
from driftsurf.report.figure import EventMark, Overlay, TransitionMark
from driftsurf.report.sections import RunView
from driftsurf.runs.explanation.lineage import TURNED, beliefs
from driftsurf.runs.explanation.records import pinned
from driftsurf.runs.orders import OrderRecord

MOST_MARKED_STEPS = 2_000
"""In longer runs only changes of the model are marked, because more marks would hide the curve."""
TRUSTED = 0.2
"""Share of the weights, before or after a step, from which on figures show what an expert of a portfolio did. Others
hardly count in the prediction, and their marks would hide those that do."""
MODEL_CHANGES = "switched", "reset", "replaced", "recalled"


def overlay_of(run: RunView) -> Overlay:
    """Return the marks of a run."""
    trace, decisions = run.trace, list(_of_trusted_experts(run.decisions))
    columns, places = trace.of(run.model), run.steps
    reactive = []
    for first, last in _reactive_spans(decisions):
        what = "experts reacting" if first.reacting else "a new model is tested"
        text = f"{what}, steps {first.step} to {last.step}"
        reactive.append((*places.around(first, last), text))
    steps = len(columns["step"])
    found = [
        (
            min(run.place(one.row), steps - 1),
            min(steps if one.ended_at_row is None else run.place(one.ended_at_row), steps - 1),
            one.describe(),
            f"drift {one.number}",
        )
        for one in run.drifts_in_view
    ]
    drifts = []
    for drift in trace.drifts:
        start, end = places.of_row(drift.start), places.of_row(drift.end)
        text = f"true drift from step {start:g} to {end:g}" if drift.gradual else f"true drift at step {start:g}"
        drifts.append((start, end, text))
    changes = [
        TransitionMark(places.of_decision(decision), group[0].kind, describe_alike(group))
        for decision in decisions
        for group in alike(decision.transitions)
        if len(decisions) <= MOST_MARKED_STEPS or group[0].kind in MODEL_CHANGES
    ]
    times = trace.times(run.model)
    return Overlay(
        steps,
        [*columns["first_row"].tolist(), int(columns["first_row"][-1] + columns["rows"][-1])],
        reactive,
        drifts,
        changes,
        _orders(run.orders, places, last_step=steps - 1),
        [] if times is None else times.astype(np.int64).tolist(),
        found,
        events_of(run),
        run.first_step,
    )


def _of_trusted_experts(decisions: Sequence[Decision]) -> Iterator[Decision]:
    """Yield decisions, those of a portfolio without what its experts with small shares did."""
    before = dict[str, float]()
    for decision in decisions:
        if not decision.experts:
            yield decision
            continue
        shares = {record.name: record.weight or 0.0 for record in decision.models}
        trusted = {name for name, share in shares.items() if max(share, before.get(name, 0.0)) >= TRUSTED}
        before = shares
        reacting = tuple(one for one in decision.reacting if _outermost(one) in trusted)
        shown = tuple(one for one in decision.transitions if not one.expert or _outermost(one.expert) in trusted)
        state = decision.state if reacting or not decision.reacting else "stable"
        yield replace(decision, state=state, transitions=shown, reacting=reacting)


def _outermost(expert: str) -> str:
    """Return the name of an expert, or of the portfolio that it is in."""
    return expert.partition(INSIDE)[0]


def _orders(orders: Sequence[OrderRecord], places: StepMap, last_step: int) -> list[tuple[float, float, str]]:
    """Return the spans in which the model was pinned, and the places of other orders."""
    marks: list[tuple[float, float, str]] = []
    for first, stop in pinned(orders):
        text = f"pinned from step {first}" + ("" if stop is None else f" to {stop - 1}")
        end = last_step if stop is None else min(places.of_batch(stop), last_step)
        marks.append((places.of_batch(first), end, text))
    marks += [
        (
            places.of_batch(order.step),
            places.of_batch(order.step),
            f"{order.kind} ordered before step {order.step}: {order.text}",
        )
        for order in orders
        if order.kind not in ("pin", "unpin")
    ]
    return [mark for mark in marks if mark[0] <= last_step]


def _reactive_spans(decisions: Sequence[Decision]) -> Iterator[tuple[Decision, Decision]]:
    """Return the first and the last decision of each reactive state.

    A span also ends where the number of the reactive step does not continue: a rollback can leave a reactive state
    early, or enter one in its middle. Those of the experts of a portfolio may overlap, and are not numbered.
    """
    span = list[Decision]()
    for decision in decisions:
        following = bool(decision.reacting) or (bool(span) and decision.reactive_step == span[-1].reactive_step + 1)
        if span and not following:
            yield span[0], span[-1]
            span.clear()
        if decision.state == "reactive":
            span.append(decision)
    if span:
        yield span[0], span[-1]


def events_of(run: RunView) -> list[EventMark]:
    """Return the events of a run, oldest first."""
    found = [*_drifts(run), *_experts(run), *_models(run), *_order_events(run)]
    last = len(run.trace.of(run.model)["step"]) - 1
    order = ("over", "order", "drift", "model")
    return sorted((one for one in found if one.at <= last), key=lambda one: (one.at, order.index(one.kind)))


def _drifts(run: RunView) -> Iterator[EventMark]:
    last = len(run.trace.of(run.model)["step"]) - 1
    for one in run.drifts_in_view:
        at = min(run.place(one.row), last)
        rose = f"the {one.metric} rose from {one.rise_text}"
        yield EventMark(at, run.when(at), "drift", f"Drift {one.number} began: {rose}. {one.cause_sentence()}")
        if one.ended_at_row is None:
            continue
        at = min(run.place(one.ended_at_row), last)
        yield EventMark(at, run.when(at), "over", f"Drift {one.number} is over: the {one.metric} {one.end_text}.")


def _experts(run: RunView) -> Iterator[EventMark]:
    """Yield the spans in which an expert of a portfolio was trusted most."""
    places, spans = run.steps.places(run.decisions), beliefs(run.decisions)
    for place, span in enumerate(spans):
        if not span.name:
            continue
        former = spans[place - 1].name if place else ""
        at, noun = places[span.first], expert_noun(span.name)
        share = percent(span.share)
        text = f"{noun} had the largest share of the prediction, {share} on average."
        if former:
            text = f"{noun} took over from {expert_noun(former)}, with {share} of the prediction on average."
        if span.turned:
            text += f" The model was {TURNED}, and this expert began anew."
        yield EventMark(at, run.when(at), "model", text[0].upper() + text[1:])


def _models(run: RunView) -> Iterator[EventMark]:
    """Yield the models that took over from another one, of a strategy that is not a portfolio."""
    ordered = {order.step for order in run.orders if order.kind in ("reset", "promote")}
    for decision in run.decisions:
        for one in decision.transitions:
            text = "" if one.expert or decision.experts or decision.step in ordered else _took_over(decision, one)
            if text:
                at = run.steps.of_decision(decision)
                yield EventMark(at, run.when(at), "model", text)


def _took_over(decision: Decision, one: Transition) -> str:
    """Return which model took over; empty for another transition."""
    if one.kind == "reset":
        return f"A fresh model took over: {one.reason}."
    if one.kind == "recalled":
        return "An earlier model took over again."
    if one.kind not in ("switched", "replaced"):
        return ""
    first = next((model.first_row for model in decision.models if model.id == one.new), -1)
    knows = f", which learned the rows from {first:,} on," if first >= 0 else ""
    return f"A new model{knows} took over."


def _order_events(run: RunView) -> Iterator[EventMark]:
    last = len(run.trace.of(run.model)["step"]) - 1
    for order in run.orders:
        at = min(run.steps.of_batch(order.step), last)  # it is known at once, not only with the next step
        what = f"{order.kind[0].upper()}{order.kind[1:]} by {order.by or 'an operator'}"
        refused = "" if order.outcome == "done" else f" ({order.outcome})"
        yield EventMark(at, run.when(at), "order", f"{what}{refused}{f': {order.text}' * bool(order.text)}.")
