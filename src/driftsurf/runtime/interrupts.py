"""Ctrl-C waits until what is under way is whole."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import Any

__all__ = ["uninterrupted"]


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Hold back SIGINT inside; deliver it at the end.

    Python raises KeyboardInterrupt between any two instructions, so also between a change and the note
    of how to take it back. Only the main thread is ever interrupted, and only it may set a handler.

    >>> with uninterrupted():
    ...     pass
    """
    handler = signal.getsignal(signal.SIGINT) if threading.current_thread() is threading.main_thread() else None
    if not callable(handler):
        yield
        return
    held: list[tuple[int, Any]] = []
    signal.signal(signal.SIGINT, lambda number, frame: held.append((number, frame)))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if held:
            handler(*held[0])
