"""The compiled loop over the rows of many keys: fill gaps, predict, learn whole time steps.

It does for each key what a session does for one (``keyed/serving.py``), with the step of a single model
(``strategies/compiled/step.py``), called by address. numba caches compiled code for as long as this file stays the
same: remove the ``__pycache__`` folders (``make clean``) after changing a file that this one imports.

In the arguments, ``cells`` is the memory of all keys and ``k`` a slot (``cells.py``).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import types

from driftsurf.kernels.compile import I8, _out, kernel, merged
from driftsurf.kernels.prefetch import prefetch, prefetch_range
from driftsurf.kernels.remote import borrowed
from driftsurf.keyed.compiled.addresses import fleet_kernels_type, learn_at
from driftsurf.keyed.compiled.cells import (
    COUNTS_SIZE,
    KNOWN,
    LEARNED_CLASSES,
    OUTCOMES,
    PENDING,
    PENDING_FIRST,
    PLAN,
    VISIT_ROWS,
    cell_of_slot,
    cells_type,
)
from driftsurf.keyed.compiled.taking import fill_gaps
from driftsurf.strategies.compiled.layout import LEARNED, RULE, SCRATCH, TRAINING
from driftsurf.strategies.compiled.model import make_model, score

__all__ = ["begin_cells", "serve_cells"]

KEYS_AHEAD = 6
"""Keys between the prefetch of a key's counts and their use."""


@merged
def _n_steps(row: Any, plan: Any) -> Any:
    """Return the gradient steps for the batch that starts with this row; fractions are carried over."""
    if plan.per_batch >= 0:
        return plan.per_batch
    return np.int64(math.floor(plan.per_row * (row + plan.batch_size))) - np.int64(math.floor(plan.per_row * row))


@merged
def _move_to_front(values: Any, start: Any, count: Any) -> None:
    for p in range(count):
        values[p] = values[start + p]


@merged
def _make_room(cell: Any, count: Any) -> None:
    """Move the rows to the front if there is no room for ``count`` more."""
    counts = cell.counts[0]
    first = counts["first"] - counts["base"]
    n = counts["next"] - counts["first"]
    if first + n + count <= cell.y.shape[0]:
        return
    d = cell.X.shape[1]
    _move_to_front(cell.X.reshape(cell.X.size), first * d, n * d)
    _move_to_front(cell.y, first, n)
    _move_to_front(cell.tables[0], first, n)
    _move_to_front(cell.tables[1], first, n)
    counts["base"] = counts["first"]


@merged
def _log(log: Any, g: Any, place: Any, scratch: Any) -> None:
    n = log.length[0]
    for p in range(log.whole.shape[1]):
        log.whole[n, p] = scratch.whole[p]
    for p in range(log.real.shape[1]):
        log.real[n, p] = scratch.real[p]
    log.group[n] = g
    log.place[n] = place
    log.length[0] = n + 1


@merged
def _prefetch_keys(cells: Any, rows: Any, g: Any) -> None:
    """Prefetch what the keys after number g need to be predicted and stored; their memory is in no cache."""
    at, slots, width = cells.sizes, rows.slots, cells.X.shape[2]
    if g + KEYS_AHEAD < slots.shape[0]:
        k = slots[g + KEYS_AHEAD]
        prefetch(cells.notes, k * cells.notes.shape[1])
        prefetch(cells.float64, k * at.size + at.counts)
    if g + 2 < slots.shape[0]:
        k = slots[g + 2]
        counts = cells.counts[(k * at.size + at.counts) * 8 // COUNTS_SIZE]
        place = k * cells.y.shape[1] + counts["next"] - counts["base"] + cells.notes[k, PENDING]
        count = rows.starts[g + 3] - rows.starts[g + 2]
        prefetch_range(cells.X, place * width, (place + count) * width)
        prefetch_range(cells.y, place, place + count)
        prefetch_range(cells.means, 2 * k * width, 2 * (k + 1) * width)
        prefetch_range(cells.float64, k * at.size + at.raw, k * at.size + at.judged)


@kernel(
    lambda f: (cells_type(f), VISIT_ROWS, PLAN, RULE, TRAINING, SCRATCH, OUTCOMES, fleet_kernels_type()),
    exact=True,
)
def serve_cells(
    cells: Any, rows: Any, plan: Any, rule: Any, training: Any, scratch: Any, log: Any, kernels: Any
) -> None:
    """Predict each row with the model of its key as it is when the row arrives, then learn it.

    A key with a value that is not finite, or whose time step fails, is marked as failed, and its other rows are passed
    over.
    """
    cells, rows, scratch, log = borrowed((cells, rows, scratch, log), kernels)
    batch_size = plan.batch_size
    for g in range(rows.slots.shape[0]):
        _prefetch_keys(cells, rows, g)
        k = rows.slots[g]
        cell, note, totals = cell_of_slot(cells, k), cells.notes[k], cells.means[k]
        i = rows.starts[g]
        stop = rows.starts[g + 1]
        while i < stop:
            counts = cell.counts[0]
            pending = note[PENDING]
            at = counts["next"] - counts["base"] + pending
            n = min(stop - i, batch_size - pending)
            for j in range(n):
                r = rows.order[i + j]
                gaps = fill_gaps(rows.X[r], totals, plan.fills, True, cell.X[at + j])
                if gaps < 0:
                    rows.failed[g] = True
                    break
                rows.gaps[g] += gaps
                code = rows.codes[r]
                cell.y[at + j] = code
                if not training.regression and code >= note[KNOWN]:
                    note[KNOWN] = np.int64(code) + 1
                rows.learned[i + j] = counts["step"] if training.regression else note[LEARNED_CLASSES]
            if rows.failed[g]:
                break
            side = 1 - counts["predictive"] if counts["challenged"] != 0 else counts["predictive"]
            score(cell, side, cell.X[at : at + n], rows.scores[i : i + n], training, kernels.step)
            i += n
            note[PENDING] = pending + n
            if note[PENDING] < batch_size:
                break
            result = learn_at(kernels.learn, cell.X)(
                cell, batch_size, _n_steps(counts["next"], plan), False, rule, training, scratch, kernels.step
            )
            if result != LEARNED:
                rows.failed[g] = True
                break
            _log(log, g, i - 1, scratch)
            note[PENDING] = 0
            note[PENDING_FIRST] += batch_size
            note[LEARNED_CLASSES] = note[KNOWN]
            _make_room(cell, batch_size)


@kernel(lambda f: (cells_type(f), _out(I8), _out(types.uint64), TRAINING, fleet_kernels_type()), exact=True)
def begin_cells(cells: Any, slots: Any, seeds: Any, training: Any, kernels: Any) -> None:
    """Make the first models of new keys, whose cells have no models yet."""
    for g in range(slots.shape[0]):
        cell = cell_of_slot(cells, slots[g])
        cell.counts[0]["seed"] = seeds[g]
        make_model(cell, 0, 0, 0, training, kernels.step)
