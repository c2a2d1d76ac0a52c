"""Random draws in bulk: uniform numbers, and which row each step of an optimiser visits."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from driftsurf._kernels._compile import F8, I8, _out, inline, kernel
from driftsurf._random import GAMMA, MIX_1, MIX_2


@inline
def _word(seed: Any, k: Any) -> Any:
    """Word k of the generator ``seed``: driftsurf._random.word, for compiled code."""
    z = np.uint64(seed) + (np.uint64(k) + np.uint64(1)) * np.uint64(GAMMA)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(MIX_1)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(MIX_2)
    return z ^ (z >> np.uint64(31))


@inline
def _below(word: Any, n: Any) -> Any:
    """Map a random word to 0 .. n-1 by multiply-shift; n is below 2**32."""
    return ((word >> np.uint64(32)) * np.uint64(n)) >> np.uint64(32)


@kernel(lambda f: (_out(f), types.uint64, I8))
def fill_uniform(out: Any, seed: Any, k: Any) -> Any:
    """Fill ``out`` with uniform(0, 1) numbers from words k, k+1, ...; returns the next k."""
    for i in range(out.shape[0]):
        out[i] = (_word(seed, k + i) >> np.uint64(11)) * 2.0**-53
    return k + out.shape[0]


@inline
def _alternate(order: Any, admitted: Any, waiting: Any, seed: Any, k: Any) -> Any:
    start = admitted
    for j in range(order.shape[0]):
        if waiting > 0 and j % 2 == 0:
            order[j] = admitted
            admitted += 1
            waiting -= 1
        else:
            order[j] = np.int64(_below(_word(seed, k), admitted))
            k += 1
    return admitted - start, k


@kernel(lambda f: (_out(I8), I8, I8, types.uint64, I8))
def alternate(order: Any, admitted: Any, waiting: Any, seed: Any, k: Any) -> Any:
    """STRSAGA's alternating schedule: which row each step visits.

    Steps 0, 2, 4, ... admit the oldest waiting row to the sample set while any waits; every other
    step draws uniformly from the set as it then stands. Returns (rows admitted now, next k).
    """
    return _alternate(order, admitted, waiting, seed, k)


@inline
def _grow_and_draw(order: Any, admitted: Any, waiting: Any, seed: Any, k: Any) -> Any:
    """``_alternate`` for plain SAGA: the set grows by the same schedule, but every step draws from it."""
    start = admitted
    for j in range(order.shape[0]):
        if waiting > 0 and j % 2 == 0:
            admitted += 1
            waiting -= 1
        order[j] = np.int64(_below(_word(seed, k + j), admitted))
    return admitted - start, k + order.shape[0]


@kernel(lambda f: (_out(I8), _out(F8), _out(F8), I8, I8, types.uint64, I8, types.boolean))
def schedule(order: Any, table: Any, old: Any, admitted: Any, waiting: Any, seed: Any, k: Any, alternating: Any) -> Any:
    """Which row each step of STRSAGA visits (of plain SAGA, if not ``alternating``); the next k.

    The gradient table, flat, has room for the rows that are admitted on the way: they enter it with NaN.
    ``old`` takes the entries that the steps will overwrite, one after the other.
    """
    if alternating:
        count, k = _alternate(order, admitted, waiting, seed, k)
    else:
        count, k = _grow_and_draw(order, admitted, waiting, seed, k)
    width = old.shape[0] // max(order.shape[0], 1)
    for p in range(admitted * width, (admitted + count) * width):
        table[p] = np.nan
    if width == 1:  # by the loop below it would take three times as long
        for j in range(order.shape[0]):
            old[j] = table[np.uintp(order[j])]
        return k
    for j in range(order.shape[0]):
        for c in range(width):
            old[j * width + c] = table[np.uintp(order[j] * width + c)]
    return k


@kernel(lambda f: (_out(I8), I8, types.uint64, I8))
def draw_uniformly(order: Any, n: Any, seed: Any, k: Any) -> Any:
    """Fill ``order`` with uniform draws from rows 0 .. n-1; returns the next k."""
    for j in range(order.shape[0]):
        order[j] = np.int64(_below(_word(seed, k + j), n))
    return k + order.shape[0]
