"""The range guard as an object; ``c/guard.h`` has the arithmetic."""

from driftsurf.native.rows cimport Rows
from libc.stdint cimport int64_t


cdef extern from "guard.h" nogil:
    enum:
        DS_ADMITTED, DS_UNSIZED
        DS_FACTOR, DS_COLUMN_CAP, DS_TOTAL, DS_MASS, DS_EXCESS, DS_ROWS_OF_GUARD
        DS_GUARD_MEMORY
    const double DS_CAP, DS_LIMIT

    ctypedef struct Admission:
        const double* before
        const double* recent
        int64_t n_recent
        double squared
        int clips
        double* after
        double* later
        double* work

    int ds_admit(Rows rows, const Admission* guard, const double* sizes, double* norms, int64_t* extremes,
                 int64_t* kept, int* weighted) noexcept
    int ds_admit_new(Rows rows, const Admission* guard, const double* sizes, double* norms, int64_t* extremes,
                     int64_t* kept, int* weighted) noexcept
    void ds_sizes_of_rows(Rows rows, double* sizes, double* work) noexcept


cdef class Norms:
    # Squared norms of rows, oldest first, in memory that guards share: each one adds behind those that it knows.
    cdef double* values
    cdef int64_t used, capacity


cdef class RangeGuard:
    # A guard is a value: what it refers to never changes.
    cdef readonly double factor
    cdef readonly bint clips
    cdef int64_t d             # number of columns; 0 before the first row
    cdef double* numbers       # numbers of each column, as in guard.h, and the room for values; NULL before the first row
    cdef Norms norms
    cdef int64_t first, last   # which of the norms belong to this guard
    cdef object bounds         # ``limits``, once they are known

    cdef object _numbers(self, int64_t row)
    cdef RangeGuard after(self, Rows rows, double* weights, int64_t* extremes, int* weighted)
    cdef double* room_for_values(self) noexcept
