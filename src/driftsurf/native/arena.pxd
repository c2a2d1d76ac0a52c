"""Pieces of memory of many keys, each with places for as many rows as its key has, in one array of bytes.

A piece has 0 places, ``least``, twice as many, and so on, up to ``most``. It holds its *parts* one after the other, each
with an element of fixed size for every place. A key is known by the *code* of its piece: the line of the array where it
starts, times 256, plus a number for its size: 0 for none, 1 for ``least`` places, and so on.
"""

from libc.stdint cimport int64_t

cdef enum:
    LINE = 64       # bytes of a line, which is one of the cache
    MOST_PARTS = 6
    MOST_SIZES = 40


cdef struct Pieces:
    int64_t least, most
    int64_t sizes[MOST_PARTS]    # bytes of an element of each part; 0 for a part that is not there
    int64_t offsets[MOST_PARTS]  # bytes that a place takes in the parts before
    int64_t total                # bytes of a place


cdef inline int64_t places_of(const Pieces* pieces, int64_t code) noexcept nogil:
    """Return the number of places of a piece."""
    cdef int64_t size = code & 255
    if size == 0:
        return 0
    if size > MOST_SIZES:
        return pieces.most
    return min(pieces.least << (size - 1), pieces.most)


cdef inline char* piece_at(char* memory, int64_t code) noexcept nogil:
    return memory + (code >> 8) * LINE


cdef inline bint is_inside(const Pieces* pieces, int64_t code, int64_t size) noexcept nogil:
    """Return whether a piece lies in a memory of this size."""
    return code >= 0 and (code >> 8) <= size // LINE and (
        places_of(pieces, code) * pieces.total <= size - (code >> 8) * LINE
    )


cdef int read_pieces(object described, Pieces* pieces) except -1
