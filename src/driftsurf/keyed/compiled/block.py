"""The parts of one key's block inside compiled loops, and prefetching blocks before they are used.

``layout.py`` describes a block. numba does not notice changes to this file: remove the ``__pycache__`` folders
(``make clean``) after changing it.
"""

from __future__ import annotations

from typing import Any

from driftsurf.kernels.compile import merged
from driftsurf.kernels.prefetch import prefetch
from driftsurf.keyed.compiled.layout import KEY, LINE, MODEL

__all__ = [
    "key_of",
    "labels_of",
    "model_of",
    "next_step",
    "prefetch_groups",
    "prefetch_part",
    "rows_of",
    "stepped_of",
    "sums_of",
    "table_of",
    "weights_of",
]

KEY_BYTES, MODEL_BYTES = KEY.itemsize, MODEL.itemsize
FIRST_MODEL = KEY_BYTES // MODEL_BYTES
KEYS_AHEAD = 8
"""Groups between the prefetch of a key's counts and their use; they show which of the next keys has a time step."""
MOST_LINES = 64
"""Cache lines of one request; more would evict the block in use from the first-level cache."""


@merged
def key_of(blocks: Any, k: Any) -> Any:
    """Return the counts of the key in slot k."""
    return blocks.keys[k * (blocks.places.size // KEY_BYTES)]


@merged
def model_of(blocks: Any, k: Any, side: Any) -> Any:
    """Return the counts of the model on this side."""
    return blocks.models[k * (blocks.places.size // MODEL_BYTES) + FIRST_MODEL + side]


@merged
def weights_of(blocks: Any, k: Any, side: Any) -> Any:
    """Return the weights of the model on this side."""
    at = blocks.places
    a = k * (at.size // 8) + at.weights + side * (at.n_features + 1)
    return blocks.float64[a : a + at.n_features + 1]


@merged
def sums_of(blocks: Any, k: Any, side: Any) -> Any:
    """Return the gradient sum of the model on this side."""
    at = blocks.places
    a = k * (at.size // 8) + at.sums + side * (at.n_features + 1)
    return blocks.float64[a : a + at.n_features + 1]


@merged
def table_of(blocks: Any, k: Any, side: Any) -> Any:
    """Return the gradient table of the model on this side."""
    at = blocks.places
    a = k * (at.size // 8) + at.tables + side * at.n_rows
    return blocks.float64[a : a + at.n_rows]


@merged
def rows_of(blocks: Any, k: Any) -> Any:
    """Return the ring of rows."""
    at = blocks.places
    a = k * (at.size // 4) + at.rows
    return blocks.float32[a : a + at.n_rows * at.n_features].reshape(at.n_rows, at.n_features)


@merged
def labels_of(blocks: Any, k: Any) -> Any:
    """Return the label of each row."""
    at = blocks.places
    a = k * at.size + at.labels
    return blocks.uint8[a : a + at.n_rows]


@merged
def stepped_of(blocks: Any, k: Any) -> Any:
    """Return all that a time step changes, as one piece: what comes before the rows."""
    a = k * blocks.places.size
    return blocks.uint8[a : a + 4 * blocks.places.rows]


@merged
def prefetch_groups(blocks: Any, groups: Any, g: Any, batch_size: Any) -> None:
    """Prefetch what the groups after g need to be predicted and stored; their blocks are in no cache."""
    slots, starts, at = groups.slots, groups.starts, blocks.places
    if g + KEYS_AHEAD < slots.shape[0]:
        start = slots[g + KEYS_AHEAD] * at.size
        _prefetch_bytes(blocks.uint8, start, start + KEY_BYTES)
    if g + 2 < slots.shape[0]:
        k = slots[g + 2]
        key = key_of(blocks, k)
        n = starts[g + 3] - starts[g + 2]
        row = (key["step"] * batch_size + key["pending"]) % at.n_rows
        rows = k * at.size + 4 * (at.rows + row * at.n_features)
        _prefetch_bytes(blocks.uint8, k * at.size + 8 * at.weights, k * at.size + 8 * at.sums)
        _prefetch_bytes(blocks.uint8, rows, rows + 4 * min(n, at.n_rows - row) * at.n_features)
        prefetch(blocks.uint8, k * at.size + at.labels + row)


@merged
def next_step(blocks: Any, groups: Any, g: Any, batch_size: Any) -> Any:
    """Return the slot of the next group with a time step, among the few whose counts were prefetched; -1 for none."""
    slots, starts = groups.slots, groups.starts
    for h in range(g + 1, min(g + KEYS_AHEAD, slots.shape[0])):
        if key_of(blocks, slots[h])["pending"] + starts[h + 1] - starts[h] >= batch_size:
            return slots[h]
    return -1


@merged
def prefetch_part(blocks: Any, k: Any, part: Any, parts: Any) -> None:
    """Prefetch one of ``parts`` equal parts of a block; nothing if k is negative.

    In parts, because a processor has few slots for requests to memory, and stalls once they are taken.
    """
    if k >= 0:
        share = blocks.places.size // parts
        start = k * blocks.places.size + part * share
        _prefetch_bytes(blocks.uint8, start, start + share)


@merged
def _prefetch_bytes(data: Any, start: Any, stop: Any) -> None:
    for place in range(start, min(stop, start + MOST_LINES * LINE), LINE):
        prefetch(data, place)
    prefetch(data, stop - 1)
