"""Ctrl-C waits until what is under way is whole."""

from __future__ import annotations

import threading
from typing import Any

try:  # what signal wraps, without turning every handler into an enumeration: a tenth of the time
    import _signal as signals  # type: ignore[import-not-found]
except ImportError:  # pragma: no cover - every CPython has it
    import signal as signals

__all__ = ["uninterrupted"]


class uninterrupted:
    """Hold back SIGINT inside; deliver it at the end.

    Python raises KeyboardInterrupt between any two instructions, so also between a change and the note
    of how to take it back. Only the main thread is ever interrupted, and only it may set a handler.

    >>> with uninterrupted():
    ...     pass
    """

    __slots__ = ("_handler", "_held")

    def __enter__(self) -> None:
        main = threading.current_thread() is threading.main_thread()
        self._handler = signals.getsignal(signals.SIGINT) if main else None
        self._held: list[tuple[int, Any]] = []
        if callable(self._handler):
            signals.signal(signals.SIGINT, self._hold)

    def __exit__(self, *_: object) -> None:
        if callable(self._handler):
            signals.signal(signals.SIGINT, self._handler)
            if self._held:
                self._handler(*self._held[0])

    def _hold(self, number: int, frame: Any) -> None:
        self._held.append((number, frame))
