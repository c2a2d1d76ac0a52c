"""Weighted votes of several models."""

from __future__ import annotations

import math
from typing import Any

from driftsurf.kernels.compile import F8, _in, _out, kernel
from driftsurf.kernels.losses import _sum_in_halves


@kernel(lambda f: (_in(F8), _in(F8), _out(F8)))
def true_class_shares(margins: Any, y: Any, out: Any) -> None:
    """Probability of the true class: out[i] = 1 / (1 + exp(-s_i * margin_i)), s = 2y - 1."""
    for i in range(out.shape[0]):
        out[i] = 1.0 / (1.0 + math.exp(min((1.0 - 2.0 * y[i]) * margins[i], 700.0)))


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


@kernel(lambda f: (_in(F8, 2), _in(F8), _out(F8)), exact=True)
def balance_of_votes(margins: Any, weights: Any, out: Any) -> None:
    """Balance of a weighted vote: out[i] is the weight of the positive margins minus that of the others.

    Row k of ``margins`` belongs to voter k.
    """
    for i in range(out.shape[0]):
        total = 0.0
        for k in range(weights.shape[0]):
            total += weights[k] if margins[k, i] > 0.0 else -weights[k]
        out[i] = total


@kernel(lambda f: (_in(F8, 2), _in(F8, 2), _in(F8), _out(F8), _out(F8), F8))
def follow_losses(margins: Any, losses: Any, weight: Any, logs: Any, balance: Any, decay: Any) -> None:
    """Vote on each row with weights that are updated by exponential decay after it (Candor).

    Row k of ``margins`` and ``losses`` belongs to voter k. ``logs`` holds the logarithms of the weights and is updated
    in place. ``balance[j]`` is the vote on row j, from -1 to 1, with the weights before that row. Only ratios of
    weights matter, so the largest logarithm is shifted to 0 after each row, and the weights never all underflow.
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
