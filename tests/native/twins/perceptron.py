"""A perceptron with one hidden layer, in plain Python: training by Adam in small batches, and outputs of rows.

``theta`` holds all parameters: weights of the first layer (d, H), its intercepts (H,), weights of the second layer
(H, O) and its intercepts (O,). ``m``, ``v`` and ``g`` have the same shape: Adam's moments and the gradient. A value is
centred, scaled and limited where it is read. With sparse rows only the first-layer weights of columns that occur in a
small batch are updated, and the moments of the others wait: a step takes as long as the rows have values.

Parameters are float32, which the processor handles twice as many of at a time; ``work`` is (3, max(H, O)).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from tests.native.twins.elementary import exp

BETA_1, BETA_2, EPSILON = 0.9, 0.999, 1e-8
FARTHEST = 10.0
"""Standardised values and targets are limited to this, so that an outlier cannot saturate the units."""
UNITS, ERRORS, OUTPUTS = range(3)
"""Rows of ``work``."""


def _scaled(value: Any, centre: Any, factor: Any) -> Any:
    return np.float32(min(max((value - centre) * factor, -FARTHEST), FARTHEST))


def _outputs(theta: Any, a: Any, H: Any, K: Any, work: Any) -> None:
    """Apply ReLU to row UNITS of ``work`` and fill row OUTPUTS; ``a`` is where the second layer begins."""
    b = a + H * K
    for k in range(K):
        work[OUTPUTS, k] = theta[b + k]
    for h in range(H):
        if work[UNITS, h] > 0:
            for k in range(K):
                work[OUTPUTS, k] += work[UNITS, h] * theta[a + h * K + k]
        else:
            work[UNITS, h] = 0


def _backward(theta: Any, g: Any, a: Any, H: Any, K: Any, y: Any, weight: Any, classes: Any, work: Any) -> None:
    """Add the gradient of the upper layers; row ERRORS receives the gradient of the hidden units of the row."""
    b = a + H * K
    if classes:
        largest = work[OUTPUTS, 0]
        for k in range(1, K):
            largest = max(largest, work[OUTPUTS, k])
        total = np.float32(0)
        for k in range(K):
            work[OUTPUTS, k] = exp(work[OUTPUTS, k] - largest)
            total += work[OUTPUTS, k]
        for k in range(K):
            work[OUTPUTS, k] /= total
        work[OUTPUTS, np.int64(y)] -= np.float32(1)
    else:
        work[OUTPUTS, 0] -= np.float32(y)
    for k in range(K):
        work[OUTPUTS, k] *= np.float32(weight)
        g[b + k] += work[OUTPUTS, k]
    for h in range(H):
        work[ERRORS, h] = 0
        if work[UNITS, h] > 0:
            total = np.float32(0)
            for k in range(K):
                g[a + h * K + k] += work[UNITS, h] * work[OUTPUTS, k]
                total += theta[a + h * K + k] * work[OUTPUTS, k]
            work[ERRORS, h] = total
    for h in range(H):
        g[a - H + h] += work[ERRORS, h]


def _adam(theta: Any, m: Any, v: Any, g: Any, start: Any, stop: Any, count: Any, pace: Any) -> None:
    """Update a range of parameters by the mean gradient of ``count`` rows, and set the gradient to 0."""
    share = np.float32(1.0 / count)
    rate, small = pace
    keep_1, keep_2 = np.float32(BETA_1), np.float32(BETA_2)
    add_1, add_2 = np.float32(1.0 - BETA_1), np.float32(1.0 - BETA_2)
    for p in range(start, stop):
        slope = g[p] * share
        g[p] = 0
        m[p] = keep_1 * m[p] + add_1 * slope
        v[p] = keep_2 * v[p] + add_2 * slope * slope
        theta[p] -= rate * m[p] / (np.sqrt(v[p]) + small)


def _pace(rate: Any, step: Any) -> Any:
    """Return Adam's step size and epsilon, corrected for moments that start at 0."""
    root = math.sqrt(1.0 - BETA_2**step)
    return np.float32(rate * root / (1.0 - BETA_1**step)), np.float32(EPSILON * root)


def train_dense(
    rows: Any, order: Any, size: Any, rate: Any, step: Any, H: Any, classes: Any,
    centre: Any, factor: Any, theta: Any, m: Any, v: Any, g: Any, x: Any, work: Any,
) -> Any:  # fmt: skip
    """Take one step of Adam for every ``size`` rows of ``order``; return the number of steps so far.

    Targets are codes of ``classes``, or standardised numbers. ``g`` is 0 before and after; ``x`` holds a row.
    """
    X, y, weight = rows
    d = X.shape[1]
    a = (d + 1) * H
    K = (theta.shape[0] - a) // (H + 1)
    for first in range(0, order.shape[0], size):
        stop = min(first + size, order.shape[0])
        for place in range(first, stop):
            i = order[place]
            for h in range(H):
                work[UNITS, h] = theta[d * H + h]
            for c in range(d):
                x[c] = _scaled(X[i, c], centre[c], factor[c])
                for h in range(H):
                    work[UNITS, h] += x[c] * theta[c * H + h]
            _outputs(theta, a, H, K, work)
            _backward(theta, g, a, H, K, y[i], weight[i], classes, work)
            for c in range(d):
                for h in range(H):
                    g[c * H + h] += x[c] * work[ERRORS, h]
        step += 1
        _adam(theta, m, v, g, 0, theta.shape[0], stop - first, _pace(rate, step))
    return step


def train_csr(
    rows: Any, order: Any, size: Any, rate: Any, step: Any, H: Any, classes: Any,
    centre: Any, factor: Any, theta: Any, m: Any, v: Any, g: Any, x: Any, work: Any, last: Any,
) -> Any:  # fmt: skip
    """Take one step of Adam for every ``size`` sparse rows of ``order``; return the number of steps so far.

    The arguments are those of ``train_dense``, but sparse rows are not centred: ``centre`` is 0. A column is updated
    in the steps in which it has values; ``last`` (d,) is 0 before, and marks the columns of a step.
    """
    data, indices, indptr, y, weight = rows
    d = centre.shape[0]
    a = (d + 1) * H
    K = (theta.shape[0] - a) // (H + 1)
    for first in range(0, order.shape[0], size):
        stop = min(first + size, order.shape[0])
        step += 1
        pace = _pace(rate, step)
        for place in range(first, stop):
            i = order[place]
            for h in range(H):
                work[UNITS, h] = theta[d * H + h]
            for p in range(indptr[i], indptr[i + 1]):
                c = np.int64(indices[p])
                value = _scaled(np.float64(data[p]), centre[c], factor[c])
                for h in range(H):
                    work[UNITS, h] += value * theta[c * H + h]
            _outputs(theta, a, H, K, work)
            _backward(theta, g, a, H, K, y[i], weight[i], classes, work)
            for p in range(indptr[i], indptr[i + 1]):
                c = np.int64(indices[p])
                value = _scaled(np.float64(data[p]), centre[c], factor[c])
                for h in range(H):
                    g[c * H + h] += value * work[ERRORS, h]
        for place in range(first, stop):
            i = order[place]
            for p in range(indptr[i], indptr[i + 1]):
                c = np.int64(indices[p])
                if last[c] != first + 1:
                    last[c] = first + 1
                    _adam(theta, m, v, g, c * H, (c + 1) * H, stop - first, pace)
        _adam(theta, m, v, g, d * H, theta.shape[0], stop - first, pace)
    return step


def outputs_dense(X: Any, H: Any, centre: Any, factor: Any, theta: Any, work: Any, out: Any) -> None:
    """Outputs of rows: log-odds of classes before the softmax, or standardised numbers."""
    d = X.shape[1]
    K = out.shape[1]
    for i in range(X.shape[0]):
        for h in range(H):
            work[UNITS, h] = theta[d * H + h]
        for c in range(d):
            x = _scaled(X[i, c], centre[c], factor[c])
            for h in range(H):
                work[UNITS, h] += x * theta[c * H + h]
        _outputs(theta, (d + 1) * H, H, K, work)
        for k in range(K):
            out[i, k] = work[OUTPUTS, k]


def outputs_csr(
    data: Any, indices: Any, indptr: Any, H: Any, centre: Any, factor: Any, theta: Any, x: Any, work: Any, out: Any
) -> None:
    """Outputs of sparse rows: log-odds of classes before the softmax, or standardised numbers.

    If the model centres its columns, no value is 0 any more, and each row is written out in x (d,).
    """
    d = centre.shape[0]
    K = out.shape[1]
    centred = False
    for c in range(d):
        centred = centred or centre[c] != 0.0
        x[c] = _scaled(0.0, centre[c], factor[c])
    for i in range(out.shape[0]):
        for h in range(H):
            work[UNITS, h] = theta[d * H + h]
        if centred:
            for p in range(indptr[i], indptr[i + 1]):
                q = np.int64(indices[p])
                x[q] = _scaled(np.float64(data[p]), centre[q], factor[q])
            for c in range(d):
                for h in range(H):
                    work[UNITS, h] += x[c] * theta[c * H + h]
            for p in range(indptr[i], indptr[i + 1]):
                q = np.int64(indices[p])
                x[q] = _scaled(0.0, centre[q], factor[q])
        else:
            for p in range(indptr[i], indptr[i + 1]):
                q = np.int64(indices[p])
                value = _scaled(np.float64(data[p]), centre[q], factor[q])
                for h in range(H):
                    work[UNITS, h] += value * theta[q * H + h]
        _outputs(theta, (d + 1) * H, H, K, work)
        for k in range(K):
            out[i, k] = work[OUTPUTS, k]
