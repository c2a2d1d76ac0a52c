"""SIGINT and SIGTERM in a run that can go on later: heard between two steps, or while it waits for rows."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import Any, Self

__all__ = ["Signals", "Stopped", "Woken"]


class Stopped(Exception):
    """The run was asked to stop by a signal, and has; the last checkpoint has all of it."""

    def __init__(self, signal_number: int, step: int) -> None:
        super().__init__(f"stopped by {signal.Signals(signal_number).name} before step {step}")
        self.exit_code = 128 + signal_number
        self.step = step


class Woken(Exception):
    """A signal came while rows were waited for."""


class Signals:
    """Collects SIGINT and SIGTERM instead of dying of them.

    Parameters
    ----------
    held
        Whether to do so at all. Threads other than the main one hear no signals.
    """

    def __init__(self, *, held: bool) -> None:
        self.asked: list[int] = []
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
        self.asked.append(number)
        if self._waking:
            self._waking = False
            raise Woken

    @contextlib.contextmanager
    def waking(self) -> Iterator[None]:
        """Inside, a signal raises Woken at once: a pipe may be silent for ever."""
        self._waking = True
        try:
            yield
        finally:
            self._waking = False
