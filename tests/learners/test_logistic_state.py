"""Logistic regression: parameters and saved state."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from logistic_cases import (
    Data,
    Move,
    Optimizer,
    check,
    layouts,
    moves,
    optimizers,
    snapshot,
    template,
    trained,
)

from driftsurf.core.samples import Samples
from driftsurf.core.state import from_bytes, to_bytes
from driftsurf.errors import CapabilityError, OptionError, StateError
from driftsurf.learners import LogisticRegression, SoftmaxRegression

# ---------------------------------------------------------------------------- parameters


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("optimizer", "adam"),
        ("optimizer", None),
        ("start", "random"),
        ("start", 0),
        ("fit_intercept", "no"),
        ("fit_intercept", 2),
        ("l2", -1e-9),
        ("l2", math.nan),
        ("l2", math.inf),
        ("l2", "small"),
        ("l2", None),
        ("l2", True),
        ("l2", 1j),
        ("l2", np.complex128(1)),
        ("steps_per_row", 0),
        ("steps_per_row", -2.0),
        ("steps_per_row", math.inf),
        ("steps_per_row", None),
        ("steps_per_batch", 0),
        ("steps_per_batch", -5),
        ("steps_per_batch", 1.5),
        ("steps_per_batch", "many"),
        ("steps_per_batch", True),
        ("step_size", 0.0),
        ("step_size", -0.1),
        ("step_size", math.nan),
        ("step_size", "fast"),
        ("step_size", None),
    ],
)
def test_a_bad_parameter_is_an_error_that_names_it_and_its_value(name: str, value: Any) -> None:
    with pytest.raises(OptionError, match=name) as caught:
        LogisticRegression(**{name: value}).fresh(0, 3, 2)
    assert repr(value) in str(caught.value)


@pytest.mark.parametrize(("step", "l2"), [(1.0, 1.0), (10.0, 0.2), (1e300, 1e10)])
def test_a_step_size_that_makes_the_shrinkage_negative_is_refused(step: float, l2: float) -> None:
    with pytest.raises(OptionError, match=r"step_size \* l2"):
        LogisticRegression(step_size=step, l2=l2).fresh(0, 3, 2)


def test_one_class_is_refused_by_name() -> None:
    with pytest.raises(CapabilityError, match="1"):
        template().fresh(0, 3, 1)


@pytest.mark.parametrize(
    "options",
    [
        {"l2": np.float32(0.01)},
        {"l2": 0, "step_size": "auto"},
        {"step_size": np.float32(0.1)},
        {"step_size": 1},
        {"steps_per_row": np.int64(2)},
        {"steps_per_batch": np.int64(20)},
        {"fit_intercept": np.bool_(False), "start": "uniform"},
    ],
)
def test_numbers_of_any_type_are_accepted_and_the_state_can_be_saved(options: dict[str, Any]) -> None:
    data = Data.make(10)
    samples, new = data.samples()
    model = LogisticRegression(**options).fresh(0, 3, 2)
    assert model.budget(new) == 20
    model.update(samples, new, model.budget(new))
    assert snapshot(LogisticRegression.from_state(model, from_bytes(snapshot(model)))) == snapshot(model)


def test_params_can_be_read_and_set() -> None:
    model = LogisticRegression(l2=0.5)
    params = model.get_params()
    assert params["l2"] == 0.5
    assert LogisticRegression(**params).get_params() == params
    assert model.set_params(l2=0.25, optimizer="sgd") is model
    assert (model.l2, model.optimizer) == (0.25, "sgd")
    assert "l2=0.25" in repr(model)
    with pytest.raises(OptionError, match=r"'alpha'.*optimizer, step_size, scale, l2"):
        model.set_params(alpha=1.0)


# ---------------------------------------------------------------------------- state


@optimizers
@layouts
@given(moves=moves)
@check
def test_a_restored_or_copied_model_continues_bit_for_bit(
    optimizer: Optimizer, sparse: bool, moves: list[Move]
) -> None:
    model, samples, data = trained(optimizer, sparse)
    before, copy, kept = snapshot(model), model.copied(), model.copied()
    assert "saga" not in optimizer or model.rows_waiting > 0
    again = LogisticRegression.from_state(template(optimizer=optimizer, step_size="auto"), from_bytes(snapshot(model)))
    for name, amount, steps in moves:
        if name == "update":
            new = data.append(samples, min(amount, 70 - samples.next_row))
            for one in (model, again, copy):
                one.update(samples, new, steps)
        else:
            before_row = min((model.needs() or 0) + amount, samples.next_row)
            for one in (model, again, copy):
                one.forget(samples, before_row)
        assert snapshot(model) == snapshot(again) == snapshot(copy)
    assert snapshot(kept) == before


def test_a_saved_state_is_not_affected_by_later_updates() -> None:
    model, samples, data = trained("strsaga", False)
    state = model.state()
    before = to_bytes(state)
    model.update(samples, data.append(samples, 40), 80)
    assert to_bytes(state) == before


def test_two_ways_to_the_same_model_give_the_same_bytes() -> None:
    data = Data.make(50)
    samples, new = data.samples()
    model, detour = template().fresh(0, 3, 2), template().fresh(0, 3, 2)
    model.update(samples, new, 30)
    detour.update(samples, new, 999)()
    detour.update(samples, new, 30)
    detour.forget(samples, 10)()
    assert snapshot(model) == snapshot(detour)


@pytest.mark.parametrize(
    "change",
    [
        {"weights": np.zeros(3)},
        {"weights": np.zeros((4, 1))},
        {"weights": np.zeros(4, np.float32)},
        {"weights": 1.0},
        {"weights": np.zeros(0), "gradient_sum": np.zeros(0)},
        {"gradient_sum": np.zeros(5)},
        {"table": np.zeros(3)},
        {"table": np.zeros(0)},
        {"table": "none"},
        {"drawn": 2},
        {"drawn": -1},
        {"drawn": 18.0},
        {"lo": -5},
        {"lo": 1},
        {"admitted": 31},
        {"hi": 3},
        {"hi": 2**70},
        {"seed": -1},
        {"seed": 2**64},
        {"words": -1},
        {"words": "0"},
        {"step_size": 1},
        {"gradients": True},
    ],
    ids=lambda change: ", ".join(f"{name}={value}" for name, value in change.items()),
)
def test_a_forged_state_is_refused(change: dict[str, Any]) -> None:
    model, _, _ = trained("strsaga", False)
    state = from_bytes(snapshot(model))
    assert LogisticRegression.from_state(template(), state)
    with pytest.raises(StateError):
        LogisticRegression.from_state(template(), state | change)


def test_an_incomplete_state_is_refused_by_name() -> None:
    model, _, _ = trained("strsaga", False)
    state = model.state()
    del state["gradient_sum"]
    with pytest.raises(StateError, match="'gradient_sum'"):
        LogisticRegression.from_state(template(), state)
    with pytest.raises(StateError):
        LogisticRegression.from_state(template(optimizer="sgd"), model.state())


@pytest.mark.parametrize("known", [LogisticRegression(optimizer="saga"), SoftmaxRegression(optimizer="saga")])
def test_rows_that_were_never_drawn_stay_so_when_a_class_is_added(known: SoftmaxRegression) -> None:
    samples = Samples(2)
    X = np.random.default_rng(0).normal(size=(40, 2))
    model = known.fresh(0, 2, 2)
    model.update(samples, samples.append(X, (X[:, 0] > 0.0).astype(float)), 20)
    model.grow(n_classes=3)
    table = model.state()["table"]
    assert isinstance(table, np.ndarray)
    assert 0 < np.isnan(table[:, 2]).sum() == len(table) - model._fitted.drawn
    assert to_bytes(type(known).from_state(known, model.state()).state()) == to_bytes(model.state())
