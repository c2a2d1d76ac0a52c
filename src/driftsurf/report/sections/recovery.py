"""How long the model took to recover from each known drift."""

from __future__ import annotations

from collections.abc import Iterator

from driftsurf.report import html
from driftsurf.report.sections import RunView, Section


def build(run: RunView) -> Iterator[str]:
    """Return the table of recovery times; nothing without known drifts."""
    summary = run.summary
    if not summary.drift_steps:
        return
    heads = (
        "drift at step",
        "steps until it predicts from new rows alone",
        "steps until its error is within 10&thinsp;% of the oracle&rsquo;s",
    )
    by_error = summary.recovery_by_error or (None,) * len(summary.drift_steps)
    rows = [
        (f"{first}" if first == last else f"{first} to {last}", _time(trained), _time(close))
        for (first, last), trained, close in zip(
            summary.drift_steps, summary.recovery_by_training, by_error, strict=True
        )
    ]
    yield html.wide_table(heads, rows, numbers=range(3))
    yield html.note(
        "The first number counts from the end of the drift, the second from its start. The error of the oracle is its "
        "median until the next drift."
    )


def _time(steps: int | None) -> str:
    return "not before the next drift" if steps is None else str(steps)


SECTION = Section("Recovery from the known drifts", 90, build)
