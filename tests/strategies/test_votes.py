"""Votes from scores, with two classes and with more."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driftsurf.core.contracts import FloatArray
from driftsurf.kernels.votes import balance_of_votes
from driftsurf.strategies._votes import errors, labels, log_odds, squared_errors, true_class_share, weighted_vote


def log_probabilities(random: np.random.Generator, n: int, k: int) -> FloatArray:
    return np.log(random.dirichlet(np.ones(k), n))


def test_scores_are_converted_to_labels_and_errors() -> None:
    assert labels(np.array([-1.0, 0.0, 2.0])).tolist() == [0, 0, 1]
    assert errors(np.array([-1.0, 0.0, 2.0]), np.array([0.0, 1.0, 1.0])).tolist() == [0.0, 1.0, 0.0]
    three = np.log([[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]])
    assert labels(three).tolist() == [2, 0]
    assert errors(three, np.array([2.0, 1.0])).tolist() == [0.0, 1.0]


def test_the_share_of_the_true_class_is_its_probability() -> None:
    margins = np.array([-800.0, -1.0, 0.0, 2.0, 800.0])
    of_one = [0.0, 1 / (1 + np.e), 0.5, 1 / (1 + np.exp(-2.0)), 1.0]
    assert true_class_share(margins, np.ones(5)) == pytest.approx(of_one)
    assert true_class_share(margins, np.zeros(5)) == pytest.approx([1 - p for p in of_one])
    three = np.log([[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]])
    assert true_class_share(three, np.array([1.0, 2.0])) == pytest.approx([0.3, 0.1])


@given(voters=st.integers(1, 6), k=st.integers(2, 5), seed=st.integers(0, 1000))
@settings(deadline=None, max_examples=60)
def test_a_vote_is_the_sum_of_the_weights_for_each_class(voters: int, k: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    ballots, weights = [log_probabilities(random, 7, k) for _ in range(voters)], random.exponential(size=voters)
    shares = np.exp(weighted_vote(ballots, weights))
    for row in range(7):
        tally = [0.0] * k
        for ballot, weight in zip(ballots, weights, strict=True):
            tally[int(np.argmax(ballot[row]))] += weight / weights.sum()
        assert shares[row] == pytest.approx(tally, abs=2e-9)
    if k == 2:
        margins = weighted_vote([ballot[:, 1] - ballot[:, 0] for ballot in ballots], weights)
        assert margins == pytest.approx(log_odds(shares[:, 1] - shares[:, 0]), rel=1e-6)


@given(voters=st.integers(1, 30), seed=st.integers(0, 1000))
@settings(deadline=None, max_examples=30)
def test_the_weighted_mean_of_a_row_does_not_depend_on_other_rows(voters: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    ballots, weights = random.normal(size=(voters, 9)), random.exponential(size=voters)
    together = weighted_vote(list(ballots), weights, regression=True)
    alone = [
        weighted_vote([scores[row : row + 1] for scores in ballots], weights, regression=True)[0] for row in range(9)
    ]
    assert together.tolist() == alone
    assert together == pytest.approx(np.average(ballots, axis=0, weights=weights))


@given(voters=st.integers(1, 12), rows=st.integers(0, 9), seed=st.integers(0, 1000))
@settings(deadline=None, max_examples=60)
def test_votes_are_summed_in_the_order_of_the_voters(voters: int, rows: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    margins, weights = random.normal(size=(voters, rows)), random.exponential(size=voters)
    margins[random.random(margins.shape) < 0.2] = 0.0
    balance = np.empty(rows)
    balance_of_votes(margins, weights, balance)
    for row in range(rows):
        total = 0.0
        for margin, weight in zip(margins[:, row], weights, strict=True):
            total += weight if margin > 0.0 else -weight
        assert balance[row] == total


@pytest.mark.parametrize("values", [False, True])
def test_squared_errors_of_many_models_are_those_of_each(values: bool) -> None:
    random = np.random.default_rng(3)
    y = random.integers(0, 2, 20).astype(float)
    margins, several = random.normal(size=(3, 20)), [log_probabilities(random, 20, 4) for _ in range(3)]
    kinds: list[Sequence[FloatArray]] = [list(margins)] if values else [list(margins), several]
    for ballots in kinds:
        each = [scores - y if values else 1.0 - true_class_share(scores, y) for scores in ballots]
        assert np.array_equal(squared_errors(ballots, y, values), np.square(each))


@pytest.mark.parametrize("n", [2, 4, 6, 10, 12])
def test_a_tie_is_not_broken_by_rounding(n: int) -> None:
    ballots = [np.array([1.0 if k < n // 2 else -1.0]) for k in range(n)]
    assert weighted_vote(ballots, np.full(n, 1 / n)).tolist() == [0.0]
    assert weighted_vote(ballots[::-1], np.full(n, 0.1)).tolist() == [0.0]
    several = [np.log([[0.1, 0.8, 0.1]]) if k < n // 2 else np.log([[0.8, 0.1, 0.1]]) for k in range(n)]
    assert labels(weighted_vote(several, np.full(n, 1 / n))).tolist() == [0], "the first of equals"


def test_a_unanimous_vote_is_finite_and_of_the_right_sign() -> None:
    assert weighted_vote([np.array([1.0, -1.0])], np.ones(1)) == pytest.approx([21.4, -21.4], abs=0.1)
    assert np.isfinite(log_odds(np.array([-1.0, -1e-300, 0.0, 1e-300, 1.0]))).all()
    assert np.sign(log_odds(np.array([-1.0, -1e-300, 0.0, 1e-300, 1.0]))).tolist() == [-1, -1, 0, 1, 1]
