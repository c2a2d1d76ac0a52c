"""Votes of many models."""

from __future__ import annotations

import math
from typing import Any

from driftsurf._kernels._compile import F8, _in, _out, kernel


@kernel(lambda f: (_in(F8), _in(F8), _out(F8)))
def true_class_shares(margins: Any, y: Any, out: Any) -> None:
    """out[i] = 1 / (1 + exp(-s_i * margin_i)), s = 2y - 1: what a margin gives to the true class."""
    for i in range(out.shape[0]):
        out[i] = 1.0 / (1.0 + math.exp(min((1.0 - 2.0 * y[i]) * margins[i], 700.0)))


@kernel(lambda f: (_in(F8, 2), _in(F8), _out(F8)), exact=True)
def balance_of_votes(margins: Any, weights: Any, out: Any) -> None:
    """out[i] = the weight of the margins above 0 less that of the others; row k of ``margins`` is voter k's."""
    for i in range(out.shape[0]):
        total = 0.0
        for k in range(weights.shape[0]):
            total += weights[k] if margins[k, i] > 0.0 else -weights[k]
        out[i] = total


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
