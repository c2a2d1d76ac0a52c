"""The state format: flat dictionaries of scalars, texts and arrays as bytes.

Models, detectors, encoders, sample stores, keyed states and checkpoints are all saved in this one format. It makes no
file call, and reading it runs no code unless the caller trusts pickle.

Layout
------
========================  ===========================================================================
7 bytes                   magic, ``DRSURF`` and a zero
1 byte                    lowest format number that a reader must know (``READER``)
8 bytes, little-endian    length of the header
header, JSON              the format number, the driftsurf version that wrote the state, the size of all arrays, and
                          the entries sorted by name, each with its kind and its value or its type and shape
arrays                    one after the other, C order, little-endian
32 bytes                  SHA-256 of everything before it
========================  ===========================================================================

The same state always gives the same bytes, and bytes that ``to_bytes`` would not write are refused. Objects of other
libraries are refused by name, unless the caller trusts pickle: then they are stored among the arrays, and the header
says so, because reading them runs code and has to be trusted again.

Versions
--------
One number, ``FORMAT``, covers everything that is saved: the layout above and the names and meanings of the entries that
any class writes. Every change to either raises it. A version of driftsurf reads the formats from ``OLDEST`` to
``FORMAT``. It also reads later ones whose ``READER`` byte is not above its own ``FORMAT``: a writer leaves that byte
alone when it only adds entries that an older reader may ignore. Everything else is a
:class:`~driftsurf.errors.StateVersionError`, which means that the state is intact and another version can read it.
Files of each format that is read are kept in ``tests/golden``.
"""

from __future__ import annotations

import functools
import hashlib
import json
import math
import pickle
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from driftsurf import __version__
from driftsurf.core.contracts import AppendOnlyArray, Pickled, State
from driftsurf.errors import CapabilityError, StateError, StateVersionError

__all__ = [
    "Header",
    "digest",
    "from_bytes",
    "name_in",
    "nest",
    "part_at",
    "part_of",
    "peek",
    "pick",
    "read_header",
    "resolved",
    "to_bytes",
    "to_parts",
]

FORMAT = 1
"""Number of the state format that this version writes."""
READER = 1
"""Lowest ``FORMAT`` of a reader that can read what this version writes."""
OLDEST = 1
"""Oldest format that this version reads."""
MAGIC = b"DRSURF\x00"
PREFIX = MAGIC + bytes([READER])
DTYPES: dict[str, np.dtype[Any]] = {name: np.dtype(name) for name in ("<f8", "<f4", "<i8", "<i4", "|b1", "|u1")}
"""Types that an array in a state can have."""
_DIGEST = 32
_WRITER = re.compile(rb'"driftsurf":"([\w.+!-]{1,40})"')
compact: Callable[[Any], str] = json.JSONEncoder(separators=(",", ":")).encode
"""Write JSON without blanks. Built once: building an encoder takes longer than encoding a short text."""


def nest(prefix: str, state: Mapping[str, Any]) -> State:
    """Return the entries of ``state`` with ``prefix.`` before their names.

    Examples
    --------
    >>> nest("model", {"seed": 1})
    {'model.seed': 1}
    """
    return dict(zip(_nested(prefix, tuple(state)), state.values(), strict=True))


def pick(prefix: str, state: Mapping[str, Any]) -> State:
    """Return the entries whose names begin with ``prefix.``, without it; the inverse of ``nest``.

    Examples
    --------
    >>> pick("model", {"model.seed": 1, "steps": 2})
    {'seed': 1}
    """
    outer, dot, inner = prefix.partition(".")
    if dot:
        return pick(inner, pick(outer, state))
    found = grouped(state).get(prefix, {})
    return part_at(name_in(state, prefix + "."), {short: state[name] for short, name in found.items()})


def grouped(state: Mapping[str, Any]) -> Mapping[str, Mapping[str, str]]:
    """Return the names of the entries of each part, short ones with the full ones, and those of no part as ``"."``.

    >>> grouped({"model.seed": 1, "steps": 2})
    {'.': {'steps': 'steps'}, 'model': {'seed': 'model.seed'}}
    """
    if not isinstance(state, Part):
        return _grouped(tuple(state))
    if state.groups is None:
        state.groups = _grouped(tuple(state))
    return state.groups


def part_of(state: Mapping[str, Any], entries: Mapping[str, Any]) -> State:
    """Return some entries of a state, which keep the names they have in the whole state."""
    return part_at(name_in(state, ""), entries)


def part_at(path: str, entries: Mapping[str, Any]) -> Part:
    """Return entries whose names in the whole state begin with ``path``."""
    part = Part(entries)
    part.path, part.groups = path, None
    return part


class Part(dict[str, Any]):
    """Entries of one part of a state, which are read and not changed."""

    __slots__ = ("groups", "path")
    path: str
    """Prefix of the names of these entries in the whole state, such as ``"session.guard."``."""
    groups: Mapping[str, Mapping[str, str]] | None
    """Names of the entries by their part, kept after the first call of ``grouped``; None before it."""


def name_in(state: Mapping[str, Any], entry: str) -> str:
    """Return the name that an entry of a state, or of a part that was picked from one, has in the whole state.

    >>> name_in(pick("guard", pick("session", {"session.guard.factor": 2.0})), "factor")
    'session.guard.factor'
    """
    return state.path + entry if isinstance(state, Part) else entry


# Objects of one class have the same names. A keyed run saves thousands of states a second, and without these caches
# most of its time would go into joining and splitting names.


@functools.lru_cache(maxsize=1024)
def _nested(prefix: str, names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names with a prefix added."""
    return tuple(f"{prefix}.{name}" for name in names)


@functools.lru_cache(maxsize=1024)
def _grouped(names: tuple[str, ...]) -> dict[str, dict[str, str]]:
    """Return the names by part, as ``grouped`` does."""
    groups: dict[str, dict[str, str]] = {".": {}}
    for name in names:
        part, dot, short = name.partition(".")
        groups.setdefault(part if dot else ".", {})[short if dot else name] = name
    return groups


def resolved(state: Mapping[str, Any]) -> State:
    """Return the state with plain arrays in place of append-only ones."""
    return {name: value.array() if isinstance(value, AppendOnlyArray) else value for name, value in state.items()}


class Header(NamedTuple):
    """Description of a saved state: who wrote it, and its entries without the arrays."""

    format: int
    """Number of the state format."""
    writer: str
    """Version of driftsurf that wrote the state."""
    size: int
    """Size of all arrays in bytes."""
    entries: list[Any]
    """Name, kind and value of each entry; of an array its type and shape."""
    pickle: bool = False
    """Whether the state contains pickles, which run code when they are read."""

    def to_bytes(self) -> bytes:
        """Return the header as it is written to the file."""
        fields = {"format": self.format, "driftsurf": self.writer, "size": self.size, "entries": self.entries}
        fields |= {"pickle": True} if self.pickle else {}
        return compact(fields).encode()


def to_bytes(state: Mapping[str, Any], *, trust_pickle: bool = False) -> bytes:
    """Serialise a flat state.

    Raises CapabilityError for a value that only pickle can save, unless ``trust_pickle`` is set.

    >>> from_bytes(to_bytes({"b": 1.5, "a": "text"}))
    {'a': 'text', 'b': 1.5}
    """
    return b"".join(to_parts(state, trust_pickle=trust_pickle))


def to_parts(state: Mapping[str, Any], *, trust_pickle: bool = False) -> list[bytes | memoryview]:
    """Return the bytes of ``to_bytes`` in parts, of which the arrays of the state are not copied.

    The parts of arrays are valid as long as the arrays are unchanged.
    """
    entries: list[list[Any]] = []
    arrays: list[bytes | memoryview] = []
    for name in sorted(state):
        value = state[name]
        if isinstance(value, AppendOnlyArray):
            value = value.array()
        if isinstance(value, np.ndarray):
            array = _little_endian(name, value)
            entries.append([name, "array", array.dtype.str, list(array.shape)])
            flat: Any = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
            arrays.append(memoryview(flat))
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
                    f"{value.owner} does not support saving an exact state (capability 'exact_state'). Only pickle can "
                    "save it, which runs code when it is loaded; pass trust_pickle=True to allow that"
                )
            data = pickle.dumps(value.value, protocol=5)
            entries.append([name, "pickle", value.owner, len(data)])
            arrays.append(data)
        else:
            raise StateError(
                f"entry {name!r} is a {type(value).__name__}; a state can hold bool, int, float, str and arrays"
            )
    pickled = any(entry[1] == "pickle" for entry in entries)
    header = Header(FORMAT, __version__, sum(map(len, arrays)), entries, pickled).to_bytes()
    parts = [PREFIX, len(header).to_bytes(8, "little"), header, *arrays]
    checksum = hashlib.sha256()
    for part in parts:
        checksum.update(part)
    return [*parts, checksum.digest()]


def from_bytes(data: bytes | bytearray | memoryview, *, trust_pickle: bool = False) -> State:
    """Return the state that ``to_bytes`` serialised.

    Raises StateVersionError for a format that this version does not read, and StateError for bytes that are damaged,
    are not a state, or contain pickles while ``trust_pickle`` is not set.
    """
    header, state = _read(data if isinstance(data, bytes) else bytes(data))
    if not header.pickle:
        return state
    if not trust_pickle:
        raise StateError(
            "this saved state contains pickles, which run code when they are loaded; pass trust_pickle=True if you "
            "trust its origin (`driftsurf inspect` shows its content without loading them)"
        )
    return {name: _unpickled(name, value) if isinstance(value, Pickled) else value for name, value in state.items()}


def peek(data: bytes) -> State:
    """Return the state that ``to_bytes`` serialised, with pickles left as bytes, so that no code runs."""
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
    """Load a trusted pickle; StateError if that fails."""
    try:
        return Pickled(closed.owner, pickle.loads(closed.value))
    except Exception as error:  # loading a pickle can raise anything
        raise StateError(f"entry {name!r}, a pickle of {closed.owner}, cannot be loaded: {error!r}") from error


def read_header(data: bytes) -> Header:
    """Return the header of a saved state; raise StateError unless its checksum matches."""
    return _opened(data)[0]


def digest(data: bytes) -> str:
    """Return the checksum at the end of a saved state in hexadecimal digits."""
    return data[-_DIGEST:].hex()


def _opened(data: bytes) -> tuple[Header, memoryview, int]:
    """Return the header, everything but the checksum without a copy, and the position of the first array."""
    if len(data) < len(PREFIX) + 8 + _DIGEST:
        raise StateError(f"{len(data)} bytes are too few for a saved state: the file is empty or cut off")
    if data[: len(MAGIC)] != MAGIC:
        raise StateError("it is not a saved state of driftsurf")
    body = memoryview(data)[:-_DIGEST]
    if hashlib.sha256(body).digest() != data[-_DIGEST:]:
        raise StateError("the checksum does not match: the saved state is damaged or cut off")
    start = len(PREFIX) + 8
    stop = start + int.from_bytes(body[len(PREFIX) : start], "little")
    if stop > len(body):
        raise StateError("the header is longer than the saved state")
    text, reader = data[start:stop], data[len(MAGIC)]
    if reader > FORMAT:
        raise StateVersionError(_unreadable(f"a reader of format {reader}", text))
    header = _parsed(text)
    if header.format < OLDEST:
        raise StateVersionError(_unreadable(f"a reader of format {header.format}", text))
    if not 1 <= reader <= header.format:
        raise StateError(f"the saved state has format {header.format} but asks for a reader of format {reader}")
    if header.size != len(body) - stop:
        raise StateError(f"{len(body) - stop} bytes follow the header, which announces {header.size!r}")
    return header, body, stop


def _parsed(text: bytes) -> Header:
    """Parse a header, and refuse one that is not exactly as ``to_bytes`` would write it."""
    try:
        # As ASCII: left to guess, the JSON reader would pick whatever codec the bytes suggest.
        fields = json.loads(text.decode("ascii"))
        header = Header(
            fields["format"], fields["driftsurf"], fields["size"], fields["entries"], fields.get("pickle") is True
        )
        if header.to_bytes() != text or type(header.format) is not int or not isinstance(header.writer, str):
            raise StateError("the header of the saved state is not written as this version writes it")
    except (ValueError, LookupError, TypeError, OverflowError, RecursionError) as error:
        if isinstance(error, StateError):
            raise
        raise StateError(f"the header of the saved state cannot be read: {error}") from error
    return header


def _unreadable(needs: str, header: bytes) -> str:
    writer = _WRITER.search(header)
    version = f"driftsurf {writer[1].decode()}" if writer else "another version of driftsurf"
    return (
        f"this state was written by {version} and needs {needs}; this is driftsurf {__version__}, which reads formats "
        f"{OLDEST} to {FORMAT}. The state is intact: load it with the version that wrote it."
    )


def _read_entries(header: Header, body: memoryview, position: int) -> State:
    """Read exactly what ``to_bytes`` writes and nothing else, so that equal states have equal bytes."""
    state: dict[str, Any] = {}
    last = ""
    for entry in header.entries:
        if not isinstance(entry, list):
            raise StateError(f"{entry!r} is not an entry of a saved state")
        name, kind, *rest = entry
        if not isinstance(name, str) or (state and name <= last):
            raise StateError(f"entry {name!r} is repeated or out of order, or its name is not a text")
        last = name
        match kind, rest:
            case "array", [str(dtype), list(shape)]:
                array = _read_array(name, dtype, shape, body, position)
                state[name] = array
                position += array.nbytes
            case "float", [str(text)] if float.fromhex(text).hex() == text:
                state[name] = float.fromhex(text)
            case ("bool", [bool(value)]) | ("int", [int(value)]) | ("str", [str(value)]) if (
                type(value).__name__ == kind  # JSON's true would pass as an int
            ):
                state[name] = value
            case "pickle", [str(owner), int(size)] if header.pickle and type(size) is int and 0 <= size <= len(body):
                state[name] = Pickled(owner, bytes(body[position : position + size]))
                position += size
            case _:
                raise StateError(f"entry {name!r} has the unknown kind {kind!r}, or a value of another kind")
    if position != len(body):
        raise StateError(f"{len(body) - position} bytes follow the last entry of the saved state")
    return state


def _read_array(name: str, dtype: str, shape: list[Any], body: memoryview, position: int) -> npt.NDArray[Any]:
    if dtype not in DTYPES or not all(type(n) is int and n >= 0 for n in shape):
        raise StateError(f"entry {name!r} has type {dtype!r} and shape {shape!r}")
    # Checked before anything is allocated: a forged shape must not exhaust the memory.
    if position + math.prod(shape) * DTYPES[dtype].itemsize > len(body):
        raise StateError(f"entry {name!r} extends beyond the end of the saved state")
    view: npt.NDArray[Any] = np.ndarray(shape, DTYPES[dtype], body, position)
    return view.copy()


def _little_endian(name: str, value: npt.NDArray[Any]) -> npt.NDArray[Any]:
    array = np.asarray(value, order="C")
    if array.dtype.byteorder == ">" or (array.dtype.byteorder == "=" and not np.little_endian):
        array = array.astype(array.dtype.newbyteorder("<"))
    if array.dtype.str not in DTYPES:
        raise StateError(f"entry {name!r} has type {array.dtype}; choices: {', '.join(sorted(DTYPES))}")
    return array
