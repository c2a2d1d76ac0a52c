"""Saved fleets: exact, and safe against damaged or forged states."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import numpy as np
import pytest
from fleet_models import MODELS
from fleet_models import calls as model_calls
from fleets import SMALL, calls, served

from driftsurf import Fleet
from driftsurf.errors import DivergenceError, StateError
from driftsurf.keyed.saved import KEY_FIELDS, MODEL_FIELDS

pytestmark = pytest.mark.filterwarnings("ignore::driftsurf.errors.SmallBatchWarning")


@pytest.mark.usefixtures("backend")
def test_a_saved_fleet_continues_as_if_there_had_been_no_break() -> None:
    given = list(calls(40))
    whole = served(Fleet(n_features=3, seed=3, **SMALL), iter(given))
    for cut in (0, 1, 7, 20, 39):
        first = served(Fleet(n_features=3, seed=3, **SMALL), iter(given[:cut]))
        data = first.to_bytes()
        second = Fleet.from_bytes(data)
        assert second.to_bytes() == data
        assert served(second, iter(given[cut:])).to_bytes() == whole.to_bytes()


@pytest.mark.usefixtures("backend")
def test_numpy_scalars_as_options_are_saved_as_numbers() -> None:
    options = SMALL | {"batch_size": np.int64(10), "step_size": np.float64(0.1)}
    many = served(Fleet(n_features=3, classes=np.array([1, 0]), **options), calls(5))
    assert many.to_bytes() == served(Fleet(n_features=3, classes=(0, 1), **SMALL), calls(5)).to_bytes()


COUNTS = [f"key.{name}" for name in KEY_FIELDS] + [f"model.{name}" for name in MODEL_FIELDS]
ENTRIES = ["fleet", "keys.kind", "keys.numbers", "weights", "sums", "rows", "labels", "tables", *COUNTS]


@pytest.mark.parametrize("name", ENTRIES)
def test_a_state_with_a_missing_or_misshapen_entry_is_refused(name: str) -> None:
    state = served(Fleet(n_features=3, **SMALL), calls(5)).state()
    assert sorted(state) == sorted(ENTRIES)
    for wrong in (None, "text", np.zeros((2, 2)), np.zeros(0, np.int64)):
        with pytest.raises(StateError):
            Fleet.from_state(state | {name: wrong})  # type: ignore[dict-item]
    del state[name]
    with pytest.raises(StateError):
        Fleet.from_state(state)


def weighted_fleet() -> Fleet:
    """Return a fleet that scales its columns, and whose rows have weights."""
    many = Fleet(n_features=3, **(SMALL | {"step_size": "auto"}))
    for keys, X, y in calls(20):
        many.observe(keys, X, y, sample_weight=np.arange(len(y)))
    return many


def test_a_state_with_wrong_scales_or_weights_is_refused() -> None:
    many = weighted_fleet()
    state = many.state()
    assert set(state) == {*ENTRIES, "factor", "centre", "row_weights"}
    assert Fleet.from_state(state).to_bytes() == many.to_bytes()
    for name in ("factor", "centre", "row_weights"):
        entry: Any = state[name]
        wrongs: list[Any] = [None, entry[:-1], np.full_like(entry, np.nan), entry.astype(np.float32)]
        for wrong in wrongs:
            with pytest.raises(StateError) as error:
                Fleet.from_state(state | {name: wrong})
            assert error.value.entry == name
    with pytest.raises(StateError):
        Fleet.from_state(state | {"row_weights": np.full_like(np.asarray(state["row_weights"]), -1)})
    of_intercept: Any = np.array(state["centre"])
    of_intercept[0, 1, -1] = 0.5
    with pytest.raises(StateError, match="centre"):
        Fleet.from_state(state | {"centre": of_intercept})


@pytest.mark.parametrize("value", [-2, 2, 5, 1_000, 2**50])
@pytest.mark.parametrize("name", COUNTS)
def test_contradictory_counts_are_refused_or_harmless(name: str, value: int) -> None:
    many = served(Fleet(n_features=3, **SMALL), calls(20)) if value % 2 else weighted_fleet()
    for slot in range(5):
        state = many.state()
        array: Any = state[name]
        array[(slot, 0) if array.ndim == 2 else slot] = value
        try:
            forged = Fleet.from_state(state)
        except StateError:
            continue
        with contextlib.suppress(DivergenceError):  # of a step size, for instance
            served(forged, calls(20, seed=1))
        forged.table()


JUDGED = ["judged", "key.chosen", "key.units", "model.target"]


@pytest.mark.parametrize("name", [*JUDGED, "labels", "tables", "weights", "key.errors"])
def test_a_state_of_numbers_with_a_wrong_entry_is_refused_or_harmless(name: str) -> None:
    model, labels = MODELS["compiled regression"]
    many = served(Fleet(model, batch_size=10), model_calls(labels))  # type: ignore[arg-type]
    state: Any = many.state()
    assert set(JUDGED) < set(state)
    entry = state[name]
    for wrong in (None, entry[:-1], entry.astype(np.float32), -np.ones_like(entry), np.full_like(entry, 2**40 - 1)):
        try:
            forged = Fleet.from_state(state | {name: wrong})
        except StateError:
            continue
        assert name not in ("key.chosen", "key.units")
        with contextlib.suppress(DivergenceError):
            served(forged, model_calls(labels, seed=1))  # type: ignore[arg-type]
        forged.table()


def test_forged_states_and_states_of_other_objects_are_refused() -> None:
    many = served(Fleet(n_features=3, **SMALL), calls(20))
    state = many.state()
    with pytest.raises(StateError):
        Fleet.from_state(state | {"keys.numbers": np.zeros(5, np.int64)})
    with pytest.raises(StateError) as error:
        Fleet.from_state(state | {"labels": np.full_like(np.asarray(state["labels"]), 2)})
    assert error.value.entry == "labels"
    with pytest.raises(StateError):
        Fleet.from_state({"estimator": "DriftSurfClassifier"})
    settings_ = json.loads(str(state["fleet"]))
    for wrong in ({"batch_size": 0}, {"n_features": 4}, {"strange": 1}, {"classes": 3}):
        with pytest.raises(StateError):
            Fleet.from_state(state | {"fleet": json.dumps(settings_ | wrong)})
    text = served(Fleet(n_features=3, **SMALL), calls(5, keys="abc")).state()
    for lengths in ([1, 1, 5], [-1, 2, 2], [1, 1]):
        with pytest.raises(StateError):
            Fleet.from_state(text | {"keys.lengths": np.array(lengths)})
    with pytest.raises(StateError):
        Fleet.from_state(text | {"keys.text": np.full(3, 255, np.uint8)})
