"""Changes of the entries of a saved state."""

from __future__ import annotations

import json
import math
import random
from typing import Any

import numpy as np

INTEGERS = (
    0,
    1,
    2,
    3,
    7,
    -1,
    -2,
    255,
    1_000,
    65_536,
    2**31 - 1,
    2**31,
    2**40,
    2**62,
    2**63 - 1,
    2**63,
    2**64,
    -(2**63),
)
NUMBERS = (0.0, -0.0, 1.0, -1.0, 0.5, 1e-300, 1e9, -1e9, 1e15, 1e300, math.inf, -math.inf, math.nan)
TEXTS = (
    "",
    "x",
    "[]",
    "{}",
    "null",
    "0",
    "NaN",
    "[1]",
    '{"a": 1}',
    "float32",
    "float64",
    "../x",
    "\x00",
    "é",
    "9" * 400,
)
DTYPES = ("<f8", "<f4", "<i8", "<i4", "|b1", "|u1")

State = dict[str, Any]


def changed(state: State, chance: random.Random) -> tuple[State, list[str]]:
    """Return a copy of a state with one to three changes, and what they were."""
    new, what = dict(state), list[str]()
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        if not new:  # all of it was dropped
            break
        change = chance.choice(CHANGES)
        what.append(f"{change.__name__.removeprefix('_')} {change(new, chance)}")
    return new, what


def _one(state: State, chance: random.Random) -> str:
    """Give one entry another value of its type."""
    name = _any(state, chance)
    state[name] = other(state[name], chance, _sizes(state))
    return name


def _retype(state: State, chance: random.Random) -> str:
    name = _any(state, chance)
    value = state[name]
    if isinstance(value, np.ndarray):
        with np.errstate(all="ignore"):
            state[name] = (
                value.astype(chance.choice(DTYPES)) if chance.random() < 0.7 else chance.choice((0, 0.0, "", True))
            )
    else:
        state[name] = chance.choice((str(value), 1, 1.0, True, np.zeros(3), np.zeros((2, 2), np.int64)))
    return name


def _drop(state: State, chance: random.Random) -> str:
    name = _any(state, chance)
    state.pop(name)
    return name


def _drop_part(state: State, chance: random.Random) -> str:
    """Drop all entries of a part."""
    name = _any(state, chance).rpartition(".")[0]
    for entry in [entry for entry in state if entry.startswith(name + ".")]:
        state.pop(entry)
    return name


def _add(state: State, chance: random.Random) -> str:
    name = _any(state, chance)
    new = chance.choice((name + "x", name.rpartition(".")[0] + ".strange", "strange", name + ".more", ""))
    state.setdefault(new, state[name])
    return new


def _swap(state: State, chance: random.Random) -> str:
    left, right = _any(state, chance), _any(state, chance)
    state[left], state[right] = state[right], state[left]
    return f"{left} and {right}"


def _copy(state: State, chance: random.Random) -> str:
    """Give an entry the value of another one of the same type."""
    left = _any(state, chance)
    alike = [name for name, value in state.items() if type(value) is type(state[left])]
    right = chance.choice(alike)
    state[left] = state[right]
    return f"{right} to {left}"


def _shift(state: State, chance: random.Random) -> str:
    """Add one number to several integers, as if rows were counted from elsewhere."""
    names = [name for name, value in state.items() if type(value) is int]
    if len(names) < 2:
        return _one(state, chance)
    part = chance.choice(names).rpartition(".")[0]
    own = [name for name in names if name.startswith(part)]
    chosen = [name for name in own if chance.random() < 0.5]
    by = chance.choice((1, -1, 7, -7, 100, 301, 10**6, 2**32))
    for name in chosen:
        state[name] += by
    return f"{', '.join(chosen)} by {by}"


def _resize(state: State, chance: random.Random) -> str:
    """Change a length everywhere: in all arrays that have it, and in all integers that equal it."""
    sizes = sorted({length for value in state.values() if isinstance(value, np.ndarray) for length in value.shape})
    if not sizes:
        return _one(state, chance)
    old = chance.choice(sizes)
    new = max(0, old + chance.choice((1, -1, 2, -2, 5, -old, old)))
    for name, value in state.items():
        if isinstance(value, np.ndarray) and old in value.shape:
            state[name] = np.resize(value, [new if length == old else length for length in value.shape])
        elif type(value) is int and value == old and chance.random() < 0.8:
            state[name] = new
    return f"{old} to {new}"


def _length(state: State, chance: random.Random) -> str:
    """Change the length of one array."""
    arrays = [name for name, value in state.items() if isinstance(value, np.ndarray) and value.ndim]
    if not arrays:
        return _one(state, chance)
    name = chance.choice(arrays)
    value = state[name]
    count = max(0, len(value) + chance.choice((1, -1, -len(value), len(value))))
    state[name] = np.resize(value, (count, *value.shape[1:]))
    return f"{name} to {count}"


def _form(state: State, chance: random.Random) -> str:
    """Give an array other dimensions."""
    arrays = [name for name, value in state.items() if isinstance(value, np.ndarray) and value.size]
    if not arrays:
        return _one(state, chance)
    name = chance.choice(arrays)
    value = state[name]
    state[name] = chance.choice((value.reshape(-1), value[None], value[..., None], np.ascontiguousarray(value.T)))
    return name


CHANGES = (
    _one,
    _one,
    _one,
    _one,
    _one,
    _retype,
    _drop,
    _drop_part,
    _add,
    _swap,
    _copy,
    _shift,
    _shift,
    _resize,
    _length,
    _form,
)


def other(value: Any, chance: random.Random, sizes: list[int]) -> Any:
    """Return another value of the same type."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        near = value + chance.choice((1, -1, 2, -2, 10))
        return chance.choice((near, near, 2 * value, -value, chance.choice(INTEGERS), chance.choice(sizes or [0])))
    if isinstance(value, float):
        return chance.choice((chance.choice(NUMBERS), -value, 2.0 * value))
    if isinstance(value, str):
        return _other_text(value, chance, sizes)
    return _other_array(value, chance, sizes)


def _other_array(value: Any, chance: random.Random, sizes: list[int]) -> Any:
    new = value.copy()
    if not new.size:
        return np.zeros(chance.choice((1, 3)), new.dtype)
    if new.dtype.kind == "b":
        new.flat[chance.randrange(new.size)] ^= True
        return new
    odd: Any = chance.choice(NUMBERS)
    if new.dtype.kind in "iu":
        limits = np.iinfo(new.dtype)
        near = int(new.flat[chance.randrange(new.size)]) + chance.choice((1, -1, 2))
        odd = min(max(chance.choice((near, near, *INTEGERS, *sizes)), limits.min), limits.max)
    where: Any = slice(None) if chance.random() < 0.3 else chance.randrange(new.size)
    with np.errstate(all="ignore"):
        new.flat[where] = odd
    return new


def _other_text(value: str, chance: random.Random, sizes: list[int]) -> str:
    try:
        held = json.loads(value)
    except ValueError:
        held = None
    if held is None or not isinstance(held, dict | list) or chance.random() < 0.2:
        cut = chance.randrange(len(value) + 1)
        return chance.choice(
            (*TEXTS, value[:cut], value + "x", value[:cut] + chance.choice('"[]{},0x') + value[cut + 1 :])
        )
    return json.dumps(_other_leaf(held, chance, sizes))


def _other_leaf(held: Any, chance: random.Random, sizes: list[int]) -> Any:
    """Return a JSON value with one change somewhere inside it."""
    if isinstance(held, dict | list) and held:
        keys = list(held) if isinstance(held, dict) else list(range(len(held)))
        key: Any = chance.choice(keys)
        new: Any = held.copy()
        act = chance.random()
        if act < 0.1:
            del new[key]
        elif act < 0.2 and isinstance(new, list):
            new.append(new[key])
        elif act < 0.2:
            new["strange"] = 1
        else:
            new[key] = _other_leaf(held[key], chance, sizes)
        return new
    if held is None or isinstance(held, dict | list) or chance.random() < 0.2:
        return chance.choice((None, True, 0, -1, 1.5, "x", [], {}, [1], 10**12, "0x1p+3"))
    return other(held, chance, sizes)


def _any(state: State, chance: random.Random) -> str:
    return chance.choice(list(state) or [""])


def _sizes(state: State) -> list[int]:
    """Return numbers that occur in a state: lengths, and integers."""
    lengths = [length for value in state.values() if isinstance(value, np.ndarray) for length in value.shape]
    return lengths + [value for value in state.values() if type(value) is int]
