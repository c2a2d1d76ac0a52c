"""Slow, readable twins of the mixers of a portfolio: written from the formulas, with scipy's quadratic programme."""

from __future__ import annotations

import itertools

import numpy as np
from scipy.linalg import solve_triangular
from scipy.optimize import nnls
from scipy.special import softmax

from driftsurf.core.contracts import FloatArray, IntArray


def newton_step(u: FloatArray, v: FloatArray, A: FloatArray, gradient: FloatArray, H: FloatArray) -> FloatArray:
    """Return the point after one step: the minimum over w >= 0 of the parabola, or a part of the way to it."""
    Q = A + H
    slope = Q @ u - gradient - A @ (u - v)
    root = np.linalg.cholesky(Q)
    w, _ = nnls(root.T, solve_triangular(root, slope, lower=True))
    return np.asarray(u + (w - u) * min(1.0, 1.0 / max(np.abs(w - u).max(), 1e-300)))


def stack_classes(
    G: FloatArray, y: IntArray, weight: FloatArray, v: FloatArray, A: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the weights after three Newton steps, and the curvature of the loss at the last one."""
    u = v
    for _ in range(3):
        p = softmax(G @ u, axis=1)
        f = np.einsum("ic,ick->ik", p, G)
        D = G - f[:, None, :]
        gradient = weight @ (f - G[np.arange(len(y)), y])
        H = np.einsum("i,ic,ick,icl->kl", weight, p, D, D)
        u = newton_step(u, v, A, gradient, H)
    return u, H


def stack_values(
    m: FloatArray, y: FloatArray, weight: FloatArray, s: float, v: FloatArray, A: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the weights of the convex mixture, the best of all sets of experts, and the curvature of its loss."""
    r = np.clip((y[:, None] - m) / s, -5.0, 5.0)
    H = np.asarray(r.T @ (weight[:, None] * r))
    best, lowest = v, np.inf
    for chosen in itertools.product([False, True], repeat=len(v)):
        free = np.flatnonzero(chosen)
        if not len(free):
            continue
        # Lagrange's equations: (A + H) u + multiplier = A v for these experts, and their sum is 1.
        system = np.ones((len(free) + 1, len(free) + 1))
        system[:-1, :-1], system[-1, -1] = (A + H)[np.ix_(free, free)], 0.0
        u = np.zeros(len(v))
        u[free] = np.linalg.solve(system, np.append((A @ v)[free], 1.0))[:-1]
        value = float(u @ H @ u + (u - v) @ A @ (u - v))
        if u.min() >= 0.0 and value < lowest:
            best, lowest = u, value
    return best, H
