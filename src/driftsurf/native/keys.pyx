"""Slots of integer keys in a hash table, their seeds, and rows grouped by slot. Slots and rows are int32."""

from driftsurf.native.buffers cimport Buffers, hold, integer_out, integers, release
from driftsurf.native.gil cimport let_go, take_back
from libc.stdint cimport int32_t, int64_t, uint64_t


cdef extern from "random.h" nogil:
    uint64_t ds_word(uint64_t seed, int64_t k) noexcept


cdef extern from *:
    void prefetch "__builtin_prefetch"(const void* place) noexcept nogil


cdef enum:
    AHEAD = 8  # keys between the prefetch of a table entry, the prefetch of its key, and the comparison


cdef struct Table:
    # Open addressing with linear probing: ``entries`` are slots, or -1; their number is a power of two, and half of
    # them are free. ``known`` has the key of each slot.
    int32_t* entries
    uint64_t mask
    int64_t* known
    Py_ssize_t room


cdef int32_t* small(Buffers* held, object array, Py_ssize_t* n, bint writable) except? NULL:
    """Return the memory of an array of int32, and the number of its elements."""
    view = hold(held, array, "i", 4, 1, writable)
    n[0] = view.len // 4
    return <int32_t*>view.buf


cdef int read_table(Buffers* held, object entries, object known, bint writable, Table* table) except -1:
    """Hold a table and the keys of its slots; raise ValueError if they do not belong together."""
    cdef Py_ssize_t size = 0
    table.entries = small(held, entries, &size, writable)
    table.known = integer_out(held, known, &table.room) if writable else integers(held, known, &table.room)
    if size < 2 or size & (size - 1) or table.room >= size:
        raise ValueError(f"a table of {size} entries cannot have {table.room} keys")
    table.mask = <uint64_t>(size - 1)
    return 0


cdef inline uint64_t first_place(const Table* table, int64_t key) noexcept nogil:
    return ds_word(0, key) & table.mask


cdef inline uint64_t place(const Table* table, int64_t key) noexcept nogil:
    """Return where the key is in the table, or would be."""
    cdef uint64_t at = first_place(table, key)
    while table.entries[at] >= 0 and table.known[table.entries[at]] != key:
        at = (at + 1) & table.mask
    return at


def find(keys, entries, known, slots):
    """Set slots[i] to the slot of keys[i], or to -1 if it has none."""
    cdef Py_ssize_t n = 0, m = 0, i
    cdef int32_t slot
    cdef Table table
    cdef Buffers held
    held.count = 0
    try:
        sought = integers(&held, keys, &n)
        read_table(&held, entries, known, False, &table)
        found = small(&held, slots, &m, True)
        if m != n:
            raise ValueError(f"there are {n} keys and {m} slots")
        saved = let_go(n)
        for i in range(n):
            if i + 2 * AHEAD < n:
                prefetch(&table.entries[first_place(&table, sought[i + 2 * AHEAD])])
                slot = table.entries[first_place(&table, sought[i + AHEAD])]
                prefetch(&table.known[slot if slot > 0 else 0])
            found[i] = table.entries[place(&table, sought[i])]
        take_back(saved)
    finally:
        release(&held)


def add(keys, entries, known, Py_ssize_t count, slots):
    """Assign slots from ``count`` on to keys without one, in order of appearance, while there is room.

    Returns the next slot, and whether every key has a slot.
    """
    cdef Py_ssize_t n = 0, m = 0, i
    cdef uint64_t at
    cdef bint done = True
    cdef Table table
    cdef Buffers held
    held.count = 0
    try:
        wanted = integers(&held, keys, &n)
        read_table(&held, entries, known, True, &table)
        found = small(&held, slots, &m, True)
        if m != n or not 0 <= count <= table.room:
            raise ValueError(f"there are {n} keys, {m} slots, and {count} of {table.room} known keys")
        for i in range(n):
            if found[i] < 0:
                at = place(&table, wanted[i])
                if table.entries[at] < 0:
                    if count == table.room:
                        done = False
                        break
                    table.known[count] = wanted[i]
                    table.entries[at] = <int32_t>count
                    count += 1
                found[i] = table.entries[at]
    finally:
        release(&held)
    return count, done


def seeds_of(keys, uint64_t seed, out):
    """Set out[i] to the seed of keys[i], as ``driftsurf.keyed.keys.key_seed`` does."""
    cdef Py_ssize_t n = 0, i
    cdef Buffers held
    held.count = 0
    try:
        given = integers(&held, keys, &n)
        view = hold(&held, out, "LQ", 8, 1, True)
        if view.len != 8 * n:
            raise ValueError(f"there are {n} keys and {view.len // 8} seeds")
        seeds = <uint64_t*>view.buf
        for i in range(n):
            seeds[i] = ds_word(ds_word(seed, given[i]), 0)
    finally:
        release(&held)


def count_rows(slots, counts):
    """Count the rows of each slot."""
    cdef Py_ssize_t n = 0, n_slots = 0, i
    cdef bint inside = True
    cdef Buffers held
    held.count = 0
    try:
        rows = small(&held, slots, &n, False)
        numbers = small(&held, counts, &n_slots, True)
        saved = let_go(n)
        for i in range(n):
            if rows[i] < 0 or rows[i] >= n_slots:
                inside = False
                break
            numbers[rows[i]] += 1
        take_back(saved)
    finally:
        release(&held)
    if not inside:
        raise ValueError(f"slots are from 0 to {n_slots - 1}")


def lay_out(slots, counts, touched, starts, order):
    """Order rows by slot, in the order of ``touched``; ``counts`` is overwritten with the end of each slot's rows."""
    cdef Py_ssize_t n = 0, n_slots = 0, n_touched = 0, n_starts = 0, n_order = 0, i, g
    cdef int64_t total = 0, size
    cdef int32_t k
    cdef bint inside = True
    cdef Buffers held
    held.count = 0
    try:
        rows = small(&held, slots, &n, False)
        numbers = small(&held, counts, &n_slots, True)
        groups = integers(&held, touched, &n_touched)
        begins = integer_out(&held, starts, &n_starts)
        ordered = small(&held, order, &n_order, True)
        if n_starts != n_touched + 1 or n_order != n:
            raise ValueError(f"{n_touched} slots have {n_starts} starts, {n} rows have {n_order} places")
        saved = let_go(n + n_touched)
        for g in range(n_touched):
            if groups[g] < 0 or groups[g] >= n_slots:
                inside = False
                break
            begins[g] = total
            size = numbers[groups[g]]
            numbers[groups[g]] = <int32_t>total
            total += size
        begins[n_touched] = total
        for i in range(n if inside else 0):
            k = rows[i]
            if k < 0 or k >= n_slots or numbers[k] < 0 or numbers[k] >= n:
                inside = False
                break
            ordered[numbers[k]] = <int32_t>i
            numbers[k] += 1
        take_back(saved)
    finally:
        release(&held)
    if not inside:
        raise ValueError("the rows, their counts and the slots with rows do not belong together")
