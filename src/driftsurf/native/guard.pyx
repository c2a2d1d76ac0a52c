"""The range guard as an object; ``c/guard.h`` has the arithmetic, and ``driftsurf.session.guard`` says what it is for."""

import numpy as np

from driftsurf.native.buffers cimport Buffers, expect, hold, real_out, reals, release
from driftsurf.native.gil cimport PyThreadState, let_go, take_back
from driftsurf.native.rows cimport Rows, rows_of
from libc.math cimport INFINITY
from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset


cdef extern from *:
    bint __sync_bool_compare_and_swap(int64_t* place, int64_t old, int64_t new) noexcept nogil


cdef extern from "columns.h" nogil:
    bint ds_all_within(Rows rows, const double* most, int64_t repeats) noexcept
    void ds_column_limits(const double* total, const double* mass, int64_t d, double most, int64_t length, double* out) noexcept
    void ds_clip(Rows rows, const double* most, void* out) noexcept

MEMORY = DS_GUARD_MEMORY
"""Number of last rows whose norms are kept."""
cdef int64_t LOOP = 128  # least number of values that are checked in one loop: rows of narrow tables several at once
cdef int64_t MORE_NORMS = 3 * DS_GUARD_MEMORY  # norms that fit behind the known ones before these are copied
cdef int64_t MOST_NUMBERS = 1 << 40  # more are no memory that a computer has, and sizes of arrays do not overflow


cdef enum:
    ROOM = DS_ROWS_OF_GUARD  # row of the numbers of a guard with the limits of the rows that it is after


cdef double* numbers_for(int64_t count) except NULL:
    """Return memory for so many numbers."""
    cdef double* found = NULL
    if 0 <= count < MOST_NUMBERS:
        found = <double*>malloc(8 * (count + 1))
    if found == NULL:
        raise MemoryError(f"no memory for {count} numbers")
    return found


cdef object copied(const double* values, int64_t count):
    """Return numbers as an array."""
    cdef Buffers held
    out = np.empty(count)
    held.count = 0
    memcpy(real_out(&held, out), values, 8 * count)
    release(&held)
    return out


cdef class Norms:
    def __dealloc__(self):
        free(self.values)


cdef Norms norms_with_room(int64_t capacity):
    """Return memory for the norms of rows."""
    cdef Norms norms = Norms.__new__(Norms)
    norms.values = numbers_for(capacity)
    norms.capacity = capacity
    return norms


cdef Norms NO_NORMS = norms_with_room(0)


cdef bint reserve(Norms norms, int64_t last, int64_t count) noexcept:
    """Reserve room behind the norms up to ``last``; false if there is none, or another guard has added some there."""
    return last + count <= norms.capacity and __sync_bool_compare_and_swap(&norms.used, last, last + count)


cdef class RangeGuard:
    """A range guard; ``admit`` returns the next one.

    Parameters
    ----------
    factor
        Multiple of the usual norm from which on rows count less.
    clips
        Whether values are limited to a multiple of the usual size of their column.
    recent
        Squared norms of the last rows, oldest first.
    total, mass, excess
        Sums of each column, as the properties of the same names return them; None before the first row.
    """

    def __cinit__(self):
        self.norms = NO_NORMS

    def __init__(self, double factor=2.0, bint clips=False, recent=(), total=None, mass=None, excess=None):
        cdef Buffers held
        cdef Py_ssize_t n = 0, k
        cdef double* values
        if self.norms is not NO_NORMS:
            raise TypeError("a guard cannot be changed")
        self.factor, self.clips = factor, clips
        held.count = 0
        try:
            values = reals(&held, np.ascontiguousarray(recent, np.float64), &n)
            expect(n <= DS_GUARD_MEMORY)
            self.norms = norms_with_room(n + MORE_NORMS)
            for k in range(n):  # NaN, which an old state may have, would be the largest value
                self.norms.values[k] = values[k] if values[k] == values[k] else INFINITY
            self.norms.used = self.last = n
            if total is None:
                return
            reals(&held, total, &n)
            self.numbers = numbers_for((ROOM + 1) * n)
            self.d = n
            memset(self.numbers, 0, 8 * (ROOM + 1) * n)
            for row, sums in ((DS_TOTAL, total), (DS_MASS, mass), (DS_EXCESS, excess)):
                if sums is not None:
                    values = reals(&held, sums, &n)
                    expect(n == self.d)
                    memcpy(self.numbers + <int64_t>row * n, values, 8 * n)
        finally:
            release(&held)

    def __dealloc__(self):
        free(self.numbers)

    def __reduce__(self):
        return RangeGuard, (self.factor, self.clips, self.recent, self.total, self.mass, self.excess)

    @property
    def recent(self):
        """Squared norms of the last rows, oldest first."""
        return copied(self.norms.values + self.first, self.last - self.first)

    @property
    def total(self):
        """Sum of the absolute values of each column over the rows; None before the first row."""
        return self._numbers(DS_TOTAL)

    @property
    def mass(self):
        """Sum over the rows of the weights of each column's non-zeros; None before the first row."""
        return self._numbers(DS_MASS)

    @property
    def excess(self):
        """Evidence for a new scale of each column; None before the first row, and unless ``clips``."""
        return self._numbers(DS_EXCESS) if self.clips else None

    cdef object _numbers(self, int64_t row):
        return None if self.numbers == NULL else copied(self.numbers + row * self.d, self.d)

    def admit(self, X):
        """Return the rows with limited values, their weights (None: all 1), and the guard after them."""
        cdef Buffers held
        cdef Rows rows
        cdef RangeGuard after
        cdef int64_t extremes = 0
        cdef int weighted = 0
        held.count = 0
        try:
            rows_of(&held, X, &rows)
            weights = np.empty(rows.n)
            after = self.after(rows, real_out(&held, weights), &extremes, &weighted)
            if self.clips and extremes:
                X = clipped(X, rows, after.room_for_values())
        finally:
            release(&held)
        return X, weights if weighted else None, after

    cdef double* room_for_values(self) noexcept:
        """Return the largest absolute value of each column among the rows that this guard is after."""
        return self.numbers + ROOM * self.d

    cdef RangeGuard after(self, Rows rows, double* weights, int64_t* extremes, int* weighted):
        """Return the guard after rows.

        ``weights`` receives the weight of each row if ``weighted``, otherwise other numbers; ``extremes`` the number of
        rows with a value beyond the room for values of the guard that is returned.
        """
        cdef RangeGuard next = RangeGuard.__new__(RangeGuard)
        cdef Admission how
        cdef int64_t d = rows.d, known = self.last - self.first, most, kept = 0, c
        cdef int status
        cdef double* scratch = NULL
        cdef double* sizes = NULL
        cdef PyThreadState* thread
        if self.numbers != NULL and d != self.d:
            raise ValueError(f"expected {self.d} columns, got {d}")
        next.factor, next.clips, next.d = self.factor, self.clips, d
        next.numbers = numbers_for((ROOM + 1) * d)
        most = rows.n if rows.n < DS_GUARD_MEMORY else DS_GUARD_MEMORY
        next.norms, next.first = self.norms, self.first
        if not reserve(self.norms, self.last, most):
            next.norms, next.first = norms_with_room(known + most + MORE_NORMS), 0
            memcpy(next.norms.values, self.norms.values + self.first, 8 * known)
            next.norms.used = known + most
        next.last = next.first + known
        try:
            scratch = numbers_for(known + 3 * rows.n + 13 * d + 1)
            how.before = self.numbers
            if self.numbers == NULL:
                memset(next.numbers, 0, 8 * (ROOM + 1) * d)
                how.before = <const double*>memset(scratch + known + rows.n, 0, 8 * DS_ROWS_OF_GUARD * d)
            how.recent, how.n_recent = next.norms.values + next.first, known
            how.squared, how.clips = self.factor * self.factor, self.clips
            how.after, how.later, how.work = next.numbers, next.norms.values + next.last, scratch
            thread = let_go(rows.n * d)
            status = ds_admit_new(rows, &how, NULL, weights, extremes, &kept, weighted)
            if status == DS_UNSIZED:
                sizes = scratch + known + rows.n + (DS_ROWS_OF_GUARD * d if self.numbers == NULL else 0)
                ds_sizes_of_rows(rows, sizes, sizes + d)
                ds_admit_new(rows, &how, sizes, weights, extremes, &kept, weighted)
            for c in range(d):
                next.room_for_values()[c] = DS_LIMIT / DS_CAP * next.numbers[DS_COLUMN_CAP * d + c]
            take_back(thread)
        finally:
            free(scratch)
        next.last += kept
        next.norms.used = next.last
        if next.last - next.first > DS_GUARD_MEMORY:
            next.first = next.last - DS_GUARD_MEMORY
        return next

    @property
    def limits(self):
        """Largest absolute value of each column in predictions, all repeated up to a usual length; None: no limits."""
        cdef Buffers held
        cdef Py_ssize_t length = 0
        cdef double* out
        if self.bounds is None and self.clips and self.numbers != NULL:
            limits = np.empty(self.d * ((LOOP + self.d - 1) // self.d if self.d else 1))
            held.count = 0
            try:
                out = real_out(&held, limits, &length)
                ds_column_limits(self.numbers + DS_TOTAL * self.d, self.numbers + DS_MASS * self.d, self.d, DS_LIMIT,
                                 length, out)
            finally:
                release(&held)
            self.bounds = limits
        return self.bounds

    def limited(self, X):
        """Return rows to be predicted, with limited values; the same object if nothing is beyond the limits."""
        cdef Buffers held
        cdef Rows rows
        cdef Py_ssize_t length = 0
        cdef double* most
        limits = self.limits
        if limits is None:
            return X
        held.count = 0
        try:
            rows_of(&held, X, &rows)
            most = reals(&held, limits, &length)
            if rows.d != self.d:
                raise ValueError(f"expected {self.d} columns, got {rows.d}")
            return X if ds_all_within(rows, most, length // rows.d if rows.d else 1) else clipped(X, rows, most)
        finally:
            release(&held)


cdef object clipped(X, Rows rows, const double* most):
    """Return a copy of rows whose values are limited to the range -``most`` to ``most`` of their column."""
    cdef Buffers held
    cdef int64_t a, b
    if rows.indptr == NULL:
        values = np.empty_like(X)
    else:
        a, b = rows.indptr[0], rows.indptr[rows.n]
        values = np.empty_like(X[0][a:b])
    held.count = 0
    try:
        ds_clip(rows, most, hold(&held, values, "df", 0, -1, True).buf)
    finally:
        release(&held)
    return values if rows.indptr == NULL else type(X)(values, X[1][a:b], X[2] - a, X[3])
