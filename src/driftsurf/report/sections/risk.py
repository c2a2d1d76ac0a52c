"""The risk that the strategy watches, with the threshold for a sign of drift."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from driftsurf.core.decisions import Decision
from driftsurf.report import html
from driftsurf.report.figure import Curve, Figure, usual_top
from driftsurf.report.sections import RunView, Section

CAPTION = "The risk (regularised loss) of each batch before it was learned."
LIMIT = (
    " A risk above the dotted line is a sign of drift: then a fresh model starts to compete. This limit is the best "
    "risk so far plus the threshold, or the risk of the stable model plus the stable threshold if that is lower; "
    "while a new model is tested there is no limit. The green line is the second model: in such a test the one "
    "that did not predict, otherwise the stable model, which learns the rows since the last test."
)
IN_USE = "model in use when the labels came"
"""Name of the watched model where labels come late: an earlier one may have predicted the rows."""


def build(run: RunView) -> Iterator[str | Figure]:
    """Return the caption and the figure; nothing for a strategy without a predictive model."""
    figure = _figure(run)
    if figure is not None:
        yield html.note(CAPTION + LIMIT * (run.looks_for_drift == "thresholds"))
        yield figure


def _figure(run: RunView) -> Figure | None:
    at, risks, limits, rivals = list[float](), list[float](), list[float](), list[float]()
    for decision in run.decisions:
        by_role = {record.role: _or_nan(record.risk_before) for record in decision.models}
        if "predictive" not in by_role:
            continue
        risk, rival = by_role["predictive"], by_role.get("reactive", by_role.get("stable", math.nan))
        if any(record.role == "reactive" and record.id == decision.predicted_by for record in decision.models):
            risk, rival = rival, risk
        at.append(run.steps.of_decision(decision))
        risks.append(risk)
        limits.append(_limit(decision))
        rivals.append(rival)
    late = run.trace.late_predictors(run.model) is not None
    finite = np.array([value for value in risks + limits if math.isfinite(value)])
    if not len(finite):
        return None
    series = [
        Curve("limit for a sign of drift", "limit", limits, at),
        Curve("other model", "rival", rivals, at),
        Curve(IN_USE if late else "model that predicted", "curve", risks, at, marked=True),
    ]
    shown = [one for one in series if np.isfinite(one.values).any()]
    return Figure("risk", "risk over time", "risk", usual_top(finite), shown)


def _limit(decision: Decision) -> float:
    """Return the risk above which the step is a sign of drift; NaN inside a reactive state."""
    if decision.reactive_step > 1:
        return math.nan
    by_role = {record.role: record for record in decision.models}
    best = _or_nan(by_role["predictive"].best_risk) + _or_nan(decision.threshold)
    stable = _or_nan(by_role["stable"].risk_before if "stable" in by_role else None)
    return float(np.fmin(best, stable + _or_nan(decision.stable_threshold)))


def _or_nan(value: float | None) -> float:
    return math.nan if value is None else value


SECTION = Section("What the model watched", 20, build)
