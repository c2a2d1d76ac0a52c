"""What happened, when: drifts, experts and models that took over, and orders of an operator."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from driftsurf.errors.visible import escape
from driftsurf.report import html
from driftsurf.report.figure import EventMark
from driftsurf.report.overlay import events_of
from driftsurf.report.sections import RunView, Section
from driftsurf.runs.explanation.lineage import experts_of

SHOWN, MOST_LISTED = 12, 400
LEAST_SHARE = 0.05
"""Share from which on an expert is named."""


def build(run: RunView) -> Iterator[str]:
    """Return the experts that predict now, and the newest events; earlier ones are folded."""
    shares = shares_of(run)
    if shares:
        yield html.note(f"The prediction is a mixture; at the end of the run: {shares}.")
    events = events_of(run)
    if not events:
        return
    early, late = events[-MOST_LISTED:-SHOWN], events[-SHOWN:]
    if early:
        cut = f", of {len(events):,} in all" if len(events) > MOST_LISTED else ""
        count = f"{len(early):,} earlier event{'s' * (len(early) != 1)}"
        yield f"<details><summary>{count}{cut}</summary>{_table(early)}</details>"
    yield _table(late)


def shares_of(run: RunView) -> str:
    """Return the experts with the largest shares in the prediction; empty if the model has no experts."""
    names = experts_of(run.decisions)
    if not names:
        return ""
    weights = [record.weight or 0.0 for record in run.decisions[-1].models]
    pairs = sorted(zip(weights, names, strict=True), key=lambda pair: -pair[0])
    return " · ".join(f"{name} {100 * share:.0f} %" for share, name in pairs if share >= LEAST_SHARE)


def _table(events: Sequence[EventMark]) -> str:
    timed = any(one.when for one in events)
    rows = [
        (
            f'<button type="button" class="go" data-step="{one.at:.10g}">{int(one.at)}</button>',
            *[f'<span class="when">{escape(one.when)}</span>'] * timed,
            f'<span class="kind {one.kind}"></span>{escape(one.text)}',
        )
        for one in events
    ]
    return html.wide_table(("step", *["time"] * timed, "what happened"), rows, numbers=(0,))


SECTION = Section("What happened", 14, build, folded=False)
