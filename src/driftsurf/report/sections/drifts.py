"""The drifts that were found: when each began, how large it was, when the model recovered, and why."""

from __future__ import annotations

from collections.abc import Iterator

from driftsurf.core.drifts import Drift
from driftsurf.core.wording import optional
from driftsurf.report import html
from driftsurf.report.sections import RunView, Section
from driftsurf.visible import escape

MOST_LISTED = 100


def build(run: RunView) -> Iterator[str]:
    """Return the table; nothing without a drift."""
    if not run.drifts:
        return
    rows = [
        (
            f'<button type="button" class="go" data-step="{run.place(one.row):.10g}">{one.number}</button>',
            f'row {one.row:,}<span class="meaning">{escape(one.time or "")}</span>',
            f'<span class="when">{one.error_text(one.error_before)} &rarr; {one.error_text(one.error_peak)}</span>',
            escape(_end(one)),
            escape(one.cause_sentence()) + optional(one.mark, f" <b>A person marked it as {one.mark}.</b>"),
            one.evidence_text,
        )
        for one in run.drifts[-MOST_LISTED:]
    ]
    heads = ("drift", "began at", escape(run.drifts[-1].metric), "end", "cause", "evidence")
    yield html.wide_table(heads, rows, numbers=(0, 5))
    if len(run.drifts) > MOST_LISTED:
        yield html.note(f"The last {MOST_LISTED} of {len(run.drifts):,} drifts.")
    yield html.note(
        "Evidence is the factor by which the rows speak against chance: without a drift, a run reaches 100 with a "
        "probability of at most 1 %."
    )


def _end(drift: Drift) -> str:
    """Return how the drift ended, in a few words."""
    after = "" if drift.error_after is None else f" at {drift.error_text(drift.error_after)}"
    if drift.recovered_after_rows is not None:
        return f"back{after} after {drift.recovered_after_rows:,} rows"
    return f"stays{after}" if drift.ended else "goes on"


SECTION = Section("Drifts and their causes", 12, build, folded=False)
