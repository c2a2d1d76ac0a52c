"""Asking for the memory of the next key while the present one is served: what a key has lies in no cache.

Who changes this file removes the ``__pycache__`` folders (``make clean``): numba does not notice.
"""

from __future__ import annotations

from typing import Any

from driftsurf._kernels import merged
from driftsurf._kernels._prefetch import LINE, prefetch

__all__ = ["foresee"]

MOST_BYTES = 2**14
"""More would drive the present key out of the nearest cache."""


@merged
def _ask_for(array: Any, start: Any, stop: Any) -> None:
    """Prefetch the values from ``start`` to ``stop``, counted as if the array were flat, as far as that helps."""
    for place in range(start, min(stop, start + MOST_BYTES // array.itemsize), LINE // array.itemsize):
        prefetch(array, place)
    prefetch(array, stop - 1)


@merged
def foresee(store: Any, groups: Any, g: Any, batch_size: Any) -> None:
    """Prefetch what serving group g will touch, while the one before it is served; its key is here already."""
    rows, labels, tables, weights, sums, models, keys = store
    slots, starts, _ = groups
    if g + 1 < slots.shape[0]:
        prefetch(keys, slots[g + 1])
        prefetch(keys, slots[g + 1] + 1)
    if g < slots.shape[0]:
        k = slots[g]
        key = keys[k]
        n, pending = starts[g + 1] - starts[g], key["pending"]
        d, n_rows, sides = rows.shape[2], rows.shape[1], 2 * weights.shape[2]
        _ask_for(weights, k * sides, (k + 1) * sides)
        if pending + n < batch_size:
            at = k * n_rows + (key["step"] * batch_size + pending) % n_rows
            _ask_for(rows, at * d, (at + n) * d)
            prefetch(labels, at)
        else:
            _ask_for(rows, k * n_rows * d, (k + 1) * n_rows * d)
            _ask_for(labels, k * n_rows, (k + 1) * n_rows)
            _ask_for(tables, 2 * k * n_rows, 2 * (k + 1) * n_rows)
            _ask_for(sums, k * sides, (k + 1) * sides)
            _ask_for(models, 2 * k, 2 * (k + 1))
