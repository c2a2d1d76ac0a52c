"""Scores of rows by linear models, and counts over the scores of a step. Weights have the intercept last."""

cimport cython
from driftsurf.native.buffers cimport Buffers, expect, integer_out, integers, real_out, reals, release
from driftsurf.native.gil cimport PyThreadState, let_go, take_back
from driftsurf.native.rows cimport Rows, rows_of
from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

import numpy as np

from driftsurf.errors import ShapeError


cdef extern from "scores.h" nogil:
    void ds_margins(Rows rows, const double* w, double* out) noexcept
    void ds_margins_of_all(Rows rows, const double* weights, int64_t models, double* out) noexcept
    void ds_outputs(Rows rows, const double* W, int64_t K, double* out, const double* limits) noexcept
    void ds_log_softmax(double* z, int64_t n, int64_t K) noexcept


cdef extern from "tallies.h" nogil:
    ctypedef struct Tally:
        int64_t* pairs
        int64_t* scores
        int64_t* hits
        double* sums
        int64_t known, bins, share_bins
        double largest

    bint ds_tally_margins(const double* margins, const double* shares, const int64_t* actual, const int64_t* predicted,
                          int64_t n, Tally tally) noexcept
    double ds_mean_auc(const int64_t* counts, int64_t classes, int64_t bins) noexcept


def margins(X, w, out):
    """Write the margins of one model to ``out``, or of several models, whose weights and margins are matrices."""
    cdef Buffers held
    cdef Rows rows
    cdef Py_ssize_t n = 0, size = 0
    cdef int64_t models
    cdef double* weights
    cdef double* found
    cdef PyThreadState* thread
    held.count = 0
    try:
        rows_of(&held, X, &rows)
        weights = reals(&held, w, &size, -1)
        found = real_out(&held, out, &n, -1)
        models = size // (rows.d + 1)
        expect(size == models * (rows.d + 1) and n == models * rows.n)
        thread = let_go(rows.n * rows.d)
        ds_margins_of_all(rows, weights, models, found)
        take_back(thread)
    finally:
        release(&held)


@cython.final
@cython.freelist(8)
cdef class MarginScorer:
    """Margins of rows by a linear model as it was at one moment, whatever it learns later.

    >>> MarginScorer(np.array([2.0, 0.5]))(np.array([[1.0], [3.0]]))
    array([2.5, 6.5])
    """

    def __init__(self, weights):
        cdef Buffers held
        cdef Py_ssize_t n = 0
        cdef double* values
        if self.w != NULL:
            raise TypeError("the weights of a scorer cannot be changed")
        held.count = 0
        try:
            values = reals(&held, np.ascontiguousarray(weights, np.float64), &n)
            set_weights(self, values, n)
        finally:
            release(&held)

    def __dealloc__(self):
        free(self.w)

    def __reduce__(self):
        return MarginScorer, (self.weights,)

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self

    @property
    def weights(self):
        """Copy of the weights, the intercept last."""
        cdef Buffers held
        out = np.empty(self.size)
        held.count = 0
        if self.size:
            memcpy(real_out(&held, out), self.w, 8 * self.size)
            release(&held)
        return out

    def __call__(self, X):
        """Return w.x + intercept for each row; ShapeError unless rows have as many columns as the weights."""
        cdef Buffers held
        cdef Rows rows
        cdef PyThreadState* thread
        cdef double* found
        held.count = 0
        try:
            rows_of(&held, X, &rows)
            if rows.d + 1 != self.size:
                raise ShapeError(f"X has {rows.d} features, but this model was made for {self.size - 1}")
            out = np.empty(rows.n)
            found = real_out(&held, out)
            thread = let_go(rows.n * rows.d)
            ds_margins(rows, self.w, found)
            take_back(thread)
        finally:
            release(&held)
        return out


cdef int set_weights(MarginScorer scorer, const double* weights, int64_t size) except -1:
    """Copy weights to a new scorer."""
    scorer.w = <double*>malloc(8 * (size + 1))
    if scorer.w == NULL:
        raise MemoryError(f"no memory for {size} weights")
    memcpy(scorer.w, weights, 8 * size)
    scorer.size = size
    return 0


def classes_of_margins(margins, bint ties):
    """Return the code of the class that each margin stands for: 1 above 0, and at 0 if ``ties``."""
    cdef Buffers held
    cdef Py_ssize_t n = 0, i
    cdef double* values
    cdef int64_t* codes
    held.count = 0
    try:
        values = reals(&held, margins, &n)
        out = np.empty(n, np.int64)
        codes = integer_out(&held, out)
        for i in range(n):
            codes[i] = values[i] > 0.0 or (ties and values[i] == 0.0)
    finally:
        release(&held)
    return out


def outputs(X, W, out, limits=None):
    """Write the scores of all outputs, (rows, K); W has shape (K, d + 1) for dense rows, (d + 1, K) for CSR rows.

    With ``limits`` (2, d), each value is limited to the range of its column. Zeros of CSR rows are not looked at.
    """
    cdef Buffers held
    cdef Rows rows
    cdef Py_ssize_t n = 0, size = 0, sides = 0
    cdef int64_t K
    cdef double* weights
    cdef double* found
    cdef double* ranges = NULL
    cdef PyThreadState* thread
    held.count = 0
    try:
        rows_of(&held, X, &rows)
        weights = reals(&held, W, &size, 2)
        found = real_out(&held, out, &n, 2)
        if limits is not None:
            ranges = reals(&held, limits, &sides, 2)
        K = size // (rows.d + 1)
        expect(size == K * (rows.d + 1) and n == K * rows.n and (ranges == NULL or sides == 2 * rows.d))
        thread = let_go(rows.n * rows.d)
        ds_outputs(rows, weights, K, found, ranges)
        take_back(thread)
    finally:
        release(&held)


def log_softmax(z):
    """Replace the scores of each row by the logarithms of their softmax, in place."""
    cdef Buffers held
    cdef Py_ssize_t size = 0
    cdef int64_t n
    cdef double* scores
    cdef PyThreadState* thread
    held.count = 0
    try:
        scores = real_out(&held, z, &size, 2)
        n = held.views[0].shape[0]
        thread = let_go(size)
        if size:
            ds_log_softmax(scores, n, size // n)
        take_back(thread)
    finally:
        release(&held)


def tally_margins(margins, shares, true, predicted, double largest, pairs, scores, hits, sums):
    """Count rows of two classes by their margins and by the probabilities of the second class.

    Parameters
    ----------
    margins, shares
        Log-odds and probability of the second class.
    true, predicted
        Codes of the classes. Codes outside of ``pairs`` are counted as -1.
    largest
        Margins beyond this, and below its negative, are in the outermost bins.
    pairs
        Rows by true and predicted code, both plus 1.
    scores
        Rows of other classes, and of the second one, by bins of margins.
    hits, sums
        The same by bins of probabilities, and the sum of the probabilities in each bin. A row with a probability of
        exactly 0.5 is with the other rows of the same prediction.

    Returns
    -------
    False if a probability is not a number: then the counts mean nothing.
    """
    cdef Buffers held
    cdef Tally tally
    cdef Py_ssize_t n = 0, other = 0, size = 0
    cdef double* logits
    cdef double* probabilities
    cdef int64_t* actual
    cdef int64_t* said
    held.count = 0
    try:
        logits = reals(&held, margins, &n)
        probabilities = reals(&held, shares, &other)
        expect(other == n)
        actual = integers(&held, true, &other)
        expect(other == n)
        said = integers(&held, predicted, &other)
        expect(other == n)
        tally.largest = largest
        tally.pairs = integer_out(&held, pairs, &size, 2)
        tally.known = held.views[held.count - 1].shape[0] - 1
        expect(tally.known >= 0 and size == (tally.known + 1) * (tally.known + 1))
        tally.scores = integer_out(&held, scores, &size, 2)
        tally.bins = size // 2
        expect(tally.bins > 0 and size == 2 * tally.bins)
        tally.sums = real_out(&held, sums, &size)
        tally.share_bins = size
        tally.hits = integer_out(&held, hits, &size, 2)
        expect(tally.share_bins > 1 and size == 2 * tally.share_bins)
        return ds_tally_margins(logits, probabilities, actual, said, n, tally)
    finally:
        release(&held)


def mean_auc(counts):
    """Return the mean ROC AUC of classes from counts of other rows and own rows by bins of scores; NaN without any.

    Scores in the same bin count half. Classes without own rows, or without others, are left out.
    """
    cdef Buffers held
    cdef int64_t* numbers
    held.count = 0
    try:
        numbers = integers(&held, counts, NULL, 3)
        expect(held.views[0].shape[1] == 2)
        return ds_mean_auc(numbers, held.views[0].shape[0], held.views[0].shape[2])
    finally:
        release(&held)
