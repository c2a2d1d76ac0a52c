"""Ctrl-C during a time step: by default it interrupts at once; where asked, it waits until the step is complete.

Python raises KeyboardInterrupt between any two instructions, therefore also between a change and the note of how to
undo it. Only a signal handler can prevent that, and a library must not install one unasked. So the code that owns the
process asks for it with :class:`deferred_interrupts`, and the code that must not be interrupted marks itself with
:class:`uninterrupted`, which does nothing unless somebody asked.
"""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any

__all__ = ["deferred_interrupts", "uninterrupted"]

_active: deferred_interrupts | None = None
"""The request that is in force; only one at a time, and only in the main thread."""


class deferred_interrupts:
    """Context in which Ctrl-C waits for the end of the time step under way, so that no step is left half done.

    It installs a handler for SIGINT and removes it at the end. In a thread other than the main one, where Python
    delivers no signals, inside another such context, and where SIGINT is ignored, it does nothing.

    Examples
    --------
    >>> from driftsurf import DriftSurfClassifier
    >>> model = DriftSurfClassifier()
    >>> with deferred_interrupts():
    ...     _ = model.partial_fit([[0.0], [1.0]], [0, 1])
    """

    __slots__ = ("_depth", "_handler", "_held")

    def __enter__(self) -> None:
        global _active
        self._depth = 0
        self._held: tuple[int, FrameType | None] | None = None
        main = threading.current_thread() is threading.main_thread()
        self._handler: Any = signal.getsignal(signal.SIGINT) if main and _active is None else None
        if callable(self._handler):
            signal.signal(signal.SIGINT, self._hear)
            _active = self

    def __exit__(self, *_: object) -> None:
        global _active
        if _active is self:
            _active = None
            signal.signal(signal.SIGINT, self._handler)

    def _hear(self, number: int, frame: FrameType | None) -> None:
        if self._depth:
            self._held = number, frame
        else:
            self._handler(number, frame)

    def begin_section(self) -> None:
        """Hold Ctrl-C back from now on."""
        self._depth += 1

    def end_section(self) -> None:
        """Deliver what was held back, once the outermost section ends."""
        self._depth -= 1
        if self._held is not None and not self._depth:
            held, self._held = self._held, None
            self._handler(*held)


class uninterrupted:
    """Section that must not be interrupted halfway, if the owner of the process asked for :class:`deferred_interrupts`.

    >>> with uninterrupted():
    ...     pass
    """

    __slots__ = ("_request",)

    def __enter__(self) -> None:
        main = _active is not None and threading.current_thread() is threading.main_thread()
        self._request = _active if main else None
        if self._request is not None:
            self._request.begin_section()

    def __exit__(self, *_: object) -> None:
        if self._request is not None:
            self._request.end_section()
