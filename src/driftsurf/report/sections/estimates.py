"""The error as it was estimated before the labels came, with its interval, beside the true one."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from driftsurf.evaluation.summary import estimated_errors
from driftsurf.report import html
from driftsurf.report.figure import Curve, Figure, usual_top
from driftsurf.report.sections import RunView, Section

LEAST_TOP = 0.1
"""The axis of a share of rows reaches at least this far."""


def build(run: RunView) -> Iterator[str | Figure]:
    """Return the figure and a sentence; nothing if the run estimated no error."""
    found = estimated_errors(run.trace, run.model)
    if found is None:
        return
    at, shares = found.at.tolist(), bool(run.trace.labels)
    series = [
        Curve("90 % interval, lower end", "limit", found.low.tolist(), at),
        Curve("90 % interval, upper end", "limit", found.high.tolist(), at),
        Curve("true error", "rival", found.true.tolist(), at),
        Curve("estimated error", "curve", found.value.tolist(), at, marked=True),
    ]
    known = np.concatenate([found.true, found.value])
    top = 1.05 * max(LEAST_TOP, float(known.max()), float(np.quantile(found.high, 0.9)))
    unit = "error" if shares else "root mean squared error"
    yield Figure("estimate", "estimated and true error over time", unit, top if shares else usual_top(known), series)
    yield html.note(
        f"{found.describe(shares=shares)} It is estimated from the model's own probabilities, how far its experts "
        "disagree, and the labels that had come. No estimate can see labels that change while the inputs stay."
    )


SECTION = Section("Error before the labels", 11, build, folded=False)
