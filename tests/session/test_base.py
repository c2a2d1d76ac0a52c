"""Steps of a session are whole: for exceptions, and for threads that predict, save and copy meanwhile."""

from __future__ import annotations

import copy
import functools
import pickle
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.reliability.calls import X, Y, bytes_of, learned
from tests.reliability.lines import lines_of, raise_at

from driftsurf.errors import StateError
from driftsurf.learners.foreign import SklearnLearner
from driftsurf.strategies import SlidingWindow


def test_a_learner_of_another_library_is_put_back() -> None:
    from sklearn.naive_bayes import GaussianNB

    one = learned(X, SlidingWindow(SklearnLearner(GaussianNB())))
    shown = one.predict(X)
    count = lines_of(lambda: learned(X, SlidingWindow(SklearnLearner(GaussianNB()))).learn(X[400:500], Y[400:500]))
    for line in range(5, count, count // 20):
        two = copy.deepcopy(one)
        if raise_at(line, functools.partial(two.learn, X[400:500], Y[400:500])) and two.steps == one.steps:
            assert np.array_equal(two.predict(X), shown)


def test_a_refused_state_changes_nothing() -> None:
    one, bad = learned(X), learned(X[200:]).state()
    before = bytes_of(one)
    with pytest.raises(StateError):
        one.restore(bad | {"strategy.predictive.learner.weights": np.zeros(2)})
    assert bytes_of(one) == before


def test_threads_see_whole_steps_while_one_learns() -> None:
    """Every prediction and every saved state is that of a step of the same session without other threads."""
    alone, states, shown = learned(X), set[bytes](), set[bytes]()
    steps = [(X[i : i + 25], Y[i : i + 25]) for i in range(0, 600, 25)] * 2
    for rows, labels in [(X[:0], Y[:0]), *steps]:
        if len(labels):
            alone.learn(rows, labels)
        states.add(bytes_of(alone))
        shown.add(alone.predict(X).tobytes() + alone.scores(X).tobytes())
    one, stop, wrong = learned(X), threading.Event(), list[str]()

    def read(look: Callable[[], Any], known: set[bytes], what: str) -> None:
        while not stop.is_set():
            if look() not in known:
                wrong.append(what)
                return

    def predicted() -> bytes:
        now, scores = one.scores_and_classes(X)
        return now.targets.decode(now.targets.predicted(scores)).tobytes() + scores.tobytes()

    readers = [
        (predicted, shown, "predicted"),
        (lambda: bytes_of(one), states, "saved"),
        (lambda: bytes_of(copy.deepcopy(one)), states, "copied"),
        (lambda: bytes_of(pickle.loads(pickle.dumps(one))), states, "pickled"),
    ]
    threads = [threading.Thread(target=read, args=args) for args in readers]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for thread in threads:
            thread.start()
        for rows, labels in steps:
            one.learn(rows, labels)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
        sys.setswitchinterval(interval)
    assert wrong == []
    assert bytes_of(one) == bytes_of(alone)


def test_threads_that_learn_take_turns() -> None:
    one = learned(X)

    def work(start: int) -> None:
        for _ in range(20):
            one.observe(X[start : start + 50], Y[start : start + 50])

    threads = [threading.Thread(target=work, args=(start,)) for start in (0, 100, 200, 300)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert one.steps == 4 + 4 * 20
    assert [decision.step for decision in one.journal][-3:] == [81, 82, 83]
    again = learned(X)
    again.restore(one.state())
    assert bytes_of(again) == bytes_of(one)


def test_names_of_columns_stay_after_a_step_that_was_broken_off(monkeypatch: pytest.MonkeyPatch) -> None:
    one = learned(X)
    put_back, tries = one._put_back, []

    def fail_first(mark: Any) -> None:
        tries.append(mark)
        if len(tries) == 1:
            raise KeyboardInterrupt
        put_back(mark)

    def fail(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(one, "_put_back", fail_first)
    monkeypatch.setattr("driftsurf.session.session.Snapshot", fail)
    monkeypatch.setattr("driftsurf.session.session.usual_step", lambda *_: None)
    with pytest.raises(KeyboardInterrupt):
        one.learn(X[:50], Y[:50])
    assert one.schema is not None
    names = tuple(f"column {k}" for k in range(one.schema.n_features))
    one.name_columns(names)
    one.settle()
    assert len(tries) == 2
    assert one.schema.names == names
