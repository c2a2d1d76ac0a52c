"""In plain Python: counts, means and squared deviations of columns by group of rows, and scores of normal densities.

Groups are classes, or a single one. ``mean`` and ``squares`` have shape (groups, columns) and are filled with the
statistics of the rows alone; merging them with those of earlier rows is left to the caller.
"""

from __future__ import annotations

from typing import Any

import numpy as np

LARGEST = 1e100
"""Values are limited to this, so that sums of their squares stay finite."""
FARTHEST = 1e6
"""Standardised values are limited to this, so that their squares and sums stay finite."""


def _limited(value: Any) -> Any:
    return min(max(np.float64(value), -LARGEST), LARGEST)


def moments_dense(rows: Any, group: Any, count: Any, mean: Any, squares: Any) -> None:
    """Weighted count, mean and sum of squared deviations from it, of each group and column."""
    X, _, weight = rows
    count[:] = 0.0
    mean[:] = 0.0
    squares[:] = 0.0
    for i in range(X.shape[0]):
        count[group[i]] += weight[i]
        for c in range(X.shape[1]):
            mean[group[i], c] += weight[i] * _limited(X[i, c])
    for k in range(count.shape[0]):
        if count[k] > 0.0:
            for c in range(X.shape[1]):
                mean[k, c] /= count[k]
    for i in range(X.shape[0]):
        for c in range(X.shape[1]):
            deviation = _limited(X[i, c]) - mean[group[i], c]
            squares[group[i], c] += weight[i] * deviation * deviation


def moments_csr(rows: Any, group: Any, count: Any, mean: Any, squares: Any) -> None:
    """Weighted count, mean and sum of squared deviations from it, of each group and column of sparse rows.

    Squares are summed about 0 and shifted afterwards, since most values are 0.
    """
    data, indices, indptr, _, weight = rows
    count[:] = 0.0
    mean[:] = 0.0
    squares[:] = 0.0
    for i in range(weight.shape[0]):
        count[group[i]] += weight[i]
        for p in range(indptr[i], indptr[i + 1]):
            q, value = np.uintp(indices[p]), _limited(data[p])
            mean[group[i], q] += weight[i] * value
            squares[group[i], q] += weight[i] * value * value
    for k in range(count.shape[0]):
        if count[k] > 0.0:
            for c in range(mean.shape[1]):
                mean[k, c] /= count[k]
                squares[k, c] = max(squares[k, c] - count[k] * mean[k, c] * mean[k, c], 0.0)


def _distance(value: Any, centre: Any, factor: Any) -> Any:
    scaled = (value - centre) * factor
    return min(max(scaled, -FARTHEST), FARTHEST)


def densities_dense(X: Any, mean: Any, factor: Any, start: Any, out: Any) -> None:
    """out[i, k] = start[k] - sum_c ((x_ic - mean_kc) factor_kc)^2 / 2."""
    for i in range(X.shape[0]):
        for k in range(mean.shape[0]):
            total = 0.0
            for c in range(X.shape[1]):
                d = _distance(X[i, c], mean[k, c], factor[k, c])
                total += d * d
            out[i, k] = start[k] - 0.5 * total


def densities_csr(data: Any, indices: Any, indptr: Any, mean: Any, factor: Any, start: Any, out: Any) -> None:
    """out[i, k] = start[k] - sum_c ((x_ic - mean_kc) factor_kc)^2 / 2 for sparse rows.

    The sum of a row of zeros is corrected for the values that are not 0.
    """
    for k in range(mean.shape[0]):
        zeros = 0.0
        for c in range(mean.shape[1]):
            d = _distance(0.0, mean[k, c], factor[k, c])
            zeros += d * d
        for i in range(out.shape[0]):
            total = zeros
            for p in range(indptr[i], indptr[i + 1]):
                q = np.uintp(indices[p])
                d = _distance(np.float64(data[p]), mean[k, q], factor[k, q])
                e = _distance(0.0, mean[k, q], factor[k, q])
                total += d * d - e * e
            out[i, k] = start[k] - 0.5 * total
