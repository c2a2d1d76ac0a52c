"""A bank: the models of an ensemble in the arrays of one cell, all of which one call of compiled code trains.

The rule of the ensemble, such as who votes, joins and leaves, stays in Python. numba caches compiled code for as long
as this file stays the same: remove the ``__pycache__`` folders (``make clean``) after changing a file that this one
imports.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numba
import numpy as np
import numpy.typing as npt

from driftsurf.core.contracts import Batch, FloatArray, IntArray, Rows, Segment
from driftsurf.kernels.compile import F8, I8, Sparse, _in, kernel, renamed, uncounted
from driftsurf.kernels.remote import borrowed, entry_of
from driftsurf.learners._linear import diverged, margins_of_all
from driftsurf.strategies._pool import Member, Pool
from driftsurf.strategies.compiled.addresses import kernels_type
from driftsurf.strategies.compiled.layout import (
    DIVERGED,
    LEARNED,
    LOGISTIC,
    SCRATCH,
    TRAINING,
    Cell,
    Scratch,
    cell_type,
    make_scratch,
    never_reacting,
)
from driftsurf.strategies.compiled.model import (
    begin_update,
    copy_model,
    end_update,
    forget_rows,
    make_model,
    run_anchored,
    run_both,
    run_update,
)
from driftsurf.strategies.compiled.models import CellModels
from driftsurf.strategies.compiled.places import addresses_of, cell_at, scratch_at
from driftsurf.strategies.compiled.rows import stored_between
from driftsurf.strategies.compiled.suitable import fits_bank, step_is_at_hand, training_of
from driftsurf.strategies.compiled.table import kernel_addresses

__all__ = ["Bank", "bank_of", "work_on_cell", "work_on_sparse_cell", "work_on_table"]

MAKE, TRAIN, FORGET, COPY = 0, 1, 2, 3
"""Codes of what is done with models."""
MOST_SIDES = 128
"""Most models of a bank. Every step copies their weights, to be able to go back."""
NO_ANCHOR = np.zeros(0)


@uncounted
def _train(cell: Any, numbers: Any, anchor: Any, training: Any, scratch: Any, kernels: Any) -> Any:
    """Update models, with so many gradient steps each; return LEARNED or DIVERGED."""
    count, hi = numbers.shape[1], cell.counts[0]["next"]
    for i in range(count):
        begin_update(cell, numbers[0, i], hi, numbers[1, i], training, scratch, kernels)
    i = 0
    while i < count:
        side, steps = numbers[0, i], numbers[1, i]
        if anchor.shape[0] > 0:
            run_anchored(cell, side, steps, anchor, training, scratch, kernels)
        elif training.paired and i + 1 < count and numbers[1, i + 1] == steps:
            i += 1
            run_both(cell, side, numbers[0, i], steps, training, scratch, kernels)
        else:
            run_update(cell, side, steps, training, scratch, kernels)
        i += 1
    for i in range(count):
        if not end_update(cell, numbers[0, i], training, scratch, kernels):
            return DIVERGED
    for c in range(anchor.shape[0]):  # the models learned the difference
        cell.raw[numbers[0, 0], c] += anchor[c]
    return LEARNED


def _work(cell: Any, command: Any, numbers: Any, anchor: Any, training: Any, scratch: Any, kernels: Any) -> Any:
    """Make models, train them on the rows so far, let them forget rows, or copy them; return LEARNED or DIVERGED.

    The first row of ``numbers`` has the sides of the models. MAKE takes the step and the first row of each from the
    other two, TRAIN the number of its gradient steps, FORGET the first row that it keeps, and COPY the side of another
    model without rows, and the step. ``anchor`` is the point that the penalty of one model pulls towards, or empty.
    """
    cell, scratch = borrowed((cell, scratch), kernels)
    if command == TRAIN:
        return _train(cell, numbers, anchor, training, scratch, kernels)
    for i in range(numbers.shape[1]):
        if command == MAKE:
            make_model(cell, numbers[0, i], numbers[1, i], numbers[2, i], training, kernels)
        elif command == FORGET:
            forget_rows(cell, numbers[0, i], numbers[1, i], training, kernels)
        else:
            copy_model(cell, numbers[0, i], numbers[1, i], numbers[2, i])
    return LEARNED


def _arguments(f: Any) -> tuple[Any, ...]:
    return cell_type(f), I8, _in(I8, 2), _in(F8), TRAINING, SCRATCH, kernels_type()


# Two kernels, so that neither is compiled before rows of its kind are learned.
work_on_cell: Any = kernel(_arguments, exact=True)(renamed(_work, "work_on_cell"))
work_on_sparse_cell: Any = kernel(lambda f: _arguments(Sparse(f)), exact=True)(renamed(_work, "work_on_sparse_cell"))
_work_inside: Any = uncounted(_work)


@kernel(lambda f: (_in(f, 2), _in(I8), I8, _in(I8, 2), _in(F8), TRAINING, kernels_type()), exact=True)
def work_on_table(X: Any, table: Any, command: Any, numbers: Any, anchor: Any, training: Any, kernels: Any) -> Any:
    """Work on the models of a cell with dense rows, given the table of its arrays; ``X`` are its rows."""
    cell, scratch = cell_at(table, X), scratch_at(table, X)
    return _work_inside(cell, command, numbers, anchor, training, scratch, kernels)


class Bank(CellModels):
    """Rows and models of an ensemble of linear models, in the arrays of a cell with a side for each model.

    Parameters
    ----------
    pool
        Pool with the rows, which are copied.
    members
        Models, which are copied to the first sides.
    sides
        Number of models for which there is room.
    """

    def __init__(self, pool: Pool, members: Sequence[Member], sides: int) -> None:
        super().__init__(pool, never_reacting(pool.max_rows), sides=sides)
        self._named: tuple[Cell, Scratch] | None = None
        self._places: npt.NDArray[np.int64] = np.zeros(0, np.int64)
        for side, member in enumerate(members):
            self._put(side, member)

    # -------------------------------------------------------------------- rows

    @property
    def first_row(self) -> int:
        """Number of the oldest row."""
        row: int = self._cell.counts["first"].item()
        return row

    @property
    def next_row(self) -> int:
        """Number of the next row."""
        row: int = self._cell.counts["next"].item()
        return row

    def takes(self, count: int) -> bool:
        """Return whether there can be room for so many more rows."""
        return not self._outgrown(count, self._end)

    def _further_bytes(self, rows: int) -> int:
        return 8 * rows * self._sides * self._training.outputs

    def append(self, batch: Batch) -> Segment:
        """Store rows, and return their numbers; the caller has marked the bank."""
        counts = self._cell.counts
        self._store(batch, 0, self._end)
        lo: int = counts["next"].item()
        counts["next"] += len(batch.y)
        return Segment(lo, lo + len(batch.y))

    def view(self, segment: Segment) -> Batch:
        """Return rows as views, which stay valid until the next row is appended."""
        cell, base = self._cell, self._cell.counts["base"].item()
        a, b = segment.lo - base, segment.hi - base
        return Batch(stored_between(cell.X, a, b), cell.y[a:b], cell.weight[a:b], segment.lo)

    def release(self, before_row: int) -> None:
        """Release the rows before number ``before_row``."""
        counts = self._cell.counts
        if before_row > counts["first"].item():
            counts["first"] = before_row

    # -------------------------------------------------------------------- models

    def numbers(self, name: str) -> list[int]:
        """Return one of the numbers of each model, in the order of the sides."""
        values: list[int] = self._cell.models[name].tolist()
        return values

    def make(self, side: int, step: int, first_row: int) -> None:
        """Make a fresh model with the next number."""
        self._run(MAKE, np.array(((side,), (step,), (first_row,))))

    def train(self, sides: Sequence[int], steps: Sequence[int], anchor: FloatArray = NO_ANCHOR) -> None:
        """Take gradient steps with several models; DivergenceError if training diverged."""
        rows, hi = len(self._scratch.losses), self.next_row
        if self._training.regression:  # a model meets all rows since it has learned
            rows = max(rows, *(hi - self.numbers("hi")[side] for side in sides if self.numbers("lo")[side] >= 0), 0)
        if rows > len(self._scratch.losses) or max(steps) > self._scratch.orders.shape[1]:
            sizes = rows, len(self._scratch.values), max(steps)
            self._scratch = make_scratch(self._n_features, *sizes, self._training.outputs, self._sides)
        if len(anchor) and not self._kernels.saga_anchored:
            rows_type, sparse = self._pool.samples.dtype, self._pool.samples.sparse
            self._kernels = kernel_addresses(rows_type, self._rule, self._training, sparse=sparse, anchored=True)
        if self._run(TRAIN, np.array((sides, steps)), anchor) != LEARNED:
            raise diverged(*self._scratch.real[:2].tolist())
        self._log_touched()

    def copy(self, sides: Sequence[int], copies: Sequence[int], step: int) -> None:
        """Copy models without rows to other sides, with the next numbers."""
        self._run(COPY, np.array((copies, sides, (step,) * len(copies)), np.int64))

    def forget(self, sides: Sequence[int], before_row: int) -> None:
        """Drop the rows before number ``before_row`` from the sample sets of models."""
        self._run(FORGET, np.array((sides, (before_row,) * len(sides))))

    def _run(self, command: int, numbers: IntArray, anchor: FloatArray = NO_ANCHOR) -> int:
        how = command, numbers, anchor, self._training
        status: int
        if self._pool.samples.sparse:
            status = work_on_sparse_cell(self._cell, *how, self._scratch, self._kernels)
        elif numba.config.DISABLE_JIT:
            status = work_on_cell(self._cell, *how, self._scratch, self._kernels)
        else:
            status = self._entry(self._cell.X, self._addresses(), *how, self._kernels)
        return status

    @functools.cached_property
    def _entry(self) -> Callable[..., int]:
        """The kernel ``work_on_table`` for rows of this type, whose arguments are not checked any more."""
        kernel: Any = work_on_table
        return entry_of(kernel.compiled_for(self._cell.X.dtype, False))

    def _addresses(self) -> npt.NDArray[np.int64]:
        cell, scratch = self._cell, self._scratch
        if self._named is None or self._named[0] is not cell or self._named[1] is not scratch:
            self._places = np.array(addresses_of(cell, scratch, self._training.outputs), np.int64)
            self._named = cell, scratch
        return self._places

    # -------------------------------------------------------------------- predicting, and the generic path

    def raw_weights(self, sides: Sequence[int]) -> FloatArray:
        """Return the weights by which models of logistic regression score rows, a row for each model."""
        weights: FloatArray = self._cell.raw[list(sides)]
        return weights

    def joint_scorer(self, sides: Sequence[int]) -> Callable[[Rows], Sequence[FloatArray]]:
        """Return a function that scores rows with each of these models as it is now, in order."""
        if self._training.kind == LOGISTIC and sides:
            joint: Any = functools.partial(margins_of_all, self.raw_weights(sides))
            return joint  # type: ignore[no-any-return]  # a row of its result for each model
        return functools.partial(_one_by_one, [self._scorer_of(side) for side in sides])

    def anchor(self, side: int, anchor: FloatArray) -> None:
        """Let the penalty of a fresh model pull towards a point: the model learns the difference from now on."""
        self._cell.w[side] -= anchor


def _one_by_one(scorers: list[Callable[[Rows], FloatArray]], X: Rows) -> list[FloatArray]:
    return [scorer(X) for scorer in scorers]


def bank_of(pool: Pool, members: Sequence[Member], sides: int, *, learning: bool) -> Bank | None:
    """Return a bank with these models; None if they do not suit it, or it would have to be compiled for little work.

    Models that are not ``learning`` vote, but will not be trained again.
    """
    samples = pool.samples
    if not (pool.grows or pool.n_classes == pool.capabilities.min_classes) or sides > MOST_SIDES:
        return None
    rule = never_reacting(pool.max_rows)
    training = training_of(pool.template, pool.n_classes, samples.n_features, sparse=samples.sparse)
    work = work_on_sparse_cell if samples.sparse else work_on_table
    if not step_is_at_hand(rule, training, sparse=samples.sparse, kernel=work):
        return None
    return Bank(pool, members, sides) if fits_bank(pool, members, sides, learning=learning) else None
