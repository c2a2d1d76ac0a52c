"""The way of results from other threads into the event loop: one wake-up for all that end together."""

from __future__ import annotations

import asyncio
from collections import deque
from concurrent.futures import Future
from functools import partial
from typing import Any, TypeVar

__all__ = ["Crossing"]

T = TypeVar("T")


class Crossing:
    """Lets coroutines wait for futures of other threads.

    A flush of the log ends many futures at once. ``asyncio.wrap_future`` would wake the event loop for each of them.
    """

    def __init__(self) -> None:
        self._ended: deque[asyncio.Future[None]] = deque()
        self._woken: asyncio.AbstractEventLoop | None = None
        """The event loop that has been woken and has not looked yet."""

    async def result(self, future: Future[T]) -> T:
        """Return the result of a future; a caller that is cancelled changes nothing about the future."""
        if not future.done():
            waiter = asyncio.get_running_loop().create_future()
            future.add_done_callback(partial(self._arrived, waiter))
            await waiter
        return future.result()

    def _arrived(self, waiter: asyncio.Future[None], _: Future[Any]) -> None:
        """Tell the event loop that a future has ended, unless it is about to look; in any thread."""
        self._ended.append(waiter)
        loop = waiter.get_loop()
        if self._woken is not loop:
            self._woken = loop
            try:
                loop.call_soon_threadsafe(self._wake)
            except RuntimeError:  # it is closed, so that nobody waits
                self._woken = None

    def _wake(self) -> None:
        self._woken = None  # before looking: what ends from now on wakes the loop again
        while self._ended:
            waiter = self._ended.popleft()
            if not waiter.done():
                waiter.set_result(None)
