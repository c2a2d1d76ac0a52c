"""The compiled loops of a fleet: DriftSurf for every key, in arrays over keys.

The rule is compiled from the functions that decide for a single model (``strategies/_rule.py``), and the arithmetic is
the machine code of the kernels that learn a single model (``kernels/remote.py``). This file holds the order in which
things happen. numba caches compiled code for as long as this file stays the same: remove the ``__pycache__`` folders
(``make clean``) after changing the rule, or a file that this one imports.

In the arguments, ``blocks`` is the memory of all keys, ``k`` a slot and ``side`` one of its two models (``layout.py``).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import types

from driftsurf.kernels.compile import F8, I8, _in, _out, kernel, merged
from driftsurf.kernels.draws import _word
from driftsurf.kernels.prefetch import prefetch
from driftsurf.kernels.remote import borrowed
from driftsurf.keyed.compiled.addresses import (
    discharge_at,
    draw_at,
    fill_at,
    kernels_type,
    losses_at,
    margins_at,
    saga_at,
    saga_both_at,
    squared_length_at,
    weighted_sum_at,
)
from driftsurf.keyed.compiled.block import (
    key_of,
    labels_of,
    model_of,
    next_step,
    prefetch_groups,
    prefetch_part,
    rows_of,
    stepped_of,
    sums_of,
    table_of,
    weights_of,
)
from driftsurf.keyed.compiled.types import BATCH, BLOCKS, F4, GROUPS, LOG, RULE, SCRATCH, TRAINING
from driftsurf.learners.logistic import NARROW
from driftsurf.strategies.driftsurf import challenger_predicts, entering, switching

__all__ = ["BAD_LABEL", "BAD_ROW", "DIVERGED", "begin", "score", "serve"]

ENTERED, GREEDY, SWITCHED, KEPT = 1, 2, 3, 4
"""Codes of transitions."""
BAD_ROW, BAD_LABEL, DIVERGED = 1, 2, 3
"""Codes of the reasons for quarantine."""
ROWS_AHEAD = 24
"""Rows of the call between the prefetch of one and its use."""
LARGEST = 1e100
"""As in ``driftsurf.learners``: weights beyond it mean that training has diverged."""

# ---------------------------------------------------------------------------- one model


@merged
def _reset_model(blocks: Any, k: Any, side: Any, born: Any, uniform_start: Any, kernels: Any) -> None:
    """Put a new model on this side, with the next number."""
    model, key = model_of(blocks, k, side), key_of(blocks, k)
    w, G = weights_of(blocks, k, side), sums_of(blocks, k, side)
    model["number"] = key["made"]
    model["born"] = born
    model["admitted"] = -1
    model["words"] = 0
    model["gradients"] = 0
    model["best"] = math.inf
    key["made"] += 1
    for c in range(w.shape[0]):
        w[c] = 0.0
        G[c] = 0.0
    if uniform_start:
        seed = _word(_word(key["seed"], model["number"]), 0)
        model["words"] = fill_at(kernels.fill, blocks.float32)(w, seed, 0)


@merged
def _risk(
    blocks: Any, k: Any, side: Any, first_row: Any, batches: Any, training: Any, scratch: Any, kernels: Any
) -> Any:
    """Return the mean loss over ``batches`` batches from row ``first_row`` on, plus the penalty."""
    rows, w = rows_of(blocks, k), weights_of(blocks, k, side)
    batch_size = training.batch_size
    y, margins, ones = scratch.labels, scratch.margins[:batch_size], scratch.ones[:batch_size]
    losses = scratch.losses[:batch_size]  # not in place of the margins, so that the loop over them is vectorised
    total = 0.0
    mass = 0.0
    # Batch by batch, as a separate model sums its losses, so that the rounding is the same.
    for i in range(batches):
        a = (first_row + i * batch_size) % rows.shape[0]
        margins_at(kernels.margins, blocks.float32)(rows[a : a + batch_size], w, margins)
        losses_at(kernels.losses, blocks.float32)(margins, y[a : a + batch_size], losses)
        part, share = weighted_sum_at(kernels.weighted_sum, blocks.float32)(losses, ones)
        total += part
        mass += share
    return total / mass + 0.5 * training.l2 * squared_length_at(kernels.squared_length, blocks.float32)(
        w, scratch.factor
    )


@merged
def _n_steps(new: Any, training: Any) -> Any:
    """Return the gradient steps for the batch that starts with row ``new``.

    Counting from row 0 carries fractions of a step over to the next batch.
    """
    per_row = training.steps_per_row
    return np.int64(math.floor(per_row * (new + training.batch_size))) - np.int64(math.floor(per_row * new))


@merged
def _draw_steps(blocks: Any, k: Any, side: Any, training: Any, scratch: Any, kernels: Any) -> Any:
    """Draw the places of the rows of all gradient steps; return how many rows the sample set had before."""
    batch_size = training.batch_size
    model, key, table = model_of(blocks, k, side), key_of(blocks, k), table_of(blocks, k, side)
    n_rows = table.shape[0]
    new = key["step"] * batch_size
    lo = max(model["born"] * batch_size, new - training.max_rows)
    admitted = lo if model["admitted"] < 0 else model["admitted"]
    order = scratch.orders[side][: _n_steps(new, training)]
    seed = _word(_word(key["seed"], model["number"]), 0)
    drawn = admitted - lo  # a row is drawn when it is admitted to the sample set
    count, words = draw_at(kernels.draw, blocks.float32)(
        order, drawn, new + batch_size - admitted, seed, model["words"]
    )
    _wrap(order, lo % n_rows, n_rows)
    place = admitted % n_rows
    for _ in range(count):
        table[place] = math.nan  # marks a row without a gradient
        place = place + 1 if place + 1 < n_rows else 0
    model["admitted"] = admitted + count
    model["words"] = words
    model["gradients"] += order.shape[0]
    return drawn


@merged
def _wrap(order: Any, start: Any, n_rows: Any) -> None:
    """Turn places counted from ``start`` into places of the ring."""
    for j in range(order.shape[0]):
        place = start + order[j]
        order[j] = place - n_rows if place >= n_rows else place


@merged
def _is_sound(w: Any, G: Any) -> Any:
    """Return whether weights and gradient sum are finite and of a reasonable size."""
    sound = True
    for c in range(w.shape[0]):
        sound = sound and abs(w[c]) < LARGEST and abs(G[c]) < LARGEST
    return sound


@merged
def _train(blocks: Any, k: Any, training: Any, scratch: Any, kernels: Any) -> Any:
    """Train the models of a key, one or two, on the new batch; return whether they are still sound."""
    eta, mu, frame = training.step_size, training.l2, scratch.frame
    key, rows = key_of(blocks, k), rows_of(blocks, k)
    labelled = rows, scratch.labels, scratch.ones
    steps = _n_steps(key["step"] * training.batch_size, training)
    side = key["predictive"]
    w, G = weights_of(blocks, k, side), sums_of(blocks, k, side)
    drawn = _draw_steps(blocks, k, side, training, scratch, kernels)
    order, model = scratch.orders[side][:steps], (w, G, table_of(blocks, k, side))
    if key["made"] == 1:
        saga_at(kernels.saga, blocks.float32)(labelled, order, model, drawn, eta, mu, frame, None)
        return _is_sound(w, G)
    side_2 = 1 - side
    w_2, G_2 = weights_of(blocks, k, side_2), sums_of(blocks, k, side_2)
    drawn_2 = _draw_steps(blocks, k, side_2, training, scratch, kernels)
    order_2, model_2 = scratch.orders[side_2][:steps], (w_2, G_2, table_of(blocks, k, side_2))
    # A separate model makes the same distinction: on narrow rows two models train in one loop.
    if rows.shape[1] > NARROW:
        saga_at(kernels.saga, blocks.float32)(labelled, order, model, drawn, eta, mu, frame, None)
        saga_at(kernels.saga, blocks.float32)(labelled, order_2, model_2, drawn_2, eta, mu, frame, None)
    else:
        saga_both_at(kernels.saga_both, blocks.float32)(
            labelled, order, model, drawn, eta, frame, labelled, order_2, model_2, drawn_2, eta, frame, mu
        )
    return _is_sound(w, G) and _is_sound(w_2, G_2)


@merged
def _release(blocks: Any, k: Any, side: Any, before_row: Any, training: Any, scratch: Any, kernels: Any) -> None:
    """Drop the rows before ``before_row`` from the sample set, and their gradients from the gradient sum."""
    model, rows, table = model_of(blocks, k, side), rows_of(blocks, k), table_of(blocks, k, side)
    lo = max(model["born"] * training.batch_size, before_row - training.batch_size)
    if model["admitted"] < 0 or before_row <= lo:
        return
    hi = min(before_row, model["admitted"])
    while lo < hi:  # once, or twice if the end of the ring lies between
        a = lo % rows.shape[0]
        b = min(a + hi - lo, rows.shape[0])
        discharge_at(kernels.discharge, blocks.float32)(rows[a:b], table[a:b], sums_of(blocks, k, side), scratch.frame)
        lo += b - a
    model["admitted"] = max(before_row, model["admitted"])


# ---------------------------------------------------------------------------- one time step


@merged
def _log(log: Any, k: Any, key: Any, kind: Any, condition: Any, risks: Any, over: Any, ids: Any) -> None:
    """Add a transition to the log, and to the counts of its key."""
    entry = log.entries[log.length[0]]
    entry["slot"] = k
    entry["kind"] = kind
    entry["step"] = key["step"]
    entry["condition"] = condition
    entry["left"], entry["right"], entry["margin"] = risks
    entry["over"] = over
    entry["old"], entry["new"] = ids
    log.length[0] += 1
    key["transitions"] += 1
    key["last_kind"] = kind
    key["last_step"] = key["step"]


@merged
def _before_learning(
    blocks: Any, k: Any, row: Any, rule: Any, training: Any, scratch: Any, log: Any, kernels: Any
) -> Any:
    """Measure the risks on the new batch, and enter a reactive state on a sign of drift.

    ``row`` is the number of the first row of the batch. Returns whether the batch is learned in a reactive state.
    """
    key = key_of(blocks, k)
    old = key["predictive"]
    new = 1 - old
    risk = _risk(blocks, k, old, row, 1, training, scratch, kernels)
    best = min(risk, model_of(blocks, k, old)["best"])
    model_of(blocks, k, old)["best"] = best
    other = math.nan
    if key["made"] > 1:
        other = _risk(blocks, k, new, row, 1, training, scratch, kernels)
        model_of(blocks, k, new)["best"] = min(other, model_of(blocks, k, new)["best"])
    if key["reactive_step"] > 0:
        return True
    condition = entering(risk, best, other, rule.threshold, rule.stable_threshold)
    if condition == 0:
        return False
    _reset_model(blocks, k, new, key["step"], training.uniform_start, kernels)
    ids = model_of(blocks, k, old)["number"], model_of(blocks, k, new)["number"]
    if condition == 1:
        _log(log, k, key, ENTERED, 1, (risk, best, rule.threshold), 1, ids)
    else:
        _log(log, k, key, ENTERED, 2, (risk, other, rule.stable_threshold), 1, ids)
    return True


@merged
def _after_learning(
    blocks: Any, k: Any, row: Any, rule: Any, training: Any, scratch: Any, log: Any, kernels: Any
) -> None:
    """In a reactive state, choose the model that predicts the next batch; at its end, choose the model that stays."""
    key = key_of(blocks, k)
    old = key["predictive"]
    new = 1 - old
    ids = model_of(blocks, k, old)["number"], model_of(blocks, k, new)["number"]
    key["reactive_step"] += 1
    if key["reactive_step"] == rule.reactive_length:
        start = model_of(blocks, k, new)["born"] * training.batch_size
        old_risk = _risk(blocks, k, old, start, rule.reactive_length, training, scratch, kernels)
        new_risk = _risk(blocks, k, new, start, rule.reactive_length, training, scratch, kernels)
        switched = switching(old_risk, new_risk)
        _log(log, k, key, SWITCHED if switched else KEPT, 0, (new_risk, old_risk, 0.0), rule.reactive_length, ids)
        key["reactive_step"] = 0
        key["challenged"] = 0
        if switched:
            key["predictive"] = new
        _reset_model(blocks, k, 1 - key["predictive"], key["step"] + 1, training.uniform_start, kernels)
    else:
        old_risk = _risk(blocks, k, old, row, 1, training, scratch, kernels)
        new_risk = _risk(blocks, k, new, row, 1, training, scratch, kernels)
        challenged = np.int64(challenger_predicts(old_risk, new_risk, rule.greedy))
        if challenged != key["challenged"]:
            turned = (ids[0], ids[1]) if challenged else (ids[1], ids[0])
            _log(log, k, key, GREEDY, 0, (new_risk, old_risk, 0.0), 1, turned)
        key["challenged"] = challenged


@merged
def _copy_into(target: Any, values: Any) -> None:
    for p in range(target.shape[0]):
        target[p] = values[p]


@merged
def _step(blocks: Any, k: Any, after: Any, rule: Any, training: Any, scratch: Any, log: Any, kernels: Any) -> Any:
    """Take one time step of the key in slot k, or undo all of it; return whether it was taken.

    ``after`` is the slot with the next time step. Its block is prefetched in four parts along the way.
    """
    key, block = key_of(blocks, k), stepped_of(blocks, k)
    batch_size, max_rows = training.batch_size, training.max_rows
    new = key["step"] * batch_size
    _copy_into(scratch.labels, labels_of(blocks, k))
    _copy_into(scratch.saved, block)
    logged = log.length[0]
    prefetch_part(blocks, after, 0, 4)
    reactive = _before_learning(blocks, k, new, rule, training, scratch, log, kernels)
    prefetch_part(blocks, after, 1, 4)
    if not _train(blocks, k, training, scratch, kernels):
        _copy_into(block, scratch.saved)
        log.length[0] = logged
        return False
    prefetch_part(blocks, after, 2, 4)
    if reactive:
        _after_learning(blocks, k, new, rule, training, scratch, log, kernels)
    prefetch_part(blocks, after, 3, 4)
    key["step"] += 1
    end = new + batch_size
    for side in range(2):
        if side == key["predictive"] or key["made"] > 1:
            _release(blocks, k, side, end - max_rows, training, scratch, kernels)
    old = key["predictive"]
    first = max(model_of(blocks, k, old)["born"] * batch_size, end - max_rows)
    if key["reactive_step"] > 0:
        first = min(first, model_of(blocks, k, 1 - old)["born"] * batch_size)
    key["first"] = first
    key["pending"] = 0
    return True


# ---------------------------------------------------------------------------- many keys


@merged
def _count_good(bad: Any, chosen: Any) -> Any:
    """Return how many of these rows come before the first bad one."""
    n = 0
    while n < chosen.shape[0] and bad[chosen[n]] == 0:
        n += 1
    return n


@merged
def _copy_rows(X: Any, codes: Any, order: Any, start: Any, rows: Any, labels: Any) -> None:
    """Copy the rows ``order[start:]`` into a ring, as many as ``rows`` has places."""
    chosen = order[start:]
    d = rows.shape[1]
    for j in range(rows.shape[0]):
        if j + ROWS_AHEAD < chosen.shape[0]:
            later = chosen[j + ROWS_AHEAD]
            prefetch(X, later * d)
            prefetch(X, later * d + d - 1)
            prefetch(codes, later)
        r = np.uintp(chosen[j])  # an unsigned index needs no test for counting from the end
        for c in range(rows.shape[1]):
            rows[j, c] = X[r, c]
        labels[j] = codes[r]


@merged
def _predictor(blocks: Any, k: Any) -> Any:
    """Return the weights that predict the next row of a key."""
    key = key_of(blocks, k)
    return weights_of(blocks, k, 1 - key["predictive"] if key["challenged"] else key["predictive"])


@merged
def _refuse_step(blocks: Any, k: Any, batch_size: Any, scratch: Any, kernels: Any) -> None:
    """Quarantine a key whose time step failed; the rows of the step count as refused, no longer as predicted."""
    key, rows, labels = key_of(blocks, k), rows_of(blocks, k), labels_of(blocks, k)
    margins = scratch.margins
    a = key["step"] * batch_size % rows.shape[0]
    margins_at(kernels.margins, blocks.float32)(rows[a : a + batch_size], _predictor(blocks, k), margins[:batch_size])
    for j in range(batch_size):
        key["errors"] -= (margins[j] > 0.0) != (labels[a + j] > 0)
    key["pending"] = 0
    key["refused"] += batch_size
    key["quarantine"] = DIVERGED


@kernel(lambda f: (BLOCKS, BATCH, GROUPS, RULE, TRAINING, SCRATCH, LOG, kernels_type()), exact=True)
def serve(blocks: Any, batch: Any, groups: Any, rule: Any, training: Any, scratch: Any, log: Any, kernels: Any) -> None:
    """Predict each row with the model of its key as it is when the row arrives, then learn it.

    A key with a bad row, or whose training diverges, is in quarantine from there on: its rows are predicted, counted,
    and not learned. If training diverges, this holds for all rows of that time step, also those of earlier calls.

    The last thing that it does is to mark the log as complete; with a complete log it does nothing.
    """
    if log.length[1] > 0:
        return
    blocks, batch, groups, scratch, log = borrowed((blocks, batch, groups, scratch, log), kernels)
    X, codes, bad, predicted = batch.rows, batch.codes, batch.bad, batch.predicted
    slots, starts, order = groups.slots, groups.starts, groups.order
    batch_size, margins = training.batch_size, scratch.margins
    for g in range(slots.shape[0]):
        prefetch_groups(blocks, groups, g, batch_size)
        k = slots[g]
        key, rows, labels = key_of(blocks, k), rows_of(blocks, k), labels_of(blocks, k)
        i = starts[g]
        stop = starts[g + 1]
        while i < stop:
            if key["quarantine"] == 0 and bad.shape[0] > 0 and bad[order[i]] > 0:
                key["quarantine"] = bad[order[i]]
            if key["quarantine"] > 0:
                r = order[i]
                margins_at(kernels.margins, blocks.float32)(X[r : r + 1], _predictor(blocks, k), margins[:1])
                predicted[r] = margins[0] > 0.0
                key["refused"] += 1
                i += 1
                continue
            pending = key["pending"]
            at = (key["step"] * batch_size + pending) % rows.shape[0]
            n = min(stop - i, batch_size - pending)
            if bad.shape[0] > 0:
                n = _count_good(bad, order[i : i + n])
            _copy_rows(X, codes, order, i, rows[at : at + n], labels[at : at + n])
            margins_at(kernels.margins, blocks.float32)(rows[at : at + n], _predictor(blocks, k), margins[:n])
            wrong = 0
            for j in range(n):
                r = order[i + j]
                predicted[r] = margins[j] > 0.0
                wrong += predicted[r] != codes[r]
            key["pending"] += n
            key["errors"] += wrong
            i += n
            if key["pending"] == batch_size and not _step(
                blocks, k, next_step(blocks, groups, g, batch_size), rule, training, scratch, log, kernels
            ):
                _refuse_step(blocks, k, batch_size, scratch, kernels)
                groups.diverged[g] = True
    log.length[1] = 1


@kernel(lambda f: (BLOCKS, _in(F4, 2), _in(types.int32), _out(F8), kernels_type()), exact=True)
def score(blocks: Any, X: Any, slots: Any, out: Any, kernels: Any) -> None:
    """Set out[i] to the margin of row i by the model that predicts in slots[i]."""
    for i in range(X.shape[0]):
        margins_at(kernels.margins, blocks.float32)(X[i : i + 1], _predictor(blocks, slots[i]), out[i : i + 1])


@kernel(lambda f: (BLOCKS, I8, I8, types.boolean, kernels_type()), exact=True)
def begin(blocks: Any, start: Any, stop: Any, uniform_start: Any, kernels: Any) -> None:
    """Make the first models of the slots from ``start`` to ``stop``, whose blocks hold zeros and seeds."""
    for k in range(start, stop):
        _reset_model(blocks, k, 0, 0, uniform_start, kernels)
