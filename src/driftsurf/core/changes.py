"""Objects that change one step at a time: completely or not at all, whatever raises where, and from any thread.

An object of this kind has a lock, which every call that changes it or saves it takes. Before the first change of a step
it *marks* where it is and keeps the mark itself; the last statement of the step publishes the new values and drops the
mark. If an exception breaks a step off, the object is put back to the mark: at once, and if an exception breaks that
off too, by the next call. So it makes no difference whether the exception comes from the data, from a signal handler or
from another thread, nor at which line.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import os
import signal
import sys
import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from types import FrameType
from typing import TYPE_CHECKING, Any, Generic, NoReturn, Self, TypeVar, cast

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


if sys.platform != "win32":
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


Result = TypeVar("Result")
Method = TypeVar("Method", bound=Callable[..., Any])
NOT_COPIED = "lock", "_before"


class UndoStack:
    """The way back from the changes of a step, which a step that fails goes in reverse order."""

    __slots__ = ("_undos",)

    def __init__(self) -> None:
        self._undos: list[tuple[Callable[..., Any], tuple[Any, ...]]] = []

    def callback(self, undo: Callable[..., Any], *arguments: Any) -> None:
        """Add the undo of a change. A later change is undone before this one, because it may build on it."""
        self._undos.append((undo, arguments))

    def close(self) -> None:
        """Undo everything.

        An exception may have come between a change and the note of its undo. Then another undo may fail, which must
        not hide that exception; only ``put_back`` is complete in this case.
        """
        while self._undos:
            undo, arguments = self._undos.pop()
            with contextlib.suppress(Exception):
                undo(*arguments)


class Changeable:
    """Base class of objects that change one step at a time. A subclass says how it is marked and put back.

    ``_now`` holds the values that other threads may read at any time without the lock; they are replaced as a whole.
    """

    lock: ChangeLock
    """Held by every call that changes or saves the object; a thread that holds it may call them again."""
    _now: Any
    _before: tuple[Any, FrameType | None] | None = None
    """The mark of the step under way, and the frame that takes it (None: the native core does); None between steps."""

    def __new__(cls, *_: Any, **__: Any) -> Self:
        """Make the object with a lock of its own."""
        made = super().__new__(cls)
        made.lock = ChangeLock()
        return made

    # -------------------------------------------------------------------- defined by a subclass

    def _mark(self) -> Any:
        """Return a mark of the object, for ``_put_back``; change nothing."""
        raise NotImplementedError

    def _put_back(self, mark: Any) -> None:
        """Return to the mark from any point of a step; if this is broken off, calling it again completes it."""
        raise NotImplementedError

    # -------------------------------------------------------------------- steps

    def settle(self) -> None:
        """Go back to before a step that was broken off. The caller holds the lock.

        StepInProgressError if the step is not over: the call comes from inside it, such as from a signal handler.
        """
        before = self._before
        if before is None:
            return
        frame: FrameType | None = sys._getframe()
        while frame is not before[1] and frame is not None:
            frame = frame.f_back
        if frame is before[1]:
            raise StepInProgressError(
                f"{type(self).__name__} is in the middle of a step of this thread; call it when the step is over. "
                "A signal handler can set a flag, which is looked at between steps."
            )
        self._put_back(before[0])
        self._before = None

    def _change(self, step: Callable[..., tuple[Any, Result]], *arguments: Any) -> Result:
        """Take a step, which returns the new ``_now`` and a result: completely, or not at all if anything raises.

        The caller holds the lock.
        """
        if self._before is not None:
            self.settle()
        mark = self._mark()
        self._before = mark, sys._getframe()
        try:
            now, result = step(*arguments)
            self._now, self._before = now, None  # one statement: an exception comes before or after it
        except BaseException:
            self._put_back(mark)
            self._before = None
            raise
        return result

    # -------------------------------------------------------------------- copies

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Return a copy as of the last complete step, with a lock of its own."""
        made = type(self).__new__(type(self))
        memo[id(self)] = made
        with self.lock:
            self.settle()
            vars(made).update(copy.deepcopy(self._entries(), memo))
        return made

    def __getstate__(self) -> dict[str, Any]:
        """Return what is pickled: copies, since the pickle is written when the lock is free again."""
        with self.lock:
            self.settle()
            return copy.deepcopy(self._entries())

    def _entries(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in NOT_COPIED}


def locked(method: Method) -> Method:
    """Return a method of a :class:`Changeable` that holds its lock, between steps: calls of such methods take turns."""

    @functools.wraps(method)
    def call(self: Changeable, *arguments: Any, **options: Any) -> Any:
        with self.lock:
            self.settle()
            return method(self, *arguments, **options)

    return cast("Method", call)


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


def uninterrupted() -> AbstractContextManager[None]:
    """Return a section that must not be interrupted halfway, if the owner of the process asked for that.

    It asks with :class:`deferred_interrupts`.

    >>> with uninterrupted():
    ...     pass
    """
    request = _active
    if request is None or threading.current_thread() is not threading.main_thread():
        return _ANYWHERE
    return _Section(request)


class _Section:
    """Holds Ctrl-C back."""

    __slots__ = ("_request",)

    def __init__(self, request: deferred_interrupts) -> None:
        self._request = request

    def __enter__(self) -> None:
        self._request.begin_section()

    def __exit__(self, *_: object) -> None:
        self._request.end_section()


_ANYWHERE = nullcontext()
"""A section for which nobody asked."""


Value = TypeVar("Value")


class lazy(Generic[Value]):
    """An attribute that is computed when it is first asked for, as ``functools.cached_property`` without its lock.

    The lock takes as long as computing something small. Two threads may compute the value twice, which is the same.

    >>> class Circle:
    ...     @lazy
    ...     def area(self) -> float:
    ...         print("computed")
    ...         return 3.14
    >>> circle = Circle()
    >>> circle.area, circle.area
    computed
    (3.14, 3.14)
    """

    def __init__(self, compute: Callable[[Any], Value]) -> None:
        self.compute = compute
        self.name: str = compute.__name__
        self.__doc__ = compute.__doc__

    def __get__(self, owner: Any, kind: Any = None) -> Value:
        """Compute the value and store it under its name, where Python finds it from now on."""
        value = self.compute(owner)
        vars(owner)[self.name] = value
        return value


def replace(value: Value, **changes: Any) -> Value:
    """Return a copy of a dataclass with some attributes changed, ten times as fast as ``dataclasses.replace``.

    A step of a strategy does this a dozen times. ``__post_init__`` is not called, so its checks are not repeated. Only
    for dataclasses without slots: their attributes are one dictionary, which is copied as a whole.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Range:
    ...     lo: int
    ...     hi: int
    >>> replace(Range(1, 5), hi=7)
    Range(lo=1, hi=7)
    """
    new: Value = object.__new__(type(value))
    entries, known = new.__dict__, value.__dict__
    entries.update(known, **changes)
    if len(entries) > len(known):
        raise TypeError(f"{type(value).__name__} has no attribute {', '.join(changes.keys() - known.keys())}")
    return new
