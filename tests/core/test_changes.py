"""Changeable: complete or undone for an exception at any line, one thread at a time, copies of whole steps."""

from __future__ import annotations

import copy
import pickle
import threading
from typing import Any

import pytest
from tests.reliability.lines import Interruption, lines_of, raise_at

from driftsurf.core.changes import Changeable
from driftsurf.errors import StepInProgressError


class Pair(Changeable):
    """Two lists that a step appends to in place; they are equal between steps."""

    def __init__(self) -> None:
        self._now = 0
        self.left: list[int] = []
        self.right: list[int] = []

    def _mark(self) -> Any:
        return self._now, len(self.left)

    def _put_back(self, mark: Any) -> None:
        self._now, length = mark
        del self.left[length:], self.right[length:]

    def add(self, inside: Any = None) -> int:
        with self.lock:
            return self._change(self._added, inside)

    def _added(self, inside: Any) -> tuple[int, int]:
        self.left.append(self._now)
        if inside is not None:
            inside()
        self.right.append(self._now)
        return self._now + 1, self._now

    def look(self) -> tuple[int, list[int], list[int]]:
        with self.lock:
            self.settle()
            return self._now, self.left, self.right


BEFORE, AFTER = (1, [0], [0]), (2, [0, 1], [0, 1])


@pytest.mark.parametrize("persistent", [False, True])
def test_an_exception_at_any_line_of_the_mechanism_leaves_the_values_before_or_after(persistent: bool) -> None:
    seen = set()
    count = lines_of(Pair().add)
    for line in range(1, count + 1):
        pair = Pair()
        pair.add()
        raise_at(line, pair.add, persistent=persistent)
        assert pair.look() in (BEFORE, AFTER), line
        seen.add(pair.look() == AFTER)
        if pair.look() == BEFORE:
            pair.add()
            assert pair.look() == AFTER
    assert True in seen
    assert False in seen


def test_the_exception_of_a_step_comes_out() -> None:
    def fail() -> None:
        raise Interruption

    pair = Pair()
    with pytest.raises(Interruption):
        pair.add(fail)
    assert pair.look() == (0, [], [])


def test_a_call_from_inside_a_step_is_refused_and_changes_nothing() -> None:
    pair = Pair()

    def reenter() -> None:
        for call in (pair.add, pair.look, lambda: copy.deepcopy(pair)):
            with pytest.raises(StepInProgressError):
                call()

    pair.add(reenter)
    assert pair.look() == (1, [0], [0])


def test_copies_and_pickles_are_whole_and_have_a_lock_of_their_own() -> None:
    pair = Pair()
    pair.add()
    for made in (copy.deepcopy(pair), pickle.loads(pickle.dumps(pair))):
        assert made.lock is not pair.lock
        made.add()
        assert made.look() == AFTER
    assert pair.look() == BEFORE


def test_threads_that_change_wait_for_one_another() -> None:
    pair = Pair()

    def work() -> None:
        for _ in range(300):
            pair.add()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert pair.look() == (1200, list(range(1200)), list(range(1200)))
