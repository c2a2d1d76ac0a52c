"""Every transition of the strategy: when, what, why and between which models."""

from __future__ import annotations

from collections.abc import Iterator

from driftsurf.core.decisions import Decision
from driftsurf.explanation.records import BEGAN_REACTIVE, begins_reactive
from driftsurf.report import html
from driftsurf.report.sections import RunView, Section
from driftsurf.visible import escape

MOST_LISTED = 400


def build(run: RunView) -> Iterator[str]:
    """Return the table of transitions."""
    listed = [(decision, transition) for decision in run.decisions for transition in decision.transitions]
    if not listed:
        if begins_reactive(run.decisions):
            yield f"<p>{BEGAN_REACTIVE}</p>"
        elif run.looks_for_drift:
            yield "<p>There was no sign of drift.</p>"
        return
    times = run.trace.times(run.model)
    units = ("datetime64[D]", "datetime64[m]", "datetime64[s]")
    unit = next(unit for unit in units if times is None or unit == units[-1] or (times == times.astype(unit)).all())

    def when(decision: Decision) -> list[str]:
        """Return the time of the step of a decision, if it is known."""
        if times is None:
            return []
        when = times[min(int(run.steps.of_decision(decision)), len(times) - 1)]
        return [f'<span class="when">{str(when.astype(unit)).replace("T", " ")}</span>']

    named = any(transition.expert for _, transition in listed)
    rows = [
        (
            f'<button type="button" class="go" data-step="{run.steps.of_decision(decision):.10g}">'
            f"{transition.step}</button>",
            *when(decision),
            f'<span class="kind {transition.kind}"></span>{escape(transition.phrase)}',
            escape(transition.reason),
            *[escape(transition.expert)] * named,
            f"{transition.old} &rarr; {transition.new}",
        )
        for decision, transition in listed[:MOST_LISTED]
    ]
    heads = ("step", *["time"] * (times is not None), "change", "reason", *["expert"] * named, "models")
    yield html.wide_table(heads, rows, numbers=(0,))
    more = len(listed) - MOST_LISTED
    if more > 0:
        yield html.note(f"The first {MOST_LISTED} changes; the journal has {more:,} more.")


SECTION = Section("Every change, and why", 50, build)
