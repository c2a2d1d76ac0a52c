"""Sections of the run page on its models: training, shares of experts, risks."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from driftsurf.core.decisions import Decision
from driftsurf.report import html
from driftsurf.report.figure import SERIES_STYLES, Bar, Bars, Curve, Figure, usual_top
from driftsurf.report.sections import RunView, section
from driftsurf.runs.explanation.lineage import beliefs, describe_largest_move, experts_of, lineages

MOST_MODELS = 40
"""In a run with more models that predicted, the last of them are shown."""
MODELS_CAPTION = (
    "Each line is a model that predicted, from its first step to its last: thick where it predicted, thin where it "
    "only learned."
)


@section("The models", 30)
def models(run: RunView) -> Iterator[str | Bars]:
    """Return the caption and the figure; nothing without decisions."""
    bars = _bars(run)
    if bars:
        yield html.note(MODELS_CAPTION)
        yield Bars("models", "the models of the run over time", bars)


def _bars(run: RunView) -> list[Bar]:
    late = run.trace.late_predictors(run.model)
    models = [one for one in lineages(run.decisions, late) if one.predicted or one.late][-MOST_MODELS:]
    positions = run.steps.places(run.decisions)

    def position(step: int) -> float:
        return positions.get(step, float(step))

    return [
        Bar(
            str(model.id),
            position(model.born),
            position(model.last_step),
            [(position(first), position(last)) for first, last in model.predicted],
            model.describe(),
        )
        for model in models
    ]


MOST_SPANS = 20
"""In a run with more spans, the last ones are listed."""
BELIEF_CAPTION = (
    "The prediction is a mixture of experts. Each curve is the share of one of them in it, after each batch."
)


@section("Shares of the experts", 25)
def belief(run: RunView) -> Iterator[str | Figure]:
    """Return the figure and the list of spans; nothing for a strategy without named experts."""
    names = experts_of(run.decisions)
    if not names:
        return
    known = [decision for decision in run.decisions if len(decision.models) == len(names)]
    at = [float(run.steps.of_decision(decision)) for decision in known]
    series = []
    for place, name in enumerate(names):
        shares = [decision.models[place].weight for decision in known]
        values = [math.nan if share is None else share for share in shares]
        series.append(Curve(name, SERIES_STYLES[place % len(SERIES_STYLES)], values, at))
    yield html.note(BELIEF_CAPTION)
    yield Figure("belief", "share of each expert in the weights over time", "share of the weights", 1.0, series)
    spans = [span.describe() for span in beliefs(run.decisions)[-MOST_SPANS:]]
    for text in [*spans, describe_largest_move(run.decisions)]:
        yield html.note(f"{text[0].upper()}{text[1:]}.")


RISK_CAPTION = "The risk (regularised loss) of each batch before it was learned."
LIMIT = (
    " A risk above the dotted line is a sign of drift: then a fresh model starts to compete. This limit is the best "
    "risk so far plus the threshold, or the risk of the stable model plus the stable threshold if that is lower; "
    "while a new model is tested there is no limit. The green line is the second model: in such a test the one "
    "that did not predict, otherwise the stable model, which learns the rows since the last test."
)
IN_USE = "model in use when the labels came"
"""Name of the watched model where labels come late: an earlier one may have predicted the rows."""


@section("What the model watched", 20)
def risk(run: RunView) -> Iterator[str | Figure]:
    """Return the caption and the figure; nothing for a strategy without a predictive model."""
    figure = _risk_figure(run)
    if figure is not None:
        yield html.note(RISK_CAPTION + LIMIT * (run.looks_for_drift == "thresholds"))
        yield figure


def _risk_figure(run: RunView) -> Figure | None:
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
