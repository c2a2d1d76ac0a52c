"""Votes from scores, with two classes and with more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driftsurf.core.contracts import Batch, FloatArray
from driftsurf.core.state import to_bytes
from driftsurf.learners import LogisticRegression, SoftmaxRegression
from driftsurf.reproduction.strategies.aue import guessing_error, mean_squared_errors, weighted_mean
from driftsurf.strategies import AUE, DWM, Candor, LearnNSE
from driftsurf.strategies._votes import (
    labels,
    labels_of_all,
    log_odds,
    row_errors,
    squared_errors,
    true_class_share,
    weighted_vote,
)


def log_probabilities(random: np.random.Generator, n: int, k: int) -> FloatArray:
    return np.log(random.dirichlet(np.ones(k), n))


def test_scores_are_converted_to_labels_and_errors() -> None:
    assert labels(np.array([-1.0, 0.0, 2.0])).tolist() == [0, 0, 1]
    assert row_errors(np.array([-1.0, 0.0, 2.0]), np.array([0.0, 1.0, 1.0])).tolist() == [0.0, 1.0, 0.0]
    three = np.log([[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]])
    assert labels(three).tolist() == [2, 0]
    assert row_errors(three, np.array([2.0, 1.0])).tolist() == [0.0, 1.0]


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


@pytest.mark.parametrize("values", [False, True])
def test_squared_errors_of_many_models_are_those_of_each(values: bool) -> None:
    random = np.random.default_rng(3)
    y = random.integers(0, 2, 20).astype(float)
    margins, several = random.normal(size=(3, 20)), [log_probabilities(random, 20, 4) for _ in range(3)]
    kinds: list[Sequence[FloatArray]] = [list(margins)] if values else [list(margins), several]
    for ballots in kinds:
        each = [scores - y if values else 1.0 - true_class_share(scores, y) for scores in ballots]
        assert np.array_equal(squared_errors(ballots, y, values), np.square(each))


@settings(deadline=None, max_examples=40)
@given(voters=st.integers(1, 7), rows=st.integers(1, 300), seed=st.integers(0, 2**32))
def test_mean_squared_errors_are_those_of_numpy_to_the_bit(voters: int, rows: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    margins: Any = random.normal(size=(voters, rows)) * 10.0 ** random.integers(-3, 4, (voters, rows))
    y, weight = random.integers(0, 2, rows).astype(float), random.integers(0, 3, rows) * random.random(rows)
    weight[0] = 1.0
    guess, means = mean_squared_errors(margins, y, weight)
    assert guess == guessing_error(y, weight)
    assert means.tolist() == weighted_mean(squared_errors(list(margins), y, False), weight).tolist()


def test_labels_of_many_models_are_those_of_each() -> None:
    random = np.random.default_rng(4)
    kinds: list[Any] = [random.normal(size=(3, 9)), [log_probabilities(random, 9, 4) for _ in range(3)]]
    for ballots in kinds:
        assert labels_of_all(ballots).tolist() == [labels(scores).tolist() for scores in ballots]


def batches(steps: int) -> list[Batch]:
    """Return batches whose labels are inverted halfway, and whose last ones have a third class."""
    random, made = np.random.default_rng(7), []
    for step in range(steps):
        X = random.normal(size=(60, 3))
        y = ((X[:, 0] > 0.0) == (2 * step < steps)).astype(float)
        y[X[:, 1] > 1.5] += step >= steps - 2
        made.append(Batch(X, y, random.integers(0, 3, 60).astype(float)))
    return made


@pytest.mark.parametrize(
    ("kind", "learner"),
    [
        *((kind, learner) for kind in (AUE, DWM, LearnNSE) for learner in (LogisticRegression(), SoftmaxRegression())),
        (Candor, LogisticRegression()),
    ],
)
def test_a_step_is_the_same_with_the_scores_of_the_test_without_them_and_with_those_of_another_batch(
    kind: Any, learner: Any
) -> None:
    rows = batches(12)[: -2 if kind is Candor else None]  # Candor is for two classes
    options = {"period": 9} if kind is DWM else {}
    plain, tested, mixed = (kind(learner, experts=3, seed=5, **options) for _ in range(3))
    for one in (plain, tested, mixed):
        one.begin(3, sparse=False, n_classes=2)
    for place, batch in enumerate(rows):
        expected = plain.step(batch)
        assert tested.step(batch, tested.test_scores(batch)) == expected
        scores = mixed.test_scores(batch)
        mixed.test_scores(rows[place - 1])
        assert mixed.step(batch, scores) == expected
    assert to_bytes(plain.state()) == to_bytes(tested.state()) == to_bytes(mixed.state())


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
