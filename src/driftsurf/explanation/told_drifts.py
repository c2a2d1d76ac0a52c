"""The verdict on a run and its drifts in words, with which explanations begin."""

from __future__ import annotations

from collections.abc import Iterator

from driftsurf.core.drifts import Drift
from driftsurf.evaluation.verdict import verdict_of
from driftsurf.explanation.records import RunRecord

__all__ = ["describe_changes", "describe_drifts", "describe_verdict"]

MOST_DRIFTS = 50
"""Drifts, and moves of the inputs, that are listed at most: the newest ones."""


def describe_verdict(record: RunRecord) -> str:
    """Return whether the data drifted and, if the trace is known, how good the model is."""
    if record.trace is None:
        return record.drifts.describe() or f"No drift in {record.decisions[-1].rows_seen:,} rows."
    return verdict_of(record.trace, record.trace.models[0], record.drifts, record.scores).text


def describe_drifts(record: RunRecord) -> Iterator[str]:
    """Yield a heading and a line for each drift, with its cause and its evidence; nothing if there was none."""
    drifts = record.drifts
    if drifts:
        cut = f" (the last {MOST_DRIFTS} of {len(drifts)})" if len(drifts) > MOST_DRIFTS else ""
        yield f"drifts{cut}"
        for one in drifts[-MOST_DRIFTS:]:
            yield f"  drift {one.number}: {one.describe()} {_detection(one)}"


def describe_changes(record: RunRecord) -> Iterator[str]:
    """Yield a heading and a line for each move of the inputs that did no harm; nothing if there was none."""
    changes = record.changes
    if changes:
        cut = f" (the last {MOST_DRIFTS} of {len(changes)})" if len(changes) > MOST_DRIFTS else ""
        yield f"inputs that moved without harm{cut}"
        yield from (f"  {one.describe()}" for one in changes[-MOST_DRIFTS:])


def _detection(drift: Drift) -> str:
    found = f"It was detected at row {drift.detected_at_row:,}"
    found += f", with {drift.evidence_text} to 1 against chance" if drift.evidence > 1 else ""
    return f"{found}{f', and is marked as {drift.mark}' if drift.mark else ''}."
