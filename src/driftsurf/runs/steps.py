"""Results of a batch of a run: the steps that it completed, and the predictions of its rows."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from driftsurf.runs.plan import RunPlan, Sidecar
from driftsurf.runs.predictions import Predicted, PredictionBatch, predict_now
from driftsurf.runs.table_rows import TableRows
from driftsurf.session.observation import Observation
from driftsurf.session.protocols import Model
from driftsurf.session.session import Session

__all__ = ["UNOBSERVED", "Step", "Taken", "predictions_of", "sidecar_lines"]

log: logging.Logger = logging.getLogger("driftsurf.run")

UNOBSERVED = Observation(np.zeros(0), np.zeros(0), np.zeros(0), np.zeros(0), ())
"""Observation of a batch without labels: it has no rows."""


class Step(NamedTuple):
    """A step of a run."""

    number: int
    rows: Any
    truth: Any
    """Labels of the rows that were scored."""
    seen: dict[str, Observation]
    """Observation of each model, by its name."""


class Taken(NamedTuple):
    """Results of a batch: the steps that it completed and the predictions of its rows."""

    own: Observation
    """Observation of the leading model, which is the first one."""
    steps: list[Step]
    given: PredictionBatch | None
    """Predictions of the rows that came."""
    rows: int
    """Number of rows that came."""

    def reports(self) -> Iterator[tuple[int, str, Observation]]:
        """Yield the number of each step with each model, and what that model saw."""
        for step in self.steps:
            for name, one in step.seen.items():
                yield step.number, name, one


def sidecar_lines(name: str, sidecar: Sidecar, step: Step) -> str:
    """Return the lines of a step for a file that only describes the models, and must not end the run by an error."""
    try:
        return sidecar.lines(step.rows, step.seen)
    except Exception:
        log.exception("step %d: no lines are added to %s", step.number, name)
        return ""


def predictions_of(
    plan: RunPlan, leading: Model, batch: TableRows, own: Observation, labels: Any, version: int
) -> PredictionBatch | None:
    """Return the predictions of all rows of a batch; None if the plan writes none.

    Rows without a label are predicted by the newest model, which has learned the other rows of their batch.
    """
    if plan.predictions is None:
        return None
    known: tuple[Any, ...] = ()
    bare = None
    if plan.shown_classes or not batch.labelled.all():
        assert isinstance(leading, Session)
        known = leading.targets.labels
        bare = None if batch.labelled.all() else predict_now(leading, batch.to_predict, plan.shown_classes)
    learned = Predicted.of(own, version, known, plan.shown_classes)
    return batch.predictions(learned, np.asarray(labels), bare, regression=plan.regression)
