"""Every compiled loop, dense and CSR: pure functions over arrays, no random state, no allocation.

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
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy as np
from numba import types
from numba.extending import register_jitable

from driftsurf._cache import compile_cached
from driftsurf._random import GAMMA, MIX_1, MIX_2

Function = TypeVar("Function", bound=Callable[..., Any])

# Not full fastmath: isfinite and isnan must keep telling the truth.
FASTMATH = {"reassoc", "contract", "arcp", "nsz"}


def inline(function: Function) -> Function:
    """A helper that is compiled into the kernels that call it."""
    return cast("Function", register_jitable(function))


def kernel(signature: Callable[[Any], tuple[Any, ...]], *, exact: bool = False) -> Callable[[Function], Function]:
    """Compile for exactly one signature per type of row, on first use, cached on disk.

    Input arrays are declared read-only, which accepts writable ones too; left to itself numba would
    compile each kernel again for every mixture of the two. The last argument may be None, which compiles a
    kernel of its own without what it is for. ``exact`` keeps the order of arithmetic, for what has to agree
    with others to the bit.
    """

    def decorate(function: Function) -> Function:
        if numba.config.DISABLE_JIT:
            return function
        compiled: dict[Any, Callable[..., Any]] = {}

        def compiled_for(row_type: Any, without_last: bool) -> Callable[..., Any]:
            run = compiled.get((row_type, without_last))
            if run is None:
                declared = signature(types.float32 if row_type == np.float32 else types.float64)
                if without_last:
                    declared = (*declared[:-1], types.none)
                run = compile_cached(
                    function, declared, nogil=True, fastmath=not exact and FASTMATH, error_model="numpy"
                )
                compiled[row_type, without_last] = run
            return run

        def call(*arguments: Any) -> Any:
            first = arguments[0]
            row_type = (first[0] if isinstance(first, tuple) else first).dtype
            return compiled_for(row_type, arguments[-1] is None)(*arguments)

        call.__doc__ = function.__doc__
        call.__name__ = function.__name__
        call.__wrapped__ = function  # type: ignore[attr-defined]
        call.compiled_for = compiled_for  # type: ignore[attr-defined]
        return cast("Function", call)

    return decorate


def _in(element: Any, dimensions: int = 1) -> Any:
    return types.Array(element, dimensions, "C", readonly=True)


def _out(element: Any, dimensions: int = 1) -> Any:
    return types.Array(element, dimensions, "C")


F8, I8 = types.float64, types.int64


def _dense(f: Any) -> Any:
    return types.Tuple((_in(f, 2), _in(F8), _in(F8)))


def _csr(f: Any) -> Any:
    return types.Tuple((_in(f), _in(types.int32), _in(I8), _in(F8), _in(F8)))


MODEL = types.UniTuple(_out(F8), 3)
FRAME = types.Tuple((_in(F8), _in(F8), _in(I8)))


# ---------------------------------------------------------------------------- random draws


@inline
def _word(seed: Any, k: Any) -> Any:
    """Word k of the generator ``seed``: driftsurf._random.word, for compiled code."""
    z = np.uint64(seed) + (np.uint64(k) + np.uint64(1)) * np.uint64(GAMMA)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(MIX_1)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(MIX_2)
    return z ^ (z >> np.uint64(31))


@inline
def _below(word: Any, n: Any) -> Any:
    """Map a random word to 0 .. n-1 by multiply-shift; n is below 2**32."""
    return ((word >> np.uint64(32)) * np.uint64(n)) >> np.uint64(32)


@kernel(lambda f: (_out(f), types.uint64, I8))
def fill_uniform(out: Any, seed: Any, k: Any) -> Any:
    """Fill ``out`` with uniform(0, 1) numbers from words k, k+1, ...; returns the next k."""
    for i in range(out.shape[0]):
        out[i] = (_word(seed, k + i) >> np.uint64(11)) * 2.0**-53
    return k + out.shape[0]


@kernel(lambda f: (_out(I8), I8, I8, types.uint64, I8))
def alternate(order: Any, admitted: Any, waiting: Any, seed: Any, k: Any) -> Any:
    """STRSAGA's alternating schedule: which row each step visits.

    Steps 0, 2, 4, ... admit the oldest waiting row to the sample set while any waits; every other
    step draws uniformly from the set as it then stands. Returns (rows admitted now, next k).
    """
    start = admitted
    for j in range(order.shape[0]):
        if waiting > 0 and j % 2 == 0:
            order[j] = admitted
            admitted += 1
            waiting -= 1
        else:
            order[j] = np.int64(_below(_word(seed, k), admitted))
            k += 1
    return admitted - start, k


@kernel(lambda f: (_out(I8), I8, I8, types.uint64, I8))
def grow_and_draw(order: Any, admitted: Any, waiting: Any, seed: Any, k: Any) -> Any:
    """``alternate`` for plain SAGA: the set grows by the same schedule, but every step draws from it."""
    start = admitted
    for j in range(order.shape[0]):
        if waiting > 0 and j % 2 == 0:
            admitted += 1
            waiting -= 1
        order[j] = np.int64(_below(_word(seed, k + j), admitted))
    return admitted - start, k + order.shape[0]


@kernel(lambda f: (_out(I8), I8, types.uint64, I8))
def draw_uniformly(order: Any, n: Any, seed: Any, k: Any) -> Any:
    """Fill ``order`` with uniform draws from rows 0 .. n-1; returns the next k."""
    for j in range(order.shape[0]):
        order[j] = np.int64(_below(_word(seed, k + j), n))
    return k + order.shape[0]


# ---------------------------------------------------------------------------- logistic loss


@inline
def _gradient(margin: Any, y: Any, weight: Any) -> Any:
    """d/dmargin of weight * log(1 + exp(-s * margin)), s = 2y - 1."""
    if weight == 0.0:  # the margin of a row so extreme that it counts for nothing may be NaN
        return 0.0
    s = 2.0 * y - 1.0
    return -weight * s / (1.0 + math.exp(min(s * margin, 700.0)))


@inline
def _loss(margin: Any, y: Any) -> Any:
    z = (1.0 - 2.0 * y) * margin
    return max(z, 0.0) + math.log1p(math.exp(-abs(z)))


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
        total += w[np.uintp(indices[p])] * data[p]
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


@kernel(lambda f: (_in(F8), _in(F8), _out(F8)))
def logistic_losses(margins: Any, y: Any, out: Any) -> None:
    """out[i] = log(1 + exp(-s_i * margin_i)), without overflow. ``out`` may be ``margins``."""
    for i in range(out.shape[0]):
        out[i] = _loss(margins[i], y[i])


@kernel(lambda f: (_in(F8), _in(F8)))
def weighted_sum(values: Any, weight: Any) -> Any:
    """(sum of weight * value, sum of weight); rows without weight may hold anything."""
    total = 0.0
    mass = 0.0
    for i in range(values.shape[0]):
        if weight[i] != 0.0:
            total += weight[i] * values[i]
            mass += weight[i]
    return total, mass


@kernel(lambda f: (_in(F8), _in(F8)), exact=True)
def squared_length(weights: Any, factor: Any) -> Any:
    """|u|^2, u the weights in the coordinates that they are learnt in; a factor of 0 is a weight that is none.

    One sum in one order: the last bits of BLAS depend on the number of threads, and decisions on these.
    """
    total = 0.0
    for c in range(weights.shape[0]):
        if factor[c] > 0.0:
            scaled = weights[c] / factor[c]
            total += scaled * scaled
    return total


@kernel(lambda f: (_in(F8, 2), _in(F8, 2), _in(F8), _out(F8), _out(F8), F8))
def follow_losses(margins: Any, losses: Any, weight: Any, logs: Any, balance: Any, decay: Any) -> None:
    """Votes whose weights follow the losses row by row (Candor).

    Row i of ``margins`` and ``losses`` belongs to voter i. ``logs`` holds the logarithms of the weights and
    ends as they are after the last row; ``balance[j]`` is the vote on row j by the weights before it, from
    -1 to 1. Only the ratios of the weights matter, so the largest logarithm is kept at 0.
    """
    voters = margins.shape[0]
    for j in range(margins.shape[1]):
        total = 0.0
        mass = 0.0
        for k in range(voters):
            share = math.exp(logs[k])
            mass += share
            total += share if margins[k, j] > 0.0 else -share
        balance[j] = total / mass
        if weight[j] != 0.0:
            largest = -math.inf
            for k in range(voters):
                logs[k] -= decay * weight[j] * losses[k, j]
                largest = max(largest, logs[k])
            for k in range(voters):
                logs[k] -= largest


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
                if size != 0.0:
                    total[c] += weight[i] * min(size, cap[c])
                    mass[c] += weight[i]


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


# ---------------------------------------------------------------------------- optimisers


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
        i = order[j]
        margin = _margin_centred(X, i, w, centre)
        if offset is not None:
            margin += offset[i]
        g = _gradient(margin, y[i], weight[i])
        alpha = table[i]
        if math.isnan(alpha):
            alpha = 0.0
            drawn += 1
        table[i] = g
        delta = g - alpha
        average = eta / drawn
        for c in range(d):
            change = gain[c] * delta * (X[i, c] - centre[c])
            w[c] = shrink * w[c] - average * G[c] - eta * change
            G[c] += change
        change = gain[d] * delta
        w[d] = shrink * w[d] - average * G[d] - eta * change
        G[d] += change
    return drawn


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
        i = order[j]
        a = indptr[i]
        b = indptr[i + 1]
        margin = s * w[last] + t * G[last]
        for p in range(a, b):
            c = np.uintp(indices[p])
            margin += (s * w[c] + t * G[c]) * data[p]
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
            c = np.uintp(indices[p])
            change = gain[c] * delta * data[p]
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
        i = order[j]
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
        i = order[j]
        a = indptr[i]
        b = indptr[i + 1]
        margin = _margin_csr(data, indices, a, b, w)
        for k in range(centred.shape[0]):
            margin -= w[centred[k]] * centre[centred[k]]
        margin *= s
        if offset is not None:
            margin += offset[i]
        s *= shrink
        step = eta / s * _gradient(margin, y[i], weight[i])
        for p in range(a, b):
            c = np.uintp(indices[p])
            w[c] -= step * gain[c] * data[p]
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


# ---------------------------------------------------------------------------- streams


JAVA_MULTIPLIER = 0x5DEECE66D
JAVA_MASK = 0xFFFFFFFFFFFF


def java_state(seed: int) -> int:
    """The state of java.util.Random after ``new Random(seed)``: 48 bits in an int64."""
    return (seed ^ JAVA_MULTIPLIER) & JAVA_MASK


@inline
def _java_bits(states: Any, k: Any, bits: Any) -> Any:
    """next(bits) of the generator whose state is ``states[k]``; advances it.

    int() makes the product exact in Python; compiled, it wraps at 64 bits, of which 48 are kept.
    """
    state = (int(states[k]) * JAVA_MULTIPLIER + 0xB) & JAVA_MASK
    states[k] = state
    return state >> (48 - bits)


@inline
def _java_double(states: Any, k: Any) -> Any:
    """nextDouble(): uniform in [0, 1), 53 bits."""
    high = _java_bits(states, k, 26)
    return ((high << 27) + _java_bits(states, k, 27)) * 2.0**-53


@inline
def _java_percent(states: Any, k: Any) -> Any:
    """1 + nextInt(100): uniform in 1 .. 100. The last 48 of the 2**31 words would favour 1 to 48."""
    while True:
        bits = _java_bits(states, k, 31)
        value = bits % 100
        if bits - value + 99 < 2147483648:
            return 1 + value


@kernel(lambda f: (_out(f), _out(I8)), exact=True)
def java_doubles(out: Any, state: Any) -> None:
    """Fill ``out`` with nextDouble(); ``state`` holds one generator."""
    for i in range(out.shape[0]):
        out[i] = _java_double(state, 0)


@kernel(lambda f: (_out(f, 2), _out(I8), types.UniTuple(_out(I8), 4), _in(F8), F8, F8, I8), exact=True)
def sea(X: Any, y: Any, state: Any, theta: Any, p: Any, w: Any, noise: Any) -> None:
    """Fill X and y with the next rows of SEA concepts joined in a chain, as MOA does.

    Joint j stands between concept j and all that follow. The chain is walked from the front: the
    t-th row that joint j is asked for (t from 1) is the next one's affair with probability
    1 / (1 + exp(-4 (t - p) / w)), otherwise concept j's. A joint counts only the rows it was asked
    for, so that equal p give concepts of equal length.

    A concept redraws its row until the group is the wanted one, 1 and 0 in turn; then one draw of a
    percentage decides the noise. ``state`` is, per concept, the generator and the wanted group; per
    joint, the generator and the rows asked for so far.
    """
    generators, wanted, joint_generators, asked = state
    for i in range(X.shape[0]):
        c = 0
        while c < asked.shape[0]:
            asked[c] += 1
            # MOA's exponent overflows to infinity; beyond 700 the sigmoid is 0 or 1 all the same.
            exponent = max(-700.0, min(700.0, -4.0 * (asked[c] - p) / w))
            if _java_double(joint_generators, c) > 1.0 / (1.0 + math.exp(exponent)):
                break
            c += 1
        while True:
            for a in range(3):
                X[i, a] = 10.0 * _java_double(generators, c)
            group = 0 if X[i, 0] + X[i, 1] <= theta[c] else 1
            if group == wanted[c]:
                break
        wanted[c] = 1 - wanted[c]
        if _java_percent(generators, c) <= noise:
            group = 1 - group
        y[i] = 1 - 2 * group


@kernel(lambda f: (_out(f, 2), _out(I8), _out(I8), _out(F8), _out(F8), F8, I8, I8), exact=True)
def hyperplane(X: Any, y: Any, state: Any, w: Any, signs: Any, magnitude: Any, noise: Any, reversal: Any) -> None:
    """Fill X and y with the next rows of MOA's rotating hyperplane.

    Class 1 iff sum(x w) >= 0.5 sum(w). After each row every weight moves by ``magnitude`` in the
    direction of its sign, which turns with a probability of ``reversal`` percent.
    """
    d = X.shape[1]
    for i in range(X.shape[0]):
        total = 0.0
        half = 0.0
        for c in range(d):
            X[i, c] = _java_double(state, 0)
            total += X[i, c] * w[c]
            half += w[c]
        group = 1 if total >= 0.5 * half else 0
        if _java_percent(state, 0) <= noise:
            group = 1 - group
        for c in range(d):
            w[c] += signs[c] * magnitude
            if _java_percent(state, 0) <= reversal:
                signs[c] = -signs[c]
        y[i] = 1 - 2 * group


SINE1, MIXED, CIRCLES = 0, 1, 2
MOST_WORDS_A_POINT = 64
"""Drawing a point takes a few words; more than this many in a row do not happen."""


@inline
def _unit(words: Any, p: Any) -> Any:
    """Python's random(): a double in [0, 1) from two words of the Mersenne Twister."""
    return ((words[p] >> 5) * 67108864.0 + (words[p + 1] >> 6)) * 2.0**-53


@inline
def _coin(words: Any, p: Any) -> Any:
    """Python's randint(0, 1): the top two bits of a word, drawn again while they are 2 or 3."""
    while words[p] >> 30 > 1:
        p += 1
    return words[p] >> 30, p + 1


@kernel(
    lambda f: (_out(F8, 2), _out(types.boolean), types.Tuple((_in(I8), _in(I8), _in(F8))), _in(I8), I8, I8), exact=True
)
def balanced(X: Any, positive: Any, plan: Any, words: Any, start: Any, kind: Any) -> Any:
    """Rows of SINE1, Mixed or Circles from ``start`` on, as far as the random words reach.

    ``plan`` says for each row the old and the new concept and the chance of the new one (below 0: the
    old one, without a draw). A fair coin says which class is wanted; points are drawn until one is of
    it. Returns (rows made, words used): a row that runs out of words is left for the next call.
    """
    old, new, share = plan
    p = 0
    for i in range(start, X.shape[0]):
        begin = p
        concept = old[i]
        if p + MOST_WORDS_A_POINT > words.shape[0]:
            return i, begin
        if share[i] >= 0.0:
            if _unit(words, p) < share[i]:
                concept = new[i]
            p += 2
        wanted = False
        undecided = True
        while True:
            if p + MOST_WORDS_A_POINT > words.shape[0]:
                return i, begin
            for c in range(X.shape[1]):
                if kind == MIXED and c < 2:
                    X[i, c], p = _coin(words, p)
                else:
                    X[i, c] = _unit(words, p)
                    p += 2
            if undecided:  # the coin falls after the first point
                wanted = (_unit(words, p) < 0.5) != (kind == CIRCLES)
                undecided = False
                p += 2
            if kind == SINE1:
                found = X[i, 1] <= math.sin(X[i, 0])
            elif kind == MIXED:
                found = X[i, 0] + X[i, 1] + (X[i, 3] < 0.5 + 0.3 * math.sin(3.0 * math.pi * X[i, 2])) >= 2.0
            else:
                radius = 0.15 + 0.05 * concept
                found = (X[i, 0] - 0.2 * (concept + 1)) ** 2 + (X[i, 1] - 0.5) ** 2 - radius**2 > 0.0
            if found == wanted:
                break
        positive[i] = wanted != (kind != CIRCLES and concept == 1)
    return X.shape[0], p
