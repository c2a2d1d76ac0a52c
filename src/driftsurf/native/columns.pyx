"""Values of rows: norms, ranges, sizes and limits of columns, frames of linear models, checks, and encoded rows.

Rows are a matrix of float64 or float32, or ``CSR``. Results are written to arrays of the caller.
"""

from driftsurf.native.buffers cimport (
    Buffers, columns_of, expect, hold, integer_out, integers, real_out, reals, release
)
from driftsurf.native.gil cimport PyThreadState, let_go, take_back
from driftsurf.native.rows cimport Rows, rows_of
from libc.stdint cimport int32_t, int64_t


cdef extern from "columns.h" nogil:
    int64_t ds_extend_range(Rows rows, const double* weight, double* low, double* high) noexcept
    void ds_squared_norms(Rows rows, const double* factor, const double* centre, double* out) noexcept
    bint ds_all_finite(const void* values, int64_t n, int single) noexcept
    bint ds_all_between(const void* values, int64_t n, double least, double most, int missing, int single) noexcept
    bint ds_are_codes(const double* values, int64_t n, int64_t n_classes) noexcept
    void ds_column_limits(const double* total, const double* mass, int64_t d, double most, int64_t length, double* out) noexcept
    void ds_range_of_weighted(const double* values, const double* weight, int64_t n, double* low, double* high) noexcept
    bint ds_all_within(Rows rows, const double* most, int64_t repeats) noexcept
    void ds_clip(Rows rows, const double* most, void* out) noexcept


cdef extern from "frames.h" nogil:
    ctypedef struct FrameRules:
        double cap, far, farthest, enough

    double ds_select(double* values, int64_t n, int64_t k) noexcept
    double ds_median_target(const double* y, const double* weight, int64_t n, double* values) noexcept
    void ds_frame(Rows rows, const double* weight, int centred, FrameRules rules, int64_t most_passes, double* centre,
                  double* sizes, double* work, double* values) noexcept
    void ds_reframe(double* W, double* G, int64_t d, int64_t K, double* factor, double* centre,
                    const double* new_centre, const double* sizes, double smallest) noexcept
    double ds_usual_norm(Rows rows, const double* weight, const double* factor, const double* centre, double quantile,
                         double* values) noexcept
    void ds_uncentre(const double* W, int64_t d, int64_t K, const double* centre, double target, double* out) noexcept


cdef extern from "encoding.h" nogil:
    ctypedef struct Places:
        const double* values
        const int32_t* words
        const int32_t* places
        const double* fills
        double* marks
        int64_t n_places, n

    int64_t ds_put_column(const double* values, int64_t n, double fill, int64_t place, int64_t width, double* out,
                          double* missing) noexcept
    int64_t ds_assemble_rows(const Places* table, double* data, int32_t* indices, int64_t* indptr, int64_t* infinite) noexcept
    bint ds_is_sound_csr(Rows rows, int64_t stored) noexcept
    void ds_column_products(Rows rows, const double* targets, int64_t K, int64_t width, double* out) noexcept


cdef inline double* of_length(Buffers* held, object array, Py_ssize_t least) except? NULL:
    """Return the memory of an array of float64 with at least this many elements."""
    cdef Py_ssize_t n = 0
    cdef double* values = reals(held, array, &n)
    expect(n >= least)
    return values


cdef inline double* room(Buffers* held, object array, Py_ssize_t least, int dimensions=1) except? NULL:
    """Return the memory of a writable array of float64 with at least this many elements."""
    cdef Py_ssize_t n = 0
    cdef double* values = real_out(held, array, &n, dimensions)
    expect(n >= least)
    return values


# ---------------------------------------------------------------------------- checks


def all_finite(values):
    """Return whether no value of an array of any shape is NaN or infinite."""
    cdef Buffers held
    cdef Py_buffer* view
    cdef PyThreadState* thread
    held.count = 0
    try:
        view = hold(&held, values, "df", 0, -1, False)
        thread = let_go(view.len // view.itemsize)
        finite = ds_all_finite(view.buf, view.len // view.itemsize, view.itemsize == 4)
        take_back(thread)
        return finite
    finally:
        release(&held)


def all_between(values, double least, double most, bint missing):
    """Return whether every value is from ``least`` to ``most``, or NaN where values may be ``missing``."""
    cdef Buffers held
    cdef Py_buffer* view
    held.count = 0
    try:
        view = hold(&held, values, "df", 0, -1, False)
        return ds_all_between(view.buf, view.len // view.itemsize, least, most, missing, view.itemsize == 4)
    finally:
        release(&held)


def are_codes(values, int64_t n_classes):
    """Return whether every value is the code of a class, an integer from 0 to ``n_classes`` - 1."""
    cdef Buffers held
    cdef Py_ssize_t n = 0
    cdef double* codes
    held.count = 0
    try:
        codes = reals(&held, values, &n)
        return ds_are_codes(codes, n, n_classes)
    finally:
        release(&held)


def all_within(X, most):
    """Return whether every value of rows is finite and at most ``most`` of its column in absolute value.

    For dense rows ``most`` may hold the limits of the columns several times. As many rows are then read as one, because
    long loops are faster.
    """
    cdef Buffers held
    cdef Rows rows
    cdef Py_ssize_t n = 0
    cdef double* limits
    cdef bint within
    cdef PyThreadState* thread
    held.count = 0
    try:
        rows_of(&held, X, &rows)
        limits = reals(&held, most, &n)
        expect(n >= rows.d and (rows.d == 0 or n % rows.d == 0))
        thread = let_go(rows.n * rows.d)
        within = ds_all_within(rows, limits, n // rows.d if rows.d else 1)
        take_back(thread)
        return within
    finally:
        release(&held)


# ---------------------------------------------------------------------------- columns


def squared_norms(X, factor, centre, out):
    """Write the squared norm of factor * (x - centre) of each row, with the constant column; infinite if it overflows."""
    cdef Buffers held
    cdef Rows rows
    cdef double* f
    cdef double* m
    cdef double* norms
    cdef PyThreadState* thread
    held.count = 0
    try:
        rows_of(&held, X, &rows)
        f, m = of_length(&held, factor, rows.d + 1), of_length(&held, centre, rows.d)
        norms = room(&held, out, rows.n)
        thread = let_go(rows.n * rows.d)
        ds_squared_norms(rows, f, m, norms)
        take_back(thread)
    finally:
        release(&held)


def column_limits(total, mass, double most, out):
    """Write the largest value of each column; if ``out`` is longer, the values are repeated."""
    cdef Buffers held
    cdef Py_ssize_t d = 0, length = 0
    cdef double* sums
    cdef double* weights
    cdef double* limits
    held.count = 0
    try:
        sums = reals(&held, total, &d)
        weights = of_length(&held, mass, d)
        limits = real_out(&held, out, &length)
        ds_column_limits(sums, weights, d, most, length, limits)
    finally:
        release(&held)


def range_of_weighted(values, weight):
    """Return the smallest and the largest value of positive weight; infinity and -infinity if there is none.

    Without weights, every value counts.
    """
    cdef Buffers held
    cdef Py_ssize_t n = 0
    cdef double low, high
    cdef double* numbers
    cdef double* weights
    held.count = 0
    try:
        numbers = reals(&held, values, &n)
        weights = NULL if weight is None else of_length(&held, weight, n)
        ds_range_of_weighted(numbers, weights, n, &low, &high)
        return low, high
    finally:
        release(&held)


def extend_range(X, weight, low, high):
    """Extend the range of each column by the rows of positive weight; return how many of them did.

    A first range is infinity to -infinity before. A value of 0 that a sparse row does not store belongs to it, too; and
    there is no range yet if all values are 0.
    """
    cdef Buffers held
    cdef Rows rows
    cdef double* weights
    cdef double* least
    cdef double* most
    held.count = 0
    try:
        rows_of(&held, X, &rows)
        weights = of_length(&held, weight, rows.n)
        least, most = room(&held, low, rows.d), room(&held, high, rows.d)
        return ds_extend_range(rows, weights, least, most)
    finally:
        release(&held)


def clip(X, most, out):
    """Write the values of rows to ``out``, each limited to the range -``most`` to ``most`` of its column.

    ``out`` is of the type of the values; for sparse rows it holds those from the first row to the last.
    """
    cdef Buffers held
    cdef Rows rows
    cdef Py_buffer* view
    cdef double* limits
    cdef int64_t size
    held.count = 0
    try:
        rows_of(&held, X, &rows)
        limits = of_length(&held, most, rows.d)
        view = hold(&held, out, "f" if rows.is_single else "d", 0, -1, True)
        size = rows.indptr[rows.n] - rows.indptr[0] if rows.indptr != NULL else rows.n * rows.d
        expect(view.len == size * view.itemsize)
        ds_clip(rows, limits, view.buf)
    finally:
        release(&held)


# ---------------------------------------------------------------------------- frames


def select(values, int64_t k):
    """Return the k-th smallest value, counted from 0, and reorder the values so that no smaller one is behind it."""
    cdef Buffers held
    cdef Py_ssize_t n = 0
    cdef double* numbers
    held.count = 0
    try:
        numbers = real_out(&held, values, &n)
        expect(0 <= k < n)
        return ds_select(numbers, n, k)
    finally:
        release(&held)


def median_target(y, weight, values):
    """Return the median target of the rows of positive weight; NaN if there is none.

    ``values`` is scratch space of as many numbers as there are rows.
    """
    cdef Buffers held
    cdef Py_ssize_t n = 0
    cdef double* targets
    cdef double* weights
    cdef double* work
    held.count = 0
    try:
        targets = reals(&held, y, &n)
        weights, work = of_length(&held, weight, n), room(&held, values, n)
        return ds_median_target(targets, weights, n, work)
    finally:
        release(&held)


def frame(X, weight, bint centred, tuple rules, int64_t most_passes, centre, sizes, work, values):
    """Write the centre and the typical size of each column; a size of 0 means that it is not known yet.

    A column that is never 0 in these rows and far from 0 has its median as centre, if ``centred`` allows one. ``rules``
    are the constants of ``learners/_linear.py``, ``work`` is scratch space of shape (6, d), ``values`` of as many
    numbers as there are rows.
    """
    cdef Buffers held
    cdef Rows rows
    cdef FrameRules known
    cdef double* weights
    cdef double* middles
    cdef double* found
    cdef double* scratch
    cdef double* numbers
    cdef PyThreadState* thread
    held.count = 0
    try:
        known.cap, known.far, known.farthest, known.enough = rules
        rows_of(&held, X, &rows)
        weights = of_length(&held, weight, rows.n)
        middles, found = room(&held, centre, rows.d), room(&held, sizes, rows.d)
        scratch, numbers = room(&held, work, 6 * rows.d, 2), room(&held, values, rows.n)
        thread = let_go(rows.n * rows.d)
        ds_frame(rows, weights, centred, known, most_passes, middles, found, scratch, numbers)
        take_back(thread)
    finally:
        release(&held)


def usual_norm(X, weight, factor, centre, double quantile, values):
    """Return a quantile over the rows of positive weight of weight * |x|^2 in a frame; 1 if it is 0 or not finite.

    The constant column belongs to a row. ``values`` is scratch space of as many numbers as there are rows.
    """
    cdef Buffers held
    cdef Rows rows
    cdef double* weights
    cdef double* f
    cdef double* m
    cdef double* numbers
    cdef double usual
    cdef PyThreadState* thread
    held.count = 0
    try:
        expect(0.0 <= quantile <= 1.0)
        rows_of(&held, X, &rows)
        weights = of_length(&held, weight, rows.n)
        f, m = of_length(&held, factor, rows.d + 1), of_length(&held, centre, rows.d)
        numbers = room(&held, values, rows.n)
        thread = let_go(rows.n * rows.d)
        usual = ds_usual_norm(rows, weights, f, m, quantile, numbers)
        take_back(thread)
        return usual
    finally:
        release(&held)


def reframe(W, G, factor, centre, new_centre, sizes, double smallest):
    """Move a model of shape (d + 1, K) to the frame with these centres and sizes, in place.

    The scores and the gradients of rows stay the same. A column without a size keeps its factor.
    """
    cdef Buffers held
    cdef Py_ssize_t size = 0
    cdef int64_t d, K
    cdef double* weights
    cdef double* sums
    cdef double* f
    cdef double* m
    cdef double* later
    cdef double* known
    held.count = 0
    try:
        weights = real_out(&held, W, &size, 2)
        d, K = held.views[0].shape[0] - 1, held.views[0].shape[1]
        expect(d >= 0)
        sums = room(&held, G, size, 2)
        f, m = room(&held, factor, d + 1), room(&held, centre, d)
        later, known = of_length(&held, new_centre, d), of_length(&held, sizes, d)
        ds_reframe(weights, sums, d, K, f, m, later, known, smallest)
    finally:
        release(&held)


def uncentre(W, centre, double target, out):
    """Write the weights for columns and targets that are not centred: the intercept takes over what was subtracted."""
    cdef Buffers held
    cdef Py_ssize_t size = 0
    cdef int64_t d, K
    cdef double* weights
    cdef double* m
    cdef double* raw
    held.count = 0
    try:
        weights = reals(&held, W, &size, 2)
        d, K = held.views[0].shape[0] - 1, held.views[0].shape[1]
        expect(d >= 0)
        m, raw = of_length(&held, centre, d), room(&held, out, size, 2)
        ds_uncentre(weights, d, K, m, target, raw)
    finally:
        release(&held)


# ---------------------------------------------------------------------------- encoded rows


def put_column(values, double fill, int64_t place, out, missing):
    """Write numbers to a column of ``out``, with ``fill`` for NaN, whose rows become 1 in ``missing``.

    Returns the number of missing values.
    """
    cdef Buffers held
    cdef Py_ssize_t n = 0
    cdef int64_t width
    cdef double* numbers
    cdef double* rows
    cdef double* gaps
    held.count = 0
    try:
        rows = real_out(&held, out, NULL, 2)
        width = held.views[0].shape[1]
        numbers = reals(&held, values, &n)
        expect(n <= held.views[0].shape[0] and 0 <= place < width)
        gaps = room(&held, missing, n)
        return ds_put_column(numbers, n, fill, place, width, rows, gaps)
    finally:
        release(&held)


def assemble_rows(values, words, places, fills, marks, data, indices, indptr):
    """Write the values that are not 0, with their columns, as CSR rows, from columns that stand one after the other.

    Parameters
    ----------
    values
        The value of each place (first axis) in each row.
    words
        Columns that depend on the row.
    places
        For each place: its column; the row of ``words`` that has its columns instead, or -1; the place that marks its
        missing values, or -1; and whether it is such a mark, whose values do not count.
    fills
        What replaces a missing value (NaN) at each place.
    marks
        Zeros for each place, which are zeros again afterwards.
    data, indices, indptr
        The rows, with room for all values.

    Returns
    -------
    The number of values, and how many of them are not finite.
    """
    cdef Buffers held
    cdef Places table
    cdef Py_buffer* view
    cdef Py_ssize_t size = 0, ends = 0
    cdef int64_t k, n_words, found, infinite = 0
    cdef double* numbers
    cdef int32_t* columns
    cdef int64_t* starts
    cdef PyThreadState* thread
    held.count = 0
    try:
        table.values = reals(&held, values, &size, 2)
        table.n_places, table.n = held.views[0].shape[0], held.views[0].shape[1]
        view = hold(&held, words, "i", 4, 2, False)
        table.words, n_words = <const int32_t*>view.buf, view.shape[0]
        expect(n_words == 0 or view.shape[1] == table.n)
        view = hold(&held, places, "i", 4, 2, False)
        table.places = <const int32_t*>view.buf
        expect(view.shape[0] == 4 and view.shape[1] == table.n_places)
        for k in range(table.n_places):
            expect(table.places[table.n_places + k] < n_words and table.places[2 * table.n_places + k] < table.n_places)
        table.fills, table.marks = of_length(&held, fills, table.n_places), room(&held, marks, table.n_places)
        numbers = room(&held, data, size)
        view = hold(&held, indices, "i", 4, 1, True)
        columns = <int32_t*>view.buf
        expect(view.shape[0] >= size)
        starts = integer_out(&held, indptr, &ends)
        expect(ends == table.n + 1)
        thread = let_go(size)
        found = ds_assemble_rows(&table, numbers, columns, starts, &infinite)
        take_back(thread)
        return found, infinite
    finally:
        release(&held)


def is_sound_csr(data, indices, indptr, int64_t n_features):
    """Return whether CSR rows can be used as they are: finite, and in each row columns that exist and rise."""
    cdef Buffers held
    cdef Rows rows
    cdef Py_buffer* view
    cdef Py_ssize_t stored = 0, ends = 0
    cdef bint sound
    cdef PyThreadState* thread
    held.count = 0
    try:
        view = hold(&held, data, "df", 0, 1, False)
        rows.values, rows.is_single = view.buf, view.itemsize == 4
        rows.indices = columns_of(&held, indices, &stored)
        rows.indptr = integers(&held, indptr, &ends)
        rows.n, rows.d = ends - 1, n_features
        if ends < 1 or stored != view.shape[0]:
            return False
        thread = let_go(stored)
        sound = ds_is_sound_csr(rows, stored)
        take_back(thread)
        return sound
    finally:
        release(&held)


def column_products(X, targets, out):
    """Add, for each column c of CSR rows, its products with each target and with itself to row c + 1 of ``out``.

    Row 0 gets the sums of the targets and the number of rows, as a column of ones would. Columns beyond the rows of
    ``out`` are left out. The sums of a column stand side by side, in one line of the cache.
    """
    cdef Buffers held
    cdef Rows rows
    cdef Py_ssize_t size = 0, room_for = 0
    cdef int64_t K, width
    cdef double* wanted
    cdef double* sums
    cdef PyThreadState* thread
    held.count = 0
    try:
        rows_of(&held, X, &rows)
        expect(rows.indptr != NULL)
        wanted = reals(&held, targets, &size, 2)
        K = held.views[held.count - 1].shape[1]
        expect(size == rows.n * K)
        sums = real_out(&held, out, &room_for, 2)
        width = held.views[held.count - 1].shape[0]
        expect(width > 0 and room_for == width * (K + 1))
        thread = let_go(rows.indptr[rows.n])
        ds_column_products(rows, wanted, K, width, sums)
        take_back(thread)
    finally:
        release(&held)
