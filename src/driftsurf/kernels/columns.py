"""Sizes of rows and columns, and checks of values.

The size of a column is the mean of its non-zero absolute values: zeros of a sparse column do not make it small. Each
value counts up to a cap only, so that an outlier does not change the scale of its column.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import types

from driftsurf.kernels.compile import F8, I8, _in, _out, _sparse, inline, kernel


@kernel(lambda f: (_in(f, 2), _in(F8), _in(F8), _out(F8)))
def squared_norms_dense(X: Any, factor: Any, centre: Any, out: Any) -> None:
    """Squared norms of rows in a frame: out[i] = sum of (factor * (x_i - centre))^2, with the constant column."""
    d = X.shape[1]
    for i in range(X.shape[0]):
        total = factor[d] * factor[d]
        for c in range(d):
            value = factor[c] * (X[i, c] - centre[c])
            total += value * value
        out[i] = total


@kernel(lambda f: (_sparse(f), _in(F8), _in(F8), _out(F8)))
def squared_norms_csr(rows: Any, factor: Any, centre: Any, out: Any) -> None:
    """Squared norms of sparse rows in a frame: (x - m)^2 = m^2 + x (x - 2 m), and most x are 0."""
    data, indices, indptr = rows
    last = factor[factor.shape[0] - 1]
    empty = last * last  # squared norm of a row without non-zeros
    for k in range(centre.shape[0]):
        empty += (factor[k] * centre[k]) ** 2
    for i in range(out.shape[0]):
        total = empty
        for p in range(indptr[i], indptr[i + 1]):
            c = np.uintp(indices[p])
            value = factor[c] * data[p]
            total += value * (value - 2.0 * factor[c] * centre[c])
        out[i] = total


@kernel(lambda f: (_in(f, 2),))
def all_finite(X: Any) -> Any:
    """Return whether no value is NaN or infinite."""
    values = X.reshape(X.size)  # one long loop is several times as fast as a short one for each row
    bad = 0  # counted to the end: without an early exit the loop is vectorised
    for k in range(values.shape[0]):
        bad += 0 if abs(values[k]) < math.inf else 1
    return bad == 0


WRITTEN, FULL, REFUSED = 0, 1, 2
"""Results of ``put_row``."""


@kernel(lambda f: (_in(f, 2), F8, _out(f, 2), _out(F8), _out(F8), I8, I8, I8))
def put_row(X: Any, code: Any, rows: Any, codes: Any, weight: Any, row: Any, at: Any, place: Any) -> Any:
    """Write a single row, its code and weight 1 to these places of arrays.

    Returns WRITTEN; FULL if an array is too short, and nothing was written; or REFUSED if a value is not finite.
    """
    if row >= rows.shape[0] or at >= codes.shape[0] or place >= weight.shape[0]:
        return FULL
    bad = 0
    for c in range(X.shape[1]):
        rows[row, c] = X[0, c]
        bad += 0 if abs(X[0, c]) < math.inf else 1
    codes[at] = code
    weight[place] = 1.0
    return WRITTEN if bad == 0 else REFUSED


@kernel(lambda f: (_in(f), F8, F8, types.boolean))
def all_between(values: Any, least: Any, most: Any, missing: Any) -> Any:
    """Return whether every value is from ``least`` to ``most``, or NaN where values may be ``missing``."""
    outside = 0
    for k in range(values.shape[0]):
        value = np.float64(values[k])
        outside += 0 if (value >= least and value <= most) or (missing and value != value) else 1
    return outside == 0


@kernel(lambda f: (_in(F8), I8))
def are_codes(values: Any, n_classes: Any) -> Any:
    """Return whether every value is the code of a class, an integer from 0 to ``n_classes`` - 1."""
    bad = 0
    for i in range(values.shape[0]):
        value = values[i]
        bad += 0 if value >= 0.0 and value < n_classes and value == math.floor(value) else 1
    return bad == 0


@kernel(lambda f: (_in(I8), I8, I8, _out(F8)))
def binary_codes(labels: Any, first: Any, second: Any, out: Any) -> Any:
    """Encode integer labels: 0 for ``first``, 1 for ``second``; return whether there is no other label."""
    other = 0
    for i in range(labels.shape[0]):
        is_second = labels[i] == second
        out[i] = 1.0 if is_second else 0.0
        other += 0 if is_second or labels[i] == first else 1
    return other == 0


@inline
def limit_of(total: Any, mass: Any, most: Any) -> Any:
    """Return the largest value of a column: ``most`` times its size, which is total / mass; infinity without mass."""
    return most * (total / mass) if mass > 0.0 else math.inf


@kernel(lambda f: (_in(F8), _in(F8), F8, _out(F8)), exact=True)
def column_limits(total: Any, mass: Any, most: Any, out: Any) -> None:
    """Write the largest value of each column; if ``out`` is longer, the values are repeated."""
    d = total.shape[0]
    for c in range(d):
        limit = limit_of(total[c], mass[c], most)
        for k in range(c, out.shape[0], d):
            out[k] = limit


@kernel(lambda f: (_in(F8), _in(F8)))
def range_of_weighted(values: Any, weight: Any) -> Any:
    """Return the smallest and the largest value of positive weight; infinity and -infinity if there is none."""
    low = math.inf
    high = -math.inf
    for i in range(values.shape[0]):
        if weight[i] > 0.0:
            low = min(low, values[i])
            high = max(high, values[i])
    return low, high


@kernel(lambda f: (_in(f, 2), _in(F8)))
def all_within_dense(X: Any, most: Any) -> Any:
    """Return whether every value is finite and at most ``most`` of its column in absolute value.

    ``most`` may hold the limits of the columns several times. As many rows are then read as one, because long loops are
    faster.
    """
    values = X.reshape(X.size)
    length = most.shape[0]
    count = X.size // length
    blocks = values[: count * length].reshape((count, length))
    rest = values[count * length :]
    for k in range(count):
        outside = 0  # counted to the end of the block, so that the loop is vectorised
        for c in range(length):
            size = abs(np.float64(blocks[k, c]))
            outside += 0 if size <= most[c] and size < math.inf else 1
        if outside:
            return False
    outside = 0
    for c in range(rest.shape[0]):
        size = abs(np.float64(rest[c]))
        outside += 0 if size <= most[c] and size < math.inf else 1
    return outside == 0


@kernel(lambda f: (_in(f), _in(types.int32), _in(F8)))
def all_within_csr(data: Any, indices: Any, most: Any) -> Any:
    """Return whether every value of sparse rows is finite and within ``most``, as ``all_within_dense`` does."""
    for p in range(data.shape[0]):
        size = abs(np.float64(data[p]))
        if not (size <= most[np.uintp(indices[p])] and size < math.inf):
            return False
    return True


@kernel(lambda f: (_in(f, 2), _in(F8), _out(f, 2)))
def clip_dense(X: Any, most: Any, out: Any) -> None:
    """Write the rows to ``out``, each value limited to the range -``most`` to ``most`` of its column."""
    for i in range(X.shape[0]):
        for c in range(X.shape[1]):
            out[i, c] = min(max(np.float64(X[i, c]), -most[c]), most[c])


@kernel(lambda f: (_in(f), _in(types.int32), _in(F8), _out(f)))
def clip_csr(data: Any, indices: Any, most: Any, out: Any) -> None:
    """Write the values of sparse rows to ``out``, each limited to the range -``most`` to ``most`` of its column."""
    for p in range(data.shape[0]):
        c = np.uintp(indices[p])
        out[p] = min(max(np.float64(data[p]), -most[c]), most[c])


@kernel(lambda f: (_in(f, 2), _in(F8), _out(F8), _out(F8)))
def extend_range_dense(X: Any, weight: Any, low: Any, high: Any) -> Any:
    """Extend the range ``low`` to ``high`` of each column by rows of positive weight; return how many of them did."""
    extending = 0
    for i in range(X.shape[0]):
        if weight[i] > 0.0:
            outside = 0
            for c in range(X.shape[1]):
                value = np.float64(X[i, c])
                outside += 1 if value < low[c] or value > high[c] else 0
            if outside:
                extending += 1
                for c in range(X.shape[1]):
                    value = np.float64(X[i, c])
                    low[c] = min(low[c], value)
                    high[c] = max(high[c], value)
    return extending


@kernel(lambda f: (_sparse(f), _in(F8), _out(F8), _out(F8)))
def extend_range_csr(rows: Any, weight: Any, low: Any, high: Any) -> Any:
    """Extend the range of each column by the values of sparse rows of positive weight; return how many of them did.

    A value of 0 that a row does not store belongs to the range. So a first range, if ``low`` is infinite, starts with
    0; and there is none yet if all values are 0.
    """
    data, indices, indptr = rows
    extending = 0
    first = low[0] == math.inf
    if first:
        for k in range(low.shape[0]):
            low[k] = 0.0
            high[k] = 0.0
    for i in range(weight.shape[0]):
        if weight[i] > 0.0:
            outside = 0
            for p in range(indptr[i], indptr[i + 1]):
                c = np.uintp(indices[p])
                value = np.float64(data[p])
                outside += 1 if value < low[c] or value > high[c] else 0
                low[c] = min(low[c], value)
                high[c] = max(high[c], value)
            extending += 1 if outside else 0
    if first and extending == 0:
        for k in range(low.shape[0]):
            low[k] = math.inf
            high[k] = -math.inf
    return extending
