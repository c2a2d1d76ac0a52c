"""A state of many small entries as one of few: what a visit to a key reads and writes is then mostly its arrays."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from driftsurf.base import State
from driftsurf.errors import StateError

__all__ = ["packed", "unpacked"]

DTYPES = {name: np.dtype(name) for name in ("<f8", "<f4", "<i8", "<i4", "|b1", "|u1")}
SCALARS = bool, int, float, str
ALIGNED = 8
"""Arrays begin at multiples of so many bytes: compiled code takes no others."""


def packed(state: Mapping[str, Any]) -> State:
    """The names, which hardly differ between keys, as one text; all values but arrays as another; all arrays as one.

    >>> packed({"seed": 7, "best": 0.25, "table": np.zeros((2, 1))})["values"].tobytes()
    b'[7,0.25,["<f8",2,1]]'
    """
    arrays: list[bytes] = []
    values: list[Any] = []
    for name, value in state.items():
        if isinstance(value, np.ndarray):
            if value.dtype.str not in DTYPES:
                raise StateError(f"entry {name!r} has type {value.dtype}; choices: {', '.join(DTYPES)}")
            arrays.append(value.tobytes() + bytes(-value.nbytes % ALIGNED))
            values.append([value.dtype.str, *value.shape])
        elif isinstance(value, SCALARS):
            values.append(value)
        else:
            raise StateError(f"entry {name!r} is a {type(value).__name__}; it cannot be kept for a key")
    return {
        "names": _text(tuple(state)),
        # A float is written with the digits that give it again. As bytes: a text would be escaped within the header.
        "values": np.frombuffer(json.dumps(values, separators=(",", ":")).encode(), np.uint8),
        "arrays": np.frombuffer(b"".join(arrays), np.uint8),
    }


def unpacked(state: Mapping[str, Any]) -> State:
    """The state that ``packed`` was given; StateError for anything else."""
    try:
        names, values = _names(state["names"].tobytes()), json.loads(state["values"].tobytes().decode())
        return _read(names, values, state["arrays"].copy())
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError) as error:
        raise StateError(f"the saved model of a key cannot be read: {error!r}") from error


def _read(names: tuple[str, ...], values: list[Any], data: npt.NDArray[np.uint8]) -> State:
    position = 0
    state: dict[str, Any] = {}
    for name, value in zip(names, values, strict=True):
        if type(value) is list:
            dtype, *shape = value
            array: npt.NDArray[Any] = np.ndarray(shape, DTYPES[dtype], data, position)
            if [*array.shape] != shape:
                raise ValueError(f"{name} has the shape {shape}")  # -1 is whatever is there, for numpy
            state[name] = array
            position += array.nbytes + -array.nbytes % ALIGNED
        elif type(value) in SCALARS:
            state[name] = value
        else:
            raise TypeError(f"{name} is {value!r}")
    if position != len(data):
        raise ValueError(f"{len(data) - position} bytes follow the last array")
    return state


@functools.lru_cache(maxsize=64)
def _text(names: tuple[str, ...]) -> npt.NDArray[np.uint8]:
    return np.frombuffer(json.dumps(names, separators=(",", ":")).encode(), np.uint8)


@functools.lru_cache(maxsize=64)
def _names(text: bytes) -> tuple[str, ...]:
    return tuple(json.loads(text.decode()))
