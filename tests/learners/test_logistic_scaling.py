"""Logistic regression: automatic step size, scaling and centring of columns."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import pytest
import reference
from logistic_cases import (
    Data,
    Optimizer,
    close,
    layouts,
    weights,
)
from row_arrays import as_rows

from driftsurf.core.contracts import FloatArray
from driftsurf.core.samples import Samples
from driftsurf.learners import LogisticRegression
from driftsurf.learners._linear import usual_sizes


def step_size(model: LogisticRegression) -> float:
    value = model.state()["step_size"]
    assert isinstance(value, float)
    return value


def auto(
    X: FloatArray,
    y: FloatArray,
    weight: FloatArray | None = None,
    steps: int | None = None,
    scale: bool | Literal["auto"] = "auto",
) -> LogisticRegression:
    samples = Samples(X.shape[1])
    new = samples.append(X, y, weight)
    model = LogisticRegression(scale=scale).fresh(0, X.shape[1], 2)
    model.update(samples, new, 2 * len(X) if steps is None else steps)
    return model


def test_the_automatic_step_size_is_a_tenth_of_one_over_the_curvature_of_usual_rows() -> None:
    X = np.where(np.arange(100) % 2, 3.0, -3.0).reshape(-1, 1)
    for scale, curvature in ((False, 10.0 / 4), (True, 2.0 / 4)):
        once, twice = auto(X, np.ones(100), scale=scale), auto(X, np.ones(100), np.full(100, 2.0), scale=scale)
        assert step_size(once) == pytest.approx(0.1 / (curvature + 1e-4))
        assert step_size(twice) == pytest.approx(0.1 / (2 * curvature + 1e-4))


@pytest.mark.parametrize("huge", [1e6, 1e80])
def test_one_huge_row_does_not_stop_learning(huge: float) -> None:
    random = np.random.default_rng(0)
    X = random.normal(size=(200, 2))
    y = (X[:, 0] > 0).astype(float)
    usual = step_size(auto(X, y))
    X[50] = huge
    assert step_size(auto(X, y)) == pytest.approx(usual, rel=0.05)


@pytest.mark.parametrize("huge", [1e6, 1e154, 1e300])
def test_a_huge_row_without_weight_does_no_harm(huge: float) -> None:
    random = np.random.default_rng(0)
    X, weight = random.normal(size=(400, 2)), np.ones(400)
    y = (X[:, 0] > 0).astype(float)
    weight[50] = 0.0
    without = auto(X, y, weight, 4000)
    X[50] = huge
    model = auto(X, y, weight, 4000)
    assert step_size(model) == step_size(without)
    close(weights(model), weights(without))
    assert np.mean((model.scores(X[weight > 0]) > 0) == y[weight > 0]) > 0.98


@pytest.mark.parametrize(
    ("X", "weight"),
    [
        pytest.param(np.ones((3, 1)), np.zeros(3), id="no weight at all"),
        pytest.param(np.full((3, 1), 1e300), np.zeros(3), id="nothing but huge rows without weight"),
    ],
)
def test_without_usual_rows_the_automatic_step_size_is_that_of_unit_rows(X: FloatArray, weight: FloatArray) -> None:
    assert step_size(auto(X, np.ones(3), weight)) == pytest.approx(0.1 / (0.25 + 1e-4))


@pytest.mark.parametrize("scale", [1.0, 30.0, 1e3, 1e6])
def test_the_automatic_step_size_suits_large_values(scale: float) -> None:
    X = scale * np.random.default_rng(0).normal(size=(1000, 3))
    y = (X[:, 0] - X[:, 1] > 0).astype(float)
    model = auto(X, y, steps=20_000)
    assert np.mean((model.scores(X) > 0) == y) > 0.95


@pytest.mark.parametrize("target", [0, 1, 2])
def test_columns_in_any_unit_are_learned_without_preparation(target: int) -> None:
    X = np.random.default_rng(0).normal(size=(2000, 3)) * [1.0, 1000.0, 1e-6]
    y = (X[:, target] > 0).astype(float)
    assert np.mean((auto(X, y).scores(X) > 0) == y) > 0.95
    for other in {0, 1, 2} - {target}:
        y = ((X / [1.0, 1000.0, 1e-6])[:, [target, other]].sum(axis=1) > 0).astype(float)
        assert np.mean((auto(X, y).scores(X) > 0) == y) > 0.95


def test_the_step_size_is_estimated_again_each_time_the_rows_have_doubled() -> None:
    samples = Samples(1)
    model = LogisticRegression(scale=False).fresh(0, 1, 2)
    assert math.isnan(step_size(model))
    sizes = []
    for value in (1e6, 1.0, 2.0, 2.0, 3.0, 3.0, 3.0, 3.0):
        new = samples.append(np.array([[value]]), np.ones(1))
        model.update(samples, new, 2)
        sizes.append(step_size(model))
        model.forget(samples, new.lo)
    renewed = [i + 1 for i in range(8) if i == 0 or sizes[i] != sizes[i - 1]]
    assert renewed == [1, 2, 4, 8]
    assert sizes[0] < 1e-12
    assert sizes[1] == pytest.approx(0.1 / (0.5 + 1e-4))


@layouts
def test_a_change_of_scale_keeps_the_model_and_its_gradients(sparse: bool) -> None:
    """Only the coordinates change: same scores, same table, and the gradient sum equals a new sum over the table."""
    data = Data.make(800)
    data.X[:, 2] += 50.0
    data.weight[:] = 1.0
    samples, new = data.samples(sparse, 400)
    model = LogisticRegression(scale=True, step_size=0.05).fresh(0, 3, 2)
    model.update(samples, new, 800)
    before, scores = model.state(), model.scores(data.X)
    data.X[400:] = data.X[400:] * [7.0, 0.1, 1.0] + [0.0, 0.0, 5.0]
    model.update(samples, data.append(samples, 400), 0)  # no step: only the scale is estimated again
    after = model.state()
    assert not np.allclose(before["factor"], after["factor"])
    assert not np.allclose(before["centre"], after["centre"])
    assert np.asarray(after["centre"])[:2].tolist() == [0.0, 0.0]
    close(model.scores(data.X[:400]), scores[:400])
    table = {i: float(alpha) for i, alpha in enumerate(np.asarray(after["table"])) if not math.isnan(alpha)}
    total = reference.gradient_sum(data.rows(1.0)[0] - np.asarray(after["centre"]), table)
    close(np.asarray(after["gradient_sum"]), np.square(np.asarray(after["factor"])) * total)


@layouts
@pytest.mark.parametrize("optimizer", ["strsaga", "sgd"])
def test_columns_far_from_zero_are_learned(sparse: bool, optimizer: Optimizer) -> None:
    """Pressure, temperature, year: the result is the model of the centred columns."""
    random = np.random.default_rng(0)
    Z = random.normal(size=(2000, 3))
    y = (Z @ [1.0, 1.0, -1.0] + 0.4 * random.normal(size=2000) > 0).astype(float)
    X = 8.0 * Z + [1013.0, 290.0, 400.0]
    accuracy = []
    for rows in (X, Z):
        samples = Samples(3, sparse=sparse)
        new = samples.append(as_rows(rows, sparse), y)
        model = LogisticRegression(optimizer=optimizer).fresh(0, 3, 2)
        model.update(samples, new, 40_000)
        accuracy.append(np.mean((model.scores(rows) > 0) == y))
        forgetful = model.forget(samples, 500)
        forgetful()
    assert accuracy[0] == pytest.approx(accuracy[1], abs=0.02)


def test_without_an_intercept_nothing_is_centred() -> None:
    X = np.random.default_rng(0).normal(size=(100, 2)) + 100.0
    samples = Samples(2)
    new = samples.append(X, np.ones(100))
    model = LogisticRegression(fit_intercept=False).fresh(0, 2, 2)
    model.update(samples, new, 200)
    assert not np.any(model.state()["centre"])
    assert model.intercept == 0.0


def test_usual_sizes_are_robust_and_ignore_zeros() -> None:
    X = np.zeros((1000, 4))
    X[:, 0] = np.random.default_rng(0).normal(size=1000)
    X[::100, 1] = 5.0
    X[:, 2] = 1.0
    X[3, 2] = 1e140
    sizes = usual_sizes(X, np.ones(1000))
    assert sizes == pytest.approx([0.8, 5.0, 1.0, 0.0], rel=0.05)
    close(usual_sizes(as_rows(X, True), np.ones(1000)), sizes)
