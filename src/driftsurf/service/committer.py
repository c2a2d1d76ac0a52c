"""Group commit: one thread flushes a log while somebody waits, and one wake-up passes results to the event loop."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from functools import partial
from typing import Any, Self, TypeVar

from driftsurf.data.log.file_log import Log
from driftsurf.errors import InputError, LogError

T = TypeVar("T")
_here = threading.local()


@contextlib.contextmanager
def in_turns(schedule: Callable[[Callable[[], None]], object]) -> Iterator[None]:
    """Context in which records of this thread are flushed at the end of a turn of its event loop.

    ``schedule`` is ``call_soon`` of the loop. All requests that the loop has found ready share a flush in this way;
    their answers could not be sent before, because the loop is busy with the others.
    """
    _here.schedule = schedule
    try:
        yield
    finally:
        del _here.schedule


class GroupCommitter:
    """Thread that flushes a log and tells those who wait when their record is durable.

    Requests that come during a flush share the next one, so their number per flush grows with the load by itself.

    Parameters
    ----------
    log
        The log, which somebody else closes after the committer.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder, Log(Path(folder)) as log, GroupCommitter(log) as committer:
    ...     committer.when_durable(log.append(b"a row"), "it is durable").result()
    'it is durable'
    """

    def __init__(self, log: Log) -> None:
        self.log = log
        self._waiting: list[tuple[Future[Any], Any]] = []
        self._changed = threading.Condition(threading.Lock())
        self._closed = False
        self._thread = threading.Thread(target=self._work, name=f"committer of {log.folder}", daemon=True)
        self._thread.start()

    def when_durable(self, number: int, result: T) -> Future[T]:
        """Return a future that ends with this result when record ``number`` is durable.

        It ends with LogError if the log could not be flushed.
        """
        future: Future[T] = Future()
        if number < self.log.durable:
            future.set_result(result)
            return future
        if number >= self.log.next:
            raise InputError(f"record {number} does not exist; the next one will be {self.log.next}")
        with self._changed:
            if self._closed:
                raise LogError(f"the committer of {str(self.log.folder)!r} is closed")
            self._waiting.append((future, result))
            schedule = getattr(_here, "schedule", None)
            if schedule is None:
                self._changed.notify()
            elif len(self._waiting) == 1:  # for the others it is awake, or is going to be woken
                schedule(self._wake)
        return future

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify()

    def close(self) -> None:
        """Flush once more for those who wait, and end the thread; a second call does nothing."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()

    def _work(self) -> None:
        while True:
            with self._changed:
                while not self._waiting:
                    if self._closed:
                        return
                    self._changed.wait()
                waiting, self._waiting = self._waiting, []
            try:
                # The records of all who wait were appended before, so one flush makes them durable.
                self.log.sync()
            except BaseException as error:
                for future, _ in waiting:
                    if future.set_running_or_notify_cancel():
                        future.set_exception(error)
            else:
                for future, result in waiting:
                    if future.set_running_or_notify_cancel():  # one who has stopped waiting is no error
                        future.set_result(result)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class LoopBridge:
    """Delivers results of worker threads to the event loop, with one wake-up for each group.

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
