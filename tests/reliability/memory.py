"""MemoryError at every allocation of a call: of Python's objects, and of the data of numpy's arrays.

Python's allocations fail through ``_testcapi.set_nomemory``, once, or forty times in a row so that the handling of the
first error fails too. (For good would not do: Python 3.11 then repeats the unwinding of a ``with`` block for ever.) The
data of arrays fails through numpy's own memory handler, once, or for good.
"""

from __future__ import annotations

import ctypes
import faulthandler
import functools
import importlib
import itertools
import os
import signal
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from tests.reliability.calls import CALLS, STARTING_THREADS, Call
from tests.reliability.harness import Outcome

_testcapi: Any
try:
    _testcapi = importlib.import_module("_testcapi")
except ImportError:  # some distributions leave it out
    _testcapi = None

ALLOCATIONS = 300
"""Allocations of each call that fail at scale 1, evenly spread."""
IN_A_ROW = 40
PATIENCE = 90
"""Seconds after which a process that makes no progress is ended: longer than another thread waits for a lock."""

# ---------------------------------------------------------------------------- numpy's data

_C = ctypes.CDLL(None)
_C.malloc.restype = _C.calloc.restype = _C.realloc.restype = ctypes.c_void_p
_C.malloc.argtypes, _C.free.argtypes = [ctypes.c_size_t], [ctypes.c_void_p]
_C.calloc.argtypes, _C.realloc.argtypes = [ctypes.c_size_t] * 2, [ctypes.c_void_p, ctypes.c_size_t]
_POINTER, _SIZE = ctypes.c_void_p, ctypes.c_size_t
_MALLOC = ctypes.CFUNCTYPE(_POINTER, _POINTER, _SIZE)
_CALLOC = ctypes.CFUNCTYPE(_POINTER, _POINTER, _SIZE, _SIZE)
_REALLOC = ctypes.CFUNCTYPE(_POINTER, _POINTER, _POINTER, _SIZE)
_FREE = ctypes.CFUNCTYPE(None, _POINTER, _POINTER, _SIZE)
_SET_HANDLER = 304
"""Place of ``PyDataMem_SetHandler`` in numpy's table of functions."""


class _Handler(ctypes.Structure):
    """``PyDataMem_Handler`` of numpy's headers."""

    _fields_ = (
        ("name", ctypes.c_char * 127),
        ("version", ctypes.c_uint8),
        ("context", _POINTER),
        ("malloc", _MALLOC),
        ("calloc", _CALLOC),
        ("realloc", _REALLOC),
        ("free", _FREE),
    )


class Arrays:
    """numpy's memory for the data of arrays, of which allocations fail on demand."""

    def __init__(self) -> None:
        self.count, self.first, self.last = 0, 0, 0
        self._handler = _Handler(
            b"failing",
            1,
            None,
            _MALLOC(lambda _, size: None if self._fails() else _C.malloc(size or 1)),
            _CALLOC(lambda _, count, size: None if self._fails() else _C.calloc(count or 1, size or 1)),
            _REALLOC(lambda _, place, size: None if self._fails() else _C.realloc(place, size or 1)),
            _FREE(lambda _, place, __: _C.free(place)),
        )
        api = ctypes.pythonapi
        api.PyCapsule_New.restype, api.PyCapsule_New.argtypes = ctypes.py_object, [_POINTER, ctypes.c_char_p, _POINTER]
        api.PyCapsule_GetPointer.restype = _POINTER
        api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
        capsule = api.PyCapsule_New(ctypes.addressof(self._handler), b"mem_handler", None)
        table = api.PyCapsule_GetPointer(np._core._multiarray_umath._ARRAY_API, None)  # type: ignore[attr-defined]
        address = ctypes.cast(table, ctypes.POINTER(_POINTER))[_SET_HANDLER]
        ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)(address)(capsule)

    def _fails(self) -> bool:
        self.count += 1
        return self.first <= self.count < self.last

    def fail(self, first: int, last: int) -> None:
        """Let the allocations from ``first`` to before ``last`` fail, counted from now on."""
        self.count, self.first, self.last = 0, first, last

    def end(self) -> None:
        """Let no allocation fail any more."""
        self.first = self.last = 0


@functools.cache
def arrays() -> Arrays:
    """Return the failing memory of this process, in which arrays have their data from now on."""
    return Arrays()


# ---------------------------------------------------------------------------- calls

Fail = tuple[Callable[[int, int], Any], Callable[[], Any], int]
"""Functions that let allocations fail, and that end it; and how many fail in a row."""


WAYS = ("objects", 1), ("objects", IN_A_ROW), ("arrays", 1), ("arrays", 2**62)
"""What fails, and how many times in a row."""


def fail_of(what: str, count: int) -> Fail:
    """Return how allocations are made to fail."""
    if what == "objects":
        return _testcapi.set_nomemory, _testcapi.remove_mem_hooks, count
    data = arrays()
    return data.fail, data.end, count


def short_of_memory(one: Call, subject: Any, place: int, way: Fail) -> str:
    """Make a call in which allocations fail from the given one on; return what came out: a class of errors, or ''."""
    fail, end, count = way
    call = functools.partial(one.call, subject)
    came = ""
    try:
        fail(place, place + count)
        call()
        end()
    except BaseException as error:
        end()
        came = type(error).__name__
    return came


def checked(one: Call, before: bytes, after: bytes, place: int, way: Fail) -> tuple[str, str]:
    """Return what came out of a call that is short of memory, and what is wrong, if anything."""
    subject = one.make()
    came = short_of_memory(one, subject, place, way)
    state = one.looked(subject)
    if state is None:
        return came, "a lock is held for ever"
    if state not in (before, after):
        return came, "neither before nor after"
    if state != after:
        if not came:
            return came, "the error was lost"
        one.call(subject)
    return came, "" if one.look(subject) == after else "another state after the same call again"


def allocations_of(one: Call, way: Fail) -> int:
    """Return about how many allocations a call makes: from there on, none fails."""
    low, high = 0, 1
    while _breaks(one, high, way):
        low, high = high, 2 * high
    while high - low > max(1, high // 100):
        middle = (low + high) // 2
        low, high = (middle, high) if _breaks(one, middle, way) else (low, middle)
    return high


def _breaks(one: Call, place: int, way: Fail) -> bool:
    """Return whether a call fails that is short of memory, in a process of its own, which may not survive."""
    child = os.fork()
    if child == 0:
        try:
            signal.alarm(PATIENCE)
            os._exit(bool(short_of_memory(one, one.make(), place, way)))
        finally:
            os._exit(1)
    return os.waitpid(child, 0)[1] != 0


def _count(name: str, way: tuple[str, int], tell: Callable[..., Any]) -> None:
    """Tell how many allocations a call makes."""
    one, (fail, end, count) = CALLS[name], fail_of(*way)
    one.call(one.make())
    tell(allocations_of(one, (fail, end, max(count, IN_A_ROW))))


def _each(name: str, way: tuple[str, int], places: Sequence[int], tell: Callable[..., Any]) -> None:
    """Tell what came of each failing allocation: its number, what came out, what is wrong."""
    one, fail = CALLS[name], fail_of(*way)
    one.call(one.make())
    whole = one.make()
    before = one.look(whole)
    one.call(whole)
    after = one.look(whole)
    for place in places:
        signal.alarm(PATIENCE)
        tell(place, "?", "")
        tell(place, *checked(one, before, after, place, fail))


def _told(work: Callable[[Callable[..., Any]], None]) -> tuple[list[list[str]], int]:
    """Do work in a process of its own; return the lines that it tells, and the status with which the process ends."""
    told, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # Python reports errors of the handler there
            faulthandler.disable()  # a process that dies is counted
            signal.alarm(10 * PATIENCE)
            work(lambda *values: os.write(write, ("\t".join(map(str, values)) + "\n").encode()))
            os._exit(0)
        finally:
            os._exit(1)
    os.close(write)
    with os.fdopen(told) as file:
        lines = [line.rstrip("\n").split("\t") for line in file]
    return lines, os.waitpid(child, 0)[1]


def failing(name: str, way: tuple[str, int], share: int) -> list[tuple[int, str, str]]:
    """Return, for about ``share`` allocations of a call: its number, what came out, and what is wrong, if anything.

    "died" came out if the process did not survive, for example in numpy's own code. A process that was ended
    because it made no progress is a finding.
    """
    counted, code = _told(functools.partial(_count, name, way))
    if code:
        return [(0, "died", "the process ended before the first case")]
    count = int(counted[0][0])
    found: list[tuple[int, str, str]] = []
    places: Sequence[int] = range(1, count + 1, max(1, count // share))
    while places:
        lines, code = _told(functools.partial(_each, name, way, places))
        found += [(int(place), came, wrong) for place, came, wrong in lines if came != "?"]
        if code == 0:
            break
        if not lines:
            return [*found, (places[0], "died", "the process ended before the first case")]
        last = int(lines[-1][0])
        endless = os.WIFSIGNALED(code) and os.WTERMSIG(code) == signal.SIGALRM
        found.append((last, "died", f"no end within {PATIENCE} seconds" if endless else ""))
        places = places[places.index(last) + 1 :]
    return found


def every_allocation(scale: float, seed: int) -> Outcome:
    """Let every call run out of memory at each of many allocations; they do not depend on the seed."""
    outcome = Outcome("memory", seed)
    possible = WAYS if _testcapi is not None else [way for way in WAYS if way[0] == "arrays"]
    if _testcapi is None:
        outcome.count("without _testcapi, so only the data of arrays failed")
    for name, way in itertools.product(CALLS, possible):
        if name not in STARTING_THREADS:
            for place, came, wrong in failing(name, way, max(1, round(ALLOCATIONS * scale))):
                outcome.check(not wrong, {"call": name, "way": way, "allocation": place, "came": came, "wrong": wrong})
                kind = came if came in ("", "MemoryError", "died") else "another error"
                outcome.count({"": "completed", "died": "died in numpy or Python"}.get(kind, kind))
    return outcome
