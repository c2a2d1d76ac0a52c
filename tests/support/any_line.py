"""Raises an exception at a chosen line of this package: once, or from that line on at every line."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import driftsurf

ROOT = str(Path(driftsurf.__file__).parent)
NOT_BROKEN_OFF = "/kernels/"
"""Compiled code has no lines; what prepares it would be compiled again for each exception."""


class Interruption(BaseException):
    """What a signal handler of a service might raise."""


def lines_of(call: Callable[[], Any]) -> int:
    """Return the number of lines of this package that a call executes."""
    return _traced(call, 0, persistent=False)[0]


def raise_at(line: int, call: Callable[[], Any], *, persistent: bool = False) -> bool:
    """Make the call, with an exception at one of its lines; return whether one came out, which must be the same."""
    try:
        _traced(call, line, persistent=persistent)
    except Interruption:
        return True
    return False


def _traced(call: Callable[[], Any], line: int, *, persistent: bool) -> tuple[int, Any]:
    count = 0

    def trace(frame: Any, event: str, _: Any) -> Any:
        nonlocal count
        name = frame.f_code.co_filename
        if not name.startswith(ROOT) or NOT_BROKEN_OFF in name:
            return None
        if event == "line":
            count += 1
            if line and (count >= line if persistent else count == line):
                raise Interruption(f"{name}:{frame.f_lineno}")
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        result = call()
    finally:
        sys.settrace(before)
    return count, result
