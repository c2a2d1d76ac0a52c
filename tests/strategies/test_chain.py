"""What the last label says: where labels come in runs, rows one at a time, and what is saved."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from driftsurf import PortfolioClassifier
from driftsurf.core.contracts import Batch
from driftsurf.errors import StateError
from driftsurf.learners import NaiveBayes, SoftmaxRegression
from driftsurf.strategies import Portfolio
from driftsurf.strategies._chain import FEW, MOST_CLASSES, Chain


def learned(labels: Any, n_classes: int = 2, size: int = 1) -> Chain:
    chain = Chain.of(n_classes)
    for first in range(0, len(labels), size):
        y = np.asarray(labels[first : first + size], float)
        chain = chain.after(y, np.ones(len(y)), n_classes)
    return chain


def test_it_counts_what_came_after_each_label() -> None:
    chain = learned([0, 0, 1, 2, 0, 0, 1, 2, 0, 0, 1], 3)
    assert chain.last == 1
    assert chain.counts.round(1).tolist() == [[3.0, 3.0, 0.0], [0.0, 0.0, 2.0], [2.0, 0.0, 0.0]]
    shares = np.exp(chain.scores(1, 3)[0])
    assert shares.sum() == pytest.approx(1.0)
    assert shares.argmax() == 2
    assert chain.after(np.array([0.0]), np.zeros(1), 3) is chain


def test_it_says_nothing_about_large_batches_nor_before_it_knows_a_label() -> None:
    for scores in (
        Chain.of(2).scores(1, 2),
        learned([0, 1] * 20).scores(FEW, 2),
        learned([0, 1] * 40, 2, 40).scores(1, 2),
    ):
        assert np.array_equal(scores, np.full(scores.shape, np.log(0.5)))


def test_classes_that_come_later_and_too_many_of_them() -> None:
    chain = learned([0, 1, 0, 1, 0])
    assert np.exp(chain.scores(2, 3)).sum(axis=1) == pytest.approx([1.0, 1.0])
    chain = chain.after(np.array([2.0]), np.ones(1), 3)
    assert chain.counts.shape == (3, 3)
    many = learned([0, 1, 0], MOST_CLASSES + 1)
    assert many.counts.shape == (0, 0)
    assert np.ptp(many.scores(1, MOST_CLASSES + 1)) == 0.0


def runs(rows: int) -> tuple[Any, Any]:
    random = np.random.default_rng(0)
    y = np.cumsum(random.random(rows) < 0.05) % 2
    return random.normal(size=(rows, 2)), y


def test_labels_in_runs_are_predicted_one_row_at_a_time() -> None:
    X, y = runs(600)
    model = PortfolioClassifier(SoftmaxRegression(), experts=[SoftmaxRegression(), NaiveBayes()], random_state=0)
    wrong = [model.test_then_train(X[row : row + 1], y[row : row + 1])[0] != y[row] for row in range(600)]
    assert np.mean(wrong[200:]) < 0.08


def begun() -> Any:
    strategy = Portfolio(SoftmaxRegression(), experts=[SoftmaxRegression(), NaiveBayes()], seed=1)
    strategy.begin(2, sparse=False, n_classes=2)
    return strategy


def test_it_is_saved_and_a_state_without_it_goes_on() -> None:
    strategy, again, older, twin = begun(), begun(), begun(), begun()
    X, y = runs(400)
    rows = [Batch(X[row : row + 1], y[row : row + 1].astype(float), np.ones(1)) for row in range(80)]
    for one in rows[:60]:
        decision = strategy.step(one)
    assert sum(model.weight for model in decision.models) == pytest.approx(1.0)
    state = strategy.state()
    again.restore(state, 2, sparse=False, n_classes=2)
    for one in rows[60:]:
        assert strategy.step(one) == again.step(one)
    # Version 0.2 had no chain, and a batch of one row counted as one of a hundred.
    new = (name for name in begun().state() if name == "whole" or name.startswith("chain"))
    before = begun().state() | {"mixer.weights": np.array([0.5, 0.5, 0.0, 0.0]), "mixer.precision": 10.0 * np.eye(4)}
    for name in new:
        del before[name]
    older.restore(before, 2, sparse=False, n_classes=2)
    for one in rows:
        older.step(one)
    assert older.state().keys() - {"whole"} == before.keys()
    twin.restore(older.state(), 2, sparse=False, n_classes=2)
    assert np.array_equal(twin.scores(X), older.scores(X))
    older.reset("anew")
    assert older.state().keys() == state.keys()
    for name, bad in {"chain.last": 2, "chain.counts": -np.ones((2, 2)), "whole": 0}.items():
        with pytest.raises(StateError) as caught:
            begun().restore(state | {name: bad}, 2, sparse=False, n_classes=2)
        assert caught.value.entry == name
    with pytest.raises(StateError):
        begun().restore(state | {"chain.counts": np.ones((3, 3))}, 2, sparse=False, n_classes=2)


def test_large_batches_are_mixed_as_without_it() -> None:
    X, y = runs(2_000)
    strategy = begun()
    for first in range(0, 2_000, 100):
        strategy.step(Batch(X[first : first + 100], y[first : first + 100].astype(float), np.ones(100)))
    weights = strategy._live.mixer.weights
    assert weights[[2, 5]].tolist() == [0.0, 0.0]
    assert weights.max() > 0.0
