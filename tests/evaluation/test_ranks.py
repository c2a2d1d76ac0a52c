"""Ranks over streams against published values, closed forms and scipy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from driftsurf.errors import InputError, OptionError
from driftsurf.evaluation.ranks import Ranking, critical_difference, friedman, place, ranking, ranks

DEMSAR = [
    [4, 3, 2, 1],
    [1, 2, 3, 4],
    [4, 1, 2, 3],
    [4, 1, 3, 2],
    [4, 2, 3, 1],
    [1, 2.5, 4, 2.5],
    [3, 2, 4, 1],
    [2.5, 2.5, 4, 1],
    [4, 3, 2, 1],
    [2.5, 2.5, 2.5, 2.5],
    [4, 2.5, 1, 2.5],
    [3, 2, 4, 1],
    [4, 1, 2, 3],
    [3, 1, 4, 2],
]
"""The ranks of his example: four classifiers on fourteen data sets."""

errors_of_a_row = st.lists(st.floats(0, 1), min_size=2, max_size=8)


@given(errors_of_a_row)
def test_without_spread_ranks_are_the_usual_ones(errors: list[float]) -> None:
    assert ranks(errors).tolist() == stats.rankdata(errors).tolist()


@given(errors_of_a_row.flatmap(lambda row: st.tuples(st.just(row), st.lists(st.floats(0, 1), min_size=len(row)))))
def test_ranks_sum_to_the_same_whatever_ties(row: tuple[list[float], list[float]]) -> None:
    errors, spreads = row[0], row[1][: len(row[0])]
    k = len(errors)
    found = ranks(errors, spreads)
    assert found.sum() == pytest.approx(k * (k + 1) / 2)
    for i in range(k):
        first, last = place(i, errors, spreads)
        assert found[i] == pytest.approx((first + last) / 2)


def test_two_errors_tie_if_they_differ_by_less_than_the_larger_spread() -> None:
    assert ranks([0.1, 0.2], [0.0, 0.1001]).tolist() == [1.5, 1.5]
    assert ranks([0.1, 0.2], [0.0, 0.0999]).tolist() == [1.0, 2.0]


def test_ties_need_not_be_transitive() -> None:
    assert ranks([0.1, 0.2, 0.3], [0.15, 0.15, 0.15]).tolist() == [1.5, 2.0, 2.5]


def test_the_example_of_demsar_comes_out() -> None:
    table = np.array(DEMSAR)
    assert table.mean(axis=0).round(3).tolist() == [3.143, 2.000, 2.893, 1.964]
    chi_square, probability = friedman(table)
    untied_variance, variance = 14 * 4 * 5 * 3 / 12, float(np.sum((table - 2.5) ** 2))
    assert chi_square * variance / untied_variance == pytest.approx(9.28, abs=0.01)  # Demsar does not correct for ties
    expected = stats.friedmanchisquare(*table.T)
    assert chi_square == pytest.approx(expected.statistic)
    assert probability == pytest.approx(expected.pvalue)
    assert critical_difference(4, 14) == pytest.approx(1.25, abs=0.005)
    assert critical_difference(4, 14, alpha=0.10) == pytest.approx(1.12, abs=0.005)


@pytest.mark.parametrize(("k", "q"), [(2, 1.960), (3, 2.344), (4, 2.569), (5, 2.728), (10, 3.164)])
def test_critical_values_are_those_of_the_tables(k: int, q: float) -> None:
    assert critical_difference(k, 6) / math.sqrt(k * (k + 1) / 36) == pytest.approx(q, abs=0.001)


def test_two_algorithms_are_the_sign_test() -> None:
    wins, losses = 9, 3
    chi_square, _ = friedman([[1, 2]] * wins + [[2, 1]] * losses)
    assert chi_square == pytest.approx((wins - losses) ** 2 / (wins + losses))


def test_full_agreement_gives_the_largest_statistic_and_none_gives_zero() -> None:
    n, k = 7, 5
    assert friedman([list(range(1, k + 1))] * n)[0] == pytest.approx(n * (k - 1))
    assert friedman(np.full((n, k), (k + 1) / 2)) == (0.0, 1.0)


def test_groups_are_the_longest_runs_within_the_critical_difference() -> None:
    found = Ranking(("a", "b", "c", "d"), (1.0, 2.0, 2.9, 4.5), 10, 0.0, 1.0, 1.5)
    assert found.alike == (("a", "b"), ("b", "c"))
    assert Ranking(("a", "b"), (1.0, 2.0), 10, 0.0, 1.0, 0.5).alike == ()
    assert Ranking(("a", "b", "c"), (1.0, 2.0, 2.5), 10, 0.0, 1.0, 2.0).alike == (("a", "b", "c"),)


def test_a_ranking_orders_by_average_rank_and_respects_the_spread() -> None:
    rows = [{"a": 0.30, "b": 0.10, "c": 0.11}, {"a": 0.20, "b": 0.19, "c": 0.10}]
    plain = ranking(("a", "b", "c"), rows)
    assert plain.algorithms == ("b", "c", "a")
    assert plain.average_ranks == (1.5, 1.5, 3.0)
    assert plain.streams == 2
    tied = ranking(("a", "b", "c"), rows, [dict.fromkeys("abc", 0.02)] * 2)
    assert dict(zip(tied.algorithms, tied.average_ranks, strict=True)) == {"c": 1.25, "b": 2.0, "a": 2.75}


@pytest.mark.parametrize(
    ("errors", "spreads"), [([0.1, math.nan], None), ([0.1, 0.2], [0.1]), ([0.1, 0.2], [0.1, -0.1]), ([[0.1]], None)]
)
def test_errors_and_spreads_that_do_not_fit_are_refused(errors: list[float], spreads: list[float] | None) -> None:
    with pytest.raises(InputError, match=r"0\.1"):
        ranks(errors, spreads)


def test_a_ranking_takes_two_algorithms_and_a_stream() -> None:
    with pytest.raises(InputError, match=r"1 \w+ and 1"):
        ranking(("a",), [{"a": 0.1}])
    with pytest.raises(InputError, match=r"2 \w+ and 0"):
        ranking(("a", "b"), [])
    with pytest.raises(OptionError, match="alpha"):
        critical_difference(3, 3, alpha=2)
