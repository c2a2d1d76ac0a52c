"""One model of a cell in compiled code: made, scored, trained, and its oldest rows forgotten.

The arithmetic is the machine code of the kernels that train any linear model, called by address. numba does not notice
changes to this file: remove the ``__pycache__`` folders (``make clean``) after changing it.

In the arguments, ``side`` is the place of the model in its cell (``layout.py``).
"""

from __future__ import annotations

import math
from typing import Any

from driftsurf.core.column_sizes import FRAME_RULES, MOST_PASSES
from driftsurf.kernels.compile import merged
from driftsurf.kernels.draws import _word
from driftsurf.learners._learner import AUTO_STEP, GROWN_ROWS, NEVER, STEP_QUANTILE
from driftsurf.learners._linear import LARGEST, SMALLEST_SIZE
from driftsurf.strategies.compiled.addresses import (
    discharge_at,
    fill_at,
    frame_at,
    largest_at,
    losses_at,
    margins_at,
    reframe_at,
    saga_at,
    saga_both_at,
    schedule_at,
    squared_length_at,
    uncentre_at,
    usual_norm_at,
    weighted_sum_at,
)
from driftsurf.strategies.compiled.layout import ORIGINS, STEPS

CURVATURE = 0.25
"""Largest second derivative of the logistic loss."""


@merged
def make_model(cell: Any, side: Any, step: Any, first_row: Any, training: Any, kernels: Any) -> None:
    """Put a new model on this side, with the next number."""
    counts, model = cell.counts[0], cell.models[side]
    model["id"] = counts["made"]
    model["seed"] = _word(_word(counts["seed"], model["id"]), 0)
    counts["made"] += 1
    model["born"] = step
    model["first_row"] = first_row
    model["lo"] = -1
    model["admitted"] = -1
    model["hi"] = -1
    model["seen"] = 0
    model["words"] = 0
    model["gradients"] = 0
    model["drawn"] = 0
    model["rescale_at"] = 0
    model["centred"] = 0
    model["best"] = math.inf
    model["step_size"] = training.step_size
    last = cell.w.shape[1] - 1
    for c in range(last + 1):
        cell.w[side, c] = 0.0
        cell.G[side, c] = 0.0
        cell.factor[side, c] = 1.0
        cell.gain[side, c] = 1.0
        cell.centre[side, c] = 0.0
    if not training.intercept:
        cell.factor[side, last] = 0.0
        cell.gain[side, last] = 0.0
    if training.uniform_start:
        w = cell.w[side]
        filled = w if training.intercept else w[:last]
        model["words"] = fill_at(kernels.fill, cell.X)(filled, model["seed"], 0)
    for c in range(last + 1):
        cell.raw[side, c] = cell.w[side, c]


@merged
def _lost(cell: Any, side: Any, lo: Any, hi: Any, known: Any, scratch: Any, kernels: Any) -> Any:
    """Return the summed loss of a model over the rows from ``lo`` to ``hi``, and their weight.

    With ``known``, ``scratch.scores`` has their scores already.
    """
    base = cell.counts[0]["base"]
    n = hi - lo
    rows, y, weight = cell.X[lo - base : hi - base], cell.y[lo - base : hi - base], cell.weight[lo - base : hi - base]
    losses = scratch.losses[:n]  # not in place of the margins, so that the loop over them is vectorised
    if known:
        losses_at(kernels.losses, rows)(scratch.scores[:n], y, losses)
    else:
        margins = scratch.margins[:n]
        margins_at(kernels.margins, rows)(rows, cell.raw[side], margins)
        losses_at(kernels.losses, rows)(margins, y, losses)
    return weighted_sum_at(kernels.weighted_sum, rows)(losses, weight)


@merged
def _penalty(cell: Any, side: Any, training: Any, kernels: Any) -> Any:
    return 0.5 * training.l2 * squared_length_at(kernels.squared_length, cell.X)(cell.w[side], cell.factor[side])


@merged
def risk(cell: Any, side: Any, lo: Any, hi: Any, known: Any, training: Any, scratch: Any, kernels: Any) -> Any:
    """Return the risk of a model on one batch; NaN without weight."""
    total, mass = _lost(cell, side, lo, hi, known, scratch, kernels)
    return total / mass + _penalty(cell, side, training, kernels) if mass > 0.0 else math.nan


@merged
def risk_of_trial(cell: Any, side: Any, batches: Any, training: Any, scratch: Any, kernels: Any) -> Any:
    """Return the risk of a model over T, summed batch by batch."""
    total = 0.0
    mass = 0.0
    for i in range(batches):
        part, share = _lost(cell, side, cell.bounds[i], cell.bounds[i + 1], False, scratch, kernels)
        total += part
        mass += share
    return total / mass + _penalty(cell, side, training, kernels) if mass > 0.0 else math.nan


@merged
def _rescale(cell: Any, side: Any, training: Any, scratch: Any, kernels: Any) -> None:
    """Estimate the scale and the step size of a model again."""
    automatic = math.isnan(training.step_size)
    if not (training.scaled or automatic):
        return
    model, base = cell.models[side], cell.counts[0]["base"]
    a, b = model["lo"] - base, model["hi"] - base
    rows, weight = cell.X[a:b], cell.weight[a:b]
    factor, centre = cell.factor[side], cell.centre[side]
    width = cell.w.shape[1]
    if training.scaled:
        new_centre, sizes = scratch.columns[6][: width - 1], scratch.columns[7][: width - 1]
        work = scratch.columns[:6]
        frame_at(kernels.frame, rows)(
            rows, weight, training.intercept, FRAME_RULES, MOST_PASSES, new_centre, sizes, work, scratch.values
        )
        w, G = cell.w[side].reshape(width, 1), cell.G[side].reshape(width, 1)
        reframe_at(kernels.reframe, rows)(w, G, factor, centre, new_centre, sizes, SMALLEST_SIZE)
        count = 0
        for c in range(width):
            cell.gain[side, c] = factor[c] * factor[c]
            if centre[c] != 0.0:
                cell.centred[side, count] = c
                count += 1
        model["centred"] = count
    if automatic:
        usual = usual_norm_at(kernels.usual_norm, rows)(rows, weight, factor, centre, STEP_QUANTILE, scratch.values)
        model["step_size"] = AUTO_STEP / (training.l2 + CURVATURE * usual)
    model["rescale_at"] = 2 * model["seen"] if model["seen"] < GROWN_ROWS else NEVER


@merged
def begin_update(cell: Any, side: Any, hi: Any, steps: Any, training: Any, scratch: Any, kernels: Any) -> None:
    """Draw the rows of the gradient steps of a model, and scale it, as its first rows may require."""
    counts, model = cell.counts[0], cell.models[side]
    if model["lo"] < 0:
        start = max(model["first_row"], counts["first"])
        model["lo"] = start
        model["admitted"] = start
        model["hi"] = start
    lo, admitted, base = model["lo"], model["admitted"], counts["base"]
    waiting = hi - admitted
    scratch.whole[STEPS + side] = steps
    scratch.whole[ORIGINS + side] = lo
    table = cell.tables[side][lo - base : hi - base]
    model["words"] = schedule_at(kernels.schedule, cell.X)(
        scratch.orders[side][:steps],
        table,
        scratch.overwritten[side][:steps],
        admitted - lo,
        waiting,
        model["seed"],
        model["words"],
        training.alternating,
    )
    model["admitted"] = admitted + min(waiting, (steps + 1) // 2)
    model["seen"] += hi - model["hi"]
    model["hi"] = hi
    model["gradients"] += steps
    if model["seen"] >= model["rescale_at"]:
        _rescale(cell, side, training, scratch, kernels)


@merged
def end_update(cell: Any, side: Any, scratch: Any, kernels: Any) -> Any:
    """Work out the weights by which rows are scored; return whether training has not diverged."""
    width = cell.w.shape[1]
    w, raw = cell.w[side].reshape(width, 1), cell.raw[side].reshape(width, 1)
    uncentre_at(kernels.uncentre, cell.X)(w, cell.centre[side], 0.0, raw)
    reached = largest_at(kernels.largest, cell.X)(cell.w[side], cell.G[side])
    if reached < LARGEST:
        return True
    scratch.real[0] = reached
    scratch.real[1] = cell.models[side]["step_size"]
    return False


@merged
def _labelled(cell: Any, side: Any) -> Any:
    """Return the rows that the gradient steps of a model visit."""
    model, base = cell.models[side], cell.counts[0]["base"]
    a, b = model["lo"] - base, model["hi"] - base
    return cell.X[a:b], cell.y[a:b], cell.weight[a:b]


@merged
def _arrays(cell: Any, side: Any) -> Any:
    """Return weights, gradient sum and table of a model."""
    model, base = cell.models[side], cell.counts[0]["base"]
    return cell.w[side], cell.G[side], cell.tables[side][model["lo"] - base : model["hi"] - base]


@merged
def _frame(cell: Any, side: Any) -> Any:
    return cell.gain[side], cell.centre[side], cell.centred[side][: cell.models[side]["centred"]]


@merged
def run_update(cell: Any, side: Any, steps: Any, training: Any, scratch: Any, kernels: Any) -> None:
    """Take the gradient steps of one model."""
    model = cell.models[side]
    model["drawn"] = saga_at(kernels.saga, cell.X)(
        _labelled(cell, side),
        scratch.orders[side][:steps],
        _arrays(cell, side),
        model["drawn"],
        model["step_size"],
        training.l2,
        _frame(cell, side),
        None,
    )


@merged
def run_both(cell: Any, steps: Any, training: Any, scratch: Any, kernels: Any) -> None:
    """Take the gradient steps of both models, in turn."""
    one, two = cell.models[0], cell.models[1]
    one["drawn"], two["drawn"] = saga_both_at(kernels.saga_both, cell.X)(
        _labelled(cell, 0),
        scratch.orders[0][:steps],
        _arrays(cell, 0),
        one["drawn"],
        one["step_size"],
        _frame(cell, 0),
        _labelled(cell, 1),
        scratch.orders[1][:steps],
        _arrays(cell, 1),
        two["drawn"],
        two["step_size"],
        _frame(cell, 1),
        training.l2,
    )


@merged
def forget_rows(cell: Any, side: Any, before_row: Any, kernels: Any) -> None:
    """Drop the rows before ``before_row`` from the sample set, and their gradients from the gradient sum."""
    model, base = cell.models[side], cell.counts[0]["base"]
    if model["lo"] < 0 or before_row <= model["lo"]:
        return
    a, b = model["lo"] - base, min(before_row, model["admitted"]) - base
    gone = discharge_at(kernels.discharge, cell.X)(
        cell.X[a:b], cell.tables[side][a:b], cell.G[side], _frame(cell, side)
    )
    model["drawn"] -= gone
    model["lo"] = before_row
    model["admitted"] = max(before_row, model["admitted"])
    model["hi"] = max(before_row, model["hi"])
