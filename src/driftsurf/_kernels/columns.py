"""How large rows and columns are."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import types

from driftsurf._kernels._compile import F8, I8, _in, _out, kernel


@kernel(lambda f: (_in(f, 2), _in(F8), _in(F8), _out(F8)))
def squared_norms_dense(X: Any, factor: Any, centre: Any, out: Any) -> None:
    """out[i] = sum of (factor * (x_i - centre))^2, the constant column included."""
    d = X.shape[1]
    for i in range(X.shape[0]):
        total = factor[d] * factor[d]
        for c in range(d):
            value = factor[c] * (X[i, c] - centre[c])
            total += value * value
        out[i] = total


@kernel(lambda f: (_in(f), _in(types.int32), _in(I8), _in(F8), _in(F8), _out(F8)))
def squared_norms_csr(data: Any, indices: Any, indptr: Any, factor: Any, centre: Any, out: Any) -> None:
    """``squared_norms_dense`` on sparse rows: (x - m)^2 = m^2 + x (x - 2 m), and x is mostly 0."""
    last = factor[factor.shape[0] - 1]
    empty = last * last
    for k in range(centre.shape[0]):
        empty += (factor[k] * centre[k]) ** 2
    for i in range(out.shape[0]):
        total = empty
        for p in range(indptr[i], indptr[i + 1]):
            c = np.uintp(indices[p])
            value = factor[c] * data[p]
            total += value * (value - 2.0 * factor[c] * centre[c])
        out[i] = total


@kernel(lambda f: (_in(f, 2), _in(F8), _in(F8), _out(F8), _out(F8)))
def add_magnitudes_dense(X: Any, weight: Any, cap: Any, total: Any, mass: Any) -> None:
    """Add each column's weighted sum of min(|x|, cap) to ``total``, and the weight of its non-zeros to ``mass``."""
    for i in range(X.shape[0]):
        if weight[i] != 0.0:
            for c in range(X.shape[1]):
                size = abs(np.float64(X[i, c]))
                total[c] += weight[i] * min(size, cap[c])
                mass[c] += weight[i] if size != 0.0 else 0.0


@kernel(lambda f: (_in(f), _in(types.int32), _in(I8), _in(F8), _in(F8), _out(F8), _out(F8)))
def add_magnitudes_csr(data: Any, indices: Any, indptr: Any, weight: Any, cap: Any, total: Any, mass: Any) -> None:
    """``add_magnitudes_dense`` on sparse rows."""
    for i in range(weight.shape[0]):
        if weight[i] != 0.0:
            for p in range(indptr[i], indptr[i + 1]):
                size = abs(np.float64(data[p]))
                if size != 0.0:
                    c = np.uintp(indices[p])
                    total[c] += weight[i] * min(size, cap[c])
                    mass[c] += weight[i]


@kernel(lambda f: (_in(f, 2),))
def all_finite(X: Any) -> Any:
    """Whether no value is NaN or infinite."""
    bad = 0
    for i in range(X.shape[0]):
        for c in range(X.shape[1]):
            bad += 0 if abs(X[i, c]) < math.inf else 1
    return bad == 0


@kernel(lambda f: (_in(F8), I8))
def are_codes(values: Any, n_classes: Any) -> Any:
    """Whether every value is the code of one of ``n_classes`` classes: 0, 1, 2, ..."""
    bad = 0
    for i in range(values.shape[0]):
        value = values[i]
        bad += 0 if value >= 0.0 and value < n_classes and value == math.floor(value) else 1
    return bad == 0


@kernel(lambda f: (_in(I8), I8, I8, _out(F8)))
def binary_codes(labels: Any, first: Any, second: Any, out: Any) -> Any:
    """out[i] = 0 for ``first``, 1 for ``second``; returns whether there is no other label."""
    other = 0
    for i in range(labels.shape[0]):
        is_second = labels[i] == second
        out[i] = 1.0 if is_second else 0.0
        other += 0 if is_second or labels[i] == first else 1
    return other == 0


@kernel(lambda f: (_in(F8), _in(F8), F8, F8, _out(F8, 2)), exact=True)
def column_sizes(total: Any, mass: Any, memory: Any, most: Any, out: Any) -> Any:
    """What ``measure_dense`` takes, as the rows of ``out``: factor, cap, total and mass.

    The size of a column is total / mass; both are halved once a column has more mass than ``memory``. A column
    without mass has factor 1 and cap 0; the others have 1 / size and ``most`` sizes. Returns how many have none.
    """
    fade = 1.0
    for c in range(total.shape[0]):
        if mass[c] > memory:
            fade = 0.5
    without = 0
    for c in range(total.shape[0]):
        out[2, c] = fade * total[c]
        out[3, c] = fade * mass[c]
        size = 0.0
        if out[3, c] == 0.0:
            without += 1
        else:
            size = out[2, c] / out[3, c]
        out[0, c] = 1.0 / size if size > 0.0 else 1.0
        out[1, c] = most * size
    return without


@kernel(lambda f: (_in(f, 2), _in(F8), _in(F8), _out(F8), _out(F8), _out(F8)))
def measure_dense(X: Any, factor: Any, cap: Any, total: Any, mass: Any, out: Any) -> Any:
    """out[i] = sum of (factor * x_i)^2; rows whose squares do not overflow are added as in ``add_magnitudes_dense``.

    One pass: the second look at a row finds it in the cache. Returns (the largest of ``out``, how many are 0).
    """
    d = X.shape[1]
    largest = 0.0
    zeros = 0
    for i in range(X.shape[0]):
        plain = 0.0
        scaled = 0.0
        for c in range(d):
            value = np.float64(X[i, c])
            plain += value * value
            scaled += (factor[c] * value) * (factor[c] * value)
        out[i] = scaled
        largest = scaled if scaled > largest else largest
        zeros += 1 if scaled == 0.0 else 0
        if plain < math.inf:  # not isfinite: compiled it takes the difference to itself, which may be reordered to 0
            for c in range(d):
                size = abs(np.float64(X[i, c]))
                total[c] += min(size, cap[c])
                mass[c] += 1.0 if size != 0.0 else 0.0
    return largest, zeros


@kernel(lambda f: (_in(f), _in(types.int32), _in(I8), _in(F8), _in(F8), _out(F8), _out(F8), _out(F8)))
def measure_csr(data: Any, indices: Any, indptr: Any, factor: Any, cap: Any, total: Any, mass: Any, out: Any) -> Any:
    """``measure_dense`` on sparse rows."""
    largest = 0.0
    zeros = 0
    for i in range(out.shape[0]):
        plain = 0.0
        scaled = 0.0
        for p in range(indptr[i], indptr[i + 1]):
            q = np.uintp(p)
            value = np.float64(data[q])
            plain += value * value
            value *= factor[np.uintp(indices[q])]
            scaled += value * value
        out[i] = scaled
        largest = scaled if scaled > largest else largest
        zeros += 1 if scaled == 0.0 else 0
        if plain < math.inf:  # not isfinite: compiled it takes the difference to itself, which may be reordered to 0
            for p in range(indptr[i], indptr[i + 1]):
                q = np.uintp(p)
                size = abs(np.float64(data[q]))
                if size != 0.0:
                    c = np.uintp(indices[q])
                    total[c] += min(size, cap[c])
                    mass[c] += 1.0
    return largest, zeros
