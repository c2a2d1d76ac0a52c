"""JSON from files, which may hold anything."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

__all__ = ["Repeated", "parse_json", "repeated_keys"]


def parse_json(text: str | bytes) -> Any:
    """Return the value of a JSON text; ValueError also if it is nested more deeply than Python can read.

    >>> parse_json("[" * 100_000)
    Traceback (most recent call last):
    ValueError: the JSON text is nested too deeply
    """
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("the JSON text is nested too deeply") from None


class Repeated(NamedTuple):
    """Keys that JSON text has more than once."""

    anywhere: str | None = None
    """The first such key of any object; None if every object has each of its keys once."""
    outermost: str | None = None
    """The first such key of the object that holds all others."""


def repeated_keys(text: str | bytes) -> Repeated:
    """Return keys that an object has twice, of which parsers keep the last one and tell nobody.

    Text that is no JSON has none: another parser tells what is wrong with it.

    >>> repeated_keys('{"rows": [{"price": 1, "price": 2}]}')
    Repeated(anywhere='price', outermost=None)
    """
    anywhere = last = None

    def look(pairs: list[tuple[str, Any]]) -> None:
        nonlocal anywhere, last
        last = None
        if len(dict(pairs)) < len(pairs):
            seen: set[str] = set()
            last = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
            anywhere = last if anywhere is None else anywhere

    try:
        # Numbers are not read: Python refuses whole numbers of many digits.
        json.loads(text, object_pairs_hook=look, parse_int=len, parse_float=len)
    except (ValueError, RecursionError):
        return Repeated()
    return Repeated(anywhere, last)
