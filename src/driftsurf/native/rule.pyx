"""The rule of DriftSurf: pure functions of numbers, which the native step and the generic one both call.

A risk without evidence is NaN, and every comparison with NaN is false: no evidence, no change.
"""

from libc.math cimport INFINITY, NAN, sqrt
from libc.stdint cimport int64_t

cdef double _COIN_TOSS = 0.6931471805599453  # log(2), the log loss of a coin toss
cdef int64_t _CLASS_MEMORY = 8  # how many reactive states long ago w may have learned a class that w' has to learn
cdef int64_t _USUAL_BATCHES = 32

REGRESSION_LEAD = 1.0 / 3.0
REGRESSION_MARGIN = 0.2
USUAL_BATCHES = _USUAL_BATCHES
COIN_TOSS = _COIN_TOSS
CLASS_MEMORY = _CLASS_MEMORY


cpdef int64_t usual_batches(int64_t age) noexcept nogil:
    """Return how many batches the usual risk of a model is the mean of, given the number of its batches."""
    return 1 if age < 1 else age if age < _USUAL_BATCHES else _USUAL_BATCHES


cpdef double reference_risk(double reference, double risk, int64_t age, bint noisy) noexcept nogil:
    """Return R_b, with which the next risk of w is compared, after its risk on one more batch; NaN is no evidence.

    R_b is the lowest risk so far. The lowest of many risks over few rows is low by chance, so that with ``noisy`` R_b
    is the usual risk: the mean since the model has learned a batch, of which there are ``age``; old batches fade.

    >>> reference_risk(0.4, 0.5, 2, noisy=False), reference_risk(0.4, 0.5, 2, noisy=True)
    (0.4, 0.45)
    """
    if not noisy or reference == INFINITY:
        return risk if risk < reference else reference
    return reference if risk != risk else reference + (risk - reference) / usual_batches(age)


cpdef int entering(double risk, double best, double stable_risk, double threshold, double stable_threshold) noexcept nogil:
    """Return which condition to enter the reactive state holds: 1, 2, or 0 for neither.

    Condition 1: the risk of w on the new batch exceeds its best one, R_b, by more than delta. It fires at abrupt
    drifts. Condition 2: the risk of w exceeds that of the stable model w'' by more than delta'. It fires at drifts so
    gradual that R_b rises with them.

    >>> entering(0.61, 0.38, math.nan, 0.1, 0.05), entering(0.45, 0.38, 0.39, 0.1, 0.05)
    (1, 2)
    """
    if risk > best + threshold:
        return 1
    if risk > stable_risk + stable_threshold:
        return 2
    return 0


cpdef bint challenger_predicts(double old_risk, double new_risk, bint greedy) noexcept nogil:
    """Return whether, inside a reactive state, the reactive model w' predicts the next batch (greedy policy)."""
    return greedy and new_risk < old_risk


cpdef bint switching(double old_risk, double new_risk) noexcept nogil:
    """Return whether, at the end of a reactive state, w' replaces w: its risk over T is strictly lower."""
    return new_risk < old_risk


cpdef bint counts_classes(double share, double risk) noexcept nogil:
    """Return whether w' has to know the classes of w to be used, given the risk of w on a batch before learning it.

    A model that is worse than a coin toss is not worth protecting from one that lacks a class.
    """
    return share > 0.0 and not risk > _COIN_TOSS


cpdef int64_t remembered_rows(int64_t rows, int64_t batches, int64_t reactive_length) noexcept nogil:
    """Return the number of last rows among which the classes of w are counted, given the rows and batches of w'."""
    return _CLASS_MEMORY * reactive_length * rows // batches


cpdef bint is_missed(int64_t count, int64_t total, int64_t seen, double share) noexcept nogil:
    """Return whether w' lacks a class: it makes up this share of the last rows of w, and w' has seen no row of it.

    >>> is_missed(30, 1000, 0, 0.01), is_missed(30, 1000, 1, 0.01), is_missed(9, 1000, 0, 0.01)
    (True, False, False)
    """
    return seen == 0 and count > 0 and count >= share * total


cpdef double needed_lead(double share, double old_risk) noexcept nogil:
    """Return by how much w' must be better than w to predict the next batch: a share of the risk of w."""
    return share * old_risk if old_risk > 0.0 else 0.0


cpdef double closed_credit(double value, double gain) noexcept nogil:
    """Return the credit of the greedy policy after a reactive state, from -1 to 1."""
    cdef double credit = value + gain
    if not credit > -1.0:
        return -1.0
    return credit if credit < 1.0 else 1.0


cdef void clear_contest(double* contest) noexcept nogil:
    """Start a new contest of w and w'."""
    cdef int i
    for i in range(CONTEST_FIELDS):
        contest[i] = NAN if LEAST_OLD <= i <= LEAST_MARGIN else 0.0


cdef void add_to_contest(double* contest, double old_risk, double new_risk, double weight, double margin) noexcept nogil:
    """Add a batch to the summed losses over T, on which w' needs a lead of ``margin``.

    A batch without both risks is no evidence.
    """
    cdef double square = weight * weight
    cdef double lead = old_risk - new_risk
    if old_risk + new_risk != old_risk + new_risk:
        return
    if not old_risk - margin - new_risk >= contest[LEAST_OLD] - contest[LEAST_MARGIN] - contest[LEAST_NEW]:
        contest[LEAST_OLD] = old_risk
        contest[LEAST_NEW] = new_risk
        contest[LEAST_MARGIN] = margin
    contest[CONTEST_OLD] += weight * old_risk
    contest[CONTEST_NEW] += weight * new_risk
    contest[CONTEST_WEIGHT] += weight
    contest[SQUARES] += square
    contest[LEADS] += square * lead
    contest[SQUARED_LEADS] += square * (lead * lead)


cdef double error_of_lead(const double* contest) noexcept nogil:
    """Return the standard error of the mean lead of w' over T; infinite for a single batch."""
    cdef double mass = contest[CONTEST_WEIGHT]
    cdef double evidence = mass * mass - contest[SQUARES]
    cdef double mean, spread
    if not evidence > 0.0:
        return INFINITY
    mean = (contest[CONTEST_OLD] - contest[CONTEST_NEW]) / mass
    spread = contest[SQUARED_LEADS] - 2.0 * mean * contest[LEADS] + mean * mean * contest[SQUARES]
    return sqrt((spread if spread > 0.0 else 0.0) / evidence)


def contest_after(contest, double old_risk, double new_risk, double weight, double margin):
    """Return the summed losses over T after one more batch, on which w' needs a lead of ``margin``.

    A batch without both risks is no evidence.
    """
    cdef double[9] numbers
    _read_contest(contest, numbers)
    add_to_contest(numbers, old_risk, new_risk, weight, margin)
    return tuple([numbers[i] for i in range(CONTEST_FIELDS)])


def contest_risks(double old, double new, double weight):
    """Return the mean risks of w and w' over T; NaN without evidence."""
    if weight > 0.0:
        return old / weight, new / weight
    return NAN, NAN


def lead_error(contest):
    """Return the standard error of the mean lead of w' over T, from how much its lead varies between batches.

    It is infinite for a single batch.

    >>> contest = 0.0, 0.0, 0.0, math.nan, math.nan, math.nan, 0.0, 0.0, 0.0
    >>> for lead in (0.1, 0.2, 0.3):
    ...     contest = contest_after(contest, lead, 0.0, 32.0, 0.0)
    >>> round(lead_error(contest), 4), round(0.1 / math.sqrt(3), 4)
    (0.0577, 0.0577)
    """
    cdef double[9] numbers
    _read_contest(contest, numbers)
    return error_of_lead(numbers)


cdef int _read_contest(contest, double* numbers) except -1:
    cdef int i
    if len(contest) != CONTEST_FIELDS:
        raise ValueError(f"a contest has {CONTEST_FIELDS} fields, not {len(contest)}")
    for i in range(CONTEST_FIELDS):
        numbers[i] = contest[i]
    return 0
