"""Random draws: uniform numbers and the schedules of the optimisers, compared with plain Python twins."""

from __future__ import annotations

import numpy as np
import pytest
import reference
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from driftsurf.core.numeric import MASK, word
from driftsurf.native.linear import alternate, draw_uniformly, fill_uniform, schedule

SEEDS = st.integers(0, MASK)

COUNTERS = st.integers(0, 2**62)
check = settings(max_examples=200)


@given(size=st.integers(0, 50), seed=SEEDS, k=COUNTERS)
@check
def test_fill_uniform_takes_the_upper_53_bits_of_each_word(size: int, seed: int, k: int) -> None:
    out = np.empty(size)
    assert fill_uniform(out, seed, k) == k + size
    assert out.tolist() == [reference.uniform(seed, k + i) for i in range(size)]
    assert out.tolist() == [(word(seed, k + i) >> 11) * 2.0**-53 for i in range(size)]


@given(size=st.integers(0, 50), n=st.integers(1, 2**32 - 1), seed=SEEDS, k=COUNTERS)
@check
def test_uniform_draws_map_words_by_multiply_shift(size: int, n: int, seed: int, k: int) -> None:
    order = np.empty(size, np.int64)
    assert draw_uniformly(order, n, seed, k) == k + size
    assert order.tolist() == [reference.draw(seed, k + j, n) for j in range(size)]
    assert all(0 <= i < n for i in order)


@given(steps=st.integers(0, 50), admitted=st.integers(0, 20), waiting=st.integers(0, 20), seed=SEEDS, k=COUNTERS)
@check
def test_the_alternating_schedule_equals_its_twin(steps: int, admitted: int, waiting: int, seed: int, k: int) -> None:
    if admitted + waiting == 0:
        waiting = 1
    order = np.empty(steps, np.int64)
    count, next_k = alternate(order, admitted, waiting, seed, k)
    visited, size, expected_k = reference.alternating(steps, admitted, waiting, seed, k)
    assert order.tolist() == visited
    assert (admitted + count, next_k) == (size, expected_k)
    assert next_k - k == steps - count, "an admission uses no random word"


def test_every_other_step_admits_the_oldest_waiting_row() -> None:
    order = np.empty(9, np.int64)
    assert alternate(order, 2, 3, 0, 0) == (3, 6)
    assert order[0:5:2].tolist() == [2, 3, 4]
    assert order[1] < 3
    assert order[3] < 4


@given(
    steps=st.integers(0, 50),
    admitted=st.integers(0, 20),
    waiting=st.integers(0, 20),
    seed=SEEDS,
    k=COUNTERS,
    width=st.integers(1, 3),
    plain=st.booleans(),
)
@check
def test_a_schedule_admits_rows_to_the_table_and_saves_overwritten_entries(
    steps: int, admitted: int, waiting: int, seed: int, k: int, width: int, plain: bool
) -> None:
    if admitted + waiting == 0:
        waiting = 1
    visited, size, next_k = (reference.growing if plain else reference.alternating)(steps, admitted, waiting, seed, k)
    before = np.arange((size + 1) * width, dtype=float).reshape(size + 1, width)
    order, table, old = np.empty(steps, np.int64), before.copy(), np.empty((steps, width))
    assert schedule(order, table, old, admitted, waiting, seed, k, not plain) == next_k
    assert order.tolist() == visited
    before[admitted:size] = np.nan
    np.testing.assert_array_equal(table, before)
    np.testing.assert_array_equal(old, before[visited])


@pytest.mark.parametrize("n", [2, 10, 37])
def test_draws_are_uniform(n: int) -> None:
    order = np.empty(20_000, np.int64)
    draw_uniformly(order, n, 2024, 0)
    assert chisquare(np.bincount(order, minlength=n)).pvalue > 0.001


def test_uniform_numbers_fill_the_unit_interval() -> None:
    out = np.empty(20_000)
    fill_uniform(out, 2024, 0)
    assert 0.0 <= out.min() < 0.001
    assert 0.999 < out.max() < 1.0
    assert chisquare(np.histogram(out, 20, (0.0, 1.0))[0]).pvalue > 0.001
