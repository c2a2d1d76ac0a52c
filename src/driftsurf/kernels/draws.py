"""Random draws in bulk: uniform numbers, and the row that each step of an optimiser visits."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from driftsurf.core.random import GAMMA, MIX_1, MIX_2
from driftsurf.kernels.compile import F8, I8, _out, inline, kernel


@inline
def _word(seed: Any, k: Any) -> Any:
    """Return word k of the generator ``seed``; ``driftsurf.core.random.word`` for compiled code."""
    z = np.uint64(seed) + (np.uint64(k) + np.uint64(1)) * np.uint64(GAMMA)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(MIX_1)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(MIX_2)
    return z ^ (z >> np.uint64(31))


@inline
def _below(word: Any, n: Any) -> Any:
    """Map a random word to 0 .. n-1, n < 2**32, by multiply-shift: a division would take several times as long."""
    return ((word >> np.uint64(32)) * np.uint64(n)) >> np.uint64(32)


@kernel(lambda f: (_out(f), types.uint64, I8))
def fill_uniform(out: Any, seed: Any, k: Any) -> Any:
    """Fill ``out`` with uniform numbers in [0, 1) from words k, k+1, ...; return the next k."""
    for i in range(out.shape[0]):
        out[i] = (_word(seed, k + i) >> np.uint64(11)) * 2.0**-53
    return k + out.shape[0]


@inline
def _alternate(order: Any, admitted: Any, waiting: Any, seed: Any, k: Any) -> Any:
    count = min(waiting, order.shape[0] // 2)
    for p in range(count):  # in pairs of steps, of which the processor computes several at once
        order[2 * p] = admitted + p
        order[2 * p + 1] = np.int64(_below(_word(seed, k + p), admitted + p + 1))
    start = 2 * count
    k += count - start
    if count < waiting and start < order.shape[0]:  # the last step of an odd number
        order[start] = admitted + count
        count += 1
        start += 1
        k -= 1
    for j in range(start, order.shape[0]):
        order[j] = np.int64(_below(_word(seed, k + j), admitted + count))
    return count, k + order.shape[0]


@kernel(lambda f: (_out(I8), I8, I8, types.uint64, I8))
def alternate(order: Any, admitted: Any, waiting: Any, seed: Any, k: Any) -> Any:
    """Fill ``order`` with the row that each step visits, by STRSAGA's alternating schedule.

    There is no use in optimising further than a sample set of its size can tell, nor in a set that grows faster than
    the optimiser follows. STRSAGA therefore admits one row for every two steps: steps 0, 2, 4, ... admit the oldest
    waiting row to the set and visit it, as long as a row waits; every other step visits a row drawn uniformly from the
    set as it then is. Returns the number of rows admitted, and the next k.
    """
    return _alternate(order, admitted, waiting, seed, k)


@inline
def _grow_and_draw(order: Any, admitted: Any, waiting: Any, seed: Any, k: Any) -> Any:
    """Schedule of plain SAGA: the sample set grows as in ``_alternate``, but every step draws from it."""
    start = admitted
    for j in range(order.shape[0]):
        if waiting > 0 and j % 2 == 0:
            admitted += 1
            waiting -= 1
        order[j] = np.int64(_below(_word(seed, k + j), admitted))
    return admitted - start, k + order.shape[0]


@kernel(lambda f: (_out(I8), _out(F8), _out(F8), I8, I8, types.uint64, I8, types.boolean))
def schedule(order: Any, table: Any, old: Any, admitted: Any, waiting: Any, seed: Any, k: Any, alternating: Any) -> Any:
    """Fill ``order`` for STRSAGA (``alternating``) or plain SAGA, and prepare the table; return the next k.

    ``table`` is the flattened gradient table. It has room for the rows that are admitted, whose entries are set to NaN.
    ``old`` receives the entries that the steps will overwrite, in order, so that an update can be undone.
    """
    if alternating:
        count, k = _alternate(order, admitted, waiting, seed, k)
    else:
        count, k = _grow_and_draw(order, admitted, waiting, seed, k)
    width = old.shape[0] // max(order.shape[0], 1)
    for p in range(admitted * width, (admitted + count) * width):
        table[p] = np.nan
    if width == 1:  # three times as fast as the general loop below
        for j in range(order.shape[0]):
            old[j] = table[np.uintp(order[j])]
        return k
    for j in range(order.shape[0]):
        for c in range(width):
            old[j * width + c] = table[np.uintp(order[j] * width + c)]
    return k


@kernel(lambda f: (_out(I8), I8, types.uint64, I8))
def draw_uniformly(order: Any, n: Any, seed: Any, k: Any) -> Any:
    """Fill ``order`` with uniform draws from rows 0 .. n-1; return the next k."""
    for j in range(order.shape[0]):
        order[j] = np.int64(_below(_word(seed, k + j), n))
    return k + order.shape[0]
