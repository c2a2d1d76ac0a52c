"""The parts of one key's block inside compiled loops, and prefetching blocks before they are used.

``layout.py`` describes a block. numba does not notice changes to this file: remove the ``__pycache__`` folders
(``make clean``) after changing it.
"""

from __future__ import annotations

import math
from typing import Any

from numba.extending import overload

from driftsurf.kernels.compile import UNWRAPPED, merged
from driftsurf.kernels.guard import ROWS_OF_GUARD
from driftsurf.kernels.prefetch import prefetch
from driftsurf.kernels.remote import unchecked_view
from driftsurf.keyed.compiled.layout import KEY, LINE
from driftsurf.strategies.compiled.addresses import calls_by_address
from driftsurf.strategies.compiled.layout import COUNTS, MODEL, NO_RIVAL, Cell

__all__ = [
    "cell_of",
    "counts_of",
    "guard_of",
    "key_of",
    "labels_of",
    "make_room",
    "means_of",
    "next_step",
    "part_of",
    "predicting",
    "predictor_of",
    "prefetch_groups",
    "range_of",
    "rows_of",
    "stepped_of",
    "weight_of",
]

KEY_BYTES, COUNTS_BYTES, MODEL_BYTES = KEY.itemsize, COUNTS.itemsize, MODEL.itemsize
COUNTS_START = 2 * MODEL_BYTES
KEY_START = COUNTS_START + COUNTS_BYTES
KEYS_AHEAD = 8
"""Groups between the prefetch of a key's counts and their use; they show which of the next keys has a time step."""
MOST_LINES = 64
"""Cache lines of one request; more would evict the block in use from the first-level cache."""


def part_of(values: Any, start: Any, shape: Any) -> Any:
    """Return the elements of a vector from ``start`` on as an array of this shape."""
    return values[start:][: math.prod(shape)].reshape(shape)


@overload(part_of, jit_options={"forceinline": True, **UNWRAPPED}, strict=False)  # type: ignore[untyped-decorator]
def _compiled_part_of(values: Any, start: Any, shape: Any) -> Any:
    if calls_by_address():
        return lambda values, start, shape: unchecked_view(values, start, shape)
    if len(shape) == 1:
        return lambda values, start, shape: values[start : start + shape[0]]
    if len(shape) == 2:
        return lambda values, start, shape: values[start : start + shape[0] * shape[1]].reshape(shape)
    return lambda values, start, shape: values[start : start + shape[0] * shape[1] * shape[2]].reshape(shape)


@merged
def key_of(blocks: Any, k: Any) -> Any:
    """Return what a fleet counts for the key in slot k."""
    return blocks.keys[(k * blocks.places.size + KEY_START) // KEY_BYTES]


@merged
def counts_of(blocks: Any, k: Any) -> Any:
    """Return the counts of the cell in slot k."""
    return blocks.counts[(k * blocks.places.size + COUNTS_START) // COUNTS_BYTES]


@merged
def predicting(counts: Any) -> Any:
    """Return the side of the model that predicts the next row."""
    return 1 - counts["predictive"] if counts["challenged"] != 0 else counts["predictive"]


@merged
def predictor_of(blocks: Any, k: Any) -> Any:
    """Return the weights that predict the next row of a key, of models with one output."""
    counts, width = counts_of(blocks, k), blocks.places.n_features + 1
    a = k * (blocks.places.size // 8) + blocks.places.raw + predicting(counts) * width
    return part_of(blocks.float64, a, (width,))


@merged
def rows_of(blocks: Any, k: Any) -> Any:
    """Return the rows, and places for more."""
    at = blocks.places
    a = k * (at.size // blocks.values.itemsize) + at.X
    return part_of(blocks.values, a, (at.n_places, at.n_features))


@merged
def labels_of(blocks: Any, k: Any) -> Any:
    """Return the label of each row."""
    a = k * (blocks.places.size // blocks.labels.itemsize) + blocks.places.y
    return part_of(blocks.labels, a, (blocks.places.n_places,))


@merged
def weight_of(blocks: Any, k: Any) -> Any:
    """Return the weight of each row; only if rows have weights."""
    a = k * (blocks.places.size // 8) + blocks.places.weight
    return part_of(blocks.float64, a, (blocks.places.n_places,))


@merged
def means_of(blocks: Any, k: Any) -> Any:
    """Return the number of values of each column, and their sum; only if gaps are filled."""
    return part_of(blocks.float64, k * (blocks.places.size // 8) + blocks.places.means, (2, blocks.places.n_features))


@merged
def guard_of(blocks: Any, k: Any) -> Any:
    """Return the numbers of each column by which values are guarded; only if there is a guard."""
    start = k * (blocks.places.size // 8) + blocks.places.guard
    return part_of(blocks.float64, start, (ROWS_OF_GUARD, blocks.places.n_features))


@merged
def range_of(blocks: Any, k: Any) -> Any:
    """Return the smallest and the largest number learned; only of a regression with a guard."""
    return part_of(blocks.float64, k * (blocks.places.size // 8) + blocks.places.range, (2,))


@merged
def stepped_of(blocks: Any, k: Any) -> Any:
    """Return all that a time step changes except for the tables, as one piece."""
    a = k * (blocks.places.size // 8)
    return part_of(blocks.int64, a, (blocks.places.tables,))


@merged
def cell_of(blocks: Any, k: Any, after: Any, scratch: Any) -> Any:
    """Return the cell of the key in slot k; the labels are those in the scratch memory.

    A step of it loads the block of the slot ``after`` into the cache; none if that is negative.
    """
    at = blocks.places
    ahead = 0 if after < 0 else after * at.size
    start, width, wide = k * (at.size // 8), at.n_features + 1, (at.n_features + 1) * at.outputs
    model, counts = k * at.size // MODEL_BYTES, (k * at.size + COUNTS_START) // COUNTS_BYTES
    judged, length = at.tables - at.judged, at.n_places * at.outputs
    real, whole = blocks.float64, blocks.int64
    return Cell(
        rows_of(blocks, k),
        scratch.y,
        weight_of(blocks, k) if at.weighted else scratch.ones,
        part_of(real, start + at.tables, (2, length)),
        part_of(blocks.counts, counts, (1,)),
        part_of(blocks.models, model, (2,)),
        part_of(whole, start + at.bounds, (at.w - at.bounds,)),
        part_of(real, start + at.w, (2, wide)),
        part_of(real, start + at.G, (2, wide)),
        part_of(real, start + at.factor, (2, width)),
        part_of(real, start + at.gain, (2, width)),
        part_of(real, start + at.centre, (2, width)),
        part_of(whole, start + at.centred, (2, width)),
        part_of(real, start + at.raw, (2, wide)),
        part_of(real, start + at.judged, (judged,)) if judged > 0 else scratch.judged,
        part_of(blocks.uint8, ahead, (0 if after < 0 else at.size,)),
    )


@merged
def make_room(blocks: Any, k: Any, cell: Any, count: Any) -> None:
    """Move the rows of a key to the front if there is no room for ``count`` more."""
    at, counts = blocks.places, cell.counts[0]
    first = counts["first"] - counts["base"]
    n = counts["next"] - counts["first"]
    if first + n + count <= at.n_places:
        return
    size = blocks.values.itemsize
    X = part_of(blocks.values, k * (at.size // size) + at.X, (at.n_places * at.n_features,))
    y = labels_of(blocks, k)
    _move_to_front(X, first * at.n_features, n * at.n_features)
    _move_to_front(y, first, n)
    for side in range(2):
        if side == counts["predictive"] or counts["rival"] != NO_RIVAL:  # else it holds nothing yet
            _move_to_front(cell.tables[side], first * at.outputs, n * at.outputs)
    if at.weighted:
        _move_to_front(cell.weight, first, n)
    counts["base"] = counts["first"]


@merged
def _move_to_front(values: Any, start: Any, count: Any) -> None:
    # In pieces that do not overlap, which the compiler can vectorise.
    for begin in range(0, count, start):
        n = min(start, count - begin)
        source, target = values[start + begin : start + begin + n], values[begin : begin + n]
        for p in range(n):
            target[p] = source[p]


@merged
def prefetch_groups(blocks: Any, groups: Any, g: Any) -> None:
    """Prefetch what the groups after g need to be predicted and stored; their blocks are in no cache."""
    slots, starts, at = groups.slots, groups.starts, blocks.places
    if g + KEYS_AHEAD < slots.shape[0]:
        start = slots[g + KEYS_AHEAD] * at.size
        prefetch(blocks.uint8, start + COUNTS_START)  # the first half of the counts is enough to predict
        prefetch(blocks.uint8, start + KEY_START)
    if g + 2 < slots.shape[0]:
        k = slots[g + 2]
        counts, size = counts_of(blocks, k), blocks.values.itemsize
        n = starts[g + 3] - starts[g + 2]
        place = counts["next"] - counts["base"] + key_of(blocks, k)["pending"]
        rows = k * at.size + size * (at.X + place * at.n_features)
        width = 8 * (at.n_features + 1) * at.outputs
        weights = k * at.size + 8 * at.raw + predicting(counts) * width
        _prefetch_bytes(blocks.uint8, weights, weights + width)
        _prefetch_bytes(blocks.uint8, rows, rows + size * min(n, at.n_places - place) * at.n_features)
        prefetch(blocks.labels, k * (at.size // blocks.labels.itemsize) + at.y + place)
        if at.filled:
            means = k * at.size + 8 * at.means
            _prefetch_bytes(blocks.uint8, means, means + 16 * at.n_features)
        if at.guarded:
            guard = k * at.size + 8 * at.guard
            _prefetch_bytes(blocks.uint8, guard, guard + 8 * ROWS_OF_GUARD * at.n_features)


@merged
def next_step(blocks: Any, groups: Any, g: Any, batch_size: Any) -> Any:
    """Return the slot of the next group with a time step, among the few whose counts were prefetched; -1 for none."""
    slots, starts = groups.slots, groups.starts
    for h in range(g + 1, min(g + KEYS_AHEAD, slots.shape[0])):
        if key_of(blocks, slots[h])["pending"] + starts[h + 1] - starts[h] >= batch_size:
            return slots[h]
    return -1


@merged
def _prefetch_bytes(data: Any, start: Any, stop: Any) -> None:
    for place in range(start, min(stop, start + MOST_LINES * LINE), LINE):
        prefetch(data, place)
    prefetch(data, stop - 1)
