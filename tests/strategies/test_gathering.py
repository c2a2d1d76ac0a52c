"""Small batches are gathered for the DriftSurf experts of a portfolio, which learn them together."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
from row_arrays import csr_view

from driftsurf.core.contracts import Batch
from driftsurf.core.state import to_bytes
from driftsurf.errors import StateError
from driftsurf.learners import LinearRegression, NaiveBayes, Perceptron, SoftmaxRegression
from driftsurf.strategies import DriftSurf, Portfolio
from driftsurf.strategies._experts import MOST, SMALL


def begun(*, sparse: bool = False, numbers: bool = False) -> Any:
    learner: Any = LinearRegression() if numbers else SoftmaxRegression()
    experts = [DriftSurf(learner, judge="prequential"), DriftSurf(learner, judge="training"), learner]
    strategy = Portfolio(learner, experts=experts if numbers else [*experts, NaiveBayes()], seed=1)
    strategy.begin(3, sparse=sparse, n_classes=0 if numbers else 2)
    return strategy


def batches(count: int, size: int = 1, *, sparse: bool = False, numbers: bool = False, seed: int = 0) -> list[Batch]:
    random, made = np.random.default_rng(seed), []
    for place in range(count):
        X = random.normal(size=(size, 3))
        y = X[:, 0] * 2.0 if numbers else ((X[:, 0] > 0) == (2 * place < count)) * 1.0
        made.append(Batch(csr_view(X) if sparse else X, y, np.ones(size)))
    return made


def steps_of(strategy: Any) -> list[int]:
    return [expert._live.step for expert in strategy._experts]


def test_rows_are_learned_together_and_large_batches_with_them() -> None:
    strategy, rows, steps = begun(), batches(100), []
    for batch in rows:
        strategy.step(batch)
        steps.append(steps_of(strategy)[0])
    first = [steps.index(step) + 1 for step in range(1, max(steps) + 1)]
    assert first == [1, 1 + SMALL, 18, 36, 36 + MOST, 36 + 2 * MOST]
    assert steps_of(strategy) == [6, 6, 100, 100]
    assert [expert._pool.samples.next_row for expert in strategy._experts] == [94, 94, 100, 100]
    strategy.step(*batches(1, MOST))
    assert steps_of(strategy) == [7, 7, 101, 101]
    assert len(strategy._waiting) == 0
    assert [expert._pool.samples.next_row for expert in strategy._experts] == [100 + MOST] * 4
    strategy.step(batches(1)[0])
    strategy.reset("asked for")
    assert len(strategy._waiting) == 0
    strategy.step(batches(1)[0])
    assert steps_of(strategy)[0] == 8


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("numbers", [False, True])
def test_saved_in_the_middle_it_goes_on_as_it_did(sparse: bool, numbers: bool) -> None:
    strategy, rows = begun(sparse=sparse, numbers=numbers), batches(140, sparse=sparse, numbers=numbers)
    for batch in rows[:75]:
        strategy.step(batch)
    again = begun(sparse=sparse, numbers=numbers)
    again.restore(copy.deepcopy(strategy.state()), 3, sparse=sparse, n_classes=0 if numbers else 2)
    copied = copy.deepcopy(strategy)
    for batch in rows[75:]:
        decisions = [one.step(batch, one.test_scores(batch)) for one in (strategy, again, copied)]
        assert decisions[0] == decisions[1] == decisions[2]
    assert to_bytes(strategy.state()) == to_bytes(again.state()) == to_bytes(copied.state())


def test_a_step_that_fails_leaves_the_gathered_rows_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    strategy, rows = begun(), batches(80)
    for batch in rows[:70]:
        before = to_bytes(strategy.state())
        with monkeypatch.context() as patch:
            patch.setattr(Portfolio, "_publish", lambda *_: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                strategy.step(batch)
        assert to_bytes(strategy.state()) == before
        mark = strategy.mark()
        strategy.step(batch)
        after = to_bytes(strategy.state())
        strategy.put_back(mark)
        assert to_bytes(strategy.state()) == before
        strategy.step(batch)
        assert to_bytes(strategy.state()) == after


def test_waiting_rows_of_another_shape_are_refused() -> None:
    strategy = begun()
    for batch in batches(5):
        strategy.step(batch)
    state = strategy.state()
    assert len(state["waiting.y"]) == 4
    for changed in ({"waiting.y": np.full(4, 2.0)}, {"waiting.y": np.ones(3)}, {"waiting.n_features": 4}):
        with pytest.raises(StateError):
            begun().restore(state | changed, 3, sparse=False, n_classes=2)
    old = {
        name: value for name, value in state.items() if not name.startswith(("waiting.", "chain.", "blend.", "whole"))
    }
    older = begun()
    older.restore(old, 3, sparse=False, n_classes=2)  # version 0.2 learned each row on arrival
    older.step(*batches(1))
    assert steps_of(older) == [2, 2, 6, 6]


def test_noisy_labels_are_learned_as_well_one_row_at_a_time() -> None:
    random = np.random.default_rng(3)
    X: Any = random.normal(size=(1500, 4))
    y = ((X[:, 0] > X[:, 1]) ^ (random.random(1500) < 0.25)) * 1.0
    wrong = []
    for size, whole in ((1, 100), (100, 100), (1, 1)):
        learner = SoftmaxRegression()
        strategy = Portfolio(learner, experts=[DriftSurf(learner, judge="prequential"), Perceptron(hidden=8)], seed=0)
        strategy.begin(4, sparse=False, n_classes=2)
        strategy._publish(strategy._live.replaced(whole=whole))
        wrong.append(0)
        for start in range(0, 1500, size):
            batch = Batch(X[start : start + size], y[start : start + size], np.ones(size))
            wrong[-1] += int((strategy.test_scores(batch).argmax(axis=1) != batch.y).sum()) if start >= 500 else 0
            strategy.step(batch)
    assert wrong[0] < 1.1 * wrong[1] < wrong[2], "without gathering it is worse"
