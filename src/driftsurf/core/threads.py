"""Locks that are of use in a forked process, whose other threads are gone, and threads that end with their context."""

from __future__ import annotations

import os
import threading
import weakref
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, NoReturn, Self

from driftsurf.errors import StepInProgressError

if TYPE_CHECKING:

    class _RLock:
        """The type of ``threading.RLock()``, which typeshed has as a function."""

        def acquire(self, blocking: bool = True, timeout: float = -1.0) -> bool: ...
        def release(self) -> None: ...
        def __enter__(self) -> bool: ...
        def __exit__(self, *_: object) -> None: ...
        def _at_fork_reinit(self) -> None: ...
else:
    _RLock = type(threading.RLock())


class RenewedLock(_RLock):
    """Reentrant lock that is free in a forked process, for what is complete whenever another thread reads it.

    >>> with RenewedLock():
    ...     pass
    """

    def __init__(self) -> None:
        _locks.add(self)

    def _renew(self) -> None:
        """Be free, though a thread held the lock that this process does not have."""
        self._at_fork_reinit()


class ChangeLock(RenewedLock):
    """Reentrant lock of an object that changes step by step, which a fork in the middle of a step leaves unusable.

    If another thread held the lock when the process was forked, taking it in the forked process raises
    StepInProgressError: the object is half changed there. An object whose lock was free can be used.
    """

    def _renew(self) -> None:
        super()._renew()
        self.__class__ = _HeldAtFork


class _HeldAtFork(ChangeLock):
    """Lock of an object that another thread was changing when this process was forked."""

    def acquire(self, *_: Any, **__: Any) -> NoReturn:
        """Raise StepInProgressError."""
        raise StepInProgressError(
            "another thread was changing this object when this process was forked, so that it is half changed here. "
            'Fork while no thread learns, start processes with the method "spawn", or load the object in each of them.'
        )

    __enter__ = acquire


_locks: weakref.WeakSet[RenewedLock] = weakref.WeakSet()


def _after_fork() -> None:
    """Free the locks that threads held which this process does not have."""
    for lock in list(_locks):
        if lock.acquire(blocking=False):
            lock.release()
        else:
            lock._renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class Background(ABC):
    """Context in which a thread works; leaving it asks the thread to end, and waits for that.

    Parameters
    ----------
    name
        Name of the thread.
    """

    def __init__(self, name: str) -> None:
        self._ended = threading.Event()
        """Set when the context is left."""
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)

    @abstractmethod
    def _work(self) -> None:
        """Work until ``_ended`` is set."""

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
