"""Sums of decision trees: calls of the loop in ``c/trees.c``."""

import numpy as np

from libc.stdint cimport int32_t, int64_t, uint32_t
from libc.stdlib cimport free, malloc

from driftsurf.native.buffers cimport Buffers, columns_of, expect, hold, integers, real_out, reals, release
from driftsurf.native.gil cimport PyThreadState, let_go, take_back
from driftsurf.native.rows cimport Rows, rows_of


cdef extern from "trees.h" nogil:
    enum:
        DS_CATEGORY

    ctypedef struct Node:
        double threshold
        int32_t feature
        int32_t child[2]
        int32_t kind
        int32_t words

    ctypedef struct Forest:
        const Node* nodes
        const double* leaves
        const uint32_t* bits
        const int32_t* roots
        int64_t trees
        int64_t outputs

    void ds_sum_of_trees(Rows rows, Forest forest, double* room, double* out)

cdef extern from "ds_math.h" nogil:
    double ds_log(double x)

cdef extern from "scores.h" nogil:
    void ds_log_softmax(double* z, int64_t n, int64_t K)


cdef class TreeSum:
    """Decision trees whose values are added up, checked when they are made, so that no row can lead outside of them.

    Parameters
    ----------
    nodes
        Column, left child, right child, kind (bits of ``trees.h``) and number of words of a category of each node, int32
        (n, 5). A child that is not negative is a later node, otherwise -1 minus the number of a leaf.
    thresholds
        Threshold of each node; of a category, the place of its first word in ``bits``.
    leaves, bits, roots
        Values of leaves, words (int32) of all categories, and the first node of each tree, as a child.
    outputs
        Number of outputs. Tree t adds to output t modulo this number.
    columns
        Number of columns of a row.
    """

    cdef Node* nodes
    cdef object leaves, bits, roots
    cdef readonly int64_t columns, outputs

    def __cinit__(self, nodes, thresholds, leaves, bits, roots, int64_t outputs, int64_t columns):
        cdef Buffers held
        cdef Py_ssize_t n = 0, trees = 0, n_leaves = 0, n_bits = 0, i
        cdef Py_buffer* view
        cdef const int32_t* numbers
        cdef const int32_t* first
        cdef const double* limits
        cdef Node* node
        held.count = 0
        try:
            limits, view = reals(&held, thresholds, &n), hold(&held, nodes, "i", 4, 2, False)
            numbers = <const int32_t*>view.buf
            self._expect(view.shape[0] == n and view.shape[1] == 5)
            reals(&held, leaves, &n_leaves)
            columns_of(&held, bits, &n_bits)
            first = columns_of(&held, roots, &trees)
            self._expect(outputs > 0 and trees % outputs == 0 and 0 < columns < 2**31)
            for i in range(trees):
                self._expect(-n_leaves <= first[i] < n)
            self.nodes = <Node*>malloc((n + 1) * sizeof(Node))
            if self.nodes == NULL:
                raise MemoryError
            for i in range(n):
                node = &self.nodes[i]
                node.threshold, node.feature = limits[i], numbers[5 * i]
                node.child[1], node.child[0] = numbers[5 * i + 1], numbers[5 * i + 2]
                node.kind, node.words = numbers[5 * i + 3], numbers[5 * i + 4]
                self._check(node, i, n, n_leaves, n_bits, columns)
        finally:
            release(&held)
        self.leaves, self.bits, self.roots = leaves.copy(), bits.copy(), roots.copy()
        self.outputs, self.columns = outputs, columns

    def __dealloc__(self):
        free(self.nodes)

    @staticmethod
    def _expect(bint suits):
        if not suits:
            raise ValueError("the arrays of the trees do not fit each other")

    cdef int _check(self, Node* node, Py_ssize_t at, Py_ssize_t n, Py_ssize_t leaves, Py_ssize_t bits, int64_t columns) except -1:
        """Raise a ValueError unless a node leads to later nodes or leaves, so that every walk ends."""
        self._expect(0 <= node.feature < columns)
        cdef int i
        for i in range(2):
            self._expect(-leaves <= node.child[i] < n and (node.child[i] < 0 or node.child[i] > at))
        if node.kind & DS_CATEGORY:
            self._expect(node.words >= 0 and 0.0 <= node.threshold <= <double>(bits - node.words))
        return 0

    def __call__(self, X):
        """Return the sums of rows, dense or CSR, as an array (n, outputs)."""
        cdef Buffers held
        cdef Rows rows
        cdef Forest forest
        cdef Py_ssize_t trees = 0
        cdef double* to
        cdef double* room = NULL
        cdef PyThreadState* saved
        cdef int64_t p
        held.count = 0
        try:
            rows_of(&held, X, &rows)
            if rows.d != self.columns:
                raise ValueError(f"a row has {rows.d} columns instead of {self.columns}")
            if rows.indptr != NULL:
                for p in range(rows.indptr[0], rows.indptr[rows.n]):
                    if not 0 <= rows.indices[p] < rows.d:
                        raise ValueError(f"CSR rows of {rows.d} columns have a value in column {rows.indices[p]}")
                room = real_out(&held, np.zeros(rows.d))
            out = np.empty((rows.n, self.outputs))
            to = real_out(&held, out, NULL, 2)
            forest.nodes = self.nodes
            forest.leaves = reals(&held, self.leaves)
            forest.bits = <const uint32_t*>columns_of(&held, self.bits)
            forest.roots = columns_of(&held, self.roots, &trees)
            forest.trees, forest.outputs = trees, self.outputs
            saved = let_go(rows.n * trees)
            ds_sum_of_trees(rows, forest, room, to)
            take_back(saved)
            return out
        finally:
            release(&held)


def log_shares(sums, present, Py_ssize_t n_classes, double least):
    """Return log-probabilities (n, n_classes) of rows, none of them below the logarithm of ``least``.

    ``sums`` (n, k) are margins of the classes ``present``, rising codes; or of two classes, those of the second one
    (n, 1). They are overwritten.
    """
    cdef Buffers held
    cdef Py_ssize_t k = 0, n, i, c, own = sums.shape[1]
    cdef const int64_t* codes
    cdef double* margins
    cdef double* to
    cdef double lowest = ds_log(least), share
    cdef double shares[2]
    held.count = 0
    try:
        codes, margins, n = integers(&held, present, &k), real_out(&held, sums, NULL, 2), sums.shape[0]
        expect(k == (2 if own == 1 else own))
        for c in range(k):
            expect(0 <= codes[c] < n_classes)
        out = np.empty((n, n_classes))
        to = real_out(&held, out, NULL, 2)
        if k < n_classes:
            for i in range(n * n_classes):
                to[i] = lowest
        if own > 1:
            ds_log_softmax(margins, n, own)
        for i in range(n):
            if own == 1:
                shares[0], shares[1] = 0.0, margins[i]
                ds_log_softmax(shares, 1, 2)
            for c in range(k):
                share = shares[c] if own == 1 else margins[i * own + c]
                to[i * n_classes + codes[c]] = max(share, lowest)
        return out
    finally:
        release(&held)
