"""The block of one key in compiled loops: its parts, and asking for it in time. How it is laid out says ``_layout``.

``store`` is the blocks of all keys as float32, as bytes, as float64, as models and as keys, and the numbers that
``Store.compiled`` gives. Who changes this file removes the ``__pycache__`` folders (``make clean``): numba does not
notice.
"""

from __future__ import annotations

from typing import Any

from driftsurf._kernels import merged
from driftsurf._kernels._prefetch import prefetch
from driftsurf.fleet._layout import KEY, LINE, MODEL

__all__ = [
    "ask_for_part",
    "foresee",
    "kept_of",
    "key_of",
    "labels_of",
    "model_of",
    "next_step",
    "rows_of",
    "sums_of",
    "table_of",
    "weights_of",
]

KEY_BYTES, MODEL_BYTES = KEY.itemsize, MODEL.itemsize
FIRST_MODEL = KEY_BYTES // MODEL_BYTES
KEYS_AHEAD = 8
"""Groups between asking for a key's counts and using them, to see which of the next keys has a time step."""
MOST_LINES = 64
"""Of one request: more would drive the present key out of the nearest cache."""


@merged
def key_of(store: Any, k: Any) -> Any:
    """The counts of the key in slot k."""
    return store[4][k * (store[5][0] // KEY_BYTES)]


@merged
def model_of(store: Any, k: Any, side: Any) -> Any:
    """The counts of its model on this side."""
    return store[3][k * (store[5][0] // MODEL_BYTES) + FIRST_MODEL + side]


@merged
def weights_of(store: Any, k: Any, side: Any) -> Any:
    """The weights of this model."""
    size, start, d = store[5][0], store[5][1], store[5][7]
    a = k * (size // 8) + start + side * (d + 1)
    return store[2][a : a + d + 1]


@merged
def sums_of(store: Any, k: Any, side: Any) -> Any:
    """The sum of its gradients, G."""
    size, start, d = store[5][0], store[5][2], store[5][7]
    a = k * (size // 8) + start + side * (d + 1)
    return store[2][a : a + d + 1]


@merged
def table_of(store: Any, k: Any, side: Any) -> Any:
    """Its gradient table."""
    size, start, n_rows = store[5][0], store[5][3], store[5][6]
    a = k * (size // 8) + start + side * n_rows
    return store[2][a : a + n_rows]


@merged
def rows_of(store: Any, k: Any) -> Any:
    """The ring of rows."""
    size, start, n_rows, d = store[5][0], store[5][4], store[5][6], store[5][7]
    a = k * (size // 4) + start
    return store[0][a : a + n_rows * d].reshape(n_rows, d)


@merged
def labels_of(store: Any, k: Any) -> Any:
    """The label of each row."""
    a = k * store[5][0] + store[5][5]
    return store[1][a : a + store[5][6]]


@merged
def kept_of(store: Any, k: Any) -> Any:
    """What a time step changes, all in one."""
    a = k * store[5][0]
    return store[1][a : a + 4 * store[5][4]]


@merged
def foresee(store: Any, groups: Any, g: Any, batch_size: Any) -> None:
    """Prefetch what serving the groups after g will touch, but for time steps: what a key has is in no cache."""
    slots, starts, _, _ = groups
    size, n_rows, d = store[5][0], store[5][6], store[5][7]
    if g + KEYS_AHEAD < slots.shape[0]:
        _ask_for(store[1], slots[g + KEYS_AHEAD] * size, slots[g + KEYS_AHEAD] * size + KEY_BYTES)
    if g + 2 < slots.shape[0]:
        k = slots[g + 2]
        key = key_of(store, k)
        n = starts[g + 3] - starts[g + 2]
        row = (key["step"] * batch_size + key["pending"]) % n_rows
        rows = k * size + 4 * (store[5][4] + row * d)
        _ask_for(store[1], k * size + 8 * store[5][1], k * size + 8 * store[5][2])
        _ask_for(store[1], rows, rows + 4 * min(n, n_rows - row) * d)
        prefetch(store[1], k * size + store[5][5] + row)


@merged
def next_step(store: Any, groups: Any, g: Any, batch_size: Any) -> Any:
    """The slot of the next group after g, among the few whose keys are here, with a time step; -1 if there is none."""
    slots, starts, _, _ = groups
    for h in range(g + 1, min(g + KEYS_AHEAD, slots.shape[0])):
        if key_of(store, slots[h])["pending"] + starts[h + 1] - starts[h] >= batch_size:
            return slots[h]
    return -1


@merged
def ask_for_part(store: Any, k: Any, part: Any, parts: Any) -> None:
    """Prefetch one of so many parts of a block; nothing if k is negative.

    Parts, because the processor takes only so many requests at a time, and waits if there are more.
    """
    if k >= 0:
        share = store[5][0] // parts
        start = k * store[5][0] + part * share
        _ask_for(store[1], start, start + share)


@merged
def _ask_for(data: Any, start: Any, stop: Any) -> None:
    """Prefetch these bytes, as far as that helps."""
    for place in range(start, min(stop, start + MOST_LINES * LINE), LINE):
        prefetch(data, place)
    prefetch(data, stop - 1)
