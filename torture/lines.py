"""An exception at every line of a call: once, and from that line on at every line."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_array

import driftsurf
from driftsurf.core.contracts import State
from driftsurf.core.state import to_bytes
from driftsurf.learners import LogisticRegression, SoftmaxRegression
from driftsurf.session.session import Session
from driftsurf.strategies import AUE, DriftSurf
from torture.harness import Outcome

ROOT = str(Path(driftsurf.__file__).parent)
NOT_BROKEN_OFF = "/kernels/"
"""Compiled code has no lines; what prepares it would be compiled again for each exception."""


class Interruption(BaseException):
    """What a signal handler of a service might raise."""


def lines_of(call: Callable[[], Any]) -> int:
    """Return the number of lines of this package that a call executes."""
    return _traced(call, 0, persistent=False)[0]


def raise_at(line: int, call: Callable[[], Any], *, persistent: bool = False) -> bool:
    """Make the call, with an exception at one of its lines; return whether one came out, which must be the same."""
    try:
        _traced(call, line, persistent=persistent)
    except Interruption:
        return True
    return False


def _traced(call: Callable[[], Any], line: int, *, persistent: bool) -> tuple[int, Any]:
    count = 0

    def trace(frame: Any, event: str, _: Any) -> Any:
        nonlocal count
        name = frame.f_code.co_filename
        if not name.startswith(ROOT) or NOT_BROKEN_OFF in name:
            return None
        if event == "line":
            count += 1
            if line and (count >= line if persistent else count == line):
                raise Interruption(f"{name}:{frame.f_lineno}")
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        result = call()
    finally:
        sys.settrace(before)
    return count, result


# ---------------------------------------------------------------------------- calls of a session

RNG = np.random.default_rng(5)
X = RNG.normal(size=(600, 3))
Y = np.where(np.arange(600) < 300, X[:, 0] > 0, X[:, 0] <= 0).astype(int)
SPARSE = csr_array(X * (RNG.random(X.shape) < 0.4))


def learned(rows: Any, strategy: Any = None, **options: Any) -> Session:
    """Return a session that has learned four batches and is in a reactive state."""
    one = Session(strategy or DriftSurf(LogisticRegression(), max_rows=150), **options)
    for start in range(0, 400, 100):
        one.learn(rows[start : start + 100], Y[start : start + 100])
    return one


def softmax() -> Session:
    """Return a session for which the class 2 is new."""
    one = Session(DriftSurf(SoftmaxRegression()))
    one.learn(X[:100], Y[:100])
    return one


@functools.cache
def _other() -> State:
    """Return the state of another session."""
    return learned(X[200:]).state()


CALLS: dict[str, tuple[Callable[[], Session], Callable[[Session], Any]]] = {
    "observe": (lambda: learned(X), lambda one: one.observe(X[400:500], Y[400:500])),
    "first": (lambda: Session(DriftSurf(LogisticRegression())), lambda one: one.observe(X[:100], Y[:100])),
    "sparse": (lambda: learned(SPARSE), lambda one: one.learn(SPARSE[400:500], Y[400:500])),
    "ensemble": (
        lambda: learned(X, AUE(LogisticRegression(), experts=3)),
        lambda one: one.learn(X[400:500], Y[400:500]),
    ),
    "new class": (softmax, lambda one: one.learn(X[100:200], Y[100:200] * 2)),
    "one row": (lambda: learned(X, batch_size=90), lambda one: one.try_buffer_one(X[400:401], Y[400:401])),
    "buffer": (lambda: learned(X, batch_size=90), lambda one: one.observe(X[400:430], Y[400:430])),
    "flush": (lambda: learned(X, batch_size=90), lambda one: one.flush()),
    "drop": (lambda: learned(X, batch_size=90), lambda one: one.drop_pending()),
    "reset": (lambda: learned(X), lambda one: one.reset("asked for")),
    "restore": (lambda: learned(X), lambda one: one.restore(_other())),
    "save": (lambda: learned(X), lambda one: one.state()),
}


def bytes_of(one: Session) -> bytes:
    """Return the whole state, as of one step."""
    with one.lock:
        return to_bytes(one.state())


def broken_off(name: str, *, share: int | None = None, persistent: bool = False) -> Iterator[tuple[int, str]]:
    """Break a call off at every line, or at about ``share`` of them; yield each line, and what is wrong, if anything.

    Afterwards the state must be the one before or after the call, and repeating the call must lead to the one after.
    """
    make, call = CALLS[name]
    whole = make()
    before = bytes_of(whole)
    count = lines_of(functools.partial(call, whole))
    after = bytes_of(whole)
    for line in range(1, count + 1, 1 if share is None else max(1, count // share)):
        one = make()
        came = raise_at(line, functools.partial(call, one), persistent=persistent)
        state = bytes_of(one)
        if state not in (before, after):
            yield line, "neither before nor after"
        elif not came and state != after:
            yield line, "undone without an exception"
        else:
            if state == before:
                call(one)
            yield line, "" if bytes_of(one) == after else "another state after the same call again"


def every_line(scale: float, seed: int) -> Outcome:
    """Break every call of a session off at every line; the lines do not depend on the seed."""
    outcome = Outcome("lines", seed)
    for name in CALLS:
        for persistent in (False, True):
            share = None if scale >= 1.0 else round(400 * scale) + 1
            for line, wrong in broken_off(name, share=share, persistent=persistent):
                outcome.check(not wrong, {"call": name, "line": line, "persistent": persistent, "wrong": wrong})
                outcome.count("persistent" if persistent else "once")
    return outcome
