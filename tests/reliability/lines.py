"""An exception at every line of a call: once, and from that line on at every line."""

from __future__ import annotations

import dis
import functools
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType
from typing import Any

from tests.reliability.calls import CALLS, Call
from tests.reliability.harness import Outcome

import driftsurf

ROOT = str(Path(driftsurf.__file__).parent)
MOST = 2000
"""Lines of a call at scale 1: all of most calls, and a part of those that load or save a whole state."""
EVERY_LINE = 10.0
"""Scale from which on all lines are taken."""


class Interruption(BaseException):
    """What a signal handler of a service might raise."""


class Alarm(Exception):
    """The same, as an ordinary exception, which code that handles errors of the data must not take for one of them."""


KINDS: tuple[type[BaseException], ...] = Interruption, Alarm


def lines_of(call: Callable[[], Any]) -> int:
    """Return the number of lines of this package that a call executes."""
    injector = Injector(Interruption, 0, persistent=False)
    injector.run(call)
    return injector.count


def raise_at(
    line: int, call: Callable[[], Any], *, persistent: bool = False, kind: type[BaseException] = Interruption
) -> bool:
    """Make the call, with an exception at one of its lines; return whether one came out, which must be the same."""
    return Injector(kind, line, persistent=persistent).broke(call)


class Injector:
    """Raises an exception at a line of a call, or at every line from there on; counts the lines.

    A trace function that raises is removed by Python. To raise again, a profile function, which Python keeps, puts it
    back at the next call or return: so the handlers of the first exception are broken off as well.
    """

    def __init__(self, kind: type[BaseException], line: int, *, persistent: bool) -> None:
        self.kind, self.line, self.persistent = kind, line, persistent
        self.count = 0
        self.raised: list[BaseException] = []

    def broke(self, call: Callable[[], Any]) -> bool:
        """Make the call; return whether an exception came out, which must be one that was raised here."""
        try:
            self.run(call)
        except self.kind as error:
            if not any(error is one for one in self.raised):
                raise AssertionError("another exception of the same kind came out") from error
            return True
        return False

    def run(self, call: Callable[[], Any]) -> None:
        """Make the call."""
        before, profile = sys.gettrace(), sys.getprofile()
        sys.settrace(self._trace)
        try:
            call()
        finally:
            sys.setprofile(profile)
            sys.settrace(before)

    def _trace(self, frame: Any, event: str, _: Any) -> Any:
        name = frame.f_code.co_filename
        if not name.startswith(ROOT):
            return None
        if event == "line" and frame.f_lasti not in never_raising(frame.f_code):
            self.count += 1
            if self.line and (self.count >= self.line if self.persistent else self.count == self.line):
                self.raised.append(self.kind(f"{name}:{frame.f_lineno}"))
                if self.persistent:
                    sys.setprofile(self._resume)
                raise self.raised[-1]
        return self._trace

    def _resume(self, frame: Any, event: str, _: Any) -> None:
        sys.settrace(self._trace)
        while frame is not None:
            if frame.f_code.co_filename.startswith(ROOT):
                frame.f_trace = self._trace
            frame = frame.f_back


@functools.cache
def never_raising(code: CodeType) -> frozenset[int]:
    """Return where the end of a ``with`` statement, or an exception in its body, calls ``__exit__``; and each ``try``.

    Tracing reports a line there, but Python raises no exception of a signal handler or thread between the last
    instruction of the body and that call, nor at a ``try``, which the handlers around it do not cover. From Python
    3.12 on, no handler sees what a trace function raises where a comprehension continues, but each sees a signal there.
    """
    steps = list(dis.get_instructions(code))
    ends = set()
    for before, *three in zip(steps, steps[1:], steps[2:], steps[3:], strict=False):
        if all(step.opname == "LOAD_CONST" and step.argval is None for step in three):
            ends |= {before.offset, three[0].offset} if before.opname == "SWAP" else {three[0].offset}
        if before.opname == "NOP":
            ends.add(before.offset)
        if sys.version_info >= (3, 12) and (before.opname, three[0].opname) == ("SWAP", "FOR_ITER"):
            head = three[0].offset  # where tracing reports the line; from 3.13 on it does so at the jump to it
            ends |= {head, *(one.offset for one in steps if one.opname == "JUMP_BACKWARD" and one.argval == head)}
        if three[0].opname == "WITH_EXCEPT_START":
            ends |= {before.offset, three[0].offset}
    return frozenset(ends)


def broken_off(
    name: str, *, share: int | None = None, persistent: bool = False, kind: type[BaseException] = Interruption
) -> Iterator[tuple[int, str]]:
    """Break a call off at every line, or at about ``share`` of them; yield each line, and what is wrong, if anything.

    Afterwards the state must be the one before or after the call, and repeating the call must lead to the one after.
    """
    one = CALLS[name]
    one.call(one.make())  # fills caches, so that each later call has the same lines
    whole = one.make()
    before = one.look(whole)
    count = lines_of(functools.partial(one.call, whole))
    after = one.look(whole)
    for line in range(1, count + 1, 1 if share is None else max(1, count // share)):
        yield line, _checked(one, before, after, Injector(kind, line, persistent=persistent))


def _checked(one: Call, before: bytes, after: bytes, injector: Injector) -> str:
    """Return what is wrong with a call that the injector breaks off, if anything."""
    subject = one.make()
    try:
        came = injector.broke(functools.partial(one.call, subject))
    except BaseException as error:
        return f"{error!r} came out instead"
    state = one.looked(subject)
    if state is None:
        return "a lock is held for ever"
    if state not in (before, after):
        return "neither before nor after"
    if not came and (state != after or (injector.raised and not injector.persistent)):
        return "the exception was lost"
    if state == before:
        one.call(subject)
    return "" if one.look(subject) == after else "another state after the same call again"


def every_line(scale: float, seed: int) -> Outcome:
    """Break every call off at every line, or at about 2,000 of its lines; the seed chooses the kind of exception."""
    outcome = Outcome("lines", seed)
    for name in CALLS:
        for persistent in (False, True):
            share = None if scale >= EVERY_LINE else round(MOST * scale) + 1
            for line, wrong in broken_off(name, share=share, persistent=persistent, kind=KINDS[seed % 2]):
                case = {"call": name, "line": line, "persistent": persistent, "wrong": wrong}
                outcome.check(not wrong, case)
                outcome.count("persistent" if persistent else "once")
    return outcome
