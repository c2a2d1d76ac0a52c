"""Rows as the loops in C take them, from an array or from CSR rows of ``driftsurf.core.contracts``."""

from libc.stdint cimport int32_t, int64_t

from driftsurf.native.buffers cimport Buffers, columns_of, hold, integers


cdef extern from "rows.h" nogil:
    ctypedef struct Rows:
        const void* values
        const int32_t* indices
        const int64_t* indptr
        int64_t n
        int64_t d
        int64_t is_single

    ctypedef struct Labelled:
        Rows rows
        const double* y
        const double* weight

    ctypedef struct Frame:
        const double* gain
        const double* centre
        const int64_t* centred
        int64_t n_centred

    ctypedef struct Model:
        double* w
        double* G
        double* table


cdef inline int rows_of(Buffers* held, object X, Rows* rows) except -1:
    """Hold the arrays of rows, dense or CSR, of float64 or float32, and describe them. Column numbers are not checked."""
    cdef Py_buffer* view
    cdef Py_ssize_t n = 0, stored = 0
    cdef bint sparse = isinstance(X, tuple)
    values = X[0] if sparse else X
    view = hold(held, values, "df", 0, 1 if sparse else 2, False)
    rows.values = view.buf
    rows.is_single = view.itemsize == 4
    if not sparse:
        rows.indices = NULL
        rows.indptr = NULL
        rows.n, rows.d = view.shape[0], view.shape[1]
        return 0
    rows.indices = columns_of(held, X[1], &stored)
    rows.indptr = integers(held, X[2], &n)
    rows.n, rows.d = n - 1, X[3]
    if not 0 <= rows.d < 2**31:  # columns are int32
        raise ValueError(f"CSR rows cannot have {rows.d} columns")
    if n < 1 or rows.indptr[0] < 0 or rows.indptr[n - 1] > min(stored, view.shape[0]):
        raise ValueError("CSR rows do not fit their values")
    return 0
