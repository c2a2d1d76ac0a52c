"""Sizes of rows and columns, and checks of values, compared with numpy; dense and CSR agree."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_problems import Problem, close, problems
from row_arrays import csr_view, frozen

from driftsurf.kernels.columns import (
    all_between,
    all_finite,
    all_within_csr,
    all_within_dense,
    are_codes,
    binary_codes,
    clip_csr,
    clip_dense,
    column_limits,
    extend_range_csr,
    extend_range_dense,
    range_of_weighted,
    squared_norms_csr,
    squared_norms_dense,
)
from driftsurf.kernels.guard import add_excess, column_sizes, measure_csr, measure_dense

# Uncompiled, products of uint64 wrap with a warning of numpy, and so do floats that overflow on purpose.
pytestmark = [
    pytest.mark.python_kernels,
    pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning"),
]

check = settings(max_examples=200)


@given(problem=problems(max_steps=0))
@check
def test_squared_norms_equal_numpy_dense_and_sparse(problem: Problem) -> None:
    (X, *_), (data, indices, indptr, *_) = problem.kernel_rows
    dense, csr = np.empty((2, len(X)))
    squared_norms_dense(X, frozen(problem.factor), problem.frame[1], dense)
    squared_norms_csr((data, indices, indptr), frozen(problem.factor), problem.frame[1], csr)
    close(dense, np.square(problem.rows[0]).sum(axis=1))
    close(csr, dense)


def test_squared_norms_that_overflow_are_infinite() -> None:
    X = np.array([[1e200, 0.0], [3.0, 4.0]])
    csr, (dense, out) = csr_view(X), np.empty((2, 2))
    factor = np.array([1.0, 1.0, 0.0])
    squared_norms_dense(X, factor, np.zeros(3), dense)
    squared_norms_csr(csr[:3], factor, np.zeros(3), out)
    assert dense.tolist() == out.tolist() == [math.inf, 25.0]


@given(problem=problems(max_steps=0), huge=st.booleans())
@check
def test_measure_gives_norms_and_magnitudes_in_one_pass(problem: Problem, huge: bool) -> None:
    X = problem.X.astype(float)
    X[0, 0] = 1e200 if huge else X[0, 0]  # its square overflows: it has a norm but adds nothing
    factor, cap = frozen(problem.factor[:-1]), frozen(2.0 * problem.factor[:-1])
    both: list[tuple[Any, Callable[..., Any]]] = [
        (frozen(X), measure_dense),
        (csr_view(X)[:3], measure_csr),
    ]
    for rows, measure in both:
        norms, columns = np.empty(len(X)), np.ones((4, X.shape[1]))
        columns[:2] = factor, cap
        biggest, zeros, extremes = measure(rows, columns, 2.0, norms)
        total, mass = columns[2:]
        assert (biggest, zeros) == (norms.max(), np.count_nonzero(norms == 0.0))
        with np.errstate(over="ignore"):
            np.testing.assert_allclose(norms, np.square(X * factor).sum(axis=1), rtol=1e-12)
        counted = X[huge:]
        close(total, 1 + np.minimum(np.abs(counted), cap).sum(axis=0))
        close(mass, 1 + np.count_nonzero(counted, axis=0))
        assert extremes == np.count_nonzero(np.abs(factor * X) > 2.0)


def test_the_excess_of_a_column_is_how_much_larger_than_usual_its_values_were() -> None:
    total, mass, fade = np.array([40.0, 40.0, 0.0]), np.array([20.0, 20.0, 0.0]), 0.5
    after = np.array([[0.5, 0.5, 1.0], [6.0, 6.0, 0.0], fade * total, fade * mass])
    after[2] += [60.0, 4.0, 9.0]
    after[3] += [10.0, 2.0, 3.0]
    out = np.empty(3)
    assert add_excess(total, mass, fade, after, np.array([1.0, 0.5, 7.0]), 1.5, out) == 16.0
    assert out.tolist() == [1.0 + 0.5 * 60.0 - 1.5 * 10.0, 0.0, 0.0]


@given(problem=problems(max_steps=0), times=st.integers(1, 3))
@check
def test_clipped_rows_equal_numpy_dense_and_sparse(problem: Problem, times: int) -> None:
    (X, *_), (data, indices, indptr, *_) = problem.kernel_rows
    data, indices = (values[indptr[0] : indptr[-1]] for values in (data, indices))
    most = frozen(np.tile(problem.factor[:-1], times))
    limits = most[: X.shape[1]].astype(X.dtype)
    expected = np.clip(X, -limits, limits)
    within = bool((np.abs(X.astype(float)) <= most[: X.shape[1]]).all())
    assert all_within_dense(X, most) == all_within_csr(data, indices, most) == within
    dense, values = np.empty_like(X), np.empty_like(data)
    clip_dense(X, most, dense)
    clip_csr(data, indices, most, values)
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


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1.5])
@pytest.mark.parametrize("place", range(14))
def test_one_bad_value_is_found_wherever_it_is(value: float, place: int) -> None:
    X = np.ones((7, 2))
    X.flat[place] = value
    columns = np.tile(np.arange(2, dtype=np.int32), 7)
    assert all_finite(X) == math.isfinite(value)
    for most in (np.array([1.0, 2.0]), np.array([1.0, 2.0, 1.0, 2.0]), np.full(2, math.inf)):
        expected = bool((np.abs(X) <= most[:2]).all()) and math.isfinite(value)
        assert all_within_dense(X, most) == all_within_csr(X.ravel(), columns, most) == expected


@given(problem=problems(max_steps=0))
@check
def test_ranges_equal_numpy_dense_and_sparse_over_the_rows_that_count(problem: Problem) -> None:
    (X, _, weight), (data, indices, indptr, *_) = problem.kernel_rows
    low, high = -0.5 * problem.factor[:-1], problem.factor[:-1]
    one, other = np.array([low, high]), np.array([low, high])
    counted = X[weight > 0.0].astype(float)
    extends = bool(((counted < low) | (counted > high)).any())
    assert bool(extend_range_dense(X, weight, *one)) == extends
    assert bool(extend_range_csr((data, indices, indptr), weight, *other)) == extends
    assert one[0].tolist() == other[0].tolist() == np.vstack([counted, low]).min(axis=0).tolist()
    assert one[1].tolist() == other[1].tolist() == np.vstack([counted, high]).max(axis=0).tolist()


def test_the_limit_of_a_column_is_a_multiple_of_its_size() -> None:
    out = np.empty(6)
    column_limits(np.array([10.0, 0.0, 3.0]), np.array([5.0, 4.0, 0.0]), 6.0, out)
    assert out.tolist() == 2 * [12.0, 0.0, math.inf]


@given(
    columns=st.lists(st.tuples(st.floats(0.0, 1e6), st.floats(0.0, 2e4)), max_size=6),
    memory=st.sampled_from([1e4, 1e9]),
)
@check
def test_column_sizes_equal_numpy(columns: list[tuple[float, float]], memory: float) -> None:
    total, mass = np.array(columns).reshape(-1, 2).T.copy()
    fade = 0.5 if mass.max(initial=0.0) > memory else 1.0
    known = fade * mass > 0.0
    out = np.empty((4, len(total)))
    without, faded = column_sizes(frozen(total), frozen(mass), memory, 3.0, out)
    with np.errstate(over="ignore"):
        sizes = np.divide(fade * total, fade * mass, out=np.zeros(len(total)), where=known)
    factor = np.divide(1.0, sizes, out=np.ones(len(total)), where=sizes > 0.0)
    assert (without, faded) == (np.count_nonzero(~known), fade)
    assert out.tolist() == [factor.tolist(), (3.0 * sizes).tolist(), (fade * total).tolist(), (fade * mass).tolist()]


@given(
    values=st.lists(st.sampled_from([0.0, -0.0, 1.0, 2.0, 3.0, 0.5, -1.0, math.nan, math.inf, -math.inf]), max_size=8),
    n_classes=st.integers(1, 4),
)
@check
def test_codes_are_integers_below_the_number_of_classes(values: list[float], n_classes: int) -> None:
    assert are_codes(frozen(np.array(values)), n_classes) == (set(values) <= set(range(n_classes)))


@given(labels=st.lists(st.integers(-2, 2), max_size=20), names=st.permutations([-1, 0, 2]))
@check
def test_binary_codes_encode_two_labels(labels: list[int], names: list[int]) -> None:
    first, second, _ = names
    out = np.empty(len(labels))
    known = binary_codes(frozen(np.array(labels, np.int64)), first, second, out)
    assert known == (set(labels) <= {first, second})
    assert out.tolist() == [float(label == second) for label in labels]
