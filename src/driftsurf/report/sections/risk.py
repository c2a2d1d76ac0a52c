"""The risk that the strategy watches, with the threshold for a sign of drift."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from driftsurf.report import html
from driftsurf.report.figure import Figure, Series, usual_top
from driftsurf.report.sections import RunView, Section

CAPTION = (
    "The risk (regularised loss) of each batch before it was learned. A risk above the dotted line is a sign of drift: "
    "then a fresh model starts to compete. The green line is the competing model; it starts high, because it has "
    "learned little."
)


def build(run: RunView) -> Iterator[str | Figure]:
    """Return the caption and the figure; nothing for a strategy without a predictive model."""
    figure = _figure(run)
    if figure is not None:
        yield html.note(CAPTION)
        yield figure


def _figure(run: RunView) -> Figure | None:
    at, risks, limits, rivals = list[float](), list[float](), list[float](), list[float]()
    for decision in run.decisions:
        by_role = {record.role: record for record in decision.models}
        model, rival = by_role.get("predictive"), by_role.get("reactive") or by_role.get("stable")
        if model is None:
            continue
        at.append(run.steps.of_decision(decision))
        risks.append(_or_nan(model.risk_before))
        limits.append(_or_nan(model.best_risk) + _or_nan(decision.threshold))
        rivals.append(_or_nan(rival.risk_before if rival else None))
    finite = np.array([value for value in risks + limits if math.isfinite(value)])
    if not len(finite):
        return None
    series = [
        Series("best risk so far + threshold", "limit", limits, at),
        Series("competing model", "rival", rivals, at),
        Series("predicting model", "curve", risks, at, marked=True),
    ]
    shown = [one for one in series if np.isfinite(one.values).any()]
    return Figure("risk", "risk over time", "risk", usual_top(finite), shown)


def _or_nan(value: float | None) -> float:
    return math.nan if value is None else value


SECTION = Section("What the model watched", 20, build)
