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
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from types import FrameType
from typing import Any, Self, TypeVar, cast

from driftsurf.core.threads import ChangeLock
from driftsurf.errors import StepInProgressError

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
    _before: tuple[Any, FrameType] | None = None
    """The mark of the step under way, and the frame that takes it; None between steps."""

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
        while frame is not None:
            if frame is before[1]:
                raise StepInProgressError(
                    f"{type(self).__name__} is in the middle of a step of this thread; call it when the step is over. "
                    "A signal handler can set a flag, which is looked at between steps."
                )
            frame = frame.f_back
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
