"""Weighted votes of several models."""

from __future__ import annotations

import math
from typing import Any

from driftsurf.kernels.compile import F8, _in, _out, kernel
from driftsurf.kernels.losses import _sum_in_halves


@kernel(lambda f: (_in(F8, 2), _in(F8), _in(F8), _out(F8), _out(F8), _out(F8)), exact=True)
def rate_voters(margins: Any, y: Any, weight: Any, out: Any, values: Any, stack: Any) -> Any:
    """Mean squared errors of the probabilities that voters give to the true of two classes; return that of guessing.

    Row k of ``margins`` belongs to voter k, whose weighted mean of (1 - p)^2 is written to ``out[k]``. Guessing by the
    class shares s has the error of the sum of s (1 - s)^2. Sums have the order of ``numpy.sum``. ``values`` is scratch
    space for a number per row, and ``stack`` for ``SUM_STACK`` numbers.
    """
    rows = y.shape[0]
    mass = _sum_in_halves(weight, stack)
    zeros = 0.0
    ones = 0.0
    for i in range(rows):
        if y[i] == 0.0:
            zeros += weight[i]
        else:
            ones += weight[i]
    for k in range(margins.shape[0]):
        for i in range(rows):
            missing = 1.0 - 1.0 / (1.0 + math.exp(min((1.0 - 2.0 * y[i]) * margins[k, i], 700.0)))
            values[i] = weight[i] * (missing * missing)
        out[k] = _sum_in_halves(values, stack) / mass
    zeros /= mass
    ones /= mass
    return zeros * ((1.0 - zeros) * (1.0 - zeros)) + ones * ((1.0 - ones) * (1.0 - ones))
