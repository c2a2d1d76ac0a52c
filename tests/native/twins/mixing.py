"""Weights of a portfolio, in plain Python: stacking of experts, by Newton's method for classes, exactly for numbers.

For classes, the weights v of M experts minimise a log loss that is convex in them, plus (u - v)' A (u - v) / 2, which
is what remains of earlier batches: A is their summed, slowly forgotten curvature. A Newton step replaces the log loss
by a parabola and minimises the sum over non-negative weights. Cutting negative weights off afterwards would not do:
where two experts are alike, one of them has to leave before the other gets its share. So each step is an exact
quadratic programme, solved by the active-set method of Lawson and Hanson.

``work`` is an array of shape (M + 6, M): M rows for a Cholesky factor, and the rows below.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from tests.native.twins.elementary import exp, log

ITERATIONS = 3
"""Newton steps for a batch; the minimum moves little from one batch to the next."""
LONGEST = 1.0
"""Largest change of a weight in one step: far from the minimum the parabola is no good guide."""
FREED = 1e-10
"""An expert gets a weight only if that improves the parabola by more than this share of its largest slope."""
OUTLIER = 5.0
"""Largest error of an expert that counts, in units of the error of the mixture on the batch."""
TRUSTED = 0.99
"""Share of an expert's own probabilities; the rest is spread over all classes."""
STIFF = 1e5
"""Curvature that holds the sum of weights for numbers at 1, as a multiple of the largest other one."""
GRADIENT, MEAN, TARGET, SOLUTION, SLOPE, FREE = range(6)
"""Rows of ``work`` below the Cholesky factor."""


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


def _blocked(work: Any, M: Any) -> Any:
    """Move the weights to the solution, or to where the first free one reaches 0, which is fixed; return if so."""
    alpha, first = 1.0, -1
    for i in range(M):
        if work[M + FREE, i] != 0.0 and work[M + SOLUTION, i] <= 0.0:
            gap = work[M + TARGET, i] - work[M + SOLUTION, i]
            share = work[M + TARGET, i] / gap if gap > 0.0 else 0.0
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


def _minimise(Q: Any, work: Any, start: Any) -> Any:
    """Minimise w' Q w / 2 - b' w over w >= 0, where b is row SLOPE of ``work``, into row TARGET, starting at ``start``.

    Returns whether Q is positive definite and b finite.
    """
    M = Q.shape[0]
    largest = 0.0
    for i in range(M):
        work[M + TARGET, i] = max(start[i], 0.0)
        work[M + FREE, i] = float(start[i] > 0.0)
        if not abs(work[M + SLOPE, i]) < math.inf:
            return False
        largest = max(largest, abs(work[M + SLOPE, i]))
    for _ in range(3 * M):
        for _ in range(M + 1):
            if not _solve(Q, work):
                return False
            if not _blocked(work, M):
                break
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
    return True


def _step(u: Any, v: Any, A: Any, H: Any, Q: Any, work: Any) -> Any:
    """Take one Newton step from u, given the gradient of the loss in row GRADIENT and its curvature H.

    Returns False, and leaves u as it is, if the numbers are not finite.
    """
    M = u.shape[0]
    for i in range(M):
        slope = -work[M + GRADIENT, i]
        for j in range(M):
            Q[i, j] = A[i, j] + H[i, j]
            slope += Q[i, j] * u[j] - A[i, j] * (u[j] - v[j])
        work[M + SLOPE, i] = slope
    if not _minimise(Q, work, u):
        return False
    longest = 0.0
    for i in range(M):
        longest = max(longest, abs(work[M + TARGET, i] - u[i]))
    if not longest < math.inf:
        return False
    share = 1.0 if longest <= LONGEST else LONGEST / longest
    for i in range(M):
        u[i] += share * (work[M + TARGET, i] - u[i])
    return True


def stack_classes(G: Any, y: Any, weight: Any, v: Any, A: Any, u: Any, H: Any, Q: Any, work: Any, p: Any) -> Any:
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
                p[c] = exp(p[c] - largest)
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
        if not _step(u, v, A, H, Q, work):
            return False
    return True


def stack_values(m: Any, y: Any, weight: Any, s: Any, v: Any, A: Any, u: Any, H: Any, Q: Any, work: Any) -> Any:
    """Weights u of a convex mixture of predictions m[i, k] after one batch: u >= 0 and sum_k u_k = 1.

    Minimises the sum over rows of the squared error of the mixture in units of s, halved, plus (u - v)' A (u - v) / 2.
    The errors of the experts count up to OUTLIER units, so that a row has bounded evidence.
    With r_k the error of expert k, that of the mixture is sum_k u_k r_k, and the curvature H is the sum of r r': the
    problem is a single quadratic programme. Its constraint on the sum is a stiff spring; the rest is divided out.
    """
    n, M = m.shape
    for k in range(M):
        for j in range(M):
            H[k, j] = 0.0
    for i in range(n):
        for k in range(M):
            work[M + MEAN, k] = min(max((y[i] - m[i, k]) / s, -OUTLIER), OUTLIER)
        for k in range(M):
            error = weight[i] * work[M + MEAN, k]
            for j in range(k + 1):
                H[k, j] += error * work[M + MEAN, j]
    spring = 0.0
    for k in range(M):
        for j in range(k):
            H[j, k] = H[k, j]
        spring = max(spring, A[k, k] + H[k, k])
    spring *= STIFF
    for k in range(M):
        slope = spring
        for j in range(M):
            Q[k, j] = A[k, j] + H[k, j] + spring
            slope += A[k, j] * v[j]
        work[M + SLOPE, k] = slope
    if not _minimise(Q, work, v):
        return False
    total = 0.0
    for k in range(M):
        total += work[M + TARGET, k]
    if not 0.5 < total < 2.0:
        return False
    for k in range(M):
        u[k] = work[M + TARGET, k] / total
    return True


def expert_shares(scores: Any, K: Any) -> Any:
    """Logarithms of an expert's probabilities, none of which is near 0, and its votes, each of shape (n, K)."""
    shares = np.zeros((len(scores), K))
    if scores.ndim == 1:
        for i, score in enumerate(scores):
            shares[i, 1] = 1.0 / (1.0 + exp(-min(max(score, -500.0), 500.0)))
            shares[i, 0] = 1.0 - shares[i, 1]
    else:
        for i, c in np.ndindex(scores.shape):
            shares[i, c] = exp(min(scores[i, c], 0.0))
    logs, votes = np.empty_like(shares), np.zeros_like(shares)
    for i in range(len(scores)):
        for c in range(K):
            logs[i, c] = log(TRUSTED * shares[i, c] + (1.0 - TRUSTED) / K)
        best = logs[i] == logs[i].max()
        votes[i, best] = math.log(9.0) / best.sum()
    return logs, votes
