"""Elementary functions with the same bits on every machine; the tests compare them with exact values."""

from driftsurf.native.buffers cimport Buffers, real_out, reals, release


cdef extern from "ds_math.h" nogil:
    double ds_exp(double x) noexcept
    double ds_log(double x) noexcept
    double ds_log1p(double x) noexcept
    double ds_pow(double base, double exponent) noexcept
    double ds_sin(double x) noexcept
    double ds_cos(double x) noexcept


def exp(double x):
    """Return the exponential of a number."""
    return ds_exp(x)


def log(double x):
    """Return the natural logarithm of a number."""
    return ds_log(x)


def power(double base, double exponent):
    """Return a number to the power of another."""
    return ds_pow(base, exponent)


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
