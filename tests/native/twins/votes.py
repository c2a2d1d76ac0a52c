"""Weighted votes of several models, in plain Python."""

from __future__ import annotations

import math
from typing import Any

from tests.native.twins.elementary import exp


def true_class_shares(margins: Any, y: Any, out: Any) -> None:
    """Probability of the true class: out[i] = 1 / (1 + exp(-s_i * margin_i)), s = 2y - 1."""
    for i in range(out.shape[0]):
        out[i] = 1.0 / (1.0 + exp(min((1.0 - 2.0 * y[i]) * margins[i], 700.0)))


def balance_of_votes(margins: Any, weights: Any, out: Any) -> None:
    """Balance of a weighted vote: out[i] is the weight of the positive margins minus that of the others.

    Row k of ``margins`` belongs to voter k.
    """
    for i in range(out.shape[0]):
        total = 0.0
        for k in range(weights.shape[0]):
            total += weights[k] if margins[k, i] > 0.0 else -weights[k]
        out[i] = total


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
            share = exp(logs[k])
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
