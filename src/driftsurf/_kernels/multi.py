"""The optimiser loops for a choice of losses and any number of outputs, dense and CSR.

As in :mod:`driftsurf._kernels.linear`, whose letters, rows and frames these are; logistic regression has its
own, faster loops there. A model of K outputs is ``(W, G, table)``: the weights (d + 1, K), the intercepts
in the last row; the sum of the gradients in the table, of the same shape; and the table (n, K), K scalars
a row, the first one NaN for a row that was never drawn. The dense loops take W and G the other way round,
(K, d + 1): there a row meets the weights of one output after the other, here those of one column together.

A ``loss`` is ``(kind, epsilon, shift, reach)``: one of the kinds below, the width of Huber's loss, what is
added to the scores before they meet the targets, and the largest step. A square has no largest gradient, so
a row far beyond the others would throw the weights about: the weight of a row counts at most so that
eta * curvature * |x|^2 is ``reach`` (in the frame; infinite: no matter). ``work`` is room for 2 K numbers.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import types

from driftsurf._kernels._compile import F8, FRAME, I8, _csr, _dense, _in, _out, inline, kernel
from driftsurf._kernels._prefetch import prefetch, prefetch_range

SOFTMAX, SQUARED, HUBER, SQUARED_HINGE = 0, 1, 2, 3

MODEL = types.UniTuple(_out(F8, 2), 3)
LOSS = types.Tuple((I8, F8, F8, F8))
CURVATURE = 2.0
"""Of all kinds but the softmax."""
AHEAD = 8
"""Steps between asking for a row and using it, as in ``linear``."""


@inline
def _slope(kind: Any, epsilon: Any, z: Any, y: Any) -> Any:
    """The derivative of a loss of one score."""
    if kind == SQUARED_HINGE:
        s = 2.0 * y - 1.0
        return -2.0 * s * max(0.0, 1.0 - s * z)
    residual = z - y
    if kind == HUBER:
        residual = max(-epsilon, min(epsilon, residual))
    return 2.0 * residual


@inline
def _slopes(loss: Any, work: Any, y: Any, weight: Any) -> None:
    """Turn the scores in ``work[0]`` into weight times the derivatives of the loss by them, in ``work[1]``."""
    kind, epsilon, shift, _ = loss
    K = work.shape[1]
    if weight == 0.0:  # the scores of a row so extreme that it counts for nothing may be NaN
        for k in range(K):
            work[1, k] = 0.0
    elif kind == SOFTMAX:
        largest = work[0, 0]
        for k in range(1, K):
            largest = max(largest, work[0, k])
        total = 0.0
        for k in range(K):
            work[1, k] = math.exp(work[0, k] - largest)
            total += work[1, k]
        for k in range(K):
            work[1, k] *= weight / total
        work[1, int(y)] -= weight
    else:
        work[1, 0] = weight * _slope(kind, epsilon, work[0, 0] + shift, y)


@inline
def _bounded_dense(X: Any, i: Any, frame: Any, weight: Any, eta: Any, reach: Any) -> Any:
    """The weight of a row, or the largest one within ``reach``."""
    if reach == math.inf:
        return weight
    gain, centre, _ = frame
    total = gain[X.shape[1]]
    for c in range(X.shape[1]):
        total += gain[c] * (X[i, c] - centre[c]) ** 2
    return min(weight, reach / (eta * CURVATURE * total)) if total > 0.0 else weight


@inline
def _bounded_csr(data: Any, indices: Any, a: Any, b: Any, frame: Any, weight: Any, eta: Any, reach: Any) -> Any:
    """``_bounded_dense`` of a sparse row: (x - m)^2 = m^2 + x (x - 2 m), and x is mostly 0."""
    if reach == math.inf:
        return weight
    gain, centre, centred = frame
    total = gain[gain.shape[0] - 1]
    for q in range(centred.shape[0]):
        total += gain[centred[q]] * centre[centred[q]] ** 2
    for p in range(a, b):
        c = np.uintp(indices[p])
        total += gain[c] * data[p] * (data[p] - 2.0 * centre[c])
    return min(weight, reach / (eta * CURVATURE * total)) if total > 0.0 else weight


@inline
def _outputs_dense(X: Any, i: Any, W: Any, centre: Any, out: Any) -> None:
    d = X.shape[1]
    for k in range(out.shape[0]):
        total = 0.0
        for c in range(d):
            total += W[k, c] * (X[i, c] - centre[c])
        out[k] = total + W[k, d]


@kernel(lambda f: (_dense(f), _in(I8), MODEL, I8, F8, F8, FRAME, LOSS, _out(F8, 2)))
def saga_dense(
    rows: Any, order: Any, model: Any, drawn: Any, eta: Any, mu: Any, frame: Any, loss: Any, work: Any
) -> Any:
    """One SAGA step for each row of ``order``; returns how many rows were drawn at least once.

    For each output the step of ``linear.saga_dense``; the outputs meet only in the gradient.
    """
    X, y, weight = rows
    W, G, table = model
    gain, centre, _ = frame
    d = X.shape[1]
    K = work.shape[1]
    shrink = 1.0 - eta * mu
    for j in range(order.shape[0]):
        if j + AHEAD < order.shape[0]:
            later = order[j + AHEAD]
            prefetch_range(X, later * d, (later + 1) * d)
            prefetch(y, later)
            prefetch(weight, later)
            prefetch_range(table, later * K, (later + 1) * K)
        i = np.uintp(order[j])
        _outputs_dense(X, i, W, centre, work[0])
        _slopes(loss, work, y[i], _bounded_dense(X, i, frame, weight[i], eta, loss[3]))
        known = 1.0
        if math.isnan(table[i, 0]):
            known = 0.0
            drawn += 1
        average = eta / drawn
        for k in range(K):
            delta = work[1, k]
            if known != 0.0:
                delta -= table[i, k]
            table[i, k] = work[1, k]
            for c in range(d):
                change = gain[c] * delta * (X[i, c] - centre[c])
                W[k, c] = shrink * W[k, c] - average * G[k, c] - eta * change
                G[k, c] += change
            change = gain[d] * delta
            W[k, d] = shrink * W[k, d] - average * G[k, d] - eta * change
            G[k, d] += change
    return drawn


@kernel(lambda f: (_csr(f), _in(I8), MODEL, I8, F8, F8, FRAME, LOSS, _out(F8, 2)))
def saga_csr(rows: Any, order: Any, model: Any, drawn: Any, eta: Any, mu: Any, frame: Any, loss: Any, work: Any) -> Any:
    """``saga_dense`` on sparse rows, by W = s V + t G as in ``linear.saga_csr``; s and t serve all outputs."""
    data, indices, indptr, y, weight = rows
    W, G, table = model
    gain, centre, centred = frame
    last = W.shape[0] - 1
    K = W.shape[1]
    shrink = 1.0 - eta * mu
    s = 1.0
    t = 0.0
    for j in range(order.shape[0]):
        i = order[j]
        a = indptr[i]
        b = indptr[i + 1]
        for k in range(K):
            work[0, k] = s * W[last, k] + t * G[last, k]
        for p in range(a, b):
            c = np.uintp(indices[p])
            for k in range(K):
                work[0, k] += (s * W[c, k] + t * G[c, k]) * data[p]
        for q in range(centred.shape[0]):
            e = centred[q]
            for k in range(K):
                work[0, k] -= (s * W[e, k] + t * G[e, k]) * centre[e]
        _slopes(loss, work, y[i], _bounded_csr(data, indices, a, b, frame, weight[i], eta, loss[3]))
        known = 1.0
        if math.isnan(table[i, 0]):
            known = 0.0
            drawn += 1
        for k in range(K):
            old = 0.0
            if known != 0.0:
                old = table[i, k]
            table[i, k] = work[1, k]
            work[1, k] -= old
        s *= shrink
        t = shrink * t - eta / drawn
        v_step = (t + eta) / s
        for p in range(a, b):
            c = np.uintp(indices[p])
            size = gain[c] * data[p]
            for k in range(K):
                W[c, k] -= v_step * size * work[1, k]
                G[c, k] += size * work[1, k]
        for q in range(centred.shape[0]):
            e = centred[q]
            size = gain[e] * centre[e]
            for k in range(K):
                W[e, k] += v_step * size * work[1, k]
                G[e, k] -= size * work[1, k]
        for k in range(K):
            W[last, k] -= v_step * gain[last] * work[1, k]
            G[last, k] += gain[last] * work[1, k]
        if s < 1e-6:
            for m in range(last + 1):
                for k in range(K):
                    W[m, k] = s * W[m, k] + t * G[m, k]
            s = 1.0
            t = 0.0
    for m in range(last + 1):
        for k in range(K):
            W[m, k] = s * W[m, k] + t * G[m, k]
    return drawn


@kernel(lambda f: (_dense(f), _in(I8), _out(F8, 2), F8, F8, FRAME, LOSS, _out(F8, 2)))
def sgd_dense(rows: Any, order: Any, W: Any, eta: Any, mu: Any, frame: Any, loss: Any, work: Any) -> None:
    """One SGD step for each row of ``order``."""
    X, y, weight = rows
    gain, centre, _ = frame
    d = X.shape[1]
    shrink = 1.0 - eta * mu
    for j in range(order.shape[0]):
        if j + AHEAD < order.shape[0]:
            later = order[j + AHEAD]
            prefetch_range(X, later * d, (later + 1) * d)
            prefetch(y, later)
            prefetch(weight, later)
        i = np.uintp(order[j])
        _outputs_dense(X, i, W, centre, work[0])
        _slopes(loss, work, y[i], _bounded_dense(X, i, frame, weight[i], eta, loss[3]))
        for k in range(work.shape[1]):
            step = eta * work[1, k]
            for c in range(d):
                W[k, c] = shrink * W[k, c] - step * gain[c] * (X[i, c] - centre[c])
            W[k, d] = shrink * W[k, d] - step * gain[d]


@kernel(lambda f: (_csr(f), _in(I8), _out(F8, 2), F8, F8, FRAME, LOSS, _out(F8, 2)))
def sgd_csr(rows: Any, order: Any, W: Any, eta: Any, mu: Any, frame: Any, loss: Any, work: Any) -> None:
    """``sgd_dense`` on sparse rows: W = s V, so that L2 is one multiplication."""
    data, indices, indptr, y, weight = rows
    gain, centre, centred = frame
    last = W.shape[0] - 1
    K = W.shape[1]
    shrink = 1.0 - eta * mu
    s = 1.0
    for j in range(order.shape[0]):
        i = order[j]
        a = indptr[i]
        b = indptr[i + 1]
        for k in range(K):
            work[0, k] = W[last, k]
        for p in range(a, b):
            c = np.uintp(indices[p])
            for k in range(K):
                work[0, k] += W[c, k] * data[p]
        for q in range(centred.shape[0]):
            e = centred[q]
            for k in range(K):
                work[0, k] -= W[e, k] * centre[e]
        for k in range(K):
            work[0, k] *= s
        _slopes(loss, work, y[i], _bounded_csr(data, indices, a, b, frame, weight[i], eta, loss[3]))
        s *= shrink
        step = eta / s
        for p in range(a, b):
            c = np.uintp(indices[p])
            size = step * gain[c] * data[p]
            for k in range(K):
                W[c, k] -= size * work[1, k]
        for q in range(centred.shape[0]):
            e = centred[q]
            for k in range(K):
                W[e, k] += step * gain[e] * centre[e] * work[1, k]
        for k in range(K):
            W[last, k] -= step * gain[last] * work[1, k]
        if s < 1e-6:
            for m in range(last + 1):
                for k in range(K):
                    W[m, k] *= s
            s = 1.0
    for m in range(last + 1):
        for k in range(K):
            W[m, k] *= s


@kernel(lambda f: (_in(f, 2), _in(F8, 2), _out(F8, 2), FRAME))
def discharge_dense(X: Any, table: Any, G: Any, frame: Any) -> Any:
    """Take the gradients of these rows out of the sum G, (d + 1, K); returns how many of them were drawn."""
    gain, centre, _ = frame
    d = X.shape[1]
    K = G.shape[1]
    drawn = 0
    for i in range(X.shape[0]):
        if not math.isnan(table[i, 0]):
            drawn += 1
            for c in range(d):
                size = gain[c] * (X[i, c] - centre[c])
                for k in range(K):
                    G[c, k] -= size * table[i, k]
            for k in range(K):
                G[d, k] -= gain[d] * table[i, k]
    return drawn


@kernel(lambda f: (_in(f), _in(types.int32), _in(I8), _in(F8, 2), _out(F8, 2), FRAME))
def discharge_csr(data: Any, indices: Any, indptr: Any, table: Any, G: Any, frame: Any) -> Any:
    """``discharge_dense`` on sparse rows."""
    gain, centre, centred = frame
    last = G.shape[0] - 1
    K = G.shape[1]
    drawn = 0
    for i in range(table.shape[0]):
        if not math.isnan(table[i, 0]):
            drawn += 1
            for p in range(indptr[i], indptr[i + 1]):
                c = np.uintp(indices[p])
                for k in range(K):
                    G[c, k] -= gain[c] * data[p] * table[i, k]
            for q in range(centred.shape[0]):
                e = centred[q]
                for k in range(K):
                    G[e, k] += gain[e] * centre[e] * table[i, k]
            for k in range(K):
                G[last, k] -= gain[last] * table[i, k]
    return drawn


@kernel(lambda f: (_in(f, 2), _in(F8, 2), _out(F8, 2)))
def outputs_dense(X: Any, W: Any, out: Any) -> None:
    """out[i, k] = w_k . x_i + intercept of k; W is (K, d + 1)."""
    d = X.shape[1]
    for i in range(X.shape[0]):
        for k in range(W.shape[0]):
            total = 0.0
            for c in range(d):
                total += W[k, c] * X[i, c]
            out[i, k] = total + W[k, d]


@kernel(lambda f: (_in(f), _in(types.int32), _in(I8), _in(F8, 2), _out(F8, 2)))
def outputs_csr(data: Any, indices: Any, indptr: Any, W: Any, out: Any) -> None:
    """out[i, k] = w_k . x_i + intercept of k, over the non-zeros; W is (d + 1, K)."""
    last = W.shape[0] - 1
    for i in range(out.shape[0]):
        for k in range(W.shape[1]):
            out[i, k] = W[last, k]
        for p in range(indptr[i], indptr[i + 1]):
            c = np.uintp(indices[p])
            for k in range(W.shape[1]):
                out[i, k] += W[c, k] * data[p]


@kernel(lambda f: (_out(F8, 2),))
def log_softmax(z: Any) -> None:
    """Turn the scores of each row into the logarithms of shares that add up to 1, in place."""
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
