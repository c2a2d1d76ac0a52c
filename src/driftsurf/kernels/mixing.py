"""Weights of a portfolio: non-negative stacking of experts by Newton's method, for classes and for numbers.

The weights v of M experts minimise a log loss that is convex in them, plus the quadratic (u - v)' A (u - v) / 2, which
is what remains of earlier batches: A is their summed, slowly forgotten curvature. A Newton step replaces the log loss
by a parabola and minimises the sum over non-negative weights. Cutting negative weights off afterwards would not do: where
two experts are alike, one of them has to leave before the other gets its share. So each step is an exact quadratic
programme, solved by the active-set method of Lawson and Hanson.

``work`` is an array of shape (M + 6, M): M rows for a Cholesky factor, and the rows below.
"""

from __future__ import annotations

import math
from typing import Any

from driftsurf.kernels.compile import F8, I8, _in, _out, inline, kernel

ITERATIONS = 3
"""Newton steps for a batch; the minimum moves little from one batch to the next."""
LONGEST = 1.0
"""Largest change of a weight in one step: far from the minimum the parabola is no good guide."""
FREED = 1e-10
"""An expert gets a weight only if that improves the parabola by more than this share of its largest slope."""
OUTLIER = 3.0
"""A row whose error is larger than this many standard deviations counts for less, as in Huber's loss."""
LEAST_LEFT = 0.5
"""Share of the sum of weights that a step for numbers leaves at least: the loss has a pole where the sum is 0."""
GRADIENT, MEAN, TARGET, SOLUTION, SLOPE, FREE = range(6)
"""Rows of ``work`` below the Cholesky factor."""


@inline
def _solve(Q: Any, work: Any) -> Any:
    """Solve Q s = b for the free experts by Cholesky's method, from row SLOPE into row SOLUTION; 0 for the others.

    Returns whether Q is positive definite there.
    """
    M = Q.shape[0]
    for i in range(M):
        if work[M + FREE, i] == 0.0:
            work[M + SOLUTION, i] = 0.0
            continue
        for j in range(i + 1):
            if work[M + FREE, j] == 0.0:
                continue
            total = Q[i, j]
            for k in range(j):
                if work[M + FREE, k] != 0.0:
                    total -= work[i, k] * work[j, k]
            if i == j:
                if not total > 0.0:
                    return False
                work[i, i] = math.sqrt(total)
            else:
                work[i, j] = total / work[j, j]
        total = work[M + SLOPE, i]
        for k in range(i):
            if work[M + FREE, k] != 0.0:
                total -= work[i, k] * work[M + SOLUTION, k]
        work[M + SOLUTION, i] = total / work[i, i]
    for step in range(M):
        i = M - 1 - step
        if work[M + FREE, i] == 0.0:
            continue
        total = work[M + SOLUTION, i]
        for k in range(i + 1, M):
            if work[M + FREE, k] != 0.0:
                total -= work[k, i] * work[M + SOLUTION, k]
        work[M + SOLUTION, i] = total / work[i, i]
    return True


@inline
def _blocked(work: Any, M: Any) -> Any:
    """Move the weights to the solution, or to where the first free one reaches 0, which is fixed; return if so."""
    alpha, first = 1.0, -1
    for i in range(M):
        if work[M + FREE, i] != 0.0 and work[M + SOLUTION, i] <= 0.0:
            share = work[M + TARGET, i] / (work[M + TARGET, i] - work[M + SOLUTION, i])
            # The weight of an expert that was just freed is 0; it may be numerically without any gain.
            if first < 0 or share < alpha:
                alpha, first = share, i
    for i in range(M):
        if work[M + FREE, i] != 0.0:
            work[M + TARGET, i] += alpha * (work[M + SOLUTION, i] - work[M + TARGET, i])
    if first < 0:
        return False
    work[M + TARGET, first] = 0.0
    work[M + FREE, first] = 0.0
    return True


@inline
def _minimise(Q: Any, work: Any) -> Any:
    """Minimise w' Q w / 2 - b' w over w >= 0, where b is row SLOPE of ``work``, into row TARGET.

    Returns whether Q is positive definite.
    """
    M = Q.shape[0]
    largest = 0.0
    for i in range(M):
        work[M + TARGET, i] = 0.0
        work[M + FREE, i] = 0.0
        largest = max(largest, abs(work[M + SLOPE, i]))
    for _ in range(3 * M):
        best, gain = -1, FREED * largest
        for i in range(M):
            if work[M + FREE, i] == 0.0:
                slope = work[M + SLOPE, i]
                for j in range(M):
                    slope -= Q[i, j] * work[M + TARGET, j]
                if slope > gain:
                    best, gain = i, slope
        if best < 0:
            return True
        work[M + FREE, best] = 1.0
        for _ in range(M + 1):
            if not _solve(Q, work):
                return False
            if not _blocked(work, M):
                break
    return True


@inline
def _step(u: Any, v: Any, A: Any, H: Any, Q: Any, work: Any, left: Any) -> Any:
    """Take one Newton step from u, given the gradient of the loss in row GRADIENT and its curvature H.

    The sum of the weights stays at least the share ``left`` of what it was. Returns False, and leaves u as it is, if the numbers are not finite.
    """
    M = u.shape[0]
    for i in range(M):
        slope = -work[M + GRADIENT, i]
        for j in range(M):
            Q[i, j] = A[i, j] + H[i, j]
            slope += Q[i, j] * u[j] - A[i, j] * (u[j] - v[j])
        work[M + SLOPE, i] = slope
    if not _minimise(Q, work):
        return False
    longest, before, after = 0.0, 0.0, 0.0
    for i in range(M):
        longest = max(longest, abs(work[M + TARGET, i] - u[i]))
        before += u[i]
        after += work[M + TARGET, i]
    if not longest < math.inf:
        return False
    share = 1.0 if longest <= LONGEST else LONGEST / longest
    if after < left * before:
        share = min(share, (1.0 - left) * before / (before - after))
    for i in range(M):
        u[i] += share * (work[M + TARGET, i] - u[i])
    return True


@kernel(lambda f: (_in(F8, 3), _in(I8), _in(F8), _in(F8), _in(F8, 2), _out(F8), *[_out(F8, 2)] * 3, _out(F8)))
def stack_classes(
    G: Any, y: Any, weight: Any, v: Any, A: Any, u: Any, H: Any, Q: Any, work: Any, p: Any
) -> Any:
    """Weights u of log-linear stacking, p(c | x_i) proportional to exp(sum_k u_k G[i, c, k]), after one batch.

    Minimises the sum over rows of -log p(y_i | x_i) plus (u - v)' A (u - v) / 2 over u >= 0. H receives the curvature
    of the first term at the last point. Q (M, M), work and p (K classes) are overwritten. Returns whether all went
    well; if not, u may be anywhere.
    """
    n, K, M = G.shape
    for k in range(M):
        u[k] = v[k]
    for _ in range(ITERATIONS):
        for k in range(M):
            work[M + GRADIENT, k] = 0.0
            for j in range(M):
                H[k, j] = 0.0
        for i in range(n):
            if weight[i] == 0.0:
                continue
            largest = -math.inf
            for c in range(K):
                total = 0.0
                for k in range(M):
                    total += u[k] * G[i, c, k]
                p[c] = total
                largest = max(largest, total)
            mass = 0.0
            for c in range(K):
                p[c] = math.exp(p[c] - largest)
                mass += p[c]
            for k in range(M):
                work[M + MEAN, k] = 0.0
            for c in range(K):
                p[c] /= mass
                for k in range(M):
                    work[M + MEAN, k] += p[c] * G[i, c, k]
            for k in range(M):
                work[M + GRADIENT, k] += weight[i] * (work[M + MEAN, k] - G[i, y[i], k])
            for c in range(K):
                share = weight[i] * p[c]
                for k in range(M):
                    deviation = share * (G[i, c, k] - work[M + MEAN, k])
                    for j in range(k + 1):
                        H[k, j] += deviation * (G[i, c, j] - work[M + MEAN, j])
        for k in range(M):
            for j in range(k):
                H[j, k] = H[k, j]
        if not _step(u, v, A, H, Q, work, 0.0):
            return False
    return True


@kernel(lambda f: (_in(F8, 2), _in(F8), _in(F8), F8, _in(F8), _in(F8, 2), _out(F8), *[_out(F8, 2)] * 3))
def stack_values(
    m: Any, y: Any, weight: Any, s2: Any, v: Any, A: Any, u: Any, H: Any, Q: Any, work: Any
) -> Any:
    """Weights u of log-linear stacking of normal densities with the means m[i, k] and the variance s2.

    The product of the densities N(m_k, s2) to the powers u_k is normal again, with the mean sum_k u_k m_k / U and the
    variance s2 / U, where U = sum_k u_k: a convex mixture of the means, and a variance that is learned with it. Its log
    loss is convex in u. With d_k the deviation of the mixed mean from m_k, the mean of the k-th log density under it is
    -(d_k^2 + s2 / U) / (2 s2), and the covariance of two of them d_k d_l / (U s2) + 1 / (2 U^2). Otherwise as
    ``stack_classes``; a row with an error beyond OUTLIER standard deviations counts for less.
    """
    n, M = m.shape
    for k in range(M):
        u[k] = v[k]
    for _ in range(ITERATIONS):
        U = 0.0
        for k in range(M):
            U += u[k]
            work[M + GRADIENT, k] = 0.0
            for j in range(M):
                H[k, j] = 0.0
        common = 1.0 / (2.0 * U * U)
        far = OUTLIER * math.sqrt(s2 / U)
        for i in range(n):
            if weight[i] == 0.0:
                continue
            mixed = 0.0
            for k in range(M):
                mixed += u[k] * m[i, k]
            mixed /= U
            error = y[i] - mixed
            share = weight[i] if abs(error) <= far else weight[i] * far / abs(error)
            for k in range(M):
                d = mixed - m[i, k]
                # (d^2 + s2 / U) / 2 s2 is subtracted from the k-th log density (error + d)^2 / 2 s2.
                work[M + GRADIENT, k] += share * (error * (error + 2.0 * d) - s2 / U) / (2.0 * s2)
                for j in range(k + 1):
                    H[k, j] += share * (d * (mixed - m[i, j]) / (U * s2) + common)
        for k in range(M):
            for j in range(k):
                H[j, k] = H[k, j]
        if not _step(u, v, A, H, Q, work, LEAST_LEFT):
            return False
    return True
