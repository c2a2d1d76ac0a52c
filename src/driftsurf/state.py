"""Flat state dictionaries to bytes and back. No file call; nothing that runs code unless pickle is trusted.

Layout: magic (7 bytes), the format (1 byte), length of the header (8 bytes, little-endian), the header
(JSON: the format, the version that wrote it, the size of all arrays, the entries sorted by name, with the
kind, type and shape of each), the arrays one after the other (C order, little-endian), SHA-256 of all that
stands before it (32 bytes). The same state gives the same bytes. Objects of other libraries are refused by name, or,
where the caller trusts pickle, stand among the arrays, and the header says so: reading them has to be trusted again.
"""

from __future__ import annotations

import functools
import hashlib
import json
import math
import pickle
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from driftsurf import __version__
from driftsurf.base import Growing, Pickled, State
from driftsurf.errors import CapabilityError, StateError, StateVersionError

__all__ = ["Header", "digest", "from_bytes", "look", "nest", "pick", "read_header", "resolved", "to_bytes"]

FORMAT = 1
"""Raised by every change that older versions could not read; ``from_bytes`` then reads all formats up to it."""
MAGIC = b"DRSURF\x00" + bytes([FORMAT])
DTYPES = {name: np.dtype(name) for name in ("<f8", "<f4", "<i8", "<i4", "|b1", "|u1")}
"""Of arrays in a state."""
_DIGEST = 32
compact = json.JSONEncoder(separators=(",", ":")).encode
"""``json.dumps`` without blanks; made once, since making it takes longer than writing a short text."""


def nest(prefix: str, state: Mapping[str, Any]) -> State:
    """The entries of ``state`` under ``prefix.``.

    >>> nest("model", {"seed": 1})
    {'model.seed': 1}
    """
    return dict(zip(_nested(prefix, tuple(state)), state.values(), strict=True))


def pick(prefix: str, state: Mapping[str, Any]) -> State:
    """The entries under ``prefix.``, without it: the reverse of ``nest``."""
    return {short: state[name] for short, name in _picked(prefix, tuple(state))}


# The same names come again and again: with thousands of states a second, making them is most of the work.


@functools.lru_cache(maxsize=1024)
def _nested(prefix: str, names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"{prefix}.{name}" for name in names)


@functools.lru_cache(maxsize=1024)
def _picked(prefix: str, names: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    start = prefix + "."
    return tuple((name[len(start) :], name) for name in names if name.startswith(start))


def resolved(state: Mapping[str, Any]) -> State:
    """The state with whole arrays in place of what grows."""
    return {name: value.array() if isinstance(value, Growing) else value for name, value in state.items()}


class Header(NamedTuple):
    """What stands before the arrays of a saved state."""

    format: int
    writer: str
    """The version of driftsurf that wrote it."""
    size: int
    """Bytes of all arrays."""
    entries: list[Any]
    pickle: bool = False
    """Whether there are pickles among them, which run code when they are read."""

    def to_bytes(self) -> bytes:
        """As it stands in the file."""
        what = {"format": self.format, "driftsurf": self.writer, "size": self.size, "entries": self.entries}
        what |= {"pickle": True} if self.pickle else {}
        return compact(what).encode()


def to_bytes(state: Mapping[str, Any], *, trust_pickle: bool = False) -> bytes:
    """Serialise a flat state; CapabilityError for what only pickle can save, unless it is trusted.

    >>> from_bytes(to_bytes({"b": 1.5, "a": "text"}))
    {'a': 'text', 'b': 1.5}
    """
    entries: list[list[Any]] = []
    arrays: list[bytes] = []
    for name in sorted(state):
        value = state[name]
        if isinstance(value, Growing):
            value = value.array()
        if isinstance(value, np.ndarray):
            array = _little_endian(name, value)
            entries.append([name, "array", array.dtype.str, list(array.shape)])
            arrays.append(array.tobytes())
        elif isinstance(value, float):
            entries.append([name, "float", value.hex()])  # exact, NaN and infinity included
        elif isinstance(value, bool):
            entries.append([name, "bool", value])
        elif isinstance(value, int):
            entries.append([name, "int", int(value)])
        elif isinstance(value, str):
            entries.append([name, "str", str(value)])
        elif isinstance(value, Pickled):
            if not trust_pickle:
                raise CapabilityError(
                    f"{value.owner} has no exact state to save (capability 'exact_state'): only pickle can save it, "
                    "which runs code when it is loaded. Say trust_pickle=True if those who load it trust you"
                )
            data = pickle.dumps(value.value, protocol=5)
            entries.append([name, "pickle", value.owner, len(data)])
            arrays.append(data)
        else:
            raise StateError(
                f"entry {name!r} is a {type(value).__name__}; a state holds bool, int, float, str and arrays"
            )
    pickled = any(entry[1] == "pickle" for entry in entries)
    header = Header(FORMAT, __version__, sum(map(len, arrays)), entries, pickled).to_bytes()
    body = b"".join([MAGIC, len(header).to_bytes(8, "little"), header, *arrays])
    return body + hashlib.sha256(body).digest()


def from_bytes(data: bytes | bytearray | memoryview, *, trust_pickle: bool = False) -> State:
    """The state that ``to_bytes`` was given; StateError for anything else, StateVersionError for a later format.

    Pickles run code: StateError if there are any and ``trust_pickle`` does not say that this is meant.
    """
    header, state = _read(bytes(data))
    if not header.pickle:
        return state
    if not trust_pickle:
        raise StateError(
            "there are pickles in this saved state, which run code when they are read; say trust_pickle=True if you "
            "trust whoever wrote it (`driftsurf inspect` shows what it is without reading them)"
        )
    return {name: _unpickled(name, value) if isinstance(value, Pickled) else value for name, value in state.items()}


def look(data: bytes) -> State:
    """The same without opening any pickle: it is left as its bytes."""
    return _read(data)[1]


def _read(data: bytes) -> tuple[Header, State]:
    header, body, start = _opened(data)
    try:
        return header, _read_entries(header, body, start)
    except (ValueError, LookupError, TypeError, OverflowError) as error:
        if isinstance(error, StateError):
            raise
        raise StateError(f"an entry of the saved state cannot be read: {error}") from error


def _unpickled(name: str, closed: Pickled) -> Pickled:
    try:
        return Pickled(closed.owner, pickle.loads(closed.value))
    except Exception as error:  # whatever a pickle does
        raise StateError(f"entry {name!r}, a pickle of {closed.owner}, cannot be read: {error!r}") from error


def read_header(data: bytes) -> Header:
    """The header of a saved state whose checksum is right; StateError for anything else."""
    return _opened(data)[0]


def digest(data: bytes) -> str:
    """The checksum that a saved state ends with, in hexadecimal digits."""
    return data[-_DIGEST:].hex()


def _opened(data: bytes) -> tuple[Header, bytes, int]:
    """The header, all but the checksum, and where the arrays begin."""
    if len(data) < len(MAGIC) + 8 + _DIGEST:
        raise StateError(f"{len(data)} bytes are too few for a saved state: it is empty or cut off")
    if data[: len(MAGIC) - 1] != MAGIC[:-1]:
        raise StateError("these bytes do not begin like a saved state of driftsurf")
    body = data[:-_DIGEST]
    if hashlib.sha256(body).digest() != data[-_DIGEST:]:
        raise StateError("the checksum does not match: the saved state is damaged or cut off")
    start = len(MAGIC) + 8
    stop = start + int.from_bytes(body[len(MAGIC) : start], "little")
    if stop > len(body):
        raise StateError("the header is longer than the saved state")
    try:
        if body[len(MAGIC) - 1] != FORMAT:
            raise StateVersionError(
                f"this state has format {body[len(MAGIC) - 1]} and begins with {body[start:stop][:60]!r}; this is "
                f"driftsurf {__version__}, which reads format {FORMAT}. Use the version that wrote it, or a later one."
            )
        # As ASCII: left to guess, the reader would load whatever decoder the bytes suggest.
        told = json.loads(body[start:stop].decode("ascii"))
        header = Header(
            told["format"], told["driftsurf"], told["size"], told["entries"], told.get("pickle", False) is True
        )
        if header.to_bytes() != body[start:stop] or header.format != FORMAT or not isinstance(header.writer, str):
            raise StateError("the header of the saved state is not written as this version writes it")
    except (ValueError, LookupError, TypeError, OverflowError, RecursionError) as error:
        if isinstance(error, StateError):
            raise
        raise StateError(f"the header of the saved state cannot be read: {error}") from error
    if header.size != len(body) - stop:
        raise StateError(f"{len(body) - stop} bytes follow the header, which says {header.size!r}")
    return header, body, stop


def _read_entries(header: Header, body: bytes, position: int) -> State:
    """Read what ``to_bytes`` writes and nothing else, so that one state has one file."""
    state: dict[str, Any] = {}
    last = ""
    for entry in header.entries:
        if not isinstance(entry, list):
            raise StateError(f"{entry!r} is no entry of a saved state")
        name, kind, *rest = entry
        if not isinstance(name, str) or (state and name <= last):
            raise StateError(f"entry {name!r} stands twice or out of order, or its name is no text")
        last = name
        match kind, rest:
            case "array", [str(dtype), list(shape)]:
                array = _read_array(name, dtype, shape, body, position)
                state[name] = array
                position += array.nbytes
            case "float", [str(text)] if float.fromhex(text).hex() == text:
                state[name] = float.fromhex(text)
            case ("bool", [bool(value)]) | ("int", [int(value)]) | ("str", [str(value)]) if (
                type(value).__name__ == kind  # True is an int, too
            ):
                state[name] = value
            case "pickle", [str(owner), int(size)] if header.pickle and type(size) is int and 0 <= size <= len(body):
                state[name] = Pickled(owner, body[position : position + size])
                position += size
            case _:
                raise StateError(f"entry {name!r} is of the unknown kind {kind!r}, or its value is of another")
    if position != len(body):
        raise StateError(f"{len(body) - position} bytes follow the last entry of the saved state")
    return state


def _read_array(name: str, dtype: str, shape: list[Any], body: bytes, position: int) -> npt.NDArray[Any]:
    if dtype not in DTYPES or not all(type(n) is int and n >= 0 for n in shape):
        raise StateError(f"entry {name!r} has type {dtype!r} and shape {shape!r}")
    if position + math.prod(shape) * DTYPES[dtype].itemsize > len(body):
        raise StateError(f"entry {name!r} reaches beyond the end of the saved state")
    view: npt.NDArray[Any] = np.ndarray(shape, DTYPES[dtype], body, position)
    return view.copy()


def _little_endian(name: str, value: npt.NDArray[Any]) -> npt.NDArray[Any]:
    array = np.asarray(value, order="C")
    if array.dtype.byteorder == ">" or (array.dtype.byteorder == "=" and not np.little_endian):
        array = array.astype(array.dtype.newbyteorder("<"))
    if array.dtype.str not in DTYPES:
        raise StateError(f"entry {name!r} has type {array.dtype}; choices: {', '.join(sorted(DTYPES))}")
    return array
