"""Late labels: matched by key in any order, bounded, counted, exactly restored."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from scipy import sparse

from driftsurf.core.decisions import Decision
from driftsurf.core.state import from_bytes, to_bytes
from driftsurf.errors import InputError, LabelError, OptionError, ShapeError, StateError
from driftsurf.learners import LogisticRegression
from driftsurf.session.late import DelayedLabels
from driftsurf.session.session import Session
from driftsurf.strategies import DriftSurf

# Time steps of a few rows keep the random walk through all cases short.
pytestmark = pytest.mark.filterwarnings("ignore::driftsurf.errors.SmallBatchWarning")


def session(batch_size: int | None = None) -> Session:
    return Session(DriftSurf(LogisticRegression(), seed=3), batch_size=batch_size, classes=[0, 1])


def some(count: int, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(count, 2))
    return X, (X[:, 0] > 0).astype(np.int64)


def test_labels_in_order_without_delay_equal_plain_learning() -> None:
    X, y = some(400)
    delayed, plain = DelayedLabels(session()), session()
    wrong = 0
    for at in range(0, 400, 50):
        part = slice(at, at + 50)
        predicted = delayed.predict(range(at, at + 50), X[part])
        expected = plain.predict(X[part]) if plain.steps else None
        assert (predicted is None) == (expected is None)
        if expected is not None:
            assert predicted is not None
            assert predicted.tolist() == expected.tolist()
            wrong += int((expected != y[part]).sum())
        delayed.label(range(at, at + 50), y[part])
        plain.learn(X[part], y[part])
    assert to_bytes(delayed.model.state()) == to_bytes(plain.state())
    assert (delayed.counts.errors, delayed.counts.scored, len(delayed)) == (wrong, 350, 0)


def test_the_error_is_that_of_the_stored_prediction_and_its_version() -> None:
    X, y = some(300)
    delayed = DelayedLabels(session())
    delayed.predict(range(100), X[:100])
    delayed.label(range(100), y[:100])
    shown = delayed.predict(range(100, 200), X[100:200])
    assert shown is not None
    delayed.predict(range(200, 300), X[200:])
    delayed.label(range(200, 300), 1 - y[200:])  # the model changes before the labels of the others arrive
    joined = delayed.label(range(199, 99, -1), y[199:99:-1])
    assert joined.predicted == tuple(shown[::-1].tolist())
    assert joined.versions.tolist() == [1] * 100
    assert joined.keys == tuple(range(199, 99, -1))
    assert joined.waited.tolist() == [100.0] * 100
    assert len(joined.decisions) == 1


def test_time_steps_are_formed_by_the_arrival_of_labels() -> None:
    X, y = some(100)
    order = np.random.default_rng(1).permutation(100)
    delayed, plain = DelayedLabels(session(batch_size=30)), session(batch_size=30)
    delayed.predict(range(100), X)
    decisions: list[Decision] = []
    for at in range(0, 100, 7):
        part = order[at : at + 7]
        decisions += delayed.label(part, y[part]).decisions
    plain.learn(X[order], y[order])
    assert [decision.rows for decision in decisions] == [30, 30, 30]
    assert to_bytes(delayed.model.state()) == to_bytes(plain.state())


def test_late_duplicate_and_orphan_labels_are_counted() -> None:
    X, _ = some(10)
    delayed = DelayedLabels(session(), max_pending=4)
    delayed.predict([f"k{i}" for i in range(10)], X)
    assert len(delayed) == 4
    assert delayed.counts.expired == 6
    delayed.label(["k9", "k9", "k8", "k5", "never"], [0, 0, 1, 1, 1])
    delayed.label(["k8", "k1"], [1, 1])
    counts = delayed.counts
    assert (counts.labelled, counts.duplicate, counts.late, counts.orphan) == (
        2,
        2,
        1,
        2,
    )  # k1 is forgotten


def test_a_label_that_comes_before_its_row_is_held_and_learned() -> None:
    X, y = some(60)
    delayed, plain = DelayedLabels(session()), session()
    assert delayed.label(range(60), y).keys == ()
    assert delayed.counts.orphan == 60
    delayed.predict(range(40), X[:40])
    saved = from_bytes(to_bytes(delayed.state()))
    delayed = DelayedLabels(session())
    delayed.restore(saved)
    joined = delayed.label([], [])
    plain.learn(X[:40], y[:40])
    assert joined.true.tolist() == y[:40].tolist()
    assert (delayed.counts.orphan, delayed.counts.labelled, delayed.counts.duplicate) == (20, 40, 0)
    assert to_bytes(delayed.model.state()) == to_bytes(plain.state())


def test_labels_beyond_the_limit_are_dropped_oldest_first() -> None:
    X, y = some(6)
    delayed = DelayedLabels(session(), max_pending=4)
    delayed.label(range(6), y)
    delayed.predict([0, 1, 2], X[:3])
    assert delayed.label([], []).keys == (2,)
    assert delayed.counts.orphan == 5


def test_a_state_without_held_labels_is_one_of_an_earlier_version() -> None:
    X, y = some(5)
    delayed, again = DelayedLabels(session()), DelayedLabels(session())
    delayed.predict(range(5), X)
    again.restore({name: value for name, value in delayed.state().items() if name not in ("early", "ready")})
    assert to_bytes(again.state()) == to_bytes(delayed.state())
    assert again.label(range(5), y).keys == (0, 1, 2, 3, 4)


def test_rows_time_out() -> None:
    X, y = some(3)
    delayed = DelayedLabels(session(), timeout=10.0)
    delayed.predict(["a"], X[:1], time=100.0)
    delayed.predict(["b"], X[1:2], time=105.0)
    delayed.label(["b"], y[1:2], time=111.0)
    delayed.label(["a"], y[:1], time=90.0)  # time does not run backwards
    assert (delayed.counts.labelled, delayed.counts.expired, delayed.counts.late) == (1, 1, 1)
    assert np.isnan(delayed.counts.error)


def test_a_row_with_the_same_key_replaces_the_first() -> None:
    X, y = some(60)
    delayed, plain = DelayedLabels(session()), session()
    delayed.predict(range(30), X[:30])
    delayed.predict(range(30), X[30:])
    delayed.label(range(30), y[30:])
    plain.learn(X[30:], y[30:])
    assert delayed.counts.replaced == 30
    assert to_bytes(delayed.model.state()) == to_bytes(plain.state())
    delayed.predict([5], X[:1])
    delayed.label([5], y[:1])
    assert delayed.counts.duplicate == 0


def test_sparse_rows_and_frames_are_accepted() -> None:
    import pandas as pd

    X, y = some(60)
    order = np.arange(60)[::-1]
    for rows in (sparse.csr_array(X), pd.DataFrame(X, columns=["u", "v"])):
        delayed, plain = DelayedLabels(session()), session()
        delayed.predict(range(60), rows)
        delayed.label(order, y[order])
        plain.learn(rows.tocsr()[order] if isinstance(rows, sparse.csr_array) else X[order], y[order])
        assert to_bytes(delayed.model.state()) == to_bytes(plain.state())
        assert delayed.predict(["x"], rows[:1]) is not None
    swapped = pd.DataFrame(X[:, ::-1], columns=["v", "u"])
    named = delayed.predict(range(60), swapped)
    assert named is not None
    assert named.tolist() == plain.predict(X).tolist()


def test_bad_calls_change_nothing() -> None:
    X, y = some(20)
    delayed = DelayedLabels(session())
    delayed.predict(range(20), X)
    delayed.label(range(10), y[:10])
    before = to_bytes(delayed.state())
    calls: list[tuple[Any, type[Exception], str]] = [
        (lambda: delayed.predict([1], X), ShapeError, "1 .*20"),
        (lambda: delayed.predict("ab", X[:2]), InputError, "'ab'"),
        (lambda: delayed.predict([1.5], X[:1]), InputError, r"1\.5"),
        (lambda: delayed.predict([True], X[:1]), InputError, "True"),
        (lambda: delayed.predict([1], [[1.0, np.nan]]), InputError, "NaN"),
        (lambda: delayed.predict([1], X[:1], time=np.nan), InputError, "time.*nan"),
        (lambda: delayed.label([15], [7]), LabelError, "7"),
        (lambda: delayed.label([15, 16], [1]), ShapeError, "2.*1"),
        (lambda: delayed.label(cast("Any", 5), [1]), InputError, "keys.*5"),
    ]
    for call, error, message in calls:
        with pytest.raises(error, match=message):
            call()
        assert to_bytes(delayed.state()) == before
    with pytest.raises(OptionError, match=r"max_pending.*0"):
        DelayedLabels(session(), max_pending=0)
    with pytest.raises(OptionError, match=r"timeout.*0"):
        DelayedLabels(session(), timeout=0)
    assert delayed.label([], []).keys == ()


def test_rows_learned_before_an_error_count_as_learned(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = some(50)
    delayed = DelayedLabels(session(batch_size=20))
    delayed.predict(range(50), X)
    learn, calls = delayed.model.learn, []

    def fail_later(X: Any, y: Any) -> Any:
        calls.append(len(y))
        if len(calls) == 2:
            raise RuntimeError("disk")
        return learn(X, y)

    monkeypatch.setattr(delayed.model, "learn", fail_later)
    with pytest.raises(RuntimeError, match="disk"):
        delayed.label(range(50), y)
    assert (delayed.counts.labelled, len(delayed)) == (20, 30)
    delayed.label(range(50), y)
    assert (delayed.counts.labelled, delayed.counts.duplicate, len(delayed)) == (50, 20, 0)
    plain = session(batch_size=20)
    plain.learn(X, y)
    assert to_bytes(delayed.model.state()) == to_bytes(plain.state())


@pytest.mark.parametrize("batch_size", [None, 20])
def test_rows_whose_decision_cannot_be_written_are_learned_once(batch_size: int | None) -> None:
    X, y = some(50)

    def fail(_: Decision) -> None:
        raise OSError("disk full")

    model = session(batch_size)
    delayed = DelayedLabels(model)
    delayed.predict(range(50), X)
    model.journal.sink = fail
    with pytest.raises(OSError, match="disk full"):
        delayed.label(range(50), y)
    model.journal.sink = None
    delayed.label(range(50), y)
    first = 50 if batch_size is None else batch_size
    assert (delayed.counts.labelled, delayed.counts.duplicate, len(delayed)) == (50, first, 0)
    plain = session(batch_size)
    plain.learn(X, y)
    assert to_bytes(model.state()) == to_bytes(plain.state())


@pytest.mark.parametrize(
    "change",
    [
        {"counts": "{}x"},
        {"counts": '{"colour": 1}'},
        {"counts": '{"late": "1"}'},
        {"waiting": '[["a", 99, null, 0, 1.0]]'},
        {"waiting": '[["a"]]'},
        {"learned": "[1.5]"},
        {"early": '[["z", null]]'},
        {"early": "[[1, 0]]"},
        {"ready": '[["z", 0]]'},
        {"now": "soon"},
        {"samples.n_features": 3},
        {"schema.sparse": True},
    ],
)
def test_a_forged_state_is_refused(change: dict[str, Any]) -> None:
    X, _ = some(5)
    delayed = DelayedLabels(session())
    delayed.predict(range(5), X)
    state = delayed.state()
    with pytest.raises(StateError):
        DelayedLabels(session()).restore({**state, **change})
    with pytest.raises(StateError):
        DelayedLabels(session()).restore({})


KEYS = st.lists(st.integers(0, 12), min_size=1, max_size=6)


class AgainstAPlainDictionary(RuleBasedStateMachine):
    """Any order of rows, labels, time and restarts, compared with a plain dictionary and some lists."""

    def __init__(self) -> None:
        super().__init__()
        self.delayed = self.new()
        self.plain = session(batch_size=4)
        self.rows: dict[int, tuple[int, Any, Any, int, float]] = {}
        self.learned: list[int] = []
        self.lost: list[int] = []
        self.early: dict[int, int] = {}
        self.ready: dict[int, int] = {}
        self.dropped = 0
        self.now, self.seen = 0.0, 0
        self.counts = dict.fromkeys(
            ["labelled", "scored", "errors", "expired", "replaced", "late", "duplicate", "orphan"], 0
        )

    @staticmethod
    def new() -> DelayedLabels:
        return DelayedLabels(session(batch_size=4), max_pending=7, timeout=12.0)

    @rule(keys=KEYS, step=st.none() | st.integers(0, 5))
    def rows_come(self, keys: list[int], step: int | None) -> None:
        X, _ = some(len(keys), seed=self.seen)
        self.seen += len(keys)
        self.now = max(self.now, float(self.seen) if step is None else self.now + step)
        shown = self.plain.predict(X).tolist() if self.plain.steps else [None] * len(keys)
        given = self.delayed.predict(keys, X, time=None if step is None else self.now)
        assert (given.tolist() if given is not None else [None] * len(keys)) == shown
        for place, key in enumerate(keys):
            self.ready = {one: label for one, label in self.ready.items() if one != key} | {
                one: label for one, label in (self.ready | self.early).items() if one == key
            }
            self.early.pop(key, None)
            self.counts["replaced"] += key in self.rows
            self.rows.pop(key, None)
            self.learned = [one for one in self.learned if one != key]
            self.lost = [one for one in self.lost if one != key]
            number = self.seen - len(keys) + place
            self.rows[key] = (number, X[place], shown[place], self.plain.steps, self.now)
        self.give_up()

    @rule(keys=KEYS, step=st.integers(0, 3), label=st.integers(0, 1))
    def labels_come(self, keys: list[int], step: int, label: int) -> None:
        self.now += step
        joined = self.delayed.label(keys, [(label + key) % 2 for key in keys], time=self.now)
        self.give_up()
        found, held = dict(self.ready), dict[int, int]()
        for key in keys:
            if key in self.learned or key in found or key in held or key in self.early:
                self.counts["duplicate"] += 1
            elif key in self.lost:
                self.counts["late"] += 1
            else:
                (found if key in self.rows else held)[key] = (label + key) % 2
        everything = [*self.early.items(), *held.items()]
        self.early, self.ready = dict(everything[-7:]), {}
        self.dropped += len(everything[:-7])
        assert joined.keys == tuple(found)
        assert joined.predicted == tuple(self.rows[key][2] for key in found)
        assert joined.versions.tolist() == [self.rows[key][3] for key in found]
        for key, true in found.items():
            _, row, shown, version, _ = self.rows.pop(key)
            self.plain.learn([row], [true])
            self.learned = [*self.learned, key][-7:]
            self.counts["labelled"] += 1
            self.counts["scored"] += version > 0
            self.counts["errors"] += version > 0 and shown != true

    def give_up(self) -> None:
        for key, (number, _, _, _, time) in list(self.rows.items()):
            if number < self.seen - 7 or self.now - time > 12.0:
                del self.rows[key]
                self.counts["late"] += self.ready.pop(key, None) is not None
                self.lost = [*self.lost, key][-7:]
                self.counts["expired"] += 1

    @rule()
    def it_is_saved_and_restored(self) -> None:
        saved = to_bytes(self.delayed.state())
        self.delayed = self.new()
        self.delayed.restore(from_bytes(saved))
        assert to_bytes(self.delayed.state()) == saved

    @invariant()
    def both_are_alike(self) -> None:
        counts = self.delayed.counts
        self.counts["orphan"] = len(self.early) + self.dropped
        assert {name: getattr(counts, name) for name in self.counts} == self.counts
        assert counts.predicted == self.seen
        assert len(self.delayed) == len(self.rows)
        assert to_bytes(self.delayed.model.state()) == to_bytes(self.plain.state())


TestAgainstAPlainDictionary = AgainstAPlainDictionary.TestCase
TestAgainstAPlainDictionary.settings = settings(deadline=None, max_examples=40, stateful_step_count=25)
