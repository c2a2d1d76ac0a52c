"""Intervals of predicted numbers: their coverage under drift, what they follow from, and what is saved."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from benchmarks.everyday import EVERYDAY_NUMBERS

from driftsurf import DriftSurfRegressor, PortfolioClassifier, PortfolioRegressor, recommended
from driftsurf.core.contracts import Batch
from driftsurf.errors import CapabilityError, OptionError, StateError
from driftsurf.learners import LinearRegression, LogisticRegression
from driftsurf.strategies import Portfolio
from driftsurf.strategies._residuals import COVERAGES, MOST, Residuals


def test_the_share_moves_by_what_was_missed_and_the_interval_reaches_to_that_quantile() -> None:
    random, known = np.random.default_rng(0), Residuals.of_nothing()
    last, beyond = list[float](), list(1.0 - COVERAGES)
    for size in (1, 40, 300, 7, 1, 1, 400):
        sizes = np.abs(random.normal(size=size))
        if last:
            for place, share in enumerate(beyond):
                rank = int(np.ceil((1.0 - share) * (len(last) + 1)))
                width = sorted(last)[rank - 1] if rank <= len(last) else max(last) * (1.0 + 4.0 * max(0.0, -share))
                missed = np.mean(sizes > width)
                beyond[place] += min(0.005 * size, 0.5) * (1.0 - COVERAGES[place] - missed)
        last = [*last, *sizes][-MOST:]
        known = known.with_errors(sizes)
        np.testing.assert_allclose(known.beyond, beyond, rtol=1e-12)
    assert known.sizes.tolist() == last
    assert known.with_errors(np.zeros(0)) is known
    widths = [known.width(coverage) for coverage in (0.1, 0.5, 0.7, 0.9, 0.97, 0.99, 0.999)]
    assert widths == sorted(widths)


@pytest.mark.parametrize("name", EVERYDAY_NUMBERS)
@pytest.mark.parametrize("size", [40, 200])
def test_nine_of_ten_numbers_are_inside_under_drift(name: str, size: int) -> None:
    X, y = EVERYDAY_NUMBERS[name](21, 3_000)
    model, inside = recommended("light", task="regression", random_state=0), list[Any]()
    model.set_drift_monitor(enabled=False)
    for start in range(0, len(y), size):
        rows = slice(start, start + size)
        if start >= 400:
            low, high = model.predict_interval(X[rows]).T
            np.testing.assert_allclose((low + high) / 2.0, model.predict(X[rows]))
            inside.append((low <= y[rows]) & (y[rows] <= high))
        model.partial_fit(X[rows], y[rows])
    assert 0.88 <= np.mean(np.concatenate(inside)) <= 0.92


def test_they_grow_where_errors_do() -> None:
    random, known = np.random.default_rng(1), Residuals.of_nothing()
    for _ in range(400):
        known = known.with_errors(np.abs(random.normal(size=1)))
    calm = known.width(0.9)
    misses = 0
    for _ in range(300):
        size = np.abs(10.0 * random.normal(size=1))
        misses += size[0] > known.width(0.9)
        known = known.with_errors(size)
    assert known.width(0.9) > 5.0 * calm
    assert misses < 90


def test_they_are_saved_and_belong_to_portfolios_of_numbers() -> None:
    X = np.random.default_rng(0).normal(size=(600, 2))
    y = X[:, 0] - X[:, 1]
    model = PortfolioRegressor(experts=[LinearRegression()], random_state=0)
    model.partial_fit(X[:100], y[:100])
    assert model.predict_interval(X[:1]).tolist() == [[-np.inf, np.inf]]  # nothing was predicted before it was learned
    for start in range(100, 600, 100):
        model.partial_fit(X[start : start + 100], y[start : start + 100])
    again = PortfolioRegressor.from_bytes(model.to_bytes())
    assert np.array_equal(again.predict_interval(X, 0.95), model.predict_interval(X, 0.95))
    for bad in (0.0, 1.0, "0.9"):
        with pytest.raises(OptionError, match="coverage"):
            model.predict_interval(X, bad)  # type: ignore[arg-type]
    assert not hasattr(DriftSurfRegressor(), "predict_interval")
    assert not hasattr(PortfolioClassifier(), "predict_interval")


def test_a_strategy_for_classes_and_damaged_states_are_refused() -> None:
    strategy = Portfolio(LinearRegression(), experts=[LinearRegression()])
    strategy.begin(1, sparse=False, n_classes=0)
    X = np.linspace(-1.0, 1.0, 20)[:, None]
    for _ in range(3):
        strategy.step(Batch(X, X[:, 0], np.ones(20)))
    state = strategy.state()
    for name, bad in {"residuals.sizes": -np.ones(3), "residuals.beyond": np.full(5, 2.0)}.items():
        with pytest.raises(StateError) as caught:
            Portfolio(LinearRegression(), experts=[LinearRegression()]).restore(
                state | {name: bad}, 1, sparse=False, n_classes=0
            )
        assert caught.value.entry == name
    older = Portfolio(LinearRegression(), experts=[LinearRegression()])
    kept = {name: value for name, value in state.items() if not name.startswith("residuals.")}
    older.restore(kept, 1, sparse=False, n_classes=0)  # version 0.2 had none
    assert older.half_width(0.9, older.scorer()) == np.inf
    classes = _classes()
    with pytest.raises(CapabilityError, match="classes"):
        classes.half_width(0.9, classes.scorer())


def _classes() -> Portfolio:
    strategy = Portfolio(LogisticRegression(), experts=[LogisticRegression()])
    strategy.begin(1, sparse=False, n_classes=2)
    return strategy
