"""The arrays of one call into C: pointers to their memory, checked once and released together.

While arrays are held, the thread is in its usual floating-point mode (``float_mode.h``).
"""

from cpython.buffer cimport PyObject_GetBuffer, PyBuffer_Release, PyBUF_C_CONTIGUOUS, PyBUF_FORMAT, PyBUF_WRITABLE
from libc.stdint cimport int32_t, int64_t, uint64_t, uint8_t

cdef extern from "float_mode.h" nogil:
    enum:
        DS_FLUSHING
    uint64_t ds_float_mode() noexcept
    void ds_set_float_mode(uint64_t mode) noexcept
    uint64_t ds_enter_usual_mode() noexcept
    void ds_leave_usual_mode(uint64_t before) noexcept

cdef enum:
    MOST_BUFFERS = 24

cdef struct Buffers:
    # Views of the arrays of one call. ``count`` has to be 0 before the first one.
    Py_buffer views[MOST_BUFFERS]
    int count
    uint64_t mode  # the floating-point mode before the first one


cdef inline void release(Buffers* held) noexcept:
    """Release all arrays of a call."""
    if held.count > 0:
        ds_leave_usual_mode(held.mode)
    while held.count > 0:
        held.count -= 1
        PyBuffer_Release(&held.views[held.count])


cdef inline bint is_one_of(const char* kinds, const char* format) noexcept:
    """Return whether a format is a single character, one of ``kinds``."""
    while kinds[0] != 0 and kinds[0] != format[0]:
        kinds += 1
    return kinds[0] != 0 and format[1] == 0


cdef inline Py_buffer* hold(Buffers* held, object array, const char* kinds, Py_ssize_t size, int dimensions, bint writable) except NULL:
    """Hold an array until ``release``, and return its view.

    ``kinds`` has the format characters that are accepted, ``size`` is the size of an element in bytes, or 0 if the
    format says it. Negative ``dimensions`` stand for any number.
    """
    cdef Py_buffer* view
    cdef bint suits
    if held.count >= MOST_BUFFERS:
        raise TypeError("too many arrays")
    view = &held.views[held.count]
    PyObject_GetBuffer(array, view, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT | (PyBUF_WRITABLE if writable else 0))
    if held.count == 0:
        held.mode = ds_enter_usual_mode()
    held.count += 1
    suits = (size == 0 or view.itemsize == size) and (dimensions < 0 or view.ndim == dimensions)
    if not suits or not is_one_of(kinds, view.format):
        raise TypeError(
            f"expected an array with {dimensions} axes of {size}-byte elements of kind {kinds.decode()!r}, "
            f"got {view.ndim} axes, {view.itemsize} bytes, kind {(<bytes>view.format).decode()!r}"
        )
    return view


cdef inline double* reals(Buffers* held, object array, Py_ssize_t* n = NULL, int dimensions = 1) except? NULL:
    """Return the memory of an array of float64 that is only read, and the number of its elements."""
    cdef Py_buffer* view = hold(held, array, "d", 8, dimensions, False)
    if n != NULL:
        n[0] = view.len // 8
    return <double*>view.buf


cdef inline double* real_out(Buffers* held, object array, Py_ssize_t* n = NULL, int dimensions = 1) except? NULL:
    """Return the memory of a writable array of float64, and the number of its elements."""
    cdef Py_buffer* view = hold(held, array, "d", 8, dimensions, True)
    if n != NULL:
        n[0] = view.len // 8
    return <double*>view.buf


cdef inline int64_t* integers(Buffers* held, object array, Py_ssize_t* n = NULL, int dimensions = 1) except? NULL:
    """Return the memory of an array of int64 that is only read, and the number of its elements."""
    cdef Py_buffer* view = hold(held, array, "lq", 8, dimensions, False)
    if n != NULL:
        n[0] = view.len // 8
    return <int64_t*>view.buf


cdef inline int64_t* integer_out(Buffers* held, object array, Py_ssize_t* n = NULL, int dimensions = 1) except? NULL:
    """Return the memory of a writable array of int64, and the number of its elements."""
    cdef Py_buffer* view = hold(held, array, "lq", 8, dimensions, True)
    if n != NULL:
        n[0] = view.len // 8
    return <int64_t*>view.buf


cdef inline int32_t* columns_of(Buffers* held, object array, Py_ssize_t* n = NULL) except? NULL:
    """Return the memory of an array of int32 that is only read, such as the column indices of CSR rows."""
    cdef Py_buffer* view = hold(held, array, "i", 4, 1, False)
    if n != NULL:
        n[0] = view.len // 4
    return <int32_t*>view.buf


cdef inline int expect(bint suits) except -1:
    """Raise a ValueError unless the arrays of a call suit each other."""
    if not suits:
        raise ValueError("the arrays of a call do not fit each other")
    return 0
