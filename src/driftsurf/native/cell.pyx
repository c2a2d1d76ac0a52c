"""A cell as an object of Python: the rows and the models of one strategy, which learn a batch in one call.

The memory of a cell are arrays that Python has made, so that its state can be read and saved as they are. A step works
on a mark, to which it goes back if it cannot be completed.
"""

cimport cython
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

from driftsurf.native.buffers cimport Buffers, columns_of, integers, real_out, reals, release
from driftsurf.native.buffers cimport ds_enter_usual_mode, ds_leave_usual_mode
from driftsurf.native.guard cimport RangeGuard
from driftsurf.native.gil cimport PyEval_RestoreThread, PyEval_SaveThread, PyThreadState
from driftsurf.native.layout cimport (
    LEARNED,
    LOGISTIC,
    MOST_BYTES,
    ORDERED,
    PREDICTED_BY,
    PREDICTS_NEXT,
    RANGES,
    STEPS,
    TRANSITIONS,
    UNITS,
    WINDOW,
    Counts,
    ModelCounts,
    Rows,
    Rule,
    Scratch,
    Training,
)
from driftsurf.native.model cimport rows_between, score
from driftsurf.native.rows cimport rows_of
from driftsurf.native.scores cimport MarginScorer, set_weights
from driftsurf.native.step cimport learn

import numpy as np


cdef extern from "columns.h" nogil:
    int ds_all_within(Rows rows, const double* most, int64_t repeats)
    int ds_copy_finite(void* out, int to_single, const void* values, int single, int64_t n)
    void ds_clip(Rows rows, const double* most, void* out)

cdef extern from "losses.h" nogil:
    double ds_pairwise_sum(const double* values, int64_t n)


cdef enum:
    FEW = 4096          # gradient steps times columns that are done before another thread would have started
cdef enum:
    FULL = 3            # results of a step beside those of ``learn``
    NOT_FINITE = 4


cdef double LEAST_WEIGHT = 0.01  # a batch that keeps less than this share of its weight is no evidence


cdef Rule rule_from(object rule) except *:
    """Return the parameters of DriftSurf, given as a ``Rule`` of driftsurf.strategies."""
    cdef Rule made
    made.threshold = rule.threshold
    made.stable_threshold = rule.stable_threshold
    made.reactive_length = rule.reactive_length
    made.max_rows = rule.max_rows
    made.span = rule.span
    made.lead = rule.lead
    made.significance = rule.significance
    made.class_share = rule.class_share
    made.greedy = rule.greedy
    made.divided = rule.divided
    made.prequential = rule.prequential
    made.relative = rule.relative
    made.faded = rule.faded
    return made


cdef Training training_from(object training) except *:
    """Return the parameters of a learner, given as a ``Training`` of driftsurf.strategies."""
    cdef Training made
    made.step_size = training.step_size
    made.l2 = training.l2
    made.epsilon = training.epsilon
    made.reach = training.reach
    made.curvature = training.curvature
    made.kind = training.kind
    made.outputs = training.outputs
    made.scaled = training.scaled
    made.alternating = training.alternating
    made.intercept = training.intercept
    made.uniform_start = training.uniform_start
    made.paired = training.paired
    made.regression = training.regression
    return made


cdef int64_t size_of(int64_t a, int64_t b, int64_t c) except -1:
    """Return a product of sizes; MemoryError if it is not the size of an array."""
    if a < 0 or b < 0 or c < 0 or <double>a * <double>b * <double>c > MOST_BYTES / 8:
        raise MemoryError(f"{a} x {b} x {c} numbers do not fit into memory")
    return a * b * c


cdef class Workspace:
    """Working memory of one thread. It grows with the steps that use it, and never becomes smaller."""

    def __dealloc__(self):
        free(self.memory)

    cdef int reserve(self, int64_t d, int64_t outputs, int64_t sides, int64_t rows, int64_t places, int64_t steps) except -1:
        """Make room for batches of so many rows, with so many gradient steps, in a cell with so many places."""
        cdef int64_t[6] sizes = [d, outputs, sides, rows, places, steps]
        cdef int64_t[9] lengths
        cdef int64_t total = 0, i
        cdef Scratch scratch
        cdef char* memory
        cdef double* start
        if self.memory != NULL:
            for i in range(6):
                if sizes[i] > self.sizes[i]:
                    break
            else:
                return 0
            for i in range(6):
                sizes[i] = max(sizes[i], self.sizes[i])
        d, outputs, sides, rows, places, steps = sizes[0], sizes[1], sizes[2], sizes[3], sizes[4], sizes[5]
        lengths[0] = size_of(sides, steps, 1)
        lengths[1] = size_of(sides, steps, outputs)
        lengths[2] = size_of(rows, outputs, 1)
        lengths[3] = size_of(rows, outputs, 1)
        lengths[4] = rows
        lengths[5] = max(places, size_of(4, rows, 1))
        lengths[6] = size_of(8, d + 1, outputs)
        lengths[7] = STEPS + 2 * sides
        lengths[8] = ORDERED + WINDOW
        for i in range(9):
            total = size_of(total + lengths[i] + 8, 1, 1)
        memory = <char*>malloc(total * 8)
        if memory == NULL:
            raise MemoryError(f"no memory for the work on {rows} rows")
        start = <double*>memory
        scratch.orders = <int64_t*>start
        start += lengths[0]
        scratch.overwritten = start
        start += lengths[1]
        scratch.scores = start
        start += lengths[2]
        scratch.margins = start
        start += lengths[3]
        scratch.losses = start
        start += lengths[4]
        scratch.values = start
        start += lengths[5]
        scratch.columns = start
        start += lengths[6]
        scratch.whole = <int64_t*>start
        start += lengths[7]
        scratch.real = start
        memset(scratch.whole, 0, (lengths[7] + lengths[8]) * 8)
        scratch.most_steps = steps
        scratch.most_rows = rows
        free(self.memory)
        self.memory, self.scratch, self.sizes = memory, scratch, sizes
        return 0


@cython.final
@cython.no_gc  # the garbage collector need not look at thousands of records in a journal, which hold no cycles
@cython.freelist(16)
cdef class StepRecord:
    """What a step leaves behind: numbers, of which its decision is made when somebody asks for it.

    Making a decision takes longer than learning a few rows, and most decisions are never looked at.

    Parameters
    ----------
    whole, real
        Whole numbers and real numbers of the step, in the order of ``Scratch``, as bytes.
    step, next_row, rows
        Numbers of the step and of the row after it, and how many rows it learned.
    reader
        Object whose method ``read`` makes the decision.
    """

    def __cinit__(self, bytes whole=None, bytes real=None, int64_t step=0, int64_t next_row=0, int64_t rows=0, reader=None):
        if whole is not None:
            if len(whole) != sizeof(self.whole) or len(real) != sizeof(self.real):
                raise ValueError("the record of a step has numbers of another step")
            memcpy(self.whole, <char*>whole, sizeof(self.whole))
            memcpy(self.real, <char*>real, sizeof(self.real))
            self.step, self.rows_seen, self.rows, self.reader = step, next_row, rows, reader

    def __reduce__(self):
        return StepRecord, (self._whole(), self._real(), self.step, self.rows_seen, self.rows, self.reader)

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self

    cdef bytes _whole(self):
        return PyBytes_FromStringAndSize(<char*>self.whole, sizeof(self.whole))

    cdef bytes _real(self):
        return PyBytes_FromStringAndSize(<char*>self.real, sizeof(self.real))

    @property
    def transitions(self):
        """Number of transitions."""
        return self.whole[TRANSITIONS]

    @property
    def switched(self):
        """Whether another model predicts next than before."""
        return self.whole[PREDICTED_BY] != self.whole[PREDICTS_NEXT]

    def decision(self):
        """Return the decision."""
        cdef int64_t k
        whole, real = [self.whole[k] for k in range(STEPS)], [self.real[k] for k in range(ORDERED)]
        return self.reader.read(whole, real, self.step, self.rows_seen - self.rows, self.rows)


cdef class Cell:
    """Rows and models of one strategy around a linear learner, in arrays that Python owns.

    A step is taken from a mark: ``mark``, then ``observe``. A step that is not completed goes back to the
    mark by itself, and ``put_back`` undoes one that was.

    Parameters
    ----------
    parts
        Rows (an array, or CSR rows), targets, weights of rows and gradient tables.
    small
        Array with all else that a step changes, in the order of ``CellArrays``.
    rule, training
        Parameters of the strategy and of the learner.
    sides
        Number of models for which there is room.
    longest
        Number of rows for whose scores there is room from the start.
    """

    def __cinit__(self, parts, small, rule, training, int64_t sides, int64_t longest=0):
        cdef Buffers held
        cdef Py_ssize_t n = 0
        cdef double* at
        cdef int64_t width, wide
        self.rule, self.training = rule_from(rule), training_from(training)
        self.workspace = Workspace()
        self.arrays.sides, self.arrays.outputs = sides, self.training.outputs
        self._use(parts)
        width = self.arrays.X.d + 1
        wide = size_of(width, self.training.outputs, sides)
        held.count = 0
        try:
            at = real_out(&held, small, &n)
        finally:
            release(&held)
        if n != small_length(self.arrays.X.d, self.training.outputs, sides, self.rule.reactive_length, self.training.regression):
            raise ValueError(f"a cell of this shape does not have {n} numbers")
        self.marked = <char*>malloc(n * 8)
        if self.marked == NULL:
            raise MemoryError("no memory for a mark of the models")
        self.small, self.small_size = <char*>at, n * 8
        self.arrays.counts = <Counts*>at
        at += 16
        self.arrays.models = <ModelCounts*>at
        at += 16 * sides
        self.arrays.bounds = <int64_t*>at
        at += self.rule.reactive_length + 1
        self.arrays.centred = <int64_t*>at
        at += sides * width
        self.arrays.w = at
        at += wide
        self.arrays.G = at
        at += wide
        self.arrays.factor = at
        at += sides * width
        self.arrays.gain = at
        at += sides * width
        self.arrays.centre = at
        at += sides * width
        self.arrays.raw = at
        at += wide
        self.arrays.judged = at
        self.parts = parts, small
        self.workspace.reserve(self.arrays.X.d, self.training.outputs, sides, longest, self.arrays.X.n, 0)
        self.mark()

    def __dealloc__(self):
        free(self.marked)

    cdef int _use(self, parts) except -1:
        """Describe the arrays of rows."""
        cdef Buffers held
        cdef Py_ssize_t n = 0, m = 0, entries = 0
        cdef int64_t stored = 0
        cdef Rows rows
        cdef double* y
        cdef double* weight
        cdef double* tables
        X, targets, weights, gradients = parts
        held.count = 0
        try:
            if isinstance(X, tuple):  # the boundaries of places without a row are not set
                rows_of(&held, X[0][None], &rows)
                rows.d, stored = X[3], rows.d
                rows.indices = columns_of(&held, X[1], &n)
                rows.indptr = integers(&held, X[2], &m)
                rows.n = m - 1
                if m < 1 or n != stored:
                    raise ValueError("the values of the CSR rows of a cell do not fit their columns")
            else:
                rows_of(&held, X, &rows)
            y = real_out(&held, targets, &n)
            weight = real_out(&held, weights, &m)
            tables = real_out(&held, gradients, &entries, 2)
        finally:
            release(&held)
        if n != rows.n or m != rows.n or entries != size_of(self.arrays.sides, rows.n, self.arrays.outputs):
            raise ValueError("the arrays of a cell do not have the same number of rows")
        self.arrays.X, self.arrays.y, self.arrays.weight, self.arrays.tables = rows, y, weight, tables
        self.values = stored
        return 0

    def move(self, parts, int64_t base, int64_t values):
        """Use other arrays of rows, to which the rows so far have been copied, from number ``base`` on.

        ``values`` is the number of stored values of CSR rows before that row. A mark stays valid.
        """
        cdef Counts* marked = <Counts*>self.marked
        self._use(parts)
        self.arrays.counts.base = marked.base = base
        self.arrays.counts.values = marked.values = values
        self.parts = parts, self.parts[1]

    def mark(self):
        """Remember rows and models as they are now, for ``put_back``."""
        memcpy(self.marked, self.small, self.small_size)
        self._forget_steps()

    cdef void _forget_steps(self) noexcept:
        memset(self.workspace.scratch.whole + STEPS, 0, 16 * self.arrays.sides)

    def put_back(self):
        """Return to the mark from any point after it; a second call changes nothing."""
        cdef const Scratch* scratch = &self.workspace.scratch
        cdef int64_t side, steps, i, k, place, K = self.arrays.outputs
        cdef const int64_t* order
        cdef const double* old
        cdef double* table
        for side in range(self.arrays.sides):
            steps = scratch.whole[STEPS + 2 * side]
            order = scratch.orders + side * scratch.most_steps
            old = scratch.overwritten + side * scratch.most_steps * K
            place = scratch.whole[STEPS + 2 * side + 1] - self.arrays.counts.base
            table = self.arrays.tables + (side * self.arrays.X.n + place) * K
            # A row that was visited twice has the same old entry in both places, so the order does not matter.
            for i in range(steps):
                for k in range(K):
                    table[order[i] * K + k] = old[i * K + k]
        memcpy(self.small, self.marked, self.small_size)
        self._forget_steps()

    # ------------------------------------------------------------------------ learning

    cdef int _write(self, Rows rows, int64_t place) noexcept nogil:
        """Write rows to the places from ``place`` on, for which there is room; return whether all values are finite."""
        cdef int64_t d = self.arrays.X.d, start, size, i, first = 0
        cdef int64_t* ends
        if rows.indptr == NULL:
            start, size = place * d, rows.n * d
        else:
            first, ends = rows.indptr[0], <int64_t*>self.arrays.X.indptr + place
            start, size = ends[0], rows.indptr[rows.n] - first
            memcpy(<int32_t*>self.arrays.X.indices + start, rows.indices + first, size * sizeof(int32_t))
            for i in range(rows.n):
                ends[i + 1] = rows.indptr[i + 1] - first + start
        return ds_copy_finite(
            <char*>self.arrays.X.values + start * (4 if self.arrays.X.is_single else 8), self.arrays.X.is_single,
            <char*>rows.values + first * (4 if rows.is_single else 8), rows.is_single, size
        )

    cdef bint _fits(self, Rows rows, int64_t place) noexcept nogil:
        """Return whether there is room for rows from ``place`` on."""
        return place + rows.n <= self.arrays.X.n and (
            rows.indptr == NULL
            or self.arrays.X.indptr[place] + rows.indptr[rows.n] - rows.indptr[0] <= self.values
        )

    def set_budget(self, int64_t per_batch, double per_row, bint quadratic):
        """Set the number of gradient steps for a batch (0: not fixed), or for a row, and whether a loss is quadratic.

        The weights of the guard are squared if the loss grows with the square of a score.
        """
        self.per_batch, self.per_row, self.quadratic = per_batch, per_row, quadratic

    cdef int64_t _budget(self, int64_t count) noexcept nogil:
        """Return the number of gradient steps; fractions of a step are carried over by counting from row 0."""
        cdef int64_t lo = self.arrays.counts.next
        if self.per_batch > 0:
            return self.per_batch
        return <int64_t>(self.per_row * <double>(lo + count)) - <int64_t>(self.per_row * <double>lo)

    def observe(self, X, y, weight, tested=None, factors=None, RangeGuard guard=None, bint predict=False):
        """Learn a batch as one time step, from the mark; return how it went.

        Parameters
        ----------
        X, y, weight
            Rows of the type and width of the cell, dense or CSR; codes or targets; weights, or None: all 1.
        tested
            Scores of the rows by the model that predicts now, if they are known.
        factors
            A single model may learn with other weights of the rows: this returns their factors, from one number to
            another.
        guard
            Range guard that admits the rows; the next one is ``guard`` afterwards.
        predict
            Whether to predict the rows before they are learned: their scores are in ``predicted`` afterwards.

        Returns
        -------
        LEARNED; UNSUITED or DIVERGED, as ``learn`` of ``step.pyx`` returns them, or NOT_FINITE, if a value is not, and
        everything is as it was marked; or FULL, if there is no room for the rows, and nothing was changed.
        """
        cdef uint64_t mode = ds_enter_usual_mode()
        try:
            return self._observe(X, y, weight, tested, factors, guard, predict)
        finally:
            ds_leave_usual_mode(mode)

    cdef int64_t _observe(self, X, y, weight, tested, factors, RangeGuard guard, bint predict) except -1:
        """Learn a batch, as ``observe`` says, in the usual floating-point mode."""
        cdef Buffers held
        cdef Rows rows, stored
        cdef Py_ssize_t n = 0, m = 0, known = 0
        cdef double* codes
        cdef double* weights = NULL
        cdef double* scores
        cdef Scratch* scratch = &self.workspace.scratch
        cdef int64_t place = self.arrays.counts.next - self.arrays.counts.base, extremes = 0, status, steps
        cdef int weighted = 0
        cdef bint is_known = False
        self.scored, self.limited, self.predicted = 0, False, None
        held.count = 0
        try:
            rows_of(&held, X, &rows)
            codes = reals(&held, y, &n)
            if n != rows.n or rows.d != self.arrays.X.d or (rows.indptr == NULL) != (self.arrays.X.indptr == NULL):
                raise ValueError("the batch does not have the form of the rows of this cell")
            if guard is not None and guard.numbers != NULL and guard.d != rows.d:
                raise ValueError(f"the guard has {guard.d} columns, and the rows have {rows.d}")
            if not self._fits(rows, place):
                return FULL
            steps = self._budget(n)
            self.workspace.reserve(rows.d, self.arrays.outputs, self.arrays.sides, n, self.arrays.X.n, steps)
            if not self._write(rows, place):
                return NOT_FINITE
            memcpy(self.arrays.y + place, codes, n * 8)
            if weight is None:
                fill(self.arrays.weight + place, n, 1.0)
            else:
                weights = reals(&held, weight, &m)
                if m != n:
                    raise ValueError(f"{m} weights for {n} rows")
                memcpy(self.arrays.weight + place, weights, n * 8)
            stored = rows_between(&self.arrays, place, place + n)
            if tested is not None:
                scores = reals(&held, tested, &known, -1)
                is_known = known == n * self.arrays.outputs
                if is_known:
                    memcpy(scratch.scores, scores, known * 8)
            if predict:
                self.predicted = self._room_for_scores(n)
                is_known = self._predict(&held, rows, stored, guard, real_out(&held, self.predicted, &known, -1))
            if guard is not None:
                guard = guard.after(stored, scratch.losses, &extremes, &weighted)
                if guard.clips and extremes:
                    limit_values(stored, guard.room_for_values())
                    self.limited = True
                    is_known = False  # the models are compared on the rows that they learn
                if weighted:
                    self._weigh(place, n, self.quadratic)
        finally:
            release(&held)
        if factors is not None:
            self._fade(n, factors)
        status = self._learn(n, steps, is_known)
        if status == LEARNED:
            self.guard = guard
        return status

    cdef bint _predict(self, Buffers* held, Rows rows, Rows stored, RangeGuard guard, double* scores) except -1:
        """Write the scores of rows to be predicted, within the limits of the guard; return whether they were within."""
        cdef Py_ssize_t length = 0
        cdef double* most
        cdef bint within = True
        cdef Counts* counts = self.arrays.counts
        limits = None if guard is None else guard.limits
        if limits is not None and stored.d:
            most = reals(held, limits, &length)
            within = ds_all_within(stored, most, length // stored.d)
            if not within:
                limit_values(stored, most)
        score(&self.arrays, counts.predictive ^ counts.challenged, stored, scores, &self.training)
        if not within:
            self._write(rows, counts.next - counts.base)
        else:
            memcpy(self.workspace.scratch.scores, scores, stored.n * self.arrays.outputs * 8)
        return within

    cdef void _weigh(self, int64_t place, int64_t count, bint quadratic) noexcept nogil:
        """Multiply the weights of rows by those of the guard, or drop them if next to nothing would be left.

        A risk is a weighted mean, so that a batch of extreme rows alone would count in full.
        """
        cdef double* weight = self.arrays.weight + place
        cdef const double* factors = self.workspace.scratch.losses
        cdef double before = ds_pairwise_sum(weight, count)
        cdef int64_t i
        for i in range(count):
            weight[i] *= factors[i] * factors[i] if quadratic else factors[i]
        if not ds_pairwise_sum(weight, count) >= LEAST_WEIGHT * before:
            for i in range(count):
                weight[i] *= 0.0

    cdef int64_t _learn(self, int64_t count, int64_t steps, bint tested) except -1:
        """Learn rows that are in their places; go back to the mark unless they are learned."""
        cdef int64_t status
        cdef PyThreadState* thread = NULL
        if (count + steps) * (self.arrays.X.d + 1) * self.arrays.outputs > FEW:
            thread = PyEval_SaveThread()
        status = learn(&self.arrays, count, steps, tested, &self.rule, &self.training, &self.workspace.scratch)
        if thread != NULL:
            PyEval_RestoreThread(thread)
        if status != LEARNED:
            self.put_back()
        else:
            self.scored = count
        return status

    cdef int _fade(self, int64_t count, factors) except -1:
        """Write the weights with which a single model learns to the gradient table of side 1, which has no model."""
        cdef const Counts* counts = self.arrays.counts
        cdef int64_t hi = counts.next + count, lo = max(counts.first, hi - self.rule.span), i
        cdef double* faded = self.arrays.tables + self.arrays.X.n * self.arrays.outputs + lo - counts.base
        cdef const double* weight = self.arrays.weight + lo - counts.base
        cdef Buffers held
        cdef Py_ssize_t n = 0
        cdef const double* shares
        if self.arrays.sides < 2:
            raise ValueError("a cell for a single model has no gradient table for other weights")
        values = factors(lo, hi)
        held.count = 0
        try:
            shares = reals(&held, values, &n)
            if n != hi - lo:
                raise ValueError(f"{n} factors for {hi - lo} rows")
            for i in range(n):
                faded[i] = weight[i] * shares[i]
        finally:
            release(&held)
        return 0

    # ------------------------------------------------------------------------ what a step leaves behind

    def taken(self, X, bint test, reader, scorer):
        """Return what the last step left behind, as ``TakenStep`` has it; ``scorer()`` is for models without margins."""
        tested = self.tested_scores() if test else None
        last = self.margin_scorer() if self.training.kind == LOGISTIC else scorer()
        return self.record(reader), self.guard, X, self.predicted, tested, last

    cdef StepRecord record(self, reader):
        """Return the numbers of the last step, of which ``reader`` makes a decision when somebody asks for it."""
        cdef const Scratch* scratch = &self.workspace.scratch
        cdef StepRecord record = StepRecord.__new__(StepRecord)
        memcpy(record.whole, scratch.whole, sizeof(record.whole))
        memcpy(record.real, scratch.real, sizeof(record.real))
        record.step, record.rows_seen, record.rows = self.arrays.counts.step - 1, self.arrays.counts.next, self.scored
        record.reader = reader
        return record

    cdef object tested_scores(self):
        """Return the scores of the rows of the last step, by the model that predicted then."""
        cdef Buffers held
        tested = self._room_for_scores(self.scored)
        held.count = 0
        memcpy(real_out(&held, tested, NULL, -1), self.workspace.scratch.scores, self.scored * self.arrays.outputs * 8)
        release(&held)
        return tested

    cdef object _room_for_scores(self, int64_t n):
        return np.empty(n) if self.arrays.outputs == 1 else np.empty((n, self.arrays.outputs))

    cpdef MarginScorer margin_scorer(self):
        """Return the margins of rows by the model that predicts now, of a cell for two classes, as they stay."""
        cdef MarginScorer scorer = MarginScorer.__new__(MarginScorer)
        cdef int64_t size = self.arrays.X.d + 1, side = self.arrays.counts.predictive ^ self.arrays.counts.challenged
        set_weights(scorer, self.arrays.raw + side * size, size)
        return scorer

    @property
    def divergence(self):
        """Size of the weights and step size, after a step that diverged."""
        return self.workspace.scratch.real[0], self.workspace.scratch.real[1]

    def steps_of(self, int64_t side):
        """Return the row of each gradient step of a model in the last step, as bytes, and the row they count from."""
        cdef const Scratch* scratch = &self.workspace.scratch
        cdef int64_t steps
        if not 0 <= side < self.arrays.sides:
            raise IndexError(f"there is no model on side {side}")
        steps = scratch.whole[STEPS + 2 * side]
        return (
            PyBytes_FromStringAndSize(<char*>(scratch.orders + side * scratch.most_steps), steps * 8),
            scratch.whole[STEPS + 2 * side + 1],
        )

    @property
    def step(self):
        """Number of the next step."""
        return self.arrays.counts.step

    @property
    def next_row(self):
        """Number of the next row."""
        return self.arrays.counts.next

    @property
    def end(self):
        """Place of the next row."""
        return self.arrays.counts.next - self.arrays.counts.base

    @property
    def predictor(self):
        """Side of the model that predicts now."""
        return self.arrays.counts.predictive ^ self.arrays.counts.challenged


cdef int64_t small_length(int64_t d, int64_t outputs, int64_t sides, int64_t reactive_length, bint regression) except -1:
    """Return how many numbers a cell has beside rows and tables."""
    cdef int64_t judged = RANGES + 4 * sides * d if regression else UNITS
    return size_of(
        16 * (1 + sides) + size_of(reactive_length, 1, 1) + 1 + 4 * sides * (d + 1) + 3 * size_of(sides, d + 1, outputs)
        + 4 * (sides - 2) + judged, 1, 1
    )


cdef void limit_values(Rows rows, const double* most) noexcept nogil:
    """Limit the values of rows, in place, to the range -``most`` to ``most`` of their column."""
    cdef int64_t first = 0 if rows.indptr == NULL else rows.indptr[0]
    ds_clip(rows, most, <char*>rows.values + first * (4 if rows.is_single else 8))


cdef void fill(double* out, int64_t n, double value) noexcept nogil:
    cdef int64_t i
    for i in range(n):
        out[i] = value
