"""Visits to one key: rows in order, each once, with the same result however they are spread."""

from __future__ import annotations

import itertools
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from keyed_rows import joined, late_rows, learner, model_entries, part, rows, same_end, visits

from driftsurf import Fleet
from driftsurf.core.journal import read_lines
from driftsurf.core.state import from_bytes
from driftsurf.errors import InputError, ShapeError, StateError
from driftsurf.keyed import KeyRows, key_seed
from driftsurf.keyed.key_cache import KeyCells
from driftsurf.keyed.labels import MOST_COLUMNS
from driftsurf.keyed.visit import KeptModels
from driftsurf.learners import LinearRegression, LogisticRegression, SoftmaxRegression
from driftsurf.session.session import Session
from driftsurf.strategies import DriftSurf, Oblivious

pytestmark = pytest.mark.filterwarnings("ignore::driftsurf.errors.SmallBatchWarning")


@settings(max_examples=25, deadline=None)
@given(cuts=st.lists(st.integers(0, 200), max_size=8), seed=st.integers(0, 10**6))
def test_the_result_does_not_depend_on_visits_or_the_order_of_rows(cuts: list[int], seed: int) -> None:
    all_rows, given_learner = rows(), learner()
    bounds = [0, *sorted(cuts), 200]
    rng = np.random.default_rng(seed)
    parts = [all_rows.take(rng.permutation(np.arange(a, b))) for a, b in itertools.pairwise(bounds) if b > a]
    same_end(visits(given_learner, *parts), visits(given_learner, all_rows))


@pytest.mark.parametrize(
    ("strategy", "labels"),
    [
        (DriftSurf(LogisticRegression(), max_rows=64), ["b", "a"]),
        (DriftSurf(SoftmaxRegression(), max_rows=64), ["b", "a", "c"]),
        (DriftSurf(SoftmaxRegression(), max_rows=64), [2, 1, 0]),
        (DriftSurf(LinearRegression(), max_rows=64), [0.5, 1.5]),
    ],
)
def test_nothing_is_predicted_before_the_first_time_step_unless_classes_are_given(
    strategy: DriftSurf, labels: list[Any]
) -> None:
    own, chance = rows(64), np.random.default_rng(0)
    y = [None if i in (3, 20) else labels[int(chance.integers(len(labels)))] for i in range(64)]
    given_rows, given_learner = KeyRows(own.sequence, own.X, y), learner(strategy=strategy, classes=None)
    whole = visits(given_learner, given_rows)
    assert [value is None for value in whole[0].predicted] == [True] * 11 + [False] * 53
    assert whole[0].summary.scored == 64 - 10 - 2
    for bounds in ([0, 1, 2, 3, 5, 64], [0, 10, 20, 33, 64], list(range(65))):
        parts = [part(given_rows, a, b) for a, b in itertools.pairwise(bounds)]
        same_end(visits(given_learner, *parts), whole)


def test_a_key_equals_a_separate_session() -> None:
    all_rows, given_learner = rows(), learner()
    done = visits(given_learner, part(all_rows, 0, 77), part(all_rows, 77, 200))
    rule = DriftSurf(
        LogisticRegression(step_size=0.1), threshold=0.1, max_rows=30, dtype="float32", seed=key_seed(3, 7)
    )
    alone = Session(rule, classes=(0, 1), batch_size=10, guard=None)
    seen = alone.observe(all_rows.X, all_rows.y)
    assert joined(done, "predicted") == seen.labels.tolist()
    assert [read_lines(text)[0].transitions for text in joined(done, "decisions")] == [
        decision.transitions for decision in seen.decisions
    ]
    restored = given_learner.session(7)
    restored.restore(model_entries(done[-1].state))
    np.testing.assert_array_equal(restored.predict(all_rows.X), alone.predict(all_rows.X))
    assert done[-1].summary.errors == seen.errors
    assert done[-1].summary.transitions == sum(len(decision.transitions) for decision in seen.decisions) > 0


def test_a_key_equals_a_key_of_a_fleet() -> None:
    all_rows = rows()
    fleet = Fleet(n_features=2, step_size=0.1, threshold=0.1, max_rows=30, batch_size=10, seed=3)
    predicted = fleet.observe(np.full(200, 7), all_rows.X, all_rows.y)
    (visit,) = visits(learner(), all_rows)
    assert visit.predicted == predicted.tolist()
    table = fleet.table()
    assert (visit.summary.state, visit.summary.transitions) == (table["state"][0], table["transitions"][0])
    assert visit.summary.last_transition == table["last_transition"][0]
    assert visit.summary.last_transition_at == 10 * table["last_step"][0] + 9


def test_without_a_batch_size_each_visit_is_a_time_step() -> None:
    all_rows, given_learner = rows(), learner(batch_size=None)
    parts = [part(all_rows, 50 * k, 50 * (k + 1)) for k in range(4)]
    done = visits(given_learner, *parts)
    assert [visit.summary.steps for visit in done] == [1, 2, 3, 4]
    assert [visit.decided_at for visit in done] == [[49], [99], [149], [199]]
    again = given_learner.visit(7, done[1].state, parts[2])
    assert (again.state, again.predicted) == (done[2].state, done[2].predicted)


def test_a_keyed_learner_can_be_pickled() -> None:
    same_end(visits(pickle.loads(pickle.dumps(learner())), rows()), visits(learner(), rows()))


def test_rows_below_the_high_water_mark_are_dropped_and_counted() -> None:
    all_rows = rows()
    done = visits(
        learner(), part(all_rows, 0, 100), part(all_rows, 60, 150, 90, 100), part(all_rows, 150, 200, 150, 200)
    )
    clean = visits(learner(), all_rows)
    assert joined(done, "predicted") == joined(clean, "predicted")
    assert done[-1].summary.duplicates == 40 + 10 + 50
    assert done[-1].summary.high_water == 199
    assert done[-1].summary.rows == 200


def test_a_visit_with_duplicates_only_changes_only_their_count() -> None:
    first, second = visits(learner(), rows(), part(rows(), 3, 9))
    assert second.sequence == second.predicted == second.decisions == []
    assert second.summary.duplicates == 6
    assert model_entries(second.state).keys() == model_entries(first.state).keys()


def test_the_first_of_rows_with_the_same_number_is_taken() -> None:
    given_rows = KeyRows(np.array([1, 1]), np.array([[1.0, 0.0], [5.0, 5.0]]), [1, 0])
    (visit,) = visits(learner(), given_rows)
    assert (visit.sequence, visit.true) == ([1], [1])


def test_sequence_numbers_must_be_integers() -> None:
    with pytest.raises(InputError, match="float64"):
        learner().visit(7, None, KeyRows(np.array([0.5]), np.zeros((1, 2)), [0]))


def test_rows_without_a_label_are_predicted_by_the_model_of_their_time() -> None:
    all_rows = rows()
    bare = [None if i % 7 == 3 else label for i, label in enumerate(all_rows.y)]
    given_rows = KeyRows(all_rows.sequence, all_rows.X, bare)
    whole = visits(learner(), given_rows)
    same_end(visits(learner(), part(given_rows, 0, 55), part(given_rows, 55, 200)), whole)
    assert whole[0].summary.scored == sum(label is not None for label in bare)
    assert whole[0].summary.rows == 200
    assert None not in whole[0].predicted


def test_without_a_batch_size_rows_without_a_label_are_predicted_by_the_model_before() -> None:
    all_rows = rows(40)
    bare = KeyRows(all_rows.sequence, all_rows.X, [None, *all_rows.y[1:]])
    first, second = visits(learner(batch_size=None), bare, KeyRows(np.array([50]), np.ones((1, 2)), [None]))
    assert first.predicted[0] is None  # there is no model before the first labelled row
    assert second.predicted[0] in (0, 1)
    assert second.summary.steps == 1


@settings(max_examples=15, deadline=None)
@given(cuts=st.lists(st.integers(0, 200), max_size=6))
def test_late_labels_find_their_rows_however_visits_are_cut(cuts: list[int]) -> None:
    events, given_learner = late_rows(), learner(delay=100)
    bounds = [0, *sorted(cuts), 200]
    parts = [events.take(np.arange(a, b)) for a, b in itertools.pairwise(bounds) if b > a]
    whole = visits(given_learner, events)
    same_end(visits(given_learner, *parts), whole)
    assert whole[0].summary.waiting == 0
    assert whole[0].summary.steps == 10
    assert whole[0].summary.scored == 100 - 25  # the first come before there is a model


def test_labels_that_come_too_late_are_not_learned() -> None:
    (visit,) = visits(learner(delay=20), late_rows(wait=15))
    assert visit.summary.steps == visit.summary.scored == 0


def test_the_number_of_waiting_rows_is_bounded() -> None:
    given_rows = KeyRows(np.arange(50), np.ones((50, 2)), [None] * 50, list(range(50)))
    (visit,) = visits(learner(delay=1000, max_pending=20), given_rows)
    assert visit.summary.waiting == 20


def test_with_late_labels_a_label_can_come_with_its_row() -> None:
    own = rows(20)
    (visit,) = visits(learner(delay=5), KeyRows(own.sequence, own.X, own.y, list(range(20))))
    assert visit.summary.steps == 2
    assert visit.true == own.y


def test_a_label_that_comes_before_its_row_is_learned_with_it() -> None:
    own = rows(20)
    ids = [*range(20), *range(20)]
    events = KeyRows(np.arange(40), np.vstack([np.full((20, 2), np.nan), own.X]), [*own.y, *[None] * 20], ids)
    halves = events.take(np.arange(25)), events.take(np.arange(25, 40))
    whole = visits(learner(delay=100), events)
    same_end(visits(learner(delay=100), *halves), whole)
    assert whole[0].true[20:] == own.y
    assert (whole[0].summary.steps, whole[0].summary.waiting) == (2, 0)


def test_late_labels_need_ids() -> None:
    with pytest.raises(InputError, match="ids"):
        learner(delay=5).visit(7, None, rows(3))


def test_a_silent_key_is_dropped_and_starts_over() -> None:
    (visit,) = visits(learner(), rows())
    gone = learner().expire(7, visit.state)
    assert (gone.state, gone.summary.expired, gone.summary.rows) == (b"", True, 200)
    same_end([learner().visit(7, gone.state, rows())], [visit])


def test_other_strategies_and_regression_work_per_key() -> None:
    own = rows(60)
    values = KeyRows(own.sequence, own.X, own.X[:, 0].tolist())
    strategy = Oblivious(LinearRegression(), max_rows=100)
    (visit,) = visits(learner(strategy=strategy, classes=None), values)
    assert visit.summary.quarantine == ""
    assert visit.summary.steps == 6
    assert all(isinstance(value, float) for value in visit.predicted[10:])


def test_rows_must_have_equal_lengths_and_the_named_columns() -> None:
    with pytest.raises(ShapeError, match=r"\[2, 3\]"):
        KeyRows(np.arange(3), np.zeros((3, 2)), [0, 1])
    with pytest.raises(ShapeError, match=r"3 .* 2 "):
        learner().visit(7, None, KeyRows(np.arange(2), np.zeros((2, 3)), [0, 1]))


def test_an_exception_of_a_signal_handler_is_not_the_fault_of_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    class Alarm(Exception):
        pass

    given_learner, raised = learner(), Alarm("ten seconds are over")
    before = given_learner.visit("a", None, rows(50))
    observe, calls = Session.observe, 0

    def alarm(self: Session, *arguments: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise raised
        return observe(self, *arguments, **options)

    monkeypatch.setattr(Session, "observe", alarm)
    with pytest.raises(Alarm) as error:
        given_learner.visit("a", before.state, rows(50, start=50))
    assert error.value is raised
    assert given_learner.visit("a", before.state, rows(50, start=50)).summary.quarantine == ""


def test_an_error_that_comes_again_is_the_fault_of_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    observe = Session.observe

    def fail(self: Session, X: Any, y: Any) -> Any:
        if self.steps == 3:
            raise ZeroDivisionError("no learner")
        return observe(self, X, y)

    monkeypatch.setattr(Session, "observe", fail)
    found = learner().visit("a", None, rows(50)).summary
    assert (found.quarantine, found.quarantined_at) == ("error", 30)


@pytest.mark.parametrize("kind", [LogisticRegression, SoftmaxRegression, LinearRegression])
@pytest.mark.parametrize("options", [{}, {"batch_size": None, "guard": 2.0}])
def test_a_model_that_was_kept_equals_one_that_is_read(kind: Any, options: dict[str, Any]) -> None:
    given_rows, regression = rows(), kind is LinearRegression
    if regression:
        given_rows = KeyRows(given_rows.sequence, given_rows.X, given_rows.X[:, 0].tolist())
    keeping = learner(strategy=DriftSurf(kind(), max_rows=64), classes=None if regression else ("a", "b"), **options)
    keeping = keeping if regression else replace(keeping, classes=tuple(sorted(set(given_rows.y))))
    state: bytes | None = None
    for a in range(0, 200, 7):
        own = part(given_rows, a, min(a + 7, 200))
        assert len(keeping._kept) == (state is not None)
        seen, read = keeping.visit("k", state, own), pickle.loads(pickle.dumps(keeping)).visit("k", state, own)
        assert [getattr(seen, name) for name in seen.__slots__] == [getattr(read, name) for name in seen.__slots__]
        state = seen.state


def test_a_kept_model_is_used_for_its_own_bytes_only() -> None:
    given_learner, all_rows = learner(), rows()
    first = given_learner.visit("k", None, part(all_rows, 0, 50)).state
    second = given_learner.visit("k", first, part(all_rows, 50, 90))
    assert len(given_learner._kept) == 1
    again = given_learner.visit("k", first, part(all_rows, 50, 90))  # as an engine repeats a visit
    assert (again.state, again.predicted) == (second.state, second.predicted)
    assert len(given_learner._kept) == 1
    for damaged in (second.state[:-1], second.state[:-40] + b"\0" + second.state[-39:]):
        with pytest.raises(StateError):
            given_learner.visit("k", damaged, part(all_rows, 90, 100))
    assert not len(pickle.loads(pickle.dumps(given_learner))._kept)


def test_a_failing_visit_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    given_learner, all_rows = learner(), rows()
    state = given_learner.visit("k", None, part(all_rows, 0, 50)).state
    expected = pickle.loads(pickle.dumps(given_learner)).visit("k", state, part(all_rows, 50, 90)).state
    with monkeypatch.context() as context:
        context.setattr(Session, "_recorded", _fail)
        with pytest.raises(MemoryError):
            given_learner.visit("k", state, part(all_rows, 50, 90))
    assert given_learner.visit("k", state, part(all_rows, 50, 90)).state == expected


def _fail(*_: object) -> None:
    raise MemoryError


def test_kept_models_take_a_bounded_part_of_the_memory() -> None:
    kept = KeptModels(most_bytes=100)
    for key in range(50):
        kept.keep(key, bytes(10), key)
    assert [kept.take(key, bytes(10)) for key in (0, 9, 10)] == [0, 9, None]
    kept.keep(51, bytes(101), "large")
    assert kept.take(51, bytes(101)) is None


def worded(key: int, n: int = 64) -> KeyRows:
    """Rows of a key with labels of its own."""
    X = np.random.default_rng(key).normal(size=(n, 2))
    return KeyRows(np.arange(n), X, [f"{key} is {one > 0}" for one in X[:, 0]])


def test_the_bytes_of_a_key_do_not_depend_on_the_labels_of_the_keys_before() -> None:
    one = learner(classes=None)
    assert one.suits_cells
    for key in range(MOST_COLUMNS // 2 + 3):
        visit = one.visit(key, None, worded(key))
        assert visit.state == learner(classes=None).visit(key, None, worded(key)).state
        assert "cell" in from_bytes(visit.state)
    assert one.visit(0, visit.state, worded(0)).summary.duplicates == 64


def test_threads_that_visit_keys_take_turns_with_the_room_for_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    shared, inside, ended = learner(), threading.Event(), threading.Event()
    put, within, most = KeyCells.put, list[int](), list[int]()

    def slow(cells: KeyCells, *given: Any) -> bool:
        within.append(1)
        most.append(len(within))
        if not inside.is_set():
            inside.set()
            ended.wait(0.2)  # another visit would come here meanwhile
        within.pop()
        return put(cells, *given)

    monkeypatch.setattr(KeyCells, "put", slow)
    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(visits, shared, rows(55, seed=5), key=2)
        assert inside.wait(30)
        here = visits(shared, rows(55), key=1)
        ended.set()
        there = other.result(30)
    assert set(most) == {1}
    same_end(here, visits(learner(), rows(55), key=1))
    same_end(there, visits(learner(), rows(55, seed=5), key=2))
