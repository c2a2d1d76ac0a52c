"""Fleets of any model: each key equals a separate estimator."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
from fleet_models import MODELS, SVM, TREE, calls, numbers, separate, words
from fleets import SMALL, same, served
from fleets import calls as binary_calls
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from driftsurf import DriftSurfClassifier, Fleet
from driftsurf.errors import (
    CapabilityError,
    LabelError,
    NonFiniteError,
    OptionError,
    ShapeError,
)
from driftsurf.keyed.cell_store import CellStore
from driftsurf.keyed.session_store import SessionStore
from driftsurf.learners import LogisticRegression
from driftsurf.session.session import Session
from driftsurf.strategies import AUE, DriftSurf

pytestmark = pytest.mark.filterwarnings("ignore::driftsurf.errors.SmallBatchWarning")


def pickled(fleet: Fleet) -> Fleet:
    """Return a fleet through pickle."""
    made: Fleet = pickle.loads(pickle.dumps(fleet))
    return made


def saved(fleet: Fleet) -> Fleet:
    """Return a fleet through its bytes."""
    data = fleet.to_bytes()
    return Fleet.from_bytes(data, TREE if b"DecisionTree" in data else None)


# ---------------------------------------------------------------------------- identity


@settings(max_examples=20, deadline=None)
@given(
    st.sampled_from(sorted(MODELS)),
    st.integers(0, 2**20),
    st.integers(1, 30),
    st.lists(st.sampled_from([None, None, saved, pickled, copy.deepcopy]), min_size=12, max_size=12),
    st.booleans(),
)
def test_every_key_equals_a_separate_estimator(
    name: str, seed: int, batch_size: int, breaks: list[Any], weighted: bool
) -> None:
    model, labels = MODELS[name]
    fleet = Fleet(model, batch_size=batch_size, seed=seed)
    alone = {key: separate(model, key, seed, batch_size) for key in range(4)}
    rng = np.random.default_rng(seed)
    journals: dict[int, list[Any]] = {key: [] for key in alone}
    weighted = weighted and name != "ddm"
    for (keys, X, y), pause in zip(calls(labels, 12, seed=seed), breaks, strict=True):
        weight = rng.integers(1, 3, size=len(y)) * 0.5 if weighted else None
        predicted = fleet.observe(keys, X, y, sample_weight=weight)
        for key, one in alone.items():
            own = np.flatnonzero(keys == key)
            if len(own):
                expected = one.test_then_train(X[own], y[own], sample_weight=None if weight is None else weight[own])
                np.testing.assert_array_equal(predicted[own], expected)
        if pause is saved:
            for key in map(int, fleet.keys):
                journals[key] += fleet.journal(key)
        fleet = fleet if pause is None else pause(fleet)
    for key in map(int, fleet.keys):
        own_session = alone[key]._session
        same(fleet.session(key).state(), own_session.state())
        assert journals[key] + fleet.journal(key) == own_session.journal.transitions
        expected = alone[key].predict(X)
        np.testing.assert_array_equal(fleet.predict([key] * len(X), X), expected)


def test_the_model_decides_which_backend_serves_the_keys() -> None:
    for name, (model, labels) in MODELS.items():
        fleet = Fleet(model, batch_size=10)
        served(fleet, calls(labels, 2))  # type: ignore[arg-type]
        kind = CellStore if name.startswith("compiled") else SessionStore
        assert isinstance(fleet._backend, kind), name
    unbounded = DriftSurfClassifier(LogisticRegression(), guard=None, classes=[0, 1])
    assert isinstance(served(Fleet(unbounded), binary_calls(2))._backend, SessionStore)


@pytest.mark.usefixtures("backend")
def test_a_fleet_of_the_default_model_is_a_fleet_without_a_model() -> None:
    learner = LogisticRegression(step_size=0.1)
    options = {name: value for name, value in SMALL.items() if name not in ("step_size", "batch_size")}
    model = DriftSurfClassifier(learner, dtype="float32", guard=None, classes=(0, 1), batch_size=10, **options)
    plain, estimator = Fleet(**SMALL), Fleet(model)
    strategy = Fleet(DriftSurf(learner, dtype="float32", **options), classes=(0, 1), batch_size=10)
    for call in binary_calls():
        expected = plain.observe(*call)
        np.testing.assert_array_equal(estimator.observe(*call), expected)
        np.testing.assert_array_equal(strategy.observe(*call), expected)
    for name, column in plain.table().items():
        np.testing.assert_array_equal(estimator.table()[name], column)
        assert column.dtype == strategy.table()[name].dtype
    for name, column in plain.transitions().items():
        np.testing.assert_array_equal(strategy.transitions()[name], column)
    for key in range(5):
        same(estimator.session(key).state(), plain.session(key).state())
        np.testing.assert_array_equal(estimator.weights(key), plain.weights(key))


def test_tables_and_records_are_those_of_the_native_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = served(Fleet(**SMALL), binary_calls())
    monkeypatch.setattr("driftsurf.keyed.fleet.suits_cells", lambda _: False)
    sessions = served(Fleet(**SMALL), binary_calls())
    assert type(sessions._backend) is SessionStore
    for mine, theirs in ((compiled.table(), sessions.table()), (compiled.transitions(), sessions.transitions())):
        assert list(mine) == list(theirs)
        for name, column in mine.items():
            np.testing.assert_array_equal(column, theirs[name], err_msg=name)
            assert column.dtype.kind == theirs[name].dtype.kind, name
    for key in range(5):
        assert compiled.journal(key) == sessions.journal(key)


def test_a_session_of_a_key_is_a_copy_with_a_journal() -> None:
    fleet = served(Fleet(SVM, batch_size=10), binary_calls(20))
    session, before = fleet.session(1), fleet.to_bytes()
    assert type(session) is Session
    for _, X, y in binary_calls(30, seed=2):
        session.observe(X, y)
    assert len(session.journal) > 5
    assert fleet.to_bytes() == before


# ---------------------------------------------------------------------------- options


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        (3, {}, "model is 3.*n_features=3"),
        (DriftSurfClassifier, {}, "model"),
        (DriftSurfClassifier(), {"threshold": 0.2}, "threshold is 0.2"),
        (DriftSurfClassifier(), {"step_size": 0.2}, "step_size is 0.2"),
        (DriftSurfClassifier(), {"classes": (0, 1)}, r"classes is \(0, 1\)"),
        (DriftSurfClassifier(), {"batch_size": 0}, "batch_size is 0"),
        (DriftSurfClassifier(threshold=-1.0), {}, "threshold is -1"),
        (DriftSurfClassifier(LogisticRegression(step_size=2.0, l2=1.0)), {}, r"step_size \* l2"),
        (AUE(LogisticRegression(), experts=0), {}, "experts is 0"),
    ],
)
def test_wrong_options_of_a_fleet_with_a_model_are_named(model: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        Fleet(model, **options).observe([1], [[0.0, 0.0]], [0])


def test_the_batch_size_is_that_of_the_fleet_else_of_the_model_else_32() -> None:
    for model, size, expected in (
        (DriftSurfClassifier(), None, 32),
        (DriftSurfClassifier(batch_size=7), None, 7),
        (DriftSurfClassifier(batch_size=7), 5, 5),
        (DriftSurf(LogisticRegression()), None, 32),
        (Session(DriftSurf(LogisticRegression()), batch_size=6), None, 6),
    ):
        fleet = served(Fleet(model, batch_size=size), binary_calls(2))
        assert fleet.session(fleet.keys[0]).batch_size == expected


def test_the_first_call_fixes_the_columns_unless_it_fails() -> None:
    for model in (None, SVM):
        fleet = Fleet(model, batch_size=10)
        empty = fleet.to_bytes()
        with pytest.raises(LabelError):
            fleet.observe([0, 0], [[0.0], [1.0]], np.array([None, 1]))
        with pytest.raises(NonFiniteError):
            fleet.observe([0], [[np.nan]], [1])
        assert fleet.to_bytes() == empty
        again = Fleet.from_bytes(empty)
        for one in (fleet, again):
            assert all(len(column) == 0 for column in one.table().values())
            served(one, binary_calls(5))
            with pytest.raises(ShapeError, match=r"this fleet .* 3 "):
                one.predict([0], [[0.0]])
        assert fleet.to_bytes() == again.to_bytes()


def test_a_fitted_estimator_is_a_model_and_is_not_changed() -> None:
    fitted = clone(SVM).set_params(batch_size=10).fit(np.eye(4), [0, 1, 0, 1])
    before = fitted.to_bytes()
    fleet = served(Fleet(fitted), binary_calls(5))
    assert fitted.to_bytes() == before
    assert fleet.to_bytes() == served(Fleet(SVM, batch_size=10), binary_calls(5)).to_bytes()


# ---------------------------------------------------------------------------- reading


def test_weights_are_those_of_a_single_linear_model() -> None:
    fleet = served(Fleet(MODELS["compiled guard, softmax"][0], batch_size=10), calls(words))  # type: ignore[arg-type]
    assert fleet.weights(0).shape == (3, 4)
    number = served(Fleet(MODELS["compiled guard, regression"][0], batch_size=10), calls(numbers))  # type: ignore[arg-type]
    assert number.weights(0).shape == (4,)
    for name in ("aue", "tree"):
        model, labels = MODELS[name]
        with pytest.raises(CapabilityError, match=r"session\(key\)"):
            served(Fleet(model, batch_size=10), calls(labels)).weights(0)  # type: ignore[arg-type]


def test_the_error_of_numbers_is_the_mean_absolute_error() -> None:
    fleet, missed, rows = Fleet(MODELS["compiled guard, regression"][0], batch_size=10), np.zeros(4), np.zeros(4)
    for keys, X, y in calls(numbers):
        np.add.at(missed, keys, np.abs(fleet.observe(keys, X, y) - y))
        np.add.at(rows, keys, 1)
    table = fleet.table()
    np.testing.assert_allclose(table["error"], (missed / rows)[table["key"]], rtol=1e-12)
    np.testing.assert_array_equal(table["rows"], rows[table["key"]])


def test_each_key_has_its_own_classes() -> None:
    fleet = Fleet(DriftSurfClassifier(max_rows=40), batch_size=5)
    keys, X = np.tile([0, 1], 20), np.tile(np.linspace(-1, 1, 20).repeat(2)[:, np.newaxis], 2)
    y = np.array([["a", "longer"][row % 3 > 0] if key == 0 else row % 3 for row, key in enumerate(keys)], object)
    for _ in range(3):
        predicted = fleet.observe(keys, X, y)
    assert predicted.dtype == object
    assert set(predicted[keys == 0]) <= {"a", "longer"}
    assert set(predicted[keys == 1]) <= {0, 1, 2}
    assert fleet.predict([0, 0], X[:2]).dtype.kind == "U"
