"""One model of a cell in compiled code: made, scored, trained, and its oldest rows forgotten.

The arithmetic is the machine code of the kernels that train any linear model, called by address. numba does not notice
changes to this file: remove the ``__pycache__`` folders (``make clean``) after changing it.

In the arguments, ``side`` is the place of the model in its cell (``layout.py``).
"""

from __future__ import annotations

import math
from typing import Any

from driftsurf.kernels.compile import uncounted
from driftsurf.learners._linear import LARGEST
from driftsurf.strategies.compiled.addresses import (
    discharge_at,
    largest_at,
    losses_at,
    margins_at,
    saga_anchored_at,
    saga_at,
    saga_both_at,
    schedule_at,
    squared_length_at,
    uncentre_at,
    weighted_sum_at,
)
from driftsurf.strategies.compiled.layout import EVIDENCE, LOGISTIC, STEPS
from driftsurf.strategies.compiled.parts import (
    finish_outputs_at,
    forget_outputs_at,
    frame_of,
    labelled,
    lost_by_outputs_at,
    make_model_at,
    meet_at,
    penalty_of_outputs_at,
    rescale_at,
    score_outputs_at,
    train_outputs_at,
)
from driftsurf.strategies.compiled.rows import parts_between


@uncounted
def make_model(cell: Any, side: Any, step: Any, first_row: Any, training: Any, kernels: Any) -> None:
    """Put a new model on this side, with the next number."""
    make_model_at(kernels.make_model, cell.X)(cell, side, step, first_row, training, kernels)


@uncounted
def score(cell: Any, side: Any, rows: Any, out: Any, training: Any, kernels: Any) -> None:
    """Write the scores of rows by a model."""
    if training.kind == LOGISTIC:
        margins_at(kernels.margins, rows)(rows, cell.raw[side], out)
    else:
        score_outputs_at(kernels.score_outputs, rows)(cell, side, rows, out, training, kernels)


@uncounted
def _lost(cell: Any, side: Any, lo: Any, hi: Any, known: Any, training: Any, scratch: Any, kernels: Any) -> Any:
    """Return the summed loss of a model over the rows from ``lo`` to ``hi``, and their weight.

    With ``known``, ``scratch.scores`` has their scores already.
    """
    if training.kind != LOGISTIC:
        return lost_by_outputs_at(kernels.lost_by_outputs, cell.X)(
            cell, side, lo, hi, known, training, scratch, kernels
        )
    base = cell.counts[0]["base"]
    n = hi - lo
    rows, y, weight = parts_between(cell, lo - base, hi - base)
    losses = scratch.losses[:n]  # not in place of the scores, so that the loop over them is vectorised
    scores = scratch.scores[:n] if known else scratch.margins[:n]
    if not known:
        margins_at(kernels.margins, rows)(rows, cell.raw[side], scores)
    losses_at(kernels.losses, rows)(scores, y, losses)
    return weighted_sum_at(kernels.weighted_sum, rows)(losses, weight)


@uncounted
def _penalty(cell: Any, side: Any, training: Any, scratch: Any, kernels: Any) -> Any:
    if training.outputs > 1:
        return penalty_of_outputs_at(kernels.penalty_of_outputs, cell.X)(cell, side, training, scratch, kernels)
    return 0.5 * training.l2 * squared_length_at(kernels.squared_length, cell.X)(cell.w[side], cell.factor[side])


@uncounted
def risk(cell: Any, side: Any, lo: Any, hi: Any, known: Any, training: Any, scratch: Any, kernels: Any) -> Any:
    """Return the risk of a model on one batch; NaN without weight."""
    total, mass = _lost(cell, side, lo, hi, known, training, scratch, kernels)
    return total / mass + _penalty(cell, side, training, scratch, kernels) if mass > 0.0 else math.nan


@uncounted
def risk_of_trial(cell: Any, side: Any, first: Any, stop: Any, training: Any, scratch: Any, kernels: Any) -> Any:
    """Return the risk of a model over the batches of T from number ``first`` on, summed batch by batch."""
    total = 0.0
    mass = 0.0
    for i in range(first, stop):
        part, share = _lost(cell, side, cell.bounds[i], cell.bounds[i + 1], False, training, scratch, kernels)
        total += part
        mass += share
    return total / mass + _penalty(cell, side, training, scratch, kernels) if mass > 0.0 else math.nan


@uncounted
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
    scratch.whole[STEPS + 2 * side] = steps
    scratch.whole[STEPS + 2 * side + 1] = lo
    K = training.outputs
    table = cell.tables[side][(lo - base) * K : (hi - base) * K]
    model["words"] = schedule_at(kernels.schedule, cell.X)(
        scratch.orders[side][:steps],
        table,
        scratch.overwritten[side][: steps * K],
        admitted - lo,
        waiting,
        model["seed"],
        model["words"],
        training.alternating,
    )
    model["admitted"] = admitted + min(waiting, (steps + 1) // 2)
    if training.regression and training.scaled and hi > model["hi"]:
        meet_at(kernels.meet, cell.X)(cell, side, model["hi"], hi, training, scratch, kernels)
    model["seen"] += hi - model["hi"]
    model["hi"] = hi
    model["gradients"] += steps
    if model["seen"] >= model["rescale_at"]:
        rescale_at(kernels.rescale, cell.X)(cell, side, training, scratch, kernels)


@uncounted
def end_update(cell: Any, side: Any, training: Any, scratch: Any, kernels: Any) -> Any:
    """Work out the weights by which rows are scored; return whether training has not diverged."""
    width, model = cell.w.shape[1], cell.models[side]
    if training.kind != LOGISTIC:
        finish_outputs_at(kernels.finish_outputs, cell.X)(cell, side, training, scratch, kernels)
    elif model["centred"] == 0:
        for c in range(width):
            cell.raw[side, c] = cell.w[side, c]
    else:
        w, raw = cell.w[side].reshape(width, 1), cell.raw[side].reshape(width, 1)
        uncentre_at(kernels.uncentre, cell.X)(w, cell.centre[side], 0.0, raw)
    beyond = 0
    for c in range(width):
        beyond += not (abs(cell.w[side, c]) < LARGEST and abs(cell.G[side, c]) < LARGEST)
    if beyond == 0:
        return True
    scratch.real[0] = largest_at(kernels.largest, cell.X)(cell.w[side], cell.G[side])
    scratch.real[1] = model["step_size"]
    return False


@uncounted
def _arrays(cell: Any, side: Any) -> Any:
    """Return weights, gradient sum and table of a model."""
    model, base = cell.models[side], cell.counts[0]["base"]
    return cell.w[side], cell.G[side], cell.tables[side][model["lo"] - base : model["hi"] - base]


@uncounted
def run_update(cell: Any, side: Any, steps: Any, training: Any, scratch: Any, kernels: Any) -> None:
    """Take the gradient steps of one model."""
    model = cell.models[side]
    if training.kind != LOGISTIC:
        train_outputs_at(kernels.train_outputs, cell.X)(cell, side, steps, training, scratch, kernels)
        return
    model["drawn"] = saga_at(kernels.saga, cell.X)(
        labelled(cell, side),
        scratch.orders[side][:steps],
        _arrays(cell, side),
        model["drawn"],
        model["step_size"],
        training.l2,
        frame_of(cell, side),
        None,
    )


@uncounted
def run_anchored(cell: Any, side: Any, steps: Any, anchor: Any, training: Any, scratch: Any, kernels: Any) -> None:
    """Take the gradient steps of a model of logistic regression whose weights are the difference from an anchor."""
    model, base = cell.models[side], cell.counts[0]["base"]
    rows, y, _ = parts_between(cell, model["lo"] - base, model["hi"] - base)
    offset = scratch.values[: y.shape[0]]
    margins_at(kernels.margins, rows)(rows, anchor, offset)
    model["drawn"] = saga_anchored_at(kernels.saga_anchored, cell.X)(
        labelled(cell, side),
        scratch.orders[side][:steps],
        _arrays(cell, side),
        model["drawn"],
        model["step_size"],
        training.l2,
        frame_of(cell, side),
        offset,
    )


@uncounted
def run_both(cell: Any, side: Any, other: Any, steps: Any, training: Any, scratch: Any, kernels: Any) -> None:
    """Take the gradient steps of two models, in turn."""
    one, two = cell.models[side], cell.models[other]
    one["drawn"], two["drawn"] = saga_both_at(kernels.saga_both, cell.X)(
        labelled(cell, side),
        scratch.orders[side][:steps],
        _arrays(cell, side),
        one["drawn"],
        one["step_size"],
        frame_of(cell, side),
        labelled(cell, other),
        scratch.orders[other][:steps],
        _arrays(cell, other),
        two["drawn"],
        two["step_size"],
        frame_of(cell, other),
        training.l2,
    )


@uncounted
def copy_model(cell: Any, side: Any, source: Any, step: Any) -> None:
    """Put a copy of a classifier without rows on this side, with the next number."""
    counts, model, other = cell.counts[0], cell.models[side], cell.models[source]
    model["id"] = counts["made"]
    counts["made"] += 1
    model["born"] = step
    model["best"] = math.inf
    model["seed"] = other["seed"]
    model["first_row"] = other["first_row"]
    model["lo"] = other["lo"]
    model["admitted"] = other["admitted"]
    model["hi"] = other["hi"]
    model["seen"] = other["seen"]
    model["words"] = other["words"]
    model["gradients"] = other["gradients"]
    model["drawn"] = other["drawn"]
    model["rescale_at"] = other["rescale_at"]
    model["centred"] = other["centred"]
    model["step_size"] = other["step_size"]
    model["target"] = other["target"]
    for c in range(cell.w.shape[1]):
        cell.w[side, c] = cell.w[source, c]
        cell.G[side, c] = cell.G[source, c]
        cell.raw[side, c] = cell.raw[source, c]
    for c in range(cell.factor.shape[1]):
        cell.factor[side, c] = cell.factor[source, c]
        cell.gain[side, c] = cell.gain[source, c]
        cell.centre[side, c] = cell.centre[source, c]
        cell.centred[side, c] = cell.centred[source, c]
    for k in range(4):
        cell.judged[EVIDENCE + 4 * side + k] = 0.0


@uncounted
def forget_rows(cell: Any, side: Any, before_row: Any, training: Any, kernels: Any) -> None:
    """Drop the rows before ``before_row`` from the sample set, and their gradients from the gradient sum."""
    model, base = cell.models[side], cell.counts[0]["base"]
    if model["lo"] < 0 or before_row <= model["lo"]:
        return
    a, b = model["lo"] - base, min(before_row, model["admitted"]) - base
    if training.kind == LOGISTIC:
        rows, _, _ = parts_between(cell, a, b)
        table, G, frame = cell.tables[side][a:b], cell.G[side], frame_of(cell, side)
        model["drawn"] -= discharge_at(kernels.discharge, rows)(rows, table, G, frame)
    else:
        model["drawn"] -= forget_outputs_at(kernels.forget_outputs, cell.X)(cell, side, a, b, training, kernels)
    model["lo"] = before_row
    model["admitted"] = max(before_row, model["admitted"])
    model["hi"] = max(before_row, model["hi"])
