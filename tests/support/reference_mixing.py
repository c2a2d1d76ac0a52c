"""Slow, readable twins of the mixers of a portfolio: written from the formulas, with scipy's quadratic programme."""

from __future__ import annotations

import numpy as np
from scipy.linalg import solve_triangular
from scipy.optimize import nnls
from scipy.special import softmax

from driftsurf.core.contracts import FloatArray, IntArray


def newton_step(
    u: FloatArray, v: FloatArray, A: FloatArray, gradient: FloatArray, H: FloatArray, left: float = 0.0
) -> FloatArray:
    """Return the point after one step: the minimum over w >= 0 of the parabola, or a part of the way to it.

    No weight changes by more than 1, and the share ``left`` of their sum is left.
    """
    Q = A + H
    slope = Q @ u - gradient - A @ (u - v)
    root = np.linalg.cholesky(Q)
    w, _ = nnls(root.T, solve_triangular(root, slope, lower=True))
    share = min(1.0, 1.0 / max(np.abs(w - u).max(), 1e-300))
    if w.sum() < left * u.sum():
        share = min(share, (1.0 - left) * u.sum() / (u.sum() - w.sum()))
    return np.asarray(u + (w - u) * share)


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
    m: FloatArray, y: FloatArray, weight: FloatArray, s2: float, v: FloatArray, A: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the same for normal densities; means and covariances of their logarithms are integrated numerically."""
    nodes, masses = np.polynomial.hermite_e.hermegauss(5)  # exact for the polynomials of degree 4 needed here
    masses = masses / masses.sum()
    u = v
    for _ in range(3):
        mixed, deviation = m @ u / u.sum(), np.sqrt(s2 / u.sum())
        error = y - mixed
        share = weight * np.minimum(1.0, 3.0 * deviation / np.maximum(np.abs(error), 1e-300))
        values = mixed[:, None] + deviation * nodes  # of the target, by row and node
        G = -np.square(values[:, :, None] - m[:, None, :]) / (2 * s2)
        f = np.einsum("c,ick->ik", masses, G)
        D = G - f[:, None, :]
        gradient = share @ (f + np.square(y[:, None] - m) / (2 * s2))
        H = np.einsum("i,c,ick,icl->kl", share, masses, D, D)
        u = newton_step(u, v, A, gradient, H, left=0.5)
    return u, H
