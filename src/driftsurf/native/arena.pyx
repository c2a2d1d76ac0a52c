"""Move and copy the rows of many keys: see ``arena.pxd`` for the memory that they are in."""

from libc.stdint cimport int64_t
from libc.string cimport memcpy

from driftsurf.native.buffers cimport Buffers, hold, integers, release
from driftsurf.native.layout cimport MOST_BYTES


cdef int read_pieces(object described, Pieces* pieces) except -1:
    """Read the fewest and the most places of a piece, and the bytes of an element of each part."""
    cdef int64_t part, size
    cdef int64_t count = len(described) - 2
    if not 0 <= count <= MOST_PARTS:
        raise ValueError(f"a piece cannot have {count} parts")
    pieces.least, pieces.most, pieces.total = described[0], described[1], 0
    for part in range(MOST_PARTS):
        size = described[2 + part] if part < count else 0
        if not 0 <= size <= MOST_BYTES:
            raise ValueError(f"no element has {size} bytes")
        pieces.sizes[part], pieces.offsets[part] = size, pieces.total
        pieces.total += size
    if not (1 <= pieces.least <= pieces.most and <double>pieces.most * <double>pieces.total <= MOST_BYTES):
        raise ValueError("there are no pieces of these sizes")
    return 0


def move(source, target, old, new, old_pieces, new_pieces):
    """Copy pieces to other places, which may have more places, and a part of numbers more, which are 1."""
    cdef Buffers held
    cdef Py_buffer* view
    cdef Py_ssize_t n = 0, m = 0
    cdef const int64_t* begin
    cdef const int64_t* end
    cdef Pieces before, after
    cdef char* values
    cdef char* made
    cdef char* a
    cdef char* b
    cdef int64_t i, j, places, size, length, room
    held.count = 0
    try:
        read_pieces(old_pieces, &before)
        read_pieces(new_pieces, &after)
        view = hold(&held, source, "B", 1, 1, False)
        values, length = <char*>view.buf, view.len
        view = hold(&held, target, "B", 1, 1, True)
        made, room = <char*>view.buf, view.len
        begin, end = integers(&held, old, &n), integers(&held, new, &m)
        if n != m:
            raise ValueError("there is no new place for each piece")
        for i in range(n):
            if not (is_inside(&before, begin[i], length) and is_inside(&after, end[i], room)):
                raise IndexError("there is no such piece")
        with nogil:
            for i in range(n):
                places = min(places_of(&before, begin[i]), places_of(&after, end[i]))
                for j in range(MOST_PARTS):
                    size = after.sizes[j]
                    a = piece_at(values, begin[i]) + before.offsets[j] * places_of(&before, begin[i])
                    b = piece_at(made, end[i]) + after.offsets[j] * places_of(&after, end[i])
                    if before.sizes[j] == size:
                        memcpy(b, a, places * size)
                    elif size == 8 and before.sizes[j] == 0:
                        fill(<double*>b, places)
    finally:
        release(&held)


cdef void fill(double* values, int64_t n) noexcept nogil:
    cdef int64_t i
    for i in range(n):
        values[i] = 1.0


def copy(memory, codes, parts, first, counts, pieces, values, bint into):
    """Copy elements of one part of each of some pieces from ``values``, or to them, one piece after the other.

    ``first`` and ``counts`` are the first place of each piece, and the number of elements.
    """
    cdef Buffers held
    cdef Py_buffer* view
    cdef Py_ssize_t n = 0, n_parts = 0, n_first = 0, n_counts = 0
    cdef Pieces layout
    cdef char* room
    cdef char* other
    cdef char* piece
    cdef int64_t i, size, length, total, done = 0
    held.count = 0
    try:
        read_pieces(pieces, &layout)
        view = hold(&held, memory, "B", 1, 1, into)
        room, length = <char*>view.buf, view.len
        view = hold(&held, values, "B", 1, 1, not into)
        other, total = <char*>view.buf, view.len
        at, part = integers(&held, codes, &n), integers(&held, parts, &n_parts)
        start, count = integers(&held, first, &n_first), integers(&held, counts, &n_counts)
        if n_parts != n or n_first != n or n_counts != n:
            raise ValueError("there is no part, place and count for each piece")
        for i in range(n):
            if not is_inside(&layout, at[i], length) or not 0 <= part[i] < MOST_PARTS:
                raise IndexError("there is no such piece")
            if not (0 <= start[i] and 0 <= count[i] <= places_of(&layout, at[i]) - start[i]):
                raise IndexError("there are no such places")
            done += count[i] * layout.sizes[part[i]]
        if done != total:
            raise ValueError(f"the elements take {done} bytes, not {total}")
        with nogil:
            for i in range(n):
                size = layout.sizes[part[i]]
                piece = piece_at(room, at[i]) + layout.offsets[part[i]] * places_of(&layout, at[i]) + start[i] * size
                if into:
                    memcpy(piece, other, count[i] * size)
                else:
                    memcpy(other, piece, count[i] * size)
                other += count[i] * size
    finally:
        release(&held)
