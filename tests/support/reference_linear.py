"""Slow, readable twins of the linear learners with several outputs: written from the rules, not from the code.

Rows are dense and carry the constant column already; weights are (features and constant, outputs).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from reference import LabelledRows
from scipy.special import log_softmax, softmax

from driftsurf.core.contracts import FloatArray


@dataclass(frozen=True)
class Loss:
    """Loss named "softmax", "squared", "huber" or "hinge"."""

    name: str
    epsilon: float = 1.0

    def value(self, z: FloatArray, y: float) -> float:
        s = 2 * y - 1
        match self.name:
            case "softmax":
                return float(-log_softmax(z)[int(y)])
            case "hinge":
                return float(max(0.0, 1 - s * z[0]) ** 2)
            case "huber" if abs(z[0] - y) > self.epsilon:
                return float(2 * self.epsilon * abs(z[0] - y) - self.epsilon**2)
            case _:
                return float((z[0] - y) ** 2)

    def gradient(self, z: FloatArray, y: float) -> FloatArray:
        """Return the derivatives by the scores."""
        s = 2 * y - 1
        match self.name:
            case "softmax":
                return np.asarray(softmax(z) - np.eye(len(z))[int(y)])
            case "hinge":
                return np.array([-2 * s * (1 - s * z[0]) if s * z[0] < 1 else 0.0])
            case "huber" if abs(z[0] - y) > self.epsilon:
                return np.array([2 * self.epsilon * np.sign(z[0] - y)])
            case _:
                return np.array([2 * (z[0] - y)])


def gradient_sum(X: FloatArray, table: dict[int, FloatArray], outputs: int) -> FloatArray:
    """Return the sum of the gradients in the table, computed from scratch."""
    total = np.zeros((X.shape[1], outputs))
    for i, alpha in table.items():
        total = total + np.outer(X[i], alpha)
    return total


def saga(
    loss: Loss,
    rows: LabelledRows,
    order: Iterable[int],
    W: FloatArray,
    table: dict[int, FloatArray],
    eta: float,
    mu: float,
) -> FloatArray:
    """Return the weights after one SAGA step for each row of ``order``; the table has the rows drawn so far."""
    X, y, weight = rows
    for i in order:
        g = weight[i] * loss.gradient(X[i] @ W, y[i])
        alpha = table.setdefault(i, np.zeros(W.shape[1]))
        average = gradient_sum(X, table, W.shape[1]) / len(table)
        W = W - eta * mu * W - eta * (np.outer(X[i], g - alpha) + average)
        table[i] = g
    return W


def sgd(loss: Loss, rows: LabelledRows, order: Iterable[int], W: FloatArray, eta: float, mu: float) -> FloatArray:
    """Return the weights after one SGD step for each row of ``order``."""
    X, y, weight = rows
    for i in order:
        W = W - eta * mu * W - eta * weight[i] * np.outer(X[i], loss.gradient(X[i] @ W, y[i]))
    return W


def risk(loss: Loss, rows: LabelledRows, W: FloatArray, mu: float) -> float:
    """Return the weighted mean loss plus mu/2 |W|^2."""
    X, y, weight = rows
    losses = [loss.value(x @ W, target) for x, target in zip(X, y, strict=True)]
    return float(np.average(losses, weights=weight)) + 0.5 * mu * float((W**2).sum())
