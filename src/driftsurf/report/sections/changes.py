"""Every transition of the strategy: when, what, why and between which models."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from driftsurf.report import html
from driftsurf.report.sections import RunView, Section

MOST_LISTED = 400


def build(run: RunView) -> Iterator[str]:
    """Return the table of transitions."""
    listed = [(decision, transition) for decision in run.decisions for transition in decision.transitions]
    if not listed:
        yield "<p>There was no sign of drift.</p>"
        return
    rows = [
        (
            f'<button type="button" class="go" data-row="{decision.first_row}">{transition.step}</button>',
            f'<span class="kind {transition.kind}"></span>{escape(transition.phrase)}',
            escape(transition.reason),
            f"{transition.old} &rarr; {transition.new}",
        )
        for decision, transition in listed[:MOST_LISTED]
    ]
    yield html.wide_table(("step", "change", "reason", "models"), rows, numbers=(0,))
    more = len(listed) - MOST_LISTED
    if more > 0:
        yield html.note(f"The first {MOST_LISTED} changes; the journal has {more:,} more.")


SECTION = Section("Every change, and why", 50, build)
