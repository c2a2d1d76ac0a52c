"""A portfolio that takes a row in one call does what it does step by step."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

from driftsurf import PortfolioClassifier, PortfolioRegressor
from driftsurf.core.contracts import Batch
from driftsurf.core.state import to_bytes
from driftsurf.learners import LogisticRegression, NaiveBayes, SoftmaxRegression
from driftsurf.strategies import Candor, Portfolio
from driftsurf.strategies._base import PooledStrategy


def rows(count: int, seed: int = 0) -> tuple[Any, Any]:
    random = np.random.default_rng(seed)
    X = random.standard_t(3, size=(count, 4))  # some values are extreme, and their rows go the other way
    return X, (X[:, 0] * X[:, 1] > 0).astype(int)


@pytest.fixture
def took(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Return a list that receives whether each row was taken in one call."""
    found: list[bool] = []

    def take(self: Any, *arguments: Any, known: Any = Portfolio.observe, **options: Any) -> Any:
        taken = known(self, *arguments, **options)
        found.append(taken is not None)
        return taken

    monkeypatch.setattr(Portfolio, "observe", take)
    return found


@pytest.mark.parametrize("size", [1, 3])
def test_classes(size: int, took: list[bool]) -> None:
    X, y = rows(300)
    names = np.array(["no", "yes"])[y]
    one, other = (PortfolioClassifier(experts="light", random_state=0) for _ in range(2))
    for first in range(0, 300, size):
        part = slice(first, first + size)
        predicted = one.test_then_train(X[part], y[part])
        expected = other.test_then_train(X[part], names[part])  # text is read row by row
        if first:
            assert np.array_equal(np.array(["no", "yes"])[predicted], expected)
    assert np.mean(took) > 0.5
    assert not all(took)
    assert np.array_equal(one.predict_proba(X), other.predict_proba(X))
    for mine, theirs in zip(one.journal_, other.journal_, strict=True):
        assert mine.models == theirs.models
        assert mine.others == theirs.others
        assert len(mine.transitions) == len(theirs.transitions)
    assert len(one.journal_.transitions) == len(other.journal_.transitions) > 0


def test_numbers(took: list[bool]) -> None:
    X, _ = rows(150)
    z = X[:, 0] + np.abs(X[:, 1])
    one, other = (PortfolioRegressor(experts="light", random_state=0) for _ in range(2))
    for row in range(150):
        part = slice(row, row + 1)
        assert one.test_then_train(X[part], z[part]) == other.test_then_train(X[part], list(z[part]))
    assert any(took)
    assert [repr(mine) for mine in one.journal_] == [repr(theirs) for theirs in other.journal_]


def test_a_row_that_fails_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = rows(40)
    model, spared = (PortfolioClassifier(experts="light", random_state=0) for _ in range(2))
    for row in range(30):
        for one in (model, spared):
            one.test_then_train(X[row : row + 1], y[row : row + 1])
    with monkeypatch.context() as patch:
        patch.setattr(Portfolio, "_publish", lambda self, live: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            model.test_then_train(X[30:31], y[30:31])
    for row in range(30, 40):
        found, expected = (one.test_then_train(X[row : row + 1], y[row : row + 1]) for one in (model, spared))
        assert np.array_equal(found, expected)
    assert len(model.journal_) == len(spared.journal_) == 40


def test_large_batches_and_bad_values_go_step_by_step() -> None:
    X, y = rows(200)
    model = PortfolioClassifier(experts="light", random_state=0)
    model.partial_fit(X[:100], y[:100])
    with pytest.raises(ValueError, match=r"NaN|finite|missing"):
        model.partial_fit(np.full((1, 4), np.nan), y[:1])
    model.partial_fit(X[100:], y[100:])
    assert [decision.rows for decision in model.journal_] == [100, 100]


def test_rows_that_were_predicted_before_are_learned_with_those_scores() -> None:
    X, y = rows(60)
    one, other = (Portfolio(SoftmaxRegression(), experts="light", seed=0) for _ in range(2))
    for strategy in (one, other):
        strategy.begin(4, sparse=False, n_classes=2)
    for row in range(60):
        batch = Batch(X[row : row + 1], y[row : row + 1] * 1.0, np.ones(1))
        predicted = one.scores(X[row : row + 1].copy())
        one.scores(X[:40])  # their scores are not remembered
        with pytest.MonkeyPatch.context() as patch:
            patch.delattr(PooledStrategy, "test_scores")
            tested = one.test_scores(batch)
        assert np.array_equal(tested, predicted)
        predicted[:] = np.nan  # they belong to the caller
        assert one.step(batch, tested).models == other.step(batch, other.test_scores(batch)).models
    assert to_bytes(one.state()) == to_bytes(other.state())
    one.scores(X[:1])
    assert not np.array_equal(one.test_scores(Batch(X[1:2], y[1:2] * 1.0, np.ones(1))), one.scores(X[:1]))


def test_an_expert_that_is_tested_with_the_labels_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = rows(20)
    strategy = Portfolio(LogisticRegression(), experts=[Candor(LogisticRegression()), NaiveBayes()])
    strategy.begin(4, sparse=False, n_classes=2)
    batch, seen = Batch(X, y * 1.0, np.ones(20)), []
    strategy.step(batch)
    strategy.scores(X)

    def ask(self: Any, batch: Batch, known: Any = Candor.test_scores) -> Any:
        seen.append(batch)
        return known(self, batch)

    monkeypatch.setattr(Candor, "test_scores", ask)
    strategy.test_scores(batch)
    assert seen == [batch]


@pytest.mark.parametrize("again", [copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))], ids=["copy", "pickle"])
def test_a_model_that_has_just_predicted_can_be_copied(again: Any) -> None:
    X, y = rows(60)
    one = PortfolioClassifier(LogisticRegression()).partial_fit(X[:50], y[:50])
    one.predict(X[50:51])
    np.testing.assert_array_equal(again(one).predict_proba(X[51:]), one.predict_proba(X[51:]))
