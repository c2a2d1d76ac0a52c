"""Losses and shares of classes, and votes: calls of the loops in ``c/experts.c``."""

import numpy as np

from libc.stdint cimport int64_t

from driftsurf.native.buffers cimport Buffers, hold, integers, real_out, reals, release
from driftsurf.native.gil cimport PyThreadState, let_go, take_back


cdef extern from "experts.h" nogil:
    void ds_true_class_shares(const double* margins, const double* y, int64_t n, double* out)
    double ds_rate_voters(const double* margins, const double* y, const double* weight, int64_t voters, int64_t n,
                          double* values, double* out)
    void ds_balance_of_votes(const double* margins, const double* weights, int64_t voters, int64_t n, double* out)
    void ds_follow_losses(const double* margins, const double* losses, const double* weight, int64_t voters, int64_t n,
                          double decay, double* logs, double* balance)

cdef extern from "ds_math.h" nogil:
    double ds_log(double x)


cdef inline double* of_size(Buffers* held, object array, Py_ssize_t size, bint writable=False) except? NULL:
    """Return the memory of an array of float64 with this number of elements and any number of axes."""
    cdef Py_ssize_t n = 0
    cdef double* found = real_out(held, array, &n, -1) if writable else reals(held, array, &n, -1)
    if n != size:
        raise ValueError(f"an array has {n} elements instead of {size}")
    return found


cdef int check_codes(const double* y, Py_ssize_t n, int64_t K) except -1:
    """Raise ValueError unless all values are codes of K classes."""
    cdef Py_ssize_t i
    for i in range(n):
        if not (0.0 <= y[i] < K):
            raise ValueError(f"{y[i]} is not the code of one of {K} classes")
    return 0


# ------------------------------------------------------------------------------------------------ losses and shares


def log_losses(scores, y, double most):
    """Return -log p(true class) of each row, or ``most`` where that is less, given log-probabilities (n, classes)."""
    cdef Buffers held
    cdef int64_t n = scores.shape[0], K = scores.shape[1], i
    cdef const double* logs
    cdef const double* codes
    cdef double* to
    held.count = 0
    try:
        out = np.empty(n)
        logs = of_size(&held, np.ascontiguousarray(scores, np.float64), n * K)
        codes, to = of_size(&held, y, n), of_size(&held, out, n, True)
        check_codes(codes, n, K)
        for i in range(n):
            to[i] = -logs[i * K + <int64_t>codes[i]]
            if to[i] > most:  # NaN stays NaN
                to[i] = most
        return out
    finally:
        release(&held)


def log_shares(shares, present, int64_t n_classes, double least):
    """Return log-probabilities (n, n_classes) of rows, none of them below the logarithm of ``least``.

    ``shares`` (n, k) are the probabilities of the classes ``present``, rising codes; or, of two classes, those of the
    second one (n,). NaN stands for the smallest probability.
    """
    cdef Buffers held
    cdef Py_buffer* view
    cdef Py_ssize_t k = 0, n, i, c
    cdef const int64_t* codes
    cdef const double* from_
    cdef double* to
    cdef double share, lowest = ds_log(least)
    cdef PyThreadState* saved
    held.count = 0
    try:
        view = hold(&held, np.ascontiguousarray(shares, np.float64), "d", 8, -1, False)
        codes, from_, n = integers(&held, present, &k), <const double*>view.buf, view.shape[0]
        if not 1 <= view.ndim <= 2 or k != (2 if view.ndim == 1 else view.shape[1]):
            raise ValueError(f"there are probabilities of {view.ndim} axes for {k} classes")
        for c in range(k):
            if not 0 <= codes[c] < n_classes:
                raise ValueError(f"{codes[c]} is not the code of one of {n_classes} classes")
        out = np.empty((n, n_classes))
        to = of_size(&held, out, n * n_classes, True)
        saved = let_go(n * n_classes)
        if k < n_classes:
            for i in range(n * n_classes):
                to[i] = lowest
        for i in range(n):
            for c in range(k):
                if view.ndim == 2:
                    share = from_[i * k + c]
                else:
                    share = from_[i] if c else 1.0 - from_[i]
                to[i * n_classes + codes[c]] = ds_log(share) if share > least else lowest
        take_back(saved)
        return out
    finally:
        release(&held)


# ------------------------------------------------------------------------------------------------------------- votes


def true_class_shares(margins, y):
    """Return the probability of the true of two classes of each row."""
    cdef Buffers held
    cdef int64_t n = len(y)
    held.count = 0
    try:
        out = np.empty(n)
        ds_true_class_shares(of_size(&held, margins, n), of_size(&held, y, n), n, of_size(&held, out, n, True))
        return out
    finally:
        release(&held)


def rate_voters(margins, y, weight):
    """Return the mean squared error of guessing by the shares of two classes, and of the probabilities of each voter.

    The margins of voter k are row k of ``margins``.
    """
    cdef Buffers held
    cdef int64_t voters = margins.shape[0], n = margins.shape[1]
    cdef double guess
    held.count = 0
    try:
        out, values = np.empty(voters), np.empty(n)
        guess = ds_rate_voters(of_size(&held, margins, voters * n), of_size(&held, y, n), of_size(&held, weight, n),
                               voters, n, of_size(&held, values, n, True), of_size(&held, out, voters, True))
        return guess, out
    finally:
        release(&held)


def balance_of_votes(margins, weights):
    """Return the weight of the positive margins (voters, n) minus that of the others, for each row."""
    cdef Buffers held
    cdef int64_t voters = len(weights), n = margins.shape[1]
    held.count = 0
    try:
        out = np.empty(n)
        ds_balance_of_votes(of_size(&held, margins, voters * n), of_size(&held, weights, voters), voters, n,
                            of_size(&held, out, n, True))
        return out
    finally:
        release(&held)


def follow_losses(margins, losses, weight, double decay):
    """Vote on each row with weights that are updated by exponential decay after it (Candor).

    Return the balance of the vote on each row, from -1 to 1, with the weights before that row, and the logarithms of
    the weights after the last one, the largest of which is 0. ``margins`` and ``losses`` are (voters, n).
    """
    cdef Buffers held
    cdef int64_t voters = margins.shape[0], n = margins.shape[1]
    held.count = 0
    try:
        balance, logs = np.empty(n), np.zeros(voters)
        ds_follow_losses(of_size(&held, margins, voters * n), of_size(&held, losses, voters * n),
                         of_size(&held, weight, n), voters, n, decay, of_size(&held, logs, voters, True),
                         of_size(&held, balance, n, True))
        return balance, logs
    finally:
        release(&held)
