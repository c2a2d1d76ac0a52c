"""The compiled loops of a fleet: DriftSurf for each key, in arrays over keys.

What decides is compiled from the functions that decide for one model (``driftsurf.strategies.driftsurf``), and what
computes is the machine code of the kernels that learn one model (``_native``); what stands here is the order of
things. numba keeps compiled code for as long as this file stays the same: who changes the rule removes the
``__pycache__`` folders (``make clean``).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import types

from driftsurf._kernels import F8, I8, _in, _out, _word, kernel, merged
from driftsurf._kernels._prefetch import prefetch
from driftsurf.fleet._block import (
    ask_for_part,
    foresee,
    kept_of,
    key_of,
    labels_of,
    model_of,
    next_step,
    rows_of,
    sums_of,
    table_of,
    weights_of,
)
from driftsurf.fleet._native import borrowed
from driftsurf.fleet._parts import (
    both_at,
    discharge_at,
    draw_at,
    fill_at,
    length_at,
    losses_at,
    margins_at,
    saga_at,
    sum_at,
)
from driftsurf.fleet._types import BATCH, F4, GROUPS, HOW, LOG, PARTS, RULE, SCRATCH, STORE
from driftsurf.learners.logistic import NARROW
from driftsurf.strategies.driftsurf import challenger_predicts, entering, switching

__all__ = ["BAD_LABEL", "BAD_ROW", "DIVERGED", "begin", "score", "serve"]

ENTERED, GREEDY, SWITCHED, KEPT = 1, 2, 3, 4
BAD_ROW, BAD_LABEL, DIVERGED = 1, 2, 3
ROWS_AHEAD = 24
"""Rows of the call between asking for one and using it."""
LARGEST = 1e100
"""As in ``driftsurf.learners``: beyond it, training has diverged."""

# ---------------------------------------------------------------------------- one model


@merged
def _fresh(store: Any, k: Any, side: Any, born: Any, uniform: Any, parts: Any) -> None:
    """A fresh model on this side, the next in number."""
    model, key = model_of(store, k, side), key_of(store, k)
    w, G = weights_of(store, k, side), sums_of(store, k, side)
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
    if uniform:
        seed = _word(_word(key["seed"], model["number"]), 0)
        model["words"] = fill_at(parts[7])(w, seed, 0)


@merged
def _risk(store: Any, k: Any, side: Any, lo: Any, batches: Any, how: Any, scratch: Any, parts: Any) -> Any:
    """Mean loss over ``batches`` batches from row ``lo`` on, plus the penalty."""
    rows, w = rows_of(store, k), weights_of(store, k, side)
    batch_size, mu = how[0], how[4]
    y, margins, ones, factor = scratch[0], scratch[1][:batch_size], scratch[2][:batch_size], scratch[3]
    losses = scratch[7][:batch_size]  # not the array of the margins: the loop over them is vectorised
    total = 0.0
    mass = 0.0
    for i in range(batches):
        a = (lo + i * batch_size) % rows.shape[0]
        margins_at(parts[0])(rows[a : a + batch_size], w, margins)
        losses_at(parts[1])(margins, y[a : a + batch_size], losses)
        part, share = sum_at(parts[2])(losses, ones)
        total += part
        mass += share
    return total / mass + 0.5 * mu * length_at(parts[3])(w, factor)


@merged
def _steps(new: Any, how: Any) -> Any:
    """rho for the batch that begins with row ``new``; fractions of a step are carried over by counting from row 0."""
    batch_size, per_row = how[0], how[2]
    return np.int64(math.floor(per_row * (new + batch_size))) - np.int64(math.floor(per_row * new))


@merged
def _planned(store: Any, k: Any, side: Any, how: Any, scratch: Any, parts: Any) -> Any:
    """Draw the places of the rows of the steps at the new batch; returns how many rows had been drawn before."""
    batch_size, max_rows = how[0], how[1]
    model, key, table = model_of(store, k, side), key_of(store, k), table_of(store, k, side)
    n_rows = table.shape[0]
    new = key["step"] * batch_size
    lo = max(model["born"] * batch_size, new - max_rows)
    admitted = lo if model["admitted"] < 0 else model["admitted"]
    order = scratch[4][side][: _steps(new, how)]
    seed = _word(_word(key["seed"], model["number"]), 0)
    drawn = admitted - lo  # a row is drawn when it is admitted
    count, words = draw_at(parts[4])(order, drawn, new + batch_size - admitted, seed, model["words"])
    _wrapped(order, lo % n_rows, n_rows)
    place = admitted % n_rows
    for _ in range(count):
        table[place] = math.nan
        place = place + 1 if place + 1 < n_rows else 0
    model["admitted"] = admitted + count
    model["words"] = words
    model["gradients"] += order.shape[0]
    return drawn


@merged
def _wrapped(order: Any, start: Any, n_rows: Any) -> None:
    """Places counted from the place ``start`` become places."""
    for j in range(order.shape[0]):
        place = start + order[j]
        order[j] = place - n_rows if place >= n_rows else place


@merged
def _is_sound(w: Any, G: Any) -> Any:
    """Whether weights and gradient sum are still numbers of a size."""
    sound = True
    for c in range(w.shape[0]):
        sound = sound and abs(w[c]) < LARGEST and abs(G[c]) < LARGEST
    return sound


@merged
def _train(store: Any, k: Any, how: Any, scratch: Any, parts: Any) -> Any:
    """Let the models in training, one or two of them, learn the new batch; returns whether they are still sound."""
    eta, mu = how[3], how[4]
    y, _, ones, _, orders, frame = scratch[:6]
    key, rows = key_of(store, k), rows_of(store, k)
    labelled = rows, y, ones
    steps = _steps(key["step"] * how[0], how)
    side = key["predictive"]
    w, G = weights_of(store, k, side), sums_of(store, k, side)
    drawn = _planned(store, k, side, how, scratch, parts)
    order, model = orders[side][:steps], (w, G, table_of(store, k, side))
    if key["made"] == 1:
        saga_at(parts[5])(labelled, order, model, drawn, eta, mu, frame, None)
        return _is_sound(w, G)
    side_2 = 1 - side
    w_2, G_2 = weights_of(store, k, side_2), sums_of(store, k, side_2)
    drawn_2 = _planned(store, k, side_2, how, scratch, parts)
    order_2, model_2 = orders[side_2][:steps], (w_2, G_2, table_of(store, k, side_2))
    if rows.shape[1] > NARROW:
        saga_at(parts[5])(labelled, order, model, drawn, eta, mu, frame, None)
        saga_at(parts[5])(labelled, order_2, model_2, drawn_2, eta, mu, frame, None)
    else:
        both_at(parts[8])(
            labelled, order, model, drawn, eta, frame, labelled, order_2, model_2, drawn_2, eta, frame, mu
        )
    return _is_sound(w, G) and _is_sound(w_2, G_2)


@merged
def _forget(store: Any, k: Any, side: Any, before_row: Any, how: Any, scratch: Any, parts: Any) -> None:
    """Drop the rows before ``before_row`` from the sample set, and their gradients from the sum."""
    model, rows, table = model_of(store, k, side), rows_of(store, k), table_of(store, k, side)
    lo = max(model["born"] * how[0], before_row - how[0])
    if model["admitted"] < 0 or before_row <= lo:
        return
    hi = min(before_row, model["admitted"])
    while lo < hi:  # once, or twice where the end of the ring lies between
        a = lo % rows.shape[0]
        b = min(a + hi - lo, rows.shape[0])
        discharge_at(parts[6])(rows[a:b], table[a:b], sums_of(store, k, side), scratch[5])
        lo += b - a
    model["admitted"] = max(before_row, model["admitted"])


# ---------------------------------------------------------------------------- one time step


@merged
def _say(log: Any, k: Any, key: Any, kind: Any, condition: Any, risks: Any, over: Any, ids: Any) -> None:
    entries, count = log
    entry = entries[count[0]]
    entry["slot"] = k
    entry["kind"] = kind
    entry["step"] = key["step"]
    entry["condition"] = condition
    entry["left"], entry["right"], entry["margin"] = risks
    entry["over"] = over
    entry["old"], entry["new"] = ids
    count[0] += 1
    key["transitions"] += 1
    key["last_kind"] = kind
    key["last_step"] = key["step"]


@merged
def _watch(store: Any, k: Any, row: Any, rule: Any, how: Any, scratch: Any, log: Any, parts: Any) -> Any:
    """Take the risks on the new batch before learning it, and enter the reactive state on a sign of drift.

    ``row`` is the number of its first row. Returns whether the batch is learnt in a reactive state.
    """
    key = key_of(store, k)
    threshold, stable_threshold = rule[0], rule[1]
    old = key["predictive"]
    new = 1 - old
    risk = _risk(store, k, old, row, 1, how, scratch, parts)
    best = min(risk, model_of(store, k, old)["best"])
    model_of(store, k, old)["best"] = best
    other = math.nan
    if key["made"] > 1:
        other = _risk(store, k, new, row, 1, how, scratch, parts)
        model_of(store, k, new)["best"] = min(other, model_of(store, k, new)["best"])
    if key["reactive_step"] > 0:
        return True
    condition = entering(risk, best, other, threshold, stable_threshold)
    if condition == 0:
        return False
    _fresh(store, k, new, key["step"], how[5], parts)
    ids = model_of(store, k, old)["number"], model_of(store, k, new)["number"]
    if condition == 1:
        _say(log, k, key, ENTERED, 1, (risk, best, threshold), 1, ids)
    else:
        _say(log, k, key, ENTERED, 2, (risk, other, stable_threshold), 1, ids)
    return True


@merged
def _judge(store: Any, k: Any, row: Any, rule: Any, how: Any, scratch: Any, log: Any, parts: Any) -> None:
    """Inside a reactive state, after learning: who predicts the next batch; at its end, who stays."""
    key = key_of(store, k)
    reactive_length, greedy = rule[2], rule[3]
    old = key["predictive"]
    new = 1 - old
    ids = model_of(store, k, old)["number"], model_of(store, k, new)["number"]
    key["reactive_step"] += 1
    if key["reactive_step"] == reactive_length:
        start = model_of(store, k, new)["born"] * how[0]
        old_risk = _risk(store, k, old, start, reactive_length, how, scratch, parts)
        new_risk = _risk(store, k, new, start, reactive_length, how, scratch, parts)
        switched = switching(old_risk, new_risk)
        _say(log, k, key, SWITCHED if switched else KEPT, 0, (new_risk, old_risk, 0.0), reactive_length, ids)
        key["reactive_step"] = 0
        key["challenged"] = 0
        if switched:
            key["predictive"] = new
        _fresh(store, k, 1 - key["predictive"], key["step"] + 1, how[5], parts)
    else:
        old_risk = _risk(store, k, old, row, 1, how, scratch, parts)
        new_risk = _risk(store, k, new, row, 1, how, scratch, parts)
        challenged = np.int64(challenger_predicts(old_risk, new_risk, greedy))
        if challenged != key["challenged"]:
            turned = (ids[0], ids[1]) if challenged else (ids[1], ids[0])
            _say(log, k, key, GREEDY, 0, (new_risk, old_risk, 0.0), 1, turned)
        key["challenged"] = challenged


@merged
def _copied(out_of: Any, to: Any) -> None:
    for p in range(to.shape[0]):
        to[p] = out_of[p]


@merged
def _step(store: Any, k: Any, after: Any, rule: Any, how: Any, scratch: Any, log: Any, parts: Any) -> Any:
    """One time step of the key in slot k, whole or not at all; returns whether it was taken.

    ``after`` is the slot that has the next one, which is asked for meanwhile.
    """
    key, old_block, kept = key_of(store, k), kept_of(store, k), scratch[6]
    batch_size, max_rows = how[0], how[1]
    new = key["step"] * batch_size
    _copied(labels_of(store, k), scratch[0])
    _copied(old_block, kept)
    said = log[1][0]
    ask_for_part(store, after, 0, 4)
    reactive = _watch(store, k, new, rule, how, scratch, log, parts)
    ask_for_part(store, after, 1, 4)
    if not _train(store, k, how, scratch, parts):
        _copied(kept, old_block)
        log[1][0] = said
        return False
    ask_for_part(store, after, 2, 4)
    if reactive:
        _judge(store, k, new, rule, how, scratch, log, parts)
    ask_for_part(store, after, 3, 4)
    key["step"] += 1
    end = new + batch_size
    for side in range(2):
        if side == key["predictive"] or key["made"] > 1:
            _forget(store, k, side, end - max_rows, how, scratch, parts)
    old = key["predictive"]
    first = max(model_of(store, k, old)["born"] * batch_size, end - max_rows)
    if key["reactive_step"] > 0:
        first = min(first, model_of(store, k, 1 - old)["born"] * batch_size)
    key["first"] = first
    key["pending"] = 0
    return True


# ---------------------------------------------------------------------------- many keys


@merged
def _good(bad: Any, chosen: Any) -> Any:
    """How many of these rows come before the first bad one."""
    n = 0
    while n < chosen.shape[0] and bad[chosen[n]] == 0:
        n += 1
    return n


@merged
def _copy(X: Any, codes: Any, order: Any, start: Any, rows: Any, labels: Any) -> None:
    """The rows ``order[start:]``, as many as there is room for."""
    chosen = order[start:]
    d = rows.shape[1]
    for j in range(rows.shape[0]):
        if j + ROWS_AHEAD < chosen.shape[0]:
            later = chosen[j + ROWS_AHEAD]
            prefetch(X, later * d)
            prefetch(X, later * d + d - 1)
            prefetch(codes, later)
        r = np.uintp(chosen[j])  # an index without a sign needs no check for counting from the end
        for c in range(rows.shape[1]):
            rows[j, c] = X[r, c]
        labels[j] = codes[r]


@merged
def _predictor(store: Any, k: Any) -> Any:
    """The weights that predict the next row of this key."""
    key = key_of(store, k)
    return weights_of(store, k, 1 - key["predictive"] if key["challenged"] else key["predictive"])


@merged
def _refuse_step(store: Any, k: Any, batch_size: Any, scratch: Any, parts: Any) -> None:
    """Quarantine for the key in slot k; the rows of the time step that failed count as refused, not as predicted."""
    key, rows, labels = key_of(store, k), rows_of(store, k), labels_of(store, k)
    a = key["step"] * batch_size % rows.shape[0]
    margins_at(parts[0])(rows[a : a + batch_size], _predictor(store, k), scratch[1][:batch_size])
    for j in range(batch_size):
        key["errors"] -= (scratch[1][j] > 0.0) != (labels[a + j] > 0)
    key["pending"] = 0
    key["refused"] += batch_size
    key["quarantine"] = DIVERGED


@kernel(lambda f: (STORE, BATCH, GROUPS, RULE, HOW, SCRATCH, LOG, PARTS), exact=True)
def serve(store: Any, batch: Any, groups: Any, rule: Any, how: Any, scratch: Any, log: Any, parts: Any) -> None:
    """Predict each row with the model of its key as it is when the row arrives, then learn.

    ``groups`` is the slots, where the rows of each begin in the third array, and the rows, in order of arrival
    within a slot. A key with a row that is bad (``batch[2]``, which may be empty), or whose training diverges,
    is in quarantine from there on: its rows are predicted, counted, and not learnt. Where training diverges,
    so are all rows of that time step, whichever calls they came in, and ``groups[3]`` says so of the group.
    """
    store, batch, groups, scratch, log = borrowed((store, batch, groups, scratch, log))
    X, codes, bad, predicted = batch
    slots, starts, order, diverged = groups
    batch_size = how[0]
    for g in range(slots.shape[0]):
        foresee(store, groups, g, batch_size)
        k = slots[g]
        key, rows, labels = key_of(store, k), rows_of(store, k), labels_of(store, k)
        i = starts[g]
        stop = starts[g + 1]
        while i < stop:
            if key["quarantine"] == 0 and bad.shape[0] > 0 and bad[order[i]] > 0:
                key["quarantine"] = bad[order[i]]
            if key["quarantine"] > 0:
                r = order[i]
                margins_at(parts[0])(X[r : r + 1], _predictor(store, k), scratch[1][:1])
                predicted[r] = scratch[1][0] > 0.0
                key["refused"] += 1
                i += 1
                continue
            pending = key["pending"]
            at = (key["step"] * batch_size + pending) % rows.shape[0]
            n = min(stop - i, batch_size - pending)
            if bad.shape[0] > 0:
                n = _good(bad, order[i : i + n])
            _copy(X, codes, order, i, rows[at : at + n], labels[at : at + n])
            margins_at(parts[0])(rows[at : at + n], _predictor(store, k), scratch[1][:n])
            wrong = 0
            for j in range(n):
                r = order[i + j]
                predicted[r] = scratch[1][j] > 0.0
                wrong += predicted[r] != codes[r]
            key["pending"] += n
            key["errors"] += wrong
            i += n
            if key["pending"] == batch_size and not _step(
                store, k, next_step(store, groups, g, batch_size), rule, how, scratch, log, parts
            ):
                _refuse_step(store, k, batch_size, scratch, parts)
                diverged[g] = True


@kernel(lambda f: (STORE, _in(F4, 2), _in(types.int32), _out(F8), PARTS), exact=True)
def score(store: Any, X: Any, slots: Any, out: Any, parts: Any) -> None:
    """out[i] = the margin of row i by the model that predicts in slots[i]."""
    for i in range(X.shape[0]):
        margins_at(parts[0])(X[i : i + 1], _predictor(store, slots[i]), out[i : i + 1])


@kernel(lambda f: (STORE, I8, I8, types.boolean, PARTS), exact=True)
def begin(store: Any, start: Any, stop: Any, uniform: Any, parts: Any) -> None:
    """First models for the slots from ``start`` to ``stop``, where there is nothing but zeros and seeds."""
    for k in range(start, stop):
        _fresh(store, k, 0, 0, uniform, parts)
