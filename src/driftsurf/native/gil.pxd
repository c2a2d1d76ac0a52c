"""Let other threads run while C works, if the work is large enough to be worth it."""

cdef extern from "Python.h":
    ctypedef struct PyThreadState:
        pass
    PyThreadState* PyEval_SaveThread() noexcept
    void PyEval_RestoreThread(PyThreadState* saved) noexcept

cdef enum:
    SHORT = 4096  # numbers that are worked through in less time than a thread switch takes


cdef inline PyThreadState* let_go(Py_ssize_t numbers) noexcept:
    """Release the GIL if the work has many numbers. Only C may run until ``take_back``."""
    return PyEval_SaveThread() if numbers > SHORT else NULL


cdef inline void take_back(PyThreadState* saved) noexcept:
    """Take the GIL again, if ``let_go`` released it."""
    if saved != NULL:
        PyEval_RestoreThread(saved)
