"""Scores of rows by linear models: margins of one or several models, and scores of all outputs of one model.

Weights have the intercept last. ``limits``, unless it is None, is (2, columns): each value is limited to the range of
its column, from ``limits[0]`` to ``limits[1]``, where it is read. Zeros of sparse rows are not looked at, so every
range has to contain 0 for them.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from driftsurf.kernels.compile import F8, _in, _out, _sparse, inline, kernel


@inline
def _margin_dense(X: Any, i: Any, w: Any) -> Any:
    total = 0.0
    for c in range(X.shape[1]):
        total += w[c] * X[i, c]
    return total + w[X.shape[1]]


@inline
def _margin_csr(data: Any, indices: Any, a: Any, b: Any, w: Any) -> Any:
    total = 0.0
    for p in range(a, b):
        q = np.uintp(p)
        total += w[np.uintp(indices[q])] * data[q]
    return total + w[w.shape[0] - 1]


@kernel(lambda f: (_in(f, 2), _in(F8), _out(F8)))
def margins_dense(X: Any, w: Any, out: Any) -> None:
    """Margins of one model: out[i] = w . x_i + intercept."""
    for i in range(X.shape[0]):
        out[i] = _margin_dense(X, i, w)


@kernel(lambda f: (_sparse(f), _in(F8), _out(F8)))
def margins_csr(rows: Any, w: Any, out: Any) -> None:
    """Margins of one model on sparse rows: out[i] = w . x_i + intercept, over the non-zeros."""
    data, indices, indptr = rows
    for i in range(out.shape[0]):
        out[i] = _margin_csr(data, indices, indptr[i], indptr[i + 1], w)


@kernel(lambda f: (_in(f, 2), _in(F8, 2), _out(F8, 2)))
def margins_of_all_dense(X: Any, weights: Any, out: Any) -> None:
    """Margins of several models: out[k, i] = w_k . x_i + intercept, all models while a row is in the cache."""
    for i in range(X.shape[0]):
        for k in range(weights.shape[0]):
            out[k, i] = _margin_dense(X, i, weights[k])


@kernel(lambda f: (_sparse(f), _in(F8, 2), _out(F8, 2)))
def margins_of_all_csr(rows: Any, weights: Any, out: Any) -> None:
    """Margins of several models on sparse rows, as ``margins_of_all_dense`` computes them."""
    data, indices, indptr = rows
    for i in range(out.shape[1]):
        for k in range(weights.shape[0]):
            out[k, i] = _margin_csr(data, indices, indptr[i], indptr[i + 1], weights[k])


@kernel(lambda f: (_in(f, 2), _in(F8, 2), _out(F8, 2), _in(F8, 2)))
def outputs_dense(X: Any, W: Any, out: Any, limits: Any) -> None:
    """Scores of all outputs: out[i, k] = w_k . x_i + intercept of k; W has shape (K, d + 1)."""
    d = X.shape[1]
    for i in range(X.shape[0]):
        for k in range(W.shape[0]):
            total = 0.0
            for c in range(d):
                if limits is None:
                    total += W[k, c] * X[i, c]
                else:
                    total += W[k, c] * min(max(np.float64(X[i, c]), limits[0, c]), limits[1, c])
            out[i, k] = total + W[k, d]


@kernel(lambda f: (_sparse(f), _in(F8, 2), _out(F8, 2), _in(F8, 2)))
def outputs_csr(rows: Any, W: Any, out: Any, limits: Any) -> None:
    """Scores of all outputs on sparse rows: out[i, k] = w_k . x_i + intercept of k; W has shape (d + 1, K)."""
    data, indices, indptr = rows
    last = W.shape[0] - 1
    for i in range(out.shape[0]):
        for k in range(W.shape[1]):
            out[i, k] = W[last, k]
        for p in range(indptr[i], indptr[i + 1]):
            c = np.uintp(indices[p])
            value = np.float64(data[p])
            if limits is not None:
                value = min(max(value, limits[0, c]), limits[1, c])
            for k in range(W.shape[1]):
                out[i, k] += W[c, k] * value


@kernel(lambda f: (_out(F8, 2),))
def log_softmax(z: Any) -> None:
    """Replace the scores of each row by the logarithms of their softmax, in place."""
    for i in range(z.shape[0]):
        largest = z[i, 0]
        for k in range(1, z.shape[1]):
            largest = max(largest, z[i, k])
        total = 0.0
        for k in range(z.shape[1]):
            total += math.exp(z[i, k] - largest)
        largest += math.log(total)
        for k in range(z.shape[1]):
            z[i, k] -= largest
