"""Find where the elements of a JSON array begin and end, without reading the array into memory."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from driftsurf.data.formats._records import TOO_LONG, Records
from driftsurf.data.reading_options import ROW_BYTES
from driftsurf.kernels.compile import inline, kernel

__all__ = ["find_elements"]

_I8 = types.int64
_IN = types.Array(types.uint8, 1, "C", readonly=True)


def find_elements(data: bytes, *, final: bool, limit: int = ROW_BYTES) -> Records:
    """Return the complete elements of an array as records; ``data`` begins after its bracket, or after an element.

    A record includes the comma or the bracket that follows the element; the bracket ends the search. With ``final``,
    text after the last comma is UNCLOSED. An element whose brackets, braces or quotes do not match is MISMATCHED, and
    ends where the next object begins, so that a forgotten brace costs one row and not the rest of the file.

    >>> records = find_elements(b' {"a": "]"},\\n 2]', final=True)
    >>> [records[i] for i in range(len(records))], records.lines
    ([b' {"a": "]"},', b'\\n 2]'], array([0, 1]))
    """
    array = np.frombuffer(data, np.uint8)
    found = []
    start = line = 0
    room = max(16, len(array) // 16)
    while start < len(array):
        out = np.empty((room, 4), np.int64)
        count = _find_elements(array, final, limit, np.array([start, line]), out)
        found.append(out[:count])
        if count < room or out[-1, 3] == TOO_LONG or _closes(array, *out[-1, [0, 3]]):
            break
        start, line = int(out[-1, 0]), int(out[-1, 1])
    table = np.concatenate(found) if found else np.empty((0, 4), np.int64)
    ends, lines, cells, faults = (np.ascontiguousarray(column) for column in table.T)
    return Records(data, np.concatenate([[0], ends])[:-1], ends, lines, cells, faults, np.zeros_like(ends))


@inline
def _closes(data: Any, end: Any, fault: Any) -> Any:
    """Whether a record ends with the bracket that closes the array."""
    return fault == 0 and data[end - 1] == 93


@inline
def _is_bare(byte: Any) -> Any:
    """Whether a byte belongs to a number or a word, and not to the structure of JSON."""
    blank = byte == 32 or byte == 9 or byte == 10 or byte == 13
    return not (
        blank or byte == 34 or byte == 44 or byte == 58 or byte == 91 or byte == 93 or byte == 123 or byte == 125
    )


@inline
def _next_object(data: Any, begin: Any, stop: Any) -> Any:
    """Return the place after the first comma from ``begin`` on that a brace follows, blanks aside; -1 without one."""
    comma = -1
    for p in range(begin, stop):
        byte = data[p]
        if byte == 44:
            comma = p
        elif byte == 123 and comma >= 0:
            return comma + 1
        elif byte != 32 and byte != 9 and byte != 10 and byte != 13:
            comma = -1
    return -1


@kernel(
    lambda f: (_IN, types.boolean, _I8, types.Array(_I8, 1, "C", readonly=True), types.Array(_I8, 2, "C")),
)
def _find_elements(data: Any, final: Any, limit: Any, begin: Any, out: Any) -> Any:
    """Fill ``out`` with (end, lines, 1 unless empty, fault) of each element from ``begin`` on; return how many.

    ``objects`` has a bit for each open bracket or brace, the innermost last: 1 for a brace. ``before`` is what the
    last token was: 0 nothing, 1 a comma or an opening bracket, after which a value or a name begins, 2 a colon, 3 a
    value. ``token`` is where it begins: a malformed element ends from there on at the next comma before a brace.
    """
    start, line = begin[0], begin[1]
    size = len(data)
    count = 0
    while start < size and count < len(out):
        depth, objects, before, cells, fault = 0, 0, 0, 0, 0
        token = start
        end = -1
        p = start
        while p < size and end < 0 and fault == 0:
            if p - start > limit:
                break
            byte = data[p]
            p += 1
            if byte == 32 or byte == 9 or byte == 10 or byte == 13:
                continue
            if depth == 0 and (byte == 93 or byte == 44):
                end = p
                break
            cells = 1
            inside_object = depth > 0 and objects & 1 == 1
            if byte == 123 or byte == 91:
                # Only a value may begin here. In an object, a comma is followed by a name.
                if before == 3 or (before == 1 and inside_object) or depth == 62:
                    fault = 6
                else:
                    depth += 1
                    objects = objects << 1 | (1 if byte == 123 else 0)
                    before, token = 1, p - 1
            elif byte == 125 or byte == 93:
                if depth == 0 or inside_object != (byte == 125):
                    fault = 6
                else:
                    depth -= 1
                    objects >>= 1
                    before, token = 3, p - 1
            elif byte == 44 or byte == 58:
                before, token = (1 if byte == 44 else 2), p - 1
            elif byte == 34:
                if before == 3:
                    fault = 6
                    break
                before, token = 3, p - 1
                escaped = False
                closed = False
                while p < size and not closed and fault == 0 and p - start <= limit:
                    byte = data[p]
                    p += 1
                    closed = byte == 34 and not escaped
                    escaped = byte == 92 and not escaped
                    if byte == 10:  # text holds no line end
                        fault = 6
            else:  # a number, true, false, null, or what is none of them
                if before == 3:
                    fault = 6
                    break
                before, token = 3, p - 1
                while p < size and _is_bare(data[p]) and p - start <= limit:
                    p += 1
        if fault == 6:
            end = _next_object(data, token, min(size, start + limit + 1))
        if end < 0 and size - start > limit:
            fault, end = 4, start + limit + 1
        if end < 0:
            if not final:
                return count
            end, fault = size, fault if fault == 6 else 5 * cells
        for place in range(start, end):
            if data[place] == 10:
                line += 1
        start = end
        if cells == 0 and count and out[count - 1, 2] == 0:  # nothing between two commas
            out[count - 1, 0], out[count - 1, 1] = end, line
        else:
            out[count, 0], out[count, 1], out[count, 2], out[count, 3] = end, line, cells, fault
            count += 1
        if fault == 4 or _closes(data, end, fault):
            return count
    return count
