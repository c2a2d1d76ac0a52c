"""Find where the elements of a JSON array begin and end, without reading the array into memory."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from driftsurf.data.formats._reader import RECORD_LIMIT
from driftsurf.data.formats._records import TOO_LONG, Records
from driftsurf.kernels.compile import kernel

__all__ = ["find_elements"]

_I8 = types.int64
_IN = types.Array(types.uint8, 1, "C", readonly=True)


def find_elements(data: bytes, *, final: bool, limit: int = RECORD_LIMIT) -> Records:
    """Return the complete elements of an array as records; ``data`` begins after its bracket, or after an element.

    A record includes the comma or the bracket that follows the element. With ``final``, text after the last of them is
    UNCLOSED.

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
        if count < room or out[-1, 3] == TOO_LONG:
            break
        start, line = int(out[-1, 0]), int(out[-1, 1])
    table = np.concatenate(found) if found else np.empty((0, 4), np.int64)
    ends, lines, cells, faults = (np.ascontiguousarray(column) for column in table.T)
    return Records(data, np.concatenate([[0], ends])[:-1], ends, lines, cells, faults, np.zeros_like(ends))


@kernel(
    lambda f: (_IN, types.boolean, _I8, types.Array(_I8, 1, "C", readonly=True), types.Array(_I8, 2, "C")),
)
def _find_elements(data: Any, final: Any, limit: Any, begin: Any, out: Any) -> Any:
    """Fill ``out`` with (end, lines, 1 unless empty, fault) of each element from ``begin`` on; return how many."""
    start, line = begin[0], begin[1]
    size = len(data)
    count = 0
    while start < size and count < len(out):
        depth, cells, fault, lines = 0, 0, 0, 0
        text = escaped = False
        end = -1
        p = start
        while p < size and end < 0:
            if p - start > limit:
                fault, end = 4, p
                break
            byte = data[p]
            p += 1
            if byte == 10:
                lines += 1
            if text:
                text = escaped or byte != 34
                escaped = byte == 92 and not escaped
            elif (byte == 93 and depth == 0) or (byte == 44 and depth == 0):
                end = p
            elif byte != 32 and byte != 9 and byte != 10 and byte != 13:
                cells = 1
                text = byte == 34
                if byte == 123 or byte == 91:
                    depth += 1
                elif byte == 125 or byte == 93:
                    depth -= 1
        if end < 0:
            if not final:
                return count
            end, fault = size, 5 * cells
        line += lines
        out[count, 0], out[count, 1], out[count, 2], out[count, 3] = end, line, cells, fault
        start = end
        count += 1
        if fault == 4:
            return count
    return count
