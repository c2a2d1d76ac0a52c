"""Moves of the inputs alone: columns that have other values than before, while the error did not rise."""

from __future__ import annotations

from collections.abc import Iterator

from driftsurf.errors.visible import escape
from driftsurf.report import html
from driftsurf.report.sections import RunView, Section

MOST_LISTED = 100


def build(run: RunView) -> Iterator[str]:
    """Return the table; nothing if no column moved."""
    if not run.changes:
        return
    rows = [
        (
            f'<button type="button" class="go" data-step="{run.place(one.row):.10g}">{one.step}</button>',
            f'row {one.row:,}<span class="meaning">{escape(one.time or "")}</span>',
            escape(", ".join(one.columns)),
        )
        for one in run.changes[-MOST_LISTED:]
    ]
    yield html.wide_table(("step", "noticed from", "columns, the one that moved most first"), rows, numbers=(0,))
    yield html.note("These columns have other values than before. The error did not rise, so that none is a drift.")


SECTION = Section("Inputs that moved without harm", 60, build)
