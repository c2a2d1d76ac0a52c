"""Missing values in the rows of a fleet: filled with the means of their key, and with nothing else."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from fleet_models import MODELS, calls, separate, two
from fleets import same
from hypothesis import given, settings
from hypothesis import strategies as st
from keyed_rows import learner

from driftsurf import DriftSurfClassifier, Fleet
from driftsurf.errors import DivergenceError, NonFiniteError, OptionError, StateError
from driftsurf.keyed.cell_store import CellStore
from driftsurf.keyed.rows import KeyRows
from driftsurf.learners import LogisticRegression

pytestmark = pytest.mark.filterwarnings("ignore::driftsurf.errors.SmallBatchWarning")
FILLED = (
    "compiled",
    "compiled three classes",
    "compiled regression",
    "compiled growing",
    "aue",
    "compiled guard, regression",
)
WILD = DriftSurfClassifier(LogisticRegression(step_size=30.0, l2=0.0), max_rows=20, guard=None, classes=[0, 1])


class Means:
    """The slow twin: the values of each column of a key, as lists."""

    def __init__(self, columns: int) -> None:
        self.values: list[list[float]] = [[] for _ in range(columns)]

    def filled(self, row: npt.NDArray[Any]) -> list[float]:
        """Return a row without gaps."""
        return [self._mean(column) if math.isnan(value) else value for column, value in enumerate(row.tolist())]

    def take(self, row: npt.NDArray[Any]) -> list[float]:
        """Return a row without gaps, and count it."""
        made = self.filled(row)
        for column, value in enumerate(row.tolist()):
            if not math.isnan(value):
                self.values[column].append(value)
        return made

    def _mean(self, column: int) -> float:
        total = 0.0
        for value in self.values[column]:
            total += value
        return total / len(self.values[column]) if self.values[column] else 0.0


def gappy(labels: Any, n_calls: int, seed: int, share: float = 0.2) -> Iterator[Any]:
    """Calls in which some values are missing."""
    rng = np.random.default_rng(seed + 1)
    for keys, X, y in calls(labels, n_calls, seed=seed):
        yield keys, np.where(rng.random(X.shape) < share, np.nan, X + 2.0), y


def saved(fleet: Fleet) -> Fleet:
    """Return a fleet through its bytes."""
    return Fleet.from_bytes(fleet.to_bytes())


@settings(max_examples=20, deadline=None)
@given(
    st.sampled_from(FILLED),
    st.integers(0, 2**20),
    st.integers(1, 25),
    st.sampled_from([0.05, 0.3, 0.9]),
    st.lists(st.sampled_from([None, None, saved, copy.deepcopy]), min_size=10, max_size=10),
)
def test_a_key_equals_a_separate_estimator_of_rows_that_were_filled_before(
    name: str, seed: int, batch_size: int, share: float, breaks: list[Any]
) -> None:
    model, labels = MODELS[name]
    fleet = Fleet(model, batch_size=batch_size, seed=seed, on_gap="fill")
    alone = {key: separate(model, key, seed, batch_size) for key in range(4)}
    means = {key: Means(3) for key in alone}
    for (keys, X, y), pause in zip(gappy(labels, 10, seed, share), breaks, strict=True):
        predicted = fleet.observe(keys, X, y)
        for key, one in alone.items():
            own = np.flatnonzero(keys == key)
            if len(own):
                filled = np.array([means[key].take(row) for row in X[own]])
                np.testing.assert_array_equal(predicted[own], one.test_then_train(filled, y[own]))
        fleet = fleet if pause is None else pause(fleet)
    for key in map(int, fleet.keys):
        same(fleet.session(key).state(), alone[key]._session.state())
        filled = np.array([means[key].filled(row) for row in X])
        np.testing.assert_array_equal(fleet.predict([key] * len(X), X), alone[key].predict(filled))
    assert isinstance(fleet._backend, CellStore) == name.startswith("compiled")


def one_by_one(fleet: Fleet, given: list[Any]) -> list[Any]:
    """Return the predictions of a fleet that gets each row in a call of its own."""
    made = []
    for keys, X, y in given:
        for place in range(len(y)):
            part = slice(place, place + 1)
            try:
                made += fleet.observe(keys[part], X[part], y[part]).tolist()
            except DivergenceError:
                made.append(None)
    return made


@pytest.mark.parametrize("backend", ["compiled", "sessions"])
@pytest.mark.parametrize("model", ["compiled", "wild"])
def test_bad_rows_and_rows_after_a_failed_step_do_not_count(
    backend: str, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if backend == "sessions":
        monkeypatch.setattr("driftsurf.keyed.fleet.suits_cells", lambda _: False)
    options: Any = {"batch_size": 10, "on_gap": "fill", "on_bad": "quarantine"}
    chosen = WILD if model == "wild" else MODELS[model][0]
    stream = list(gappy(two, 12, 3, 0.3))
    if model == "wild":
        stream = [(keys, X * np.where(keys == 1, 1e120, 1.0)[:, np.newaxis], y) for keys, X, y in stream]
    else:
        stream[5][1][::7, 1] = np.inf
        stream[5][1][1::7, 0] = 1e39 * (MODELS[model][0].dtype == "float32")
    whole, parts = Fleet(chosen, **options), Fleet(chosen, **options)
    predicted = [label for call in stream for label in whole.observe(*call).tolist()]
    assert predicted == one_by_one(parts, stream)
    for name, column in whole.table().items():
        np.testing.assert_array_equal(column, parts.table()[name], err_msg=name)
    assert whole.table()["quarantine"].any()
    np.testing.assert_array_equal(whole.state()["means"], parts.state()["means"])
    whole.readmit(whole.keys)
    again = saved(whole)
    for call in gappy(two, 5, 9):
        np.testing.assert_array_equal(whole.observe(*call), again.observe(*call))


def test_both_backends_fill_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = [(keys, np.where(X > 3.5, np.inf, X), y) for keys, X, y in gappy(two, 20, 4)]
    options: Any = {"batch_size": 10, "on_gap": "fill", "on_bad": "quarantine", "max_rows": 40}
    compiled = Fleet(**options)
    first = [compiled.observe(*call).tolist() for call in stream]
    monkeypatch.setattr("driftsurf.keyed.fleet.suits_cells", lambda _: False)
    sessions = Fleet(**options)
    assert first == [sessions.observe(*call).tolist() for call in stream]
    for name, column in compiled.table().items():
        np.testing.assert_array_equal(column, sessions.table()[name], err_msg=name)


def test_a_fleet_fills_gaps_as_a_keyed_run_does() -> None:
    fleet = Fleet(on_gap="fill", step_size=0.1, batch_size=10, max_rows=30, threshold=0.1, seed=3)
    own, state, count = learner(features=("a", "b", "c")), None, 0
    for keys, X, y in gappy(two, 12, 5):
        chosen = keys == 1
        if chosen.any():
            sequence = np.arange(count, count + chosen.sum())
            visit = own.visit(1, state, KeyRows(sequence, X[chosen], y[chosen].tolist()))
            assert visit.predicted == fleet.observe(keys[chosen], X[chosen], y[chosen]).tolist()
            state, count = visit.state, count + int(chosen.sum())
    assert visit.summary.gaps > 10


def test_gaps_are_refused_unless_they_are_filled() -> None:
    with pytest.raises(NonFiniteError):
        Fleet().observe([1], [[np.nan, 1.0]], [1])
    with pytest.raises(OptionError, match="on_gap is 'mean'"):
        Fleet(on_gap="mean").observe([1], [[0.0]], [1])  # type: ignore[arg-type]
    fleet = Fleet(on_gap="fill")
    with pytest.raises(NonFiniteError, match="row 1"):
        fleet.observe([1, 1], [[np.nan, 1.0], [np.inf, 1.0]], [1, 0])
    assert len(fleet) == 0
    fleet.observe([1], [[np.nan, 1.0]], [1])
    with pytest.raises(NonFiniteError):
        fleet.predict([1], [[np.nan, np.inf]])


@pytest.mark.parametrize("name", ["compiled", "aue"])
def test_forged_means_are_refused(name: str) -> None:
    fleet = Fleet(MODELS[name][0], on_gap="fill")
    fleet.observe([1], [[np.nan, 1.0, 2.0]], [1])
    state = dict(fleet.state())
    for wrong in (np.zeros((1, 2, 4)), np.zeros((2, 2, 3)), np.zeros((1, 2, 3), np.float32), None):
        forged = {entry: value for entry, value in state.items() if entry != "means"}
        with pytest.raises(StateError, match="means"):
            Fleet.from_state(forged if wrong is None else forged | {"means": wrong})
