"""Nearest neighbours among the last rows, as a value that never changes: calls of the loops in ``c/nearest.c``."""

import numpy as np

from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

from driftsurf.native.gil cimport PyThreadState, let_go, take_back
from driftsurf.native.online cimport CMoments, OnlineModel, array_of, no_entries, read_reals
from driftsurf.native.rows cimport Labelled, Rows


cdef extern from "experts.h" nogil:
    void ds_moments(Rows rows, const double* weight, const double* group, int64_t groups, CMoments out)
    void ds_merge_moments(CMoments one, CMoments other, int64_t groups, int64_t d, CMoments out)
    void ds_standardise(CMoments moments, int64_t d, int centred, double* centre, double* factor)

cdef extern from "nearest.h" nogil:
    bint ds_claim(int64_t* stop, int64_t end, int64_t new_rows)

    ctypedef struct Neighbours:
        const double* rows
        int64_t n
        int64_t d
        const double* factor
        int64_t most
        int64_t K
        const double* counts
        double smoothing
        double* room
        int64_t* place

    int64_t ds_write_neighbours(Labelled batch, int64_t skipped, double* to)
    void ds_nearest(Rows queries, Neighbours known, double* out)


cdef int64_t MOST_ROWS = 1 << 31  # rows or columns of a tape, far from overflow


cdef class Tape:
    """Rows in the order in which they came, with their targets and weights; every value of a model reads a range.

    Rows are appended and never changed. A value claims the room for its rows before it writes them. One whose rows end
    where others have claimed room, such as one that a step was taken back to, or one that two threads learn from, goes on
    with a tape of its own.
    """

    cdef double* rows
    cdef int64_t room
    cdef int64_t stop

    def __cinit__(self, int64_t room, int64_t width):
        if 0 <= room < MOST_ROWS and 0 <= width < MOST_ROWS and room * width < MOST_ROWS << 12:
            self.rows = <double*>malloc(8 * room * width + 8)
        if self.rows == NULL:
            raise MemoryError(f"no memory for {room} rows of {width} numbers")
        self.room = room

    def __dealloc__(self):
        free(self.rows)


cdef class NeighboursModel(OnlineModel):
    """The last rows, and what is known about all rows: the moments of the columns, and how often each class occurred."""

    cdef readonly int64_t neighbours, window
    cdef readonly double smoothing
    cdef int64_t first, stop  # of the rows on the tape
    cdef Tape tape
    cdef CMoments columns
    cdef double* centre
    cdef double* factor
    cdef double* count

    def __cinit__(self, known, *, int64_t neighbours=5, int64_t window=500, double smoothing=0.5):
        cdef int64_t K = self.n_classes, d = self.n_features, n
        if known is no_entries():
            return
        n = len(known["rows"])
        self.neighbours, self.window, self.smoothing, self.passes = neighbours, window, smoothing, 1.0
        if K < 0 or d < 1 or not 1 <= neighbours <= 10_000 or window < 1:
            raise ValueError(f"neighbours need columns and rows, not {d} columns, {window} rows and {neighbours} of them")
        self.reserve(1.0 + 4.0 * d + K, 0.0)
        read_reals(known["count"], self.count, K)
        self.columns.count[0] = known["column_count"]
        read_reals(known["column_mean"], self.columns.mean, d)
        read_reals(known["column_squares"], self.columns.squares, d)
        ds_standardise(self.columns, d, True, self.centre, self.factor)
        self.tape = Tape(n, d + 2)
        read_reals(known["rows"], self.tape.rows, n * (d + 2))
        self.stop = self.tape.stop = n

    cdef OnlineModel blank(self):
        cdef NeighboursModel made = NeighboursModel.__new__(NeighboursModel, no_entries())
        made.neighbours, made.window, made.smoothing = self.neighbours, self.window, self.smoothing
        made.tape, made.first, made.stop = self.tape, self.first, self.stop
        return made

    cdef int describe(self) except -1:
        cdef int64_t d = self.n_features
        cdef double* at = <double*>self.memory
        self.columns.count, self.columns.mean, self.columns.squares = at, at + 1, at + 1 + d
        self.centre, self.factor, self.count = at + 1 + 2 * d, at + 1 + 3 * d, at + 1 + 4 * d
        return 0

    cdef int learn(self, Labelled batch, int64_t steps) except -1:
        cdef int64_t n = batch.rows.n, d = self.n_features, i, counted = 0, new
        cdef CMoments own
        cdef PyThreadState* saved
        cdef double* work
        if batch.rows.indptr != NULL:
            raise ValueError("nearest neighbours need dense rows")
        for i in range(n):
            counted += batch.weight[i] > 0.0
        if not counted:
            return 0
        new = min(counted, self.window)
        work = <double*>malloc(8 * (1 + 2 * d))
        if work == NULL:
            raise MemoryError("no memory for the moments of a batch")
        try:
            self.make_room(new)
        except BaseException:
            free(work)
            raise
        own.count, own.mean, own.squares = work, work + 1, work + 1 + d
        saved = let_go(n * d)
        ds_moments(batch.rows, batch.weight, NULL, 1, own)
        ds_merge_moments(self.columns, own, 1, d, self.columns)
        ds_standardise(self.columns, d, True, self.centre, self.factor)
        if self.n_classes:
            for i in range(n):
                self.count[<int64_t>batch.y[i]] += batch.weight[i]
        ds_write_neighbours(batch, counted - new, self.tape.rows + self.stop * (d + 2))
        take_back(saved)
        free(work)
        self.stop += new
        self.first = max(self.first, self.stop - self.window)
        return 0

    cdef int make_room(self, int64_t new) except -1:
        """Claim room for new rows after those of this value, on a new tape if need be."""
        cdef int64_t width = self.n_features + 2, held = min(self.stop - self.first, self.window)
        cdef Tape tape = self.tape
        if self.stop + new <= tape.room and ds_claim(&tape.stop, self.stop, new):
            return 0
        self.tape = Tape(held + new + min(held + new, self.window), width)
        memcpy(self.tape.rows, tape.rows + (self.stop - held) * width, 8 * held * width)
        self.first, self.stop, self.tape.stop = 0, held, held + new
        return 0

    cdef int score(self, Rows rows, double* out) except -1:
        cdef int64_t d = self.n_features
        cdef Neighbours known
        cdef PyThreadState* saved
        cdef double* work
        if rows.indptr != NULL:
            raise ValueError("nearest neighbours need dense rows")
        work = <double*>malloc(8 * (d + 2 * self.neighbours))
        if work == NULL:
            raise MemoryError("no memory for the distances of neighbours")
        known.rows, known.n, known.d = self.tape.rows + self.first * (d + 2), self.stop - self.first, d
        known.factor, known.counts, known.K = self.factor, self.count, self.n_classes
        known.most, known.smoothing, known.room = self.neighbours, self.smoothing, work
        known.place = <int64_t*>(work + d + self.neighbours)
        saved = let_go(rows.n * known.n * d)
        ds_nearest(rows, known, out)
        take_back(saved)
        free(work)
        return 0

    @property
    def nbytes(self):
        """Bytes of what it has learned, with the rows."""
        return self.size + 8 * self.tape.room * (self.n_features + 2)

    def options(self):
        """Return the options of the learner."""
        return {"neighbours": self.neighbours, "window": self.window, "smoothing": self.smoothing}

    def entries(self):
        """Return the entries to save."""
        cdef int64_t d = self.n_features
        rows = array_of(self.tape.rows + self.first * (d + 2), (self.stop - self.first, d + 2))
        known = self.counts() | {"rows": rows, "count": array_of(self.count, self.n_classes)}
        known |= {"column_count": self.columns.count[0], "column_mean": array_of(self.columns.mean, d)}
        return known | {"column_squares": array_of(self.columns.squares, d)}

    def grown(self, int64_t n_classes):
        """Return the model with further classes without rows."""
        known = self.entries()
        known["count"] = np.pad(known["count"], (0, n_classes - self.n_classes))
        return NeighboursModel(known | {"n_classes": n_classes}, **self.options())
