"""Learning in a cell; ``layout.pxd`` describes its memory. Stores of many keys call these functions too."""

from libc.stdint cimport int64_t

from driftsurf.native.layout cimport (
    DIVERGED,
    ENTERED,
    GREEDY,
    KEPT,
    LEARNED,
    LOGISTIC,
    NO_RIVAL,
    REACTIVE,
    STABLE,
    SWITCHED,
    UNSUITED,
    CellArrays,
    Counts,
    Frame,
    Labelled,
    Model,
    ModelCounts,
    Rows,
    Rule,
    Scratch,
    Training,
)

# A cell whose arrays are described by ``CellArrays`` learns without Python; stores of many keys call these functions too.
cdef Rule rule_from(object rule) except *
cdef Training training_from(object training) except *
cdef void make_model(CellArrays* cell, int64_t side, int64_t step, int64_t first_row, const Training* training) noexcept nogil
cdef void score(const CellArrays* cell, int64_t side, Rows rows, double* out, const Training* training) noexcept nogil
cdef void complete_model(CellArrays* cell, int64_t side, const Training* training, Scratch* scratch) noexcept nogil
cdef int64_t learn(CellArrays* cell, int64_t count, int64_t steps, bint tested, const Rule* rule,
                   const Training* training, Scratch* scratch) noexcept nogil


cdef class Workspace:
    # Working memory of one thread, sized for steps of a shape.
    cdef Scratch scratch
    cdef char* memory
