"""A cell and its working memory as a table of addresses, from which compiled code makes their arrays.

A call from Python unpacks every array that it passes, and a cell with its scratch memory has two dozen of them: that
takes as long as learning a small batch. So kernels that are called at every step are given a table with their addresses
instead. The table is written again whenever an array is replaced.

numba has no public way to make a pointer from a number. It is tested at first use (``kernels/remote.py``). numba does
not notice changes to this file: remove the ``__pycache__`` folders (``make clean``) after changing it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import carray

from driftsurf.kernels.compile import merged
from driftsurf.kernels.remote import pointer
from driftsurf.strategies.compiled.layout import COUNTS, MODEL, Cell, Scratch

# Places in the table: addresses of arrays in the order of their fields, then numbers.
(X_, Y, WEIGHT, TABLES, COUNTS_, MODELS, BOUNDS, W, G, FACTOR, GAIN, CENTRE, CENTRED, RAW, JUDGED) = range(15)
(ORDERS, OVERWRITTEN, SCORES, MARGINS, LOSSES, VALUES, COLUMNS, WHOLE, REAL) = range(15, 24)
(N_PLACES, N_OUTPUTS, N_BOUNDS, N_JUDGED, N_STEPS, N_ROWS, N_VALUES, N_WHOLE, N_REAL) = range(24, 33)
(N_SIDES, SIZE) = range(33, 35)


@merged
def cell_at(table: Any, rows: Any) -> Any:
    """Return the cell whose arrays are at these addresses; ``rows`` have the type of its rows."""
    d, K, places, sides = rows.shape[1], table[N_OUTPUTS], table[N_PLACES], table[N_SIDES]
    wide, width = (sides, (d + 1) * K), (sides, d + 1)
    return Cell(
        carray(pointer(table[X_]), (places, d), rows.dtype),
        carray(pointer(table[Y]), (places,), np.float64),
        carray(pointer(table[WEIGHT]), (places,), np.float64),
        carray(pointer(table[TABLES]), (sides, places * K), np.float64),
        carray(pointer(table[COUNTS_]), (1,), COUNTS),
        carray(pointer(table[MODELS]), (sides,), MODEL),
        carray(pointer(table[BOUNDS]), (table[N_BOUNDS],), np.int64),
        carray(pointer(table[W]), wide, np.float64),
        carray(pointer(table[G]), wide, np.float64),
        carray(pointer(table[FACTOR]), width, np.float64),
        carray(pointer(table[GAIN]), width, np.float64),
        carray(pointer(table[CENTRE]), width, np.float64),
        carray(pointer(table[CENTRED]), width, np.int64),
        carray(pointer(table[RAW]), wide, np.float64),
        carray(pointer(table[JUDGED]), (table[N_JUDGED],), np.float64),
        carray(pointer(table[X_]), (0,), np.uint8),
    )


@merged
def scratch_at(table: Any, rows: Any) -> Any:
    """Return the working memory whose arrays are at these addresses."""
    K, steps, count, sides = table[N_OUTPUTS], table[N_STEPS], table[N_ROWS], table[N_SIDES]
    return Scratch(
        carray(pointer(table[ORDERS]), (sides, steps), np.int64),
        carray(pointer(table[OVERWRITTEN]), (sides, steps * K), np.float64),
        carray(pointer(table[SCORES]), (count * K,), np.float64),
        carray(pointer(table[MARGINS]), (count * K,), np.float64),
        carray(pointer(table[LOSSES]), (count,), np.float64),
        carray(pointer(table[VALUES]), (table[N_VALUES],), np.float64),
        carray(pointer(table[COLUMNS]), (8, (rows.shape[1] + 1) * K), np.float64),
        carray(pointer(table[WHOLE]), (table[N_WHOLE],), np.int64),
        carray(pointer(table[REAL]), (table[N_REAL],), np.float64),
    )


def addresses_of(cell: Cell, scratch: Scratch, outputs: int) -> list[int]:
    """Return the table of a cell with dense rows and of its working memory."""
    sizes = (
        *(len(cell.y), outputs, len(cell.bounds), len(cell.judged)),
        *(scratch.orders.shape[1], len(scratch.losses), len(scratch.values), len(scratch.whole), len(scratch.real)),
        len(cell.models),
    )
    return [*(array.__array_interface__["data"][0] for array in (*cell[:-1], *scratch)), *sizes]
