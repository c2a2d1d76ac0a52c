"""A time step of a portfolio: the scores of its experts are mixed, and weights, chain and experts learn.

Experts that learn each row once (``online.pyx``) learn here. All others, such as DriftSurf in a cell or trees of a library,
hand in their scores and learn themselves. Everything that a step makes is a new value, which the portfolio publishes at
its end: going back is keeping the old ones, and other threads predict with them while the next ones are made.
``c/experts.c`` has the arithmetic.
"""

cimport cython

import numpy as np

from libc.math cimport INFINITY, NAN, sqrt
from libc.stdint cimport int64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset

from driftsurf.native.buffers cimport Buffers, hold, real_out, reals, release
from driftsurf.native.gil cimport PyThreadState, let_go, take_back
from driftsurf.native.online cimport OnlineModel, array_of, check_codes, read_reals
from driftsurf.native.rows cimport Labelled, rows_of
from driftsurf.native.rule cimport reference_risk


cdef extern from "experts.h" nogil:
    ctypedef struct Stacking:
        double* H
        double* Q
        double* work
        double* p

    void ds_expert_shares(const double* scores, int64_t n, int64_t columns, int64_t K, int64_t place, int64_t experts,
                          double* G)
    void ds_chain_scores(const double* counts, int64_t known, int64_t last, int64_t K, double* out)
    void ds_mix(const double* G, int64_t n, int64_t K, int64_t M, const double* weights, double* out)
    int ds_stack_classes(const double* G, const double* y, const double* weight, int64_t n, int64_t K, int64_t M,
                         const double* v, const double* A, double* u, Stacking room)
    int ds_stack_values(const double* m, const double* y, const double* weight, int64_t n, int64_t M, double s,
                        const double* v, const double* A, double* u, Stacking room)
    int ds_remember(const double* u, const double* H, int64_t M, double keep, double ridge, const double* A, double* out)

cdef extern from "ds_math.h" nogil:
    double ds_log(double x)
    double ds_pow(double base, double exponent)

cdef extern from "losses.h" nogil:
    double ds_pairwise_sum(const double* values, int64_t n)
    double ds_largest(double size, const double* values, int64_t n)
    double ds_weighted_sum(const double* values, const double* weight, int64_t n, double* mass)


cdef object BLANK = object()    # stands for the numbers of a value that are written later
cdef double TURNED = 0.5        # sum of the weights of experts that are trusted for their fresh models: these are too sure
cdef double REMEMBERED = 0.3    # share of the evidence for the weights that is kept then
cdef int64_t MOST_PARTS = 1 << 20
FEW = 30
"""Batches of fewer rows than this are small: the label before them says something about each of their rows."""
MOST_CLASSES = 100
"""With more classes the table of counts would be large, and hardly filled."""
REMEMBERED_ROWS = 1_000.0
"""Number of rows in which a count of the chain loses half of its value."""
RECENT = 5.0
"""Number of rows in which the count of a recent label loses half of its value."""
LEAD = 0.05
"""The recent rate speaks while its log loss on large batches is so much below that of the shares of all labels."""
cdef int64_t SMALL = FEW, WIDEST = MOST_CLASSES
cdef double KEPT_ROWS = REMEMBERED_ROWS, LEADING = LEAD
cdef double FADED = ds_pow(0.5, 1.0 / RECENT)


# ------------------------------------------------------------------------------------------------------------ weights


cdef class Mixer:
    """Weights of the experts, and what is known about them.

    Parameters
    ----------
    weights
        v, not negative: one for the numbers of each expert; for classes, those of probabilities, then those of votes.
    precision
        A: summed curvature of the losses of earlier batches, of which older ones are slowly forgotten.
    votes
        Whether the experts predict classes, and vote.
    unit
        Usual squared error of the mixture of numbers; 0 before the first batch.
    """

    cdef readonly bint votes
    cdef readonly double unit
    cdef readonly int64_t parts   # number of weights
    cdef double* v                # weights, then the precision

    def __cinit__(self, weights, precision=None, bint votes=False, double unit=0.0):
        if weights is BLANK:
            return
        self.votes, self.unit, self.parts = votes, unit, len(weights)
        if not 0 < self.parts < MOST_PARTS or (votes and self.parts % 2):
            raise ValueError(f"there are {self.parts} weights")
        self.v = <double*>malloc(8 * self.parts * (self.parts + 1))
        if self.v == NULL:
            raise MemoryError(f"no memory for {self.parts} weights")
        read_reals(weights, self.v, self.parts)
        read_reals(precision, self.v + self.parts, self.parts * self.parts)

    def __dealloc__(self):
        free(self.v)

    def __reduce__(self):
        return Mixer, (self.weights, self.precision, self.votes, self.unit)

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self

    @staticmethod
    def of(int64_t experts, double ridge, *, bint votes):
        """Return the mixer that knows nothing: equal weights of numbers or probabilities, and none of votes."""
        weights = np.full(experts, 1.0 / experts)
        if votes:
            weights = np.concatenate([weights, np.zeros(experts)])
        return Mixer(weights, ridge * np.eye(len(weights)), votes)

    @property
    def weights(self):
        """Copy of v."""
        return array_of(self.v, self.parts)

    @property
    def precision(self):
        """Copy of A."""
        return array_of(self.v + self.parts, (self.parts, self.parts))

    @property
    def experts(self):
        """Number of experts."""
        return self.parts // 2 if self.votes else self.parts

    def widened(self, int64_t more):
        """Return the mixer with more experts after the others, of weight 0, about which nothing is known."""
        cdef int64_t each = self.experts, halves = 2 if self.votes else 1, part, place
        places = [part * (each + more) + place for part in range(halves) for place in range(each)]
        weights = np.zeros(halves * (each + more))
        weights[places] = self.weights
        known = self.precision
        precision = float(known.diagonal().min()) * np.eye(len(weights))
        precision[np.ix_(places, places)] = known
        return Mixer(weights, precision, self.votes, self.unit)

    @property
    def shares(self):
        """Weight of each expert, of its probabilities and its votes together, as a share of the sum of all."""
        cdef double* room = <double*>malloc(8 * self.parts)
        if room == NULL:
            raise MemoryError("no memory for shares")
        found = [self.shares_of(room)[k] for k in range(self.experts)]
        free(room)
        return found

    cdef double* shares_of(self, double* to) noexcept:
        """Write ``shares``, and return them."""
        cdef int64_t each = self.parts // 2 if self.votes else self.parts, k
        cdef double total
        for k in range(each):
            to[k] = self.v[k] + self.v[each + k] if self.votes else self.v[k]
        total = ds_pairwise_sum(to, each)
        for k in range(each):
            to[k] = to[k] / total if total > 0.0 else 1.0 / each
        return to

    def mixed_classes(self, G):
        """Return the log-probabilities of the mixture, given what ``stacked_shares`` made of those of the experts."""
        cdef Buffers held
        cdef Py_ssize_t size = 0
        cdef int64_t n = G.shape[0], K = G.shape[1]
        cdef double* g
        held.count = 0
        try:
            g = reals(&held, G, &size, 3)
            if size != n * K * self.parts:
                raise ValueError(f"there are {G.shape[2]} parts instead of {self.parts}")
            out = np.empty((n, K))
            self.mix_classes(g, n, K, real_out(&held, out, NULL, 2))
            return out
        finally:
            release(&held)

    def mixed_values(self, m):
        """Return the numbers that the mixture predicts, given those of the experts (rows, experts)."""
        cdef Buffers held
        cdef Py_ssize_t size = 0
        cdef int64_t n = m.shape[0]
        cdef double* values
        held.count = 0
        try:
            values = reals(&held, m, &size, 2)
            if size != n * self.parts:
                raise ValueError(f"there are {m.shape[1]} parts instead of {self.parts}")
            out = np.empty(n)
            self.mix_values(values, n, real_out(&held, out))
            return out
        finally:
            release(&held)

    cdef int mix_classes(self, const double* G, int64_t n, int64_t K, double* out) except -1:
        cdef PyThreadState* saved = let_go(n * K * self.parts)
        ds_mix(G, n, K, self.parts, self.v, out)
        take_back(saved)
        return 0

    cdef int mix_values(self, const double* m, int64_t n, double* out) except -1:
        cdef int64_t M = self.parts, i, k
        cdef double* room = <double*>malloc(16 * M)
        if room == NULL:
            raise MemoryError("no memory for shares")
        self.shares_of(room)
        for i in range(n):
            for k in range(M):
                room[M + k] = m[i * M + k] * room[k]
            out[i] = ds_pairwise_sum(room + M, M)
        free(room)
        return 0

    def after_classes(self, G, y, weight, double keep, double ridge):
        """Return the mixer after a batch with these codes, which the experts had not learned yet."""
        return self._after(G, y, weight, G.shape[1], keep, ridge, 1.0)

    def after_values(self, m, y, weight, double keep, double ridge, double part=1.0):
        """Return the mixer after a batch with these numbers.

        Errors are in units of that of the mixture on this batch. Their size often changes by more than an order of
        magnitude along a stream, and batches with large ones would decide alone. The error on a batch that counts as
        ``part`` of one is noise, and moves the usual one by so much.
        """
        return self._after(m, y, weight, 0, keep, ridge, part)

    def _after(self, G, y, weight, int64_t K, double keep, double ridge, double part):
        cdef Buffers held
        cdef Py_ssize_t size = 0, n = 0, m = 0
        cdef double* g
        cdef double* targets
        cdef double* w
        held.count = 0
        try:
            g, targets, w = reals(&held, G, &size, -1), reals(&held, y, &n), reals(&held, weight, &m)
            if m != n or size != n * (K or 1) * self.parts:
                raise ValueError("the scores of the experts do not fit the targets")
            if K:
                check_codes(targets, n, K)
            return self.after_batch(g, targets, w, n, K, keep, ridge, part)
        finally:
            release(&held)

    cdef Mixer changed(self):
        """Return a mixer of the same form, whose numbers the caller writes."""
        cdef Mixer made = Mixer.__new__(Mixer, BLANK)
        made.votes, made.unit, made.parts = self.votes, self.unit, self.parts
        made.v = <double*>malloc(8 * self.parts * (self.parts + 1))
        if made.v == NULL:
            raise MemoryError(f"no memory for {self.parts} weights")
        return made

    cdef Mixer after_batch(self, const double* G, const double* y, const double* weight, int64_t n, int64_t K, double keep,
                           double ridge, double part):
        """Return the mixer after a batch; K is 0 for numbers."""
        cdef int64_t M = self.parts
        cdef double error = 1.0
        cdef Mixer made
        cdef Stacking room
        cdef PyThreadState* saved
        cdef bint good
        cdef double* work
        if not K:
            error = self.error_of(G, y, weight, n)
            if part < 1.0 and self.unit > 0.0:
                error = self.unit + part * (error - self.unit)
            if not 0.0 < error < INFINITY:  # the mixture is exactly right, or a prediction is not finite
                return self
        made = self.changed()
        work = <double*>malloc(8 * ((3 * M + 6) * M + K))
        if work == NULL:
            raise MemoryError(f"no memory for the work on {M} weights")
        room.H, room.Q, room.work, room.p = work, work + M * M, work + 2 * M * M, work + (3 * M + 6) * M
        saved = let_go(n * (K or 1) * M * M)
        if K:
            good = ds_stack_classes(G, y, weight, n, K, M, self.v, self.v + M, made.v, room)
        else:
            good = ds_stack_values(G, y, weight, n, M, sqrt(error), self.v, self.v + M, made.v, room)
            made.unit = error
        good = good and ds_remember(made.v, room.H, M, keep, ridge, self.v + M, made.v + M)
        take_back(saved)
        free(work)
        if good:
            return made
        if not K:  # weights that are not finite are left out, and the size of the error is known
            memcpy(made.v, self.v, 8 * M * (M + 1))
            return made
        return self

    def turned_to(self, places, double ridge):
        """Return the mixer that trusts the experts at these places alone, and readily learns other weights."""
        cdef int64_t M = self.parts, k
        cdef Mixer made = self.changed()
        memset(made.v, 0, 8 * M)
        for k in places:
            if not 0 <= k < M:
                raise IndexError(f"there is no expert {k}")
            made.v[k] = TURNED / len(places)
        for k in range(M * M):
            made.v[M + k] = REMEMBERED * self.v[M + k] + (1.0 - REMEMBERED) * ridge * (1.0 if k % (M + 1) == 0 else 0.0)
        return made

    cdef double error_of(self, const double* m, const double* y, const double* weight, int64_t n) except? -1.0:
        """Return the mean squared error of the mixture."""
        cdef double* room = <double*>malloc(8 * (n + 1))
        cdef double found
        cdef int64_t i
        if room == NULL:
            raise MemoryError(f"no memory for {n} errors")
        self.mix_values(m, n, room)
        for i in range(n):
            found = room[i] - y[i]
            room[i] = weight[i] * (found * found)
        found = ds_pairwise_sum(room, n) / ds_pairwise_sum(weight, n)
        free(room)
        return found

    def state(self):
        """Return the entries to save."""
        state = {"weights": self.weights, "precision": self.precision}
        return state if self.votes else state | {"unit": self.unit}


def stacked_shares(scores, int64_t n_classes):
    """Return the log-probabilities of all experts, then their votes, as one array (rows, classes, 2 x experts).

    An expert votes for its most probable class. Those of equal probability share the vote, so that an expert that has
    learned nothing says nothing. The scores of an expert are margins (n,) or log-probabilities (n, classes known so
    far); other scores are taken for log-odds.
    """
    cdef Buffers held
    cdef int64_t n = len(scores[0]), experts = len(scores), place
    out = np.empty((n, n_classes, 2 * experts))
    held.count = 0
    try:
        for place in range(experts):
            write_shares(real_out(&held, out, NULL, 3), n, n_classes, scores[place], place, experts)
            release(&held)
    finally:
        release(&held)
    return out


cdef int write_shares(double* to, int64_t n, int64_t K, scores, int64_t place, int64_t experts) except -1:
    """Write what stacking takes from the scores of one expert."""
    cdef Buffers held
    cdef Py_buffer* view
    cdef int64_t columns
    cdef PyThreadState* saved
    held.count = 0
    try:
        view = hold(&held, np.ascontiguousarray(scores, np.float64), "d", 8, -1, False)
        columns = view.shape[1] if view.ndim == 2 else 0
        if view.ndim > 2 or view.shape[0] != n or columns > K or (view.ndim == 2 and not columns):
            raise ValueError("the scores of the experts do not fit each other")
        saved = let_go(n * K)
        ds_expert_shares(<double*>view.buf, n, columns, K, place, experts, to)
        take_back(saved)
        return 0
    finally:
        release(&held)


# ---------------------------------------------------------------------------------------------------- earlier targets


cdef class Chain:
    """Counts of labels: after each last label of the batch before, of late, and of all.

    Parameters
    ----------
    counts
        Counts (classes, classes) in small batches, of the labels in the columns after those in the rows.
    rates
        Counts (2, classes) of the recent labels and of all.
    last
        Code of the last label; -1 before there was one.
    lead
        By how much the recent rate predicts the labels of a large batch better than the shares of all do.

    Examples
    --------
    >>> chain = Chain.of(2)
    >>> for label in (0.0, 1.0, 0.0, 1.0, 0.0):
    ...     chain = chain.after(np.array([label]), np.ones(1), 2, 0.9)
    >>> np.exp(chain.forecast(1, 2)).round(2)
    array([[0.17, 0.83]])
    """

    cdef readonly int64_t last
    cdef readonly double lead
    cdef int64_t known            # number of classes that are counted
    cdef double* values           # counts, then rates

    def __cinit__(self, counts, rates=None, int64_t last=-1, double lead=0.0):
        self.last, self.lead = last, lead
        if counts is BLANK:
            return
        self.known = len(counts)
        if self.known > WIDEST or not -1 <= last < max(self.known, 1):
            raise ValueError(f"there are counts of {self.known} classes; the last label is {last}")
        self.reserve()
        read_reals(counts, self.values, self.known * self.known)
        read_reals(rates, self.values + self.known * self.known, 2 * self.known)

    cdef int reserve(self) except -1:
        self.values = <double*>calloc(self.known * (self.known + 2) + 1, 8)
        if self.values == NULL:
            raise MemoryError(f"no memory for counts of {self.known} classes")
        return 0

    def __dealloc__(self):
        free(self.values)

    def __reduce__(self):
        return Chain, (self.counts, self.rates, self.last, self.lead)

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self

    @staticmethod
    def of(int64_t n_classes):
        """Return the counts of no labels."""
        n_classes = n_classes if n_classes <= WIDEST else 0
        return Chain(np.zeros((n_classes, n_classes)), np.zeros((2, n_classes)))

    @property
    def counts(self):
        """Copy of the counts of labels after each label."""
        return array_of(self.values, (self.known, self.known))

    @property
    def rates(self):
        """Copy of the counts of the recent labels and of all."""
        return array_of(self.values + self.known * self.known, (2, self.known))

    cdef bint speaks(self, int64_t rows) noexcept:
        """Return whether something is known about so many rows."""
        return self.last >= 0 and (rows < SMALL or self.lead > LEADING)

    cdef int forecast_row(self, int64_t rows, int64_t K, double* out) except -1:
        """Write the log-probabilities (K) of each of so many rows."""
        cdef const double* rates = self.values + self.known * self.known
        cdef int64_t c
        if not 0 <= self.last < self.known <= K:
            raise ValueError(f"there are counts of {self.known} classes; the last label is {self.last} of {K}")
        if rows < SMALL:
            ds_chain_scores(self.values, self.known, self.last, K, out)
        else:
            for c in range(K):
                out[c] = ds_log(rate_of(rates, self.known, K, c))
        return 0

    def forecast(self, int64_t rows, int64_t n_classes):
        """Return log-probabilities (rows, classes) of the next rows; None where nothing is known."""
        cdef Buffers held
        if not self.speaks(rows):
            return None
        row = np.empty(n_classes)
        held.count = 0
        try:
            self.forecast_row(rows, n_classes, real_out(&held, row))
        finally:
            release(&held)
        return np.tile(row, (rows, 1))

    def after(self, y, weight, int64_t n_classes, double keep):
        """Return the counts after a batch with these codes; the share ``keep`` of the evidence for the rate is kept."""
        cdef Buffers held
        cdef Py_ssize_t n = 0, m = 0
        cdef double* codes
        cdef double* w
        held.count = 0
        try:
            codes, w = reals(&held, y, &n), reals(&held, weight, &m)
            if m != n:
                raise ValueError(f"{m} weights for {n} labels")
            check_codes(codes, n, n_classes)
            return self.learned(codes, w, n, n_classes, keep)
        finally:
            release(&held)

    cdef Chain learned(self, const double* y, const double* weight, int64_t n, int64_t K, double keep):
        cdef Chain made
        cdef int64_t i, c, code, counted = 0, known = max(self.known, K), before = self.known
        cdef double lead = 0.0, share
        cdef double* counts
        cdef double* rates
        cdef double* leads
        for i in range(n):
            counted += weight[i] > 0.0
        if not counted or K > WIDEST:
            return self
        made = Chain.__new__(Chain, BLANK)
        made.known, made.last, made.lead = known, self.last, self.lead
        made.reserve()
        counts, rates = made.values, made.values + known * known
        share = ds_pow(0.5, counted / KEPT_ROWS) if self.last >= 0 and n < SMALL else 1.0
        for i in range(before):
            for c in range(before):
                counts[i * known + c] = self.values[i * before + c] * share
        for c in range(before):
            rates[c], rates[known + c] = self.values[before * before + c], self.values[before * before + before + c]
        leads = <double*>malloc(8 * known)
        if leads == NULL:
            raise MemoryError(f"no memory for {known} classes")
        lead_of_recent(rates, known, leads)
        for i in range(n):
            if not weight[i] > 0.0:
                continue
            code = <int64_t>y[i]
            lead += leads[code]
            for c in range(known):
                rates[c] *= FADED
            rates[code] += 1.0
            rates[known + code] += 1.0
            if self.last >= 0 and n < SMALL:
                counts[self.last * known + code] += 1.0
            made.last = code
        if self.last >= 0 and n >= SMALL:
            made.lead = keep * self.lead + (1.0 - keep) * (lead / counted)
        free(leads)
        return made

    def state(self):
        """Return the entries to save."""
        return {"counts": self.counts, "rates": self.rates, "last": self.last, "lead": self.lead}


cdef void lead_of_recent(const double* rates, int64_t known, double* leads) noexcept nogil:
    """Write by how much the recent rate predicts each class better than the share of all labels does.

    It is log r - log s, where the rate r and the share s are each mixed with one percent of equal shares.
    """
    cdef double floor = 0.01 / known
    cdef int64_t c
    for c in range(known):
        leads[c] = ds_log(0.99 * rate_of(rates, known, known, c) + floor) - ds_log(0.99 * share_of(rates, known, known, c) + floor)


cdef double share_of(const double* rates, int64_t known, int64_t K, int64_t c) noexcept nogil:
    """Return the share of a class among all labels; each class counts as one label more."""
    cdef double total = <double>K
    cdef int64_t k
    for k in range(known):
        total += rates[known + k]
    return ((rates[known + c] if c < known else 0.0) + 1.0) / total


cdef double rate_of(const double* rates, int64_t known, int64_t K, int64_t c) noexcept nogil:
    """Return the rate of a class among the recent labels, of which the share among all labels is one more."""
    cdef double total = 1.0
    cdef int64_t k
    for k in range(known):
        total += rates[k]
    return ((rates[c] if c < known else 0.0) + share_of(rates, known, K, c)) / total


cdef class Last:
    """The last number, which says much about the next one if few rows are learned at a time."""

    cdef readonly double value
    cdef readonly bint known

    def __cinit__(self, double value=0.0, bint known=False):
        self.value, self.known = value, known

    def __reduce__(self):
        return Last, (self.value, self.known)

    def forecast(self, int64_t rows, int64_t n_classes):
        """Return the last number for each of the next rows; None if it is not known, or they are many."""
        return np.full(rows, self.value) if self.known and rows < SMALL else None

    def after(self, y, weight, int64_t n_classes, double keep):
        """Return the last number of a batch."""
        counted = y[weight > 0.0]
        return Last(float(counted[-1]), True) if len(counted) else self

    def state(self):
        """Return the entries to save."""
        return {"value": self.value, "known": self.known}


# ------------------------------------------------------------------------------------------ experts and their scores


WHOLE = 100
"""A batch of fewer rows than this counts as a part of one, so that rows one at a time are not forgotten at once."""
cdef double MOST_LOSS = -ds_log(0.01)  # largest log loss of a row of an expert that learns each row once


@cython.final
cdef class OnlineExpert:
    """An expert that learns each row once, and what its strategy counts: the values after a step.

    Parameters
    ----------
    model
        What it has learned.
    place
        Number of its model, step and row in which that began.
    step, next_row
        Numbers of the next step and row.
    best
        Lowest risk so far.
    """

    cdef readonly OnlineModel model
    cdef readonly object place
    cdef readonly int64_t step, next_row
    cdef readonly double best

    def __init__(self, OnlineModel model, place, int64_t step, int64_t next_row, double best):
        self.model, self.place, self.step, self.next_row, self.best = model, place, step, next_row, best

    def __reduce__(self):
        return OnlineExpert, (self.model, self.place, self.step, self.next_row, self.best)

    def __deepcopy__(self, memo):
        return self


@cython.final
@cython.no_gc
@cython.freelist(16)
cdef class OnlineRecord:
    """What a step of such an expert leaves behind: numbers, of which its decision is made when somebody asks for it."""

    cdef readonly object place, reader
    cdef readonly int64_t step, rows_seen, rows, gradients
    cdef readonly double risk, best

    def __init__(self, place, reader, numbers):
        self.place, self.reader = place, reader
        self.step, self.rows_seen, self.rows, self.gradients, self.risk, self.best = numbers

    def __reduce__(self):
        numbers = self.step, self.rows_seen, self.rows, self.gradients, self.risk, self.best
        return OnlineRecord, (self.place, self.reader, numbers)

    @property
    def transitions(self):
        """Number of transitions: none."""
        return 0

    @property
    def switched(self):
        """Whether another model predicts next than before: never."""
        return False

    def decision(self):
        """Return the decision."""
        return self.reader(self)


@cython.final
cdef class PortfolioState:
    """Everything that a step of a portfolio itself replaces.

    Parameters
    ----------
    mixer
        Weights of the experts that always have scores.
    n_classes
        Number of known classes; 0 for numbers.
    step, next_row
        Numbers of the next step and row.
    learned
        Number of steps since the experts began or were reset.
    whole
        Rows of a batch that counts in full; 1 in a state of version 0.2, in which each batch did.
    chain
        What is known from earlier targets; None in states of 0.2.
    trail
        The last targets, as columns for the experts that see them.
    blend
        Weights of all experts and of the chain together; None until earlier labels say something.
    residuals
        How far predicted numbers were off; None for classes.
    outcomes
        What the experts last decided; empty if that is not known.
    online
        The experts that learn each row once, at their places; None at those of the others.
    """

    cdef readonly Mixer mixer
    cdef readonly Mixer blend
    cdef readonly object chain, trail, residuals
    cdef readonly tuple outcomes, online
    cdef readonly int64_t n_classes, step, next_row, learned, whole

    def __init__(self, Mixer mixer, int64_t n_classes, *, int64_t step=0, int64_t next_row=0, int64_t learned=0,
                 int64_t whole=WHOLE, chain=None, trail=None, Mixer blend=None, residuals=None, outcomes=(), online=()):
        self.mixer, self.n_classes, self.step, self.next_row = mixer, n_classes, step, next_row
        self.learned, self.whole, self.chain, self.trail, self.blend = learned, whole, chain, trail, blend
        self.residuals, self.outcomes, self.online = residuals, tuple(outcomes), tuple(online)

    def entries(self):
        """Return the arguments of the constructor but the first one."""
        names = ("n_classes", "step", "next_row", "learned", "whole", "chain", "trail", "blend", "residuals", "outcomes", "online")
        return {name: getattr(self, name) for name in names}

    def replaced(self, **changes):
        """Return the state with other values."""
        known = {"mixer": self.mixer} | self.entries() | changes
        return PortfolioState(known.pop("mixer"), known.pop("n_classes"), **known)

    def __reduce__(self):
        return restored, (self.mixer, self.entries())

    def __deepcopy__(self, memo):
        return self


def restored(mixer, entries):
    """Return a state from its entries, as pickles do."""
    return PortfolioState(mixer, entries.pop("n_classes"), **entries)


@cython.final
cdef class Tested:
    """Scores of a tested batch."""

    cdef readonly object mixture   # those that count
    cdef readonly object experts   # those of the mixture of the experts, without what earlier labels say
    cdef readonly list scores      # those of each expert; None if it has nothing to say about so many rows
    cdef readonly int64_t n_classes
    cdef int64_t rows
    cdef int64_t parts             # number of weights of the mixer of the experts
    cdef Mixer blend               # weights of all experts and of what earlier labels say; None if these never said anything
    cdef double* together          # what the mixer of the experts takes of the scores
    cdef double* blended           # what ``blend`` takes of them

    def __dealloc__(self):
        free(self.together)
        free(self.blended)


cdef double* numbers_for(int64_t n) except NULL:
    cdef double* made = <double*>malloc(8 * (n + 1))
    if made == NULL:
        raise MemoryError(f"no memory for {n} numbers")
    return made


def mixed_by(PortfolioState live not None, list scores not None, int64_t n_classes):
    """Return what follows from the scores of all experts, for this number of classes.

    The first ones, which the mixer weights, always have scores. The others have them for few rows.
    """
    cdef Tested made = Tested.__new__(Tested)
    cdef int64_t count = live.mixer.experts, more = len(scores) - count, n = len(scores[0]), k
    cdef bint silent = live.blend is None
    cdef bint speaks = False
    cdef Chain chain
    if n_classes and live.chain is not None:
        chain = live.chain
        speaks = chain.speaks(n)
    elif live.chain is not None:
        speaks = live.chain.forecast(n, 0) is not None
    silent = silent and not speaks
    for k in range(count, count + more):
        silent = silent and scores[k] is None
    made.scores, made.n_classes, made.rows, made.parts = scores, n_classes, n, live.mixer.parts
    if not silent:
        made.blend = live.blend or live.mixer.widened(more + (live.chain is not None))
    if n_classes:
        mix_classes(made, live, count, more, speaks)
    else:
        mix_values(made, live, count, more)
    return made


cdef int mix_classes(Tested made, PortfolioState live, int64_t count, int64_t more, bint speaks) except -1:
    """Mix the log-probabilities of classes."""
    cdef int64_t n = made.rows, K = made.n_classes, i, k, c, each, M, voices = more + (live.chain is not None)
    cdef double* said
    cdef Buffers held
    cdef bint silent = made.blend is None
    made.together = numbers_for(n * K * 2 * count)
    each = count if silent else made.blend.experts
    if not silent and each != count + voices:
        raise ValueError(f"there are weights of {each} parts instead of {count + voices}")
    if not silent:
        made.blended = numbers_for(n * K * 2 * each)
    for k in range(count):
        write_shares(made.together if silent else made.blended, n, K, made.scores[k], k, each)
    if not silent:
        said = numbers_for(n * K)
        try:
            for k in range(count, each):
                if k < count + more and made.scores[k] is not None:
                    write_shares(made.blended, n, K, made.scores[k], k, each)
                    continue
                if k == count + more and speaks:
                    (<Chain>live.chain).forecast_row(n, K, said)
                else:
                    for c in range(K):
                        said[c] = -ds_log(<double>K)
                for i in range(K, n * K):
                    said[i] = said[i - K]
                ds_expert_shares(said, n, K, K, k, each, made.blended)
        finally:
            free(said)
        M = 2 * each
        for i in range(n * K):
            for k in range(count):
                made.together[i * 2 * count + k] = made.blended[i * M + k]
                made.together[i * 2 * count + count + k] = made.blended[i * M + each + k]
    held.count = 0
    try:
        made.experts = made.mixture = np.empty((n, K))
        live.mixer.mix_classes(made.together, n, K, real_out(&held, made.experts, NULL, 2))
        if not silent:
            made.mixture = np.empty((n, K))
            made.blend.mix_classes(made.blended, n, K, real_out(&held, made.mixture, NULL, 2))
        return 0
    finally:
        release(&held)


cdef int mix_values(Tested made, PortfolioState live, int64_t count, int64_t more) except -1:
    """Mix predicted numbers."""
    cdef int64_t n = made.rows, i, k, voices = more + (live.chain is not None)
    cdef Py_ssize_t size = 0
    cdef Buffers held
    cdef double* values
    cdef double* mixture
    made.together = numbers_for(n * count)
    held.count = 0
    try:
        for k in range(count):
            values = reals(&held, np.ascontiguousarray(made.scores[k], np.float64), &size)
            if size != n:
                raise ValueError("the scores of the experts do not fit each other")
            for i in range(n):
                made.together[i * count + k] = values[i]
            release(&held)
        made.experts = made.mixture = np.empty(n)
        mixture = real_out(&held, made.experts)
        live.mixer.mix_values(made.together, n, mixture)
        release(&held)
        if made.blend is None:
            return 0
        if made.blend.parts != count + voices:
            raise ValueError(f"there are weights of {made.blend.parts} parts instead of {count + voices}")
        said = list(made.scores[count:])
        if live.chain is not None:
            said.append(live.chain.forecast(n, 0))
        made.blended = numbers_for(n * (count + voices))
        for i in range(n):
            memcpy(made.blended + i * (count + voices), made.together + i * count, 8 * count)
        for k in range(voices):
            one = made.experts if said[k] is None else np.ascontiguousarray(said[k], np.float64)
            values = reals(&held, one, &size)
            if size != n:
                raise ValueError("the scores of the experts do not fit each other")
            for i in range(n):
                made.blended[i * (count + voices) + count + k] = values[i]
            release(&held)
        made.mixture = np.empty(n)
        made.blend.mix_values(made.blended, n, real_out(&held, made.mixture))
        return 0
    finally:
        release(&held)


# ----------------------------------------------------------------------------------------------------------- learning


@cython.final
@cython.no_gc
cdef class JointRecord:
    """What a step of a portfolio leaves behind: numbers, of which its decision is made when somebody asks for it.

    Putting it together takes as long as learning a few rows, and most decisions are never looked at.
    """

    cdef readonly object reader
    cdef readonly tuple outcomes
    cdef readonly list risks, before, after
    cdef readonly int64_t step, first_row, rows
    cdef readonly bint turned

    def __init__(self, reader, outcomes, risks, before, after, place, bint turned):
        self.reader, self.outcomes, self.risks, self.before, self.after = reader, outcomes, risks, before, after
        self.turned = turned
        self.step, self.first_row, self.rows = place

    def __reduce__(self):
        place = self.step, self.first_row, self.rows
        return JointRecord, (self.reader, self.outcomes, self.risks, self.before, self.after, place, self.turned)

    @property
    def transitions(self):
        """Number of transitions."""
        cdef int64_t found = 0
        for one in self.outcomes:
            if type(one) is not OnlineRecord:
                found += one.transitions
        return found

    @property
    def rows_seen(self):
        """Number of rows up to and including this step."""
        return self.first_row + self.rows

    def decision(self):
        """Return the decision."""
        return self.reader(self)


def expert_shares(Mixer mixer not None, Mixer blend, int64_t experts):
    """Return the share of each expert among the experts, without that of earlier labels.

    There may be more experts than the mixer weights: those that see earlier targets have their weights in ``blend``.
    """
    cdef int64_t known = mixer.experts, k, half
    cdef Mixer source = mixer if experts == known or blend is None else blend
    cdef double total = 0.0, weight
    cdef list found = []
    half = source.parts // 2
    for k in range(experts):
        weight = 0.0
        if k < source.experts:
            weight = source.v[k] + source.v[half + k] if source.votes else source.v[k]
        found.append(weight)
        total += weight
    for k in range(experts):
        weight = found[k]
        found[k] = weight / total if total > 0.0 else 1.0 / experts
    return found


cdef list risks_of(Tested tested, Mixer mixer, const double* y, const double* weight):
    """Return the mean loss of each expert on a batch, as the mixer sees it: log loss, or the squared error.

    Experts that have no scores for the batch have no loss.
    """
    cdef int64_t n = tested.rows, K = tested.n_classes, i, k, M, known
    cdef const double* G = tested.together if tested.blend is None else tested.blended
    cdef double mass, total, loss
    cdef double* room
    cdef list found = []
    if tested.blend is not None:
        mixer = tested.blend
    M = mixer.parts
    known = min(len(tested.scores), M // 2 if K else M)
    mass = weight[0] if n == 1 else ds_pairwise_sum(weight, n)
    room = numbers_for(n)
    for k in range(len(tested.scores)):
        if k >= known or tested.scores[k] is None:
            found.append(None)
            continue
        total = 0.0
        for i in range(n):
            if K:
                loss = -G[(i * K + <int64_t>y[i]) * M + k]
            else:
                loss = G[i * M + k] - y[i]
                loss = loss * loss
            room[i] = weight[i] * loss
            total += room[i]
        if not mass > 0.0:
            found.append(NAN)
        elif K and n == 1:
            found.append(loss)
        else:
            found.append((ds_pairwise_sum(room, n) if known == 1 else total) / mass)
    free(room)
    return found


cdef double online_risk(scores, const double* y, const double* weight, int64_t n, int64_t K) except? -1.0:
    """Return the risk of an expert that learns each row once: the mean of its limited log loss, or squared error."""
    cdef Buffers held
    cdef Py_ssize_t size = 0
    cdef const double* known
    cdef double* losses = numbers_for(n)
    cdef double mass = 0.0, total
    cdef int64_t i
    held.count = 0
    try:
        known = reals(&held, np.ascontiguousarray(scores, np.float64), &size, -1)
        if size != n * (K or 1):
            raise ValueError("the scores of an expert do not fit the batch")
        for i in range(n):
            if K:
                losses[i] = -known[i * K + <int64_t>y[i]]
                if losses[i] > MOST_LOSS:  # NaN stays NaN
                    losses[i] = MOST_LOSS
            else:
                losses[i] = known[i] - y[i]
                losses[i] = losses[i] * losses[i]
        total = ds_weighted_sum(losses, weight, n, &mass)
        return total / mass if mass > 0.0 else NAN
    finally:
        free(losses)
        release(&held)


def advance(PortfolioState live not None, batch, Tested tested not None, others, double ridge, double half_life, readers):
    """Learn a batch; return the next state, and what was decided.

    Parameters
    ----------
    live
        State before the batch.
    batch
        Rows, targets and weights, with the form that the models were made for.
    tested
        Scores of the rows.
    others
        Function of live state, batch and tested scores that lets all other experts learn: it returns what each decided,
        and None at the places of those that learn here; the trail after the batch; and the experts that predict next
        with another model than before, which began with this batch, if the mixture was worse than guessing.
    ridge, half_life
        Options of the portfolio.
    readers
        Functions that make decisions of a ``JointRecord`` and of an ``OnlineRecord``.
    """
    cdef Buffers held
    cdef Labelled rows
    cdef Py_ssize_t n = 0, m = 0
    cdef int64_t K = 0, next_row, experts = len(tested.scores), k
    cdef double part, keep
    cdef Mixer mixer = live.mixer, blend
    cdef PortfolioState after
    cdef JointRecord record
    X, y, weight = batch[0], batch[1], batch[2]
    held.count = 0
    try:
        rows_of(&held, X, &rows.rows)
        rows.y, rows.weight = reals(&held, y, &n), reals(&held, weight, &m)
        if n != rows.rows.n or m != n:
            raise ValueError(f"there are {n} targets and {m} weights of {rows.rows.n} rows")
        if live.mixer is None or tested.together == NULL or tested.rows != n or tested.parts != live.mixer.parts:
            raise ValueError("the tested scores are not those of the batch")
        if live.n_classes:
            K = max(live.n_classes, <int64_t>ds_largest(0.0, rows.y, n) + 1)
            check_codes(rows.y, n, K)
        if K != tested.n_classes:  # the batch has the first rows of a class
            tested = mixed_by(live, tested.scores, K)
        blend = live.blend if tested.blend is None else tested.blend
        part = min(1.0, <double>n / <double>live.whole)
        keep = ds_pow(0.5, part / half_life)
        if live.learned and ds_largest(0.0, rows.weight, n) > 0.0:  # the first batch says nothing: no expert has learned
            if not K:
                part = max(part, 1.0 / <double>live.learned)
            mixer = mixer.after_batch(tested.together, rows.y, rows.weight, n, K, keep, ridge, part)
            if tested.blend is not None:
                blend = blend.after_batch(tested.blended, rows.y, rows.weight, n, K, keep, ridge, part)
        outcomes, trail, fresh = others(live, batch, tested)
        online = learn_online(live, X, rows, tested.scores, K, outcomes, readers[1])
        # The weights are learned from predictions, and a model that begins with this batch has not made any. After an
        # abrupt change all others are wrong for another batch, unless the weights go to it at once.
        if fresh:
            mixer, blend = mixer.turned_to(fresh, ridge), None if blend is None else blend.turned_to(fresh, ridge)
        after = PortfolioState.__new__(PortfolioState)
        after.mixer, after.blend, after.trail, after.online, after.outcomes = mixer, blend, trail, online, tuple(outcomes)
        after.n_classes, after.whole, after.chain, after.residuals = K, live.whole, live.chain, live.residuals
        after.step, after.next_row, after.learned = live.step + 1, live.next_row + n, live.learned + 1
        if K and live.chain is not None:
            after.chain = (<Chain>live.chain).learned(rows.y, rows.weight, n, K, keep)
        elif live.chain is not None:
            after.chain = live.chain.after(y, weight, 0, keep)
        if live.residuals is not None and live.learned:
            sizes = np.abs(tested.mixture - y)
            after.residuals = live.residuals.with_errors(sizes[(weight > 0.0) & np.isfinite(sizes)])
        record = JointRecord.__new__(JointRecord)
        record.reader, record.outcomes, record.turned = readers[0], after.outcomes, bool(fresh)
        record.step, record.first_row, record.rows = live.step, live.next_row, n
        record.risks = risks_of(tested, live.mixer, rows.y, rows.weight)
        record.before, record.after = expert_shares(live.mixer, live.blend, experts), expert_shares(mixer, blend, experts)
        return after, record
    finally:
        release(&held)


cdef tuple learn_online(PortfolioState live, X, Labelled rows, list scores, int64_t K, list outcomes, reader):
    """Let the experts that learn each row once learn a batch; write what they leave behind to their places."""
    cdef list made = list(live.online)
    cdef OnlineExpert one, after
    cdef OnlineRecord record
    cdef OnlineModel model
    cdef int64_t k, steps, n = rows.rows.n
    cdef double risk
    for k in range(len(made)):
        one = made[k]
        if one is None:
            continue
        model, known = one.model, scores[k]
        if model is None or model.n_features != rows.rows.d or (model.n_classes > 0) != (K > 0):
            raise ValueError("an expert was made for other rows")
        if K > model.n_classes:
            model = model.grown(K)
            known = model.scores(X)  # those of before have no column for the class
        risk = online_risk(known, rows.y, rows.weight, n, K)
        steps = model.budget(one.next_row, one.next_row + n)
        after = OnlineExpert.__new__(OnlineExpert)
        after.model, after.place = model.learned(rows, one.next_row + n, steps), one.place
        after.step, after.next_row = one.step + 1, one.next_row + n
        after.best = reference_risk(one.best, risk, 0, False)
        record = OnlineRecord.__new__(OnlineRecord)
        record.place, record.reader, record.step, record.rows = one.place, reader, one.step, n
        record.rows_seen, record.gradients, record.risk, record.best = after.next_row, steps if n else 0, risk, after.best
        made[k], outcomes[k] = after, record
    return tuple(made)
