"""Group commit: a thread makes records durable for all who wait, and wakes the event loop once for each group."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from functools import partial
from typing import Any, Self, TypeVar

from driftsurf.data.log.contract import Lease, Log
from driftsurf.errors import InputError, LogConflictError, LogError, UnavailableError

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


LEASE_SECONDS = 6.0
"""Time without a renewal after which another process may write to a log that several can reach."""


class GroupCommitter:
    """Thread that makes records of a log durable, and ends the futures of those who wait for that.

    Requests that come while it does so share the next time, so their number grows with the load by itself. A log that
    keeps records as they are appended gets each of them at once; to any other, the thread appends all that have come as
    one group.

    If another process has written to the log, or a group could not be appended, what was admitted is ahead of the log:
    all who wait get UnavailableError, and nothing is taken until :meth:`begin` is called again.

    Parameters
    ----------
    log
        The log, which somebody else closes after the committer.
    stopped
        Called, in any thread, when no more records are taken.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from driftsurf.data.log.file_log import FileLog
    >>> with TemporaryDirectory() as folder, FileLog(Path(folder)) as log, GroupCommitter(log) as committer:
    ...     committer.when_durable(committer.append(b"a row"), "it is durable").result()
    'it is durable'
    """

    def __init__(self, log: Log, stopped: Callable[[], object] = lambda: None) -> None:
        self.log = log
        self.term: int = 0
        """How often records were no longer taken: a number that a record got in an earlier term says nothing."""
        self._stopped = stopped
        self._refusal = ""
        """Why no records are taken; empty as long as they are."""
        self._next = log.next
        self._queue: list[bytes] = []
        """Records that have a number and are not in the log."""
        self._waiting: list[tuple[Future[Any], Any]] = []
        self._lease: Lease | None = None
        self._renewed = 0.0
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._closed = False
        self._thread = threading.Thread(target=self._work, name=f"committer of {log.name}", daemon=True)
        self._thread.start()

    def begin(self, number: int, lease: Lease | None = None) -> None:
        """Take records, of which the first gets this number, under a lease of the log."""
        with self._lock:
            self._next, self._refusal = number, ""
            self._lease, self._renewed = None if self.log.kept_at_append else lease, time.monotonic()
            self._changed.notify()

    def append(self, payload: bytes, term: int | None = None) -> int:
        """Give a record to the log, and return its number; UnavailableError if the term is over."""
        with self._lock:
            if self._refusal or (term is not None and term != self.term):
                raise self._over()
            number = self._next
            if self.log.kept_at_append:
                try:
                    self.log.append((payload,), number)
                except LogConflictError as error:
                    waiting = self._stop(error)
                else:
                    self._next = number + 1
                    return number
            elif len(payload) > self.log.largest:
                raise InputError(
                    f"a record of {len(payload)} bytes is too large for {self.log.name}; split it into parts of at "
                    f"most {self.log.largest} bytes"
                )
            else:
                self._queue.append(payload)
                self._next = number + 1
                self._wake_soon(first=len(self._queue) == 1)
                return number
        self._fail(waiting, UnavailableError(self._refusal))
        self._stopped()
        raise UnavailableError(self._refusal)

    def when_durable(self, number: int, result: T, term: int | None = None) -> Future[T]:
        """Return a future that ends with this result when record ``number`` is durable.

        It ends with LogError if the log could not be flushed, and with UnavailableError if the record may not be in it;
        UnavailableError if ``term``, in which the record got its number, is over.
        """
        future: Future[T] = Future()
        with self._lock:
            if self._refusal or (term is not None and term != self.term):
                raise self._over()
            if number < self.log.durable:
                future.set_result(result)
                return future
            if number >= max(self._next, self.log.next):
                raise InputError(f"record {number} does not exist; the next one will be {self._next}")
            if self._closed:
                raise LogError(f"the committer of {self.log.name!r} is closed")
            self._waiting.append((future, result))
            self._wake_soon(first=len(self._waiting) == 1)
        return future

    def flush(self) -> None:
        """Return when everything that was appended before is durable."""
        with self._lock:
            last, term = max(self._next, self.log.next) - 1, self.term
        self.when_durable(last, None, term).result()

    def _over(self) -> UnavailableError:
        return UnavailableError(self._refusal or "another process has written to the log; send the request again")

    def _wake_soon(self, *, first: bool) -> None:
        """Wake the thread, at the end of the turn if an event loop has turns; for those after the first it is awake."""
        schedule = getattr(_here, "schedule", None)
        if schedule is None:
            self._changed.notify()
        elif first:
            schedule(self._wake)

    def _wake(self) -> None:
        with self._lock:
            self._changed.notify()

    def close(self) -> None:
        """Append and flush once more for those who wait, and end the thread; a second call does nothing."""
        with self._lock:
            self._closed = True
            self._changed.notify()
        self._thread.join()
        lease, self._lease = self._lease, None
        if lease is not None:
            lease.release()

    def _work(self) -> None:
        while True:
            with self._lock:
                while not (self._waiting or self._queue or self._closed):
                    if not self._changed.wait(None if self._lease is None else LEASE_SECONDS / 3):
                        break  # to renew the lease
                if self._closed and not (self._waiting or self._queue):
                    return
                waiting, self._waiting = self._waiting, []
                queue, self._queue = self._queue, []
                first, lease = self._next - len(queue), self._lease
            try:
                self._renew(lease)
                if queue:
                    self.log.append(queue, first)
                if waiting or queue:
                    self.log.commit()
            except BaseException as error:
                if self.log.kept_at_append and not isinstance(error, LogConflictError):
                    self._fail(waiting, error)
                    continue
                with self._lock:
                    waiting += self._stop(error)
                self._fail(waiting, UnavailableError(self._refusal))
                self._stopped()
            else:
                for future, result in waiting:
                    if future.set_running_or_notify_cancel():  # one who has stopped waiting is no error
                        future.set_result(result)

    def _renew(self, lease: Lease | None) -> None:
        """Renew the lease if it is time; LogConflictError if another process may have it."""
        if lease is not None and time.monotonic() - self._renewed >= LEASE_SECONDS / 3:
            if not lease.renew():
                raise LogConflictError("another process may have taken the lease")
            self._renewed = time.monotonic()

    def _stop(self, error: BaseException) -> list[tuple[Future[Any], Any]]:
        """Take no more records, and return who waits. The caller holds the lock."""
        self.term += 1
        self._refusal = (
            f"it is not known whether the rows are in the log {self.log.name!r} ({error}); send the request again, "
            "with the same idempotency key if it has one"
        )
        waiting, self._waiting, self._queue, self._lease = self._waiting, [], [], None
        return waiting

    @staticmethod
    def _fail(waiting: list[tuple[Future[Any], Any]], error: BaseException) -> None:
        for future, _ in waiting:
            if future.set_running_or_notify_cancel():
                future.set_exception(error)

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
