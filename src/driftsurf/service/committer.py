"""Group commit: one thread flushes a log while somebody waits for it."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import Self

from driftsurf.data.log.log import Log
from driftsurf.errors import InputError, LogError

__all__ = ["Committer"]


class Committer:
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
    >>> with TemporaryDirectory() as folder, Log(Path(folder)) as log, Committer(log) as committer:
    ...     committer.when_durable(log.append(b"a row")).result()
    1
    """

    def __init__(self, log: Log) -> None:
        self.log = log
        self._waiting: list[Future[int]] = []
        self._changed = threading.Condition(threading.Lock())
        self._closed = False
        self._thread = threading.Thread(target=self._work, name=f"committer of {log.folder}", daemon=True)
        self._thread.start()

    def when_durable(self, number: int) -> Future[int]:
        """Return a future that ends when record ``number`` is durable; its result is ``log.durable`` then.

        It ends with LogError if the log could not be flushed.
        """
        future: Future[int] = Future()
        if number < self.log.durable:
            future.set_result(self.log.durable)
            return future
        if number >= self.log.next:
            raise InputError(f"record {number} does not exist; the next one will be {self.log.next}")
        with self._changed:
            if self._closed:
                raise LogError(f"the committer of {str(self.log.folder)!r} is closed")
            self._waiting.append(future)
            self._changed.notify()
        return future

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
                durable = self.log.sync()
            except BaseException as error:
                for future in waiting:
                    if future.set_running_or_notify_cancel():
                        future.set_exception(error)
            else:
                for future in waiting:
                    if future.set_running_or_notify_cancel():  # one who has stopped waiting is no error
                        future.set_result(durable)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
