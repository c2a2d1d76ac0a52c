"""Section of the run page on a portfolio: which experts it trusted, when, and why that changed."""

from __future__ import annotations

import math
from collections.abc import Iterator

from driftsurf.report import html
from driftsurf.report.figure import SERIES_STYLES, Curve, Figure
from driftsurf.report.sections import RunView, Section
from driftsurf.runs.explanation.lineage import beliefs, describe_largest_move, experts_of

MOST_SPANS = 20
"""In a run with more spans, the last ones are listed."""
CAPTION = "The prediction is a mixture of experts. Each curve is the share of one of them in it, after each batch."


def build(run: RunView) -> Iterator[str | Figure]:
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
    yield html.note(CAPTION)
    yield Figure("belief", "share of each expert in the weights over time", "share of the weights", 1.0, series)
    spans = [span.describe() for span in beliefs(run.decisions)[-MOST_SPANS:]]
    for text in [*spans, describe_largest_move(run.decisions)]:
        yield html.note(f"{text[0].upper()}{text[1:]}.")


SECTION = Section("Shares of the experts", 25, build)
