"""A state of many small entries packed into one array, so that reading and writing a key costs little per entry.

Layout: the lengths of the two texts (8 bytes each, little-endian), the arrays one after the other, the names of the
entries as JSON, and their values in the same order as JSON. The value of an array is its type and shape.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from driftsurf.core.contracts import State
from driftsurf.core.state import DTYPES, compact, part_at
from driftsurf.errors import StateError

__all__ = ["array_bytes", "packed", "unpacked"]

SCALARS = bool, int, float, str
HEAD = 16
ALIGNED = 8
"""Arrays start at multiples of this many bytes, since compiled code takes aligned arrays only."""

Bytes = npt.NDArray[np.uint8]


def packed(state: Mapping[str, Any]) -> Bytes:
    """Pack a state into an array of bytes; the same entries in the same order give the same bytes.

    >>> unpacked(packed({"seed": 7, "best": 0.25, "table": np.zeros(2)}))
    {'seed': 7, 'best': 0.25, 'table': array([0., 0.])}
    """
    arrays: list[bytes] = []
    values: list[Any] = []
    for name, value in state.items():
        if isinstance(value, np.ndarray):
            if value.dtype.str not in DTYPES:
                raise StateError(f"the entry {name!r} has type {value.dtype}; choices: {', '.join(DTYPES)}")
            arrays.append(value.tobytes() + bytes(-value.nbytes % ALIGNED))
            values.append([value.dtype.str, *value.shape])
        elif isinstance(value, SCALARS):
            values.append(value)
        else:
            raise StateError(
                f"the entry {name!r} is a {type(value).__name__}; a state holds bool, int, float, str and arrays"
            )
    texts = _text(tuple(state)), _compact(values)
    lengths = [len(text).to_bytes(8, "little") for text in texts]
    return np.frombuffer(b"".join([*lengths, *arrays, *texts]), np.uint8)


def array_bytes(data: Bytes) -> int:
    """Return how many bytes the arrays of a packed state take.

    >>> array_bytes(packed({"seed": 7, "table": np.zeros(2)}))
    16
    """
    if data.dtype != np.uint8 or data.ndim != 1 or data.size < HEAD:
        raise StateError("a packed state is no array of bytes")
    texts = np.frombuffer(data[:HEAD].tobytes(), "<u8").tolist()
    return int(data.size) - HEAD - int(sum(texts))


def unpacked(data: Any, name: str = "") -> State:
    """Return the state that ``packed`` packed into the entry of this name; StateError for anything else."""
    try:
        room = data.copy()  # the arrays are views of it, which the caller may change
        text = room.tobytes()
        names, values = (int.from_bytes(text[start : start + 8], "little") for start in (0, 8))
        middle, end = len(text) - values, len(text) - values - names
        found = _read(_names(text[end:middle]), json.loads(text[middle:].decode()), room, end)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError) as error:
        raise StateError(f"the saved entry {name!r} cannot be unpacked: {error!r}", entry=name) from error
    return part_at(name and name + ".", found)


def _read(names: tuple[str, ...], values: list[Any], room: Bytes, end: int) -> State:
    position = HEAD
    state: dict[str, Any] = {}
    for name, value in zip(names, values, strict=True):
        if type(value) is list:
            dtype, *shape = value
            array: npt.NDArray[Any] = np.ndarray(shape, DTYPES[dtype], room, position)
            state[name] = array
            position += array.nbytes + -array.nbytes % ALIGNED
        elif type(value) in SCALARS:
            state[name] = value
        else:
            raise TypeError(f"{name} is {value!r}")
    if position != end:
        raise ValueError(f"the arrays end at {position}, the texts begin at {end}")
    return state


def _compact(values: list[Any] | tuple[str, ...]) -> bytes:
    """Return values as JSON, floats with all digits that are needed to read them back exactly."""
    return compact(values).encode()


_text = functools.lru_cache(maxsize=64)(_compact)
"""The names of entries hardly differ between keys and visits, so that their text is cached."""


@functools.lru_cache(maxsize=64)
def _names(text: bytes) -> tuple[str, ...]:
    names = json.loads(text.decode())
    if not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
        raise ValueError("the names of the entries are not distinct text")
    return tuple(names)
