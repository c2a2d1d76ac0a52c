"""Locks that are of use in a forked process, where a thread that held one is not there to release it."""

from __future__ import annotations

import os
import threading
import weakref
from typing import TYPE_CHECKING, Any, NoReturn

from driftsurf.errors import StepInProgressError

__all__ = ["ChangeLock", "RenewedLock"]

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
