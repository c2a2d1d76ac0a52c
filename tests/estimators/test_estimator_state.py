"""Estimators over time: the buffer, saved state, parameters."""

from __future__ import annotations

import contextlib
import copy
import pickle
from typing import Any

import numpy as np
import pytest
from estimator_checks import Batches, stream
from scipy import sparse

from driftsurf import AwareClassifier, DriftSurfClassifier
from driftsurf.core.contracts import Capabilities
from driftsurf.core.state import from_bytes, to_bytes
from driftsurf.errors import (
    CapabilityError,
    OptionError,
    StateError,
)
from driftsurf.learners import LogisticRegression
from driftsurf.strategies import DriftSurf

NAMES = ["a", "b", "c"]


def fed(batches: Batches, model: DriftSurfClassifier | None = None, **options: Any) -> DriftSurfClassifier:
    model = DriftSurfClassifier(random_state=0, **options) if model is None else model
    for X, y in batches:
        model.partial_fit(X, y)
    return model


# ---------------------------------------------------------------------------- buffer


@pytest.mark.parametrize("sizes", [[1], [7], [250], [1000], [3, 400, 1, 96]])
def test_with_a_buffer_the_split_over_calls_does_not_matter(sizes: list[int]) -> None:
    X, y = (np.concatenate(part) for part in zip(*stream(20), strict=True))
    whole = DriftSurfClassifier(random_state=0, batch_size=150, classes=[-1, 1])
    expected = whole.test_then_train(X, y)
    split = DriftSurfClassifier(random_state=0, batch_size=150, classes=[-1, 1])
    predicted, start, k = [], 0, 0
    while start < len(y):
        stop = start + sizes[k % len(sizes)]
        predicted.append(split.test_then_train(X[start:stop], y[start:stop]))
        start, k = stop, k + 1
    assert np.array_equal(np.concatenate(predicted), expected)
    assert split.to_bytes() == whole.to_bytes()
    assert len(split.journal_) == 2000 // 150


def test_whole_steps_before_an_error_stay_and_fit_keeps_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = (np.concatenate(part) for part in zip(*stream(3), strict=True))
    observe = DriftSurf.observe

    def failing(self: DriftSurf, *batch: Any, **asked: Any) -> Any:
        if self._live.step == 1:
            raise RuntimeError("on purpose")
        return observe(self, *batch, **asked)

    model = DriftSurfClassifier(random_state=0, batch_size=100)
    with monkeypatch.context() as patch:
        patch.setattr(DriftSurf, "observe", failing)
        with pytest.raises(RuntimeError) as error:
            model.partial_fit(X, y)
        assert "100 of the 300 rows" in error.value.__notes__[0]
        before = model.to_bytes()
        with pytest.raises(RuntimeError) as error:
            model.fit(X, y)
        assert not hasattr(error.value, "__notes__")
        assert model.to_bytes() == before
    whole = DriftSurfClassifier(random_state=0, batch_size=100).partial_fit(X, y)
    assert model.partial_fit(X[100:], y[100:]).to_bytes() == whole.to_bytes()


def test_flush_learns_the_buffered_rows() -> None:
    X, y = stream(1)[0]
    model = DriftSurfClassifier(random_state=0, batch_size=1000).partial_fit(X, y)
    assert len(model.journal_) == 0
    assert len(model.flush().journal_) == 1
    assert len(model.flush().journal_) == 1
    assert model.journal_[0].rows == len(y)


# ---------------------------------------------------------------------------- saved state


def test_one_seed_gives_identical_bytes() -> None:
    batches = stream()
    assert fed(batches).to_bytes() == fed(batches).to_bytes()
    assert fed(batches).to_bytes() != fed(batches, DriftSurfClassifier(random_state=1)).to_bytes()


@pytest.mark.parametrize("kind", ["dense", "csr", "buffer", "authors", "capped", "sgd"])
@pytest.mark.parametrize("cut", [1, 5, 11, 12, 13, 14, 15, 16, 20])
def test_saving_and_loading_in_any_state_changes_nothing(kind: str, cut: int) -> None:
    special: dict[str, dict[str, Any]] = {
        "buffer": {"batch_size": 130},
        "authors": {"variant": "authors"},
        "capped": {"max_rows": 350},
        "sgd": {"learner": LogisticRegression(optimizer="sgd")},
    }
    options = special.get(kind, {})
    convert: Any = sparse.csr_array if kind == "csr" else np.asarray
    batches = [(convert(X), y) for X, y in stream()]
    whole = DriftSurfClassifier(random_state=0, **options)
    model = DriftSurfClassifier(random_state=0, **options)
    with pytest.warns(FutureWarning, match="driftsurf-authors") if kind == "authors" else contextlib.nullcontext():
        expected = [whole.test_then_train(X, y) for X, y in batches]
        for X, y in batches[:cut]:
            model.test_then_train(X, y)
    model = DriftSurfClassifier.from_bytes(model.to_bytes())
    for (X, y), labels in zip(batches[cut:], expected[cut:], strict=True):
        assert np.array_equal(model.test_then_train(X, y), labels)
    assert model.to_bytes() == whole.to_bytes()


def test_bytes_of_something_else_are_refused() -> None:
    model = fed(stream(3))
    with pytest.raises(StateError, match=r"DriftSurfClassifier.*AwareClassifier"):
        AwareClassifier.from_bytes(model.to_bytes())
    with pytest.raises(StateError, match="checksum"):
        DriftSurfClassifier.from_bytes(model.to_bytes()[:-1] + b"\x00")


def test_a_learner_that_is_not_registered_must_be_passed_to_load() -> None:
    class Mine(LogisticRegression):
        pass

    X, y = stream(1)[0]
    data = DriftSurfClassifier(Mine(), random_state=0).partial_fit(X, y).to_bytes()
    with pytest.raises(StateError, match=r"Mine.*learner="):
        DriftSurfClassifier.from_bytes(data)
    assert DriftSurfClassifier.from_bytes(data, learner=Mine()).to_bytes() == data


def test_a_learner_without_an_exact_state_is_not_saved() -> None:
    class Loose(LogisticRegression):
        capabilities = Capabilities(exact_state=False)

    X, y = stream(1)[0]
    with pytest.raises(CapabilityError, match=r"Loose.*exact_state"):
        DriftSurfClassifier(Loose(), random_state=0).partial_fit(X, y).to_bytes()


def test_parameters_of_numpy_types_are_saved() -> None:
    X, y = stream(1)[0]
    model = DriftSurfClassifier(threshold=np.float64(0.2), classes=np.array([-1, 1]), random_state=np.int64(3))
    again = DriftSurfClassifier.from_bytes(model.partial_fit(X, y).to_bytes())
    assert (again.threshold, again.classes, again.random_state) == (0.2, [-1, 1], 3)
    aware = AwareClassifier(drift_steps=range(3), random_state=0).partial_fit(X, y)
    assert AwareClassifier.from_bytes(aware.to_bytes()).drift_steps == [0, 1, 2]


def test_parameters_set_on_a_fitted_model_take_effect_with_the_next_fit() -> None:
    """A fitted model keeps its parameters until the next fit, also when saved; the learner passed in is not shared."""
    batches = stream()
    learner = LogisticRegression()
    model, untouched = fed(batches[:10], learner=learner), fed(batches[:10], learner=LogisticRegression())
    learner.set_params(steps_per_row=10.0)
    model.set_params(threshold=9.0)
    again = DriftSurfClassifier.from_bytes(model.to_bytes())
    assert again.threshold == 0.1
    for X, y in batches[10:]:
        for one in (model, untouched, again):
            one.partial_fit(X, y)
    assert model.to_bytes() == untouched.to_bytes() == again.to_bytes()


def test_another_learner_than_the_saved_one_is_refused() -> None:
    data = fed(stream(2)).to_bytes()
    with pytest.raises(StateError, match="LogisticRegression"):
        DriftSurfClassifier.from_bytes(data, learner=LogisticRegression(l2=7.0))


def test_numpy_numbers_are_valid_options_and_booleans_are_not() -> None:
    X, y = stream(1)[0]
    options: dict[str, Any] = {"reactive_length": np.int64(3), "max_rows": np.int32(500), "batch_size": np.int64(50)}
    options |= {"threshold": np.float32(0.25), "guard": np.int64(3), "greedy": np.False_}
    model = DriftSurfClassifier(**options)
    for kind in (np.int64, np.uint8, np.int16):
        model.set_params(max_rows=kind(120), batch_size=kind(50)).fit(X, y)
        for rows, labels in stream(8):
            model.partial_fit(rows, labels)
        again = DriftSurfClassifier.from_bytes(model.to_bytes())
        assert again.to_bytes() == model.to_bytes()
        assert model.journal_.to_jsonl()
    for name in ("reactive_length", "max_rows", "batch_size", "threshold", "guard"):
        with pytest.raises(OptionError, match=f"{name}.*True"):
            DriftSurfClassifier().set_params(**{name: True}).partial_fit(X, y)
    with pytest.raises(OptionError, match=r"greedy.*'no'"):
        DriftSurfClassifier(greedy="no").partial_fit(X, y)  # type: ignore[arg-type]


def test_pickle_and_deepcopy_continue_alike() -> None:
    batches = stream()
    model = fed(batches[:14])
    copies = [pickle.loads(pickle.dumps(model)), copy.deepcopy(model)]
    expected = fed(batches[14:], model).to_bytes()
    assert [fed(batches[14:], other).to_bytes() for other in copies] == [expected, expected]


def test_aware_saves_and_loads() -> None:
    model = AwareClassifier(drift_steps=[2, 4], random_state=0)
    batches = stream(6)
    for X, y in batches[:3]:
        model.partial_fit(X, y)
    again = AwareClassifier.from_bytes(model.to_bytes())
    for X, y in batches[3:]:
        assert np.array_equal(again.test_then_train(X, y), model.test_then_train(X, y))
    assert again.to_bytes() == model.to_bytes()


@pytest.mark.parametrize(
    ("changes", "entry"),
    [
        ({"lo": 301, "admitted": 1301, "hi": 1301}, "hi"),
        ({"lo": -1, "admitted": -1, "hi": -1}, "table"),
        ({"hi": 999}, "admitted"),
        ({"drawn": 999}, "drawn"),
        ({"words": -1}, "words"),
        ({"seed": 2**64}, "seed"),
        ({"factor": np.full(6, -1.0)}, "factor"),
        ({"weights": np.full(6, np.nan)}, "weights"),
        ({"strange": 1}, "strange"),
    ],
)
def test_numbers_that_do_not_fit_together_are_refused_by_name(changes: dict[str, Any], entry: str) -> None:
    rng = np.random.default_rng(0)
    X: Any = sparse.random_array((1000, 5), density=0.5, format="csr", rng=rng)
    y = rng.integers(0, 2, 1000)
    model = DriftSurfClassifier(random_state=0).partial_fit(X, y)
    place = "session.strategy.predictive.learner."
    state = from_bytes(model.to_bytes())
    assert (state[place + "admitted"], state[place + "hi"], len(np.asarray(state[place + "table"]))) == (1000,) * 3
    forged = to_bytes(state | {place + name: value for name, value in changes.items()})
    with pytest.raises(StateError) as error:
        DriftSurfClassifier.from_bytes(forged)
    assert error.value.entry == place + entry
