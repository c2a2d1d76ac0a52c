"""Losses of rows, and sizes of vectors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from driftsurf.kernels.compile import F8, I8, _in, _out, inline, kernel

LN2 = math.log(2.0)
LN2_HIGH, LN2_LOW = float.fromhex("0x1.62e42fee00000p-1"), float.fromhex("0x1.a39ef35793c76p-33")
"""Two numbers whose sum is log 2 to more digits than a double has; integer multiples of the first are exact."""
HALVES = np.array([2.0**-k for k in range(1100)])
"""Powers 2^-k: a table, because a power is a call too."""
SOFTMAX, SQUARED, HUBER, SQUARED_HINGE = 0, 1, 2, 3
"""Kinds of losses of the loops in :mod:`driftsurf.kernels.multi`."""
SUM_STACK = 128
"""Scratch space of ``pairwise_sum``: two numbers for each time that the values can be halved."""
MOST = 750.0
"""Largest exponent: exp(-750) is 0 already."""


@kernel(lambda f: (_in(F8), _in(F8), _out(F8)))
def logistic_losses(margins: Any, y: Any, out: Any) -> None:
    """Logistic losses out[i] = log(1 + exp(-s_i * margin_i)), s = 2y - 1; ``out`` must not be ``margins``.

    The exp and log of the C library are calls, and a loop with a call is not vectorised, which makes it four times as
    slow. This loop uses arithmetic only and is correct to a few units in the last place. With z = -s * margin and
    a = |z|, the loss is max(z, 0) + log(1 + exp(-a)), which cannot overflow. Then

    - exp(-a) = 2^-k exp(-r) with an integer k and |r| <= log(2) / 2, where the series of exp converges fast;
    - log(1 + t) = 2 artanh(u) with u = t / (2 + t) <= 1/3, where the series of artanh converges fast.
    """
    for i in range(out.shape[0]):
        z = (1.0 - 2.0 * y[i]) * margins[i]
        a = abs(z)
        a = a if a < MOST else MOST
        k = np.int32(a / LN2 + 0.5)
        # k log 2 in two parts, so that r has full precision although a may be large.
        r = (a - k * LN2_HIGH) - k * LN2_LOW
        # exp(-r) = 1 - r (1 - r/2 (1 - r/3 (...))), innermost terms first.
        e = 1.0 - r / 11.0 * (1.0 - r / 12.0 * (1.0 - r / 13.0))
        e = 1.0 - r / 8.0 * (1.0 - r / 9.0 * (1.0 - r / 10.0 * e))
        e = 1.0 - r / 5.0 * (1.0 - r / 6.0 * (1.0 - r / 7.0 * e))
        e = 1.0 - r / 2.0 * (1.0 - r / 3.0 * (1.0 - r / 4.0 * e))
        t = HALVES[k] * (1.0 - r * e)
        # artanh(u) = u (1 + u^2/3 + u^4/5 + ...), again innermost terms first.
        u = t / (2.0 + t)
        q = u * u
        v = 1 / 27 + q * (1 / 29 + q * (1 / 31 + q * (1 / 33 + q / 35)))
        v = 1 / 17 + q * (1 / 19 + q * (1 / 21 + q * (1 / 23 + q * (1 / 25 + q * v))))
        v = 1 / 7 + q * (1 / 9 + q * (1 / 11 + q * (1 / 13 + q * (1 / 15 + q * v))))
        rest = 2.0 * u * (1.0 + q * (1 / 3 + q * (1 / 5 + q * v)))
        out[i] = (0.0 if z < 0.0 else z) + rest


@kernel(lambda f: (_in(F8), _in(F8), I8, F8, _out(F8)), exact=True)
def output_losses(scores: Any, y: Any, kind: Any, epsilon: Any, out: Any) -> None:
    """Losses of rows for the losses of one score in :mod:`driftsurf.kernels.multi`; ``epsilon`` is that of Huber's."""
    if kind == SQUARED_HINGE:
        for i in range(out.shape[0]):
            short = 1.0 - (2.0 * y[i] - 1.0) * scores[i]
            out[i] = 0.0 if short < 0.0 else short * short
    elif kind == HUBER:
        for i in range(out.shape[0]):
            size = abs(scores[i] - y[i])
            inner = epsilon if size > epsilon else size
            out[i] = inner * (2.0 * size - inner)
    else:
        for i in range(out.shape[0]):
            residual = scores[i] - y[i]
            out[i] = residual * residual


@kernel(lambda f: (_in(F8), _in(F8)), exact=True)
def squared_length(weights: Any, factor: Any) -> Any:
    """Squared length of u = weights / factor, the weights in the coordinates of the frame; a factor of 0 is skipped.

    One sum in a fixed order. The last bits of a BLAS product depend on the number of threads, and a decision must not.
    """
    total = 0.0
    for c in range(weights.shape[0]):
        if factor[c] > 0.0:
            scaled = weights[c] / factor[c]
            total += scaled * scaled
    return total


@kernel(lambda f: (_in(F8), _in(F8), _in(F8), F8, _out(F8, 2)), exact=True)
def evidence_terms(predicted: Any, y: Any, weight: Any, mean: Any, out: Any) -> Any:
    """Write what each row adds to the evidence about a regression; return the number of rows with a weight.

    The rows of ``out`` are, in units of the weight w: w, w t, w p t and w p p, where the prediction p and the target t
    are counted from ``mean``. ``pairwise_sum`` adds them up.
    """
    counted = 0
    for i in range(y.shape[0]):
        p = predicted[i] - mean
        t = y[i] - mean
        out[0, i] = weight[i]
        out[1, i] = weight[i] * t
        out[2, i] = weight[i] * p * t
        out[3, i] = weight[i] * (p * p)
        counted += 1 if weight[i] != 0.0 else 0
    return counted


@inline
def _sum_of_run(values: Any, start: Any, count: Any) -> Any:
    """Return the sum of ``count`` values from ``start`` on: eight sums beside each other, if there are as many."""
    if count < 8:
        total = 0.0
        for i in range(start, start + count):
            total += values[i]
        return total
    a, b, c, d = values[start], values[start + 1], values[start + 2], values[start + 3]
    e, f, g, h = values[start + 4], values[start + 5], values[start + 6], values[start + 7]
    stop = start + count - count % 8
    for i in range(start + 8, stop, 8):
        a += values[i]
        b += values[i + 1]
        c += values[i + 2]
        d += values[i + 3]
        e += values[i + 4]
        f += values[i + 5]
        g += values[i + 6]
        h += values[i + 7]
    total = ((a + b) + (c + d)) + ((e + f) + (g + h))
    for i in range(stop, start + count):
        total += values[i]
    return total


@inline
def _sum_in_halves(values: Any, stack: Any) -> Any:
    """Return ``pairwise_sum``, for kernels that keep the order of arithmetic."""
    top = 0
    start = 0
    count = values.shape[0]
    while True:
        while count > 128:
            half = count // 2
            half -= half % 8
            stack[2 * top] = count - half
            top += 1
            count = half
        total = _sum_of_run(values, start, count)
        start += count
        while top > 0 and stack[2 * top - 2] == 0.0:
            top -= 1
            total = stack[2 * top + 1] + total
        if top == 0:
            return 0.0 + total
        stack[2 * top - 1] = total
        count = np.int64(stack[2 * top - 2])
        stack[2 * top - 2] = 0.0


@kernel(lambda f: (_in(F8), _out(F8)), exact=True)
def pairwise_sum(values: Any, stack: Any) -> Any:
    """Return the sum of values in the order of ``numpy.sum``: halves are summed on their own, down to 128 values.

    ``stack`` is scratch space of ``SUM_STACK`` numbers. For each half of which the left part is being summed or is
    known, it holds the length of the right part (0 once that is being summed) and the sum of the left one.
    """
    return _sum_in_halves(values, stack)


@inline
def _largest(size: Any, values: Any) -> Any:
    for k in range(values.shape[0]):
        if not abs(values[k]) <= size:  # true for NaN as well
            size = abs(values[k]) if abs(values[k]) >= 0.0 else math.inf
    return size


@kernel(lambda f: (_in(F8),))
def largest(values: Any) -> Any:
    """Largest absolute value; infinite if a value is NaN."""
    return _largest(0.0, values)


@kernel(lambda f: (_in(F8), _in(F8)))
def largest_of_two(values: Any, more: Any) -> Any:
    """Largest absolute value of two arrays; infinite if a value is NaN."""
    return _largest(_largest(0.0, values), more)


@kernel(lambda f: (_in(F8), _in(F8)))
def weighted_sum(values: Any, weight: Any) -> Any:
    """Return the sums of weight * value and of weight; the value of a row with weight 0 may be NaN."""
    total = 0.0
    mass = 0.0
    for i in range(values.shape[0]):
        if weight[i] != 0.0:
            total += weight[i] * values[i]
            mass += weight[i]
    return total, mass
