"""Linear models with logistic loss: margins and optimisers, dense and CSR.

Rows arrive as ``(X, y, weight)`` (dense) or ``(data, indices, indptr, y, weight)`` (CSR), where
``y`` holds class codes 0 and 1. A linear model is ``(w, G, table)``: the weights with the intercept
last, the sum of the gradients in the table, and the table itself, one scalar per row (the gradient
of a linear model is that scalar times the row), NaN for a row that was never drawn.

A model learns in a ``frame`` of its own, ``(gain, centre, centred)``, while rows stay as they are:
``centre`` is taken off each column, and ``gain`` multiplies its gradient. With the gain 1 / scale^2 it
learns as if columns had been divided by ``scale`` (u = w * scale takes the steps that it would take on
x / scale). The last gain is that of the constant column behind the intercept: 1, or 0 for a model
without one, whose intercept stays 0. ``centred`` lists the columns whose centre is not 0, for sparse rows.

``offset``, where it is not None, is added to the margin of each row: a model that is held towards an
anchor p instead of the origin learns the difference u = w - p, and its rows have the offset p.x.

Letters as in the paper: eta the step size, mu the L2 factor, g the new gradient, alpha the old one,
A = G / (number of rows drawn) the average.

Three things make the loops as fast as C. The rows of later steps are known, so they are asked for in time.
Places are made unsigned before they are used: numba counts a negative one from the end, and looking out for
it costs a quarter of a sparse step. And the loops are written out, by hand or by ``written_out``: a helper that takes a
tuple, or calls another helper, costs a quarter of a dense step.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import types

from driftsurf._kernels._compile import F8, FRAME, I8, MODEL, _csr, _dense, _in, _out, inline, kernel, written_out
from driftsurf._kernels._prefetch import prefetch, prefetch_range

CACHED = 2**15
"""So many values of rows lie in the near caches: there, asking for them takes longer than they do."""
AHEAD = 8
"""Steps between asking for a row and using it: a row from memory takes as long as a few steps on rows in the cache."""


@inline
def _gradient(margin: Any, y: Any, weight: Any) -> Any:
    """d/dmargin of weight * log(1 + exp(-s * margin)), s = 2y - 1.

    The margin of a row so extreme that it counts for nothing may be NaN: then, too, z is a number, and the gradient
    of weight 0 is 0. No branch, for which the processor would have to wait.
    """
    s = 2.0 * y - 1.0
    z = s * margin
    z = z if z < 700.0 else 700.0
    return -weight * s / (1.0 + math.exp(z))


@inline
def _margin_dense(X: Any, i: Any, w: Any) -> Any:
    total = 0.0
    for c in range(X.shape[1]):
        total += w[c] * X[i, c]
    return total + w[X.shape[1]]


@inline
def _margin_centred(X: Any, i: Any, w: Any, centre: Any) -> Any:
    total = 0.0
    for c in range(X.shape[1]):
        total += w[c] * (X[i, c] - centre[c])
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
    """out[i] = w . x_i + intercept."""
    for i in range(X.shape[0]):
        out[i] = _margin_dense(X, i, w)


@kernel(lambda f: (_in(f), _in(types.int32), _in(I8), _in(F8), _out(F8)))
def margins_csr(data: Any, indices: Any, indptr: Any, w: Any, out: Any) -> None:
    """out[i] = w . x_i + intercept, over the non-zeros."""
    for i in range(out.shape[0]):
        out[i] = _margin_csr(data, indices, indptr[i], indptr[i + 1], w)


@kernel(lambda f: (_in(f, 2), _in(F8, 2), _out(F8, 2)))
def margins_of_all_dense(X: Any, weights: Any, out: Any) -> None:
    """out[k, i] = w_k . x_i + intercept: all models at once, while a row is in the cache."""
    for i in range(X.shape[0]):
        for k in range(weights.shape[0]):
            out[k, i] = _margin_dense(X, i, weights[k])


@kernel(lambda f: (_in(f), _in(types.int32), _in(I8), _in(F8, 2), _out(F8, 2)))
def margins_of_all_csr(data: Any, indices: Any, indptr: Any, weights: Any, out: Any) -> None:
    """``margins_of_all_dense`` on sparse rows."""
    for i in range(out.shape[1]):
        for k in range(weights.shape[0]):
            out[k, i] = _margin_csr(data, indices, indptr[i], indptr[i + 1], weights[k])


@inline
def _ask_for_csr(data: Any, indices: Any, indptr: Any, i: Any) -> None:
    """Prefetch the values of row i; where they are had better be in the cache already."""
    row = np.uintp(i)
    a, b = indptr[row], indptr[row + np.uintp(1)]
    prefetch_range(data, a, b)
    prefetch_range(indices, a, b)


@inline
def _remembered(alpha: Any) -> Any:
    return 0.0 if math.isnan(alpha) else alpha


@written_out
def _saga_step(
    X: Any, i: Any, w: Any, G: Any, table: Any, g: Any, drawn: Any, eta: Any, shrink: Any, gain: Any, centre: Any
) -> Any:
    """The step of ``saga_dense`` at row i, whose gradient is g; returns how many rows were drawn by now."""
    d = X.shape[1]
    count = drawn + math.isnan(table[i])
    delta = g - _remembered(table[i])
    table[i] = g
    average = eta / count
    for c in range(d):
        change = gain[c] * delta * (X[i, c] - centre[c])
        w[c] = shrink * w[c] - average * G[c] - eta * change
        G[c] += change
    last = gain[d] * delta
    w[d] = shrink * w[d] - average * G[d] - eta * last
    G[d] += last
    return count


@kernel(lambda f: (_dense(f), _in(I8), MODEL, I8, F8, F8, FRAME, _in(F8)))
def saga_dense(rows: Any, order: Any, model: Any, drawn: Any, eta: Any, mu: Any, frame: Any, offset: Any) -> Any:
    """One SAGA step for each row of ``order``; returns how many rows were drawn at least once.

        w <- (1 - eta mu) w - eta (gain (g - alpha) x + A),   alpha <- g

    x is the row less the centre. A is the average over the rows drawn so far, the current one included
    with its old alpha (G holds the gains already). L2 is applied exactly at every step and never enters
    the table. A new row has alpha = NaN, counts from now on, and starts from 0.
    """
    X, y, weight = rows
    w, G, table = model
    gain, centre, _ = frame
    d = X.shape[1]
    shrink = 1.0 - eta * mu
    for j in range(order.shape[0]):
        if j + AHEAD < order.shape[0]:
            later = order[j + AHEAD]
            prefetch_range(X, later * d, (later + 1) * d)
            prefetch(y, later)
            prefetch(weight, later)
            prefetch(table, later)
            if offset is not None:
                prefetch(offset, later)
        i = np.uintp(order[j])
        margin = _margin_centred(X, i, w, centre)
        if offset is not None:
            margin += offset[i]
        g = _gradient(margin, y[i], weight[i])
        drawn = _saga_step(X, i, w, G, table, g, drawn, eta, shrink, gain, centre)
    return drawn


@kernel(lambda f: (_dense(f), _in(I8), MODEL, I8, F8, FRAME, _dense(f), _in(I8), MODEL, I8, F8, FRAME, F8))
def saga_both_dense(
    rows: Any,
    order: Any,
    model: Any,
    drawn: Any,
    eta: Any,
    frame: Any,
    rows_2: Any,
    order_2: Any,
    model_2: Any,
    drawn_2: Any,
    eta_2: Any,
    frame_2: Any,
    mu: Any,
) -> Any:
    """``saga_dense`` of two models in turn, which take as many steps each: the same bits in less time.

    A step waits for the one before it, by way of the margin and its exponential; meanwhile the processor works
    for the other model.
    """
    X, y, weight = rows
    w, G, table = model
    gain, centre, _ = frame
    X_2, y_2, weight_2 = rows_2
    w_2, G_2, table_2 = model_2
    gain_2, centre_2, _ = frame_2
    d = X.shape[1]
    shrink = 1.0 - eta * mu
    shrink_2 = 1.0 - eta_2 * mu
    ahead = AHEAD if X.size > CACHED else order.shape[0]
    for j in range(order.shape[0]):
        if j + ahead < order.shape[0]:
            later = order[j + AHEAD]
            prefetch_range(X, later * d, (later + 1) * d)
            prefetch(y, later)
            prefetch(weight, later)
            prefetch(table, later)
            later = order_2[j + AHEAD]
            prefetch_range(X_2, later * d, (later + 1) * d)
            prefetch(y_2, later)
            prefetch(weight_2, later)
            prefetch(table_2, later)
        i = np.uintp(order[j])
        g = _gradient(_margin_centred(X, i, w, centre), y[i], weight[i])
        drawn = _saga_step(X, i, w, G, table, g, drawn, eta, shrink, gain, centre)
        i = np.uintp(order_2[j])
        g = _gradient(_margin_centred(X_2, i, w_2, centre_2), y_2[i], weight_2[i])
        drawn_2 = _saga_step(X_2, i, w_2, G_2, table_2, g, drawn_2, eta_2, shrink_2, gain_2, centre_2)
    return drawn, drawn_2


@kernel(lambda f: (_csr(f), _in(I8), MODEL, I8, F8, F8, FRAME, _in(F8)))
def saga_csr(rows: Any, order: Any, model: Any, drawn: Any, eta: Any, mu: Any, frame: Any, offset: Any) -> Any:
    """``saga_dense`` on sparse rows, touching only the non-zeros of the row at hand.

    The trick: keep w = s v + t G. The step shrinks w and subtracts a multiple of G, which changes
    only the scalars,

        s <- (1 - eta mu) s,    t <- (1 - eta mu) t - eta / drawn,

    and what remains, -eta delta x, together with G <- G + delta x, is a sparse change of v:
    v <- v - (t + eta) / s * delta x (x with the gains). Exact, no time stamps. ``w`` holds v meanwhile;
    it is put together again when s has become small, and at the end. The few columns that have a
    centre have it taken off in every row, whether their value is there or not.
    """
    data, indices, indptr, y, weight = rows
    w, G, table = model
    gain, centre, centred = frame
    last = w.shape[0] - 1
    shrink = 1.0 - eta * mu
    s = 1.0
    t = 0.0
    for j in range(order.shape[0]):
        if j + 2 * AHEAD < order.shape[0]:
            _ask_for_csr(data, indices, indptr, order[j + AHEAD])
            later = order[j + 2 * AHEAD]
            prefetch(indptr, later)
            prefetch(y, later)
            prefetch(weight, later)
            prefetch(table, later)
            if offset is not None:
                prefetch(offset, later)
        i = np.uintp(order[j])
        a = indptr[i]
        b = indptr[i + np.uintp(1)]
        margin = s * w[last] + t * G[last]
        for p in range(a, b):
            q = np.uintp(p)
            c = np.uintp(indices[q])
            margin += (s * w[c] + t * G[c]) * data[q]
        for k in range(centred.shape[0]):
            e = centred[k]
            margin -= (s * w[e] + t * G[e]) * centre[e]
        if offset is not None:
            margin += offset[i]
        g = _gradient(margin, y[i], weight[i])
        alpha = table[i]
        if math.isnan(alpha):
            alpha = 0.0
            drawn += 1
        table[i] = g
        delta = g - alpha
        s *= shrink
        t = shrink * t - eta / drawn
        v_step = (t + eta) / s
        for p in range(a, b):
            q = np.uintp(p)
            c = np.uintp(indices[q])
            change = gain[c] * delta * data[q]
            w[c] -= v_step * change
            G[c] += change
        for k in range(centred.shape[0]):
            e = centred[k]
            change = gain[e] * delta * centre[e]
            w[e] += v_step * change
            G[e] -= change
        change = gain[last] * delta
        w[last] -= v_step * change
        G[last] += change
        if s < 1e-6:
            for k in range(last + 1):
                w[k] = s * w[k] + t * G[k]
            s = 1.0
            t = 0.0
    for k in range(last + 1):
        w[k] = s * w[k] + t * G[k]
    return drawn


@kernel(lambda f: (_dense(f), _in(I8), _out(F8), F8, F8, FRAME, _in(F8)))
def sgd_dense(rows: Any, order: Any, w: Any, eta: Any, mu: Any, frame: Any, offset: Any) -> None:
    """One SGD step for each row of ``order``: w <- (1 - eta mu) w - eta gain g x, x less the centre."""
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
            if offset is not None:
                prefetch(offset, later)
        i = np.uintp(order[j])
        margin = _margin_centred(X, i, w, centre)
        if offset is not None:
            margin += offset[i]
        step = eta * _gradient(margin, y[i], weight[i])
        for c in range(d):
            w[c] = shrink * w[c] - step * gain[c] * (X[i, c] - centre[c])
        w[d] = shrink * w[d] - step * gain[d]


@kernel(lambda f: (_csr(f), _in(I8), _out(F8), F8, F8, FRAME, _in(F8)))
def sgd_csr(rows: Any, order: Any, w: Any, eta: Any, mu: Any, frame: Any, offset: Any) -> None:
    """``sgd_dense`` on sparse rows: w = s v, so that L2 is one multiplication."""
    data, indices, indptr, y, weight = rows
    gain, centre, centred = frame
    last = w.shape[0] - 1
    shrink = 1.0 - eta * mu
    s = 1.0
    for j in range(order.shape[0]):
        if j + 2 * AHEAD < order.shape[0]:
            _ask_for_csr(data, indices, indptr, order[j + AHEAD])
            later = order[j + 2 * AHEAD]
            prefetch(indptr, later)
            prefetch(y, later)
            prefetch(weight, later)
            if offset is not None:
                prefetch(offset, later)
        i = np.uintp(order[j])
        a = indptr[i]
        b = indptr[i + np.uintp(1)]
        margin = _margin_csr(data, indices, a, b, w)
        for k in range(centred.shape[0]):
            margin -= w[centred[k]] * centre[centred[k]]
        margin *= s
        if offset is not None:
            margin += offset[i]
        s *= shrink
        step = eta / s * _gradient(margin, y[i], weight[i])
        for p in range(a, b):
            q = np.uintp(p)
            c = np.uintp(indices[q])
            w[c] -= step * gain[c] * data[q]
        for k in range(centred.shape[0]):
            e = centred[k]
            w[e] += step * gain[e] * centre[e]
        w[last] -= step * gain[last]
        if s < 1e-6:
            for k in range(last + 1):
                w[k] *= s
            s = 1.0
    for k in range(last + 1):
        w[k] *= s


@kernel(lambda f: (_in(f, 2), _in(F8), _out(F8), FRAME))
def discharge_dense(X: Any, table: Any, G: Any, frame: Any) -> Any:
    """Take the gradients of these rows out of the sum G; returns how many of them were drawn."""
    gain, centre, _ = frame
    d = X.shape[1]
    drawn = 0
    for i in range(X.shape[0]):
        alpha = table[i]
        if not math.isnan(alpha):
            drawn += 1
            for c in range(d):
                G[c] -= gain[c] * alpha * (X[i, c] - centre[c])
            G[d] -= gain[d] * alpha
    return drawn


@kernel(lambda f: (_in(f), _in(types.int32), _in(I8), _in(F8), _out(F8), FRAME))
def discharge_csr(data: Any, indices: Any, indptr: Any, table: Any, G: Any, frame: Any) -> Any:
    """``discharge_dense`` on sparse rows."""
    gain, centre, centred = frame
    last = G.shape[0] - 1
    drawn = 0
    total = 0.0
    for i in range(table.shape[0]):
        alpha = table[i]
        if not math.isnan(alpha):
            drawn += 1
            total += alpha
            for p in range(indptr[i], indptr[i + 1]):
                c = np.uintp(indices[p])
                G[c] -= gain[c] * alpha * data[p]
    for k in range(centred.shape[0]):
        e = centred[k]
        G[e] += gain[e] * total * centre[e]
    G[last] -= gain[last] * total
    return drawn
