"""Memory of many keys, each with one cell of the compiled step, and the arguments of the loop over their rows.

A cell (``strategies/compiled/layout.py``) has everything that a time step reads and writes. Here each key has a *slot*:
its cell, with room for a fixed number of rows, and beside it the means of its columns and a few counts. Behind the rows
that were learned are the rows that wait until their time step is full.

numba does not notice changes to this file: remove the ``__pycache__`` folders (``make clean``) after changing it.
"""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import from_dtype, types

from driftsurf.core.contracts import FloatArray, IntArray
from driftsurf.kernels.compile import F8, I8, _out, merged
from driftsurf.keyed.compiled.block import part_of
from driftsurf.strategies.compiled.layout import COUNTS, MODEL, STACK, WHOLE_SIZE, Cell, named_type

__all__ = [
    "KNOWN",
    "LEARNED_CLASSES",
    "PENDING",
    "PENDING_FIRST",
    "CellSizes",
    "Cells",
    "Outcomes",
    "Plan",
    "VisitRows",
    "cell_of_slot",
    "cells_type",
    "make_cells",
    "make_outcomes",
]

Records = npt.NDArray[np.void]
PENDING, PENDING_FIRST, KNOWN, LEARNED_CLASSES = range(4)
"""Places in ``Cells.notes``: rows that wait for a full time step, the number of the first of them, classes that are
known, and classes that were known at the last time step."""
NOTES = 4
REAL_KEPT = STACK
"""Numbers of an outcome that a decision needs."""
WORD = 8


class CellSizes(NamedTuple):
    """Sizes of a key's memory, and where its arrays begin, in numbers of 8 bytes."""

    size: int
    models: int
    counts: int
    bounds: int
    centred: int
    w: int
    G: int
    factor: int
    gain: int
    centre: int
    raw: int
    judged: int
    end: int


class Cells(NamedTuple):
    """The cells of all slots."""

    X: npt.NDArray[Any]
    """Rows (slots, places, columns)."""
    y: FloatArray
    ones: FloatArray
    """The weight of every row."""
    tables: FloatArray
    means: FloatArray
    """The number of values of each column, and their sum (slots, 2, columns)."""
    notes: IntArray
    counts: Records
    models: Records
    int64: IntArray
    float64: FloatArray
    """All other arrays of the cells, as elements of each type."""
    ahead: npt.NDArray[np.uint8]
    """No memory: a step need not load any for the next one."""
    sizes: CellSizes


class VisitRows(NamedTuple):
    """Rows of a call, in any order, and the order in which they are served."""

    X: FloatArray
    codes: FloatArray
    """Labels as codes, or numbers."""
    order: IntArray
    """Rows key by key."""
    slots: IntArray
    starts: IntArray
    """Where the rows of each key start in ``order``, and where the last ones end."""
    scores: FloatArray
    """Filled by the loop, in the order of ``order``."""
    learned: IntArray
    """Filled by the loop: ``LEARNED_CLASSES`` when the row was predicted; of a regression, the time steps so far."""
    gaps: IntArray
    """Filled by the loop: cells of each key without a value."""
    failed: npt.NDArray[np.bool_]
    """Filled by the loop: keys that have to be served in another way. Their cells are of no use any more."""


class Plan(NamedTuple):
    """Rows and gradients of a time step, and whether missing values are filled, as the compiled loop takes them."""

    batch_size: int
    per_row: float
    per_batch: int
    """Gradients of a time step; -1 if they follow from ``per_row``."""
    fills: bool
    """Whether missing cells are filled."""


class Outcomes(NamedTuple):
    """Outcomes of the time steps of a call, as the compiled step leaves them."""

    whole: IntArray
    real: FloatArray
    group: IntArray
    """Number of the key in ``VisitRows.slots``."""
    place: IntArray
    """Place in ``VisitRows.order`` of the last row of the step."""
    length: IntArray


def make_cells(slots: int, places: int, cell: Cell) -> Cells:
    """Return memory for so many keys; the given cell has the shapes of all arrays but those of rows."""
    n_features = cell.X.shape[1]
    names = "models", "counts", *CellSizes._fields[3:-1]
    words = {name: getattr(cell, name).nbytes // WORD for name in names}
    starts = list(itertools.accumulate(words.values(), initial=0))
    unit = max(COUNTS.itemsize, MODEL.itemsize) // WORD
    size = -(-starts[-1] // unit) * unit
    sizes = CellSizes(size, **dict(zip(names, starts, strict=False)), end=starts[-1])
    flat = np.zeros(slots * size)
    return Cells(
        X=np.empty((slots, places, n_features), cell.X.dtype),
        y=np.empty((slots, places)),
        ones=np.ones(places),
        tables=np.empty((slots, 2, places)),
        means=np.zeros((slots, 2, n_features)),
        notes=np.zeros((slots, NOTES), np.int64),
        counts=flat.view(COUNTS),
        models=flat.view(MODEL),
        int64=flat.view(np.int64),
        float64=flat,
        ahead=np.empty(0, np.uint8),
        sizes=sizes,
    )


def make_outcomes(steps: int) -> Outcomes:
    """Return room for the outcomes of so many time steps."""
    return Outcomes(
        np.empty((steps, WHOLE_SIZE), np.int64),
        np.empty((steps, REAL_KEPT)),
        np.empty(steps, np.int64),
        np.empty(steps, np.int64),
        np.zeros(1, np.int64),
    )


@merged
def cell_of_slot(cells: Any, k: Any) -> Any:
    """Return the cell of a slot, as views."""
    at = cells.sizes
    start, width = k * at.size, cells.X.shape[2] + 1
    numbers, whole = cells.float64, cells.int64
    counts, model = (start + at.counts) * 8 // COUNTS_SIZE, start * 8 // MODEL_SIZE
    return Cell(
        cells.X[k],
        cells.y[k],
        cells.ones,
        cells.tables[k],
        part_of(cells.counts, counts, (1,)),
        part_of(cells.models, model, (2,)),
        part_of(whole, start + at.bounds, (at.centred - at.bounds,)),
        part_of(numbers, start + at.w, (2, width)),
        part_of(numbers, start + at.G, (2, width)),
        part_of(numbers, start + at.factor, (2, width)),
        part_of(numbers, start + at.gain, (2, width)),
        part_of(numbers, start + at.centre, (2, width)),
        part_of(whole, start + at.centred, (2, width)),
        part_of(numbers, start + at.raw, (2, width)),
        part_of(numbers, start + at.judged, (at.end - at.judged,)),
        cells.ahead,
    )


COUNTS_SIZE, MODEL_SIZE = COUNTS.itemsize, MODEL.itemsize


def cells_type(f: Any) -> Any:
    """Return the numba type of cells with rows of this type."""
    return named_type(
        Cells,
        X=_out(f, 3),
        y=_out(F8, 2),
        ones=_out(F8),
        tables=_out(F8, 3),
        means=_out(F8, 3),
        notes=_out(I8, 2),
        counts=_out(from_dtype(COUNTS)),
        models=_out(from_dtype(MODEL)),
        int64=_out(I8),
        float64=_out(F8),
        ahead=_out(types.uint8),
        sizes=types.NamedUniTuple(I8, len(CellSizes._fields), CellSizes),
    )


VISIT_ROWS = named_type(
    VisitRows,
    X=_out(F8, 2),
    failed=_out(types.boolean),
    **dict.fromkeys(("codes", "scores"), _out(F8)),
    **dict.fromkeys(("order", "slots", "starts", "learned", "gaps"), _out(I8)),
)
PLAN = named_type(Plan, batch_size=I8, per_row=F8, per_batch=I8, fills=types.boolean)
OUTCOMES = named_type(
    Outcomes, whole=_out(I8, 2), real=_out(F8, 2), **dict.fromkeys(("group", "place", "length"), _out(I8))
)
