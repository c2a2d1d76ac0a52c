"""The session: whole calls or nothing, the guard, and what surrounds a strategy."""

from __future__ import annotations

import math
import signal
import sys
import threading
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
from sklearn.tree import DecisionTreeClassifier

from driftsurf.adapters import SklearnLearner
from driftsurf.decisions import Decision
from driftsurf.errors import DivergenceError, LabelError, OptionError, ShapeError, StateError
from driftsurf.journal import Journal
from driftsurf.learners import LinearRegression, LogisticRegression, SoftmaxRegression
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

    def failing(batch: Any, tested: Any = None) -> Decision:
        if one.steps == at:
            raise DivergenceError("on purpose")
        return step(batch, tested)

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
    assert one.targets.labels == (0,)


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
    """Each prediction is exactly that of the model after some whole step, never of one under way."""
    one, twin = session(), session()
    parts = [(X[:100], Y[:100] ^ (k // 20 % 2)) for k in range(100)]
    snapshots = set()
    for rows, labels in parts:
        twin.learn(rows, labels)
        snapshots.add(twin.scores(X[:50]).tobytes())
    one.learn(*parts[0])
    seen = set()
    done = threading.Event()

    def predict() -> None:
        while not done.is_set():
            seen.add(one.scores(X[:50]).tobytes())

    reader = threading.Thread(target=predict)
    reader.start()
    for rows, labels in parts[1:]:
        one.learn(rows, labels)
    done.set()
    reader.join()
    assert seen <= snapshots
    assert len(seen) > 1


def test_a_sink_that_fails_leaves_a_whole_step_behind() -> None:
    def full_disk(decision: Decision) -> None:
        raise OSError("no space left")

    one, other = session(batch_size=100), session(batch_size=100)
    one.learn(X[:50], Y[:50])
    one.journal.sink = full_disk
    with pytest.raises(OSError, match="no space left") as error:
        one.learn(X[50:350], Y[50:350])
    assert "50 of the 300 rows" in error.value.__notes__[0]
    other.learn(X[:100], Y[:100])
    assert to_bytes(one.state()) == to_bytes(other.state())


def test_labels_of_a_batch_do_not_show_in_its_predictions() -> None:
    one = session()
    for _ in range(5):
        one.learn(X[:50], ["a"] * 50)
    assert set(one.observe(X[:50], ["b"] * 50).labels) == {"a"}
    first = session().observe(X, np.where(Y == 1, "no", "yes"))
    swapped = session().observe(X[::-1], np.where(Y == 1, "no", "yes")[::-1])
    assert set(first.labels) == set(swapped.labels) == {"no"}, "before the first step only the names are known"


def test_an_absurd_row_alone_in_its_batch_is_no_evidence() -> None:
    one = session()
    for k in range(20):
        one.learn(X[k * 50 : k * 50 + 50], Y[k * 50 : k * 50 + 50])
    right = np.mean(one.predict(X) == Y)
    one.learn([[1e6, 1e6]], [0])
    assert np.mean(one.predict(X) == Y) == pytest.approx(right, abs=0.02)
    assert math.isnan(one.journal[-1].models[0].risk_before or 0.0)


@pytest.mark.parametrize("where", ["guard.total", "guard.recent", "pending.n_features", "schema.n_features"])
def test_made_up_states_are_refused(where: str) -> None:
    one = session(batch_size=100)
    one.learn(X[:250], Y[:250])
    state: dict[str, Any] = dict(one.state())
    state[where] = np.zeros(1, np.float32) if where.startswith("guard") else 3
    with pytest.raises(StateError):
        session(batch_size=100).restore(state)


@pytest.mark.parametrize("value", [1e9, -1e9, 3.0, -1.0, 0.5, math.nan, math.inf])
@pytest.mark.parametrize("where", ["pending.y", "strategy.pool.samples.y"])
def test_made_up_labels_are_refused_before_compiled_code_takes_them_for_places(where: str, value: float) -> None:
    def three() -> Session:
        return Session(DriftSurf(SoftmaxRegression()), batch_size=100)

    one = three()
    one.learn(X[:250], np.arange(250) % 3)
    state: dict[str, Any] = dict(one.state())
    with pytest.raises(StateError, match="which is no code of one of 3 classes"):
        three().restore(state | {where: np.append(state[where][1:], value)})


@pytest.mark.parametrize("where", ["pending.y", "strategy.pool.samples.y"])
def test_made_up_values_are_finite_or_refused(where: str) -> None:
    one, two = (Session(DriftSurf(LinearRegression()), batch_size=100) for _ in range(2))
    one.learn(X[:250], X[:250, 0])
    state: dict[str, Any] = dict(one.state())
    two.restore(state | {where: np.append(state[where][1:], 1e9)})
    with pytest.raises(StateError, match="a target of the saved rows is nan, which is no finite value"):
        two.restore(state | {where: np.append(state[where][1:], math.nan)})


@pytest.mark.parametrize(
    ("learner", "changes", "words"),
    [
        (SoftmaxRegression(), {"strategy.pool.n_classes": 9}, "more than the 3 saved classes"),
        (SoftmaxRegression(), {"strategy.pool.n_classes": 1}, "for 1 classes"),
        (
            SoftmaxRegression(),
            {"strategy.pool.n_classes": 9, "classes.labels": str([*range(9)])},
            "not for the 2 columns and 9 classes",
        ),
        (SoftmaxRegression(), {"schema.sparse": True}, "one is sparse"),
        (SoftmaxRegression(), {"pending.sparse": True}, "one is sparse"),
        (SoftmaxRegression(), {"strategy.trial": np.array([[900, 1000]])}, "not within the stored rows"),
        (LogisticRegression(), {"strategy.pool.n_classes": 3, "classes.labels": "[0, 1, 2]"}, "for 3 classes"),
        (LinearRegression(), {"strategy.pool.n_classes": 2}, "more than the 0"),
        (LinearRegression(), {"strategy.pool.n_classes": -1}, "for -1 classes"),
        (SklearnLearner(DecisionTreeClassifier()), {"strategy.predictive.learner.n_classes": 4}, "columns and 3"),
    ],
)
def test_a_made_up_number_of_classes_or_a_strange_trial_is_refused(
    learner: Any, changes: dict[str, Any], words: str
) -> None:
    def begun() -> Session:
        return Session(DriftSurf(learner), batch_size=100)

    one, y = begun(), np.arange(250) % (2 if isinstance(learner, LogisticRegression) else 3)
    one.learn(X[:250], y)
    state = one.state()
    begun().restore(state)
    with pytest.raises(StateError, match=words):
        begun().restore(state | changes)


@pytest.mark.parametrize(
    ("entry", "value"), [("classes.labels", "["), ("begun", "maybe"), ("steps", "many"), ("schema.names", "{")]
)
def test_odd_entries_are_state_errors(entry: str, value: Any) -> None:
    one = session()
    one.learn(X, Y)
    with pytest.raises(StateError):
        session().restore(one.state() | {entry: value})


def test_an_interrupt_during_a_step_comes_after_it_and_the_note_is_true() -> None:
    class Interrupted(DriftSurf):
        def step(self, batch: Any, tested: Any = None) -> Decision:
            if self._live.step == 1:
                signal.raise_signal(signal.SIGINT)
            return super().step(batch, tested)

    one = Session(Interrupted(LogisticRegression(), seed=0))
    one.learn(X[:100], Y[:100])
    with pytest.raises(KeyboardInterrupt) as error:
        one.learn(X[100:200], Y[100:200])
    assert error.value.__notes__ == ["100 of the 100 rows of this call were taken, the rest were not."]
    assert one.steps == one.journal.steps_recorded == 2


def interrupt_at(moment: int, call: Any) -> bool:
    """Make the call, with SIGINT raised for real before its ``moment``-th line; False if it has fewer lines."""
    lines = 0

    def trace(frame: Any, event: str, _: Any) -> Any:
        nonlocal lines
        if event == "line" and "driftsurf" in frame.f_code.co_filename:
            lines += 1
            if lines == moment:
                signal.raise_signal(signal.SIGINT)
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
    return lines >= moment


def test_an_interrupt_at_any_line_leaves_a_whole_number_of_steps() -> None:
    """The state is that of before or of after, whatever line the interrupt comes at."""
    begun = session(batch_size=60)
    begun.learn(X[:90], Y[:90])
    saved = begun.state()

    def fresh() -> Session:
        one = session(batch_size=60)
        one.restore(saved)
        return one

    half, done = fresh(), fresh()
    half.learn(X[90:120], 1 - Y[90:120])  # completes a time step
    done.learn(X[90:130], 1 - Y[90:130])
    allowed = {to_bytes(saved), to_bytes(half.state()), to_bytes(done.state())}
    moment, interrupted = 1, 0
    while True:
        one = fresh()
        try:
            if not interrupt_at(moment, lambda one=one: one.learn(X[90:130], 1 - Y[90:130])):
                break
        except KeyboardInterrupt:
            interrupted += 1
        assert to_bytes(one.state()) in allowed, f"at line {moment}"
        moment += 7
    assert interrupted > 20


# ---------------------------------------------------------------------------- row by row


@pytest.mark.parametrize("names", [(0, 1), ("no", "yes"), (False, True), (2.0, 7.0)])
def test_single_rows_end_as_the_whole_batch_does(names: tuple[Any, Any]) -> None:
    X = RNG.normal(size=(250, 3))
    y = np.where(X[:, 0] > 0, names[1], names[0])
    whole, single = (Session(DriftSurf(LogisticRegression()), batch_size=40) for _ in range(2))
    whole.learn(X, y)
    put = 0
    for k in range(len(X)):
        label = [y[k].item()] if k % 2 else y[k : k + 1]
        if single.put(X[k : k + 1], label):
            put += 1
        else:
            single.learn(X[k : k + 1], label)
    assert put == 250 - 250 // 40 - 2  # not the first two, which bring the classes, nor those that fill the buffer
    assert to_bytes(single.state()) == to_bytes(whole.state())


def test_values_are_put_row_by_row_too() -> None:
    X = RNG.normal(size=(90, 2))
    whole, single = (Session(DriftSurf(LinearRegression()), batch_size=40) for _ in range(2))
    whole.learn(X, X[:, 0])
    for k in range(len(X)):
        single.put(X[k : k + 1], X[k : k + 1, 0]) or single.learn(X[k : k + 1], X[k : k + 1, 0])
    assert to_bytes(single.state()) == to_bytes(whole.state())


@pytest.mark.parametrize(
    ("X", "y"),
    [
        ([[1.0, 2.0]], [0]),
        (np.ones((2, 2)), [0, 0]),
        (np.ones((1, 3)), [0]),
        (np.ones((1, 2), np.float32), [0]),
        (np.array([[1.0, math.nan]]), [0]),
        (np.array(1.0), [0]),
        (np.ones((1, 2)), [5]),
        (np.ones((1, 2)), ["0"]),
        (np.ones((1, 2)), [0, 1]),
        (np.ones((1, 2)), np.zeros((1, 1))),
        (np.ones((1, 2)), None),
    ],
)
def test_what_is_not_plainly_a_row_is_not_put(X: Any, y: Any) -> None:
    session = Session(DriftSurf(LogisticRegression()), classes=(0, 1), batch_size=50)
    assert not session.put(np.ones((1, 2)), [0])
    session.learn(RNG.normal(size=(60, 2)), np.arange(60) % 2)
    before = to_bytes(session.state())
    assert not session.put(X, y)
    assert to_bytes(session.state()) == before


@pytest.mark.parametrize("y", [[math.inf], [True], ["1"], [None]])
def test_what_is_not_plainly_a_value_is_not_put(y: list[Any]) -> None:
    session = Session(DriftSurf(LinearRegression()), batch_size=50)
    session.learn(np.ones((3, 2)), np.ones(3))
    assert not session.put(np.ones((1, 2)), y)
    assert session.rows_pending == 3


# ---------------------------------------------------------------------------- guard


def weigh(guard: RangeGuard, rows: npt.NDArray[np.float64]) -> tuple[npt.NDArray[np.float64], RangeGuard]:
    weights, after = guard.weigh(rows)
    return np.ones(len(rows)) if weights is None else weights, after


def test_ordinary_rows_have_weight_one() -> None:
    weights, guard = weigh(RangeGuard(), RNG.normal(size=(5000, 3)))
    assert (weights == 1.0).all()
    assert guard.weigh(RNG.normal(size=(5, 3)))[0] is None
    assert len(guard.recent) == MEMORY


@pytest.mark.parametrize("value", [1e6, 1e150, 1e200, 1e300])
def test_an_absurd_row_has_next_to_none(value: float) -> None:
    rows = np.ones((50, 3))
    rows[10, 1] = value
    weights, _ = weigh(RangeGuard(), rows)
    assert weights[10] == pytest.approx(12 / value**2 if value < 1e150 else 0.0, rel=0.2, abs=1e-290)
    assert np.delete(weights, 10).tolist() == [1.0] * 49


def test_a_row_alone_is_judged_by_those_before_it() -> None:
    guard = RangeGuard()
    for _ in range(30):
        weights, guard = weigh(guard, np.ones((1, 2)))
        assert weights.tolist() == [1.0]
    weights, guard = weigh(guard, np.full((1, 2), 1e6))
    assert weights[0] < 1e-10


def test_a_lasting_change_of_scale_is_followed() -> None:
    guard = RangeGuard()
    _, guard = weigh(guard, np.ones((5000, 2)))
    weights = np.concatenate([part for part, guard in _weighed(guard, 30)])
    assert weights[0] < 1e-3
    assert (weights[200:] == 1.0).all()


def _weighed(guard: RangeGuard, batches: int) -> list[tuple[Any, RangeGuard]]:
    parts = []
    for _ in range(batches):
        weights, guard = weigh(guard, np.full((10, 2), 1000.0))
        parts.append((weights, guard))
    return parts


def test_empty_rows_do_not_count_as_usual() -> None:
    rows = np.zeros((100, 2))
    rows[0] = 5.0
    weights, guard = weigh(RangeGuard(), rows)
    assert (weights == 1.0).all()
    weights, _ = weigh(guard, np.zeros((4, 2)))
    assert (weights == 1.0).all()


def test_a_first_row_that_overflows_counts_for_nothing() -> None:
    weights, guard = weigh(RangeGuard(), np.full((1, 2), 1e300))
    assert weights.tolist() == [0.0]
    assert math.isinf(guard.recent[0])


def test_the_guard_saves_and_loads() -> None:
    _, guard = RangeGuard(3.0).weigh(np.ones((10, 2)))
    again = RangeGuard.from_state(guard.state(), 2)
    assert again.factor == 3.0
    assert np.array_equal(again.recent, guard.recent)


@pytest.mark.parametrize("strategy", ["driftsurf", DriftSurf, LogisticRegression()])
def test_what_is_no_strategy_is_refused_with_an_example(strategy: Any) -> None:
    with pytest.raises(OptionError, match=r"give one of driftsurf\.strategies"):
        Session(strategy)


@pytest.mark.parametrize("label", [np.array([1, 2]), pd.NA, None, [1, 2], math.nan, pd.NaT])
def test_a_single_row_with_a_strange_label_is_refused_as_in_a_batch(label: Any) -> None:
    one = session(batch_size=100)
    one.learn(X[:20], Y[:20])
    assert not one.put(X[:1], [label])
    with pytest.raises((LabelError, ShapeError)):
        one.observe(X[:1], [label])
    assert one.rows_pending == 20


def test_a_session_with_another_seed_is_what_it_would_be_alone() -> None:
    template = session(batch_size=100, classes=(0, 1))
    one, two = template.reseeded(7), template.reseeded(7)
    alone = Session(DriftSurf(LogisticRegression(), seed=7), batch_size=100, classes=(0, 1))
    for other in (one, alone):
        other.learn(X, Y)
    assert to_bytes(one.state()) == to_bytes(alone.state())
    assert len(one.journal) == 10
    assert len(two.journal) == len(template.journal) == 0
    assert two.schema is template.schema is None


def test_a_session_is_restored_from_its_surroundings_and_the_strategy() -> None:
    one, other = session(batch_size=100), session(batch_size=100)
    one.learn(X[:250], Y[:250])
    other.restore(one.surroundings(), one.strategy.state())
    for each in (one, other):
        each.learn(X[250:], Y[250:])
    assert to_bytes(one.state()) == to_bytes(other.state())
