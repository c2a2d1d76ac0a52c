"""Optimisers of logistic regression: equal to their slow twins, and dense and CSR agree."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import reference
from hypothesis import given, settings
from hypothesis import strategies as st
from linear_problems import Problem, close, problems
from row_arrays import frozen

from driftsurf.native.linear import discharge, saga, saga_both, sgd

check = settings(max_examples=200)


@given(problem=problems())
@check
def test_saga_equals_the_twin_dense_and_sparse(problem: Problem) -> None:
    table, drawn = dict(problem.table), len(problem.table)
    u = reference.saga(problem.rows, problem.order.tolist(), problem.start, table, problem.eta, problem.mu)
    for rows in problem.native_rows:
        model = problem.model
        result = saga(*rows, frozen(problem.order), model, drawn, problem.eta, problem.mu, problem.frame, None)
        assert result == len(table)
        close(model[0], problem.factor * u)
        close(model[1], problem.factor * reference.gradient_sum(problem.rows[0], table))
        entries = {i: alpha for i, alpha in enumerate(model[2]) if not math.isnan(alpha)}
        assert entries.keys() == table.keys()
        close(np.array([entries[i] for i in table]), np.array([*table.values()]))


@given(problem=problems(), turned=st.booleans())
@check
def test_two_models_in_turn_give_the_same_bits_as_one_after_the_other(problem: Problem, turned: bool) -> None:
    rows, drawn = problem.native_rows[0], len(problem.table)
    orders = frozen(problem.order), frozen(problem.order[::-1].copy() if turned else problem.order)
    etas = problem.eta, problem.eta / 3.0
    alone, together = [problem.model, problem.model], [problem.model, problem.model]
    counts = tuple(
        saga(*rows, order, model, drawn, eta, problem.mu, problem.frame, None)
        for order, model, eta in zip(orders, alone, etas, strict=True)
    )
    sides = [
        (*rows, order, model, drawn, eta, problem.frame)
        for order, model, eta in zip(orders, together, etas, strict=True)
    ]
    assert saga_both(sides[0], sides[1], problem.mu) == counts
    for one, two in zip(alone, together, strict=True):
        assert [values.tobytes() for values in one] == [values.tobytes() for values in two]


@pytest.mark.parametrize("width", [17, 33, 54, 64])
def test_two_wide_models_in_turn_give_the_same_bits(width: int) -> None:
    rng = np.random.default_rng(width)
    X = rng.normal(size=(40, width))
    rows = X, (X[:, 0] > 0.0).astype(float), rng.uniform(0.5, 1.5, 40)
    frame = rng.uniform(0.5, 1.5, width + 1), rng.normal(size=width + 1), np.arange(width)
    orders, etas = rng.integers(40, size=(2, 60)), (0.01, 0.003)
    alone, together = ([(np.zeros(width + 1), np.zeros(width + 1), np.full(40, np.nan)) for _ in etas] for _ in "ab")
    steps = [*zip(orders, etas, strict=True)]
    counts = [saga(*rows, order, m, 0, eta, 0.1, frame, None) for (order, eta), m in zip(steps, alone, strict=True)]
    sides = [(*rows, order, m, 0, eta, frame) for (order, eta), m in zip(steps, together, strict=True)]
    assert saga_both(sides[0], sides[1], 0.1) == tuple(counts)
    for one, two in zip(alone, together, strict=True):
        assert [values.tobytes() for values in one] == [values.tobytes() for values in two]


@given(problem=problems())
@check
def test_sgd_equals_the_twin_dense_and_sparse(problem: Problem) -> None:
    expected = reference.sgd(problem.rows, problem.order.tolist(), problem.start, problem.eta, problem.mu)
    for rows in problem.native_rows:
        w = problem.w.copy()
        sgd(*rows, frozen(problem.order), w, problem.eta, problem.mu, problem.frame, None)
        close(w, problem.factor * expected)


@given(problem=problems(), scale=st.floats(-2.0, 2.0))
@check
def test_an_offset_regularises_a_model_towards_an_anchor(problem: Problem, scale: float) -> None:
    # The native loops learn u = w - p with the offset p.x; the twins learn w with the penalty's pull towards p.
    anchor = scale * np.cos(np.arange(len(problem.start)))
    offset = frozen(problem.rows[0] @ anchor)
    table, drawn = dict(problem.table), len(problem.table)
    order = problem.order.tolist()
    by_saga = reference.saga(problem.rows, order, problem.start + anchor, table, problem.eta, problem.mu, anchor)
    by_sgd = reference.sgd(problem.rows, order, problem.start + anchor, problem.eta, problem.mu, anchor)
    how: tuple[Any, ...] = problem.eta, problem.mu, problem.frame, offset
    for rows in problem.native_rows:
        model, w = problem.model, problem.w.copy()
        saga(*rows, frozen(problem.order), model, drawn, *how)
        close(model[0], problem.factor * (by_saga - anchor))
        sgd(*rows, frozen(problem.order), w, *how)
        close(w, problem.factor * (by_sgd - anchor))


@given(problem=problems(max_steps=0), gone=st.integers(0, 6))
@check
def test_discharged_rows_are_subtracted_from_the_gradient_sum(problem: Problem, gone: int) -> None:
    gone = min(gone, len(problem.X))
    (X, *_), (sparse, *_) = problem.native_rows
    staying = {i: alpha for i, alpha in problem.table.items() if i >= gone}
    (_, dense, table), (_, csr, _) = problem.model, problem.model
    drawn = discharge(X[:gone], frozen(table[:gone]), dense, problem.frame)
    assert drawn == len(problem.table) - len(staying)
    assert (
        discharge(sparse._replace(indptr=sparse.indptr[: gone + 1]), frozen(table[:gone]), csr, problem.frame) == drawn
    )
    close(dense, problem.factor * reference.gradient_sum(problem.rows[0], staying))
    close(csr, dense)


@pytest.mark.parametrize("ratio", [0.5, 0.999, 1 - 2.0**-52])
def test_sparse_steps_stay_exact_when_the_weights_are_put_together_many_times(ratio: float) -> None:
    # (1 - ratio)^300 is far below the 1e-6 at which the factor s goes into the weights, many times over.
    random = np.random.default_rng(3)
    X = random.normal(size=(12, 4)) * (random.random((12, 4)) < 0.5)
    y, order = (random.random(12) < 0.5).astype(float), random.integers(0, 12, 300)
    problem = Problem(X, y, np.ones(12), order, np.full(5, 100.0), {}, 0.05, ratio / 0.05, np.ones(5))
    dense_rows, csr_rows = problem.native_rows
    dense, csr = problem.model, problem.model
    for rows, model in ((dense_rows, dense), (csr_rows, csr)):
        saga(*rows, order, model, 0, problem.eta, problem.mu, problem.frame, None)
        close(model[0], reference.saga(problem.rows, order.tolist(), problem.w, {}, problem.eta, problem.mu))
    w = problem.w.copy()
    sgd(*csr_rows, order, w, problem.eta, problem.mu, problem.frame, None)
    close(w, reference.sgd(problem.rows, order.tolist(), problem.w, problem.eta, problem.mu))


@pytest.mark.parametrize("layout", [0, 1], ids=["dense", "csr"])
def test_a_huge_row_without_weight_changes_nothing(layout: int) -> None:
    ordinary = np.array([[1.0, -2.0], [0.5, 0.0]])
    huge = np.array([[1e308, -1e308], [0.5, 0.0]])  # the margin is inf - inf
    order, w = np.array([0, 1, 0, 1, 1, 0]), np.array([1e10, 1e10, 1.0])
    results = []
    for X in (ordinary, huge):
        problem = Problem(X, np.array([0.0, 1.0]), np.array([0.0, 1.0]), order, w, {}, 0.1, 0.01, np.ones(3))
        rows, model, weights = problem.native_rows[layout], problem.model, problem.w.copy()
        saga(*rows, order, model, 0, 0.1, 0.01, problem.frame, None)
        sgd(*rows, order, weights, 0.1, 0.01, problem.frame, None)
        results.append([values.tolist() for values in (*model, weights)])
    assert results[0] == results[1]


@pytest.mark.parametrize("layout", [0, 1], ids=["dense", "csr"])
@pytest.mark.parametrize("margin", [1e300, -1e300])
@pytest.mark.parametrize("y", [0.0, 1.0])
def test_gradients_are_bounded_at_any_margin(layout: int, margin: float, y: float) -> None:
    problem = Problem(
        np.array([[1.0]]),
        np.array([y]),
        np.array([1.0]),
        np.zeros(1, np.int64),
        np.array([margin, 0.0]),
        {},
        0.1,
        0.0,
        np.array([1.0, 0.0]),
    )
    _, G, table = model = problem.model
    saga(*problem.native_rows[layout], problem.order, model, 0, 0.1, 0.0, problem.frame, None)
    expected = float(margin > 0) - y
    assert table[0] == pytest.approx(expected, abs=1e-300)
    assert G[0] == table[0]


def test_an_empty_order_changes_nothing() -> None:
    problem = Problem(
        np.ones((1, 1)), np.ones(1), np.ones(1), np.zeros(0, np.int64), np.ones(2), {}, 0.1, 0.5, np.ones(2)
    )
    for rows in problem.native_rows:
        model = problem.model
        assert saga(*rows, problem.order, model, 0, 0.1, 0.5, problem.frame, None) == 0
        assert model[0].tolist() == [1.0, 1.0]
