"""Frames of linear models: the centre and the size of each column, estimated from rows, and the change to another one.

``core/column_sizes.py`` says what the estimates mean. Sums over rows are taken row by row, so that a column has the
same size whatever stands beside it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import types

from driftsurf.kernels.compile import F8, I8, _in, _out, _sparse, inline, kernel

FLAG: Any = types.boolean


@inline
def _select(values: Any, k: Any) -> Any:
    """Return the k-th smallest value, counted from 0, and reorder the values so that no smaller one is behind it.

    A quickselect; the pivot is the median of three. Its loops have no branches that depend on values, which a processor
    would mispredict half of the time. The values should not be NaN, with which the result means nothing.
    """
    lo = 0
    hi = values.shape[0]
    while True:
        a, b, c = values[lo], values[(lo + hi) // 2], values[hi - 1]
        pivot = max(min(a, b), min(max(a, b), c))
        smaller = lo
        for i in range(lo, hi):
            value = values[i]
            values[i] = values[smaller]
            values[smaller] = value
            smaller += value < pivot
        if k < smaller:
            hi = smaller
            continue
        lo = smaller
        for i in range(smaller, hi):
            value = values[i]
            values[i] = values[lo]
            values[lo] = value
            lo += value == pivot
        if k < lo or lo == smaller:  # nothing equals a pivot that is NaN
            return pivot


@kernel(lambda f: (_in(F8), _in(F8), _out(F8)), exact=True)
def median_target(y: Any, weight: Any, values: Any) -> Any:
    """Return the median target of the rows of positive weight; NaN if there is none.

    ``values`` is scratch space of as many numbers as there are rows.
    """
    n = 0
    for i in range(y.shape[0]):
        if weight[i] > 0.0:
            values[n] = y[i]
            n += 1
    return 0.0 + _median(values[:n]) if n > 0 else math.nan  # no negative zero


@inline
def _median(values: Any) -> Any:
    """Return the median of values, which are reordered; there is at least one."""
    n = values.shape[0]
    middle = _select(values, n // 2)
    if n % 2 == 1:
        return middle
    below = values[0]
    for i in range(1, n // 2):
        below = max(below, values[i])
    return (below + middle) / 2.0


@inline
def _begin_pass(sizes: Any, cap: Any, limit: Any, total: Any) -> None:
    """Set the limit of each column to ``cap`` times its size, and its sum to 0."""
    for c in range(sizes.shape[0]):
        limit[c] = cap * sizes[c]
        total[c] = 0.0


@inline
def _end_pass(total: Any, mass: Any, chosen: Any, sizes: Any) -> Any:
    """Write the size of each column that a pass has summed; return whether those of chosen columns have settled."""
    settled = True
    for c in range(sizes.shape[0]):
        size = total[c] / mass[c] if mass[c] > 0.0 else 0.0
        # Sizes decrease from pass to pass.
        settled = settled and (chosen[c] == 0.0 or sizes[c] <= 1.01 * size)
        sizes[c] = size
    return settled


@inline
def _centre_far_columns(
    chosen: Any, middle: Any, spread: Any, far: Any, farthest: Any, centre: Any, sizes: Any
) -> None:
    """Centre the chosen columns whose median is far from 0, compared with their spread."""
    for c in range(sizes.shape[0]):
        if chosen[c] != 0.0 and abs(middle[c]) >= far * spread[c]:
            centre[c] = middle[c]
            sizes[c] = max(spread[c], abs(middle[c]) / farthest)


@inline
def _sizes(X: Any, weight: Any, centre: Any, chosen: Any, cap: Any, most_passes: Any, sizes: Any, work: Any) -> None:
    """Write the typical size of the non-zero values of each chosen column, its centre subtracted, to ``sizes``.

    This is the mean of |x|, where each value counts as at most ``cap`` times that mean, found by repetition.
    """
    d = X.shape[1]
    limit, total, mass = work[0], work[1], work[2]
    for c in range(d):
        sizes[c] = math.inf
        mass[c] = 0.0
    # Weights as numbers of their own, and a choice in place of ``min``: the loops over columns are then vectorised.
    for i in range(X.shape[0]):
        own = weight[i]
        if own != 0.0:
            for c in range(d):
                mass[c] += own if abs(np.float64(X[i, c]) - centre[c]) != 0.0 else 0.0
    for _ in range(most_passes):
        _begin_pass(sizes, cap, limit, total)
        for i in range(X.shape[0]):
            own = weight[i]
            if own != 0.0:
                for c in range(d):
                    size = abs(np.float64(X[i, c]) - centre[c])
                    total[c] += own * (limit[c] if limit[c] < size else size)
        if _end_pass(total, mass, chosen, sizes):
            return


@inline
def _counted(weight: Any) -> Any:
    """Return the number of rows with a positive weight."""
    count = 0
    for i in range(weight.shape[0]):
        count += 1 if weight[i] > 0.0 else 0
    return count


RULES: Any = types.UniTuple(F8, 4)
"""Type of the constants of ``core/column_sizes.py``: (cap, far, farthest, enough rows)."""


@kernel(lambda f: (_in(f, 2), _in(F8), FLAG, RULES, I8, _out(F8), _out(F8), _out(F8, 2), _out(F8)), exact=True)
def frame_dense(
    X: Any, weight: Any, centred: Any, rules: Any, most_passes: Any, centre: Any, sizes: Any, work: Any, values: Any
) -> None:
    """Write the centre and the typical size of each column; a size of 0 means that it is not known yet.

    A column that is never 0 in these rows and far from 0 has its median as centre, if ``centred`` allows one.
    ``work`` is scratch space of shape (6, d), ``values`` of as many numbers as there are rows.
    """
    cap, far, farthest, enough = rules
    d = X.shape[1]
    middle, chosen, spread = work[3], work[4], work[5]
    for c in range(d):
        centre[c] = 0.0
        chosen[c] = 1.0
    _sizes(X, weight, centre, chosen, cap, most_passes, sizes, work)
    count = _counted(weight)
    if not centred or count < enough:
        return
    whole = 0
    for c in range(d):
        chosen[c] = 1.0
        middle[c] = 0.0
    for i in range(X.shape[0]):
        if weight[i] > 0.0:
            for c in range(d):
                chosen[c] = chosen[c] if X[i, c] != 0.0 else 0.0
    for c in range(d):
        if chosen[c] != 0.0:
            whole += 1
            n = 0
            for i in range(X.shape[0]):
                if weight[i] > 0.0:
                    values[n] = X[i, c]
                    n += 1
            middle[c] = _median(values[:n])
    if whole == 0:
        return
    _sizes(X, weight, middle, chosen, cap, most_passes, spread, work)
    _centre_far_columns(chosen, middle, spread, far, farthest, centre, sizes)


@inline
def _sizes_csr(
    rows: Any, weight: Any, centre: Any, chosen: Any, cap: Any, most_passes: Any, sizes: Any, work: Any
) -> None:
    """Write the typical size of the non-zero values of each chosen column of sparse rows, as ``_sizes`` does.

    A column that has a centre has no zeros.
    """
    data, indices, indptr = rows
    d = sizes.shape[0]
    limit, total, mass = work[0], work[1], work[2]
    for c in range(d):
        sizes[c] = math.inf
        mass[c] = 0.0
    first = True
    for _ in range(most_passes):
        _begin_pass(sizes, cap, limit, total)
        for i in range(weight.shape[0]):
            if weight[i] != 0.0:
                for p in range(indptr[i], indptr[i + 1]):
                    k = np.uintp(indices[p])
                    if chosen[k] != 0.0:
                        size = abs(np.float64(data[p]) - centre[k])
                        total[k] += weight[i] * min(size, limit[k])
                        mass[k] += weight[i] if first and size != 0.0 else 0.0
        first = False
        if _end_pass(total, mass, chosen, sizes):
            return


@inline
def _value_at(rows: Any, i: Any, c: Any) -> Any:
    """Return the value of column c in row i, which has one; the columns of a row are in rising order."""
    data, indices, indptr = rows
    a = indptr[i]
    b = indptr[i + 1] - 1
    while a < b:
        middle = (a + b) // 2
        if indices[middle] < c:
            a = middle + 1
        else:
            b = middle
    return np.float64(data[a])


@kernel(lambda f: (_sparse(f), _in(F8), FLAG, RULES, I8, _out(F8), _out(F8), _out(F8, 2), _out(F8)), exact=True)
def frame_csr(
    rows: Any, weight: Any, centred: Any, rules: Any, most_passes: Any, centre: Any, sizes: Any, work: Any, values: Any
) -> None:
    """Write the centre and the typical size of each column of sparse rows, as ``frame_dense`` does."""
    cap, far, farthest, enough = rules
    data, indices, indptr = rows
    d = sizes.shape[0]
    middle, chosen, spread = work[3], work[4], work[5]
    for c in range(d):
        centre[c] = 0.0
        chosen[c] = 1.0
    _sizes_csr(rows, weight, centre, chosen, cap, most_passes, sizes, work)
    count = _counted(weight)
    if not centred or count < enough:
        return
    for c in range(d):
        chosen[c] = 0.0
    for i in range(weight.shape[0]):
        if weight[i] > 0.0:
            for p in range(indptr[i], indptr[i + 1]):
                chosen[np.uintp(indices[p])] += 1.0 if data[p] != 0.0 else 0.0
    whole = 0
    for c in range(d):
        chosen[c] = 1.0 if chosen[c] == count else 0.0
        middle[c] = 0.0
        if chosen[c] != 0.0:
            whole += 1
            n = 0
            for i in range(weight.shape[0]):
                if weight[i] > 0.0:
                    values[n] = _value_at(rows, i, c)
                    n += 1
            middle[c] = _median(values[:n])
    if whole == 0:
        return
    _sizes_csr(rows, weight, middle, chosen, cap, most_passes, spread, work)
    _centre_far_columns(chosen, middle, spread, far, farthest, centre, sizes)


@kernel(lambda f: (_out(F8, 2), _out(F8, 2), _out(F8), _out(F8), _in(F8), _in(F8), F8), exact=True)
def reframe(W: Any, G: Any, factor: Any, centre: Any, new_centre: Any, sizes: Any, smallest: Any) -> None:
    """Move a model of shape (d + 1, K) to the frame with these centres and sizes, in place.

    The table holds one scalar per row and output, whatever the coordinates. The gradient sum has the squared factor of
    each column as a factor, and its intercept entry is the plain sum of the scalars, which is all that is needed to
    move the centre. So the change is exact and costs O(d), without a visit to any row. A column without a size keeps
    its factor.
    """
    d = W.shape[0] - 1
    for k in range(W.shape[1]):
        last = G[d, k] / (factor[d] * factor[d]) if factor[d] > 0.0 else 0.0
        for c in range(d):
            shift = new_centre[c] - centre[c]
            gain = factor[c]
            if sizes[c] > 0.0:
                gain = 1.0 / min(max(sizes[c], smallest), 1.0 / smallest)
            W[d, k] += W[c, k] * shift
            plain = G[c, k] / (factor[c] * factor[c])
            G[c, k] = gain * gain * (plain - shift * last)
    for c in range(d):
        centre[c] = new_centre[c]
        if sizes[c] > 0.0:
            factor[c] = 1.0 / min(max(sizes[c], smallest), 1.0 / smallest)


@inline
def _quantile(values: Any, quantile: Any) -> Any:
    """Return a quantile of values, which are reordered; 1 if there is none, or if it is 0 or not finite."""
    n = values.shape[0]
    if n == 0:
        return 1.0
    usual = _select(values, np.int64(math.floor(quantile * (n - 1))))
    return usual if 0.0 < usual < math.inf else 1.0


@kernel(lambda f: (_in(f, 2), _in(F8), _in(F8), _in(F8), F8, _out(F8)))
def usual_norm_dense(X: Any, weight: Any, factor: Any, centre: Any, quantile: Any, values: Any) -> Any:
    """Return a quantile over the rows of positive weight of weight * |x|^2 in a frame; 1 if it is 0 or not finite.

    The constant column belongs to a row. ``values`` is scratch space of as many numbers as there are rows.
    """
    d = X.shape[1]
    n = 0
    for i in range(X.shape[0]):
        if weight[i] > 0.0:
            total = factor[d] * factor[d]
            for c in range(d):
                value = factor[c] * (X[i, c] - centre[c])
                total += value * value
            values[n] = total * weight[i]
            n += 1
    return _quantile(values[:n], quantile)


@kernel(lambda f: (_sparse(f), _in(F8), _in(F8), _in(F8), F8, _out(F8)))
def usual_norm_csr(rows: Any, weight: Any, factor: Any, centre: Any, quantile: Any, values: Any) -> Any:
    """Return a quantile over sparse rows of weight * |x|^2 in a frame, as ``usual_norm_dense`` does.

    As (x - m)^2 = m^2 + x (x - 2 m), only non-zeros are looked at.
    """
    data, indices, indptr = rows
    last = factor[factor.shape[0] - 1]
    empty = last * last  # squared norm of a row without non-zeros
    for k in range(centre.shape[0]):
        empty += (factor[k] * centre[k]) ** 2
    n = 0
    for i in range(weight.shape[0]):
        if weight[i] > 0.0:
            total = empty
            for p in range(indptr[i], indptr[i + 1]):
                c = np.uintp(indices[p])
                value = factor[c] * data[p]
                total += value * (value - 2.0 * factor[c] * centre[c])
            values[n] = total * weight[i]
            n += 1
    return _quantile(values[:n], quantile)


@kernel(lambda f: (_in(F8, 2), _in(F8), F8, _out(F8, 2)), exact=True)
def uncentre(W: Any, centre: Any, target: Any, out: Any) -> None:
    """Write the weights for columns and targets that are not centred: the intercept takes over what was subtracted."""
    d = W.shape[0] - 1
    for k in range(W.shape[1]):
        total = 0.0
        for c in range(d):
            total += W[c, k] * centre[c]
            out[c, k] = W[c, k]
        out[d, k] = W[d, k] - (total - target)
