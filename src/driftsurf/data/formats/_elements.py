"""Find where the elements of a JSON array begin and end, without reading the array into memory."""

from __future__ import annotations

import numpy as np

from driftsurf.data.formats._records import Records
from driftsurf.data.reading_options import ROW_BYTES
from driftsurf.native import text

__all__ = ["find_elements"]


def find_elements(data: bytes, *, final: bool, limit: int = ROW_BYTES) -> Records:
    """Return the complete elements of an array as records; ``data`` begins after its bracket, or after an element.

    A record includes the comma or the bracket that follows the element; the bracket ends the search. With ``final``,
    text after the last comma is UNCLOSED. An element whose brackets, braces or quotes do not match is MISMATCHED, and
    ends where the next object begins, so that a forgotten brace costs one row and not the rest of the file.

    >>> records = find_elements(b' {"a": "]"},\\n 2]', final=True)
    >>> [records[i] for i in range(len(records))], records.lines
    ([b' {"a": "]"},', b'\\n 2]'], array([0, 1]))
    """
    found = []
    start = line = 0
    room = max(16, len(data) // 16)
    while start < len(data):
        out = np.empty((room, 4), np.int64)
        count, closed = text.find_elements(data, final, limit, (start, line), out)
        found.append(out[:count])
        if count < room or closed or out[-1, 3] == text.TOO_LONG:
            break
        start, line = int(out[-1, 0]), int(out[-1, 1])
    table = np.concatenate(found) if found else np.empty((0, 4), np.int64)
    ends, lines, cells, faults = (np.ascontiguousarray(column) for column in table.T)
    return Records(data, np.concatenate([[0], ends])[:-1], ends, lines, cells, faults, np.zeros_like(ends))
