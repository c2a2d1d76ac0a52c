"""Find where the records of text begin and end, and which of them are malformed.

Positions and counts are int64; ``limit`` is the largest number of bytes of a record.
"""

from driftsurf.native.buffers cimport Buffers, hold, integer_out, integers, release
from driftsurf.native.gil cimport let_go, take_back
from libc.stdint cimport int64_t, uint64_t, uint8_t


cdef extern from "text.h" nogil:
    int DS_PADDING
    int DS_RETURNS
    int64_t ds_count(const uint8_t* data, int64_t n, uint8_t mark) noexcept
    int ds_seams(const uint8_t* data, int64_t n, uint8_t mark) noexcept
    int ds_is_padded(const uint8_t* data, int64_t n, uint8_t mark) noexcept


cdef enum:
    # What is wrong with a record.
    FAULTLESS = 0
    AFTER_QUOTE = 1
    NEVER_CLOSED_QUOTE = 2
    WITH_NUL = 3
    LONG = 4
    ENDLESS = 5
    UNBALANCED = 6
    DEEPEST = 62

SOUND, STRAY_QUOTE, OPEN_QUOTE, NUL = FAULTLESS, AFTER_QUOTE, NEVER_CLOSED_QUOTE, WITH_NUL
TOO_LONG, UNCLOSED, MISMATCHED = LONG, ENDLESS, UNBALANCED


cdef const uint8_t* text(Buffers* held, object data, int64_t* size) except? NULL:
    """Return the bytes of some data, and their number."""
    view = hold(held, data, "B", 1, 1, False)
    size[0] = view.len
    return <const uint8_t*>view.buf


cdef inline bint is_blank(int byte) noexcept nogil:
    return byte == 32 or byte == 9


cdef inline bint ends_line(int byte) noexcept nogil:
    return byte == 10 or byte == 13


# ---------------------------------------------------------------------------- delimited text


cdef struct Search:
    # What is searched, and from where on.
    const uint8_t* data
    int64_t size
    int delimiter  # -1 for none, as the next two
    int quote
    int comment
    bint final
    int64_t limit
    int64_t start
    int64_t line


def find_lines(data, newlines, int delimiter, bint final, int64_t limit, out):
    """Fill the columns of ``out`` with (end, lines, cells, 0, padded) of each line; return the count.

    Returns -1 if a line is longer than ``limit``, or a carriage return stands elsewhere than before a line feed.
    ``newlines`` are the places of the line feeds; ``out`` has a column for each, and one more.
    """
    cdef Py_ssize_t n = 0, room = 0, k
    cdef int64_t count
    cdef Search search
    cdef Buffers held
    held.count = 0
    try:
        search.data = text(&held, data, &search.size)
        ends = integers(&held, newlines, &n)
        columns = integer_out(&held, out, &room, 2)
        if room != 5 * (n + 1):
            raise ValueError(f"out has {room} places for {n} lines")
        for k in range(n):
            if not (ends[k - 1] if k else -1) < ends[k] < search.size:
                raise ValueError("newlines must rise, within the data")
        search.delimiter, search.final, search.limit = delimiter, final, min(limit, search.size)
        saved = let_go(search.size)
        count = lines_of(&search, ends, n, columns)
        take_back(saved)
    finally:
        release(&held)
    return count


cdef int64_t lines_of(const Search* s, const int64_t* newlines, Py_ssize_t n, int64_t* out) noexcept nogil:
    cdef const uint8_t* data = s.data
    cdef int64_t size = s.size, count = 0, start = 0, line = 0, k, p, stop, last, delimiters, returns
    cdef uint8_t mark = <uint8_t>(s.delimiter if s.delimiter >= 0 else 10)
    cdef bint padded, empty
    # Most data have neither blanks beside a delimiter nor carriage returns, which is found out in one long loop.
    cdef int seams = ds_seams(data, size, mark)
    cdef int64_t* ends = out
    cdef int64_t* lines = out + (n + 1)
    cdef int64_t* cells = out + 2 * (n + 1)
    cdef int64_t* paddings = out + 4 * (n + 1)
    for k in range(n + 1):
        if k == n and start == size:
            break
        stop = newlines[k] if k < n else size
        if (stop if k < n else size - 1) - start > s.limit:
            return -1
        delimiters = ds_count(data + start, stop - start, mark) if s.delimiter >= 0 else 0
        returns = ds_count(data + start, stop - start, 13) if seams & DS_RETURNS else 0
        padded = False
        if seams & DS_PADDING and s.delimiter >= 0:
            padded = ds_is_padded(data + start, stop - start, mark)
        last = stop - 1
        if returns:
            if returns > 1 or data[last] != 13 or k == n:
                return -1
            last -= 1
        if k == n and not s.final:
            break
        if last >= start and ((is_blank(data[start]) and data[start] != s.delimiter) or is_blank(data[last])):
            padded = True
        empty = False
        if delimiters == 0:
            p = start
            while p <= last and is_blank(data[p]):
                p += 1
            empty = p > last
        line += 1
        start = stop + 1 if k < n else size
        if empty and count and cells[count - 1] == 0:
            ends[count - 1], lines[count - 1] = start, line
            continue
        ends[count], lines[count], cells[count] = start, line, 0 if empty else delimiters + 1
        paddings[count] = padded
        count += 1
    return count


def find_records(data, tuple marks, bint final, int64_t limit, tuple begin, out):
    """Fill rows of ``out`` with (end, lines, cells, fault, padded) of each record from ``begin`` on; return the count.

    ``marks`` are the delimiter, the quote and the sign of a comment, or -1; ``begin`` is a place and its line.
    """
    cdef Py_ssize_t room = 0
    cdef int64_t count
    cdef Search search
    cdef Buffers held
    held.count = 0
    search.delimiter, search.quote, search.comment = marks
    search.start, search.line = begin
    search.final = final
    try:
        search.data = text(&held, data, &search.size)
        search.limit = min(limit, search.size)
        rows = integer_out(&held, out, &room, 2)
        if room % 5 or search.start < 0:
            raise ValueError(f"out has {room} places, begin is {begin}")
        saved = let_go(search.size - search.start)
        count = records_of(&search, rows, room // 5)
        take_back(saved)
    finally:
        release(&held)
    return count


cdef inline int64_t after_line(const Search* s, int64_t p) noexcept nogil:
    """Return the place after the line end at ``p``, or -1 if a line feed may follow that is not known yet."""
    if s.data[p] == 13:
        if p + 1 == s.size:
            return p + 1 if s.final else -1
        if s.data[p + 1] == 10:
            return p + 2
    return p + 1


cdef int64_t records_of(const Search* s, int64_t* out, int64_t room) noexcept nogil:
    """Fill rows of ``out``; return the count.

    States: 0 before the first character of a cell, 1 in a plain cell, 2 in a quoted cell, 3 after a quote in a quoted
    cell, 4 after a quoted cell and a blank, 5 in a comment.
    """
    cdef const uint8_t* data = s.data
    cdef int64_t size = s.size, start = s.start, line = s.line, count = 0
    cdef int64_t p, end, after, last, first_newline, inner_lines, cells
    cdef int state, fault, byte
    cdef bint padded, empty
    while start < size and count < room:
        state, cells, fault = (5 if data[start] == s.comment else 0), 1, FAULTLESS
        first_newline, inner_lines, padded = -1, 0, False
        p = start
        end = -1
        while p < size:
            if p - start > s.limit:
                fault = NEVER_CLOSED_QUOTE if first_newline >= 0 else LONG
                break
            byte = data[p]
            if ends_line(byte):
                after = after_line(s, p)
                if after < 0:
                    break
                if first_newline < 0:
                    first_newline = after
                if state != 2:
                    end = after
                    break
                inner_lines += 1
                p = after
                continue
            if byte == 0:
                fault = WITH_NUL
            if state == 2:
                if byte == s.quote:
                    state = 3
                    if is_blank(data[p - 1]) or (p + 1 < size and is_blank(data[p + 1])):
                        padded = True
            elif state == 5:
                fault = FAULTLESS
            elif byte == s.delimiter:
                if state == 1 and is_blank(data[p - 1]):
                    padded = True
                state = 0
                cells += 1
            elif state != 1:
                if is_blank(byte):
                    padded = True
                    if state == 3:
                        state = 4
                elif state == 0:
                    state = 2 if byte == s.quote else 1
                    if state == 2 and p + 1 < size and is_blank(data[p + 1]):
                        padded = True
                elif state == 3 and byte == s.quote:
                    state = 2
                else:
                    # After a line break, the quote that seems to be closed may be the first one of a later cell.
                    fault = AFTER_QUOTE if first_newline < 0 else NEVER_CLOSED_QUOTE
                    break
            p += 1
        if end < 0 and (fault == FAULTLESS or fault == WITH_NUL) and s.final and p == size:
            if state == 2:
                fault = NEVER_CLOSED_QUOTE
            else:
                end = size
        if fault == AFTER_QUOTE or fault == NEVER_CLOSED_QUOTE:
            # A malformed record ends with its first line.
            inner_lines = 0
            end = first_newline
            while end < 0 and p < size:
                if p - start > s.limit:
                    fault = LONG
                    break
                if ends_line(data[p]):
                    end = after_line(s, p)
                    if end < 0:
                        break
                p += 1
            if end < 0 and s.final:
                end = size
        if fault == LONG:
            end = p
        if end < 0:
            return count
        last = end - 1
        while last >= start and ends_line(data[last]):
            last -= 1
        if last >= start and is_blank(data[last]):
            padded = True
        empty = state == 5 or (state == 0 and cells == 1 and fault == FAULTLESS)
        line += inner_lines + 1
        start = end
        if empty and count and out[5 * count - 3] == 0:
            out[5 * count - 5], out[5 * count - 4] = end, line
            continue
        out[5 * count], out[5 * count + 1], out[5 * count + 2] = end, line, 0 if empty else cells
        out[5 * count + 3], out[5 * count + 4] = fault, padded
        count += 1
        if fault == LONG:
            return count
    return count


def trim_cells(data, int delimiter, int quote, out):
    """Copy records to ``out`` without the blanks around their cells; return the number of bytes.

    States: 0 before the first character of a cell, 1 in a plain cell, 2 in a quoted cell, 3 after a quoted cell.
    """
    cdef int64_t count
    cdef Search search
    cdef Buffers held
    held.count = 0
    search.delimiter, search.quote = delimiter, quote
    try:
        search.data = text(&held, data, &search.size)
        copied = hold(&held, out, "B", 1, 1, True)
        if copied.len < search.size:
            raise ValueError(f"out has {copied.len} bytes, the data have {search.size}")
        saved = let_go(search.size)
        count = trim(&search, <uint8_t*>copied.buf)
        take_back(saved)
    finally:
        release(&held)
    return count


cdef int64_t trim(const Search* s, uint8_t* out) noexcept nogil:
    cdef const uint8_t* data = s.data
    cdef int64_t size = s.size, count = 0, opened = 0, p = 0
    cdef int64_t kept = 0  # bytes of out that end with something else than a blank
    cdef int state = 0, byte
    cdef bint blank
    while p < size:
        byte = data[p]
        blank = is_blank(byte) and byte != s.delimiter
        if state == 2:
            if byte == s.quote and not (p + 1 < size and data[p + 1] == s.quote):
                out[kept] = <uint8_t>byte
                kept += 1
                count, state = kept, 3
            elif not blank or kept > opened:
                out[count] = <uint8_t>byte
                count += 1
                if byte == s.quote:
                    out[count] = <uint8_t>byte
                    count += 1
                    p += 1
                if not blank:
                    kept = count
        elif byte == s.delimiter or ends_line(byte):
            out[kept] = <uint8_t>byte
            kept += 1
            count, state = kept, 0
        elif not blank or state == 1:
            out[count] = <uint8_t>byte
            count += 1
            if not blank:
                kept = count
            if state == 0:
                state, opened = (2 if byte == s.quote else 1), kept
        p += 1
    return kept


# ---------------------------------------------------------------------------- elements of a JSON array


cdef enum:
    # What the last token was.
    NOTHING = 0
    OPENED = 1  # a comma or an opening bracket, after which a value or a name begins
    COLON = 2
    VALUE = 3


def find_elements(data, bint final, int64_t limit, tuple begin, out):
    """Fill rows of ``out`` with (end, lines, 1 unless empty, fault) of each element from ``begin`` on.

    ``begin`` is a place and its line. Returns how many elements there are, and whether the bracket that closes the
    array ends the last one.
    """
    cdef Py_ssize_t room = 0
    cdef int64_t count
    cdef bint closed = False
    cdef Search search
    cdef Buffers held
    held.count = 0
    search.start, search.line = begin
    search.final = final
    try:
        search.data = text(&held, data, &search.size)
        search.limit = min(limit, search.size)
        rows = integer_out(&held, out, &room, 2)
        if room % 4 or search.start < 0:
            raise ValueError(f"out has {room} places, begin is {begin}")
        saved = let_go(search.size - search.start)
        count = elements_of(&search, rows, room // 4, &closed)
        take_back(saved)
    finally:
        release(&held)
    return count, closed


cdef inline bint is_space(int byte) noexcept nogil:
    return is_blank(byte) or ends_line(byte)


cdef inline bint is_bare(int byte) noexcept nogil:
    """Whether a byte belongs to a number or a word, and not to the structure of JSON."""
    return not (
        is_space(byte) or byte == 34 or byte == 44 or byte == 58 or byte == 91 or byte == 93 or byte == 123
        or byte == 125
    )


cdef int64_t next_object(const uint8_t* data, int64_t begin, int64_t stop) noexcept nogil:
    """Return the place after the first comma from ``begin`` on that a brace follows, blanks aside; -1 without one."""
    cdef int64_t comma = -1, p
    for p in range(begin, stop):
        if data[p] == 44:
            comma = p
        elif data[p] == 123 and comma >= 0:
            return comma + 1
        elif not is_space(data[p]):
            comma = -1
    return -1


cdef int64_t elements_of(const Search* s, int64_t* out, int64_t room, bint* closed) noexcept nogil:
    """Fill rows of ``out``; return the count.

    ``objects`` has a bit for each open bracket or brace, the innermost last: 1 for a brace. ``token`` is where the last
    token begins: a malformed element ends from there on at the next comma before a brace.
    """
    cdef const uint8_t* data = s.data
    cdef int64_t size = s.size, limit = s.limit, start = s.start, line = s.line, count = 0
    cdef int64_t p, end, token
    cdef uint64_t objects
    cdef int depth, before, byte, fault
    cdef bint some, inside_object, escaped, ended
    while start < size and count < room:
        depth, objects, before, some, fault = 0, 0, NOTHING, False, FAULTLESS
        token = start
        end = -1
        p = start
        while p < size and end < 0 and fault == FAULTLESS:
            if p - start > limit:
                break
            byte = data[p]
            p += 1
            if is_space(byte):
                continue
            if depth == 0 and (byte == 93 or byte == 44):
                end = p
                break
            some = True
            inside_object = depth > 0 and objects & 1 == 1
            if byte == 123 or byte == 91:
                # Only a value may begin here. In an object, a comma is followed by a name.
                if before == VALUE or (before == OPENED and inside_object) or depth == DEEPEST:
                    fault = UNBALANCED
                else:
                    depth += 1
                    objects = objects << 1 | (byte == 123)
                    before, token = OPENED, p - 1
            elif byte == 125 or byte == 93:
                if depth == 0 or inside_object != (byte == 125):
                    fault = UNBALANCED
                else:
                    depth -= 1
                    objects >>= 1
                    before, token = VALUE, p - 1
            elif byte == 44 or byte == 58:
                before, token = (OPENED if byte == 44 else COLON), p - 1
            elif before == VALUE:
                fault = UNBALANCED
            elif byte == 34:
                before, token = VALUE, p - 1
                escaped = False
                ended = False
                while p < size and not ended and fault == FAULTLESS and p - start <= limit:
                    byte = data[p]
                    p += 1
                    ended = byte == 34 and not escaped
                    escaped = byte == 92 and not escaped
                    if byte == 10:  # text holds no line end
                        fault = UNBALANCED
            else:  # a number, true, false, null, or what is none of them
                before, token = VALUE, p - 1
                while p < size and is_bare(data[p]) and p - start <= limit:
                    p += 1
        if fault == UNBALANCED:
            end = next_object(data, token, min(size, start + limit + 1))
        if end < 0 and size - start > limit:
            fault, end = LONG, start + limit + 1
        if end < 0:
            if not s.final:
                return count
            end = size
            if fault != UNBALANCED:
                fault = ENDLESS if some else FAULTLESS
        line += ds_count(data + start, end - start, 10)
        start = end
        if not some and count and out[4 * count - 2] == 0:  # nothing between two commas
            out[4 * count - 4], out[4 * count - 3] = end, line
        else:
            out[4 * count], out[4 * count + 1], out[4 * count + 2], out[4 * count + 3] = end, line, some, fault
            count += 1
        closed[0] = fault == FAULTLESS and data[end - 1] == 93
        if fault == LONG or closed[0]:
            return count
    return count
