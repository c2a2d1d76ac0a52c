"""One model of a cell in compiled code: made, scored, trained, and its oldest rows forgotten.

The arithmetic is the machine code of the kernels that train any linear model, called by address. numba does not notice
changes to this file: remove the ``__pycache__`` folders (``make clean``) after changing it.

In the arguments, ``side`` is the place of the model in its cell (``layout.py``).
"""

from __future__ import annotations

import math
from typing import Any

from driftsurf.core.column_sizes import FRAME_RULES, MOST_PASSES
from driftsurf.kernels.compile import uncounted
from driftsurf.kernels.draws import _word
from driftsurf.kernels.losses import HUBER
from driftsurf.learners._learner import AUTO_STEP, GROWN_ROWS, NEVER, STEP_QUANTILE
from driftsurf.learners._linear import EVIDENCE_ROWS, LARGEST, RANGE_MARGIN, SMALLEST_SIZE
from driftsurf.strategies.compiled.addresses import (
    discharge_at,
    evidence_at,
    extend_range_at,
    fill_at,
    frame_at,
    largest_at,
    limited_outputs_at,
    losses_at,
    margins_at,
    median_target_at,
    output_discharge_at,
    output_losses_at,
    output_saga_at,
    outputs_at,
    pairwise_sum_at,
    reframe_at,
    saga_at,
    saga_both_at,
    schedule_at,
    squared_length_at,
    uncentre_at,
    usual_norm_at,
    weighted_sum_at,
)
from driftsurf.strategies.compiled.layout import EVIDENCE, LOGISTIC, ORIGINS, RANGES, STACK, STEPS, WORK


@uncounted
def _ranges(cell: Any, side: Any) -> Any:
    """Return the lowest and the highest value of each column that a regression has learned, and its limits."""
    d = cell.X.shape[1]
    a = RANGES + 4 * side * d
    return cell.judged[a : a + d], cell.judged[a + d : a + 2 * d], cell.judged[a + 2 * d : a + 4 * d].reshape(2, d)


@uncounted
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
    model["target"] = 0.0
    for k in range(4):
        cell.judged[EVIDENCE + 4 * side + k] = 0.0
    if training.regression:
        low, high, _ = _ranges(cell, side)
        for c in range(low.shape[0]):
            low[c] = math.inf
            high[c] = -math.inf
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


@uncounted
def _score_outputs(cell: Any, side: Any, rows: Any, weights: Any, out: Any, training: Any, kernels: Any) -> None:
    """Write the scores of rows by these weights, within the limits of a model, for other losses than the logistic."""
    W, columns = weights.reshape(1, weights.shape[0]), out.reshape(out.shape[0], 1)
    if training.regression:
        low, high, limits = _ranges(cell, side)
        if low[0] <= high[0]:
            limited_outputs_at(kernels.limited_outputs, rows)(rows, W, columns, limits)
            return
    outputs_at(kernels.outputs, rows)(rows, W, columns, None)


@uncounted
def score(cell: Any, side: Any, rows: Any, out: Any, training: Any, kernels: Any) -> None:
    """Write the scores of rows by a model."""
    if training.kind == LOGISTIC:
        margins_at(kernels.margins, rows)(rows, cell.raw[side], out)
    else:
        _score_outputs(cell, side, rows, cell.raw[side], out, training, kernels)


@uncounted
def _lost(cell: Any, side: Any, lo: Any, hi: Any, known: Any, training: Any, scratch: Any, kernels: Any) -> Any:
    """Return the summed loss of a model over the rows from ``lo`` to ``hi``, and their weight.

    With ``known``, ``scratch.scores`` has their scores already.
    """
    base = cell.counts[0]["base"]
    n = hi - lo
    rows, y, weight = cell.X[lo - base : hi - base], cell.y[lo - base : hi - base], cell.weight[lo - base : hi - base]
    losses = scratch.losses[:n]  # not in place of the scores, so that the loop over them is vectorised
    scores = scratch.scores[:n] if known else scratch.margins[:n]
    if not known:
        score(cell, side, rows, scores, training, kernels)
    if training.kind == LOGISTIC:
        losses_at(kernels.losses, rows)(scores, y, losses)
    else:
        output_losses_at(kernels.output_losses, rows)(scores, y, training.kind, training.epsilon, losses)
    return weighted_sum_at(kernels.weighted_sum, rows)(losses, weight)


@uncounted
def _penalty(cell: Any, side: Any, training: Any, kernels: Any) -> Any:
    return 0.5 * training.l2 * squared_length_at(kernels.squared_length, cell.X)(cell.w[side], cell.factor[side])


@uncounted
def risk(cell: Any, side: Any, lo: Any, hi: Any, known: Any, training: Any, scratch: Any, kernels: Any) -> Any:
    """Return the risk of a model on one batch; NaN without weight."""
    total, mass = _lost(cell, side, lo, hi, known, training, scratch, kernels)
    return total / mass + _penalty(cell, side, training, kernels) if mass > 0.0 else math.nan


@uncounted
def risk_of_trial(cell: Any, side: Any, first: Any, stop: Any, training: Any, scratch: Any, kernels: Any) -> Any:
    """Return the risk of a model over the batches of T from number ``first`` on, summed batch by batch."""
    total = 0.0
    mass = 0.0
    for i in range(first, stop):
        part, share = _lost(cell, side, cell.bounds[i], cell.bounds[i + 1], False, training, scratch, kernels)
        total += part
        mass += share
    return total / mass + _penalty(cell, side, training, kernels) if mass > 0.0 else math.nan


@uncounted
def trivial_risk(cell: Any, lo: Any, hi: Any, centre: Any, training: Any, scratch: Any, kernels: Any) -> Any:
    """Return the weight of a batch, its mean target, and the risk of a model that predicts ``centre``.

    If ``centre`` is NaN, it predicts the mean target.
    """
    base = cell.counts[0]["base"]
    n = hi - lo
    y, weight = cell.y[lo - base : hi - base], cell.weight[lo - base : hi - base]
    guess, losses = scratch.margins[:n], scratch.losses[:n]
    total, mass = weighted_sum_at(kernels.weighted_sum, cell.X)(y, weight)
    if not mass > 0.0:
        return 0.0, math.nan, math.nan
    mean = total / mass
    for i in range(n):
        guess[i] = mean if math.isnan(centre) else centre
    output_losses_at(kernels.output_losses, cell.X)(guess, y, training.kind, training.epsilon, losses)
    lost, _ = weighted_sum_at(kernels.weighted_sum, cell.X)(losses, weight)
    return mass, mean, lost / mass


@uncounted
def _meet(cell: Any, side: Any, lo: Any, hi: Any, training: Any, scratch: Any, kernels: Any) -> None:
    """Add to the evidence and to the ranges of a regression the rows that it has not learned yet."""
    base = cell.counts[0]["base"]
    n = hi - lo
    rows, y, weight = cell.X[lo - base : hi - base], cell.y[lo - base : hi - base], cell.weight[lo - base : hi - base]
    evidence, stack = cell.judged[EVIDENCE + 4 * side : EVIDENCE + 4 * side + 4], scratch.real[STACK:]
    before, mean, product, square = evidence[0], evidence[1], evidence[2], evidence[3]
    # Without evidence, the terms of the predictions do not count, whatever they are.
    predicted, targets = scratch.margins[:n], scratch.losses[:n]
    for i in range(n):
        targets[i] = y[i]
        predicted[i] = y[i]
    if before > 0.0:
        full = scratch.columns[0]
        width = full.shape[0]
        w, out = cell.w[side].reshape(width, 1), full.reshape(width, 1)
        uncentre_at(kernels.uncentre, rows)(w, cell.centre[side], cell.models[side]["target"], out)
        _score_outputs(cell, side, rows, full, predicted, training, kernels)
        if training.kind == HUBER:  # no row counts more than one at epsilon
            for i in range(n):
                away = y[i] - predicted[i]
                away = -training.epsilon if away < -training.epsilon else away
                away = training.epsilon if away > training.epsilon else away
                targets[i] = predicted[i] + away
    terms = scratch.values[: 4 * n].reshape(4, n)
    counted = evidence_at(kernels.evidence, rows)(predicted, targets, weight, mean, terms)
    sums = scratch.columns[1:3].reshape(2 * scratch.columns.shape[1])[:4]
    for k in range(4):
        sums[k] = pairwise_sum_at(kernels.pairwise_sum, rows)(terms[k], stack)
    mass = sums[0]
    if mass > 0.0:
        kept = EVIDENCE_ROWS / (EVIDENCE_ROWS + counted)
        if before > 0.0:
            evidence[2] = kept * product + sums[2]
            evidence[3] = kept * square + sums[3]
        before *= kept
        evidence[1] = mean + sums[1] / (before + mass)
        evidence[0] = before + mass
    low, high, limits = _ranges(cell, side)
    if extend_range_at(kernels.extend_range, rows)(rows, weight, low, high) > 0:
        for c in range(low.shape[0]):
            margin = RANGE_MARGIN * (high[c] - low[c])
            limits[0, c] = low[c] - margin
            limits[1, c] = high[c] + margin


@uncounted
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
        if training.regression and training.intercept:
            target = median_target_at(kernels.median_target, rows)(cell.y[a:b], weight, scratch.values)
            if not math.isnan(target):
                if model["rescale_at"] > 0:  # a trained model keeps its predictions
                    cell.w[side, width - 1] += model["target"] - target
                model["target"] = target
    if automatic:
        usual = usual_norm_at(kernels.usual_norm, rows)(rows, weight, factor, centre, STEP_QUANTILE, scratch.values)
        model["step_size"] = AUTO_STEP / (training.l2 + training.curvature * usual)
    model["rescale_at"] = 2 * model["seen"] if model["seen"] < GROWN_ROWS else NEVER


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
    if training.regression and training.scaled and hi > model["hi"]:
        _meet(cell, side, model["hi"], hi, training, scratch, kernels)
    model["seen"] += hi - model["hi"]
    model["hi"] = hi
    model["gradients"] += steps
    if model["seen"] >= model["rescale_at"]:
        _rescale(cell, side, training, scratch, kernels)


@uncounted
def end_update(cell: Any, side: Any, scratch: Any, kernels: Any) -> Any:
    """Work out the weights by which rows are scored; return whether training has not diverged."""
    width, model = cell.w.shape[1], cell.models[side]
    if model["centred"] == 0 and model["target"] == 0.0:
        for c in range(width):
            cell.raw[side, c] = cell.w[side, c]
    else:
        w, raw = cell.w[side].reshape(width, 1), cell.raw[side].reshape(width, 1)
        uncentre_at(kernels.uncentre, cell.X)(w, cell.centre[side], model["target"], raw)
    evidence = cell.judged[EVIDENCE + 4 * side : EVIDENCE + 4 * side + 4]
    if evidence[3] > 0.0:
        trust = evidence[2] / evidence[3]
        if trust < 1.0:  # predictions are drawn towards the mean target
            trust = 0.0 if trust < 0.0 else trust
            for c in range(width):
                cell.raw[side, c] *= trust
            cell.raw[side, width - 1] += (1.0 - trust) * evidence[1]
    beyond = 0
    for c in range(width):
        beyond += not (abs(cell.w[side, c]) < LARGEST and abs(cell.G[side, c]) < LARGEST)
    if beyond == 0:
        return True
    scratch.real[0] = largest_at(kernels.largest, cell.X)(cell.w[side], cell.G[side])
    scratch.real[1] = model["step_size"]
    return False


@uncounted
def _labelled(cell: Any, side: Any) -> Any:
    """Return the rows that the gradient steps of a model visit."""
    model, base = cell.models[side], cell.counts[0]["base"]
    a, b = model["lo"] - base, model["hi"] - base
    return cell.X[a:b], cell.y[a:b], cell.weight[a:b]


@uncounted
def _arrays(cell: Any, side: Any) -> Any:
    """Return weights, gradient sum and table of a model."""
    model, base = cell.models[side], cell.counts[0]["base"]
    return cell.w[side], cell.G[side], cell.tables[side][model["lo"] - base : model["hi"] - base]


@uncounted
def _frame(cell: Any, side: Any) -> Any:
    return cell.gain[side], cell.centre[side], cell.centred[side][: cell.models[side]["centred"]]


@uncounted
def run_update(cell: Any, side: Any, steps: Any, training: Any, scratch: Any, kernels: Any) -> None:
    """Take the gradient steps of one model."""
    model = cell.models[side]
    if training.kind != LOGISTIC:
        w, G, table = _arrays(cell, side)
        model["drawn"] = output_saga_at(kernels.output_saga, cell.X)(
            _labelled(cell, side),
            scratch.orders[side][:steps],
            (w.reshape(1, w.shape[0]), G.reshape(1, G.shape[0]), table.reshape(table.shape[0], 1)),
            model["drawn"],
            model["step_size"],
            training.l2,
            _frame(cell, side),
            (training.kind, training.epsilon, model["target"], training.reach),
            scratch.real[WORK:STACK].reshape(2, 1),
        )
        return
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


@uncounted
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


@uncounted
def forget_rows(cell: Any, side: Any, before_row: Any, training: Any, kernels: Any) -> None:
    """Drop the rows before ``before_row`` from the sample set, and their gradients from the gradient sum."""
    model, base = cell.models[side], cell.counts[0]["base"]
    if model["lo"] < 0 or before_row <= model["lo"]:
        return
    a, b = model["lo"] - base, min(before_row, model["admitted"]) - base
    rows, table, G, frame = cell.X[a:b], cell.tables[side][a:b], cell.G[side], _frame(cell, side)
    if training.kind == LOGISTIC:
        model["drawn"] -= discharge_at(kernels.discharge, rows)(rows, table, G, frame)
    else:
        entries, sums = table.reshape(table.shape[0], 1), G.reshape(G.shape[0], 1)
        model["drawn"] -= output_discharge_at(kernels.output_discharge, rows)(rows, entries, sums, frame)
    model["lo"] = before_row
    model["admitted"] = max(before_row, model["admitted"])
    model["hi"] = max(before_row, model["hi"])
