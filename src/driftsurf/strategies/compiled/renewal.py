"""A fresh model in place of the one of a cell, for strategies that have one model at a time."""

from __future__ import annotations

import dataclasses
import math

from driftsurf.core.contracts import Batch
from driftsurf.core.decisions import ModelRecord
from driftsurf.strategies.compiled.cell import CompiledModels
from driftsurf.strategies.compiled.rows import stored_between

SIDE = 0
"""Side of the only model."""


def next_step(models: CompiledModels) -> int:
    """Return the number of the next step."""
    step: int = models._cell.counts["step"].item()
    return step


def newest(models: CompiledModels, count: int) -> Batch:
    """Return the last ``count`` rows, as views that are valid until the next step."""
    cell, b = models._cell, models._end
    a = b - count
    return Batch(stored_between(cell.X, a, b), cell.y[a:b], cell.weight[a:b], cell.counts["next"].item() - count)


def renew(models: CompiledModels, step: int) -> int:
    """Replace the model by a fresh one, which starts at this step with the next row; return its number.

    The rows so far stay until the end of the step, so that it can be undone.
    """
    counts, pool = models._cell.counts, models._pool
    pool.made = counts["made"].item()
    fresh = pool.make(step, counts["next"].item())
    models._put(SIDE, fresh)
    counts["made"] = pool.made
    return fresh.id


def renew_after_step(models: CompiledModels, step: int) -> int:
    """Replace the model by a fresh one after a step, and drop all rows so far; return its number."""
    number = renew(models, step)
    counts = models._cell.counts
    counts["first"] = counts["next"]
    return number


def learn_afresh(models: CompiledModels, batch: Batch) -> ModelRecord:
    """Let a fresh model learn a batch that an earlier model did not predict well; return its record."""
    renew(models, next_step(models))
    decision = models.step(batch)
    assert decision is not None  # the batch was learned before, by the earlier model
    models._cell.models["best"][SIDE] = math.inf  # the model did not predict the batch
    return dataclasses.replace(decision.models[0], role="reactive", risk_before=None, best_risk=None)
