"""The estimator of errors beside a slow version of its definition, its state, and what it does with odd input."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from driftsurf.errors import StateError
from driftsurf.session.error_estimate import (
    NARROWEST,
    PRIORS,
    WIDEST,
    ErrorEstimator,
    solved,
)
from driftsurf.session.error_tracker import BLOCK_ROWS, ErrorTracker, ResidualSizes, RowSigns


def blocks(seed: int, count: int = 60, signals: int = 3) -> tuple[Any, Any]:
    """Return signals and errors of blocks of 100 rows, with a drift in the middle."""
    random = np.random.default_rng(seed)
    level = 0.15 + 0.1 * np.sin(np.arange(count) / 7) + 0.2 * (np.arange(count) > count // 2)
    x = np.clip(level[:, None] * np.linspace(0.6, 1.1, signals) + random.normal(0, 0.03, (count, signals)), 0, 1)
    return x, random.binomial(100, np.clip(level, 0, 1)) / 100


def fitted(x: Any, y: Any, now: Any, noise: float, slope: float) -> float:
    """Weighted least squares with a ridge towards a slope, written with whole arrays."""
    weights = 0.97 ** np.arange(len(y))[::-1]
    x_mean, y_mean = np.average(x, axis=0, weights=weights), np.average(y, weights=weights)
    root = np.sqrt(weights)[:, None]
    left = np.vstack([root * (x - x_mean), np.sqrt(4 * noise) * np.eye(x.shape[1])])
    right = np.concatenate([root[:, 0] * (y - y_mean), np.sqrt(4 * noise) * np.full(x.shape[1], slope)])
    slopes = np.linalg.lstsq(left, right, rcond=None)[0]
    return float(y_mean + slopes @ (now - x_mean))


def twin(x: Any, y: Any, delay: int) -> list[float]:
    """The mixture for each block, computed from all blocks so far, without sums that are carried along."""
    found: list[float] = []
    forecasts: list[list[float]] = []
    for now in range(len(y)):
        known = max(0, now - delay + 1)
        made = [math.nan, math.nan, x[now, 0], math.nan, math.nan]
        if known:
            mean = y[:known].mean()
            noise = max(mean * (1 - mean), 0.25 / 100) / 100
            every, some = np.arange(x.shape[1]), [0, x.shape[1] - 1]
            fits = [fitted(x[:known][:, c], y[:known], x[now, c], noise, 1 / len(c)) for c in (every, some)]
            made[1:] = mean, x[now, 0], *np.clip(fits, 0, 1)
        forecasts.append(made)
        past = np.array(forecasts[:known]).reshape(known, 5)
        weights = 0.97 ** np.arange(known)[::-1][:, None] * ~np.isnan(past)
        errors = (weights * np.nan_to_num(np.square(past - y[:known, None]))).sum(axis=0)
        totals = weights.sum(axis=0)
        usual = errors.sum() / totals.sum() if known else 0.0
        sampling = (0.97 ** np.arange(known)[::-1] * y[:known] * (1 - y[:known]) / 100).sum()
        common = 0.8 * min(sampling / totals.max(), 0.9 * usual) if known else 0.0
        prior = np.array(PRIORS)
        own = prior
        if usual > 0:
            own = np.maximum((errors - totals * common + 3 * prior * (usual - common)) / (totals + 3) / usual, 0.05)
        share = np.where(np.isnan(made), 0.0, own**-4.0)
        found.append(float((share * np.nan_to_num(made)).sum() / share.sum()))
    return found


@pytest.mark.parametrize("delay", [1, 4])
@pytest.mark.parametrize("seed", [0, 1])
def test_the_mixture_is_its_definition(seed: int, delay: int) -> None:
    x, y = blocks(seed)
    estimator, found = ErrorEstimator(3), []
    for now in range(len(y)):
        if now >= delay:
            estimator.learn(now - delay, float(y[now - delay]))
        found.append(estimator.predict(now, 100, x[now].tolist()).value)  # type: ignore[union-attr]
    assert np.allclose(found, twin(x, y, delay), atol=1e-9)


def test_equations_are_solved() -> None:
    random = np.random.default_rng(0)
    for size in range(1, 5):
        A = random.normal(size=(size, size))
        A, b = A @ A.T + np.eye(size), random.normal(size=size)
        assert np.allclose(solved(np.column_stack([A, b]).tolist()), np.linalg.solve(A, b))


@pytest.mark.parametrize("regression", [False, True])
def test_nine_of_ten_intervals_hold_the_true_error(regression: bool) -> None:
    held = []
    for seed in range(5):
        x, y = blocks(seed, 400)
        estimator = ErrorEstimator(3, regression=regression)
        for now in range(len(y)):
            estimator.predict(now, 100, x[now].tolist())
            estimator.learn(now, float(y[now]))
        judged = estimator.coverage
        assert judged.judged >= 398
        held.append(judged.held / judged.judged)
        assert all(NARROWEST <= factor <= WIDEST for factor in estimator._factors)
    assert 0.88 <= np.mean(held) <= 0.93


def test_labels_at_once_bring_the_estimate_nearer_and_weights_undo_the_choice_of_rows() -> None:
    random = np.random.default_rng(0)
    off: dict[str, list[float]] = {"before": [], "after": []}
    estimator = ErrorEstimator(1)
    for block in range(200):
        expected = random.uniform(0, 0.5, 200)
        losses = (random.random(200) < np.clip(expected + random.choice([0.0, 0.3]), 0, 1)).astype(float)
        before = estimator.predict(block, 200, [float(expected.mean())])
        chances = np.clip(expected, 0.05, 1.0) * 0.6  # uncertain rows are asked for more often
        asked = random.random(200) < chances
        after = estimator.audit(block, losses[asked], expected[asked], 1.0 / chances[asked])
        assert before is not None
        assert after is not None
        assert after.audited == asked.sum()
        off["before"].append(abs(before.value - losses.mean()))
        off["after"].append(abs(after.value - losses.mean()))
        estimator.learn(block, float(losses.mean()))
    assert np.mean(off["after"]) < 0.5 * np.mean(off["before"])
    assert 0.85 < estimator.audit_coverage.held / estimator.audit_coverage.judged < 0.95


def test_a_block_that_is_not_known_changes_nothing() -> None:
    estimator = ErrorEstimator(1)
    estimator.predict(0, 100, [0.2])
    before = estimator.state()
    estimator.learn(7, 0.5)
    assert estimator.audit(7, np.ones(1), np.ones(1), np.ones(1)) is None
    after = estimator.state()
    assert all(np.array_equal(before[name], after[name], equal_nan=name == "pending") for name in before)


def tracked(regression: bool, seed: int, delay: int, size: int, count: int = 40) -> tuple[Any, list[Any]]:
    """Return rows in steps of some size, as calls of a tracker: signs, and the losses of an earlier step."""
    random = np.random.default_rng(seed)
    calls: list[Any] = []
    losses: list[Any] = []
    for step in range(count):
        values = random.normal(size=size) if regression else random.uniform(0, 0.5, size)
        apart = np.abs(random.normal(size=(size, 1 if regression else 2)))
        own = np.square(random.normal(size=size) * (1 + apart[:, 0]))
        losses.append(own if regression else (random.random(size) < values).astype(float))
        calls.append((RowSigns(values, apart), (step - delay) * size, losses[step - delay] if step >= delay else None))
    return ErrorTracker(regression), calls


@pytest.mark.parametrize("regression", [False, True])
@pytest.mark.parametrize(("delay", "size"), [(0, 7), (0, 100), (3, 100), (20, 13), (5, 60)])
def test_a_tracker_continues_exactly_from_its_state(regression: bool, delay: int, size: int) -> None:
    tracker, calls = tracked(regression, 0, delay, size)
    other = tracker
    for place, (signs, first, losses) in enumerate(calls):
        if place % 3 == 1:
            state, other = other.state(), ErrorTracker(regression)
            other.restore(state)
        for one in (tracker, other):
            one.predicted(signs)
            if losses is not None:
                one.labelled(first, losses)
        assert other.estimate == tracker.estimate
    rows = np.arange(size * len(calls))
    assert other.estimate_of(rows) == tracker.estimate_of(rows)
    if size * (len(calls) - delay) > 8 * BLOCK_ROWS:
        assert tracker.estimator is not None
        assert tracker.estimator.coverage.judged


def test_labels_in_any_order_give_the_same_estimates() -> None:
    random = np.random.default_rng(1)
    one, calls = tracked(False, 0, 0, 60)
    two, _ = tracked(False, 0, 0, 60)
    for signs, first, losses in calls:
        one.predicted(signs)
        two.predicted(signs)
        one.labelled(first, losses)
        order = random.permutation(60)
        for part in np.array_split(order, 3):
            two.labelled_rows(first + part, losses[part])
        assert one.estimate == two.estimate


def test_rows_whose_labels_were_asked_for_are_enough() -> None:
    random = np.random.default_rng(0)
    tracker = ErrorTracker(regression=False)
    for step in range(60):
        values = random.uniform(0, 0.4, 300)
        chances = np.where(random.random(300) < 0.1, 0.1, 0.0)
        tracker.predicted(RowSigns(values, None, chances))
        asked = np.flatnonzero(chances)
        tracker.labelled_rows(300 * step + asked, (random.random(len(asked)) < values[asked] + 0.2).astype(float))
    assert tracker.estimate is not None
    assert tracker.estimate.low < 0.4 < tracker.estimate.high
    assert tracker.estimate.high - tracker.estimate.low < 0.25
    assert tracker.estimate.audited > 0


def test_expected_sizes_of_numeric_errors_follow_number_and_spread() -> None:
    random = np.random.default_rng(0)
    values, spreads = random.normal(size=2_000), random.uniform(size=2_000)
    sizes = ResidualSizes()
    sizes.learn(values, spreads, np.where((values > 0) & (spreads > 0.5), 9.0, 1.0))
    found = sizes.expected(np.array([-1.0, 1.0, 1.0]), np.array([0.9, 0.1, 0.9]))
    assert found[:2] == pytest.approx(1.0, abs=0.8)
    assert found[2] > 6.0


@pytest.mark.parametrize(
    ("entry", "value"),
    [
        ("next_row", -1),
        ("past", 51),
        ("blocks", np.full((8, 3), -1)),
        ("rows", np.zeros((3, 7))),
        ("estimator.numbers", np.zeros(3)),
        ("estimator.counts", np.array([3, 2, 5, 0, 0])),
        ("estimator.pending", np.zeros((0, 3))),
    ],
)
def test_a_damaged_state_is_refused(entry: str, value: Any) -> None:
    tracker, calls = tracked(False, 0, 3, 60, count=8)
    for signs, first, losses in calls:
        tracker.predicted(signs)
        if losses is not None:
            tracker.labelled(first, losses)
    state = tracker.state()
    with pytest.raises(StateError, match=entry.rpartition(".")[2]):
        ErrorTracker(regression=False).restore(state | {entry: value})
