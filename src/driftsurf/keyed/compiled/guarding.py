"""The range guard inside the compiled loops of a fleet: values are limited, and rows that are too large lose weight.

``session/guard.py`` says what it is for. The rows of a time step are admitted by the kernel that admits those of a
single model, called by address, so that a key has the same numbers to the bit. All of this is compiled on its own, and
called by address too: a fleet without a guard does not compile it. numba does not notice changes to other files: remove
the ``__pycache__`` folders (``make clean``) after changing a file that this one imports.

In the arguments, ``blocks`` is the memory of all keys and ``k`` a slot (``layout.py``).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numba
import numpy as np
from numba import types

from driftsurf.core.column_sizes import FRAME_RULES, MOST_PASSES
from driftsurf.core.targets import MARGIN
from driftsurf.kernels.columns import squared_norms_dense
from driftsurf.kernels.compile import F8, I8, _in, _out, kernel, merged
from driftsurf.kernels.guard import CAP, COLUMN_CAP, LIMIT, MASS, TOTAL, UNSIZED
from driftsurf.kernels.remote import ADDRESS, DIRECT, Remote
from driftsurf.keyed.compiled.block import guard_of, labels_of, part_of, range_of, weight_of
from driftsurf.keyed.compiled.guard_memory import GuardScratch
from driftsurf.session.session import LEAST_WEIGHT
from driftsurf.strategies.compiled.addresses import REMOTES, calls_by_address, frame_at, pairwise_sum_at
from driftsurf.strategies.compiled.direct import ADMIT, admit_at
from driftsurf.strategies.compiled.layout import FLAG, named_type

__all__ = [
    "GuardKernels",
    "admit_step",
    "guard_kernels",
    "guard_kernels_type",
    "guard_scratch_type",
    "keep_guard",
    "limit_numbers",
    "limit_rows",
]


def guard_scratch_type(f: Any) -> Any:
    """Return the numba type of the working memory for rows of this type."""
    vectors = "later", "norms", "finite", "values", "stack", "range"
    matrices = "after", "frame", "sizes", "unit"
    fields = dict.fromkeys(vectors, _out(F8)) | dict.fromkeys(matrices, _out(F8, 2))
    return named_type(GuardScratch, rows=_out(f, 2), **fields)


# ---------------------------------------------------------------------------- the rows of a time step


class GuardKernels(NamedTuple):
    """The addresses of the kernels that admit the rows of a time step, or placeholders."""

    admit_rows: Any
    admit: Any
    squared_norms: Any
    frame: Any
    pairwise_sum: Any


def guard_kernels_type() -> Any:
    """Return the numba type of ``GuardKernels``."""
    return types.NamedUniTuple(ADDRESS if calls_by_address() else DIRECT, len(GuardKernels._fields), GuardKernels)


NORMS = Remote(squared_norms_dense, lambda f: types.none(_in(f, 2), _in(F8), _in(F8), _out(F8)))
norms_at: Any = NORMS.at


def _admit_type(f: Any) -> tuple[Any, ...]:
    return _out(f, 2), _out(F8), _in(F8, 2), _in(F8), F8, FLAG, guard_scratch_type(f), guard_kernels_type()


@kernel(_admit_type, exact=True, part=True)
def admit_rows(
    rows: Any, weight: Any, before: Any, recent: Any, squared: Any, quadratic: Any, scratch: Any, kernels: Any
) -> Any:
    """Admit the rows of a time step to the guard of their key, as ``RangeGuard.admit`` and ``Session`` do.

    Values beyond their limits are limited, and ``weight`` is reduced where a row is too large. The numbers of the guard
    after these rows are left in ``scratch``. Returns how many norms there are.
    """
    n, out = rows.shape[0], scratch.norms[: rows.shape[0]]
    how = squared, True, scratch.after, scratch.later, out, scratch.values
    status, extremes, kept, weighted = admit_at(kernels.admit, rows)(rows, before, recent, recent[:0], *how)
    if status == UNSIZED:
        finite = scratch.finite[:n]
        norms_at(kernels.squared_norms, rows)(rows, scratch.unit[0], scratch.unit[1], finite)
        for i in range(n):
            finite[i] = 1.0 if finite[i] < math.inf else 0.0
        centre, sizes = scratch.sizes[0], scratch.sizes[1]
        frame_at(kernels.frame, rows)(
            rows, finite, False, FRAME_RULES, MOST_PASSES, centre, sizes, scratch.frame, scratch.values[:n]
        )
        status, extremes, kept, weighted = admit_at(kernels.admit, rows)(rows, before, recent, sizes, *how)
    if extremes > 0:
        for i in range(n):
            for c in range(rows.shape[1]):
                most = LIMIT / CAP * scratch.after[COLUMN_CAP, c]
                rows[i, c] = min(max(np.float64(rows[i, c]), -most), most)
    if weighted:
        whole = pairwise_sum_at(kernels.pairwise_sum, rows)(weight, scratch.stack)
        for i in range(n):
            # A loss that grows with the square of a score needs the square of the weight to be bounded.
            weight[i] = weight[i] * (out[i] * out[i] if quadratic else out[i])
        # A risk is a weighted mean, so a batch of extreme rows alone would count in full: drop its weight.
        if not pairwise_sum_at(kernels.pairwise_sum, rows)(weight, scratch.stack) >= LEAST_WEIGHT * whole:
            for i in range(n):
                weight[i] = 0.0
    return kept


ADMIT_ROWS = Remote(admit_rows, lambda f: I8(*_admit_type(f)))
admit_rows_at: Any = ADMIT_ROWS.at


def guard_kernels(f: Any, *, guarded: bool) -> GuardKernels:
    """Return the kernels for rows of a numba type: by address if that works here, else placeholders."""
    remotes = ADMIT_ROWS, ADMIT, NORMS, REMOTES["frame"], REMOTES["pairwise_sum"]
    if numba.config.DISABLE_JIT or (guarded and calls_by_address()):
        return GuardKernels(*(one.address(f) for one in remotes))
    empty: Any = 0 if calls_by_address() else np.uint8(0)
    return GuardKernels(*(empty for _ in remotes))


@merged
def admit_step(blocks: Any, k: Any, cell: Any, count: Any, training: Any, scratch: Any, kernels: Any) -> Any:
    """Admit the rows that wait to the guard of a key; return how many norms there are then.

    ``keep_guard`` keeps what this leaves in the scratch memory, once the time step has been taken.
    """
    counts, mine = cell.counts[0], scratch.guard
    a = counts["next"] - counts["base"]
    weight = weight_of(blocks, k)[a : a + count]
    if training.regression:
        _extend_range(labels_of(blocks, k)[a : a + count], weight, range_of(blocks, k), mine.range)
    start, known = blocks.norm_starts[k], guard_of(blocks, k)
    recent = part_of(blocks.norms, start, (blocks.norm_counts[k],))
    how = blocks.guarding.squared, blocks.guarding.quadratic
    return admit_rows_at(kernels.guard.admit_rows, blocks.values)(
        cell.X[a : a + count], weight, known, recent, how[0], how[1], mine, kernels.guard
    )


@merged
def _extend_range(y: Any, weight: Any, before: Any, after: Any) -> None:
    """Write the range of the numbers learned, extended by those of positive weight, as ``RegressionTargets`` does."""
    low = math.inf
    high = -math.inf
    for i in range(y.shape[0]):
        if weight[i] > 0.0:
            low = min(low, y[i])
            high = max(high, y[i])
    after[0] = before[0]
    after[1] = before[1]
    if low <= high:
        bounded = before[1] < math.inf
        after[0] = min(low, before[0]) if bounded else low
        after[1] = max(high, before[1]) if bounded else high


@merged
def keep_guard(blocks: Any, k: Any, kept: Any, training: Any, scratch: Any) -> None:
    """Keep the numbers of the guard after the rows of a time step."""
    mine, known = scratch.guard, guard_of(blocks, k)
    for row in range(known.shape[0]):
        for c in range(known.shape[1]):
            known[row, c] = mine.after[row, c]
    norms = part_of(blocks.norms, blocks.norm_starts[k], (kept,))
    for i in range(kept):
        norms[i] = mine.later[i]
    blocks.norm_counts[k] = kept
    if training.regression:
        limits = range_of(blocks, k)
        limits[0] = mine.range[0]
        limits[1] = mine.range[1]


# ---------------------------------------------------------------------------- rows to be predicted


@merged
def limit_rows(blocks: Any, k: Any, rows: Any, out: Any) -> None:
    """Copy rows, with values limited to those that are usual for their key."""
    known = guard_of(blocks, k)
    for c in range(rows.shape[1]):
        total, mass = known[TOTAL, c], known[MASS, c]
        most = LIMIT * (total / mass) if mass > 0.0 else math.inf
        for i in range(rows.shape[0]):
            value = np.float64(rows[i, c])
            out[i, c] = value if abs(value) <= most else min(max(value, -most), most)


@merged
def limit_numbers(blocks: Any, k: Any, out: Any) -> None:
    """Limit predicted numbers to the range of those learned, widened on both sides."""
    limits = range_of(blocks, k)
    if limits[1] < math.inf:
        margin = MARGIN * (limits[1] - limits[0])
        low, high = limits[0] - margin, limits[1] + margin
        for i in range(out.shape[0]):
            out[i] = low if out[i] < low else high if out[i] > high else out[i]
