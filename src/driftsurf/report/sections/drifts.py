"""The drifts that were found: when each began, how large it was, when the model recovered, and why."""

from __future__ import annotations

from collections.abc import Iterator

from driftsurf.core.wording import optional
from driftsurf.errors.visible import escape
from driftsurf.report import html
from driftsurf.report.sections import RunView, Section
from driftsurf.session.drift_monitor import PEAK_ROWS

MOST_LISTED = 100


def build(run: RunView) -> Iterator[str]:
    """Return the table; nothing without a drift."""
    if not run.drifts:
        return
    shown = run.drifts[-MOST_LISTED:]
    metric, rises = shown.rises()
    rows = [
        (
            f'<button type="button" class="go" data-step="{run.place(one.row):.10g}">{one.number}</button>',
            f'{escape(one.row_text)}<span class="meaning">{escape(one.time or "")}</span>',
            f'<span class="when">{escape(rise)}</span>',
            escape(one.end_text),
            escape(one.cause_sentence()) + optional(one.mark, f" <b>A person marked it as {one.mark}.</b>"),
            one.evidence_text,
        )
        for one, rise in zip(shown, rises, strict=True)
    ]
    heads = ("drift", "began at", escape(metric), "end", "cause", "evidence")
    yield html.wide_table(heads, rows, numbers=(0, 5))
    if len(run.drifts) > MOST_LISTED:
        yield html.note(f"The last {MOST_LISTED} of {len(run.drifts):,} drifts.")
    yield html.note(_meaning(run))


def _meaning(run: RunView) -> str:
    """Return what the errors and the evidence are."""
    text = (
        f"The first error is the usual one, the second the highest of {PEAK_ROWS} rows in a row, which "
        "may be higher than that of any batch in the figure."
    )
    if run.drifts.open is not None:
        text += " While a drift goes on, it is the highest one when there was last news of the drift."
    if run.about.get("served") or run.trace.late_predictors(run.model) is not None:
        text += (
            " Both are of the model as it was when the labels came. The answers in the figure were given earlier, when "
            "the model knew less, and may have been wrong more often and for longer."
        )
    return (
        f"{text} Evidence is the factor by which the rows speak against chance: without a drift, a run reaches 100 "
        "with a probability of at most 1 %."
    )


SECTION = Section("Drifts and their causes", 12, build, folded=False)
