"""Every reaction of the strategy: when, what, why and between which models."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from driftsurf.core.decisions import Decision, Transition, alike, phrase_of, plain_expert
from driftsurf.errors.visible import escape
from driftsurf.report import html
from driftsurf.report.sections import RunView, Section
from driftsurf.runs.explanation.records import BEGAN_REACTIVE, begins_reactive

MOST_LISTED = 400
NAMED = (
    "Each expert is listed. Where reactions are counted, those of experts that overlap are one, and so are their "
    "switches."
)


def build(run: RunView) -> Iterator[str]:
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
        for decision, group in listed[:MOST_LISTED]
    ]
    heads = ("step", *["time"] * bool(run.when(0)), "change", "reason", *["expert"] * named, "models")
    yield html.wide_table(heads, rows, numbers=(0,))
    more = len(listed) - MOST_LISTED
    if more > 0:
        yield html.note(f"The first {MOST_LISTED} changes; the journal has {more:,} more.")


def _done(group: Sequence[Transition]) -> str:
    """Return what was done; the experts have a column of their own."""
    return group[0].phrase if len(group) == 1 else phrase_of(group)


SECTION = Section("Every reaction of the model, and why", 50, build)
