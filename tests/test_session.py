"""The session: whole calls or nothing, the guard, and what surrounds a strategy."""

from __future__ import annotations

import math
import threading
from typing import Any

import numpy as np
import pytest

from driftsurf.base import Decision
from driftsurf.errors import DivergenceError, OptionError, StateError
from driftsurf.journal import Journal
from driftsurf.learners import LogisticRegression
from driftsurf.runtime.guard import MEMORY, RangeGuard
from driftsurf.runtime.session import Session
from driftsurf.state import to_bytes
from driftsurf.strategies import Aware, DriftSurf

RNG = np.random.default_rng(0)
X = RNG.normal(size=(1000, 2))
Y = (X[:, 0] > 0).astype(int)


def session(**options: Any) -> Session:
    return Session(DriftSurf(LogisticRegression(), seed=0), **options)


def fail_at_step(one: Session, at: int, monkeypatch: pytest.MonkeyPatch) -> None:
    step = one.strategy.step

    def failing(batch: Any) -> Decision:
        if one.steps == at:
            raise DivergenceError("on purpose")
        return step(batch)

    monkeypatch.setattr(one.strategy, "step", failing)


def test_a_failing_first_step_leaves_a_session_that_has_not_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    one = session()
    before = to_bytes(one.state())
    fail_at_step(one, 0, monkeypatch)
    with pytest.raises(DivergenceError) as error:
        one.learn(X, Y)
    assert "0 of the 1000 rows of this call were taken" in error.value.__notes__[0]
    assert to_bytes(one.state()) == before
    monkeypatch.undo()
    one.learn(np.ones((3, 5)), [0, 1, 0])  # other columns may still come first
    assert one.schema is not None
    assert one.schema.n_features == 5


def test_a_failing_step_in_the_middle_of_a_call_says_how_far_it_came(monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = session(batch_size=100), session(batch_size=100)
    one.learn(X[:50], Y[:50])
    fail_at_step(one, 3, monkeypatch)
    with pytest.raises(DivergenceError) as error:
        one.learn(X[50:], Y[50:])
    assert "250 of the 950 rows" in error.value.__notes__[0]
    monkeypatch.undo()
    other.learn(X[:300], Y[:300])
    assert to_bytes(one.state()) == to_bytes(other.state())
    one.learn(X[300:], Y[300:])
    other.learn(X[300:], Y[300:])
    assert to_bytes(one.state()) == to_bytes(other.state())


def test_a_new_class_is_forgotten_with_the_batch_that_brought_it(monkeypatch: pytest.MonkeyPatch) -> None:
    one = session()
    one.learn(X[:100], np.zeros(100, int))
    fail_at_step(one, 1, monkeypatch)
    with pytest.raises(DivergenceError):
        one.learn(X[100:200], Y[100:200])
    assert one.classes.labels == (0,)


def test_observations_add_up() -> None:
    one = session()
    one.learn(X[:500], Y[:500])
    scores = one.scores(X[500:])
    seen = one.observe(X[500:], Y[500:])
    assert np.array_equal(seen.scores, scores)
    assert seen.errors == np.count_nonzero(seen.labels != Y[500:])
    shares = 1 / (1 + np.exp(-scores))
    expected = -np.log(np.where(seen.true == 1, shares, 1 - shares))
    assert np.allclose(seen.log_losses(), expected)


def test_a_session_that_has_not_begun_predicts_nothing() -> None:
    with pytest.raises(StateError, match="no batch yet"):
        session().predict(X)


def test_a_state_without_its_entries_is_refused() -> None:
    one = session()
    one.learn(X, Y)
    state = one.state()
    del state["strategy.pool.made"]
    with pytest.raises(StateError, match="no entry 'made'"):
        session().restore(state)


def test_bad_options_are_refused_at_once() -> None:
    with pytest.raises(OptionError, match="batch_size is 0"):
        session(batch_size=0)
    with pytest.raises(OptionError, match="drift_steps is -1"):
        Session(Aware(LogisticRegression(), [-1]))


def test_a_sink_gets_every_decision() -> None:
    got: list[Decision] = []
    one = session(batch_size=10, journal=Journal(limit=5, sink=got.append))
    one.learn(X, Y)
    assert [decision.step for decision in got] == list(range(100))
    assert [decision.step for decision in one.journal] == list(range(95, 100))


def test_predicting_in_one_thread_while_another_learns() -> None:
    """Each prediction comes from one published model: probabilities are finite and labels known."""
    one = session()
    one.learn(X[:100], Y[:100])
    bad: list[Any] = []
    done = threading.Event()

    def predict() -> None:
        while not done.is_set():
            labels = one.predict(X[:50])
            if not set(labels) <= {0, 1}:
                bad.append(labels)

    reader = threading.Thread(target=predict)
    reader.start()
    for k in range(200):
        flip = k // 40 % 2
        one.learn(X[:100], Y[:100] ^ flip)
    done.set()
    reader.join()
    assert not bad


# ---------------------------------------------------------------------------- guard


def test_ordinary_rows_have_weight_one() -> None:
    weights, guard = RangeGuard().weigh(RNG.normal(size=(5000, 3)))
    assert (weights == 1.0).all()
    assert len(guard.recent) == MEMORY


@pytest.mark.parametrize("value", [1e6, 1e150, 1e200, 1e300])
def test_an_absurd_row_has_next_to_none(value: float) -> None:
    rows = np.ones((50, 3))
    rows[10, 1] = value
    weights, _ = RangeGuard().weigh(rows)
    assert weights[10] == pytest.approx(12 / value**2 if value < 1e150 else 0.0, rel=0.2, abs=1e-290)
    assert np.delete(weights, 10).tolist() == [1.0] * 49


def test_a_row_alone_is_judged_by_those_before_it() -> None:
    guard = RangeGuard()
    for _ in range(30):
        weights, guard = guard.weigh(np.ones((1, 2)))
        assert weights.tolist() == [1.0]
    weights, guard = guard.weigh(np.full((1, 2), 1e6))
    assert weights[0] < 1e-10


def test_a_lasting_change_of_scale_is_followed() -> None:
    guard = RangeGuard()
    _, guard = guard.weigh(np.ones((5000, 2)))
    weights = np.concatenate([part for part, guard in _weighed(guard, 30)])
    assert weights[0] < 1e-3
    assert (weights[200:] == 1.0).all()


def _weighed(guard: RangeGuard, batches: int) -> list[tuple[Any, RangeGuard]]:
    parts = []
    for _ in range(batches):
        weights, guard = guard.weigh(np.full((10, 2), 1000.0))
        parts.append((weights, guard))
    return parts


def test_empty_rows_do_not_count_as_usual() -> None:
    rows = np.zeros((100, 2))
    rows[0] = 5.0
    weights, guard = RangeGuard().weigh(rows)
    assert (weights == 1.0).all()
    weights, _ = guard.weigh(np.zeros((4, 2)))
    assert (weights == 1.0).all()


def test_a_first_row_that_overflows_counts_for_nothing() -> None:
    weights, guard = RangeGuard().weigh(np.full((1, 2), 1e300))
    assert weights.tolist() == [0.0]
    assert math.isinf(guard.recent[0])


def test_the_guard_saves_and_loads() -> None:
    _, guard = RangeGuard(3.0).weigh(np.ones((10, 2)))
    again = RangeGuard.from_state(guard.state(), 2)
    assert again.factor == 3.0
    assert np.array_equal(again.recent, guard.recent)
