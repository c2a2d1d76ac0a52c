"""Frames of linear models, compared with numpy and with what a frame means."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from linear_problems import Problem, close, problems
from row_arrays import as_rows, frozen

from driftsurf.learners._linear import ENOUGH_ROWS, usual_frame, usual_norm, usual_sizes
from driftsurf.native.columns import median_target, reframe, select, uncentre

check = settings(max_examples=200)
numbers = st.floats(allow_nan=False)


@given(values=arrays(np.float64, st.integers(1, 40), elements=numbers), place=st.integers(0, 39))
@check
def test_a_selected_value_is_that_of_the_sorted_values(values: np.ndarray, place: int) -> None:
    place %= len(values)
    reordered, expected = values.copy(), np.sort(values)
    assert select(reordered, place) == reordered[place] == expected[place]
    assert np.sort(reordered).tolist() == expected.tolist()
    assert reordered[:place].max(initial=-np.inf) <= expected[place] <= reordered[place:].min()


def test_a_selection_among_values_that_are_no_numbers_ends() -> None:
    assert np.isnan(select(np.array([np.nan, 1.0, np.nan, np.nan]), 2))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("rows", [ENOUGH_ROWS - 1, ENOUGH_ROWS, ENOUGH_ROWS + 1])
def test_dense_and_sparse_rows_have_the_same_frame(rows: int, dtype: type) -> None:
    rng = np.random.default_rng(rows)
    X = rng.normal(size=(rows, 4)) * [1.0, 50.0, 0.01, 1.0] + [0.0, 300.0, 0.2, 5.0]
    X[::3, 3] = 0.0  # a column with zeros has no centre
    X = X.astype(dtype)
    weight = rng.integers(0, 3, rows).astype(float)
    for dense, sparse in zip(usual_frame(X, weight), usual_frame(as_rows(X, True), weight), strict=True):
        assert dense.tolist() == sparse.tolist()
    assert usual_sizes(X, weight).tolist() == usual_sizes(as_rows(X, True), weight).tolist()


def test_a_centre_is_the_median_of_the_rows_that_count() -> None:
    rng = np.random.default_rng(0)
    X = 100.0 + rng.normal(size=(ENOUGH_ROWS * 2, 1))
    weight = np.repeat([1.0, 0.0], ENOUGH_ROWS)
    centre, _ = usual_frame(X, weight)
    assert centre[0] == np.median(X[:ENOUGH_ROWS])


@given(problem=problems(max_steps=0), quantile=st.floats(0.0, 1.0))
@check
def test_the_usual_norm_is_a_quantile_of_the_rows_that_count(problem: Problem, quantile: float) -> None:
    counted = problem.weight > 0.0
    norms = np.sort((np.square(problem.rows[0]).sum(axis=1) * problem.weight)[counted])
    expected = norms[int(np.floor(quantile * (len(norms) - 1)))] if len(norms) else 1.0
    for X in (problem.X, as_rows(problem.X, True)):
        found = usual_norm(X, problem.weight, problem.factor, np.array(problem.frame[1]), quantile)
        assert found == pytest.approx(expected if expected > 0.0 else 1.0, rel=1e-9)


@given(problem=problems(max_steps=0), outputs=st.integers(1, 3), seed=st.integers(0, 99))
@check
def test_another_frame_changes_neither_scores_nor_gradients(problem: Problem, outputs: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    X, d = problem.X.astype(float), problem.X.shape[1]
    slopes = rng.normal(size=(len(X), outputs))
    factor, centre = np.append(rng.uniform(0.5, 2.0, d), 1.0), np.append(rng.normal(size=d), 0.0)
    W = rng.normal(size=(d + 1, outputs))

    def gradient_sum() -> Any:
        framed = np.column_stack([X - centre[:-1], np.ones(len(X))])
        return np.square(factor)[:, None] * (framed.T @ slopes)

    def scores() -> Any:
        raw = np.empty_like(W)
        uncentre(W, centre, 0.0, raw)
        return X @ raw[:-1] + raw[-1]

    G, before = gradient_sum(), scores()
    sizes: Any = rng.uniform(0.5, 2.0, d) * rng.integers(0, 2, d)  # a size of 0 is not known
    reframe(W, G, factor, centre, frozen(rng.normal(size=(d,))), sizes, 1e-30)
    close(scores(), before)
    close(G, gradient_sum())
    close(factor[:-1][sizes > 0.0], 1.0 / sizes[sizes > 0.0])


@pytest.mark.parametrize("rows", [1, 2, 5, 40, 41])
def test_the_median_target_is_that_of_the_rows_with_weight(rows: int) -> None:
    rng = np.random.default_rng(rows)
    y, weight = rng.normal(size=rows).round(1), rng.random(rows) * rng.integers(2, size=rows)
    weight[-1] = 0.5
    assert median_target(frozen(y), frozen(weight), np.empty(rows)) == np.median(y[weight > 0.0])
    assert np.isnan(median_target(y, np.zeros(rows), np.empty(rows)))
