"""Losses, sums and votes, compared with plain Python twins; nothing overflows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import reference
from hypothesis import given, settings
from hypothesis import strategies as st
from linear_problems import close
from row_arrays import frozen

from driftsurf.native.linear import (
    HUBER,
    SQUARED,
    SQUARED_HINGE,
    evidence,
    largest,
    logistic_losses,
    output_losses,
    pairwise_sum,
    squared_length,
    weighted_sum,
)

check = settings(max_examples=200)


@given(
    rows=st.lists(st.tuples(st.floats(allow_nan=False, allow_infinity=False), st.sampled_from([0.0, 1.0])), max_size=20)
)
@check
def test_losses_equal_the_twin_for_every_finite_margin(rows: list[tuple[float, float]]) -> None:
    margins, y = np.array(rows).reshape(-1, 2).T.copy()
    out = np.empty(len(margins))
    logistic_losses(frozen(margins), frozen(y), out)
    np.testing.assert_allclose(out, [reference.logistic_loss(m, c) for m, c in rows], rtol=1e-12, atol=1e-300)


def test_losses_do_not_overflow() -> None:
    out = np.empty(4)
    logistic_losses(np.array([1e308, -1e308, 1e308, -1e308]), np.array([0.0, 0.0, 1.0, 1.0]), out)
    assert out.tolist() == [1e308, 0.0, 0.0, 1e308]


@given(values=st.lists(st.tuples(st.floats(-1e6, 1e6), st.floats(0.0, 10.0)), max_size=20))
@check
def test_weighted_sum_equals_numpy(values: list[tuple[float, float]]) -> None:
    value, weight = np.array(values).reshape(-1, 2).T.copy()
    close(np.array(weighted_sum(frozen(value), frozen(weight))), np.array([value @ weight, weight.sum()]))


def test_weighted_sum_skips_rows_without_weight() -> None:
    values, weight = np.array([math.nan, 2.0, math.inf]), np.array([0.0, 3.0, 0.0])
    assert weighted_sum(values, weight) == (6.0, 3.0)


@given(values=st.lists(st.tuples(st.floats(-1e6, 1e6), st.floats(0.1, 10.0)), min_size=1, max_size=20))
@check
def test_squared_length_sums_in_the_order_of_the_weights(values: list[tuple[float, float]]) -> None:
    weights, factor = np.array(values).T.copy()
    expected = np.cumsum(np.square(weights / factor))
    assert squared_length(frozen(weights), frozen(factor)) == expected[-1]
    factor[-1] = 0.0
    assert squared_length(weights, factor) == (expected[-2] if len(expected) > 1 else 0.0)


@given(values=st.lists(st.floats(), max_size=20))
@check
def test_the_largest_size_is_infinite_if_a_value_is_nan(values: list[float]) -> None:
    expected = math.inf if any(map(math.isnan, values)) else max(map(abs, values), default=0.0)
    array = frozen(np.array(values, float))
    assert largest(array) == expected
    for place in range(len(values) + 1):
        assert largest(array[:place], array[place:]) == expected


@pytest.mark.parametrize("rows", [1, 7, 8, 100, 129, 1000])
def test_the_terms_of_evidence_add_up_as_in_numpy(rows: int) -> None:
    rng = np.random.default_rng(rows)
    predicted, y = rng.normal(size=(2, rows)) * np.exp(5.0 * rng.normal(size=rows))
    weight, mean = rng.integers(3, size=rows) * rng.random(rows), 0.3
    counted, found = evidence(predicted, y, weight, mean)
    assert counted == np.count_nonzero(weight)
    p, t = predicted - mean, y - mean
    sums = [part.sum() for part in (weight, weight * t, weight * p * t, weight * np.square(p))]
    assert [*found] == sums  # to the bit


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 127, 128, 129, 136, 255, 1000, 4099, 100_003])
def test_a_pairwise_sum_is_that_of_numpy_to_the_bit(count: int) -> None:
    values = np.random.default_rng(count).normal(size=count) * np.exp(5.0 * np.random.default_rng(1).normal(size=count))
    assert pairwise_sum(frozen(values)) == values.sum()


@pytest.mark.parametrize(
    ("kind", "loss"),
    [
        (SQUARED, lambda z, y: np.square(z - y)),
        (HUBER, lambda z, y: np.where(abs(z - y) <= 0.5, np.square(z - y), 0.5 * (2.0 * abs(z - y) - 0.5))),
        (SQUARED_HINGE, lambda z, y: np.square(np.maximum(0.0, 1.0 - (2.0 * y - 1.0) * z))),
    ],
)
def test_losses_of_one_score_are_those_of_their_definitions(kind: int, loss: Any) -> None:
    rng = np.random.default_rng(kind)
    scores, y, out = rng.normal(size=50), rng.integers(2, size=50).astype(float), np.empty(50)
    scores[0] = math.nan  # a row whose values overflow has weight 0
    output_losses(frozen(scores), frozen(y), kind, 0.5, out)
    np.testing.assert_allclose(out, loss(scores, y), rtol=1e-15)
