"""SIGINT and SIGTERM in a run with checkpoints: noticed between two steps, or while the run waits for rows."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import Any, Self

__all__ = ["Signals", "Woken"]


class Woken(Exception):
    """A signal came while the run waited for rows."""


class Signals:
    """Context that collects SIGINT and SIGTERM, which would otherwise end the process.

    Parameters
    ----------
    held
        Whether to do so at all. Threads other than the main one receive no signals.
    """

    def __init__(self, *, held: bool) -> None:
        self.received: list[int] = []
        self._held = held and threading.current_thread() is threading.main_thread()
        self._waking = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if self._held:
            self._before = {n: signal.signal(n, self._hear) for n in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _hear(self, number: int, frame: object) -> None:
        self.received.append(number)
        if self._waking:
            self._waking = False
            raise Woken

    @contextlib.contextmanager
    def waking(self) -> Iterator[None]:
        """Raise Woken when a signal comes inside, or came just before: a pipe may be silent for ever."""
        self._waking = True
        try:
            if self.received:
                raise Woken
            yield
        finally:
            self._waking = False
