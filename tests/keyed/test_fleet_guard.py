"""The range guard in native loops: each key equals a separate estimator, whatever values it gets."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from fleet_models import MODELS, calls, numbers, separate, two
from fleets import same
from hypothesis import given, settings
from hypothesis import strategies as st

from driftsurf import DriftSurfClassifier, DriftSurfRegressor, Fleet
from driftsurf.errors import StateError
from driftsurf.keyed.cell_store import CellStore
from driftsurf.learners import LinearRegression, LogisticRegression
from driftsurf.native.guard import MEMORY

pytestmark = pytest.mark.filterwarnings("ignore::driftsurf.errors.SmallBatchWarning")
GUARDED = sorted(name for name in MODELS if name.startswith("compiled guard"))


def saved(fleet: Fleet) -> Fleet:
    """Return a fleet through its bytes."""
    return Fleet.from_bytes(fleet.to_bytes())


def pickled(fleet: Fleet) -> Fleet:
    """Return a fleet through pickle."""
    made: Fleet = pickle.loads(pickle.dumps(fleet))
    return made


def extreme(model: Any, labels: Any, n_calls: int, seed: int) -> Iterator[Any]:
    """Calls with columns of any size, values of 0, and values that are far too large, now and then many of them."""
    rng = np.random.default_rng(seed + 1)
    largest = 1e30 if model.dtype == "float32" else 1e170
    for number, (keys, X, y) in enumerate(calls(labels, n_calls, seed=seed)):
        X *= [1.0, 1e-3, 1e4]
        X[rng.random(X.shape) < 0.1] = 0.0
        share = 0.9 if number == n_calls // 3 else 0.04
        X[rng.random(X.shape) < share] *= rng.choice([8.0, 1e3, 1e6, largest])
        X[:, 1] *= number > 2  # a column without values at first
        X[:, 0] *= 50.0 if number > n_calls // 2 else 1.0  # a new scale
        yield keys, X, y


@settings(max_examples=20, deadline=None)
@given(
    st.sampled_from(GUARDED),
    st.integers(0, 2**20),
    st.integers(1, 30),
    st.lists(st.sampled_from([None, None, saved, pickled, copy.deepcopy]), min_size=16, max_size=16),
    st.booleans(),
)
def test_a_key_with_extreme_values_equals_a_separate_estimator(
    name: str, seed: int, batch_size: int, breaks: list[Any], weighted: bool
) -> None:
    model, labels = MODELS[name]
    fleet = Fleet(model, batch_size=batch_size, seed=seed)
    alone = {key: separate(model, key, seed, batch_size) for key in range(4)}
    rng = np.random.default_rng(seed)
    for (keys, X, y), pause in zip(extreme(model, labels, 16, seed), breaks, strict=True):
        weight = rng.integers(0, 3, size=len(y)) * 0.5 if weighted else None
        predicted = fleet.observe(keys, X, y, sample_weight=weight)
        for key, one in alone.items():
            own = np.flatnonzero(keys == key)
            if len(own):
                expected = one.test_then_train(X[own], y[own], sample_weight=None if weight is None else weight[own])
                np.testing.assert_array_equal(predicted[own], expected)
        fleet = fleet if pause is None else pause(fleet)
    assert isinstance(fleet._backend, CellStore)
    for key in map(int, fleet.keys):
        same(fleet.session(key).state(), alone[key]._session.state())
        np.testing.assert_array_equal(fleet.predict([key] * len(X), X), alone[key].predict(X))


def test_a_guard_remembers_as_many_norms_as_that_of_a_separate_estimator() -> None:
    model = DriftSurfClassifier(LogisticRegression(), max_rows=64, classes=[0, 1])
    fleet, one = Fleet(model, batch_size=50), separate(model, 0, 0, 50)
    rng, sizes = np.random.default_rng(0), []
    for _ in range(15):
        X = rng.normal(size=(100, 3)) ** 3
        y = np.asarray(X[:, 0] > 0, int)
        np.testing.assert_array_equal(fleet.observe([0] * 100, X, y), one.test_then_train(X, y))
        sizes.append(fleet.bytes_per_key)
    assert len(one._session.now.guard.recent) == MEMORY
    same(fleet.session(0).state(), one._session.state())
    assert sizes[-1] - sizes[2] == 8 * (MEMORY - 512)  # 300 rows have room for 512 norms
    assert sizes == sorted(sizes)


@pytest.mark.usefixtures("backend")
def test_a_key_with_values_that_cannot_be_learned_is_in_quarantine_alone() -> None:
    model = DriftSurfRegressor(LinearRegression(), max_rows=40)
    fleet, clean = Fleet(model, batch_size=10, on_bad="quarantine"), Fleet(model, batch_size=10)
    for number, (keys, X, y) in enumerate(extreme(model, numbers, 20, 3)):
        poisoned = X.copy()
        if number in (5, 9):
            poisoned[np.flatnonzero(keys == 1)[2:], 1] = np.nan
        predicted, expected = fleet.observe(keys, poisoned, y), clean.observe(keys, X, y)
        others = keys != 1
        np.testing.assert_array_equal(predicted[others], expected[others])
        if number == 7:
            fleet.readmit([1])
    table = fleet.table()
    assert table["quarantine"][list(table["key"]).index(1)] == "not_finite"
    assert list(table["refused"] > 0) == [key == 1 for key in table["key"]]
    for key in (0, 2, 3):
        same(fleet.session(key).state(), clean.session(key).state())


@pytest.mark.parametrize("name", GUARDED)
def test_native_loops_and_sessions_give_the_same_tables(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, labels = MODELS[name]
    stream, made = list(extreme(model, labels, 16, 5)), []
    for compiled in (True, False):
        if not compiled:
            monkeypatch.setattr("driftsurf.keyed.fleet.suits_cells", lambda _: False)
        fleet = Fleet(model, batch_size=10, on_gap="fill")
        predicted = [fleet.observe(keys, np.where(X == 0.0, np.nan, X), y) for keys, X, y in stream]
        assert isinstance(fleet._backend, CellStore) == compiled
        made.append((np.concatenate(predicted), fleet.table(), fleet.transitions()))
    mine, theirs = made
    np.testing.assert_array_equal(mine[0], theirs[0])
    for own, other in zip(mine[1:], theirs[1:], strict=True):
        for column, values in own.items():
            np.testing.assert_array_equal(values, other[column], err_msg=column)


def guarded_state() -> dict[str, Any]:
    """The state of a fleet of numbers with a guard."""
    model, labels = MODELS["compiled guard, regression"]
    fleet = Fleet(model, batch_size=10)
    for call in extreme(model, labels, 8, 1):
        fleet.observe(*call)
    return dict(fleet.state())


@pytest.mark.parametrize("name", ["guard.total", "guard.mass", "guard.excess", "guard.counts", "guard.norms", "range"])
def test_a_state_with_a_wrong_guard_is_refused(name: str) -> None:
    state = guarded_state()
    right = state[name]
    low, text = right.copy(), right.astype(str)
    low.flat[0] = -1 if name != "range" else np.nan
    for wrong in (right[:-1], low, text, None):
        forged = {entry: value for entry, value in state.items() if entry != name}
        with pytest.raises(StateError, match=name):
            Fleet.from_state(forged if wrong is None else forged | {name: wrong})
    counts = state["guard.counts"].copy()
    counts[0] = MEMORY + 1
    with pytest.raises(StateError, match=r"guard\.counts"):
        Fleet.from_state(state | {"guard.counts": counts})


def test_a_fleet_that_was_saved_with_sessions_is_continued_with_them(monkeypatch: pytest.MonkeyPatch) -> None:
    model, _ = MODELS["compiled guard"]
    with monkeypatch.context() as patched:
        patched.setattr("driftsurf.keyed.fleet.suits_cells", lambda _: False)
        older = Fleet(model, batch_size=10)
        for call in extreme(model, two, 10, 2):
            older.observe(*call)
        data = older.to_bytes()
    again = Fleet.from_bytes(data)
    assert not isinstance(again._backend, CellStore)
    for call in extreme(model, two, 5, 4):
        np.testing.assert_array_equal(again.observe(*call), older.observe(*call))
