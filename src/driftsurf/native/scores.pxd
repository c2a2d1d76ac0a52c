"""Scores of rows by linear models."""

from libc.stdint cimport int64_t


cdef class MarginScorer:
    # Weights of a model of two classes; they never change.
    cdef double* w
    cdef int64_t size

cdef int set_weights(MarginScorer scorer, const double* weights, int64_t size) except -1
