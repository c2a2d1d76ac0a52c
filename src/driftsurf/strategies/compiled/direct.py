"""A usual time step in one call: rows are checked, stored, weighed by the range guard and learned by compiled code.

The kernel ``take`` is given a table with the addresses of its arrays (``places.py``), and is called without a look at
the elements of its arguments. numba has no public way to do that: it is tested at first use, together with calls by
address (``kernels/remote.py``); where it fails, a warning says so, and no step is compiled.

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
from numba import from_dtype

from driftsurf.core.abilities import Taken
from driftsurf.core.contracts import FloatArray
from driftsurf.kernels.columns import limit_of
from driftsurf.kernels.compile import F8, I8, _in, kernel, uncounted
from driftsurf.kernels.guard import (
    ADMITTED,
    CAP,
    COLUMN_CAP,
    LIMIT,
    MASS,
    TOTAL,
    Admission,
    admission_type,
    admit_csr,
    admit_dense,
    admit_type,
)
from driftsurf.kernels.remote import Remote, entry_of
from driftsurf.strategies.compiled.addresses import kernels_type
from driftsurf.strategies.compiled.cell import CompiledModels
from driftsurf.strategies.compiled.layout import FLAG, LEARNED, LOGISTIC, RULE, TRAINING, TRANSITIONS, Cell, Scratch
from driftsurf.strategies.compiled.places import SIZE, addresses_of, cell_at, scratch_at
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

# Places in the table after those of ``places.py``.
LEARN_, ADMIT_ = SIZE, SIZE + 1


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
def _is_within(X: Any, before: Any, limits: Any) -> Any:
    """Return whether no value has to be limited to be predicted; ``limits`` is memory for one number a column."""
    for c in range(X.shape[1]):
        limits[c] = limit_of(before[TOTAL, c], before[MASS, c], LIMIT)
    outside = 0
    for i in range(X.shape[0]):
        for c in range(X.shape[1]):
            outside += 0 if abs(np.float64(X[i, c])) <= limits[c] else 1
    return outside == 0


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
    """Check, store and learn rows as one time step of ``steps`` gradient steps.

    Without columns in ``admission`` there is no guard. With ``shown``, the scores of the rows are needed as they are,
    so that a step is refused whose values would have to be limited. Returns REFUSED if the step has to go the other
    way, and nothing was changed; LEARNED; or another result of ``learn``, after which the caller goes back to a mark.
    Then the number of norms in ``admission.later``, and that of transitions.
    """
    cell, scratch = cell_at(table, X), scratch_at(table, X)
    counts = cell.counts[0]
    count = codes.shape[0]
    a = counts["next"] - counts["base"]
    if a + count > cell.y.shape[0] or count > scratch.losses.shape[0] or steps > scratch.orders.shape[1]:
        return REFUSED, 0, 0  # there is no room
    if not _store(X, codes, cell, a):
        return REFUSED, 0, 0
    kept = 0
    if admission.before.shape[1] > 0:
        if shown and admission.clips and not _is_within(X, admission.before, scratch.columns[0]):
            return REFUSED, 0, 0
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
    how = rule, training, scratch_at(table, X), kernels
    return learn_at(table[LEARN_], X)(cell_at(table, X), count, steps, tested, *how)


class DirectModels(CompiledModels):
    """Rows and models in a cell, which take usual time steps in one call.

    A step that is not usual is left to ``step``: one for which there is no room yet, with a value that is not finite,
    with a row that the guard reduces in weight, or with a new class.
    """

    _places: npt.NDArray[np.int64] = np.zeros(0, np.int64)
    """Addresses and sizes of the arrays of ``_named``."""
    _named: tuple[Cell, Scratch] | None = None

    def take(self, X: npt.NDArray[Any], codes: FloatArray, admission: Admission, shown: bool) -> Taken | None:
        """Learn one batch of dense rows of the right type and width; None if ``step`` has to.

        The caller has made a mark, and puts the models back to it if the result is None or an exception is raised. With
        ``shown``, also return the scores of the rows before they are learned.
        """
        # Scores of other losses have to be limited, or turned into log-probabilities.
        if (shown and self._training.kind != LOGISTIC) or not ("_run" in vars(self) or call_is_at_hand(take)):
            return None
        count, rule, training = len(codes), self._rule, self._training
        status, kept, transitions = self._run(
            X, codes, self._addresses(), self._steps(count), shown, admission, rule, training, self._kernels
        )
        if status != LEARNED:
            return None
        scores = self._scratch.scores[:count].copy() if shown else NO_SCORES
        return Taken(self._outcome(count, transitions), kept, scores)

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
        f = from_dtype(cell.X.dtype)
        addresses = LEARN.address(f), ADMIT.address(f)
        table = np.array([*addresses_of(cell, scratch, self._training.outputs), *addresses], np.int64)
        self._named, self._places = (cell, scratch), table
        return table
