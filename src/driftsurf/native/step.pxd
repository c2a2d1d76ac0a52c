"""One time step of a cell (``step.pyx``)."""

from libc.stdint cimport int64_t

from driftsurf.native.layout cimport CellArrays, Rule, Scratch, Training

cdef int64_t learn(CellArrays* cell, int64_t count, int64_t steps, bint tested, const Rule* rule,
                   const Training* training, Scratch* scratch) noexcept nogil
