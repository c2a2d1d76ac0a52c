"""Memory of a cell: the rows and the models of one strategy around a linear learner.

A cell has two models, on *side* 0 and side 1. One is the predictive model w. The other, the *rival*, is the reactive
model w' during a reactive state, and the stable model w'' outside of one. (A stable model ends when a reactive one
starts, so there are never three.) Rows are numbered in the order of arrival; row r is at place r - ``base`` of the
arrays of rows, and its entry in the gradient table of a model is at the same place of the table.

A model has K *outputs*, one for each class of softmax regression and a single one otherwise. Its weights are those of a
matrix (columns + 1, K) row by row, its gradient table has K numbers for each row, and a row has K scores.
"""

from libc.stdint cimport int32_t, int64_t, uint64_t, uint8_t

from driftsurf.native.rows cimport Frame, Labelled, Model, Rows


cdef enum:
    # Codes of the rival's role, of transitions, and of the result of a step.
    NO_RIVAL, STABLE, REACTIVE
cdef enum:
    ENTERED, GREEDY, SWITCHED, KEPT
cdef enum:
    LEARNED, DIVERGED, UNSUITED
cdef extern from *:
    """
    #define DS_UNLIMITED (INT64_C(1) << 62)  /* no limit of a number of rows */
    #define DS_MOST_BYTES (INT64_C(1) << 46) /* largest size of an array, far from overflow */
    """
    const int64_t UNLIMITED "DS_UNLIMITED"
    const int64_t MOST_BYTES "DS_MOST_BYTES"
cdef enum:
    LOGISTIC = -1  # kind of the logistic loss, beside the kinds of multi.h


cdef struct Counts:
    # Counts of a cell, 128 bytes; ``COUNTS`` of driftsurf.strategies._cell_arrays is the same as a numpy record.
    uint64_t seed
    int64_t base               # number of the row at place 0
    int64_t first              # the oldest row that is needed
    int64_t next               # number of the next row
    int64_t step
    int64_t predictive         # side of w
    int64_t challenged         # whether the rival predicts the next batch
    int64_t rival              # role of the model on the other side
    int64_t reactive_step
    int64_t made               # models made so far
    int64_t reacted
    int64_t chosen             # field of the credit
    int64_t units              # number of risks in the unit of the thresholds
    int64_t values             # CSR rows: number of stored values that were before place 0
    int64_t unused[2]


cdef struct ModelCounts:
    # Counts of a model, 128 bytes; ``MODEL`` of driftsurf.strategies._cell_arrays is the same as a numpy record.
    uint64_t seed
    int64_t id
    int64_t born               # step in which it was made
    int64_t first_row
    int64_t lo                 # first row of the sample set; -1 before the first update
    int64_t admitted           # row after the last one that the optimiser has admitted
    int64_t hi                 # row after the last one of the sample set
    int64_t seen
    int64_t words              # random words drawn so far
    int64_t gradients
    int64_t drawn              # rows drawn at least once
    int64_t rescale_at
    int64_t centred            # number of columns with a centre
    double best                # R_b
    double step_size
    double target


cdef struct CellArrays:
    # Arrays of a cell.
    Rows X                     # its n is the number of places
    double* y
    double* weight
    double* tables             # gradient tables (sides, places * K)
    Counts* counts
    ModelCounts* models
    int64_t* bounds            # first rows of the batches of T, and the row after them
    double* w                  # weights (sides, (d + 1) * K)
    double* G                  # gradient sums
    double* factor             # (sides, d + 1)
    double* gain               # squared factors
    double* centre
    int64_t* centred           # columns whose centre is not 0
    double* raw                # weights for columns that are not scaled, output by output for dense rows
    double* judged             # numbers by which models are judged, and ranges of columns
    int64_t sides
    int64_t outputs            # K
    const char* ahead          # memory that the next call will need, which a step loads into the cache; may be NULL
    int64_t ahead_size


cdef struct Rule:
    # Parameters of DriftSurf.
    double threshold
    double stable_threshold
    int64_t reactive_length
    int64_t max_rows
    int64_t span               # number of rows, the new ones included, from which a model learns
    double lead                # share of the risk of w by which w' must be better to predict the next batch
    double significance        # standard errors by which the mean lead of w' must exceed 0; 0: noise is not considered
    double class_share         # share of the last rows of w from which on w' has to know a class; 0: not counted
    bint greedy
    bint divided               # whether two models share one budget
    bint prequential           # whether models are compared by their risks on batches before learning them
    bint relative              # whether the thresholds are multiples of the risk of a trivial model
    bint faded                 # whether a single model learns with the weights in the gradient table of side 1


cdef struct Training:
    # Parameters of the learner.
    double step_size           # NaN for the automatic one
    double l2
    double epsilon             # width of Huber's loss
    double reach               # largest step at a row, as a share of the step to its minimum
    double curvature           # largest second derivative of the loss
    int64_t kind               # kind of the loss
    int64_t outputs            # K
    bint scaled
    bint alternating           # STRSAGA's schedule; otherwise that of SAGA
    bint intercept
    bint uniform_start
    bint paired                # whether two models take their steps in turn, in one loop
    bint regression


cdef struct Scratch:
    # Working memory, and the numbers that a step leaves behind.
    int64_t* orders            # row of each gradient step, from the first row of the sample set on (sides, most_steps)
    double* overwritten        # entries of the tables before the steps (sides, most_steps * K)
    double* scores             # scores of the new rows by the model that predicted them, K for each row
    double* margins
    double* losses
    double* values             # as many numbers as there are places, and four for each new row
    double* columns            # (8, (d + 1) * K)
    int64_t* whole             # outcome of the step: see the places below
    double* real
    int64_t most_steps
    int64_t most_rows          # rows for whose scores there is room

cdef enum:
    # Places in ``judged``: the fields of ``Contest`` and of ``Credit``, the centre of ``RiskUnit``, and the evidence of
    # each model as in ``Linear``, whose weight is 0 without evidence. A regression also has the risks of ``RiskUnit``,
    # and then for each model and column the range (infinite if there is none yet) and the limits. UNITS and RANGES are
    # those of two models: what follows the evidence is four places further for each model more.
    CONTEST = 0
    CREDIT = 9
    CREDIT_GAIN = 10
    UNIT_CENTRE = 11
    EVIDENCE = 12
    UNITS = 20
    WINDOW = 25
    RANGES = 45
cdef enum:
    # Places in ``whole``: counts, a record for each model, the transitions, and two numbers of each side: of its
    # gradient steps, and of the row from which their order counts.
    CONDITION, REACTIVE_STEP, RECORDS, TRANSITIONS, PREDICTED_BY, TRAINED_FROM, PREDICTS_NEXT, ABSENT
    RECORD = 8
    RECORD_SIZE = 6
    TRANSITION = 26
    TRANSITION_SIZE = 5
    STEPS = 36
cdef enum:
    # Places in ``real``: four risks of each model (before, after, over T, best), three numbers of each transition, the
    # unit of the thresholds, the standard error of the lead of w', and room for an ordered copy of the unit's risks.
    RISKS = 4
    COMPARED = 3
    COMPARISON = 12
    UNIT = 18
    LEAD_ERROR = 19
    ORDERED = 20
