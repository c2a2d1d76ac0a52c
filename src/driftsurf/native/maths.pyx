"""Elementary functions with the same bits on every machine; the tests compare them with exact values."""

from driftsurf.native.buffers cimport (
    DS_FLUSHING, Buffers, ds_enter_usual_mode, ds_float_mode, ds_leave_usual_mode, ds_set_float_mode, real_out, reals,
    release,
)
from libc.stdint cimport uint64_t


cdef extern from "ds_math.h" nogil:
    double ds_exp(double x) noexcept
    double ds_log(double x) noexcept
    double ds_log1p(double x) noexcept
    double ds_pow(double base, double exponent) noexcept
    double ds_sin(double x) noexcept
    double ds_cos(double x) noexcept


def exp(double x):
    """Return the exponential of a number."""
    cdef uint64_t mode = ds_enter_usual_mode()
    cdef double found = ds_exp(x)
    ds_leave_usual_mode(mode)
    return found


def log(double x):
    """Return the natural logarithm of a number."""
    cdef uint64_t mode = ds_enter_usual_mode()
    cdef double found = ds_log(x)
    ds_leave_usual_mode(mode)
    return found


def power(double base, double exponent):
    """Return a number to the power of another."""
    cdef uint64_t mode = ds_enter_usual_mode()
    cdef double found = ds_pow(base, exponent)
    ds_leave_usual_mode(mode)
    return found


def evaluate(str name, values, out):
    """Write the function of each value to ``out``; ``name`` is exp, log, log1p, sin or cos."""
    cdef double (*function)(double) noexcept nogil
    cdef Buffers held
    cdef Py_ssize_t n = 0, m = 0, i
    cdef double* x
    cdef double* y
    if name == "exp":
        function = ds_exp
    elif name == "log":
        function = ds_log
    elif name == "log1p":
        function = ds_log1p
    elif name == "sin":
        function = ds_sin
    elif name == "cos":
        function = ds_cos
    else:
        raise ValueError(f"unknown function {name!r}; choose exp, log, log1p, sin or cos")
    held.count = 0
    try:
        x = reals(&held, values, &n)
        y = real_out(&held, out, &m)
        if n != m:
            raise ValueError(f"out has {m} elements, values have {n}")
        with nogil:
            for i in range(n):
                y[i] = function(x[i])
    finally:
        release(&held)


cdef class usual_mode:
    """Context in which this thread computes in its usual floating-point mode, also in Python and NumPy.

    A library that is built with ``-ffast-math`` may have switched subnormal numbers off in the thread.
    """

    cdef uint64_t before

    def __enter__(self):
        self.before = ds_enter_usual_mode()

    def __exit__(self, *_):
        ds_leave_usual_mode(self.before)


def set_flushing(bint on):
    """Let this thread take subnormal numbers for 0, or not; return whether it did, so that it can be restored."""
    cdef uint64_t mode = ds_float_mode()
    ds_set_float_mode(mode | DS_FLUSHING if on else mode & ~<uint64_t>DS_FLUSHING)
    return (mode & DS_FLUSHING) == DS_FLUSHING and DS_FLUSHING != 0
