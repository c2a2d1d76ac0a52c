"""Logistic regression: undo, interruptions, joint training, forgetting and anchors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from logistic_cases import (
    LOOP_HOMES,
    Data,
    Optimizer,
    check,
    close,
    keeping_rows,
    layouts,
    optimizers,
    pair,
    regularised_loss,
    same_as_twin,
    snapshot,
    template,
    trained,
    weights,
)
from scipy.optimize import minimize

from driftsurf.core.contracts import FloatArray, Segment
from driftsurf.core.samples import Samples
from driftsurf.core.state import from_bytes
from driftsurf.errors import DivergenceError, StateError
from driftsurf.learners import LogisticRegression, logistic
from driftsurf.learners._linear import usual_sizes

# ---------------------------------------------------------------------------- all or nothing


@optimizers
@layouts
@given(arrivals=st.integers(0, 40), steps=st.integers(0, 200))
@check
def test_undo_of_an_update_restores_every_byte(optimizer: Optimizer, sparse: bool, arrivals: int, steps: int) -> None:
    model, samples, data = trained(optimizer, sparse)
    before = snapshot(model)
    undo = model.update(samples, data.append(samples, arrivals), steps)
    undo()
    assert snapshot(model) == before


@optimizers
@layouts
@given(before_row=st.integers(0, 100))
@check
def test_undo_of_forget_restores_every_byte(optimizer: Optimizer, sparse: bool, before_row: int) -> None:
    model, samples, _ = trained(optimizer, sparse)
    before = snapshot(model)
    model.forget(samples, before_row)()
    assert snapshot(model) == before


@optimizers
@layouts
def test_an_update_and_a_forget_can_be_undone_in_turn_and_repeated(optimizer: Optimizer, sparse: bool) -> None:
    model, samples, data = trained(optimizer, sparse)
    before = snapshot(model)
    new = data.append(samples, 40)
    snapshots = []
    for _ in range(2):
        undo = [model.update(samples, new, 90), model.forget(samples, 25)]
        snapshots.append(snapshot(model))
        for take_back in reversed(undo):
            take_back()
        assert snapshot(model) == before
    assert snapshots[0] == snapshots[1] != before


@layouts
@given(before_row=st.integers(0, 30), arrivals=st.integers(1, 40), steps=st.integers(0, 200))
@check
def test_a_mark_restores_what_was_overwritten_after_forgetting(
    sparse: bool, before_row: int, arrivals: int, steps: int
) -> None:
    model, samples, data = trained("strsaga", sparse)
    before, mark = snapshot(model), model.mark()
    model.forget(samples, before_row)
    model.update(samples, data.append(samples, arrivals), steps)
    model.put_back(mark)
    assert snapshot(model) == before


def test_undo_of_the_first_update_gives_a_model_without_rows() -> None:
    data = Data.make(10)
    samples, new = data.samples()
    model = template().fresh(0, 3, 2)
    before = snapshot(model)
    model.update(samples, new, 20)()
    assert snapshot(model) == before
    assert model.needs() is None


@optimizers
@layouts
@pytest.mark.parametrize("value", [math.nan, math.inf, 1e200])
def test_divergence_changes_no_byte(
    optimizer: Optimizer, sparse: bool, value: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, samples, data = trained(optimizer, sparse)
    before = snapshot(model)
    new = data.append(samples, 40)
    name = "saga" if "saga" in optimizer else "sgd"
    loop = getattr(logistic, name)

    def diverging(X: Any, y: Any, weight: Any, order: Any, target: Any, *arguments: Any) -> Any:
        result = loop(X, y, weight, order, target, *arguments)
        (target[0] if isinstance(target, tuple) else target)[1] = value
        return result

    with monkeypatch.context() as patch:
        patch.setattr(logistic, name, diverging)
        with pytest.raises(DivergenceError, match="step_size"):
            model.update(samples, new, 80)
    assert snapshot(model) == before
    model.update(samples, new, 80)


@optimizers
@pytest.mark.parametrize("huge", [1e150, 1e300])
def test_an_extreme_row_is_reported_as_divergence(optimizer: Optimizer, huge: float) -> None:
    model, samples, _ = trained(optimizer, False)
    before = snapshot(model)
    new = samples.append(np.full((5, 3), huge), np.zeros(5))
    with pytest.raises(DivergenceError):
        model.update(samples, new, 80)
    assert snapshot(model) == before


@pytest.mark.parametrize("interrupted", ["schedule", "saga"])
def test_an_interruption_changes_no_byte(interrupted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, samples, data = trained("strsaga", False)
    before = snapshot(model)
    home = LOOP_HOMES[interrupted]
    loop = getattr(home, interrupted)

    def interrupt(*arguments: Any) -> None:
        loop(*arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(home, interrupted, interrupt)
    with pytest.raises(KeyboardInterrupt):
        model.update(samples, data.append(samples, 40), 80)
    assert snapshot(model) == before


@optimizers
@layouts
@pytest.mark.parametrize("steps", [(80, 80), (80, 79), (0, 0)])
def test_two_models_trained_jointly_equal_two_trained_in_turn(
    optimizer: Optimizer, sparse: bool, steps: tuple[int, int]
) -> None:
    template = LogisticRegression(optimizer=optimizer)
    alone, together = ([template.fresh(seed, 3, 2) for seed in (1, 2)] for _ in range(2))
    samples, _ = Data.make(60).samples(sparse)
    new = Segment(0, 60), Segment(20, 60)
    for model, segment, count in zip(alone, new, steps, strict=True):
        model.update(samples, segment, count)
    before = [snapshot(model) for model in together]
    undo = together[0].update_all(together, samples, new, steps)
    assert [snapshot(model) for model in together] == [snapshot(model) for model in alone]
    undo()
    assert [snapshot(model) for model in together] == before


@pytest.mark.parametrize("steps", [(80,) * 5, (80, 80, 79, 78, 78)])
def test_several_models_trained_jointly_equal_models_trained_in_turn(steps: tuple[int, ...]) -> None:
    template = LogisticRegression()
    alone, together = ([template.fresh(seed, 3, 2) for seed in range(5)] for _ in range(2))
    samples, _ = Data.make(60).samples(False)
    new = [Segment(10 * k, 60) for k in range(5)]
    for model, segment, count in zip(alone, new, steps, strict=True):
        model.update(samples, segment, count)
    template.update_all(together, samples, new, steps)
    assert [snapshot(model) for model in together] == [snapshot(model) for model in alone]


@pytest.mark.parametrize("interrupted", ["schedule", "saga_both", "largest"])
def test_joint_training_updates_both_models_or_none(interrupted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    models = [LogisticRegression().fresh(seed, 3, 2) for seed in (1, 2)]
    samples, new = Data.make(60).samples(False)
    models[0].update_all(models, samples, (new, new), (80, 80))
    before = [snapshot(model) for model in models]
    home = LOOP_HOMES[interrupted]
    loop, calls = getattr(home, interrupted), [0]

    def interrupt(*arguments: Any) -> Any:
        calls[0] += 1
        if calls[0] == {"schedule": 2, "saga_both": 1, "largest": 2}[interrupted]:
            raise KeyboardInterrupt
        return loop(*arguments)

    monkeypatch.setattr(home, interrupted, interrupt)
    with pytest.raises(KeyboardInterrupt):
        models[0].update_all(models, samples, (new, new), (80, 80))
    assert [snapshot(model) for model in models] == before


# ---------------------------------------------------------------------------- forgetting


@layouts
def test_the_oldest_rows_are_forgotten_first_with_their_gradients(sparse: bool) -> None:
    data = Data.make(30)
    samples, new = data.samples(sparse)
    model, twin = pair(data, "strsaga")
    model.update(samples, new, 40)  # admits 20 rows
    twin.update(range(30), 40)
    for before_row, admitted, waiting in [(0, 20, 10), (8, 12, 10), (5, 12, 10), (25, 0, 5), (30, 0, 0)]:
        model.forget(samples, before_row)
        twin.forget(before_row)
        same_as_twin(model, twin)
        assert (model.rows_admitted, model.rows_waiting) == (admitted, waiting)
    assert model.needs() == 30


@keeping_rows
def test_a_model_continues_after_forgetting_all_rows(optimizer: Optimizer) -> None:
    data = Data.make(40)
    samples, new = data.samples(count=30)
    model, twin = pair(data, optimizer)
    model.update(samples, new, 60)
    twin.update(range(30), 60)
    model.forget(samples, 30)
    twin.forget(30)
    model.update(samples, Segment(30, 30), 5)
    assert model.gradients == 60, "there is no row to draw"
    model.update(samples, data.append(samples, 10), 20)
    twin.update(range(30, 40), 20)
    same_as_twin(model, twin)


@keeping_rows
def test_a_window_bounds_the_size_of_a_model(optimizer: Optimizer) -> None:
    data, samples = Data.make(5000), Samples(3)
    model = template(optimizer=optimizer).fresh(0, 3, 2)
    for _ in range(500):
        model.update(samples, data.append(samples, 10), 20)
        model.forget(samples, samples.next_row - 50)
        samples.release(model.needs() or 0)
    assert model.rows_admitted == len(samples) == 50
    assert model.nbytes <= 4 * 4 * 8 + 4 * 60 * 8


def test_forgetting_before_the_first_update_does_nothing() -> None:
    model = template().fresh(0, 3, 2)
    before = snapshot(model)
    model.forget(Samples(3), 10)()
    assert snapshot(model) == before


# ---------------------------------------------------------------------------- anchors

ANCHOR = np.array([0.5, -2.0, 1.0, 0.25])


def at(point: FloatArray, data: Data, scale: bool = False) -> LogisticRegression:
    """Return a model trained on rows labelled by a point, so that its weights are close to that point."""
    samples = Samples(3)
    new = samples.append(data.X, (data.rows(1.0)[0] @ point > 0).astype(float))
    model = template(l2=1e-3, scale=scale).fresh(1, 3, 2)
    model.update(samples, new, 3000)
    return model


@optimizers
@layouts
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_an_anchored_model_equals_its_reference(optimizer: Optimizer, sparse: bool, fit_intercept: bool) -> None:
    data = Data.make(80)
    others = [at(ANCHOR, data), at(-ANCHOR, data, scale=True)]
    model, twin = pair(data, optimizer, fit_intercept=fit_intercept, start="uniform")
    if not fit_intercept:
        others = [pair(data, optimizer, fit_intercept=False, start="uniform", seed=seed)[0] for seed in (1, 2)]
    before, fresh = snapshot(model), weights(model)
    held, shares = model.anchored(others, np.array([0.7, 0.3])), [0.7, 0.3]
    assert snapshot(model) == before, "the fresh model is as it was"
    twin.anchor = sum((share * weights(other) for share, other in zip(shares, others, strict=True)), np.zeros(4))
    close(weights(held), fresh)
    samples = Samples(3, sparse=sparse)
    for size in (10, 30, 0, 25):
        new = data.append(samples, size)
        steps = size if optimizer == "one-pass" else 45
        held.update(samples, new, steps)
        twin.update(range(new.lo, new.hi), steps)
        same_as_twin(held, twin)
    assert held.penalty() == pytest.approx(0.005 * float(np.square(twin.w - twin.anchor).sum()), rel=1e-6)
    held.forget(samples, 20)
    twin.forget(20)
    same_as_twin(held, twin)
    again = LogisticRegression.from_state(model, from_bytes(snapshot(held)))
    assert snapshot(again) == snapshot(held)
    assert np.array_equal(weights(again), weights(held))


@layouts
@pytest.mark.parametrize("scale", [True, False])
def test_an_anchored_model_reaches_the_optimum_of_its_own_penalty(sparse: bool, scale: bool) -> None:
    data = Data.make(300, noise=3.0)
    others = [at(ANCHOR, data)]
    samples, new = data.samples(sparse)
    fresh = LogisticRegression(l2=0.1, scale=scale).fresh(0, 3, 2)
    model = fresh.anchored(others, np.ones(1))
    model.update(samples, new, 200_000)
    factor = np.append(1 / usual_sizes(data.X, data.weight) if scale else np.ones(3), 1.0)
    anchor = weights(others[0])

    def objective(w: FloatArray) -> float:
        difference = (w - anchor) / factor
        return regularised_loss(w, data.rows(1.0), 0.0) + 0.05 * float(difference @ difference)

    optimum = minimize(objective, anchor, method="BFGS", options={"gtol": 1e-9})
    np.testing.assert_allclose(weights(model), optimum.x, atol=1e-4)


def test_an_anchor_of_another_length_is_refused_in_a_state() -> None:
    data = Data.make(20)
    model = template().fresh(0, 3, 2).anchored([at(ANCHOR, data)], np.ones(1))
    state = from_bytes(snapshot(model))
    for anchor in (np.zeros(3), np.zeros((4, 1)), np.zeros(4, np.float32), 0.0):
        with pytest.raises(StateError):
            LogisticRegression.from_state(template(), state | {"anchor": anchor})
