"""One model of a cell: made, scored, trained, and its oldest rows forgotten (``model.pyx`` documents the functions)."""

from libc.stdint cimport int64_t

from driftsurf.native.layout cimport CellArrays, Rows, Rule, Scratch, Training

cdef Rows rows_between(const CellArrays* cell, int64_t a, int64_t b) noexcept nogil
cdef void make_model(CellArrays* cell, int64_t side, int64_t step, int64_t first_row, const Training* training) noexcept nogil
cdef void score(const CellArrays* cell, int64_t side, Rows rows, double* out, const Training* training) noexcept nogil
cdef double risk(CellArrays* cell, int64_t side, int64_t lo, int64_t hi, bint known, const Training* training, Scratch* scratch) noexcept nogil
cdef double risk_of_trial(CellArrays* cell, int64_t side, int64_t first, int64_t stop, const Training* training, Scratch* scratch) noexcept nogil
cdef void begin_update(CellArrays* cell, int64_t side, int64_t hi, int64_t steps, const Training* training, Scratch* scratch) noexcept nogil
cdef void run_update(CellArrays* cell, int64_t side, int64_t steps, const Training* training, Scratch* scratch) noexcept nogil
cdef void run_both(CellArrays* cell, int64_t steps, const Training* training, Scratch* scratch) noexcept nogil
cdef void complete_model(CellArrays* cell, int64_t side, const Training* training, Scratch* scratch) noexcept nogil
cdef bint end_update(CellArrays* cell, int64_t side, const Training* training, Scratch* scratch) noexcept nogil
cdef void forget_rows(CellArrays* cell, int64_t side, int64_t before_row, const Training* training) noexcept nogil
cdef int64_t missed_class(CellArrays* cell, int64_t hi, int64_t batches, const Rule* rule, const Training* training, Scratch* scratch) noexcept nogil
cdef double trivial_risk(CellArrays* cell, int64_t lo, int64_t hi, double centre, const Training* training, Scratch* scratch, double* mean, double* mass) noexcept nogil
