"""Values that are replaced, never changed."""

from __future__ import annotations

from typing import Any, TypeVar

Value = TypeVar("Value")


def replace(value: Value, **changes: Any) -> Value:
    """``dataclasses.replace`` in a tenth of its time, which a step of a strategy spends a dozen times.

    What was checked when the value was made is not checked again: there is no ``__post_init__``. It is for
    dataclasses without slots: their attributes are one dictionary, which is copied at once.

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
        raise TypeError(f"{type(value).__name__} has no {', '.join(changes.keys() - known.keys())}")
    return new
