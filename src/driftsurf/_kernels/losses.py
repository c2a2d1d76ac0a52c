"""What rows lose, and how large vectors are."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from driftsurf._kernels._compile import F8, _in, _out, inline, kernel

LN2 = math.log(2.0)
LN2_HIGH, LN2_LOW = float.fromhex("0x1.62e42fee00000p-1"), float.fromhex("0x1.a39ef35793c76p-33")
"""Their sum is log 2 to more digits than a double has; whole multiples of the first are exact."""
HALVES = np.array([2.0**-k for k in range(1100)])
MOST = 750.0
"""exp(-750) is 0."""


@kernel(lambda f: (_in(F8), _in(F8), _out(F8)))
def logistic_losses(margins: Any, y: Any, out: Any) -> None:
    """out[i] = log(1 + exp(-s_i * margin_i)), to a few units in the last place; ``out`` is not ``margins``.

    The exp and log of libraries are calls, and a loop with a call is not vectorised: four times as slow. Here, with
    z = -s * margin and a = |z|, it is max(z, 0) + log(1 + exp(-a)), where exp(-a) = 2^-k exp(-r), |r| <= log(2) / 2,
    by the series of exp; and log(1 + t) = 2 artanh(u), u = t / (2 + t) <= 1/3, by that of artanh.
    """
    for i in range(out.shape[0]):
        z = (1.0 - 2.0 * y[i]) * margins[i]
        a = abs(z)
        a = a if a < MOST else MOST
        k = np.int32(a / LN2 + 0.5)
        r = (a - k * LN2_HIGH) - k * LN2_LOW
        e = 1.0 - r / 11.0 * (1.0 - r / 12.0 * (1.0 - r / 13.0))
        e = 1.0 - r / 8.0 * (1.0 - r / 9.0 * (1.0 - r / 10.0 * e))
        e = 1.0 - r / 5.0 * (1.0 - r / 6.0 * (1.0 - r / 7.0 * e))
        e = 1.0 - r / 2.0 * (1.0 - r / 3.0 * (1.0 - r / 4.0 * e))
        t = HALVES[k] * (1.0 - r * e)
        u = t / (2.0 + t)
        q = u * u
        v = 1 / 27 + q * (1 / 29 + q * (1 / 31 + q * (1 / 33 + q / 35)))
        v = 1 / 17 + q * (1 / 19 + q * (1 / 21 + q * (1 / 23 + q * (1 / 25 + q * v))))
        v = 1 / 7 + q * (1 / 9 + q * (1 / 11 + q * (1 / 13 + q * (1 / 15 + q * v))))
        rest = 2.0 * u * (1.0 + q * (1 / 3 + q * (1 / 5 + q * v)))
        out[i] = (0.0 if z < 0.0 else z) + rest


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


@inline
def _largest(size: Any, values: Any) -> Any:
    for k in range(values.shape[0]):
        if not abs(values[k]) <= size:
            size = abs(values[k]) if abs(values[k]) >= 0.0 else math.inf
    return size


@kernel(lambda f: (_in(F8),))
def largest(values: Any) -> Any:
    """The largest |value|; infinite if one is NaN."""
    return _largest(0.0, values)


@kernel(lambda f: (_in(F8), _in(F8)))
def largest_of_two(values: Any, more: Any) -> Any:
    """``largest`` of two arrays."""
    return _largest(_largest(0.0, values), more)


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
