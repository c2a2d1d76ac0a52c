"""Calls of a fleet are whole: for threads that learn, predict, save and copy at once, and for exceptions."""

from __future__ import annotations

import copy
import pickle
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from fleets import SMALL, calls, same, served

from driftsurf import Fleet
from driftsurf.errors import StepInProgressError
from driftsurf.keyed import keys as _keys
from driftsurf.keyed.work import Work

pytestmark = pytest.mark.filterwarnings("ignore::driftsurf.errors.SmallBatchWarning")


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize("copied", [copy.deepcopy, lambda fleet: pickle.loads(pickle.dumps(fleet))])
def test_a_copy_continues_as_the_fleet_does_and_alone(copied: Callable[[Fleet], Fleet]) -> None:
    given = list(calls(30))
    one = served(Fleet(n_features=3, **SMALL), iter(given[:20]))
    before, two = one.to_bytes(), copied(one)
    assert two.to_bytes() == before
    assert all(two.journal(key) == one.journal(key) for key in one.keys)
    served(two, iter(given[20:]))
    assert one.to_bytes() == before
    assert served(one, iter(given[20:])).to_bytes() == two.to_bytes()


@pytest.mark.usefixtures("backend")
def test_a_fleet_that_has_not_started_can_be_copied() -> None:
    assert (
        served(copy.deepcopy(Fleet(n_features=3, **SMALL)), calls(5)).to_bytes()
        == served(Fleet(n_features=3, **SMALL), calls(5)).to_bytes()
    )


def test_a_pickle_has_neither_addresses_nor_memory_that_is_not_in_use() -> None:
    one = served(Fleet(n_features=3, **SMALL), calls(5))
    backend: Any = one._backend
    saved: Any = backend._banks.base.__getstate__()
    assert "loop" not in saved
    assert saved["blocks"].nbytes == len(one) * one.bytes_per_key


N_KEYS, PER_KEY, TURNS = 5, 3, 40


def rows_of(first: int, turn: int) -> tuple[Any, Any, Any]:
    """Return the rows of a call of a learner, as many for each of its keys."""
    rng = np.random.default_rng((first, turn))
    X = rng.normal(size=(N_KEYS * PER_KEY, 3))
    return np.repeat(np.arange(N_KEYS), PER_KEY) + first, X, ((X[:, 0] > 0) == (turn < TURNS // 2)).astype(int)


@pytest.mark.usefixtures("backend")
def test_two_threads_learn_while_others_predict_save_and_copy() -> None:
    """Nobody sees half a call, no row is lost, and each key ends as in a fleet without other threads."""
    fleet, stop, wrong = Fleet(n_features=3, **SMALL), threading.Event(), list[Any]()
    firsts = 0, 100
    for first in firsts:
        fleet.observe(*rows_of(first, 0))

    def work(action: Callable[[], None]) -> None:
        try:
            action()
        except BaseException as error:  # told in the main thread
            wrong.append(error)

    def learn(first: int) -> None:
        for turn in range(1, TURNS):
            fleet.observe(*rows_of(first, turn))

    def read(seen: Callable[[], Fleet]) -> None:
        while not stop.is_set():
            table = seen().table()
            for first in firsts:
                if len(set(table["rows"][(table["key"] >= first) & (table["key"] < first + N_KEYS)].tolist())) != 1:
                    wrong.append(table["rows"])
            fleet.predict([0, 100], [[1.0, 0.0, 0.0]] * 2)

    seen = [
        lambda: fleet,
        lambda: Fleet.from_bytes(fleet.to_bytes()),
        lambda: copy.deepcopy(fleet),
        lambda: pickle.loads(pickle.dumps(fleet)),
    ]
    readers = [threading.Thread(target=work, args=(lambda one=one: read(one),)) for one in seen]
    learners = [threading.Thread(target=work, args=(lambda first=first: learn(first),)) for first in firsts]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for thread in readers + learners:
            thread.start()
        for thread in learners:
            thread.join()
    finally:
        stop.set()
        for thread in readers:
            thread.join()
        sys.setswitchinterval(interval)
    assert wrong == []
    for first in firsts:
        alone = Fleet(n_features=3, **SMALL)
        for turn in range(TURNS):
            alone.observe(*rows_of(first, turn))
        for key in range(first, first + N_KEYS):
            same(fleet.session(key).state(), alone.session(key).state())


def test_a_call_that_is_broken_off_twice_does_not_learn_what_the_caller_changed_since(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_keys, "ROWS_PER_THREAD", 5)
    keys, X, y = np.arange(60) % 10, np.random.default_rng(1).normal(size=(60, 3)).astype(np.float32), np.arange(60) % 2
    whole, one = (Fleet(n_features=3, threads=3, **SMALL) for _ in range(2))
    whole.observe(keys, X, y)

    def carry_out(self: Work) -> None:
        (own,) = self._parts
        own._started = True
        own._serve(own._shares[1])
        raise KeyboardInterrupt

    def fail(_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as broken:
        broken.setattr(Work, "carry_out", carry_out)
        broken.setattr(Work, "finish", fail)
        with pytest.raises(KeyboardInterrupt):
            one.observe(keys, X, y)
    X[:] = 0.0
    assert one.to_bytes() == whole.to_bytes()


@pytest.mark.usefixtures("backend")
def test_a_call_from_inside_a_call_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    one = served(Fleet(n_features=3, **SMALL), calls(3))
    learn, seen = one._backend.learn, []

    def reenter(work: Any) -> None:
        for call in (lambda: one.predict([0], [[0.0] * 3]), one.to_bytes, lambda: len(one), one.table):
            with pytest.raises(StepInProgressError):
                call()
            seen.append(call)
        learn(work)

    monkeypatch.setattr(one._backend, "learn", reenter)
    served(one, calls(1))
    assert len(seen) == 4
