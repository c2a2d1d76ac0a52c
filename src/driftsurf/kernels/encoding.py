"""Encoded rows of tables: their assembly column by column, the check of sparse rows, and sums over their columns.

All loops keep the order of arithmetic, so that results agree to the bit with those of the numpy functions that they
stand for.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import types

from driftsurf.kernels.compile import F8, I8, _in, _out, kernel

I4: Any = types.int32


@kernel(lambda f: (_in(F8), F8, I8, _out(F8, 2), _out(F8)), exact=True)
def put_column(values: Any, fill: Any, place: Any, out: Any, missing: Any) -> Any:
    """Write numbers to a column of ``out``, with ``fill`` for NaN, whose rows become 1 in ``missing``.

    Returns the number of missing values.
    """
    found = 0
    for i in range(values.shape[0]):
        value = values[i]
        if value != value:
            value = fill
            missing[i] = 1.0
            found += 1
        out[i, place] = value
    return found


@kernel(
    lambda f: (_in(F8, 2), _in(I4, 2), _in(I4, 2), _in(F8), _out(F8), _out(F8), _out(I4), _out(I8)),
    exact=True,
)
def assemble_rows(
    values: Any, words: Any, places: Any, fills: Any, marks: Any, data: Any, indices: Any, indptr: Any
) -> Any:
    """Write the values that are not 0, with their columns, as CSR rows, from columns that stand one after the other.

    Parameters
    ----------
    values
        The value of each place (first axis) in each row.
    words
        Columns that depend on the row.
    places
        For each place: its column; the row of ``words`` that has its columns instead, or -1; the place that marks its
        missing values, or -1; and whether it is such a mark, whose values do not count.
    fills
        What replaces a missing value (NaN) at each place.
    marks
        Zeros for each place, which are zeros again afterwards.
    data, indices, indptr
        The rows, with room for all values.

    Returns
    -------
    The number of values, and how many of them are not finite.
    """
    count = infinite = 0
    indptr[0] = 0
    for i in range(values.shape[1]):
        for k in range(values.shape[0]):
            value = values[k, i]
            if places[3, k] != 0:
                value = marks[k]
                marks[k] = 0.0
            elif value != value:
                value = fills[k]
                if places[2, k] >= 0:
                    marks[places[2, k]] = 1.0
            word = places[1, k]
            # Written in any case, since a branch would be mispredicted.
            data[count] = value
            indices[count] = places[0, k] if word < 0 else words[word, i]
            infinite += 0 if abs(value) < math.inf else 1
            count += 1 if value != 0.0 else 0
        indptr[i + 1] = count
    return count, infinite


@kernel(lambda f: (_in(f), _in(I4), _in(I8), I8))
def is_sound_csr(data: Any, indices: Any, indptr: Any, n_features: Any) -> Any:
    """Return whether CSR rows can be used as they are: finite, and in each row columns that exist and rise."""
    if indptr[0] != 0 or indptr[indptr.shape[0] - 1] != data.shape[0] or data.shape[0] != indices.shape[0]:
        return False
    for i in range(indptr.shape[0] - 1):
        if indptr[i + 1] < indptr[i] or indptr[i + 1] > data.shape[0]:
            return False
    bad = 0
    for p in range(data.shape[0]):
        bad += 0 if abs(data[p]) < math.inf else 1
    for i in range(indptr.shape[0] - 1):
        before: Any = -1
        for p in range(indptr[i], indptr[i + 1]):
            column: Any = np.int64(indices[p])
            bad += 1 if column <= before or column >= n_features else 0
            before = column
    return bad == 0


@kernel(lambda f: (_in(f), _in(I4), _in(I8), _in(F8, 2), _out(F8, 2)), exact=True)
def column_products(data: Any, indices: Any, indptr: Any, targets: Any, out: Any) -> None:
    """Add, for each column c of CSR rows, its products with each target and with itself to row c + 1 of ``out``.

    Row 0 gets the sums of the targets and the number of rows, as a column of ones would. Columns beyond the rows of
    ``out`` are left out. The sums of a column stand side by side, in one line of the cache.
    """
    last = targets.shape[1]
    if last == 2:  # two classes, written out: twice as fast
        for i in range(targets.shape[0]):
            first, second = targets[i, 0], targets[i, 1]
            out[0, 0] += first
            out[0, 1] += second
            out[0, 2] += 1.0
            for p in range(indptr[i], indptr[i + 1]):
                c = np.uintp(indices[p]) + np.uintp(1)
                if c < np.uintp(out.shape[0]):
                    value = np.float64(data[p])
                    out[c, 0] += value * first
                    out[c, 1] += value * second
                    out[c, 2] += value * value
        return
    for i in range(targets.shape[0]):
        for k in range(last):
            out[0, k] += targets[i, k]
        out[0, last] += 1.0
        for p in range(indptr[i], indptr[i + 1]):
            c = np.uintp(indices[p]) + np.uintp(1)
            if c < np.uintp(out.shape[0]):
                value = np.float64(data[p])
                for k in range(last):
                    out[c, k] += value * targets[i, k]
                out[c, last] += value * value
