"""Classes that are not named: each key learns its own."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from fleet_models import calls, separate
from fleets import same
from hypothesis import given, settings
from hypothesis import strategies as st

from driftsurf import DriftSurfClassifier, Fleet
from driftsurf.core.targets import ClassTargets
from driftsurf.errors import LabelError, StateError
from driftsurf.keyed.cell_store import GrowingStore
from driftsurf.keyed.labels import LabelSets
from driftsurf.learners import LinearSVM, LogisticRegression, SoftmaxRegression

pytestmark = pytest.mark.filterwarnings("ignore::driftsurf.errors.SmallBatchWarning")
MODELS = {
    "default": DriftSurfClassifier(max_rows=40, threshold=0.1),
    "without a guard": DriftSurfClassifier(LogisticRegression(), max_rows=25, guard=None, judge="training"),
    "uniform start": DriftSurfClassifier(
        LogisticRegression(start="uniform"), max_rows=40, guard=None, judge="training", dtype="float32"
    ),
    "softmax": DriftSurfClassifier(SoftmaxRegression(start="uniform"), max_rows=40, guard=None),
    "svm": DriftSurfClassifier(LinearSVM(start="uniform"), max_rows=30),
}
LABELS: dict[str, list[Any]] = {"text": ["no", "yes", "a", "zoo"], "numbers": [7, 3, 11, -2], "truth": [True, False]}
KEYS = 4


def saved(fleet: Fleet) -> Fleet:
    """Return a fleet through its bytes."""
    return Fleet.from_bytes(fleet.to_bytes())


def pickled(fleet: Fleet) -> Fleet:
    """Return a fleet through pickle."""
    made: Fleet = pickle.loads(pickle.dumps(fleet))
    return made


def growing(names: list[Any], n_calls: int, seed: int, most: int) -> Iterator[Any]:
    """Calls in which key k has the labels from the k-th on; further ones than the first two are rare."""
    rng = np.random.default_rng(seed)

    def labels(x: npt.NDArray[Any], turned: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return np.asarray((x > 0) == turned, int)

    for number, (keys, X, y) in enumerate(calls(labels, n_calls, KEYS, most, seed)):
        often = 0.3 if seed % 3 == 0 else 0.03 if number > n_calls // 2 else 0.0
        rare = rng.random(len(y)) < (often if len(names) > 2 else 0.0)
        code = (keys + np.where(rare, 2, y)) % len(names)
        yield keys, X, np.array(names)[code]


@settings(max_examples=20, deadline=None)
@given(
    st.sampled_from(sorted(MODELS)),
    st.sampled_from(sorted(LABELS)),
    st.integers(0, 2**20),
    st.integers(1, 25),
    st.sampled_from([4, 60]),
    st.lists(st.sampled_from([None, None, saved, pickled, copy.deepcopy]), min_size=14, max_size=14),
)
def test_a_key_with_classes_of_its_own_equals_a_separate_estimator(
    name: str, kind: str, seed: int, batch_size: int, most: int, breaks: list[Any]
) -> None:
    model, names = MODELS[name], LABELS[kind][: 2 if name == "svm" else None]
    fleet = Fleet(model, batch_size=batch_size, seed=seed)
    alone = {key: separate(model, key, seed, batch_size) for key in range(KEYS)}
    wrong = dict.fromkeys(alone, 0)
    for (keys, X, y), pause in zip(growing(names, 14, seed, most), breaks, strict=True):
        predicted = fleet.observe(keys, X, y)
        for key, one in alone.items():
            own = np.flatnonzero(keys == key)
            if len(own):
                expected = one.test_then_train(X[own], y[own])
                np.testing.assert_array_equal(predicted[own], expected)
                wrong[key] += int((expected != y[own]).sum())
        fleet = fleet if pause is None else pause(fleet)
    assert isinstance(fleet._backend, GrowingStore)
    table = fleet.table()
    for place, key in enumerate(map(int, fleet.keys)):
        same(fleet.session(key).state(), alone[key]._session.state())
        np.testing.assert_array_equal(fleet.predict([key] * len(X), X), alone[key].predict(X))
        assert round(table["error"][place] * table["rows"][place]) == wrong[key]


@pytest.mark.parametrize("name", sorted(MODELS))
@pytest.mark.parametrize("again", [saved, pickled, copy.deepcopy])
@pytest.mark.parametrize("labels", [["b", "a"], ["a", "b"], [7, -2], [True, False]], ids=str)
def test_a_fleet_that_was_saved_before_a_first_step_predicts_as_before(name: str, again: Any, labels: Any) -> None:
    fleet, alone = Fleet(MODELS[name], batch_size=9), separate(MODELS[name], 0, 0, 9)
    X = np.array([[0.5, -1.0, 2.0], [-0.5, 1.0, -2.0], [0.0, 0.0, 0.0]])
    fleet.observe([0, 0], X[:2], labels)
    alone.test_then_train(X[:2], np.array(labels))
    expected = alone.predict(X)
    np.testing.assert_array_equal(fleet.predict([0, 0, 0], X), expected)
    np.testing.assert_array_equal(again(fleet).predict([0, 0, 0], X), expected)


@pytest.mark.parametrize("name", ["default", "without a guard", "softmax"])
@pytest.mark.parametrize("kind", ["text", "truth"])
def test_native_loops_and_sessions_give_the_same_tables(name: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stream, made, moved = list(growing(LABELS[kind], 20, 3, 60)), [], 0
    for number in (6, 15):  # key 3 gets a value that is not finite, and is readmitted
        stream[number][1][stream[number][0] == 3] = np.inf
    for compiled in (True, False):
        if not compiled:
            monkeypatch.setattr("driftsurf.keyed.fleet.suits_cells", lambda _: False)
        fleet, predicted = Fleet(MODELS[name], batch_size=10, on_bad="quarantine"), []
        for number, call in enumerate(stream):
            predicted.append(fleet.observe(*call))
            if number == 10:
                fleet.readmit([3])
        assert isinstance(fleet._backend, GrowingStore) == compiled
        moved += np.size(fleet.state().get("classes.moved", ()))
        tables = [fleet.table(), fleet.transitions()]
        made.append((predicted, tables, [fleet.journal(key) for key in range(KEYS)]))
    assert (moved > 0) == (kind == "text")
    mine, theirs = made
    for own, other in zip(mine[0], theirs[0], strict=True):
        np.testing.assert_array_equal(own, other)
        assert own.dtype == other.dtype
    for table, expected in zip(mine[1], theirs[1], strict=True):
        for column, values in table.items():
            np.testing.assert_array_equal(values, expected[column], err_msg=column)
            assert values.dtype.kind == expected[column].dtype.kind, column
    assert mine[2] == theirs[2]


@pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")
@pytest.mark.parametrize(("size", "fails"), [(7, 3), (7, 0), (4, 1), (12, 0)])
@pytest.mark.parametrize("third", ["b", "c", "A"])
def test_a_class_of_a_time_step_that_failed_is_forgotten(
    size: int, fails: int, third: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = DriftSurfClassifier(LogisticRegression(step_size=30.0, l2=0.0), max_rows=20, guard=None)
    rng, made, stream = np.random.default_rng(0), [], []
    for number in range(8):
        X = rng.normal(size=(2 * size, 2)) * (1e200 if number == fails else 1.0)
        y = np.where(np.arange(2 * size) % size < size // 2, "b", "a")
        y[::3] = third if number >= fails else "b"
        stream.append((np.repeat([0, 1], size), X, y if number >= fails else np.repeat("b", 2 * size)))
    for compiled in (True, False):
        if not compiled:
            monkeypatch.setattr("driftsurf.keyed.fleet.suits_cells", lambda _: False)
        fleet = Fleet(model, batch_size=5, on_bad="quarantine")
        predicted = [fleet.observe(*call).tolist() for call in stream]
        known = [fleet.session(key).targets.labels for key in (0, 1)]
        fleet.readmit([0, 1])
        made.append((predicted, known, [fleet.observe(*call).tolist() for call in stream[4:]]))
        assert 0 not in fleet.table()["refused"]
    assert made[0] == made[1]


@pytest.mark.usefixtures("backend")
def test_labels_of_different_kinds_belong_to_different_keys() -> None:
    fleet = Fleet(MODELS["default"], batch_size=5)
    keys, X = np.tile([0, 1, 2], 20), np.linspace(-1, 1, 180).reshape(60, 3)
    y = np.array([["a", "longer"][row % 2] if key == 0 else [True, 4][key - 1] for row, key in enumerate(keys)], object)
    for _ in range(2):
        predicted = fleet.observe(keys, X, y)
    assert predicted.dtype == object
    assert set(predicted[keys == 0]) <= {"a", "longer"}
    assert set(map(repr, predicted[keys == 1])) == {"True"}
    assert set(map(repr, predicted[keys == 2])) == {"4"}
    with pytest.raises(LabelError, match="text"):
        fleet.observe([1], X[:1], ["a"])
    assert fleet.predict([1], X[:1]).dtype == bool


def test_sets_of_classes_are_shared_and_tell_equal_labels_of_other_types_apart() -> None:
    sets = LabelSets(ClassTargets())
    for names in (list(range(40)), sorted(map(str, range(40)))):
        coded = sets.columns_of(np.array(names))
        assert coded is not None
        owners, new = np.arange(40), np.full(40, True)
        numbers = sets.grown(owners, 0 * owners, coded.columns, new).tolist()
        assert numbers == sets.grown(owners, 0 * owners, coded.columns, new).tolist()
        assert [sets.targets[number].labels for number in numbers] == [(name,) for name in names]
        codes = sets.codes[np.array(numbers)][:, coded.columns]
        np.testing.assert_array_equal(codes, np.where(np.eye(40) > 0, 0, -1))
    truth, one = (sets.number_of(ClassTargets((label,))) for label in (True, 1))
    assert (sets.targets[truth].labels[0], sets.targets[one].labels[0]) == (True, 1)
    assert truth != one
    assert sets.columns_of(np.array([0.5])) is None
    assert sets.columns_of(np.arange(1_000)) is None  # more than the table has columns
    assert sets.columns_of(np.arange(40)) is not None
    many = sets.number_of(ClassTargets((2_000, 3)))
    assert sets.codes[many].max() == 1
    assert (sets.sizes[many], sets.against[many]) == (2, 1)


@pytest.mark.usefixtures("backend")
def test_keys_may_have_any_number_of_different_labels() -> None:
    fleet = Fleet(MODELS["default"], batch_size=5)
    keys, X = np.repeat(np.arange(200), 6), np.linspace(-1, 1, 2_400).reshape(1_200, 2)
    y = 2 * keys + np.arange(1_200) % 2
    for _ in range(2):
        predicted = fleet.observe(keys, X, y)
    np.testing.assert_array_equal(predicted // 2, keys)
    for key in (0, 199):
        one = separate(MODELS["default"], key, 0, 5)
        for _ in range(2):
            expected = one.test_then_train(X[keys == key], y[keys == key])
        np.testing.assert_array_equal(predicted[keys == key], expected)


def growing_state() -> dict[str, Any]:
    """The state of a fleet in which one key has three classes, and two have two."""
    fleet = Fleet(MODELS["default"], batch_size=10)
    rng = np.random.default_rng(0)
    for number in range(6):
        keys, X = rng.integers(3, size=40), rng.normal(size=(40, 2))
        y = np.where(X[:, 0] > 0, "b", "a")
        y[(keys == 1) & (X[:, 1] > 1) & (number > 3)] = "c"
        fleet.observe(keys, X, y)
    return dict(fleet.state())


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("classes.sets", '[["a", 1]]'),
        ("classes.sets", "{"),
        ("classes.of", np.array([0, 9, 0])),
        ("classes.of", np.array([0, 0])),
        ("classes.learned", np.array([2, 3, 3], np.uint8)),
        ("classes.learned", np.array([2, 2, 2], np.uint8)),
        ("classes.learned", np.zeros(3)),
        ("classes.moved", np.array([3])),
        ("classes.moved", np.array([1, 1])),
        ("key.waiting", np.array([9_999, 0, 0])),
        ("larger.3.slots", np.array([0])),
        ("larger.3.key.made", np.array([0])),
        ("larger.3.labels", np.full(59, 3, np.uint8)),
    ],
)
def test_a_state_with_wrong_classes_is_refused(name: str, wrong: Any) -> None:
    state = growing_state()
    assert Fleet.from_state(state).to_bytes()
    assert state["classes.moved"].tolist() == [1]
    with pytest.raises(StateError):
        Fleet.from_state(state | {name: wrong})
    with pytest.raises(StateError):
        Fleet.from_state({entry: value for entry, value in state.items() if entry != name})
