"""The rule of DriftSurf: what decides, as functions of numbers (``rule.pyx`` documents them)."""

from libc.stdint cimport int64_t

cdef enum:
    # Fields of a contest: summed losses of w and w', weight, the least lead (risk of w, of w', needed lead), and sums
    # over batches of the squared weight, of it times the lead, and of it times the squared lead.
    CONTEST_OLD, CONTEST_NEW, CONTEST_WEIGHT, LEAST_OLD, LEAST_NEW, LEAST_MARGIN, SQUARES, LEADS, SQUARED_LEADS
    CONTEST_FIELDS

cpdef int64_t usual_batches(int64_t age) noexcept nogil
cpdef double reference_risk(double reference, double risk, int64_t age, bint noisy) noexcept nogil
cpdef int entering(double risk, double best, double stable_risk, double threshold, double stable_threshold) noexcept nogil
cpdef bint challenger_predicts(double old_risk, double new_risk, bint greedy) noexcept nogil
cpdef bint switching(double old_risk, double new_risk) noexcept nogil
cpdef bint counts_classes(double share, double risk) noexcept nogil
cpdef int64_t remembered_rows(int64_t rows, int64_t batches, int64_t reactive_length) noexcept nogil
cpdef bint is_missed(int64_t count, int64_t total, int64_t seen, double share) noexcept nogil
cpdef double needed_lead(double share, double old_risk) noexcept nogil
cpdef double closed_credit(double value, double gain) noexcept nogil
cdef void clear_contest(double* contest) noexcept nogil
cdef void add_to_contest(double* contest, double old_risk, double new_risk, double weight, double margin) noexcept nogil
cdef double error_of_lead(const double* contest) noexcept nogil
