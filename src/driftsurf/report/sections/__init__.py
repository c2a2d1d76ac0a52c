"""The sections of a run's page, in modules by subject: what was predicted, what happened, which models, which settings.

To add a figure to the page, decorate a function with :func:`section`, which states its title and its place. ``inputs``
in ``events.py`` is a short example with a table, ``risk`` in ``models.py`` one with a figure. A section reads its
:class:`RunView` and nothing else. The order of the sections is also in a test, ``tests/report/test_run_page.py``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, TypeAlias

import numpy as np

from driftsurf.core.decisions import INSIDE, Decision, Transition, alike, describe_alike, expert_noun
from driftsurf.core.drifts import Drift, Drifts, InputChanges
from driftsurf.core.journal import changes_of, drifts_of
from driftsurf.core.wording import percent
from driftsurf.errors.visible import escape
from driftsurf.evaluation.column_moves import ColumnMove
from driftsurf.evaluation.scores import Scores
from driftsurf.evaluation.summary import Baselines, ClassificationSummary, RegressionSummary, baselines, summarise
from driftsurf.evaluation.trace import OTHER, StepMap, Trace
from driftsurf.report import html
from driftsurf.report.figure import Bars, EventMark, Figure, Overlay, TransitionMark, as_json
from driftsurf.runs.explanation.lineage import TURNED, beliefs
from driftsurf.runs.explanation.records import looks_for_drift, pinned
from driftsurf.runs.orders import OrderRecord

__all__ = ["Built", "RunView", "Section", "interactive_page", "section", "sections"]


@dataclass(frozen=True)
class RunView:
    """What a page shows: one model of a trace, its decisions, and the files that were recorded with them."""

    trace: Trace
    decisions: Sequence[Decision]
    model: str
    oracle: str | None = None
    """The model of the trace that knows the drifts, if there is one."""
    moves: Sequence[ColumnMove] = ()
    orders: Sequence[OrderRecord] = ()
    seconds: Mapping[str, float] = field(default_factory=dict)
    """Measured seconds of each model; empty if the page is to be the same for every run of the same thing."""
    seconds_from: int = 0
    """The step from which on seconds were measured."""
    scores: Scores | None = None
    """Confusion, ROC AUC and calibration, or residuals, if the run recorded them."""
    about: Mapping[str, Any] = field(default_factory=dict)
    """What was run, as in ``run.json``; empty if that is not known."""
    work: str = "gradients"
    """Unit in which the work of learning is counted: "gradients", or "visits" of rows."""
    unlabelled: int = 0
    """Number of rows without a label, which were predicted and not learned."""
    known_drifts: Drifts = field(default_factory=Drifts)
    """Drifts that may be older than the decisions."""

    @functools.cached_property
    def summary(self) -> ClassificationSummary | RegressionSummary:
        """The metrics of the model."""
        return summarise(self.trace, self.model, self.oracle)

    @functools.cached_property
    def looks_for_drift(self) -> str:
        """How the strategy looks for drift: "thresholds", "detector", or empty if it does not."""
        return looks_for_drift(self.about, self.decisions)

    @functools.cached_property
    def drifts(self) -> Drifts:
        """The drifts of the model, with times where they are known."""
        return self.trace.timed(Drifts.merged([*self.known_drifts, *drifts_of(self.decisions)]), self.model)

    @functools.cached_property
    def drifts_in_view(self) -> Sequence[Drift]:
        """The drifts that were not over before the first step of the trace."""
        first = int(self.trace.of(self.model)["first_row"][0])
        return [one for one in self.drifts if one.ended_at_row is None or one.ended_at_row >= first]

    @property
    def first_step(self) -> int:
        """Number of the first step of the trace: 0, unless steps before it were removed."""
        return int(self.trace.of(self.model)["step"][0])

    @functools.cached_property
    def changes(self) -> InputChanges:
        """The moves of the inputs alone, with times where they are known."""
        return self.trace.timed(changes_of(self.decisions), self.model)

    @functools.cached_property
    def trivial(self) -> Baselines:
        """The errors of predictions that need no model."""
        return baselines(self.trace, self.model, self.scores)

    @property
    def named_classes(self) -> list[Any]:
        """The classes that the trace counts one by one."""
        return [label for label in self.trace.labels if label != OTHER]

    @property
    def positive(self) -> Any:
        """The class that precision, recall and calibration are about, if there are two: the last of them in order."""
        return self.trace.labels[1] if len(self.trace.labels) == len(self.named_classes) == 2 else None

    def class_order(self, label: Any) -> int:
        """Return the place of a class on the page."""
        labels = self.trace.labels
        return labels.index(label) if label in labels else len(labels)

    @functools.cached_property
    def steps(self) -> StepMap:
        """Where rows, decisions and orders are among the steps of the trace."""
        columns = self.trace.of(self.model)
        return StepMap.of(columns) if self.scores is None else self.scores.step_map(columns)

    def place(self, row: int) -> float:
        """Return the place among the steps of a row that was learned."""
        decision = next((one for one in reversed(self.decisions) if one.first_row <= row), None)
        if decision is None:
            return self.steps.of_row(row)
        (start, stop), at = self.steps.around(decision, decision), self.steps.of_decision(decision)
        return at + (stop - start) * min((row - decision.first_row) / max(decision.rows, 1), 1.0)

    def when(self, place: float) -> str:
        """Return the time of a step as text; empty if steps have no times."""
        return self._times[min(max(int(place), 0), len(self._times) - 1)] if self._times else ""

    @functools.cached_property
    def _times(self) -> list[str]:
        return self.trace.time_texts(self.model)


BuildSection: TypeAlias = Callable[[RunView], Iterable[str | Figure | Bars]]


@dataclass(frozen=True)
class Section:
    """A titled part of the page."""

    title: str
    position: int
    """Sections are ordered by this number."""
    build: BuildSection
    """Return HTML and figures, in their order; nothing leaves the section out."""
    folded: bool = True
    """Whether the section is among the details, which a reader unfolds."""

    def render(self, parts: Iterable[str]) -> str:
        """Return the section as HTML, given that of its parts."""
        body = "\n".join(parts)
        if self.folded:
            return f'<details class="more"><summary><h2>{escape(self.title)}</h2></summary>\n{body}\n</details>'
        return f"<h2>{escape(self.title)}</h2>\n{body}"


_sections: list[Section] = []


def section(title: str, position: int, *, folded: bool = True) -> Callable[[BuildSection], Section]:
    """Make a section of the page of the decorated function; the arguments are the fields of :class:`Section`."""

    def decorate(build: BuildSection) -> Section:
        _sections.append(Section(title, position, build, folded))
        return _sections[-1]

    return decorate


@functools.cache
def sections() -> tuple[Section, ...]:
    """Return the sections of all modules of this package, in the order of the page."""
    for module in iter_modules(__path__):
        import_module(f"{__name__}.{module.name}")
    return tuple(sorted(_sections, key=lambda section: section.position))


Built: TypeAlias = Sequence[tuple[Section, Sequence[str | Figure | Bars]]]
"""Sections with their parts, HTML and figures."""


def interactive_page(title: str, head: Iterable[str], overlay: Overlay, sections: Built) -> str:
    """Return a whole page: what stands above the figures, then the sections, the folded ones last.

    Without a script it shows the same figures as still drawings.

    Its policy lets it load nothing, and run no script but the one whose digest it names.
    """
    script = html.asset("page.js")
    figures = [part for _, parts in sections for part in parts if not isinstance(part, str)]
    data = as_json(overlay, figures)
    body = [*head, html.asset("toolbar.html").rstrip()]
    for section, parts in sorted(sections, key=lambda built: built[0].folded):
        body.append(section.render(part if isinstance(part, str) else part.render(overlay) for part in parts))
    scripts = f'<script type="application/json" id="run">{data}</script>\n<script>{script}</script>'
    return html.document(title, [*body, scripts], style=html.look(), policy=html.script_policy(script))


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
