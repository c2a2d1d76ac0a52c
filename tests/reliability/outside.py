"""Exceptions from outside at random moments of a call: a handler of SIGTERM, an alarm, another thread."""

from __future__ import annotations

import _thread
import contextlib
import ctypes
import functools
import os
import random
import signal
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any

from tests.reliability.calls import CALLS, STARTING_THREADS, Call
from tests.reliability.harness import Outcome
from tests.reliability.lines import Alarm, Interruption

TRIALS = 400
"""Calls of each kind at scale 1, for each way."""
LONGER = 1.1
"""The exception comes within this multiple of the time of the call, so sometimes after it."""


class Delivery:
    """Raises one exception in the main thread after some seconds; none after ``end``."""

    def __init__(self) -> None:
        self.armed = False
        self.place = ""

    def start(self, after: float) -> None:
        """Let the exception come after this many seconds."""
        raise NotImplementedError

    def end(self) -> None:
        """Let no exception come any more; this may raise the one that is under way."""
        raise NotImplementedError

    def _handle(self, _: int, frame: Any) -> None:
        if self.armed:
            self.armed = False
            self.place = "".join(traceback.format_stack(frame, 3))
            raise self.kind

    kind: type[BaseException] = SystemExit


class Signal(Delivery):
    """A signal whose handler raises: SIGTERM, sent by another thread, or SIGALRM, sent by a timer."""

    def __init__(self, number: signal.Signals, kind: type[BaseException]) -> None:
        super().__init__()
        self.number, self.kind = number, kind

    def start(self, after: float) -> None:
        """Let the exception come after this many seconds."""
        signal.signal(self.number, self._handle)
        self.armed = True
        if self.number == signal.SIGALRM:
            signal.setitimer(signal.ITIMER_REAL, max(after, 1e-6))
            return
        self._thread = threading.Thread(target=self._send, args=(after,))
        self._thread.start()

    def _send(self, after: float) -> None:
        time.sleep(after)
        os.kill(os.getpid(), self.number)

    def end(self) -> None:
        """Let no exception come any more; this may raise the one that is under way."""
        self.armed = False
        if self.number == signal.SIGALRM:
            signal.setitimer(signal.ITIMER_REAL, 0.0)
        else:
            self._thread.join()


class FromThread(Delivery):
    """An exception that another thread sets with ``PyThreadState_SetAsyncExc``."""

    kind = Interruption

    def start(self, after: float) -> None:
        """Let the exception come after this many seconds."""
        main = ctypes.c_ulong(threading.get_ident())
        self._over = False

        def deliver() -> None:
            time.sleep(after)
            ctypes.pythonapi.PyThreadState_SetAsyncExc(main, ctypes.py_object(Interruption))
            self._over = True

        # Not threading.Thread: the exception may come inside its locks, and the thread would wait for them for ever.
        _thread.start_new_thread(deliver, ())

    def end(self) -> None:
        """Let no exception come any more; this may raise the one that is under way."""
        while not self._over:
            time.sleep(0.0005)


WAYS: dict[str, Callable[[], Delivery]] = {
    "SIGTERM": lambda: Signal(signal.SIGTERM, SystemExit),
    "alarm": lambda: Signal(signal.SIGALRM, Alarm),
    "thread": FromThread,
}


def interrupted(call: Callable[[], Any], delivery: Delivery, after: float) -> bool:
    """Make the call, with an exception after some seconds; return whether the exception kept it from ending."""
    broke = True
    try:
        try:
            delivery.start(after)
            call()
            broke = False
        finally:
            delivery.end()
    except delivery.kind:
        pass
    with contextlib.suppress(delivery.kind):
        delivery.end()
    return broke


def struck(name: str, way: str, trials: int, chance: random.Random) -> list[tuple[float, bool, str, str]]:
    """Return, for calls with an exception at a random moment: the moment, whether it broke the call off, what is wrong.

    The last item is where the exception came, as far as it is known.
    """
    one = CALLS[name]
    one.call(one.make())
    whole = one.make()
    before = one.look(whole)
    begin = time.perf_counter()
    one.call(whole)
    seconds = time.perf_counter() - begin
    after = one.look(whole)
    found = []
    for _ in range(trials):
        delivery, moment = WAYS[way](), chance.random() * LONGER * seconds
        found.append((moment, *_checked(one, before, after, delivery, moment), delivery.place))
    return found


def _checked(one: Call, before: bytes, after: bytes, delivery: Delivery, moment: float) -> tuple[bool, str]:
    subject = one.make()
    try:
        broke = interrupted(functools.partial(one.call, subject), delivery, moment)
    except BaseException as error:
        return True, f"{error!r} came out instead"
    state = one.looked(subject)
    if state is None:
        return broke, "a lock is held for ever"
    if state not in (before, after):
        return broke, "neither before nor after"
    if state != after:
        if not broke:
            return broke, "the exception was lost"
        one.call(subject)
    return broke, "" if one.look(subject) == after else "another state after the same call again"


def random_moments(scale: float, seed: int) -> Outcome:
    """Break every call off from outside at random moments, in every way; the seed chooses the moments.

    With less than one trial for each way, each call is broken off in one of them, in turn.
    """
    outcome = Outcome("outside", seed)
    chance = random.Random(seed)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGALRM)}
    try:
        for place_of_call, name in enumerate(CALLS):
            for way in [*WAYS][place_of_call % len(WAYS) :][:1] if TRIALS * scale < 1 else WAYS:
                if name in STARTING_THREADS:  # Thread.start of Python 3.11 replaces the exception, or never ends
                    continue
                for moment, broke, wrong, place in struck(name, way, max(1, round(TRIALS * scale)), chance):
                    case = {"call": name, "way": way, "seconds": moment, "wrong": wrong, "place": place}
                    outcome.check(not wrong, case)
                    outcome.count(f"{way}, broken off" if broke else f"{way}, too late")
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    return outcome
