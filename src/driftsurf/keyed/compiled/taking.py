"""Rows of a call on their way into the block of their key: copied, with gaps filled by the means of the key so far.

Which of the two a loop does is decided by the type of its batch, so that rows without gaps cost nothing more. numba
does not notice changes to this file: remove the ``__pycache__`` folders (``make clean``) after changing it.

In the arguments, ``blocks`` is the memory of all keys and ``k`` a slot (``layout.py``).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba.extending import overload

from driftsurf.kernels.compile import UNWRAPPED, merged
from driftsurf.kernels.prefetch import prefetch
from driftsurf.keyed.compiled.block import counts_of, key_of, means_of, rows_of
from driftsurf.keyed.compiled.layout import GappyBatch

__all__ = ["fill_gaps", "single_row", "store_rows"]

ROWS_AHEAD = 24
"""Rows of the call between the prefetch of one and its use."""
MERGED: dict[str, Any] = {"forceinline": True, **UNWRAPPED}


@merged
def fill_gaps(row: Any, totals: Any, fills: Any, counted: Any, target: Any) -> Any:
    """Copy a row. With ``fills``, fill its gaps with the means so far, and add it to them if it is ``counted``.

    Returns the number of gaps; -1 if a value is not finite, or too large for the type of the target.
    """
    gaps = 0
    good = True
    for c in range(row.shape[0]):
        value = row[c]
        if fills:
            if math.isnan(value):
                mean = totals[1, c] / max(totals[0, c], 1.0)
                value = mean if abs(mean) < math.inf else 0.0
                gaps += 1
            elif counted and abs(value) < math.inf:
                totals[0, c] += 1.0
                totals[1, c] += value
        target[c] = value
        good = good and abs(target[c]) < math.inf
    return gaps if good else -1


@merged
def _prefetch_row(batch: Any, order: Any, place: Any) -> None:
    """Prefetch a row that is stored a little later."""
    if place + ROWS_AHEAD < order.shape[0]:
        later, d = order[place + ROWS_AHEAD], batch.rows.shape[1]
        prefetch(batch.rows, later * d)
        prefetch(batch.rows, later * d + d - 1)
        prefetch(batch.codes, later)


def store_rows(blocks: Any, k: Any, batch: Any, order: Any, start: Any, rows: Any, labels: Any) -> None:
    """Copy the rows ``order[start:]`` of a batch into the block of a key, as many as ``rows`` has places."""
    (_store_gappy if isinstance(batch, GappyBatch) else _store_whole)(blocks, k, batch, order, start, rows, labels)


def _store_whole(blocks: Any, k: Any, batch: Any, order: Any, start: Any, rows: Any, labels: Any) -> None:
    for j in range(rows.shape[0]):
        _prefetch_row(batch, order, start + j)
        r = np.uintp(order[start + j])  # an unsigned index needs no test for counting from the end
        for c in range(rows.shape[1]):
            rows[j, c] = batch.rows[r, c]
        labels[j] = batch.codes[r]


def _store_gappy(blocks: Any, k: Any, batch: Any, order: Any, start: Any, rows: Any, labels: Any) -> None:
    totals = means_of(blocks, k)
    for j in range(rows.shape[0]):
        _prefetch_row(batch, order, start + j)
        r = np.uintp(order[start + j])
        fill_gaps(batch.rows[r], totals, True, True, rows[j])
        labels[j] = batch.codes[r]


@overload(store_rows, jit_options=MERGED, strict=False)  # type: ignore[untyped-decorator]
def _compiled_store(blocks: Any, k: Any, batch: Any, order: Any, start: Any, rows: Any, labels: Any) -> Any:
    return _store_gappy if issubclass(batch.instance_class, GappyBatch) else _store_whole


def single_row(blocks: Any, k: Any, batch: Any, r: Any) -> Any:
    """Return row r of a batch as a model of a key takes it, as a matrix, for a row that is not learned.

    With gaps, it is written to the first free place of the key, of which there is always one.
    """
    return (_filled_row if isinstance(batch, GappyBatch) else _whole_row)(blocks, k, batch, r)


def _whole_row(blocks: Any, k: Any, batch: Any, r: Any) -> Any:
    return batch.rows[r : r + 1]


def _filled_row(blocks: Any, k: Any, batch: Any, r: Any) -> Any:
    counts = counts_of(blocks, k)
    place = counts["next"] - counts["base"] + key_of(blocks, k)["pending"]
    rows = rows_of(blocks, k)[place : place + 1]
    fill_gaps(batch.rows[r], means_of(blocks, k), True, False, rows[0])
    return rows


@overload(single_row, jit_options=MERGED, strict=False)  # type: ignore[untyped-decorator]
def _compiled_single_row(blocks: Any, k: Any, batch: Any, r: Any) -> Any:
    return _filled_row if issubclass(batch.instance_class, GappyBatch) else _whole_row
