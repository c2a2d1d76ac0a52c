"""Scores of linear models: equal to products of numpy, with and without limits, and dense and CSR agree."""

from __future__ import annotations

import numpy as np
import scipy.special
from hypothesis import given, settings
from hypothesis import strategies as st
from linear_problems import Problem, close, problems
from row_arrays import csr_view, frozen

from driftsurf.native.columns import squared_norms
from driftsurf.native.scores import log_softmax, margins, outputs

check = settings(max_examples=200)


@given(problem=problems(max_steps=0))
@check
def test_margins_equal_the_twin_dense_and_sparse(problem: Problem) -> None:
    expected = np.column_stack([problem.X, np.ones(len(problem.X))]).astype(float) @ problem.w
    X, sparse = frozen(problem.X), csr_view(problem.X)
    dense, csr = np.empty((2, len(problem.X)))
    margins(X, frozen(problem.w), dense)
    margins(sparse, frozen(problem.w), csr)
    close(dense, expected)
    close(csr, dense)


@given(problem=problems(max_steps=0), models=st.integers(1, 4))
@check
def test_margins_of_several_models_equal_those_of_each_model(problem: Problem, models: int) -> None:
    X, sparse = frozen(problem.X), csr_view(problem.X)
    weights = np.outer(np.arange(1.0, models + 1), problem.w)
    dense, csr = np.empty((2, models, len(X)))
    margins(X, frozen(weights), dense)
    margins(sparse, frozen(weights), csr)
    close(dense, weights @ np.column_stack([X, np.ones(len(X))]).astype(float).T)
    close(csr, dense)


@given(problem=problems(max_steps=0), count=st.integers(1, 4), limited=st.booleans())
@check
def test_outputs_are_products_of_limited_values(problem: Problem, count: int, limited: bool) -> None:
    X, sparse = frozen(problem.X), csr_view(problem.X)
    W = np.outer(problem.w, np.arange(1.0, count + 1))
    most = 2.0 * problem.factor[:-1]
    limits = frozen(np.array([-0.5 * most, most])) if limited else None
    dense, csr = np.empty((2, len(X), count))
    outputs(X, frozen(W.T.copy()), dense, limits)
    outputs(sparse, frozen(W), csr, limits)
    values = np.clip(X.astype(float), *limits) if limits is not None else X
    close(dense, np.column_stack([values, np.ones(len(X))]).astype(float) @ W)
    close(csr, dense)


def test_the_softmax_of_large_scores_does_not_overflow() -> None:
    scores = 300.0 * np.random.default_rng(0).normal(size=(20, 4))
    expected = scipy.special.log_softmax(scores, axis=1)
    log_softmax(scores)
    close(scores, expected)


def test_arithmetic_on_float32_rows_is_in_double_precision() -> None:
    X = np.array([[1e30, 1e-30]], np.float32)  # squares that float32 does not hold
    out = np.empty(1)
    squared_norms(X, np.array([1.0, 1.0, 0.0]), np.zeros(3), out)
    assert out[0] == float(X[0, 0]) ** 2
    margins(X, np.array([1e20, 0.0, 0.0]), out)
    assert out[0] == 1e20 * float(X[0, 0])
