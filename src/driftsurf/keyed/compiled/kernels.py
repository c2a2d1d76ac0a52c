"""The compiled loops of a fleet: the step of a single model, for every key.

A step is the machine code that steps a single model (``strategies/compiled/step.py``), called by address. This file
holds what comes before and after it: rows are predicted and stored, a step that fails is undone, transitions are
logged. numba caches compiled code for as long as this file stays the same: remove the ``__pycache__`` folders (``make
clean``) after changing a file that this one imports.

In the arguments, ``blocks`` is the memory of all keys and ``k`` a slot (``layout.py``).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import types

from driftsurf.kernels.compile import F8, I8, _in, kernel, merged, renamed
from driftsurf.kernels.draws import _word
from driftsurf.kernels.remote import borrowed
from driftsurf.keyed.compiled.addresses import fleet_kernels_type, learn_at
from driftsurf.keyed.compiled.block import (
    cell_of,
    counts_of,
    key_of,
    labels_of,
    make_room,
    next_step,
    prefetch_groups,
    rows_of,
    stepped_of,
    weight_of,
)
from driftsurf.keyed.compiled.guarding import admit_step, keep_guard
from driftsurf.keyed.compiled.label_sets import ALL_CLASSES, KNOWN_CLASSES, LEARNED_CLASSES
from driftsurf.keyed.compiled.layout import Batch, Blocks, GappyBatch, OtherBlocks, Shape
from driftsurf.keyed.compiled.predictions import complete_model, decided, missed, predict_rows, predict_single
from driftsurf.keyed.compiled.taking import single_row, store_rows
from driftsurf.keyed.compiled.types import GROUPS, LOG, STEPS, U1, batch_type, blocks_type, working_type
from driftsurf.strategies.compiled import layout as cells
from driftsurf.strategies.compiled.layout import (
    COMPARED,
    COMPARISON,
    CONDITION,
    ENTERED,
    LEARNED,
    RULE,
    TRAINING,
    TRANSITION,
    TRANSITION_SIZE,
    TRANSITIONS,
)
from driftsurf.strategies.compiled.model import make_model

__all__ = ["BAD_LABEL", "BAD_ROW", "DIVERGED", "Loops", "loops_for"]

BAD_ROW, BAD_LABEL, DIVERGED = 1, 2, 3
"""Codes of the reasons for quarantine."""
GRADIENTS = cells.STEPS

# ---------------------------------------------------------------------------- one time step


@merged
def _n_steps(row: Any, steps: Any) -> Any:
    """Return the gradient steps for the batch that starts with this row.

    Counting from row 0 carries fractions of a step over to the next batch.
    """
    if steps.per_batch >= 0:
        return steps.per_batch
    per_row = steps.per_row
    return np.int64(math.floor(per_row * (row + steps.batch_size))) - np.int64(math.floor(per_row * row))


@merged
def _copy_into(target: Any, values: Any) -> None:
    for p in range(target.shape[0]):
        target[p] = values[p]


@merged
def _undo(blocks: Any, k: Any, cell: Any, scratch: Any) -> None:
    """Put everything back as it was before a step."""
    _copy_into(stepped_of(blocks, k), scratch.saved)
    whole, base, K = scratch.step.whole, cell.counts[0]["base"], blocks.places.outputs
    for side in range(2):
        table, start = cell.tables[side], whole[GRADIENTS + 2 * side + 1] - base
        for j in range(whole[GRADIENTS + 2 * side]):
            place = (start + scratch.step.orders[side, j]) * K
            for output in range(K):
                table[place + output] = scratch.step.overwritten[side, j * K + output]


@merged
def _log(log: Any, k: Any, key: Any, step: Any, scratch: Any) -> None:
    """Add the transitions of a step to the log, and to the counts of its key."""
    whole, real = scratch.step.whole, scratch.step.real
    for number in range(whole[TRANSITIONS]):
        at, numbers = TRANSITION + number * TRANSITION_SIZE, COMPARISON + number * COMPARED
        kind = whole[at]
        entry = log.entries[log.length[0]]
        entry["slot"] = k
        entry["kind"] = kind
        entry["step"] = step
        entry["condition"] = whole[CONDITION] if kind == ENTERED else 0
        entry["left"] = real[numbers]
        entry["right"] = real[numbers + 1]
        entry["margin"] = real[numbers + 2]
        entry["over"] = whole[at + 1]
        entry["old"] = whole[at + 2]
        entry["new"] = whole[at + 3]
        entry["absent"] = whole[at + 4]
        log.length[0] += 1
        key["transitions"] += 1
        key["last_kind"] = kind + 1
        key["last_step"] = step


@merged
def _step(
    blocks: Any, k: Any, after: Any, steps: Any, rule: Any, training: Any, scratch: Any, log: Any, kernels: Any
) -> Any:
    """Take one time step of the key in slot k, or undo all of it; return whether it was taken.

    ``after`` is the slot with the next time step, whose block the step loads into the cache along the way.
    """
    key, cell = key_of(blocks, k), cell_of(blocks, k, after, scratch)
    counts = cell.counts[0]
    step = counts["step"]
    _copy_into(scratch.y, labels_of(blocks, k))
    _copy_into(scratch.saved, stepped_of(blocks, k))
    scratch.step.whole[GRADIENTS] = 0
    scratch.step.whole[GRADIENTS + 2] = 0
    kept = 0
    if blocks.places.guarded:
        kept = admit_step(blocks, k, cell, steps.batch_size, training, scratch, kernels)
    result = learn_at(kernels.learn, blocks.values)(
        cell, steps.batch_size, _n_steps(counts["next"], steps), False, rule, training, scratch.step, kernels.step
    )
    if result != LEARNED:
        _undo(blocks, k, cell, scratch)
        return False
    if blocks.places.guarded:
        keep_guard(blocks, k, kept, training, scratch)
    _log(log, k, key, step, scratch)
    key["pending"] = 0
    key["errors"] += key["waiting"]
    key["waiting"] = 0.0
    make_room(blocks, k, cell, steps.batch_size)
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
def _copy_weight(weight: Any, order: Any, start: Any, target: Any) -> None:
    """Copy the weights of the rows ``order[start:]`` into a block, or ones if rows have no weights."""
    for j in range(target.shape[0]):
        target[j] = 1.0 if weight.shape[0] == 0 else weight[order[start + j]]


@merged
def _known_after(blocks: Any, k: Any, codes: Any, order: Any) -> Any:
    """Return how many classes a key knows with these rows; 0 if the classes are named."""
    known: Any = 0
    if blocks.places.growing:
        known = np.int64(blocks.classes[k, KNOWN_CLASSES])
        for j in range(order.shape[0]):
            known = max(known, np.int64(codes[order[j]]) + 1)
    return known


@merged
def _note_classes(blocks: Any, k: Any, known: Any, learned: Any) -> None:
    """Note the classes that a key knows; all of them are ``learned`` with a time step."""
    if blocks.places.growing:
        blocks.classes[k, KNOWN_CLASSES] = known
        if learned:
            blocks.classes[k, LEARNED_CLASSES] = known


@merged
def _predict_without_step(blocks: Any, k: Any, predicted: Any, order: Any) -> None:
    """Predict the rows of a first time step that failed again: classes that only they have are not known any more."""
    if blocks.places.growing and blocks.classes[k, LEARNED_CLASSES] == 0 and blocks.classes[k, KNOWN_CLASSES] < 2:
        for j in range(order.shape[0]):
            predicted[order[j]] = 0


@merged
def _refuse_step(key: Any, batch_size: Any) -> None:
    """Quarantine a key whose time step failed; the rows of the step count as refused, no longer as predicted."""
    key["pending"] = 0
    key["waiting"] = 0.0
    key["refused"] += batch_size
    key["quarantine"] = DIVERGED


def _serve(
    blocks: Any,
    batch: Any,
    groups: Any,
    steps: Any,
    log: Any,
    rule: Any,
    training: Any,
    scratch: Any,
    kernels: Any,
) -> None:
    """Predict each row with the model of its key as it is when the row arrives, then learn it.

    A key with a bad row, or whose training diverges, is in quarantine from there on: its rows are predicted, counted,
    and not learned. If training diverges, this holds for all rows of that time step, also those of earlier calls.

    The last thing that it does is to mark the log as complete; with a complete log it does nothing.
    """
    if log.length[1] > 0:
        return
    blocks, batch, groups, scratch, log = borrowed((blocks, batch, groups, scratch, log), kernels)
    codes, bad, predicted = batch.codes, batch.bad, batch.predicted
    slots, starts, order = groups.slots, groups.starts, groups.order
    batch_size = steps.batch_size
    for g in range(slots.shape[0]):
        prefetch_groups(blocks, groups, g)
        k = slots[g]
        key, counts, rows, labels = key_of(blocks, k), counts_of(blocks, k), rows_of(blocks, k), labels_of(blocks, k)
        i = starts[g]
        stop = starts[g + 1]
        while i < stop:
            if key["quarantine"] == 0 and bad.shape[0] > 0 and bad[order[i]] > 0:
                key["quarantine"] = bad[order[i]]
            if key["quarantine"] > 0:
                r = order[i]
                predicted[r] = predict_single(blocks, k, single_row(blocks, k, batch, r), training, scratch, kernels)
                key["refused"] += 1
                i += 1
                continue
            pending = key["pending"]
            at = counts["next"] - counts["base"] + pending
            n = min(stop - i, batch_size - pending)
            if bad.shape[0] > 0:
                n = _count_good(bad, order[i : i + n])
            store_rows(blocks, k, batch, order, i, rows[at : at + n], labels[at : at + n])
            if blocks.places.weighted:
                _copy_weight(batch.weight, order, i, weight_of(blocks, k)[at : at + n])
            total = np.int64(blocks.classes[k, ALL_CLASSES]) if blocks.places.growing else 0
            predict_rows(blocks, k, rows[at : at + n], total, training, scratch, kernels)
            errors = key["waiting"]  # added one by one, so that rounding does not depend on calls
            for j in range(n):
                r = order[i + j]
                predicted[r] = decided(blocks, scratch.margins[j])
                errors += missed(predicted[r], codes[r])
            known = _known_after(blocks, k, codes, order[i : i + n])
            key["pending"] += n
            key["waiting"] = errors
            i += n
            if key["pending"] == batch_size and not _step(
                blocks, k, next_step(blocks, groups, g, batch_size), steps, rule, training, scratch, log, kernels
            ):
                _refuse_step(key, batch_size)
                groups.diverged[g] = True
                _predict_without_step(blocks, k, predicted, order[i - n : i])
            else:
                _note_classes(blocks, k, known, key["pending"] == 0)
    log.length[1] = 1


def _predict_rows(blocks: Any, batch: Any, slots: Any, training: Any, scratch: Any, kernels: Any) -> None:
    """Predict each row of a batch by the model in its slot; nothing is learned."""
    for i in range(batch.rows.shape[0]):
        row = single_row(blocks, slots[i], batch, i)
        batch.predicted[i] = predict_single(blocks, slots[i], row, training, scratch, kernels)


def _begin(blocks: Any, start: Any, stop: Any, training: Any, scratch: Any, kernels: Any) -> None:
    """Make the first models of the slots from ``start`` to ``stop``, whose blocks hold zeros and seeds."""
    for k in range(start, stop):
        make_model(cell_of(blocks, k, -1, scratch), 0, 0, 0, training, kernels.step)


def _complete(blocks: Any, stop: Any, training: Any, scratch: Any, kernels: Any) -> None:
    """Work out what follows from saved numbers, in the slots before ``stop``: seeds, gains, raw weights, errors."""
    for k in range(stop):
        cell = cell_of(blocks, k, -1, scratch)
        for side in range(2):
            count = 0
            for c in range(cell.factor.shape[1]):
                cell.gain[side, c] = cell.factor[side, c] * cell.factor[side, c]
                if cell.centre[side, c] != 0.0:
                    cell.centred[side, count] = c
                    count += 1
            model = cell.models[side]
            model["centred"] = count
            model["seed"] = _word(_word(cell.counts[0]["seed"], model["id"]), 0)
            complete_model(cell, side, blocks, training, scratch, kernels)
        key, counts, labels = key_of(blocks, k), cell.counts[0], labels_of(blocks, k)
        a, n = counts["next"] - counts["base"], key["pending"]
        if not blocks.places.growing:  # otherwise it depends on the classes that were known, and is saved
            predict_rows(blocks, k, cell.X[a : a + n], 0, training, scratch, kernels)
            key["waiting"] = 0.0
            for j in range(n):
                key["waiting"] += missed(decided(blocks, scratch.margins[j]), labels[a + j])
        if not training.regression:  # saved as one count
            key["errors"] -= key["waiting"]


# ---------------------------------------------------------------------------- variants


class Loops(NamedTuple):
    """The compiled loops over blocks of one kind."""

    serve: Any
    predict: Any
    begin: Any
    complete: Any


def _loops(suffix: str, labels: Any, form: Any) -> tuple[Loops, Loops]:
    """Return the loops over blocks with labels of this type, for rows without and with gaps.

    Each is compiled at its first use.
    """

    def made(function: Any, suffix: str, arguments: Callable[[Any], tuple[Any, ...]]) -> Any:
        def signature(f: Any) -> tuple[Any, ...]:
            return blocks_type(f, labels, form), *arguments(f), TRAINING, working_type(f), fleet_kernels_type()

        return kernel(signature, exact=True)(renamed(function, function.__name__.removeprefix("_") + suffix))

    def over_rows(suffix: str, batch: Any) -> tuple[Any, Any]:
        return (
            made(_serve, suffix, lambda f: (batch_type(f, labels, batch), GROUPS, STEPS, LOG, RULE)),
            made(_predict_rows, suffix, lambda f: (batch_type(f, labels, batch), _in(types.int32))),
        )

    begin, complete = made(_begin, suffix, lambda f: (I8, I8)), made(_complete, suffix, lambda f: (I8,))
    whole, gappy = over_rows(suffix, Batch), over_rows(suffix + "_gappy", GappyBatch)
    return Loops(*whole, begin, complete), Loops(*gappy, begin, complete)


TWO, CLASSES, VALUES = _loops("", U1, Blocks), _loops("_classes", U1, OtherBlocks), _loops("_values", F8, OtherBlocks)


def loops_for(shape: Shape) -> Loops:
    """Return the loops over blocks of this shape."""
    return (TWO if shape.plain else VALUES if shape.valued else CLASSES)[shape.filled]
