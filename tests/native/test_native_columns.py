"""Sizes of rows and columns, and checks of values, compared with numpy; dense and CSR agree."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from linear_problems import Problem, close, problems
from row_arrays import csr_view, frozen

from driftsurf.core.contracts import CSR
from driftsurf.native.columns import (
    all_between,
    all_finite,
    all_within,
    are_codes,
    clip,
    column_limits,
    extend_range,
    range_of_weighted,
    squared_norms,
)

check = settings(max_examples=200)


@given(problem=problems(max_steps=0))
@check
def test_squared_norms_equal_numpy_dense_and_sparse(problem: Problem) -> None:
    X = frozen(problem.X)
    dense, csr = np.empty((2, len(X)))
    squared_norms(X, frozen(problem.factor), problem.frame[1], dense)
    squared_norms(csr_view(X), frozen(problem.factor), problem.frame[1], csr)
    close(dense, np.square(problem.rows[0]).sum(axis=1))
    close(csr, dense)


def test_squared_norms_that_overflow_are_infinite() -> None:
    X = np.array([[1e200, 0.0], [3.0, 4.0]])
    factor, (dense, out) = np.array([1.0, 1.0, 0.0]), np.empty((2, 2))
    squared_norms(X, factor, np.zeros(3), dense)
    squared_norms(csr_view(X), factor, np.zeros(3), out)
    assert dense.tolist() == out.tolist() == [math.inf, 25.0]


@given(problem=problems(max_steps=0), times=st.integers(1, 3))
@check
def test_clipped_rows_equal_numpy_dense_and_sparse(problem: Problem, times: int) -> None:
    X, sparse = frozen(problem.X), csr_view(problem.X)
    most = frozen(np.tile(problem.factor[:-1], times))
    limits = most[: X.shape[1]].astype(X.dtype)
    expected = np.clip(X, -limits, limits)
    within = bool((np.abs(X.astype(float)) <= most[: X.shape[1]]).all())
    assert all_within(X, most) == all_within(sparse, most) == within
    dense, values = np.empty_like(X), np.empty(np.count_nonzero(X), X.dtype)
    clip(X, most, dense)
    clip(sparse, most, values)
    assert np.array_equal(dense, expected)
    assert np.array_equal(values, expected[X != 0])


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1.5, -1.5])
@pytest.mark.parametrize("place", range(5))
@pytest.mark.parametrize("kind", ["f4", "f8"])
def test_one_value_outside_of_a_range_is_found_wherever_it_is(value: float, place: int, kind: str) -> None:
    values = np.ones(5, kind)
    assert all_between(values, 1.0, 1.0, False)
    values[place] = value
    largest = float(np.finfo(np.float64).max)
    assert not all_between(values, -1.0, 1.0, False)
    assert all_between(values, -1.0, 1.0, True) == math.isnan(value)
    assert all_between(values, -largest, largest, False) == math.isfinite(value)
    assert all_between(values, -math.inf, math.inf, True)


@given(values=st.lists(st.tuples(st.floats(-1.0, 1.0), st.sampled_from([0.0, 0.5])), max_size=9))
def test_the_range_of_values_leaves_out_those_without_weight(values: list[tuple[float, float]]) -> None:
    numbers, weight = np.array(values).reshape(-1, 2).T.copy()
    counted = [value for value, share in values if share]
    assert range_of_weighted(numbers, weight) == (min(counted, default=math.inf), max(counted, default=-math.inf))
    assert range_of_weighted(numbers, None) == (numbers.min(initial=math.inf), numbers.max(initial=-math.inf))


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1.5])
@pytest.mark.parametrize("place", range(14))
def test_one_bad_value_is_found_wherever_it_is(value: float, place: int) -> None:
    X = np.ones((7, 2))
    X.flat[place] = value
    sparse = CSR(X.ravel(), np.tile(np.arange(2, dtype=np.int32), 7), np.arange(0, 15, 2), 2)
    assert all_finite(X) == math.isfinite(value)
    for most in (np.array([1.0, 2.0]), np.array([1.0, 2.0, 1.0, 2.0]), np.full(2, math.inf)):
        expected = bool((np.abs(X) <= most[:2]).all()) and math.isfinite(value)
        assert all_within(X, most) == all_within(sparse, most) == expected


@given(problem=problems(max_steps=0))
@check
def test_ranges_equal_numpy_dense_and_sparse_over_the_rows_that_count(problem: Problem) -> None:
    X, weight = frozen(problem.X), frozen(problem.weight)
    low, high = -0.5 * problem.factor[:-1], problem.factor[:-1]
    one, other = np.array([low, high]), np.array([low, high])
    counted = X[weight > 0.0].astype(float)
    extends = bool(((counted < low) | (counted > high)).any())
    assert bool(extend_range(X, weight, *one)) == extends
    assert bool(extend_range(csr_view(X), weight, *other)) == extends
    assert one[0].tolist() == other[0].tolist() == np.vstack([counted, low]).min(axis=0).tolist()
    assert one[1].tolist() == other[1].tolist() == np.vstack([counted, high]).max(axis=0).tolist()


def test_the_limit_of_a_column_is_a_multiple_of_its_size() -> None:
    out = np.empty(6)
    column_limits(np.array([10.0, 0.0, 3.0]), np.array([5.0, 4.0, 0.0]), 6.0, out)
    assert out.tolist() == 2 * [12.0, 0.0, math.inf]


@given(
    values=st.lists(st.sampled_from([0.0, -0.0, 1.0, 2.0, 3.0, 0.5, -1.0, math.nan, math.inf, -math.inf]), max_size=8),
    n_classes=st.integers(1, 4),
)
@check
def test_codes_are_integers_below_the_number_of_classes(values: list[float], n_classes: int) -> None:
    assert are_codes(frozen(np.array(values)), n_classes) == (set(values) <= set(range(n_classes)))


def test_arrays_that_do_not_fit_are_refused() -> None:
    X, short = np.ones((3, 2)), np.ones(1)
    with pytest.raises(ValueError, match="do not fit"):
        squared_norms(X, short, np.zeros(3), np.empty(3))
    with pytest.raises(ValueError, match="do not fit"):
        clip(X, np.ones(2), np.empty((2, 2)))
    with pytest.raises(TypeError, match="elements of kind"):
        all_finite(np.ones(2, np.int64))
    with pytest.raises(TypeError, match="elements of kind"):
        all_finite(np.ones(2, ">f8"))
    with pytest.raises(TypeError, match="elements of kind"):
        all_finite(np.frombuffer(bytes(9), np.uint8)[1:].view(np.float64))
