"""A cell as an object of Python, its parameters and its working memory. ``layout.pxd`` describes the arrays.

Stores of many keys describe the cell of a key by ``CellArrays`` and call the same functions.
"""

from libc.stdint cimport int64_t

from driftsurf.native.buffers cimport Buffers
from driftsurf.native.guard cimport RangeGuard
from driftsurf.native.layout cimport ORDERED, STEPS, CellArrays, Rows, Rule, Scratch, Training
from driftsurf.native.model cimport complete_model, make_model, score
from driftsurf.native.scores cimport MarginScorer
from driftsurf.native.step cimport learn

cdef Rule rule_from(object rule) except *
cdef Training training_from(object training) except *


cdef class Workspace:
    # Working memory of one thread, sized for steps of a shape.
    cdef Scratch scratch
    cdef char* memory
    cdef int64_t[6] sizes
    cdef int reserve(self, int64_t d, int64_t outputs, int64_t sides, int64_t rows, int64_t places, int64_t steps) except -1


cdef class StepRecord:
    cdef int64_t[STEPS] whole
    cdef double[ORDERED] real
    cdef int64_t step
    cdef readonly int64_t rows_seen  # number of rows up to and including this step
    cdef int64_t rows
    cdef object reader
    cdef bytes _whole(self)
    cdef bytes _real(self)


cdef class Cell:
    cdef CellArrays arrays
    cdef Rule rule
    cdef Training training
    cdef readonly Workspace workspace
    cdef int64_t per_batch
    cdef double per_row
    cdef bint quadratic
    cdef object parts          # arrays whose memory is used
    cdef readonly RangeGuard guard
    cdef object predicted      # scores of the last batch, if they were asked for
    cdef readonly bint limited  # whether the guard limited values of the last batch
    cdef int64_t values        # CSR rows: number of values for which there is room
    cdef char* marked          # copy of all that a step changes but rows and tables
    cdef char* small
    cdef int64_t small_size
    cdef int64_t scored        # number of rows whose scores are in the working memory
    cdef int _use(self, parts) except -1
    cdef void _forget_steps(self) noexcept
    cdef int64_t _budget(self, int64_t count) noexcept nogil
    cdef int _write(self, Rows rows, int64_t place) noexcept nogil
    cdef bint _fits(self, Rows rows, int64_t place) noexcept nogil
    cdef int64_t _observe(self, X, y, weight, tested, factors, RangeGuard guard, bint predict) except -1
    cdef StepRecord record(self, reader)
    cdef object tested_scores(self)
    cdef object _room_for_scores(self, int64_t n)
    cpdef MarginScorer margin_scorer(self)
    cdef int64_t _learn(self, int64_t count, int64_t steps, bint tested) except -1
    cdef int _fade(self, int64_t count, factors) except -1
    cdef bint _predict(self, Buffers* held, Rows rows, Rows stored, RangeGuard guard, double* scores) except -1
    cdef void _weigh(self, int64_t place, int64_t count, bint quadratic) noexcept nogil
