"""Parts of a step that are compiled on their own and called by address: what is rare, or only for some losses.

A program compiles only the parts that its models need, and all loops share them. The arithmetic is the machine code of
the kernels that train any linear model, called by address too. numba does not notice changes to other files: remove the
``__pycache__`` folders (``make clean``) after changing a file that this one imports.

In the arguments, ``side`` is the place of the model in its cell (``layout.py``).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from numba import types

from driftsurf.core.column_sizes import FRAME_RULES, MOST_PASSES
from driftsurf.kernels.compile import F8, I8, Sparse, _out, _rows, kernel, renamed, uncounted
from driftsurf.kernels.draws import _word
from driftsurf.kernels.losses import HUBER, SOFTMAX
from driftsurf.kernels.remote import Remote
from driftsurf.learners._learner import AUTO_STEP, GROWN_ROWS, NEVER, STEP_QUANTILE
from driftsurf.learners._linear import EVIDENCE_ROWS, RANGE_MARGIN, SMALLEST_SIZE
from driftsurf.strategies._rule import is_missed, remembered_rows
from driftsurf.strategies.compiled.addresses import (
    evidence_at,
    extend_range_at,
    fill_at,
    frame_at,
    kernels_type,
    limited_outputs_at,
    log_softmax_at,
    median_target_at,
    output_discharge_at,
    output_losses_at,
    output_saga_at,
    outputs_at,
    pairwise_sum_at,
    reframe_at,
    squared_length_at,
    uncentre_at,
    usual_norm_at,
    weighted_sum_at,
)
from driftsurf.strategies.compiled.layout import (
    EVIDENCE,
    RANGES,
    RULE,
    SCRATCH,
    STACK,
    TRAINING,
    cell_type,
)
from driftsurf.strategies.compiled.rows import by_output, is_sparse, labelled_between, parts_between

# ---------------------------------------------------------------------------- views


@uncounted
def ranges(cell: Any, side: Any) -> Any:
    """Return the lowest and the highest value of each column that a regression has learned, and its limits."""
    d = cell.factor.shape[1] - 1
    a = RANGES + 4 * (cell.models.shape[0] - 2) + 4 * side * d
    return cell.judged[a : a + d], cell.judged[a + d : a + 2 * d], cell.judged[a + 2 * d : a + 4 * d].reshape(2, d)


@uncounted
def labelled(cell: Any, side: Any) -> Any:
    """Return the rows that the gradient steps of a model visit."""
    model, base = cell.models[side], cell.counts[0]["base"]
    return labelled_between(cell, model["lo"] - base, model["hi"] - base)


@uncounted
def frame_of(cell: Any, side: Any) -> Any:
    """Return the coordinates in which a model learns, as kernels take them."""
    return cell.gain[side], cell.centre[side], cell.centred[side][: cell.models[side]["centred"]]


@uncounted
def _turn(matrix: Any, lines: Any, out: Any) -> None:
    """Write the transpose of a matrix with so many lines; both are stored line by line."""
    columns = matrix.shape[0] // lines
    for i in range(lines):
        for j in range(columns):
            out[j * lines + i] = matrix[i * columns + j]


# ---------------------------------------------------------------------------- all models


def _make_model(cell: Any, side: Any, step: Any, first_row: Any, training: Any, kernels: Any) -> None:
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
        low, high, _ = ranges(cell, side)
        for c in range(low.shape[0]):
            low[c] = math.inf
            high[c] = -math.inf
    w, raw, last = cell.w[side], cell.raw[side], cell.factor.shape[1] - 1
    for c in range(w.shape[0]):
        w[c] = 0.0
        cell.G[side, c] = 0.0
    for c in range(last + 1):
        cell.factor[side, c] = 1.0
        cell.gain[side, c] = 1.0
        cell.centre[side, c] = 0.0
    if not training.intercept:
        cell.factor[side, last] = 0.0
        cell.gain[side, last] = 0.0
    if training.uniform_start:
        filled = w if training.intercept else w[: last * training.outputs]
        model["words"] = fill_at(kernels.fill, cell.X)(filled, model["seed"], 0)
    _turn(w, w.shape[0] if is_sparse(cell.X) else last + 1, raw)


def _rescale(cell: Any, side: Any, training: Any, scratch: Any, kernels: Any) -> None:
    """Estimate the scale and the step size of a model again."""
    automatic = math.isnan(training.step_size)
    if not (training.scaled or automatic):
        return
    model, base, K = cell.models[side], cell.counts[0]["base"], training.outputs
    rows, y, weight = parts_between(cell, model["lo"] - base, model["hi"] - base)
    factor, centre = cell.factor[side], cell.centre[side]
    width = factor.shape[0]
    if training.scaled:
        new_centre, sizes = scratch.columns[6][: width - 1], scratch.columns[7][: width - 1]
        work = scratch.columns[:6]
        frame_at(kernels.frame, rows)(
            rows, weight, training.intercept, FRAME_RULES, MOST_PASSES, new_centre, sizes, work, scratch.values
        )
        w, G = cell.w[side].reshape(width, K), cell.G[side].reshape(width, K)
        reframe_at(kernels.reframe, rows)(w, G, factor, centre, new_centre, sizes, SMALLEST_SIZE)
        count = 0
        for c in range(width):
            cell.gain[side, c] = factor[c] * factor[c]
            if centre[c] != 0.0:
                cell.centred[side, count] = c
                count += 1
        model["centred"] = count
        if training.regression and training.intercept:
            target = median_target_at(kernels.median_target, rows)(y, weight, scratch.values)
            if not math.isnan(target):
                if model["rescale_at"] > 0:  # a trained model keeps its predictions
                    cell.w[side, width - 1] += model["target"] - target
                model["target"] = target
    if automatic:
        usual = usual_norm_at(kernels.usual_norm, rows)(rows, weight, factor, centre, STEP_QUANTILE, scratch.values)
        model["step_size"] = AUTO_STEP / (training.l2 + training.curvature * usual)
    model["rescale_at"] = 2 * model["seen"] if model["seen"] < GROWN_ROWS else NEVER


def _missed_class(cell: Any, hi: Any, batches: Any, rule: Any, training: Any, scratch: Any, kernels: Any) -> Any:
    """Return the code of the largest class that w' lacks, as in ``missed_class`` of the generic step; -1 for none."""
    counts, classes = cell.counts[0], max(training.outputs, 2)
    old, base = counts["predictive"], counts["base"]
    first = cell.models[1 - old]["first_row"]
    a = hi - remembered_rows(hi - first, batches, rule.reactive_length)
    a = max(a, cell.models[old]["first_row"], counts["first"])
    found, seen, total = scratch.columns[0][:classes], scratch.columns[1][:classes], 0  # seen: those of w' alone
    for code in range(classes):
        found[code] = 0.0
        seen[code] = 0.0
    for row in range(a, hi):
        if cell.weight[row - base] > 0.0:
            code = int(cell.y[row - base])
            total += 1
            found[code] += 1.0
            seen[code] += 1.0 if row >= first else 0.0
    missed = -1
    for code in range(classes):
        if is_missed(found[code], total, seen[code], rule.class_share) and (missed < 0 or found[code] > found[missed]):
            missed = code
    return missed


# ---------------------------------------------------------------------------- models with outputs: not the logistic one


@uncounted
def _score_with(cell: Any, side: Any, rows: Any, weights: Any, out: Any, training: Any, kernels: Any) -> None:
    """Write the scores of rows by these weights, within the limits of a model."""
    W, columns = by_output(weights, out, training.outputs, rows)
    if training.regression:
        low, high, limits = ranges(cell, side)
        if low[0] <= high[0]:
            limited_outputs_at(kernels.limited_outputs, rows)(rows, W, columns, limits)
            return
    outputs_at(kernels.outputs, rows)(rows, W, columns, None)
    if training.kind == SOFTMAX:
        log_softmax_at(kernels.log_softmax, rows)(columns)


def _score_outputs(cell: Any, side: Any, rows: Any, out: Any, training: Any, kernels: Any) -> None:
    """Write the scores of rows by a model."""
    _score_with(cell, side, rows, cell.raw[side], out, training, kernels)


def _lost_by_outputs(
    cell: Any, side: Any, lo: Any, hi: Any, known: Any, training: Any, scratch: Any, kernels: Any
) -> Any:
    """Return the summed loss of a model over the rows from ``lo`` to ``hi``, and their weight.

    With ``known``, ``scratch.scores`` has their scores already.
    """
    base, K = cell.counts[0]["base"], training.outputs
    n = hi - lo
    rows, y, weight = parts_between(cell, lo - base, hi - base)
    losses = scratch.losses[:n]
    scores = scratch.scores[: n * K] if known else scratch.margins[: n * K]
    if not known:
        _score_with(cell, side, rows, cell.raw[side], scores, training, kernels)
    if training.kind == SOFTMAX:
        for i in range(n):
            losses[i] = -scores[i * K + int(y[i])]
    else:
        output_losses_at(kernels.output_losses, rows)(scores, y, training.kind, training.epsilon, losses)
    return weighted_sum_at(kernels.weighted_sum, rows)(losses, weight)


def _penalty_of_outputs(cell: Any, side: Any, training: Any, scratch: Any, kernels: Any) -> Any:
    """Return the penalty of a model with several outputs."""
    w, repeated, K = cell.w[side], scratch.columns[0], training.outputs
    for c in range(cell.factor.shape[1]):
        for k in range(K):
            repeated[c * K + k] = cell.factor[side, c]
    return 0.5 * training.l2 * squared_length_at(kernels.squared_length, cell.X)(w, repeated)


def _train_outputs(cell: Any, side: Any, steps: Any, training: Any, scratch: Any, kernels: Any) -> None:
    """Take the gradient steps of one model."""
    model, base, K = cell.models[side], cell.counts[0]["base"], training.outputs
    w, G, width = cell.w[side], cell.G[side], cell.factor.shape[1]
    # The kernel for dense rows runs along the columns of one output, which must be contiguous.
    turned = K > 1 and not is_sparse(cell.X)
    own, sums = (scratch.columns[0], scratch.columns[1]) if turned else (w, G)
    if turned:
        _turn(w, width, own)
        _turn(G, width, sums)
    table = cell.tables[side][(model["lo"] - base) * K : (model["hi"] - base) * K]
    W, entries = by_output(own, table, K, cell.X)
    model["drawn"] = output_saga_at(kernels.output_saga, cell.X)(
        labelled(cell, side),
        scratch.orders[side][:steps],
        (W, by_output(sums, table, K, cell.X)[0], entries),
        model["drawn"],
        model["step_size"],
        training.l2,
        frame_of(cell, side),
        (training.kind, training.epsilon, model["target"], training.reach),
        scratch.columns[2][: 2 * K].reshape(2, K),
    )
    if turned:
        _turn(own, K, w)
        _turn(sums, K, G)


def _finish_outputs(cell: Any, side: Any, training: Any, scratch: Any, kernels: Any) -> None:
    """Work out the weights by which rows are scored."""
    w, raw, model, K = cell.w[side], cell.raw[side], cell.models[side], training.outputs
    width = cell.factor.shape[1]
    full = scratch.columns[0]
    if model["centred"] == 0 and model["target"] == 0.0:
        full = w
    else:
        uncentre_at(kernels.uncentre, cell.X)(
            w.reshape(width, K), cell.centre[side], model["target"], full.reshape(width, K)
        )
    _turn(full, w.shape[0] if is_sparse(cell.X) else width, raw)
    evidence = cell.judged[EVIDENCE + 4 * side : EVIDENCE + 4 * side + 4]
    if evidence[3] > 0.0:
        trust = evidence[2] / evidence[3]
        if trust < 1.0:  # predictions are drawn towards the mean target
            trust = 0.0 if trust < 0.0 else trust
            for c in range(width):
                raw[c] *= trust
            raw[width - 1] += (1.0 - trust) * evidence[1]


def _forget_outputs(cell: Any, side: Any, a: Any, b: Any, training: Any, kernels: Any) -> Any:
    """Subtract the gradients of the rows at the places a to b; return how many of them were drawn."""
    rows, _, _ = parts_between(cell, a, b)
    K = training.outputs
    entries = cell.tables[side][a * K : b * K].reshape(b - a, K)
    sums = cell.G[side].reshape(cell.factor.shape[1], K)
    return output_discharge_at(kernels.output_discharge, rows)(rows, entries, sums, frame_of(cell, side))


# ---------------------------------------------------------------------------- regression


def _trivial_risk(cell: Any, lo: Any, hi: Any, centre: Any, training: Any, scratch: Any, kernels: Any) -> Any:
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


def _meet(cell: Any, side: Any, lo: Any, hi: Any, training: Any, scratch: Any, kernels: Any) -> None:
    """Add to the evidence and to the ranges of a regression the rows that it has not learned yet."""
    base = cell.counts[0]["base"]
    n = hi - lo
    rows, y, weight = parts_between(cell, lo - base, hi - base)
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
        _score_with(cell, side, rows, full, predicted, training, kernels)
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
    low, high, limits = ranges(cell, side)
    if extend_range_at(kernels.extend_range, rows)(rows, weight, low, high) > 0:
        for c in range(low.shape[0]):
            margin = RANGE_MARGIN * (high[c] - low[c])
            limits[0, c] = low[c] - margin
            limits[1, c] = high[c] + margin


# ---------------------------------------------------------------------------- how they are called


def _part(function: Callable[..., Any], arguments: Callable[[Any], tuple[Any, ...]], result: Any) -> Remote:
    """Return a part as it is called by address, for dense and for sparse rows; compiled at its first use."""
    name = function.__name__.removeprefix("_")

    def made(name: str, types_of: Callable[[Any], tuple[Any, ...]]) -> Any:
        return kernel(types_of, exact=True, part=True)(renamed(function, name))

    def signature(f: Any) -> tuple[Any, ...]:
        return cell_type(f), I8, *arguments(f), kernels_type()

    sparse = made(f"{name}_sparse", lambda f: signature(Sparse(f)))
    return Remote(made(name, signature), lambda f: result(*signature(f)), sparse=sparse)


NONE: Any = types.none
PARTS: dict[str, Remote] = {
    "make_model": _part(_make_model, lambda f: (I8, I8, TRAINING), NONE),
    "rescale": _part(_rescale, lambda f: (TRAINING, SCRATCH), NONE),
    "missed_class": _part(_missed_class, lambda f: (I8, RULE, TRAINING, SCRATCH), I8),
    "meet": _part(_meet, lambda f: (I8, I8, TRAINING, SCRATCH), NONE),
    "trivial_risk": _part(_trivial_risk, lambda f: (I8, F8, TRAINING, SCRATCH), types.UniTuple(F8, 3)),
    "score_outputs": _part(_score_outputs, lambda f: (_rows(f), _out(F8), TRAINING), NONE),
    "lost_by_outputs": _part(
        _lost_by_outputs, lambda f: (I8, I8, types.boolean, TRAINING, SCRATCH), types.UniTuple(F8, 2)
    ),
    "penalty_of_outputs": _part(_penalty_of_outputs, lambda f: (TRAINING, SCRATCH), F8),
    "train_outputs": _part(_train_outputs, lambda f: (I8, TRAINING, SCRATCH), NONE),
    "finish_outputs": _part(_finish_outputs, lambda f: (TRAINING, SCRATCH), NONE),
    "forget_outputs": _part(_forget_outputs, lambda f: (I8, I8, TRAINING), I8),
}
make_model_at: Any = PARTS["make_model"].at
rescale_at: Any = PARTS["rescale"].at
missed_class_at: Any = PARTS["missed_class"].at
meet_at: Any = PARTS["meet"].at
trivial_risk_at: Any = PARTS["trivial_risk"].at
score_outputs_at: Any = PARTS["score_outputs"].at
lost_by_outputs_at: Any = PARTS["lost_by_outputs"].at
penalty_of_outputs_at: Any = PARTS["penalty_of_outputs"].at
train_outputs_at: Any = PARTS["train_outputs"].at
finish_outputs_at: Any = PARTS["finish_outputs"].at
forget_outputs_at: Any = PARTS["forget_outputs"].at
