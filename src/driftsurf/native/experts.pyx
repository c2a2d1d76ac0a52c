"""The stacking of experts, what earlier labels say, and votes: calls of the loops in ``c/experts.c``."""

import numpy as np

from libc.stdint cimport int64_t

from driftsurf.native.buffers cimport Buffers, hold, integers, real_out, reals, release
from driftsurf.native.gil cimport PyThreadState, let_go, take_back


cdef extern from "experts.h" nogil:
    ctypedef struct Stacking:
        double* H
        double* Q
        double* work
        double* p

    void ds_expert_shares(const double* scores, int64_t n, int64_t columns, int64_t K, int64_t place, int64_t experts,
                          double* G)
    void ds_chain_scores(const double* counts, int64_t known, int64_t last, int64_t K, double* out)
    void ds_mix(const double* G, int64_t n, int64_t K, int64_t M, const double* weights, double* out)
    int ds_stack_classes(const double* G, const double* y, const double* weight, int64_t n, int64_t K, int64_t M,
                         const double* v, const double* A, double* u, Stacking room)
    int ds_stack_values(const double* m, const double* y, const double* weight, int64_t n, int64_t M, double s,
                        const double* v, const double* A, double* u, Stacking room)
    int ds_remember(const double* u, const double* H, int64_t M, double keep, double ridge, const double* A, double* out)
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


# ---------------------------------------------------------------------------------------------------------- stacking


def stacked_shares(scores, int64_t n_classes):
    """Return the log-probabilities of all experts, then their votes, as one array (rows, classes, 2 x experts).

    An expert votes for its most probable class. Those of equal probability share the vote, so that an expert that has
    learned nothing says nothing. The scores of an expert are margins (n,) or log-probabilities (n, classes known so
    far); other scores are taken for log-odds.
    """
    cdef Buffers held
    cdef Py_buffer* view
    cdef int64_t n = len(scores[0]), experts = len(scores), place, columns
    cdef double* to
    cdef PyThreadState* saved
    out = np.empty((n, n_classes, 2 * experts))
    for place in range(experts):
        held.count = 0
        try:
            view = hold(&held, np.ascontiguousarray(scores[place], np.float64), "d", 8, -1, False)
            columns = view.shape[1] if view.ndim == 2 else 0
            if view.ndim > 2 or view.shape[0] != n or columns > n_classes or (view.ndim == 2 and not columns):
                raise ValueError("the scores of the experts do not fit each other")
            to = of_size(&held, out, n * n_classes * 2 * experts, True)
            saved = let_go(n * n_classes)
            ds_expert_shares(<double*>view.buf, n, columns, n_classes, place, experts, to)
            take_back(saved)
        finally:
            release(&held)
    return out


def chain_scores(counts, int64_t last, int64_t rows, int64_t n_classes):
    """Return the log-probabilities (rows, n_classes) of labels after the class ``last``, the same for each row.

    ``counts`` (classes, classes) are those of the labels in the columns after those in the rows.
    """
    cdef Buffers held
    cdef int64_t known = len(counts), i
    cdef double* to
    if not 0 <= last < known <= n_classes:
        raise ValueError(f"there are counts of {known} classes; the last label is {last} of {n_classes}")
    held.count = 0
    try:
        out = np.empty((rows, n_classes))
        to = of_size(&held, out, rows * n_classes, True)
        if rows > 0:
            ds_chain_scores(of_size(&held, counts, known * known), known, last, n_classes, to)
        for i in range(n_classes, rows * n_classes):
            to[i] = to[i - n_classes]
        return out
    finally:
        release(&held)


def chain_after(counts, int64_t last, y, double keep):
    """Return ``chain_scores``' counts after the codes ``y``, each of which came after ``last``.

    The share ``keep`` of the earlier counts is kept.
    """
    cdef Buffers held
    cdef int64_t known = len(counts), n = len(y), i
    cdef double* to
    cdef const double* codes
    if not 0 <= last < known:
        raise ValueError(f"the last label is {last} of {known}")
    held.count = 0
    try:
        out = np.multiply(counts, keep)
        to, codes = of_size(&held, out, known * known, True), of_size(&held, y, n)
        check_codes(codes, n, known)
        for i in range(n):
            to[last * known + <int64_t>codes[i]] += 1.0
        return out
    finally:
        release(&held)


def rate_scores(rates, int64_t rows, int64_t n_classes):
    """Return the log-probabilities (rows, n_classes) of labels by their recent rate, the same for each row.

    ``rates`` (2, classes) are counts of the recent labels and of all; the shares of all count as one recent label.
    """
    cdef Buffers held
    cdef int64_t known = rates.shape[1], c, i
    cdef const double* recent
    cdef double* to
    if known > n_classes:
        raise ValueError(f"there are rates of {known} classes instead of {n_classes}")
    held.count = 0
    try:
        out = np.empty((rows, n_classes))
        to, recent = of_size(&held, out, rows * n_classes, True), of_size(&held, rates, 2 * known)
        if rows > 0:
            for c in range(n_classes):
                to[c] = ds_log(rate_of(recent, known, n_classes, c))
        for i in range(n_classes, rows * n_classes):
            to[i] = to[i - n_classes]
        return out
    finally:
        release(&held)


def rates_after(rates, y, double keep):
    """Return ``rate_scores``' counts after the codes ``y``, and by how much they had predicted these better.

    The share ``keep`` of the recent counts is kept at each label. The second number is the mean of log r - log s over the
    labels, where r is the recent rate and s the share of all labels, each mixed with one percent of equal shares.
    """
    cdef Buffers held
    cdef int64_t known = rates.shape[1], n = len(y), i, c, code
    cdef double* to
    cdef double* leads
    cdef const double* codes
    cdef double lead = 0.0, floor = 0.01 / known if known else 0.0
    held.count = 0
    try:
        out = rates.copy()
        to, codes = of_size(&held, out, 2 * known, True), of_size(&held, y, n)
        check_codes(codes, n, known)
        leads = of_size(&held, np.empty(known), known, True)
        for c in range(known):
            leads[c] = ds_log(0.99 * rate_of(to, known, known, c) + floor) - ds_log(0.99 * share_of(to, known, known, c) + floor)
        for i in range(n):
            code = <int64_t>codes[i]
            lead += leads[code]
            for c in range(known):
                to[c] *= keep
            to[code] += 1.0
            to[known + code] += 1.0
        return out, lead / n if n else 0.0
    finally:
        release(&held)


cdef double share_of(const double* rates, int64_t known, int64_t K, int64_t c) noexcept nogil:
    """Return the share of a class among all labels; each class counts as one label more."""
    cdef double total = <double>K
    cdef int64_t k
    for k in range(known):
        total += rates[known + k]
    return ((rates[known + c] if c < known else 0.0) + 1.0) / total


cdef double rate_of(const double* rates, int64_t known, int64_t K, int64_t c) noexcept nogil:
    """Return the rate of a class among the recent labels, of which the share among all labels is one more."""
    cdef double total = 1.0
    cdef int64_t k
    for k in range(known):
        total += rates[k]
    return ((rates[c] if c < known else 0.0) + share_of(rates, known, K, c)) / total


def mixed(G, weights):
    """Return the log-probabilities of the mixture, given what ``stacked_shares`` returned."""
    cdef Buffers held
    cdef int64_t n = G.shape[0], K = G.shape[1], M = G.shape[2]
    cdef double* g
    cdef double* w
    cdef double* to
    cdef PyThreadState* saved
    held.count = 0
    try:
        out = np.empty((n, K))
        g, w, to = of_size(&held, G, n * K * M), of_size(&held, weights, M), of_size(&held, out, n * K, True)
        saved = let_go(n * K * M)
        ds_mix(g, n, K, M, w, to)
        take_back(saved)
        return out
    finally:
        release(&held)


cdef after_batch(scores, y, weight, v, A, int64_t K, double s, double keep, double ridge):
    """Return weights and curvature after a batch, or None if the numbers are not finite; K is 0 for numbers."""
    cdef Buffers held
    cdef Stacking room
    cdef int64_t n = scores.shape[0], M = len(v)
    cdef double* G
    cdef double* targets
    cdef double* w
    cdef double* before
    cdef double* known
    cdef double* u
    cdef double* after
    cdef bint good
    cdef PyThreadState* saved
    held.count = 0
    try:
        weights, precision, work = np.empty(M), np.empty((M, M)), np.empty((3 * M + 6) * M + K)
        G, targets = of_size(&held, scores, n * (K or 1) * M), of_size(&held, y, n)
        if K:
            check_codes(targets, n, K)
        w, before, known = of_size(&held, weight, n), of_size(&held, v, M), of_size(&held, A, M * M)
        u, after = of_size(&held, weights, M, True), of_size(&held, precision, M * M, True)
        room.H = of_size(&held, work, (3 * M + 6) * M + K, True)
        room.Q = room.H + M * M
        room.work = room.Q + M * M
        room.p = room.work + (M + 6) * M
        saved = let_go(n * (K or 1) * M * M)
        if K:
            good = ds_stack_classes(G, targets, w, n, K, M, before, known, u, room)
        else:
            good = ds_stack_values(G, targets, w, n, M, s, before, known, u, room)
        good = good and ds_remember(u, room.H, M, keep, ridge, known, after)
        take_back(saved)
        return (weights, precision) if good else None
    finally:
        release(&held)


def after_classes(G, y, weight, v, A, double keep, double ridge):
    """Return the weights and the remembered curvature after a batch with these codes; None if they are not finite.

    G is what ``stacked_shares`` returned, v and A are the weights and the curvature before the batch.
    """
    return after_batch(G, y, weight, v, A, G.shape[1], 0.0, keep, ridge)


def after_values(m, y, weight, double s, v, A, double keep, double ridge):
    """Return what ``after_classes`` does for predicted numbers m (n, experts), whose errors are in units of ``s``."""
    return after_batch(m, y, weight, v, A, 0, s, keep, ridge)


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
