"""Experts that learn each row once learn natively in the step of a portfolio as they do by themselves, to the bit."""

from __future__ import annotations

import copy
import pickle
import threading
from typing import Any

import numpy as np
import pytest
from row_arrays import csr_view

from driftsurf.core.contracts import Batch
from driftsurf.core.state import to_bytes
from driftsurf.learners import LinearRegression, NaiveBayes, Perceptron, SoftmaxRegression
from driftsurf.strategies import DriftSurf, Portfolio


class OwnBayes(NaiveBayes):
    """Learns by itself, because it might learn in another way."""

    def learn(self, *given: Any) -> Any:
        return super().learn(*given)


class OwnPerceptron(Perceptron):
    """Learns by itself, because it might learn in another way."""

    def learn(self, *given: Any) -> Any:
        return super().learn(*given)


OwnBayes.__name__, OwnPerceptron.__name__ = NaiveBayes.__name__, Perceptron.__name__  # states name the learner


def begun(K: int, *, native: bool, sparse: bool = False) -> Any:
    bayes, network = (NaiveBayes, Perceptron) if native else (OwnBayes, OwnPerceptron)
    learner: Any = SoftmaxRegression() if K else LinearRegression()
    experts = [DriftSurf(learner), network(task="classification" if K else "regression", hidden=4, passes=2.5)]
    strategy = Portfolio(learner, experts=[*experts, bayes()] if K else experts, seed=3)
    strategy.begin(3, sparse=sparse, n_classes=K)
    return strategy


def batches(K: int, steps: int = 40, *, sparse: bool = False, grows: bool = True) -> list[Batch]:
    random = np.random.default_rng(7)
    found = []
    for step in range(steps):
        n = int(random.choice([1, 1, 2, 12, 45]))
        X = random.normal(size=(n, 3))
        weight: Any = random.integers(0, 2, n) * 1.0 if step % 5 == 4 else np.ones(n)
        y: Any = X[:, 0] * 3.0 + 7.0 if not K else random.integers(0, K + 2 if grows and step > 25 else K, n) * 1.0
        found.append(Batch(csr_view(X) if sparse else X, y, weight))
    return found


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("K", [0, 2, 3])
def test_both_ways_have_the_same_decisions_and_states(K: int, sparse: bool) -> None:
    one, other = (begun(K, native=native, sparse=sparse) for native in (True, False))
    assert any(each is not None for each in one._live.online) is not sparse  # CSR rows are learned one by one
    assert not any(each is not None for each in other._live.online)
    for step, batch in enumerate(batches(K, sparse=sparse)):
        assert np.array_equal(one.scores(batch.X), other.scores(batch.X))
        assert repr(one.step(batch)) == repr(other.step(batch))  # a risk without weight is NaN
        if step == 20:
            assert one.reset("asked") == other.reset("asked")
        if step % 7 == 0:
            assert to_bytes(one.state()) == to_bytes(other.state())
    assert to_bytes(one.state()) == to_bytes(other.state())


@pytest.mark.parametrize("K", [0, 2])
def test_a_step_can_be_taken_back_also_after_somebody_looked_at_the_experts(K: int) -> None:
    strategy, spared = (begun(K, native=True) for _ in range(2))
    for step, batch in enumerate(batches(K)):
        before, mark = to_bytes(strategy.state()), strategy.mark()
        strategy.reset("asked") if step % 3 == 0 else strategy.step(batch)
        if step % 2:
            assert strategy._experts  # they know of the step now
        strategy.put_back(mark)
        assert to_bytes(strategy.state()) == before
        assert repr(strategy.step(batch)) == repr(spared.step(batch))
    assert to_bytes(strategy.state()) == to_bytes(spared.state())


def test_copies_learn_on_as_the_original_does() -> None:
    stream = batches(2)
    strategy = begun(2, native=True)
    for batch in stream[:10]:
        strategy.step(batch)
    others = [copy.deepcopy(strategy), pickle.loads(pickle.dumps(strategy))]
    for batch in stream[10:]:
        decision = repr(strategy.step(batch))
        assert [repr(one.step(batch)) for one in others] == [decision] * 2
    assert {to_bytes(one.state()) for one in others} == {to_bytes(strategy.state())}


def test_a_scorer_stays_as_it_was_and_threads_predict_beside_learning() -> None:
    stream = batches(2, 300, grows=False)
    strategy = begun(2, native=True)
    for batch in stream[:5]:
        strategy.step(batch)
    X = np.random.default_rng(0).normal(size=(4, 3))
    scorer, known, ended, seen = strategy.scorer(), strategy.scores(X), threading.Event(), list[Any]()

    def predict() -> None:
        while not ended.is_set():
            found = strategy.scorer()(X)
            seen.append(np.isfinite(found).all() and np.array_equal(scorer(X), known))

    threads = [threading.Thread(target=predict) for _ in range(2)]
    for thread in threads:
        thread.start()
    for batch in stream[5:]:
        strategy.step(batch)
    ended.set()
    for thread in threads:
        thread.join()
    assert seen
    assert all(seen)
