"""Models that learn each row once and keep none: naive Bayes and a perceptron, as values that never change.

Learning makes a new value, so that going back is keeping the old one, and other threads predict with a value while the
next one is made. A portfolio learns and scores them within its own native step.

A kind of model is a subclass of ``OnlineModel``, declared in ``online.pxd`` or in a module of its own, with its arithmetic
in C. Its ``__cinit__`` calls ``reserve`` for the memory of all that it learns, unless it is given ``no_entries()``, from which
``blank`` makes a value that a copy is written to. Four methods work on that memory: ``describe`` sets pointers into it,
``blank`` returns a value of the same kind and options without any, ``learn`` adds the rows of a batch to a copy that
nobody else has, and ``score`` writes log-probabilities, or numbers. ``entries`` are those of the saved state,
from which the constructor makes the value, and ``grown`` has room for more classes. The learner around it is a subclass of
``driftsurf.learners._online.OnlineLearner``.
"""

import numpy as np

from libc.stdint cimport int64_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset

from driftsurf.native.buffers cimport Buffers, hold, reals, release
from driftsurf.native.buffers cimport real_out
from driftsurf.native.gil cimport PyThreadState, let_go, take_back
from driftsurf.native.rows cimport Labelled, Rows, rows_of

from driftsurf.errors import ShapeError


cdef extern from "experts.h" nogil:
    void ds_moments(Rows rows, const double* weight, const double* group, int64_t groups, CMoments out)
    void ds_merge_moments(CMoments one, CMoments other, int64_t groups, int64_t d, CMoments out)
    void ds_standardise(CMoments moments, int64_t d, int centred, double* centre, double* factor)
    void ds_bayes(CMoments moments, int64_t K, int64_t d, double smoothing, double* mean, double* factor, double* start)
    void ds_densities(Rows rows, int64_t K, const double* mean, const double* factor, const double* start, double* out)
    int64_t ds_train_network(Labelled rows, const int64_t* order, int64_t visits, int64_t size, double rate, int64_t step,
                             CNetwork net)
    void ds_network_outputs(Rows rows, CNetwork net, double* out)

cdef extern from "scores.h" nogil:
    void ds_log_softmax(double* z, int64_t n, int64_t K)

cdef extern from "draws.h" nogil:
    int64_t ds_fill_uniform(double* out, int64_t n, uint64_t seed, int64_t k)


cdef object BLANK = object()
cdef double MOST_BYTES = 2.0 ** 46   # largest size of a model, far from overflow
cdef double FARTHEST = 10.0          # standardised targets are limited to this for learning


cdef int check_codes(const double* y, Py_ssize_t n, int64_t K) except -1:
    """Raise ValueError unless all values are codes of K classes."""
    cdef Py_ssize_t i
    for i in range(n):
        if not (0.0 <= y[i] < K):
            raise ValueError(f"{y[i]} is not the code of one of {K} classes")
    return 0


cdef object no_entries():
    """Return what stands for the entries of a model that a copy is written to."""
    return BLANK


def check_width(X, int64_t n_features):
    """Raise ShapeError unless rows have the number of columns that a model was made for."""
    cdef int64_t width = X[3] if isinstance(X, tuple) else X.shape[1]
    if width != n_features:
        raise ShapeError(f"the rows have {width} columns, but the model was made for {n_features}")


cdef int read_reals(object array, double* to, Py_ssize_t size) except -1:
    """Copy an array of float64 with this number of elements and any number of axes."""
    cdef Buffers held
    cdef Py_ssize_t n = 0
    cdef double* found
    held.count = 0
    try:
        found = reals(&held, np.ascontiguousarray(array, np.float64), &n, -1)
        if n != size:
            raise ValueError(f"an array has {n} elements instead of {size}")
        memcpy(to, found, 8 * size)
        return 0
    finally:
        release(&held)


cdef object array_of(const double* values, shape):
    """Return a copy of numbers as an array."""
    cdef Buffers held
    cdef Py_ssize_t n = 0
    cdef double* to
    held.count = 0
    out = np.empty(shape)
    if out.size:
        to = real_out(&held, out, &n, -1)
        memcpy(to, values, 8 * n)
        release(&held)
    return out


def rebuilt(kind, entries, options):
    """Return a model from its entries and options, as pickles do."""
    return kind(entries, **options)


cdef class OnlineModel:
    """A model that learns each row once, as it is at one moment.

    Parameters
    ----------
    known
        Entries of its saved state.
    """

    def __cinit__(self, known, **options):
        self.hi = -1
        if known is not BLANK:
            self.n_features, self.n_classes = known["n_features"], known["n_classes"]
            self.hi, self.gradients = known["hi"], known["gradients"]

    def __dealloc__(self):
        free(self.memory)

    def __reduce__(self):
        return rebuilt, (type(self), self.entries(), self.options())

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self

    @property
    def nbytes(self):
        """Bytes of what it has learned."""
        return self.size

    def counts(self):
        """Return the entries of every model of this kind."""
        return {"n_features": self.n_features, "n_classes": self.n_classes, "hi": self.hi, "gradients": self.gradients}

    def scores(self, X):
        """Return log-probabilities (n, classes) of rows, or predicted numbers (n,)."""
        cdef Buffers held
        cdef Rows rows
        cdef Py_ssize_t n = 0
        cdef double* to
        held.count = 0
        try:
            check_width(X, self.n_features)
            rows_of(&held, X, &rows)
            out = np.empty((rows.n, self.n_classes)) if self.n_classes else np.empty(rows.n)
            to = real_out(&held, out, &n, -1)
            self.score(rows, to)
            return out
        finally:
            release(&held)

    def after(self, X, y, weight, int64_t hi, int64_t steps):
        """Return the model after ``steps`` visits of these rows; ``hi`` is the number of the row after them."""
        cdef Buffers held
        cdef Labelled batch
        cdef Py_ssize_t n = 0, m = 0
        held.count = 0
        try:
            check_width(X, self.n_features)
            rows_of(&held, X, &batch.rows)
            batch.y, batch.weight = reals(&held, y, &n), reals(&held, weight, &m)
            if n != batch.rows.n or m != n:
                raise ValueError(f"there are {n} targets and {m} weights of {batch.rows.n} rows")
            if self.n_classes:
                check_codes(batch.y, n, self.n_classes)
            return self.learned(batch, hi, steps)
        finally:
            release(&held)

    def moved(self, int64_t hi):
        """Return the same model, for which ``hi`` is the number of the next row."""
        cdef OnlineModel made = self.copied()
        made.hi = hi
        return made

    # ------------------------------------------------------------------------ for models of every kind

    cdef int reserve(self, double doubles, double floats) except -1:
        """Reserve memory for so many numbers, and describe it."""
        cdef double size = 8.0 * doubles + 4.0 * floats
        if not 0.0 <= size < MOST_BYTES or self.memory != NULL:
            raise MemoryError(f"a model of {size:g} bytes does not fit into memory")
        self.size = <Py_ssize_t>size
        self.memory = <char*>calloc(self.size + 8, 1)
        if self.memory == NULL:
            raise MemoryError(f"no memory for a model of {self.size} bytes")
        return self.describe()

    cdef int64_t budget(self, int64_t lo, int64_t hi) noexcept:
        """Return the number of visits for new rows; fractions are carried over by counting from row 0."""
        return <int64_t>(self.passes * <double>hi) - <int64_t>(self.passes * <double>lo)

    cdef OnlineModel copied(self):
        """Return a copy, which may be changed until somebody else has it."""
        cdef OnlineModel made = self.blank()
        made.n_features, made.n_classes, made.hi, made.gradients = self.n_features, self.n_classes, self.hi, self.gradients
        made.passes, made.size = self.passes, self.size
        made.memory = <char*>malloc(self.size + 8)
        if made.memory == NULL:
            raise MemoryError(f"no memory for a model of {self.size} bytes")
        memcpy(made.memory, self.memory, self.size)
        made.describe()
        return made

    cdef OnlineModel learned(self, Labelled batch, int64_t hi, int64_t steps):
        """Return the model after a batch, whose codes are those of its classes."""
        cdef OnlineModel made = self.copied()
        if batch.rows.n:
            made.gradients += steps
            if steps:
                made.learn(batch, steps)
        made.hi = hi
        return made

    # ------------------------------------------------------------------------ defined by each kind

    cdef OnlineModel blank(self):
        raise NotImplementedError

    cdef int describe(self) except -1:
        raise NotImplementedError

    cdef int learn(self, Labelled batch, int64_t steps) except -1:
        raise NotImplementedError

    cdef int score(self, Rows rows, double* out) except -1:
        raise NotImplementedError


cdef class BayesModel(OnlineModel):
    """Moments of the columns of each class, and the densities of naive Bayes that follow from them."""

    def __cinit__(self, known, *, double smoothing=1.0):
        cdef int64_t K = self.n_classes, d = self.n_features
        if known is BLANK:
            return
        self.smoothing, self.passes = smoothing, 1.0
        if K < 1 or d < 1:
            raise ValueError(f"naive Bayes needs classes and columns, not {K} and {d}")
        self.reserve(2.0 * K + 4.0 * K * d, 0.0)
        read_reals(known["count"], self.moments.count, K)
        read_reals(known["mean"], self.moments.mean, K * d)
        read_reals(known["squares"], self.moments.squares, K * d)
        ds_bayes(self.moments, K, d, smoothing, self.centres, self.factors, self.starts)

    cdef OnlineModel blank(self):
        cdef BayesModel made = BayesModel.__new__(BayesModel, BLANK)
        made.smoothing = self.smoothing
        return made

    cdef int describe(self) except -1:
        cdef int64_t K = self.n_classes, size = self.n_classes * self.n_features
        self.moments.count = <double*>self.memory
        self.moments.mean = self.moments.count + K
        self.moments.squares = self.moments.mean + size
        self.centres = self.moments.squares + size
        self.factors = self.centres + size
        self.starts = self.factors + size
        return 0

    cdef int learn(self, Labelled batch, int64_t steps) except -1:
        cdef int64_t K = self.n_classes, d = self.n_features
        cdef CMoments own
        cdef PyThreadState* saved
        cdef double* room = <double*>malloc(8 * (K + 2 * K * d))
        if room == NULL:
            raise MemoryError("no memory for the moments of a batch")
        own.count, own.mean, own.squares = room, room + K, room + K + K * d
        saved = let_go(batch.rows.n * d)
        ds_moments(batch.rows, batch.weight, batch.y, K, own)
        ds_merge_moments(self.moments, own, K, d, self.moments)
        ds_bayes(self.moments, K, d, self.smoothing, self.centres, self.factors, self.starts)
        take_back(saved)
        free(room)
        return 0

    cdef int score(self, Rows rows, double* out) except -1:
        cdef PyThreadState* saved = let_go(rows.n * rows.d * self.n_classes)
        ds_densities(rows, self.n_classes, self.centres, self.factors, self.starts, out)
        ds_log_softmax(out, rows.n, self.n_classes)
        take_back(saved)
        return 0

    def options(self):
        """Return the options of the learner."""
        return {"smoothing": self.smoothing}

    @property
    def densities(self):
        """Means, reciprocal standard deviations, and the score of each class at its mean."""
        shape = self.n_classes, self.n_features
        return array_of(self.centres, shape), array_of(self.factors, shape), array_of(self.starts, self.n_classes)

    def entries(self):
        """Return the entries to save."""
        shape = self.n_classes, self.n_features
        return self.counts() | {
            "count": array_of(self.moments.count, self.n_classes),
            "mean": array_of(self.moments.mean, shape),
            "squares": array_of(self.moments.squares, shape),
        }

    def grown(self, int64_t n_classes):
        """Return the model with further classes without rows."""
        known = self.entries() | {"n_classes": n_classes}
        more = n_classes - self.n_classes
        known["count"] = np.pad(known["count"], (0, more))
        for name in ("mean", "squares"):
            known[name] = np.pad(known[name], ((0, more), (0, 0)))
        return BayesModel(known, smoothing=self.smoothing)


def visits_of(int64_t rows, int64_t steps, uint64_t seed, int64_t words):
    """Return passes over all rows, each in another random order, and the number of random words used so far."""
    cdef Buffers held
    cdef Py_ssize_t n = 0
    cdef double* to
    if rows == 1:
        return np.zeros(steps, np.int64), words + steps
    keys = np.empty((steps + rows - 1) // rows * rows)
    held.count = 0
    try:
        to = real_out(&held, keys, &n)
        words = ds_fill_uniform(to, n, seed, words)
    finally:
        release(&held)
    return np.ascontiguousarray(keys.reshape(-1, rows).argsort(axis=1).reshape(-1)[:steps], np.int64), words


cdef class NetworkModel(OnlineModel):
    """Parameters of a network with one hidden layer, Adam's moments, and the moments of the columns and of the target."""

    def __cinit__(self, known, *, double passes=5.0, double rate=3e-3, int64_t rows_per_step=32):
        cdef int64_t d = self.n_features, size, k
        cdef Buffers held
        cdef Py_buffer* view
        if known is BLANK:
            return
        self.passes, self.rate, self.rows_per_step = passes, rate, rows_per_step
        self.hidden, self.seed, self.words = known["hidden"], known["seed"], known["words"]
        self.steps, self.centred = known["steps"], known["centred"]
        if self.n_classes < 0 or d < 1 or self.hidden < 1 or rows_per_step < 1:
            raise ValueError(f"a network needs columns and units, not {d} and {self.hidden}")
        self.reserve(4.0 * d + 4.0, 3.0 * ((d + 1.0) * self.hidden + (self.hidden + 1.0) * max(self.n_classes, 1)))
        size = self.length()
        self.columns.count[0], self.target.count[0] = known["column_count"], known["target_count"]
        read_reals(known["column_mean"], self.columns.mean, d)
        read_reals(known["column_squares"], self.columns.squares, d)
        read_reals(known["target_mean"], self.target.mean, 1)
        read_reals(known["target_squares"], self.target.squares, 1)
        for k in range(3):
            held.count = 0
            try:
                view = hold(&held, known[("theta", "first", "second")[k]], "f", 4, 1, False)
                if view.len != 4 * size:
                    raise ValueError(f"an array has {view.len // 4} elements instead of {size}")
                memcpy(self.weights + k * size, view.buf, 4 * size)
            finally:
                release(&held)
        self.standardise()

    cdef OnlineModel blank(self):
        cdef NetworkModel made = NetworkModel.__new__(NetworkModel, BLANK)
        made.hidden, made.words, made.steps, made.seed = self.hidden, self.words, self.steps, self.seed
        made.centred, made.rate, made.rows_per_step = self.centred, self.rate, self.rows_per_step
        made.unit_centre, made.unit_scale = self.unit_centre, self.unit_scale
        return made

    cdef int64_t length(self) noexcept:
        """Return the number of parameters."""
        return (self.n_features + 1) * self.hidden + (self.hidden + 1) * max(self.n_classes, 1)

    cdef int describe(self) except -1:
        cdef int64_t d = self.n_features
        cdef double* at = <double*>self.memory
        self.columns.count, self.columns.mean, self.columns.squares = at, at + 1, at + 1 + d
        at += 1 + 2 * d
        self.target.count, self.target.mean, self.target.squares = at, at + 1, at + 2
        self.centre, self.factor = at + 3, at + 3 + d
        self.weights = <float*>(at + 3 + 2 * d)
        return 0

    cdef int standardise(self) noexcept:
        """Compute the centre and the factor of each column, and of the target."""
        cdef double factor = 0.0
        ds_standardise(self.columns, self.n_features, self.centred, self.centre, self.factor)
        ds_standardise(self.target, 1, True, &self.unit_centre, &factor)
        self.unit_scale = 1.0 / factor if factor else 1.0
        return 0

    cdef CNetwork network(self, float* work) noexcept:
        """Return the network as C takes it; ``work`` has room for a row and three times the units."""
        cdef CNetwork net
        cdef int64_t size = self.length()
        net.H, net.K, net.is_classes = self.hidden, max(self.n_classes, 1), self.n_classes > 0
        net.centre, net.factor = self.centre, self.factor
        net.theta, net.m, net.v = self.weights, self.weights + size, self.weights + 2 * size
        net.x, net.work, net.g, net.last = work, work + self.n_features, NULL, NULL
        return net

    cdef int learn(self, Labelled batch, int64_t steps) except -1:
        cdef int64_t n = batch.rows.n, d = self.n_features, i, idle = 1, wide = 0
        cdef int64_t room = 3 * max(self.hidden, max(self.n_classes, 1)) + d
        cdef double* work = NULL
        cdef Buffers held
        cdef CMoments own
        cdef CNetwork net
        cdef Rows targets
        cdef PyThreadState* saved
        cdef const int64_t* order
        for i in range(n):
            idle = idle and batch.weight[i] == 0.0
        if idle:
            return 0
        if self.hi < 0:
            self.centred = batch.rows.indptr == NULL
        order_, words = visits_of(n, steps, self.seed, self.words)
        if self.centred and batch.rows.indptr != NULL:
            wide = n * d  # a model that began with dense rows centres its columns
        held.count = 0
        try:
            order = <const int64_t*>hold(&held, order_, "lq", 8, 1, False).buf
            # The moments of the batch, standardised targets, marks of columns, dense rows, and single numbers.
            work = <double*>calloc(2 * d + 1 + n + d + wide + (self.length() + room + 1) // 2 + 1, 8)
            if work == NULL:
                raise MemoryError("no memory for the work on a network")
            own.count, own.mean, own.squares = work, work + 1, work + 1 + d
            net = self.network(<float*>(work + 1 + 3 * d + n + wide))
            net.g = net.x + room
            saved = let_go(steps * d * self.hidden)
            if wide:
                write_dense(batch.rows, work + 1 + 3 * d + n)
                batch.rows.values, batch.rows.indptr, batch.rows.indices = work + 1 + 3 * d + n, NULL, NULL
                batch.rows.is_single = 0
            if batch.rows.indptr != NULL:
                net.last = <int64_t*>(work + 1 + 2 * d + n)
            if not self.n_classes:
                targets.values, targets.indices, targets.indptr = batch.y, NULL, NULL
                targets.n, targets.d, targets.is_single = n, 1, 0
                ds_moments(targets, batch.weight, NULL, 1, own)
                ds_merge_moments(self.target, own, 1, 1, self.target)
            ds_moments(batch.rows, batch.weight, NULL, 1, own)
            ds_merge_moments(self.columns, own, 1, d, self.columns)
            self.standardise()
            if not self.n_classes:
                for i in range(n):
                    work[1 + 2 * d + i] = min(max((batch.y[i] - self.unit_centre) / self.unit_scale, -FARTHEST), FARTHEST)
                batch.y = work + 1 + 2 * d
            self.steps = ds_train_network(batch, order, steps, self.rows_per_step, self.rate, self.steps, net)
            take_back(saved)
            self.words = words
            return 0
        finally:
            free(work)
            release(&held)

    cdef int score(self, Rows rows, double* out) except -1:
        cdef int64_t room = 3 * max(self.hidden, max(self.n_classes, 1)) + self.n_features, i
        cdef PyThreadState* saved
        cdef float* work = <float*>malloc(4 * room)
        if work == NULL:
            raise MemoryError("no memory for the work on a network")
        saved = let_go(rows.n * rows.d * self.hidden)
        ds_network_outputs(rows, self.network(work), out)
        if self.n_classes:
            ds_log_softmax(out, rows.n, self.n_classes)
        else:
            for i in range(rows.n):
                out[i] = out[i] * self.unit_scale + self.unit_centre if self.hi >= 0 else 0.0
        take_back(saved)
        free(work)
        return 0

    def options(self):
        """Return the options of the learner."""
        return {"passes": self.passes, "rate": self.rate, "rows_per_step": self.rows_per_step}

    def part(self, int64_t k):
        """Return the parameters (0), or the running means of gradients (1) or of their squares (2)."""
        cdef Buffers held
        cdef int64_t size = self.length()
        if not 0 <= k < 3:
            raise IndexError(f"a network has no part {k}")
        out = np.empty(size, np.float32)
        held.count = 0
        memcpy(hold(&held, out, "f", 4, 1, True).buf, self.weights + k * size, 4 * size)
        release(&held)
        return out

    @property
    def theta(self):
        """Copy of the parameters."""
        return self.part(0)

    @property
    def frame(self):
        """Centre and factor of each column."""
        return array_of(self.centre, self.n_features), array_of(self.factor, self.n_features)

    @property
    def unit(self):
        """Centre and scale of the target."""
        return self.unit_centre, self.unit_scale

    def entries(self):
        """Return the entries to save."""
        known = self.counts() | {name: getattr(self, name) for name in ("hidden", "seed", "words", "steps", "centred")}
        known |= {"theta": self.part(0), "first": self.part(1), "second": self.part(2)}
        known |= {"column_count": self.columns.count[0], "target_count": self.target.count[0]}
        known |= {"column_mean": array_of(self.columns.mean, self.n_features)}
        known |= {"column_squares": array_of(self.columns.squares, self.n_features)}
        return known | {"target_mean": array_of(self.target.mean, 1), "target_squares": array_of(self.target.squares, 1)}

    def grown(self, int64_t n_classes):
        """Return the model with parameters of 0 for each new class."""
        cdef int64_t a = (self.n_features + 1) * self.hidden, b = a + self.hidden * self.n_classes
        more = n_classes - self.n_classes
        known = self.entries() | {"n_classes": n_classes}
        for name in ("theta", "first", "second"):
            values = known[name]
            upper = np.pad(values[a:b].reshape(self.hidden, -1), ((0, 0), (0, more))).reshape(-1)
            known[name] = np.concatenate([values[:a], upper, np.pad(values[b:], (0, more))])
        return NetworkModel(known, **self.options())


cdef void write_dense(Rows rows, double* to) noexcept nogil:
    """Write CSR rows to an array of zeros."""
    cdef int64_t i, p
    for i in range(rows.n):
        for p in range(rows.indptr[i], rows.indptr[i + 1]):
            if rows.is_single:
                to[i * rows.d + rows.indices[p]] = (<const float*>rows.values)[p]
            else:
                to[i * rows.d + rows.indices[p]] = (<const double*>rows.values)[p]
