"""The loop over the rows of many keys that differ from a shared prediction: predict, learn, one key after the other.

What a key learns is explained in ``c/difference.h``. A key takes the same numbers however many rows it has had, and
what it has learned depends on its rows in order alone, not on how they are spread over calls.
"""

from driftsurf.native.buffers cimport Buffers, expect, hold, integers, real_out, reals, release
from driftsurf.native.gil cimport PyThreadState, let_go, take_back
from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc


cdef extern from "difference.h" nogil:
    enum:
        DS_MOST_WIDTHS
    ctypedef struct DifferenceRules:
        int64_t d, outputs, widths
        int regression
        double width[DS_MOST_WIDTHS]
        double forget, recall
    int64_t ds_difference_size(const DifferenceRules* rules) noexcept
    int64_t ds_difference_work(const DifferenceRules* rules) noexcept
    void ds_begin_difference(const DifferenceRules* rules, float* key) noexcept
    void ds_difference_row(const DifferenceRules* rules, float* key, const double* row, const double* shared,
                           double target, double weight, double* out, double* work) noexcept


cdef class Differences:
    """How keys differ from a shared prediction: the sizes and options that all keys have in common.

    Parameters
    ----------
    d
        Columns of a row.
    outputs
        1 for a margin or a number, otherwise one for each class.
    regression
        Whether numbers are predicted.
    widths
        Standard deviation of the weights of each correction before the first row.
    forget, recall
        Shares of the evidence about weights, and of the record of predictions, that remain after a row.
    """

    cdef DifferenceRules rules

    def __init__(self, int64_t d, int64_t outputs, bint regression, tuple widths, double forget, double recall):
        cdef int64_t t
        if not (0 < d < 2**24 and 0 < outputs <= 2**16 and 0 < len(widths) <= DS_MOST_WIDTHS):
            raise ValueError(f"there cannot be {d} columns, {outputs} outputs and {len(widths)} widths")
        if not (0.0 < forget <= 1.0 and 0.0 <= recall <= 1.0 and (outputs == 1 or not regression)):
            raise ValueError(f"forget is {forget}, recall is {recall}")
        self.rules.d, self.rules.outputs, self.rules.widths = d, outputs, len(widths)
        self.rules.regression = regression
        self.rules.forget, self.rules.recall = forget, recall
        for t in range(len(widths)):
            self.rules.width[t] = widths[t]

    @property
    def size(self):
        """Numbers that a key takes."""
        return ds_difference_size(&self.rules)

    def begin(self, keys):
        """Let every row of an array of float32 be a key without rows."""
        cdef Buffers held
        cdef int64_t i, n = len(keys), size = ds_difference_size(&self.rules)
        held.count = 0
        try:
            view = hold(&held, keys, "f", 4, 2, True)
            expect(view.len == 4 * n * size)
            for i in range(n):
                ds_begin_difference(&self.rules, <float*>view.buf + i * size)
        finally:
            release(&held)

    def observe(self, keys, slots, starts, order, X, targets, weights, predicted, alone):
        """Predict the rows of each key in order, and learn those that have a target.

        Parameters
        ----------
        keys
            What each key has learned, an array of float32 with a row for each slot.
        slots, starts, order
            The slots of the keys with rows, where their rows start in ``order``, and the places of rows.
        X
            Scaled columns, and behind them what the shared model predicts.
        targets, weights
            Codes of labels or numbers, NaN for none; and weights, or None.
        predicted, alone
            Set to the code or number that each key predicts, and to that of the shared model alone.
        """
        cdef Buffers held
        cdef Py_ssize_t groups = 0, bounds = 0, places = 0, n = 0, count = 0, other = 0
        cdef int64_t size = ds_difference_size(&self.rules), K = self.rules.outputs
        cdef int64_t shared = self.rules.d, width, slot_count = len(keys), g, i, r
        cdef double* out = NULL
        cdef double* work
        cdef const double* weight = NULL
        cdef const double* row
        cdef float* key
        cdef PyThreadState* thread
        width = shared + (2 if self.rules.regression else K)
        held.count = 0
        try:
            view = hold(&held, keys, "f", 4, 2, True)
            slot_of, start, place = integers(&held, slots, &groups), integers(&held, starts, &bounds), \
                integers(&held, order, &places)
            values, target = reals(&held, X, &n, 2), reals(&held, targets, &count)
            if weights is not None:
                weight = reals(&held, weights, &other)
                expect(other == count)
            made = real_out(&held, predicted, &other)
            expect(other == count)
            plain = real_out(&held, alone, &other)
            expect(other == count and n == count * width and view.len == 4 * slot_count * size and bounds == groups + 1)
            for g in range(groups):
                expect(0 <= slot_of[g] < slot_count and 0 <= start[g] <= start[g + 1] <= places)
            for i in range(places):
                expect(0 <= place[i] < count)
            if not self.rules.regression:
                for i in range(count):
                    expect(target[i] != target[i] or 0.0 <= target[i] < (2 if K == 1 else K))
            out = <double*>malloc(8 * (K + ds_difference_work(&self.rules)))
            if out == NULL:
                raise MemoryError
            work = out + K
            thread = let_go(n)
            for g in range(groups):
                key = <float*>view.buf + slot_of[g] * size
                for i in range(start[g], start[g + 1]):
                    r = place[i]
                    row = values + r * width
                    ds_difference_row(&self.rules, key, row, row + shared, target[r],
                                      1.0 if weight == NULL else weight[r], out, work)
                    made[r] = out[0] if self.rules.regression else best(out, K, 0.5)
                    plain[r] = row[shared] if self.rules.regression else best(row + shared, K, 0.0)
            take_back(thread)
        finally:
            free(out)
            release(&held)


cdef inline double best(const double* scores, int64_t K, double middle) noexcept nogil:
    """Return the code with the largest score, the first one of several; one score is that of the second code."""
    cdef int64_t k, found = 0
    if K == 1:
        return 1.0 if scores[0] > middle else 0.0
    for k in range(1, K):
        found = k if scores[k] > scores[found] else found
    return found
