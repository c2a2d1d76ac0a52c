"""What happened in a run, in plain words: drifts, other experts or models that took over, and orders of an operator."""

from __future__ import annotations

from collections.abc import Iterator

from driftsurf.core.decisions import Decision, Transition
from driftsurf.core.expert_names import expert_noun
from driftsurf.core.measures import percent
from driftsurf.explanation.belief import TURNED, beliefs
from driftsurf.report.figure import Event
from driftsurf.report.sections import RunView

__all__ = ["events_of"]


def events_of(run: RunView) -> list[Event]:
    """Return the events of a run, oldest first."""
    found = [*_drifts(run), *_experts(run), *_models(run), *_orders(run)]
    last = len(run.trace.of(run.model)["step"]) - 1
    order = ("over", "order", "drift", "model")
    return sorted((one for one in found if one.at <= last), key=lambda one: (one.at, order.index(one.kind)))


def _drifts(run: RunView) -> Iterator[Event]:
    last = len(run.trace.of(run.model)["step"]) - 1
    for one in run.drifts_in_view:
        at = min(run.place(one.row), last)
        rose = f"the {one.metric} rose from {one.rise_text}"
        yield Event(at, run.when(at), "drift", f"Drift {one.number} began: {rose}. {one.cause_sentence()}")
        if one.ended_at_row is None:
            continue
        at = min(run.place(one.ended_at_row), last)
        yield Event(at, run.when(at), "over", f"Drift {one.number} is over: the {one.metric} {one.end_text}.")


def _experts(run: RunView) -> Iterator[Event]:
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
        yield Event(at, run.when(at), "model", text[0].upper() + text[1:])


def _models(run: RunView) -> Iterator[Event]:
    """Yield the models that took over from another one, of a strategy that is not a portfolio."""
    ordered = {order.step for order in run.orders if order.kind in ("reset", "promote")}
    for decision in run.decisions:
        for one in decision.transitions:
            text = "" if one.expert or decision.experts or decision.step in ordered else _took_over(decision, one)
            if text:
                at = run.steps.of_decision(decision)
                yield Event(at, run.when(at), "model", text)


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


def _orders(run: RunView) -> Iterator[Event]:
    last = len(run.trace.of(run.model)["step"]) - 1
    for order in run.orders:
        at = min(run.steps.of_batch(order.step), last)  # it is known at once, not only with the next step
        what = f"{order.kind[0].upper()}{order.kind[1:]} by {order.by or 'an operator'}"
        refused = "" if order.outcome == "done" else f" ({order.outcome})"
        yield Event(at, run.when(at), "order", f"{what}{refused}{f': {order.text}' * bool(order.text)}.")
