"""Session: all-or-nothing calls, schema, classes, buffer, interrupts and state."""

from __future__ import annotations

import math
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.tree import DecisionTreeClassifier

from driftsurf.core.changes import deferred_interrupts
from driftsurf.core.decisions import Decision
from driftsurf.core.journal import Journal
from driftsurf.core.state import to_bytes
from driftsurf.errors import DivergenceError, LabelError, OptionError, ShapeError, StateError
from driftsurf.learners import LinearRegression, LogisticRegression, SoftmaxRegression
from driftsurf.learners.foreign import SklearnLearner
from driftsurf.session.session import Session
from driftsurf.strategies import Aware, DriftSurf

RNG = np.random.default_rng(0)
X = RNG.normal(size=(1000, 2))
Y = (X[:, 0] > 0).astype(int)


def session(**options: Any) -> Session:
    return Session(DriftSurf(LogisticRegression(), seed=0), **options)


def fail_at_step(one: Session, at: int, monkeypatch: pytest.MonkeyPatch) -> None:
    strategy: Any = one.strategy
    observe = strategy.observe

    def failing(*batch: Any, **asked: Any) -> Any:
        if one.steps == at:
            raise DivergenceError("on purpose")
        return observe(*batch, **asked)

    monkeypatch.setattr(strategy, "observe", failing)
    monkeypatch.setattr("driftsurf.session.session.usual_step", lambda *_: None)


def test_a_failing_first_step_leaves_an_unused_session(monkeypatch: pytest.MonkeyPatch) -> None:
    one = session()
    before = to_bytes(one.state())
    fail_at_step(one, 0, monkeypatch)
    with pytest.raises(DivergenceError) as error:
        one.learn(X, Y)
    assert error.value.__notes__[0] == "No row of this call was taken."
    assert to_bytes(one.state()) == before
    monkeypatch.undo()
    one.learn(np.ones((3, 5)), [0, 1, 0])  # other columns are still possible
    assert one.schema is not None
    assert one.schema.n_features == 5


def test_a_failing_step_in_the_middle_of_a_call_reports_the_rows_taken(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_a_new_class_of_a_failed_batch_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    one = session()
    one.learn(X[:100], np.zeros(100, int))
    fail_at_step(one, 1, monkeypatch)
    with pytest.raises(DivergenceError):
        one.learn(X[100:200], Y[100:200])
    assert one.targets.labels == (0,)


def test_observations_of_parts_add_up() -> None:
    one = session()
    one.learn(X[:500], Y[:500])
    scores = one.scores(X[500:])
    seen = one.observe(X[500:], Y[500:])
    assert np.array_equal(seen.scores, scores)
    assert seen.errors == np.count_nonzero(seen.labels != Y[500:])
    shares = 1 / (1 + np.exp(-scores))
    expected = -np.log(np.where(seen.true == 1, shares, 1 - shares))
    assert np.allclose(seen.log_losses(), expected)


def test_an_unused_session_cannot_predict() -> None:
    with pytest.raises(StateError):
        session().predict(X)


def test_an_incomplete_state_is_refused() -> None:
    one = session()
    one.learn(X, Y)
    state = one.state()
    del state["strategy.pool.made"]
    with pytest.raises(StateError) as error:
        session().restore(state)
    assert error.value.entry == "strategy.pool.made"


def test_bad_options_are_refused_at_once() -> None:
    with pytest.raises(OptionError, match=r"batch_size.*0"):
        session(batch_size=0)
    with pytest.raises(OptionError, match=r"drift_steps.*-1"):
        Session(Aware(LogisticRegression(), [-1]))


def test_a_sink_gets_every_decision() -> None:
    got: list[Decision] = []
    one = session(batch_size=10, journal=Journal(limit=5, sink=got.append))
    one.learn(X, Y)
    assert [decision.step for decision in got] == list(range(100))
    assert [decision.step for decision in one.journal] == list(range(95, 100))


def wait_for(met: Callable[[], bool], thread: threading.Thread) -> None:
    """Wait until a condition is met, or until the thread that has to meet it has ended."""
    while thread.is_alive() and not met():
        time.sleep(0.001)


def test_predicting_in_one_thread_while_another_learns() -> None:
    """Each prediction equals that of the model after some complete step."""
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

    reader, usual = threading.Thread(target=predict), sys.getswitchinterval()
    sys.setswitchinterval(1e-5)  # all steps together can take less time than the usual turn of a thread
    try:
        reader.start()
        wait_for(lambda: bool(seen), reader)  # on a busy machine, all steps could be taken before its first turn
        for rows, labels in parts[1:]:
            one.learn(rows, labels)
        last = one.scores(X[:50]).tobytes()
        wait_for(lambda: last in seen, reader)
    finally:
        done.set()
        reader.join()
        sys.setswitchinterval(usual)
    assert seen <= snapshots
    assert len(seen) > 1


def test_a_failing_sink_leaves_a_complete_step() -> None:
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


def test_labels_of_a_batch_do_not_affect_its_predictions() -> None:
    one = session()
    for _ in range(5):
        one.learn(X[:50], ["a"] * 50)
    assert set(one.observe(X[:50], ["b"] * 50).labels) == {"a"}
    first = session().observe(X, np.where(Y == 1, "no", "yes"))
    swapped = session().observe(X[::-1], np.where(Y == 1, "no", "yes")[::-1])
    assert set(first.labels) == set(swapped.labels) == {"no"}, "before the first step only the names are known"


def test_an_extreme_row_alone_in_its_batch_does_not_count_as_evidence() -> None:
    one = session()
    for k in range(20):
        one.learn(X[k * 50 : k * 50 + 50], Y[k * 50 : k * 50 + 50])
    right = np.mean(one.predict(X) == Y)
    one.learn([[1e6, 1e6]], [0])
    assert np.mean(one.predict(X) == Y) == pytest.approx(right, abs=0.02)
    assert math.isnan(one.journal[-1].models[0].risk_before or 0.0)


@pytest.mark.parametrize("where", ["guard.total", "guard.recent", "pending.n_features", "schema.n_features"])
def test_forged_states_are_refused(where: str) -> None:
    one = session(batch_size=100)
    one.learn(X[:250], Y[:250])
    state: dict[str, Any] = dict(one.state())
    state[where] = np.zeros(1, np.float32) if where.startswith("guard") else 3
    with pytest.raises(StateError):
        session(batch_size=100).restore(state)


@pytest.mark.parametrize("value", [1e9, -1e9, 3.0, -1.0, 0.5, math.nan, math.inf])
@pytest.mark.parametrize("where", ["pending.y", "strategy.pool.samples.y"])
def test_forged_labels_are_refused_before_the_core_uses_them_as_indices(where: str, value: float) -> None:
    def three() -> Session:
        return Session(DriftSurf(SoftmaxRegression()), batch_size=100)

    one = three()
    one.learn(X[:250], np.arange(250) % 3)
    state: dict[str, Any] = dict(one.state())
    with pytest.raises(StateError) as error:
        three().restore(state | {where: np.append(state[where][1:], value)})
    assert error.value.entry == where


@pytest.mark.parametrize("where", ["pending.y", "strategy.pool.samples.y"])
def test_forged_targets_are_finite_or_refused(where: str) -> None:
    one, two = (Session(DriftSurf(LinearRegression()), batch_size=100) for _ in range(2))
    one.learn(X[:250], X[:250, 0])
    state: dict[str, Any] = dict(one.state())
    two.restore(state | {where: np.append(state[where][1:], 1e9)})
    with pytest.raises(StateError) as error:
        two.restore(state | {where: np.append(state[where][1:], math.nan)})
    assert error.value.entry == where


@pytest.mark.parametrize(
    ("learner", "changes", "entry"),
    [
        (SoftmaxRegression(), {"strategy.pool.n_classes": 9}, "strategy.pool.n_classes"),
        (SoftmaxRegression(), {"strategy.pool.n_classes": 1}, "strategy.pool.n_classes"),
        (
            SoftmaxRegression(),
            {"strategy.pool.n_classes": 9, "classes.labels": str([*range(9)])},
            "strategy.predictive.learner",
        ),
        (SoftmaxRegression(), {"schema.sparse": True}, "pending.sparse"),
        (SoftmaxRegression(), {"pending.sparse": True}, "pending.data"),
        (SoftmaxRegression(), {"strategy.trial": np.array([[900, 1000]])}, "strategy.trial"),
        (
            LogisticRegression(),
            {"strategy.pool.n_classes": 3, "classes.labels": "[0, 1, 2]"},
            "strategy.predictive.learner",
        ),
        (LinearRegression(), {"strategy.pool.n_classes": 2}, "strategy.pool.n_classes"),
        (LinearRegression(), {"strategy.pool.n_classes": -1}, "strategy.pool.n_classes"),
        (
            SklearnLearner(DecisionTreeClassifier()),
            {"strategy.predictive.learner.n_classes": 4},
            "strategy.predictive.learner",
        ),
        (SoftmaxRegression(), {"strategy.strange": 1}, "strategy.strange"),
        (SoftmaxRegression(), {"steps": 10**30}, "steps"),
        (SoftmaxRegression(), {"strange.entry": 1}, "strange.entry"),
    ],
)
def test_a_forged_number_of_classes_or_trial_is_refused(learner: Any, changes: dict[str, Any], entry: str) -> None:
    def begun() -> Session:
        return Session(DriftSurf(learner), batch_size=100)

    one, y = begun(), np.arange(250) % (2 if isinstance(learner, LogisticRegression) else 3)
    one.learn(X[:250], y)
    state = one.state()
    begun().restore(state)
    with pytest.raises(StateError) as error:
        begun().restore(state | changes)
    assert error.value.entry == entry


@pytest.mark.parametrize(
    ("entry", "value"), [("classes.labels", "["), ("started", "maybe"), ("steps", "many"), ("schema.names", "{")]
)
def test_invalid_entries_are_state_errors(entry: str, value: Any) -> None:
    one = session()
    one.learn(X, Y)
    with pytest.raises(StateError):
        session().restore(one.state() | {entry: value})


def test_deferred_interrupt_comes_after_the_step_and_the_note_is_true() -> None:
    class Interrupted(DriftSurf):
        def step(self, batch: Any, tested: Any = None) -> Decision:
            if self._live.step == 1:
                signal.raise_signal(signal.SIGINT)
            return super().step(batch, tested)

    one = Session(Interrupted(LogisticRegression(), seed=0))
    one.learn(X[:100], Y[:100])
    with pytest.raises(KeyboardInterrupt) as error, deferred_interrupts():
        one.learn(X[100:200], Y[100:200])
    (note,) = error.value.__notes__
    assert note.count("100") == 2  # all 100 rows of the call were learned
    assert one.steps == one.journal.steps_recorded == 2


def test_session_does_not_touch_signal_handlers_unless_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    installed: list[Any] = []
    install = signal.signal

    def watched(number: int, handler: Any) -> Any:
        installed.append(handler)
        return install(number, handler)

    monkeypatch.setattr(signal, "signal", watched)
    one = session(batch_size=60)
    one.learn(X[:90], Y[:90])
    one.observe(X[90:91], Y[90:91])
    one.flush()
    assert installed == []
    before = signal.getsignal(signal.SIGINT)
    with deferred_interrupts():
        with deferred_interrupts():  # the inner one has nothing to do
            one.learn(X[:90], Y[:90])
        assert len(installed) == 1
    assert len(installed) == 2
    assert signal.getsignal(signal.SIGINT) is before


def test_deferred_interrupts_do_nothing_in_other_threads_and_where_sigint_is_ignored() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with deferred_interrupts():
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
    seen: list[Any] = []

    def elsewhere() -> None:
        with deferred_interrupts():
            session().learn(X, Y)
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert seen == [before]


def deferred_learn(one: Session, X: Any, y: Any) -> None:
    with deferred_interrupts():
        one.learn(X, y)


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


def test_deferred_interrupt_at_any_line_leaves_only_complete_steps() -> None:
    """The state is the one before or after the step, whatever line the interrupt comes at."""
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
            if not interrupt_at(moment, lambda one=one: deferred_learn(one, X[90:130], 1 - Y[90:130])):
                break
        except KeyboardInterrupt:
            interrupted += 1
        assert to_bytes(one.state()) in allowed, f"at line {moment}"
        moment += 7
    assert interrupted > 20


@pytest.mark.parametrize("strategy", ["driftsurf", DriftSurf, LogisticRegression()])
def test_an_object_that_is_not_a_strategy_is_refused(strategy: Any) -> None:
    with pytest.raises(OptionError, match="DriftSurf"):
        Session(strategy)


@pytest.mark.parametrize("label", [np.array([1, 2]), pd.NA, None, [1, 2], math.nan, pd.NaT])
def test_a_single_row_with_an_invalid_label_is_refused_as_in_a_batch(label: Any) -> None:
    one = session(batch_size=100)
    one.learn(X[:20], Y[:20])
    with pytest.raises((LabelError, ShapeError)):
        one.observe(X[:1], [label])
    assert one.rows_pending == 20


def test_a_fresh_session_equals_one_made_with_its_seed() -> None:
    template = session(batch_size=100, classes=(0, 1))
    one, two = template.fresh(7), template.fresh(7)
    alone = Session(DriftSurf(LogisticRegression(), seed=7), batch_size=100, classes=(0, 1))
    for other in (one, alone):
        other.learn(X, Y)
    assert to_bytes(one.state()) == to_bytes(alone.state())
    assert len(one.journal) == 10
    assert len(two.journal) == len(template.journal) == 0
    assert two.schema is template.schema is None


def test_a_session_is_restored_from_its_surroundings_and_its_strategy() -> None:
    one, other = session(batch_size=100), session(batch_size=100)
    one.learn(X[:250], Y[:250])
    other.restore(one.surroundings(), one.strategy.state())
    for each in (one, other):
        each.learn(X[250:], Y[250:])
    assert to_bytes(one.state()) == to_bytes(other.state())
