"""Find where the records of text begin and end."""

import numpy as np
import numpy.typing as npt

from driftsurf.core.contracts import IntArray

SOUND: int
STRAY_QUOTE: int
OPEN_QUOTE: int
NUL: int
TOO_LONG: int
UNCLOSED: int
MISMATCHED: int

def find_lines(data: bytes, newlines: IntArray, delimiter: int, final: bool, limit: int, out: IntArray) -> int: ...
def find_records(
    data: bytes, marks: tuple[int, int, int], final: bool, limit: int, begin: tuple[int, int], out: IntArray
) -> int: ...
def trim_cells(data: bytes, delimiter: int, quote: int, out: npt.NDArray[np.uint8]) -> int: ...
def find_elements(data: bytes, final: bool, limit: int, begin: tuple[int, int], out: IntArray) -> tuple[int, bool]: ...
