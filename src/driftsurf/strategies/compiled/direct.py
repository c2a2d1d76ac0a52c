"""A usual time step in one call: rows are checked, stored, weighed by the range guard and learned by compiled code.

A call from Python unpacks every array that it passes, and a cell with its scratch memory has two dozen of them, beside
some sixty numbers: that takes as long as learning a small batch. So the kernel ``take`` is given a table with their
addresses instead, from which it makes the arrays. The table is written again whenever an array is replaced.

numba has no public way to make a pointer from a number, and none to call a kernel without looking at all elements of
all arguments. Both are tested at first use, together with calls by address (``kernels/remote.py``); where they fail,
a warning says so, and no step is compiled.

numba caches compiled code for as long as this file stays the same: remove the ``__pycache__`` folders (``make clean``)
after changing a file that this one imports.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import carray, from_dtype

from driftsurf.core.abilities import Taken
from driftsurf.core.contracts import FloatArray
from driftsurf.kernels.compile import F8, I8, _in, kernel, merged, uncounted
from driftsurf.kernels.guard import (
    ADMITTED,
    CAP,
    COLUMN_CAP,
    LIMIT,
    Admission,
    admission_type,
    admit_csr,
    admit_dense,
    admit_type,
)
from driftsurf.kernels.remote import Remote, entry_of, pointer
from driftsurf.strategies.compiled.addresses import kernels_type
from driftsurf.strategies.compiled.cell import CompiledModels
from driftsurf.strategies.compiled.layout import (
    COUNTS,
    FLAG,
    LEARNED,
    LOGISTIC,
    MODEL,
    RULE,
    TRAINING,
    TRANSITIONS,
    Cell,
    Scratch,
)
from driftsurf.strategies.compiled.step import learn, learn_arguments
from driftsurf.strategies.compiled.suitable import call_is_at_hand

__all__ = ["DirectModels", "take"]

REFUSED = -1
"""Result of a step that has to go the other way, for instance because a value is not finite; nothing was changed."""

NO_SCORES = np.zeros(0)

LEARN = Remote(learn, lambda f: I8(*learn_arguments(f)))
ADMIT = Remote(admit_dense, admit_type, sparse=admit_csr)
learn_at: Any = LEARN.at
admit_at: Any = ADMIT.at

# Places in the table: addresses of arrays in the order of their fields, numbers, and addresses of kernels.
(X_, Y, WEIGHT, TABLES, COUNTS_, MODELS, BOUNDS, W, G, FACTOR, GAIN, CENTRE, CENTRED, RAW, JUDGED) = range(15)
(ORDERS, OVERWRITTEN, SCORES, MARGINS, LOSSES, VALUES, COLUMNS, WHOLE, REAL) = range(15, 24)
(N_PLACES, N_OUTPUTS, N_BOUNDS, N_JUDGED, N_STEPS, N_ROWS, N_VALUES, N_WHOLE, N_REAL) = range(24, 33)
(LEARN_, ADMIT_, SIZE) = range(33, 36)


@merged
def _cell(table: Any, rows: Any) -> Any:
    """Return the cell whose arrays are at these addresses; ``rows`` have the type of its rows."""
    d, K, places = rows.shape[1], table[N_OUTPUTS], table[N_PLACES]
    wide, width = (2, (d + 1) * K), (2, d + 1)
    return Cell(
        carray(pointer(table[X_]), (places, d), rows.dtype),
        carray(pointer(table[Y]), (places,), np.float64),
        carray(pointer(table[WEIGHT]), (places,), np.float64),
        carray(pointer(table[TABLES]), (2, places * K), np.float64),
        carray(pointer(table[COUNTS_]), (1,), COUNTS),
        carray(pointer(table[MODELS]), (2,), MODEL),
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
def _scratch(table: Any, rows: Any) -> Any:
    """Return the working memory whose arrays are at these addresses."""
    K, steps, count = table[N_OUTPUTS], table[N_STEPS], table[N_ROWS]
    return Scratch(
        carray(pointer(table[ORDERS]), (2, steps), np.int64),
        carray(pointer(table[OVERWRITTEN]), (2, steps * K), np.float64),
        carray(pointer(table[SCORES]), (count * K,), np.float64),
        carray(pointer(table[MARGINS]), (count * K,), np.float64),
        carray(pointer(table[LOSSES]), (count,), np.float64),
        carray(pointer(table[VALUES]), (table[N_VALUES],), np.float64),
        carray(pointer(table[COLUMNS]), (8, (rows.shape[1] + 1) * K), np.float64),
        carray(pointer(table[WHOLE]), (table[N_WHOLE],), np.int64),
        carray(pointer(table[REAL]), (table[N_REAL],), np.float64),
    )


@uncounted
def _store(X: Any, codes: Any, cell: Any, a: Any) -> Any:
    """Write new rows to the places from a on, with weight 1; return whether all values are finite."""
    values, stored = X.reshape(X.size), cell.X.reshape(cell.X.size)
    start = a * X.shape[1]
    bad = 0
    for k in range(values.shape[0]):
        value = values[k]
        stored[start + k] = value
        bad += 0 if abs(value) < math.inf else 1
    for i in range(codes.shape[0]):
        cell.y[a + i] = codes[i]
        cell.weight[a + i] = 1.0
    return bad == 0


@uncounted
def _clip(rows: Any, cap: Any) -> None:
    """Limit values to ``LIMIT`` times the usual size of their column, given the cap of each column."""
    for i in range(rows.shape[0]):
        for c in range(rows.shape[1]):
            most = LIMIT / CAP * cap[c]
            rows[i, c] = min(max(np.float64(rows[i, c]), -most), most)


@kernel(lambda f: (_in(f, 2), _in(F8), _in(I8), I8, FLAG, admission_type(), RULE, TRAINING, kernels_type()), exact=True)
def take(
    X: Any, codes: Any, table: Any, steps: Any, shown: Any, admission: Any, rule: Any, training: Any, kernels: Any
) -> Any:
    """Check, store and learn rows as one time step of ``steps`` gradient steps; there is room for them.

    Without columns in ``admission`` there is no guard. With ``shown``, the scores of the rows are needed as they are,
    so that a step is refused whose values would have to be limited. Returns REFUSED if the step has to go the other
    way, and nothing was changed; LEARNED; or another result of ``learn``, after which the caller restores the cell.
    Then the number of norms in ``admission.later``, and that of transitions.
    """
    cell, scratch = _cell(table, X), _scratch(table, X)
    counts = cell.counts[0]
    count = codes.shape[0]
    a = counts["next"] - counts["base"]
    if not _store(X, codes, cell, a):
        return REFUSED, 0, 0
    kept = 0
    if admission.before.shape[1] > 0:
        status, extremes, kept, weighted = admit_at(table[ADMIT_], X)(
            X,
            admission.before,
            admission.recent,
            admission.recent[:0],
            admission.squared,
            admission.clips,
            admission.after,
            admission.later,
            scratch.losses[:count],
            admission.work,
        )
        if status != ADMITTED or weighted or (shown and admission.clips and extremes > 0):
            return REFUSED, 0, 0
        if admission.clips and extremes > 0:
            _clip(cell.X[a : a + count], admission.after[COLUMN_CAP])
    status = learn_at(table[LEARN_], X)(cell, count, steps, False, rule, training, scratch, kernels)
    return status, kept, scratch.whole[TRANSITIONS]


@kernel(lambda f: (_in(f, 2), _in(I8), I8, I8, FLAG, RULE, TRAINING, kernels_type()), exact=True)
def learn_stored(
    X: Any, table: Any, count: Any, steps: Any, tested: Any, rule: Any, training: Any, kernels: Any
) -> Any:
    """Learn rows that are in their places, as ``learn`` does; ``X`` are the rows of the cell."""
    how = rule, training, _scratch(table, X), kernels
    return learn_at(table[LEARN_], X)(_cell(table, X), count, steps, tested, *how)


class DirectModels(CompiledModels):
    """Rows and models in a cell, which take usual time steps in one call.

    A step that is not usual is left to ``step``: one for which there is no room yet, with a value that is not finite,
    with a row that the guard reduces in weight, or with a new class.
    """

    _places: npt.NDArray[np.int64] = np.zeros(0, np.int64)
    """Addresses and sizes of the arrays of ``_named``."""
    _named: tuple[Cell, Scratch] | None = None

    def take(self, X: npt.NDArray[Any], codes: FloatArray, admission: Admission, *, shown: bool) -> Taken | None:
        """Learn one batch of dense rows of the right type and width; None if ``step`` has to, and nothing was changed.

        With ``shown``, also return the scores of the rows before they are learned.
        """
        count, steps = len(codes), self._steps(len(codes))
        cell, scratch = self._cell, self._scratch
        if self._end + count > len(cell.y) or len(scratch.losses) < count or scratch.orders.shape[1] < steps:
            return None
        # Scores of other losses have to be limited, or turned into log-probabilities.
        if (shown and self._training.kind != LOGISTIC) or not call_is_at_hand(take):
            return None
        mark = self.mark()
        try:
            how = self._rule, self._training, self._kernels
            status, kept, transitions = self._run(X, codes, self._addresses(), steps, shown, admission, *how)
            if status == LEARNED:
                scores = scratch.scores[:count].copy() if shown else NO_SCORES
                return Taken(self._outcome(count, transitions), kept, scores)
        except BaseException:
            self.put_back(mark)
            raise
        self.put_back(mark)
        return None

    def _run_learn(self, count: int, steps: int, known: bool) -> int:
        if not call_is_at_hand(learn_stored):
            return super()._run_learn(count, steps, known)
        X, how = self._cell.X, (self._rule, self._training, self._kernels)
        return self._learn_stored(X, self._addresses(), count, steps, known, *how)

    @functools.cached_property
    def _learn_stored(self) -> Callable[..., int]:
        """The kernel ``learn_stored`` for rows of this type, whose arguments are not checked any more."""
        kernel: Any = learn_stored
        return entry_of(kernel.compiled_for(self._cell.X.dtype, False))

    @functools.cached_property
    def _run(self) -> Callable[..., tuple[int, int, int]]:
        """The kernel ``take`` for rows of this type, whose arguments are not checked any more."""
        kernel: Any = take
        return entry_of(kernel.compiled_for(self._cell.X.dtype, False))

    def _addresses(self) -> npt.NDArray[np.int64]:
        """Return the table for ``take``."""
        cell, scratch = self._cell, self._scratch
        if self._named is not None and self._named[0] is cell and self._named[1] is scratch:
            return self._places
        arrays = *cell[:-1], *scratch
        sizes = (
            *(len(cell.y), self._training.outputs, len(cell.bounds), len(cell.judged)),
            *(scratch.orders.shape[1], len(scratch.losses), len(scratch.values), len(scratch.whole), len(scratch.real)),
        )
        f = from_dtype(cell.X.dtype)
        addresses = [array.__array_interface__["data"][0] for array in arrays]
        table = np.array([*addresses, *sizes, LEARN.address(f), ADMIT.address(f)], np.int64)
        self._named, self._places = (cell, scratch), table
        return table
