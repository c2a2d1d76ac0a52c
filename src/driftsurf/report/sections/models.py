"""Section of the run page on its models: when each was trained, and when it predicted."""

from __future__ import annotations

from collections.abc import Iterator

from driftsurf.report import html
from driftsurf.report.figure import Bar, Bars
from driftsurf.report.sections import RunView, Section
from driftsurf.runs.explanation.lineage import lineages

MOST_MODELS = 40
"""In a run with more models that predicted, the last of them are shown."""
CAPTION = (
    "Each line is a model that predicted, from its first step to its last: thick where it predicted, thin where it "
    "only learned."
)


def build(run: RunView) -> Iterator[str | Bars]:
    """Return the caption and the figure; nothing without decisions."""
    bars = _bars(run)
    if bars:
        yield html.note(CAPTION)
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


SECTION = Section("The models", 30, build)
