"""Labels of classes to codes: one table for each set of classes, for arrays of any type and for lists."""

from cpython.buffer cimport PyBUF_FORMAT, PyBUF_STRIDES, PyBuffer_Release, PyObject_GetBuffer
from cpython.ref cimport PyObject
from driftsurf.native.gil cimport PyThreadState, let_go, take_back
from libc.stdint cimport (
    INT64_MAX, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
)
from libc.stdlib cimport free, malloc
from libc.string cimport memcmp

import numpy as np


cdef extern from "Python.h":
    PyObject* PyDict_GetItemWithError(object known, object key) except? NULL
    Py_UCS4* PyUnicode_AsUCS4Copy(object text) except NULL
    void PyMem_Free(void* memory)

cdef enum:
    DIRECT = 4096  # range of integer labels up to which a table has a place for each integer
    FEW = 4        # words up to which each one is compared
    UNKNOWN = -1

cdef set PLAIN = {int, bool, str, float, np.int64, np.bool_, np.str_, np.float64}
"""Types of labels in lists and object arrays that are looked up; others may equal a label and be none."""


cdef struct Word:
    # Characters of a text label, without zeros at the end, as numpy stores text.
    const uint32_t* text
    int64_t length
    uint64_t hashed


cdef inline uint64_t hash_of(const uint32_t* text, int64_t length) noexcept nogil:
    cdef uint64_t value = <uint64_t>1469598103934665603
    cdef int64_t k
    for k in range(length):
        value = (value ^ text[k]) * <uint64_t>1099511628211
    return value ^ (value >> 32)


cdef inline uint64_t hash_of_number(int64_t number) noexcept nogil:
    cdef uint64_t value = <uint64_t>number * <uint64_t>0x9E3779B97F4A7C15
    return value ^ (value >> 32)


cdef inline int64_t trimmed(const uint32_t* text, int64_t length) noexcept nogil:
    """Return the length without zeros at the end."""
    while length > 0 and text[length - 1] == 0:
        length -= 1
    return length


cdef class LabelCodes:
    """Codes of known labels, which are all numbers or all text; the code of a label is its place.

    >>> LabelCodes(("b", "a")).codes(["a", "b", "a"], 3)
    array([1., 0., 1.])
    >>> LabelCodes((5, 7)).codes(np.array([7.0, 5.0]), 2)
    array([1., 0.])
    >>> LabelCodes((5, 7)).codes([5, 8], 2) is None
    True
    """

    cdef tuple labels
    cdef dict known            # code of each label
    cdef int64_t count
    cdef int64_t least, span   # smallest integer, and the number of places of ``direct``
    cdef int32_t* direct       # code of each integer from ``least`` on; NULL for text, and for integers far apart
    cdef int64_t* numbers      # NULL for text, and for numbers that are not small integers
    cdef Word* words           # NULL for numbers
    cdef int32_t* slots        # places of words, or of numbers, by their hash
    cdef int64_t n_slots       # a power of 2

    def __cinit__(self, tuple labels):
        cdef int64_t k
        self.labels = labels
        self.count = len(labels)
        self.known = {label: code for code, label in enumerate(labels)}
        if self.count and all([isinstance(label, str) for label in labels]):
            self._set_words()
        elif self.count and all([abs(label) < 2**62 and label == int(label) for label in labels]):
            self._set_numbers()

    cdef int _set_numbers(self) except -1:
        cdef int64_t k
        self.numbers = <int64_t*>malloc(self.count * sizeof(int64_t))
        if self.numbers == NULL:
            raise MemoryError()
        for k in range(self.count):
            self.numbers[k] = int(self.labels[k])
        self.least = int(min(self.labels))
        self.span = int(max(self.labels)) - self.least + 1
        if self.span > DIRECT:
            self._clear_slots()
            for k in range(self.count):
                self._take_slot(hash_of_number(self.numbers[k]), k)
            return 0
        self.direct = <int32_t*>malloc(self.span * sizeof(int32_t))
        if self.direct == NULL:
            raise MemoryError()
        for k in range(self.span):
            self.direct[k] = UNKNOWN
        for k in range(self.count):
            self.direct[self.numbers[k] - self.least] = k
        return 0

    cdef int _clear_slots(self) except -1:
        cdef int64_t k
        self.n_slots = 8
        while self.n_slots < 4 * self.count:
            self.n_slots *= 2
        self.slots = <int32_t*>malloc(self.n_slots * sizeof(int32_t))
        if self.slots == NULL:
            raise MemoryError()
        for k in range(self.n_slots):
            self.slots[k] = UNKNOWN
        return 0

    cdef void _take_slot(self, uint64_t hashed, int64_t code) noexcept:
        cdef int64_t place = <int64_t>(hashed & <uint64_t>(self.n_slots - 1))
        while self.slots[place] >= 0:
            place = (place + 1) & (self.n_slots - 1)
        self.slots[place] = code

    cdef int _set_words(self) except -1:
        cdef int64_t k
        cdef uint32_t* text
        self.words = <Word*>malloc(self.count * sizeof(Word))
        if self.words == NULL:
            raise MemoryError()
        for k in range(self.count):
            self.words[k].text = NULL
        self._clear_slots()
        for k in range(self.count):
            text = <uint32_t*>PyUnicode_AsUCS4Copy(self.labels[k])
            self.words[k].text, self.words[k].length = text, trimmed(text, len(self.labels[k]))
            self.words[k].hashed = hash_of(text, self.words[k].length)
            self._take_slot(self.words[k].hashed, k)
        return 0

    def __dealloc__(self):
        cdef int64_t k
        if self.words != NULL:
            for k in range(self.count):
                PyMem_Free(<void*>self.words[k].text)
        free(self.words)
        free(self.slots)
        free(self.direct)
        free(self.numbers)

    def __reduce__(self):
        return LabelCodes, (self.labels,)

    def codes(self, y, int64_t count):
        """Return the codes of ``count`` labels, or None unless all of them are plain and known."""
        cdef Py_buffer view
        cdef Py_buffer room
        cdef bint found
        cdef double* codes
        cdef PyThreadState* thread
        listed = type(y) is list or type(y) is tuple
        if not self.count or not (listed or type(y) is np.ndarray):
            return None
        out = np.empty(count)
        PyObject_GetBuffer(out, &room, PyBUF_STRIDES)
        codes = <double*>room.buf
        try:
            if listed:
                return out if self._of_objects(y, codes, count) else None
            try:
                PyObject_GetBuffer(y, &view, PyBUF_STRIDES | PyBUF_FORMAT)
            except (BufferError, ValueError):  # dates, and other types that no other library knows
                return None
            found = view.ndim == 1 and view.shape[0] == count
            if found and view.format[0] != c"O":
                thread = let_go(count)
                found = self._of_array(&view, codes)
                take_back(thread)
            objects = found and view.format[0] == c"O"
            PyBuffer_Release(&view)
            if objects:
                found = self._of_objects(y.tolist(), codes, count)
            return out if found else None
        finally:
            PyBuffer_Release(&room)

    cdef bint _of_objects(self, y, double* codes, int64_t count) except -1:
        """Write the codes of labels in a list or a tuple; return whether all are plain and known."""
        cdef int64_t i = 0
        cdef PyObject* code
        if len(y) != count:
            return False
        for label in y:
            if type(label) not in PLAIN or i == count:
                return False
            code = PyDict_GetItemWithError(self.known, label)
            if code == NULL:
                return False
            codes[i] = <object>code
            i += 1
        return i == count

    cdef bint _of_array(self, const Py_buffer* view, double* codes) noexcept nogil:
        """Write the codes of the labels in an array; return whether all are known."""
        cdef const char* form = view.format
        cdef const char* at = <const char*>view.buf
        cdef int64_t n = view.shape[0], step = view.strides[0], i
        cdef char kind
        while 48 <= form[0] <= 57:  # the length of text
            form += 1
        kind = form[0]
        if kind == 0 or form[1] != 0:
            return False
        if kind == c"w":
            return self.words != NULL and self._of_text(at, step, view.itemsize // 4, n, codes)
        if self.numbers == NULL or form != view.format:
            return False
        if kind == c"l" or kind == c"q":
            for i in range(n):
                if not self._put(codes, i, (<const int64_t*>(at + i * step))[0]):
                    return False
        elif kind == c"?" or kind == c"B":
            for i in range(n):
                if not self._put(codes, i, (<const uint8_t*>(at + i * step))[0]):
                    return False
        elif kind == c"i":
            for i in range(n):
                if not self._put(codes, i, (<const int32_t*>(at + i * step))[0]):
                    return False
        elif kind == c"b":
            for i in range(n):
                if not self._put(codes, i, (<const int8_t*>(at + i * step))[0]):
                    return False
        elif kind == c"h":
            for i in range(n):
                if not self._put(codes, i, (<const int16_t*>(at + i * step))[0]):
                    return False
        elif kind == c"H":
            for i in range(n):
                if not self._put(codes, i, (<const uint16_t*>(at + i * step))[0]):
                    return False
        elif kind == c"I":
            for i in range(n):
                if not self._put(codes, i, (<const uint32_t*>(at + i * step))[0]):
                    return False
        elif kind == c"L" or kind == c"Q":
            for i in range(n):
                if (<const uint64_t*>(at + i * step))[0] > <uint64_t>INT64_MAX:
                    return False
                if not self._put(codes, i, <int64_t>(<const uint64_t*>(at + i * step))[0]):
                    return False
        elif kind == c"d":
            for i in range(n):
                if not self._put_whole(codes, i, (<const double*>(at + i * step))[0]):
                    return False
        elif kind == c"f":
            for i in range(n):
                if not self._put_whole(codes, i, (<const float*>(at + i * step))[0]):
                    return False
        else:
            return False
        return True

    cdef inline bint _put(self, double* codes, int64_t i, int64_t label) noexcept nogil:
        cdef int32_t code = UNKNOWN
        if label < self.least or label >= self.least + self.span:
            return False
        if self.direct != NULL:
            code = self.direct[label - self.least]
        else:
            code = self._code_of_number(label)
        codes[i] = code
        return code >= 0

    cdef int32_t _code_of_number(self, int64_t label) noexcept nogil:
        cdef int64_t place = <int64_t>(hash_of_number(label) & <uint64_t>(self.n_slots - 1))
        while self.slots[place] >= 0 and self.numbers[self.slots[place]] != label:
            place = (place + 1) & (self.n_slots - 1)
        return self.slots[place]

    cdef inline bint _put_whole(self, double* codes, int64_t i, double label) noexcept nogil:
        if not (-9e15 < label < 9e15) or <double><int64_t>label != label:
            return False
        return self._put(codes, i, <int64_t>label)

    cdef bint _of_text(self, const char* at, int64_t step, int64_t width, int64_t n, double* codes) noexcept nogil:
        cdef const uint32_t* text
        cdef int64_t i, length, place, code = 0
        cdef uint64_t hashed
        for i in range(n):
            text = <const uint32_t*>(at + i * step)
            length = trimmed(text, width)
            if self._is_word(code, text, length):  # labels often repeat
                codes[i] = code
                continue
            if self.count <= FEW:
                code = 0
                while code < self.count and not self._is_word(code, text, length):
                    code += 1
                if code == self.count:
                    return False
            else:
                hashed = hash_of(text, length)
                place = <int64_t>(hashed & <uint64_t>(self.n_slots - 1))
                while True:
                    code = self.slots[place]
                    if code < 0:
                        return False
                    if self.words[code].hashed == hashed and self._is_word(code, text, length):
                        break
                    place = (place + 1) & (self.n_slots - 1)
            codes[i] = code
        return True

    cdef inline bint _is_word(self, int64_t code, const uint32_t* text, int64_t length) noexcept nogil:
        cdef const Word* word = &self.words[code]
        return word.length == length and memcmp(word.text, text, 4 * length) == 0
