"""Logistic regression: SAGA and SGD, for dense and CSR rows.

Rows and labels
---------------
Rows arrive as ``(X, y, weight)`` (dense) or ``(data, indices, indptr, y, weight)`` (CSR); ``y`` holds the class codes
0 and 1. ``order`` lists the row that each step visits. The letters are those of the paper: eta is the step size, mu the
L2 factor, g the new gradient of a row, alpha its old one, and A the average of the old ones.

The model
---------
A model is ``(w, G, table)``. ``w`` holds the weights, the intercept last. The gradient of a linear model at row i is a
scalar times the row, so SAGA's table of gradients needs one scalar per row: ``table[i]`` is alpha of row i, NaN if the
row was never drawn. ``G`` is the sum of the gradients in the table, so that A = G / (number of rows drawn).

Frames: learning in scaled and centred columns
----------------------------------------------
Columns of different sizes make gradient descent slow. The usual remedy, dividing each column by its scale and
subtracting its centre, would mean to copy all rows again whenever an estimate of either changes. Here the rows stay as
they are, and the model has a ``frame = (gain, centre, centred)`` instead. ``centre`` is subtracted from each column
where a row is read, and ``gain`` multiplies the gradient of each column. With gain = 1 / scale^2, the vector
u = w * scale takes exactly the steps that it would take on columns x / scale: u . (x / scale) = w . x, and a step of u
by g x / scale is a step of w by g x / scale^2. The last gain is that of the constant column behind the intercept: 1, or
0 for a model without intercept, whose intercept then stays 0. ``centred`` lists the columns whose centre is not 0, so
that sparse rows need not visit the others.

``offset``, unless it is None, is added to the margin of each row. A model that is regularised towards an anchor p
instead of the origin learns the difference u = w - p, and the offset of a row is p . x.

Speed
-----
Three techniques bring these loops to the speed of C:

- The rows of later steps are known from ``order``, so they are prefetched while earlier steps are computed.
- Indices are converted to unsigned integers. numba counts a negative index from the end of the array, and checking for
  it costs a quarter of a sparse step.
- Loop bodies are written out in each kernel, by hand or by ``written_out``. A helper that takes a tuple, or that calls
  another helper, costs a quarter of a dense step.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from driftsurf.kernels.compile import (
    F8,
    FRAME,
    I8,
    MODEL,
    _csr,
    _dense,
    _in,
    _out,
    _sparse,
    inline,
    kernel,
    written_out,
)
from driftsurf.kernels.prefetch import prefetch, prefetch_range

CACHED = 2**15
"""Number of row values that fit into the near caches, where a prefetch costs more than it saves."""
AHEAD = 8
"""Number of steps between prefetching a row and using it: loading a row from memory takes about as long."""


@inline
def _gradient(margin: Any, y: Any, weight: Any) -> Any:
    """Derivative of weight * log(1 + exp(-s * margin)) by the margin, where s = 2y - 1.

    There is no branch, because the processor would have to wait for the margin to predict it.
    """
    s = 2.0 * y - 1.0
    z = s * margin
    # Caps the exponent, and turns NaN into 700: a row whose values overflow has weight 0 but a margin of NaN, and its
    # gradient must be 0.
    z = z if z < 700.0 else 700.0
    return -weight * s / (1.0 + math.exp(z))


@inline
def _margin_centred(X: Any, i: Any, w: Any, centre: Any) -> Any:
    total = 0.0
    for c in range(X.shape[1]):
        total += w[c] * (X[i, c] - centre[c])
    return total + w[X.shape[1]]


@inline
def _prefetch_csr(data: Any, indices: Any, indptr: Any, i: Any) -> None:
    """Prefetch the values of row i, whose ``indptr`` should have been prefetched before."""
    row = np.uintp(i)
    a, b = indptr[row], indptr[row + np.uintp(1)]
    prefetch_range(data, a, b)
    prefetch_range(indices, a, b)


@inline
def _or_zero(alpha: Any) -> Any:
    return 0.0 if math.isnan(alpha) else alpha


@written_out
def _saga_step(
    X: Any, i: Any, w: Any, G: Any, table: Any, g: Any, drawn: Any, eta: Any, shrink: Any, gain: Any, centre: Any
) -> Any:
    """Take one step of ``saga_dense`` at row i, whose gradient is g; return the number of rows drawn so far."""
    d = X.shape[1]
    count = drawn + math.isnan(table[i])
    delta = g - _or_zero(table[i])
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
    """Take one SAGA step for each row of ``order``; return the number of rows drawn at least once.

    Plain SGD follows the gradient g of one row, whose noise never dies out, so its step size has to shrink. SAGA
    subtracts the gradient alpha that the row had when it was last drawn, and adds the average A of all remembered
    gradients. The expectation stays the same, the noise vanishes as the model converges, and the step size can stay
    constant:

        w <- (1 - eta mu) w - eta (gain (g - alpha) x + A),   alpha <- g

    Here x is the row minus the centre. A averages over the rows drawn so far, the current one included with its old
    alpha; G is kept with the gains applied. The L2 term is applied exactly at every step and never enters the table. A
    row that is drawn for the first time has alpha = NaN, which is read as 0, and counts from then on.
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
    """Train two models with ``saga_dense`` in turn, step by step: the same bits as one after the other, in less time.

    Each step of a model needs the weights of the step before, and waits for a sum and an exponential. The steps of the
    other model are independent, so the processor computes them in the meantime. Both models take as many steps.
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
        i_2 = np.uintp(order_2[j])
        # Both sums and both exponentials come first: a step of a wide model is too long to look past it.
        margin = _margin_centred(X, i, w, centre)
        margin_2 = _margin_centred(X_2, i_2, w_2, centre_2)
        g = _gradient(margin, y[i], weight[i])
        g_2 = _gradient(margin_2, y_2[i_2], weight_2[i_2])
        drawn = _saga_step(X, i, w, G, table, g, drawn, eta, shrink, gain, centre)
        drawn_2 = _saga_step(X_2, i_2, w_2, G_2, table_2, g_2, drawn_2, eta_2, shrink_2, gain_2, centre_2)
    return drawn, drawn_2


@kernel(lambda f: (_csr(f), _in(I8), MODEL, I8, F8, F8, FRAME, _in(F8)))
def saga_csr(rows: Any, order: Any, model: Any, drawn: Any, eta: Any, mu: Any, frame: Any, offset: Any) -> Any:
    """Take SAGA steps on sparse rows; each step touches only the non-zeros of its row.

    The step of ``saga_dense`` shrinks all weights and subtracts a multiple of the dense vector G, although a row has
    few non-zeros. Implementations such as scikit-learn's remember when each column was last updated, and catch up
    later. Here the dense part of the step is moved into two scalars. Write

        w = s v + t G.

    With delta = g - alpha, the step w <- (1 - eta mu) w - (eta / drawn) G - eta delta x and G <- G + delta x becomes

        s <- (1 - eta mu) s
        t <- (1 - eta mu) t - eta / drawn
        v <- v - ((t + eta) / s) delta x

    with the new s and t in the last line: eta delta x is the step itself, and t delta x is taken back because t G has
    grown by it. The changes of v and G are sparse (x is multiplied by the gains). The result is exact, and no time
    stamps are kept.

    While the loop runs, ``w`` holds v. The weights are put together again at the end, and whenever s has become so
    small that v would grow without bound. The few columns that have a centre are updated at every step, because a value
    of 0 is not 0 after centring.
    """
    data, indices, indptr, y, weight = rows
    w, G, table = model
    gain, centre, centred = frame
    last = w.shape[0] - 1
    shrink = 1.0 - eta * mu
    s = 1.0
    t = 0.0
    for j in range(order.shape[0]):
        # In two stages: where the values of a row are is itself in memory, so ``indptr`` is prefetched first.
        if j + 2 * AHEAD < order.shape[0]:
            _prefetch_csr(data, indices, indptr, order[j + AHEAD])
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
        if s < 1e-6:  # back to w = v, before the division by s loses digits
            for k in range(last + 1):
                w[k] = s * w[k] + t * G[k]
            s = 1.0
            t = 0.0
    for k in range(last + 1):
        w[k] = s * w[k] + t * G[k]
    return drawn


@kernel(lambda f: (_dense(f), _in(I8), _out(F8), F8, F8, FRAME, _in(F8)))
def sgd_dense(rows: Any, order: Any, w: Any, eta: Any, mu: Any, frame: Any, offset: Any) -> None:
    """Take one SGD step for each row of ``order``.

    w <- (1 - eta mu) w - eta gain g x, where x is the row minus the centre.
    """
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
    """Take SGD steps on sparse rows; each step touches only the non-zeros of its row.

    The weights are kept as w = s v, so that the L2 term, which shrinks all weights, is one multiplication of s. While
    the loop runs, ``w`` holds v, as in ``saga_csr``.
    """
    data, indices, indptr, y, weight = rows
    gain, centre, centred = frame
    last = w.shape[0] - 1
    shrink = 1.0 - eta * mu
    s = 1.0
    for j in range(order.shape[0]):
        if j + 2 * AHEAD < order.shape[0]:
            _prefetch_csr(data, indices, indptr, order[j + AHEAD])
            later = order[j + 2 * AHEAD]
            prefetch(indptr, later)
            prefetch(y, later)
            prefetch(weight, later)
            if offset is not None:
                prefetch(offset, later)
        i = np.uintp(order[j])
        a = indptr[i]
        b = indptr[i + np.uintp(1)]
        margin = 0.0
        for p in range(a, b):
            q = np.uintp(p)
            margin += w[np.uintp(indices[q])] * data[q]
        margin += w[last]
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
    """Subtract the gradients of these rows from the sum G; return how many of them were drawn.

    Called before rows leave the sample set, so that the average A is one over the rows that stay.
    """
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


@kernel(lambda f: (_sparse(f), _in(F8), _out(F8), FRAME))
def discharge_csr(rows: Any, table: Any, G: Any, frame: Any) -> Any:
    """Subtract the gradients of sparse rows from the sum G; return how many of them were drawn."""
    data, indices, indptr = rows
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
    # Centres and the constant column are the same in every row: once, with the sum of all alphas.
    for k in range(centred.shape[0]):
        e = centred[k]
        G[e] += gain[e] * total * centre[e]
    G[last] -= gain[last] * total
    return drawn
