"""Linear models: gradient steps, losses, sums in a fixed order, and random draws.

Rows are an array (n, d) of float64 or float32, or CSR rows; ``order`` has the row of each step. A model is
``(w, G, table)``: weights with the intercept last, sum of the gradients in the table, and the gradient of each row when
it was last drawn (NaN: never). A frame is ``(gain, centre, centred)``. The files of ``native/c`` explain the letters.
"""

from libc.stdint cimport int64_t, uint64_t
from libc.stdlib cimport free, malloc

from driftsurf.native.buffers cimport Buffers, integer_out, integers, real_out, reals, release
from driftsurf.native.gil cimport let_go, take_back, PyThreadState
from driftsurf.native.rows cimport Frame, Labelled, Model, Rows, rows_of


cdef extern from "linear.h" nogil:
    ctypedef struct Descent:
        Labelled set
        const int64_t* order
        Model model
        int64_t drawn
        double eta
        Frame frame
        const double* offset
    int64_t ds_saga(const Descent* model, int64_t steps, double mu) noexcept
    void ds_saga_both(Descent* one, Descent* two, int64_t steps, double mu) noexcept
    void ds_sgd(const Descent* model, int64_t steps, double mu) noexcept
    int64_t ds_discharge(Rows rows, const double* table, double* G, Frame frame) noexcept

cdef extern from "multi.h" nogil:
    ctypedef struct Loss:
        int64_t kind
        double epsilon
        double shift
        double reach
    enum:
        DS_SOFTMAX, DS_SQUARED, DS_HUBER, DS_SQUARED_HINGE
    int64_t ds_multi_saga(const Descent* model, int64_t steps, double mu, int64_t K, Loss loss, double* work) noexcept
    void ds_multi_sgd(const Descent* model, int64_t steps, double mu, int64_t K, Loss loss, double* work) noexcept
    int64_t ds_multi_discharge(Rows rows, const double* table, double* G, int64_t K, Frame frame) noexcept

cdef extern from "losses.h" nogil:
    void ds_logistic_losses(const double* margins, const double* y, int64_t n, double* out) noexcept
    void ds_output_losses(const double* scores, const double* y, int64_t n, int64_t kind, double epsilon,
                          double* out) noexcept
    double ds_squared_length(const double* weights, const double* factor, int64_t n) noexcept
    int64_t ds_evidence_terms(const double* predicted, const double* y, const double* weight, double mean, int64_t n,
                              double* out) noexcept
    double ds_pairwise_sum(const double* values, int64_t n) noexcept
    double ds_largest(double size, const double* values, int64_t n) noexcept
    double ds_weighted_sum(const double* values, const double* weight, int64_t n, double* mass) noexcept

cdef extern from "draws.h" nogil:
    int64_t ds_fill_uniform(double* out, int64_t n, uint64_t seed, int64_t k) noexcept
    int64_t ds_draw_uniformly(int64_t* order, int64_t steps, int64_t n, uint64_t seed, int64_t k) noexcept
    int64_t ds_alternate(int64_t* order, int64_t steps, int64_t admitted, int64_t waiting, uint64_t seed, int64_t k,
                         int64_t* count) noexcept
    int64_t ds_schedule(int64_t* order, int64_t steps, double* table, double* old, int64_t width, int64_t admitted,
                        int64_t waiting, uint64_t seed, int64_t k, int alternating) noexcept

SOFTMAX, SQUARED, HUBER, SQUARED_HINGE = DS_SOFTMAX, DS_SQUARED, DS_HUBER, DS_SQUARED_HINGE


cdef int expect(bint suits, str what) except -1:
    """Raise ValueError unless the sizes of the arrays suit each other: C does not check them."""
    if not suits:
        raise ValueError(f"{what} has the wrong length")
    return 0


cdef int read_frame(Buffers* held, object frame, int64_t d, Frame* out) except -1:
    """Hold the arrays of a frame for rows of d columns."""
    cdef Py_ssize_t n = 0, k
    out.gain = reals(held, frame[0], &n)
    expect(n == d + 1, "gain")
    out.centre = reals(held, frame[1], &n)
    expect(n >= d, "centre")
    out.centred = integers(held, frame[2], &n)
    out.n_centred = n
    for k in range(n):
        expect(0 <= out.centred[k] < d, "centred")
    return 0


cdef int64_t read_descent(
    Buffers* held, Descent* model, object X, object y, object weight, object order, object eta, object frame,
    object offset
) except -1:
    """Hold the arrays of a descent, except those of its model; return the number of steps."""
    cdef Py_ssize_t n = 0, steps = 0
    rows_of(held, X, &model.set.rows)
    model.set.y = reals(held, y, &n)
    expect(n >= model.set.rows.n, "y")
    model.set.weight = reals(held, weight, &n)
    expect(n >= model.set.rows.n, "weight")
    model.order = integers(held, order, &steps)
    model.eta = eta
    read_frame(held, frame, model.set.rows.d, &model.frame)
    model.offset = NULL
    if offset is not None:
        model.offset = reals(held, offset, &n)
        expect(n >= model.set.rows.n, "offset")
    return steps


cdef int check_order(const Descent* model, int64_t steps, int64_t rows) except -1:
    """Raise ValueError unless the steps visit the first ones, as many as this, of the rows."""
    cdef int64_t j
    for j in range(steps):
        expect(0 <= model.order[j] < min(rows, model.set.rows.n), "order")
    return 0


cdef int check_codes(const Descent* model, int64_t steps, int64_t K) except -1:
    """Raise ValueError unless the labels of all rows that the steps visit are codes of K classes."""
    cdef int64_t j
    for j in range(steps):
        if not 0.0 <= model.set.y[model.order[j]] < K:
            raise ValueError(f"{model.set.y[model.order[j]]} is not the code of one of {K} classes")
    return 0


cdef int read_model(Buffers* held, Descent* descent, object model, object drawn, int64_t K, int64_t steps) except -1:
    """Hold the arrays of a model with K outputs, whose table has an entry for each row that is visited."""
    cdef Py_ssize_t n = 0
    cdef int64_t width = (descent.set.rows.d + 1) * K
    descent.model.w = real_out(held, model[0], &n, -1)
    expect(n == width, "w")
    descent.model.G = real_out(held, model[1], &n, -1)
    expect(n == width, "G")
    descent.model.table = real_out(held, model[2], &n, -1)
    check_order(descent, steps, n // K)
    descent.drawn = drawn
    return 0


cdef Py_ssize_t numbers_of(const Descent* model, int64_t steps):
    """Return how many values the steps visit, about."""
    cdef Rows rows = model.set.rows
    if rows.indptr == NULL or rows.n == 0:
        return steps * (rows.d + 1)
    return steps * (1 + (rows.indptr[rows.n] - rows.indptr[0]) // rows.n)


def saga(X, y, weight, order, model, drawn, eta, double mu, frame, offset):
    """Take one SAGA step of logistic regression for each row of ``order``; return the number of rows drawn so far."""
    cdef Buffers held
    cdef Descent descent
    cdef int64_t steps, result
    cdef PyThreadState* saved
    held.count = 0
    try:
        steps = read_descent(&held, &descent, X, y, weight, order, eta, frame, offset)
        read_model(&held, &descent, model, drawn, 1, steps)
        saved = let_go(numbers_of(&descent, steps))
        result = ds_saga(&descent, steps, mu)
        take_back(saved)
        return result
    finally:
        release(&held)


def saga_both(tuple one, tuple two, double mu):
    """Take the steps of two models on dense rows in turn; return the number of rows drawn by each.

    The weights have the same bits as after ``saga`` for one and for the other, in less time. Each side is
    ``(X, y, weight, order, model, drawn, eta, frame)``; both have as many columns of the same type, and as many steps.
    """
    cdef Buffers held
    cdef Descent first, second
    cdef int64_t steps
    cdef PyThreadState* saved
    held.count = 0
    try:
        X, y, weight, order, model, drawn, eta, frame = one
        steps = read_descent(&held, &first, X, y, weight, order, eta, frame, None)
        read_model(&held, &first, model, drawn, 1, steps)
        X, y, weight, order, model, drawn, eta, frame = two
        expect(read_descent(&held, &second, X, y, weight, order, eta, frame, None) == steps, "order")
        read_model(&held, &second, model, drawn, 1, steps)
        if first.set.rows.indptr != NULL or second.set.rows.indptr != NULL:
            raise ValueError("two models are trained together on dense rows only")
        expect(first.set.rows.d == second.set.rows.d and first.set.rows.is_single == second.set.rows.is_single, "X")
        saved = let_go(2 * numbers_of(&first, steps))
        ds_saga_both(&first, &second, steps, mu)
        take_back(saved)
        return first.drawn, second.drawn
    finally:
        release(&held)


def sgd(X, y, weight, order, w, eta, double mu, frame, offset):
    """Take one SGD step of logistic regression for each row of ``order``."""
    cdef Buffers held
    cdef Descent descent
    cdef Py_ssize_t n = 0
    cdef int64_t steps
    cdef PyThreadState* saved
    held.count = 0
    try:
        steps = read_descent(&held, &descent, X, y, weight, order, eta, frame, offset)
        descent.model.w = real_out(&held, w, &n)
        descent.model.G = descent.model.table = NULL
        expect(n == descent.set.rows.d + 1, "w")
        check_order(&descent, steps, descent.set.rows.n)
        saved = let_go(numbers_of(&descent, steps))
        ds_sgd(&descent, steps, mu)
        take_back(saved)
    finally:
        release(&held)


def discharge(X, table, G, frame):
    """Subtract the gradients of rows from the sum G of all outputs (d + 1, K); return how many of them were drawn.

    Called before rows leave the sample set, so that the average is one over the rows that stay.
    """
    cdef Buffers held
    cdef Rows rows
    cdef Frame coordinates
    cdef Py_ssize_t n = 0, width = 0
    cdef double* gradients
    cdef double* total
    cdef int64_t K
    held.count = 0
    try:
        rows_of(&held, X, &rows)
        read_frame(&held, frame, rows.d, &coordinates)
        gradients = reals(&held, table, &n, -1)
        total = real_out(&held, G, &width, -1)
        K = width // (rows.d + 1)
        expect(K > 0 and width == K * (rows.d + 1), "G")
        expect(n >= rows.n * K, "table")
        if K == 1:
            return ds_discharge(rows, gradients, total, coordinates)
        return ds_multi_discharge(rows, gradients, total, K, coordinates)
    finally:
        release(&held)


def multi_saga(X, y, weight, order, model, drawn, eta, double mu, frame, tuple loss, int64_t K):
    """Take one SAGA step for each row of ``order``; return the number of rows drawn so far.

    The loss is ``(kind, epsilon, shift, reach)``. Weights and sums of K outputs are (K, d + 1) for dense rows and
    (d + 1, K) for CSR rows; the table is (n, K).
    """
    return multi(X, y, weight, order, model, drawn, eta, mu, frame, loss, K, True)


def multi_sgd(X, y, weight, order, w, eta, double mu, frame, tuple loss, int64_t K):
    """Take one SGD step for each row of ``order``."""
    multi(X, y, weight, order, w, 0, eta, mu, frame, loss, K, False)


cdef object multi(X, y, weight, order, model, drawn, eta, double mu, frame, tuple loss, int64_t K, bint is_saga):
    cdef Buffers held
    cdef Descent descent
    cdef Loss how
    cdef Py_ssize_t n = 0
    cdef int64_t steps, result = 0
    cdef PyThreadState* saved
    cdef double* work = NULL
    held.count = 0
    try:
        steps = read_descent(&held, &descent, X, y, weight, order, eta, frame, None)
        expect(0 < K < 2**31, "the list of outputs")
        if is_saga:
            read_model(&held, &descent, model, drawn, K, steps)
        else:
            descent.model.w = real_out(&held, model, &n, -1)
            descent.model.G = descent.model.table = NULL
            expect(n == (descent.set.rows.d + 1) * K, "w")
            check_order(&descent, steps, descent.set.rows.n)
        how.kind, how.epsilon, how.shift, how.reach = loss
        if how.kind != DS_SOFTMAX:
            expect(K == 1, "the list of outputs")
        else:
            check_codes(&descent, steps, K)
        work = <double*>malloc(2 * K * sizeof(double))
        if work == NULL:
            raise MemoryError
        saved = let_go(K * numbers_of(&descent, steps))
        if is_saga:
            result = ds_multi_saga(&descent, steps, mu, K, how, work)
        else:
            ds_multi_sgd(&descent, steps, mu, K, how, work)
        take_back(saved)
        return result
    finally:
        free(work)
        release(&held)


def logistic_losses(margins, y, out):
    """Write the logistic loss of each row; ``out`` must not be ``margins``."""
    cdef Buffers held
    cdef Py_ssize_t n = 0, m = 0
    cdef double* scores
    cdef double* targets
    cdef double* losses
    cdef PyThreadState* saved
    held.count = 0
    try:
        losses = real_out(&held, out, &n)
        scores = reals(&held, margins, &m)
        expect(n == m, "margins")
        targets = reals(&held, y, &m)
        expect(n == m, "y")
        saved = let_go(n)
        ds_logistic_losses(scores, targets, n, losses)
        take_back(saved)
    finally:
        release(&held)


def output_losses(scores, y, int64_t kind, double epsilon, out):
    """Write the loss of each row for the losses of one score; ``epsilon`` is that of Huber's."""
    cdef Buffers held
    cdef Py_ssize_t n = 0, m = 0
    cdef double* guesses
    cdef double* targets
    cdef double* losses
    held.count = 0
    try:
        losses = real_out(&held, out, &n)
        guesses = reals(&held, scores, &m)
        expect(n == m, "scores")
        targets = reals(&held, y, &m)
        expect(n == m, "y")
        ds_output_losses(guesses, targets, n, kind, epsilon, losses)
    finally:
        release(&held)


def squared_length(weights, factor):
    """Squared length of weights / factor, over the entries whose factor is not 0.

    One sum in a fixed order: the last bits of a BLAS product depend on the number of threads, and a decision must not.
    """
    cdef Buffers held
    cdef Py_ssize_t n = 0, m = 0
    cdef double* values
    cdef double* units
    held.count = 0
    try:
        values = reals(&held, weights, &n)
        units = reals(&held, factor, &m)
        expect(n == m, "factor")
        return ds_squared_length(values, units, n)
    finally:
        release(&held)


def evidence(predicted, y, weight, double mean):
    """Return what rows add to the evidence about a regression: the number of rows with a weight, and four sums.

    The sums are, in units of the weight w, those of w, w t, w p t and w p p, where the prediction p and the target t
    are counted from ``mean``.
    """
    cdef Buffers held
    cdef Py_ssize_t n = 0, m = 0, k
    cdef double* guesses
    cdef double* targets
    cdef double* masses
    cdef double* terms = NULL
    cdef int64_t counted
    held.count = 0
    try:
        guesses = reals(&held, predicted, &n)
        targets = reals(&held, y, &m)
        expect(n == m, "y")
        masses = reals(&held, weight, &m)
        expect(n == m, "weight")
        terms = <double*>malloc((4 * n + 1) * sizeof(double))
        if terms == NULL:
            raise MemoryError
        counted = ds_evidence_terms(guesses, targets, masses, mean, n, terms)
        return counted, tuple([ds_pairwise_sum(terms + k * n, n) for k in range(4)])
    finally:
        free(terms)
        release(&held)


def pairwise_sum(values):
    """Sum in the order of ``numpy.sum``."""
    cdef Buffers held
    cdef Py_ssize_t n = 0
    cdef double* numbers
    held.count = 0
    try:
        numbers = reals(&held, values, &n)
        return ds_pairwise_sum(numbers, n)
    finally:
        release(&held)


def largest(values, more=None):
    """Largest absolute value of an array, or of two, of any shape; infinite if a value is NaN."""
    cdef Buffers held
    cdef Py_ssize_t n = 0
    cdef double* numbers
    cdef double size
    held.count = 0
    try:
        numbers = reals(&held, values, &n, -1)
        size = ds_largest(0.0, numbers, n)
        if more is not None:
            numbers = reals(&held, more, &n, -1)
            size = ds_largest(size, numbers, n)
        return size
    finally:
        release(&held)


def weighted_sum(values, weight):
    """Return the sums of weight * value and of weight; the value of a row with weight 0 may be NaN."""
    cdef Buffers held
    cdef Py_ssize_t n = 0, m = 0
    cdef double* numbers
    cdef double* masses
    cdef double mass = 0.0, total
    held.count = 0
    try:
        numbers = reals(&held, values, &n)
        masses = reals(&held, weight, &m)
        expect(n == m, "weight")
        total = ds_weighted_sum(numbers, masses, n, &mass)
        return total, mass
    finally:
        release(&held)


def fill_uniform(out, uint64_t seed, int64_t k):
    """Fill ``out`` with uniform numbers in [0, 1) from the words k, k + 1, ...; return the next k."""
    cdef Buffers held
    cdef Py_ssize_t n = 0
    cdef double* numbers
    held.count = 0
    try:
        numbers = real_out(&held, out, &n, -1)
        return ds_fill_uniform(numbers, n, seed, k)
    finally:
        release(&held)


def draw_uniformly(order, int64_t n, uint64_t seed, int64_t k):
    """Fill ``order`` with uniform draws from the rows 0 .. n - 1; return the next k."""
    cdef Buffers held
    cdef Py_ssize_t steps = 0
    cdef int64_t* places
    held.count = 0
    try:
        places = integer_out(&held, order, &steps)
        return ds_draw_uniformly(places, steps, n, seed, k)
    finally:
        release(&held)


def alternate(order, int64_t admitted, int64_t waiting, uint64_t seed, int64_t k):
    """Fill ``order`` with the row that each step visits, by STRSAGA's alternating schedule.

    There is no use in optimising further than a sample set of its size can tell, nor in a set that grows faster than
    the optimiser follows. STRSAGA therefore admits one row for every two steps: steps 0, 2, 4, ... admit the oldest
    waiting row to the set and visit it, as long as a row waits; every other step visits a row drawn uniformly from the
    set as it then is. Returns the number of rows admitted, and the next k.
    """
    cdef Buffers held
    cdef Py_ssize_t steps = 0
    cdef int64_t count = 0
    cdef int64_t* places
    held.count = 0
    try:
        places = integer_out(&held, order, &steps)
        k = ds_alternate(places, steps, admitted, waiting, seed, k, &count)
        return count, k
    finally:
        release(&held)


def schedule(order, table, old, int64_t admitted, int64_t waiting, uint64_t seed, int64_t k, bint alternating):
    """Fill ``order`` for STRSAGA (``alternating``) or plain SAGA, and prepare the table; return the next k.

    ``table`` is the gradient table, one line for each row. It has room for the rows that are admitted, whose entries
    are set to NaN. ``old`` receives the lines that the steps will overwrite, in order, so that an update can be undone.
    """
    cdef Buffers held
    cdef Py_ssize_t steps = 0, size = 0, width, room = 0
    cdef int64_t* places
    cdef double* entries
    cdef double* overwritten
    held.count = 0
    try:
        places = integer_out(&held, order, &steps)
        entries = real_out(&held, table, &room, -1)
        overwritten = real_out(&held, old, &size, -1)
        width = held.views[2].shape[1] if held.views[2].ndim == 2 else 1
        expect(size == steps * width, "old")
        expect(0 <= admitted <= room and waiting >= 0, "table")
        expect(room >= (admitted + min(waiting, (steps + 1) // 2)) * width, "table")
        return ds_schedule(places, steps, entries, overwritten, width, admitted, waiting, seed, k, alternating)
    finally:
        release(&held)
