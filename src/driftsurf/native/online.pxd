"""Models that learn each row once, and keep none. ``online.pyx`` says how to add one."""

from libc.stdint cimport int64_t, uint64_t

from driftsurf.native.rows cimport Labelled, Rows


cdef extern from "experts.h" nogil:
    ctypedef struct CMoments "Moments":
        double* count
        double* mean
        double* squares

    ctypedef struct CNetwork "Network":
        int64_t H
        int64_t K
        int64_t is_classes
        const double* centre
        const double* factor
        float* theta
        float* m
        float* v
        float* g
        float* x
        float* work
        int64_t* last


cdef class OnlineModel:
    cdef readonly int64_t n_features
    cdef readonly int64_t n_classes  # 0: numbers
    cdef readonly int64_t hi         # number of the row after the last one it has learned; -1 before the first one
    cdef readonly int64_t gradients
    cdef double passes               # visits of each new row
    cdef char* memory                # all that it has learned, beside a few numbers
    cdef Py_ssize_t size
    cdef int reserve(self, double doubles, double floats) except -1
    cdef int64_t budget(self, int64_t lo, int64_t hi) noexcept
    cdef OnlineModel copied(self)
    cdef OnlineModel learned(self, Labelled batch, int64_t hi, int64_t steps)
    # What each kind defines:
    cdef OnlineModel blank(self)
    cdef int describe(self) except -1
    cdef int learn(self, Labelled batch, int64_t steps) except -1
    cdef int score(self, Rows rows, double* out) except -1


cdef class BayesModel(OnlineModel):
    cdef readonly double smoothing
    cdef CMoments moments
    cdef double* centres
    cdef double* factors
    cdef double* starts


cdef class NetworkModel(OnlineModel):
    cdef readonly int64_t hidden, words, steps
    cdef readonly uint64_t seed
    cdef readonly bint centred
    cdef double rate
    cdef int64_t rows_per_step
    cdef CMoments columns
    cdef CMoments target
    cdef double* centre
    cdef double* factor
    cdef double unit_centre, unit_scale
    cdef float* weights
    cdef CNetwork network(self, float* work) noexcept
    cdef int64_t length(self) noexcept
    cdef int standardise(self) noexcept

cdef int check_codes(const double* y, Py_ssize_t n, int64_t K) except -1
cdef object no_entries()
cdef int read_reals(object array, double* to, Py_ssize_t size) except -1
cdef object array_of(const double* values, shape)
