"""JSON from files, which may hold anything."""

from __future__ import annotations

import json
from typing import Any

__all__ = ["parse_json"]


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
