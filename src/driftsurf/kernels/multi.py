"""SAGA and SGD for several losses and any number of outputs, for dense and CSR rows.

Letters, rows, frames and prefetching are those of :mod:`driftsurf.kernels.linear`; read it first. Logistic regression
has its own, faster loops there.

A model with K outputs is ``(W, G, table)``. ``W`` holds the weights, ``G`` the sum of the gradients in the table, and
``table`` K scalars per row, the first of which is NaN for a row that was never drawn. The CSR loops take W and G as
(d + 1, K): a non-zero meets the weights of all outputs at once, and they lie side by side. The dense loops take them
transposed, (K, d + 1): a whole row meets the weights of one output after the other. The intercepts are last.

A ``loss`` is ``(kind, epsilon, shift, reach)``: one of the kinds of losses, the width of Huber's loss, a number that is
added to the scores before they are compared with the targets, and the largest step. Unlike that of the logistic loss,
the gradient of a squared loss has no bound, so that one row far from the others could throw the weights off. The weight
of a row is therefore reduced such that eta * curvature * |x|^2 is at most ``reach`` (in the frame; infinity: no limit).

``work`` is scratch space of shape (2, K): the scores of a row, and their derivatives.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import types

from driftsurf.kernels.compile import F8, FRAME, I8, _csr, _dense, _in, _out, _sparse, inline, kernel
from driftsurf.kernels.losses import HUBER, SOFTMAX, SQUARED, SQUARED_HINGE
from driftsurf.kernels.prefetch import prefetch, prefetch_range

__all__ = ["HUBER", "SOFTMAX", "SQUARED", "SQUARED_HINGE"]

MODEL: Any = types.UniTuple(_out(F8, 2), 3)
LOSS: Any = types.Tuple((I8, F8, F8, F8))
CURVATURE = 2.0
"""Largest second derivative of every kind of loss but the softmax."""
AHEAD = 8
"""Number of steps between prefetching a row and using it, as in ``linear``."""


@inline
def _slope(kind: Any, epsilon: Any, z: Any, y: Any) -> Any:
    """Derivative of the loss by the score, for losses of one score."""
    if kind == SQUARED_HINGE:
        s = 2.0 * y - 1.0
        return -2.0 * s * max(0.0, 1.0 - s * z)
    residual = z - y
    if kind == HUBER:
        residual = max(-epsilon, min(epsilon, residual))
    return 2.0 * residual


@inline
def _slopes(loss: Any, work: Any, y: Any, weight: Any) -> None:
    """Write the derivatives of the loss by the scores in ``work[0]``, times the weight, to ``work[1]``."""
    kind, epsilon, shift, _ = loss
    K = work.shape[1]
    if weight == 0.0:  # a row whose values overflow has weight 0 and scores of NaN
        for k in range(K):
            work[1, k] = 0.0
    elif kind == SOFTMAX:
        # Softmax minus the indicator of the true class. The largest score is subtracted against overflow.
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
    """Return the weight of a row, reduced to the largest one within ``reach``."""
    if reach == math.inf:
        return weight
    gain, centre, _ = frame
    total = gain[X.shape[1]]
    for c in range(X.shape[1]):
        total += gain[c] * (X[i, c] - centre[c]) ** 2
    return min(weight, reach / (eta * CURVATURE * total)) if total > 0.0 else weight


@inline
def _bounded_csr(data: Any, indices: Any, a: Any, b: Any, frame: Any, weight: Any, eta: Any, reach: Any) -> Any:
    """Return the weight of a sparse row, reduced to the largest one within ``reach``.

    As (x - m)^2 = m^2 + x (x - 2 m), only non-zeros and columns with a centre m contribute.
    """
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
    """Take one SAGA step for each row of ``order``; return the number of rows drawn at least once.

    Each output takes the step of ``linear.saga_dense``; the outputs depend on each other only through the gradient.
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
    """Take SAGA steps on sparse rows, with W = s V + t G as in ``linear.saga_csr``; all outputs share s and t."""
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
        # From here on work[1] holds delta = g - alpha.
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
    """Take one SGD step for each row of ``order``."""
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
    """Take SGD steps on sparse rows, with W = s V so that the L2 term is one multiplication."""
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
    """Subtract the gradients of these rows from the sum G, of shape (d + 1, K); return how many of them were drawn."""
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


@kernel(lambda f: (_sparse(f), _in(F8, 2), _out(F8, 2), FRAME))
def discharge_csr(rows: Any, table: Any, G: Any, frame: Any) -> Any:
    """Subtract the gradients of sparse rows from the sum G; return how many of them were drawn."""
    data, indices, indptr = rows
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
