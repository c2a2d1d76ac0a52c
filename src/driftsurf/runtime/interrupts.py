"""Ctrl-C waits until what is under way is whole."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

try:  # what signal wraps, without turning every handler into an enumeration: a tenth of the time
    import _signal as signals  # type: ignore[import-not-found]
except ImportError:  # pragma: no cover - every CPython has it
    import signal as signals

__all__ = ["uninterrupted"]


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Hold back SIGINT inside; deliver it at the end.

    Python raises KeyboardInterrupt between any two instructions, so also between a change and the note
    of how to take it back. Only the main thread is ever interrupted, and only it may set a handler.

    >>> with uninterrupted():
    ...     pass
    """
    handler = signals.getsignal(signals.SIGINT) if threading.current_thread() is threading.main_thread() else None
    if not callable(handler):
        yield
        return
    held: list[tuple[int, Any]] = []
    signals.signal(signals.SIGINT, lambda number, frame: held.append((number, frame)))
    try:
        yield
    finally:
        signals.signal(signals.SIGINT, handler)
        if held:
            handler(*held[0])
