"""The parts of one key's block inside compiled loops, and prefetching blocks before they are used.

``layout.py`` describes a block. numba does not notice changes to this file: remove the ``__pycache__`` folders
(``make clean``) after changing it.
"""

from __future__ import annotations

from typing import Any

from driftsurf.kernels.compile import merged
from driftsurf.kernels.prefetch import prefetch
from driftsurf.keyed.compiled.layout import KEY, LINE
from driftsurf.strategies.compiled.layout import COUNTS, MODEL, Cell

__all__ = [
    "cell_of",
    "counts_of",
    "key_of",
    "labels_of",
    "make_room",
    "next_step",
    "predicting",
    "predictor_of",
    "prefetch_groups",
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
    return blocks.float64[a : a + width]


@merged
def rows_of(blocks: Any, k: Any) -> Any:
    """Return the rows, and places for more."""
    at = blocks.places
    a = k * (at.size // blocks.values.itemsize) + at.X
    return blocks.values[a : a + at.n_places * at.n_features].reshape(at.n_places, at.n_features)


@merged
def labels_of(blocks: Any, k: Any) -> Any:
    """Return the label of each row."""
    a = k * (blocks.places.size // blocks.labels.itemsize) + blocks.places.y
    return blocks.labels[a : a + blocks.places.n_places]


@merged
def weight_of(blocks: Any, k: Any) -> Any:
    """Return the weight of each row; only if rows have weights."""
    a = k * (blocks.places.size // 8) + blocks.places.weight
    return blocks.float64[a : a + blocks.places.n_places]


@merged
def stepped_of(blocks: Any, k: Any) -> Any:
    """Return all that a time step changes except for the tables, as one piece."""
    a = k * (blocks.places.size // 8)
    return blocks.int64[a : a + blocks.places.tables]


@merged
def cell_of(blocks: Any, k: Any, after: Any, scratch: Any) -> Any:
    """Return the cell of the key in slot k; the labels are those in the scratch memory.

    A step of it loads the block of the slot ``after`` into the cache; none if that is negative.
    """
    at = blocks.places
    ahead = 0 if after < 0 else after * at.size
    start, width, wide = k * (at.size // 8), at.n_features + 1, (at.n_features + 1) * at.outputs
    model, counts = k * at.size // MODEL_BYTES, (k * at.size + COUNTS_START) // COUNTS_BYTES
    factor, judged, tables, length = start + at.factor, start + at.judged, start + at.tables, at.n_places * at.outputs
    pairs = blocks.float64[start + at.w : factor].reshape(2, 2, wide)  # in the order of MODEL_ARRAYS
    frame = blocks.float64[factor : start + at.raw].reshape(3, 2, width)
    return Cell(
        rows_of(blocks, k),
        scratch.y,
        weight_of(blocks, k) if at.weighted else scratch.ones,
        blocks.float64[tables : tables + 2 * length].reshape(2, length),
        blocks.counts[counts : counts + 1],
        blocks.models[model : model + 2],
        blocks.int64[start + at.bounds : start + at.w],
        pairs[0],
        pairs[1],
        frame[0],
        frame[1],
        frame[2],
        blocks.int64[start + at.centred : judged].reshape(2, width),
        blocks.float64[start + at.raw : start + at.centred].reshape(2, wide),
        blocks.float64[judged:tables] if judged < tables else scratch.judged,
        blocks.uint8[ahead : ahead if after < 0 else ahead + at.size],
    )


@merged
def make_room(blocks: Any, k: Any, cell: Any, count: Any) -> None:
    """Move the rows of a key to the front if there is no room for ``count`` more."""
    at, counts = blocks.places, cell.counts[0]
    first = counts["first"] - counts["base"]
    n = counts["next"] - counts["first"]
    if first + n + count <= at.n_places:
        return
    X, y = cell.X.reshape(cell.X.size), labels_of(blocks, k)
    _move_to_front(X, first * at.n_features, n * at.n_features)
    _move_to_front(y, first, n)
    _move_to_front(cell.tables[0], first * at.outputs, n * at.outputs)
    _move_to_front(cell.tables[1], first * at.outputs, n * at.outputs)
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
