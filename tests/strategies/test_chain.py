"""What the last label says: where labels come in runs, rows one at a time, and what is saved."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from benchmarks.everyday import EVERYDAY

from driftsurf import DriftSurfClassifier, PortfolioClassifier, recommended
from driftsurf.core.contracts import Batch
from driftsurf.core.state import nest
from driftsurf.errors import StateError
from driftsurf.estimators import ObliviousClassifier
from driftsurf.evaluation.ranks import resampled_means
from driftsurf.learners import LinearRegression, NaiveBayes, Perceptron, SoftmaxRegression
from driftsurf.native.portfolio import FEW, LEAD, MOST_CLASSES, Chain, Last, Mixer
from driftsurf.strategies import Portfolio
from driftsurf.strategies._experts import MOST
from driftsurf.strategies._mixing import LONGEST, MEMORIES, TRAIL, Trail, mixing_from


def learned(labels: Any, n_classes: int = 2, size: int = 1) -> Chain:
    chain = Chain.of(n_classes)
    for first in range(0, len(labels), size):
        y = np.asarray(labels[first : first + size], float)
        chain = chain.after(y, np.ones(len(y)), n_classes, 0.9)
    return chain


def said(chain: Chain, rows: int, n_classes: int) -> Any:
    scores = chain.forecast(rows, n_classes)
    assert scores is not None
    return scores


def test_it_counts_what_came_after_each_label() -> None:
    chain = learned([0, 0, 1, 2, 0, 0, 1, 2, 0, 0, 1], 3)
    assert chain.last == 1
    assert chain.counts.round(1).tolist() == [[3.0, 3.0, 0.0], [0.0, 0.0, 2.0], [2.0, 0.0, 0.0]]
    shares = np.exp(said(chain, 1, 3)[0])
    assert shares.sum() == pytest.approx(1.0)
    assert shares.argmax() == 2
    assert chain.after(np.array([0.0]), np.zeros(1), 3, 0.9) is chain


def test_it_says_nothing_about_large_batches_nor_before_it_knows_a_label() -> None:
    assert Chain.of(2).forecast(1, 2) is None
    assert learned([0, 1] * 20).forecast(FEW, 2) is None
    alone = learned([0, 1] * 40, 2, 40).forecast(1, 2)  # no small batch was counted
    assert alone is not None
    assert np.array_equal(alone, np.full(alone.shape, np.log(0.5)))


def test_the_recent_rate_speaks_while_it_is_better_than_the_shares_of_all_labels() -> None:
    mixed = learned(np.random.default_rng(0).integers(0, 2, 2_000), 2, 50)
    assert mixed.lead < LEAD
    runs = learned(np.arange(2_000) // 200 % 2, 2, 50)
    assert runs.lead > LEAD
    shares = np.exp(said(runs, 50, 2))
    assert shares[0].argmax() == 1
    assert shares.sum(axis=1) == pytest.approx(np.ones(50))
    for _ in range(30):
        runs = runs.after(np.array([0.0, 1.0] * 25), np.ones(50), 2, 0.9)
    assert runs.lead < LEAD
    assert runs.forecast(50, 2) is None


def test_classes_that_come_later_and_too_many_of_them() -> None:
    chain = learned([0, 1, 0, 1, 0])
    assert np.exp(said(chain, 2, 3)).sum(axis=1) == pytest.approx([1.0, 1.0])
    chain = chain.after(np.array([2.0]), np.ones(1), 3, 0.9)
    assert (chain.counts.shape, chain.rates.shape) == ((3, 3), (2, 3))
    many = learned([0, 1, 0], MOST_CLASSES + 1)
    assert many.counts.shape == (0, 0)
    assert many.forecast(1, MOST_CLASSES + 1) is None


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
    new = (name for name in begun().state() if name == "whole" or name.startswith("chain."))
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
    assert older.state().keys() == begun().state().keys()
    for name, bad in {
        "chain.last": 2,
        "chain.counts": -np.ones((2, 2)),
        "chain.rates": -np.ones((2, 2)),
        "chain.lead": np.inf,
        "whole": 0,
    }.items():
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
    assert strategy._live.blend is None
    assert strategy._live.mixer.weights.max() > 0.0


def test_the_last_label_is_not_trusted_where_labels_are_late() -> None:
    X, y = runs(800)
    codes = y.astype(float)
    at_once, late = begun(), begun()
    late.expect_late_labels()
    for row in range(400):
        one = Batch(X[row : row + 1], codes[row : row + 1], np.ones(1))
        at_once.scores(one.X)
        at_once.step(one)
        late.scores(X[row + 400 : row + 401])
        late.step(one)
    # What is predicted changes nothing that is learned.
    assert_same_state(at_once.state(), late.state())
    after, last = X[400:401], int(codes[399])
    assert at_once.scores(after)[0].argmax() == last
    assert np.exp(at_once.scores(after)).max() > 0.8
    assert np.exp(late.scores(after)).max() < 0.8
    for expected in (at_once, late):
        restored = begun()
        if expected is late:
            restored.expect_late_labels()
        restored.restore(late.state(), 2, sparse=False, n_classes=2)
        assert np.array_equal(restored.scores(after), expected.scores(after))


def test_what_is_predicted_changes_no_later_prediction() -> None:
    X, y = runs(300)
    one, other = (recommended("light", random_state=0) for _ in range(2))
    for row in range(0, 250, 5):
        rows = slice(row, row + 5)
        if row:
            other.predict(X[row + 5 : row + 45])
        one.partial_fit(X[rows], y[rows])
        other.partial_fit(X[rows], y[rows])
    assert_same_state(one._session.state(), other._session.state())
    assert np.array_equal(one.predict_proba(X[250:]), other.predict_proba(X[250:]))
    again = pickle.loads(pickle.dumps(other))
    assert np.array_equal(again.predict_proba(X[250:]), other.predict_proba(X[250:]))


def assert_same_state(one: Any, other: Any) -> None:
    assert one.keys() == other.keys()
    for name, value in one.items():
        assert np.asarray(value).tobytes() == np.asarray(other[name]).tobytes(), name


def told() -> Any:
    return recommended("light", random_state=0)


def collecting() -> Any:
    return DriftSurfClassifier(batch_size=100, random_state=0)


def never_replaced() -> Any:
    return ObliviousClassifier(random_state=0)


@pytest.mark.parametrize(
    ("name", "make"),
    [("plant", told), ("rain", told), ("plant", collecting), ("plant", never_replaced), ("rain", never_replaced)],
)
def test_the_size_of_calls_does_not_matter_where_labels_come_late(name: str, make: Callable[[], Any]) -> None:
    X, y = EVERYDAY[name](1, 2_400)
    late, wrong = 200, list[Any]()
    for size in (100, 10, 1):
        model = make().set_drift_monitor(enabled=False)
        found = np.zeros(len(y))
        model.partial_fit(X[:100], y[:100])  # until then there is nothing to predict with
        model._session.expect_late_labels()
        for start in range(late + 100, len(y), size):
            rows, learned = slice(start, start + size), slice(start - late, start - late + size)
            found[rows] = model.predict(X[rows]) != y[rows]
            model.partial_fit(X[learned], y[learned])
        wrong.append(found[late + 100 :].reshape(-1, 50).mean(axis=1)[None])
    means = resampled_means(wrong)
    error = means[:, 0].std()
    for other in wrong[1:]:
        assert abs(other.mean() - wrong[0].mean()) < error
        assert make is not collecting or np.array_equal(other, wrong[0])  # its steps are the same


def numbers() -> Any:
    experts = [LinearRegression(), Perceptron(task="regression", hidden=8)]
    strategy = Portfolio(LinearRegression(), experts=experts, seed=1)
    strategy.begin(1, sparse=False, n_classes=0)
    return strategy


def test_the_last_number_is_a_part_of_the_mixture_one_row_at_a_time() -> None:
    random = np.random.default_rng(0)
    X, y = random.normal(size=(500, 1)), np.cumsum(random.normal(size=500))  # it wanders, whatever X is
    strategy, errors = numbers(), list[float]()
    for row in range(500):
        one = Batch(X[row : row + 1], y[row : row + 1], np.ones(1))
        tested = strategy.test_scores(one)
        errors.append(abs(float(tested[0] - y[row])))
        strategy.step(one, tested)
    repeated = np.abs(np.diff(y))
    assert np.mean(errors[100:]) < 1.1 * repeated[99:].mean()
    again = numbers()
    again.restore(strategy.state(), 1, sparse=False, n_classes=0)
    assert np.array_equal(again.scores(X[:5]), strategy.scores(X[:5]))
    assert np.isfinite(strategy.scores(X[:FEW])).all()
    strategy.expect_late_labels()
    assert np.array_equal(strategy.scores(X[:5]), strategy._live.mixer.mixed_values(together(strategy, X[:5])))
    for name, bad in {"chain.value": np.nan, "blend.weights": -np.ones(3)}.items():
        with pytest.raises(StateError) as caught:
            numbers().restore(strategy.state() | {name: bad}, 1, sparse=False, n_classes=0)
        assert caught.value.entry == name


def together(strategy: Any, X: Any) -> Any:
    return np.stack([expert.scores(X) for expert in strategy._experts], axis=1)


def test_a_last_number_is_known_from_rows_with_weight_for_small_batches() -> None:
    mixer = nest("mixer", Mixer.of(2, 10.0, votes=False).state())
    last = Last().after(np.array([3.0, 5.0, 7.0]), np.array([1.0, 1.0, 0.0]), 0, 0.9)
    assert Last().forecast(1, 0) is None
    assert last.forecast(2, 0).tolist() == [5.0, 5.0]  # type: ignore[union-attr]
    assert last.forecast(FEW, 0) is None
    assert last.after(np.ones(1), np.zeros(1), 0, 0.9) is last
    assert mixing_from(nest("chain", last.state()) | mixer, 2, 0)["chain"].value == 5.0


def columns_of(y: Any) -> list[float]:
    """Return the columns of a trail after these targets, computed from all of them."""
    last = [*np.asarray(y)[::-1][:3], 0.0, 0.0, 0.0][:3]
    weights = [0.5 ** (np.arange(len(y))[::-1] / memory) for memory in MEMORIES]
    return [*last, *(float(one @ y / one.sum()) if len(y) else 0.0 for one in weights)]


def test_a_trail_has_the_last_targets_and_means_of_earlier_ones() -> None:
    y, X = np.random.default_rng(0).normal(size=40), np.arange(80.0).reshape(40, 2)
    trail, expected = Trail(), [columns_of(y[:count]) for count in range(41)]
    for count in range(40):
        assert trail.columns == pytest.approx(expected[count])
        trail = trail.after(y[count : count + 1])
    assert trail == Trail().after(y)
    assert np.array_equal(Trail().along(X, y)[:, :2], X)
    assert Trail().along(X, y)[:, 2:] == pytest.approx(np.array(expected[:40]))
    assert trail.beside(X)[:, 2:] == pytest.approx(np.tile(expected[40], (40, 1)))
    long = np.random.default_rng(1).normal(size=3 * LONGEST)
    assert Trail().after(long).columns == pytest.approx(columns_of(long), abs=1e-2)
    assert Trail.from_state(trail.state()) == trail
    with pytest.raises(StateError, match="masses"):
        Trail.from_state(trail.state() | {"masses": -np.ones(len(MEMORIES))})


@pytest.mark.parametrize("numbers", [False, True])
def test_trees_that_see_earlier_targets_follow_what_no_other_expert_can(numbers: bool) -> None:
    model = recommended(task="regression" if numbers else "classification", random_state=0)
    X, y = np.random.default_rng(0).normal(size=(500, 2)), np.arange(500) // 5 % 3 // 2  # 0 ten times, 1 five times
    wrong = []
    for place in range(500):
        found = model.test_then_train(X[place : place + 1], y[place : place + 1])
        wrong.append(abs(float(found[0]) - y[place]) > 0.5)
    assert np.mean(wrong[250:]) < 0.05  # the last label alone leaves 0.13
    names = [one.name for one in model.journal_[-1].models if one.role == "expert"]
    assert names[-1] == "LazyBoostedTrees, earlier targets"
    again = pickle.loads(pickle.dumps(model))
    for one in (model, again):
        one.partial_fit(X, y)
        one.partial_fit(X[:2], y[:2])
    assert np.array_equal(model.predict(X[:20]), again.predict(X[:20]))


def test_experts_that_see_earlier_targets_rest_in_large_batches_and_are_saved() -> None:
    X, y = runs(2_000)
    strategy, again = (Portfolio(SoftmaxRegression()) for _ in range(2))
    strategy.begin(2, sparse=False, n_classes=2)
    seeing = strategy._experts[-1]

    def learn(target: Any, first: int, size: int) -> Any:
        batch = Batch(X[first : first + size], y[first : first + size].astype(float), np.ones(size))
        return target.step(batch, target.test_scores(batch))

    learn(strategy, 0, 100)
    assert seeing._pool.samples.next_row == 100
    resting = learn(strategy, 100, 100)
    assert seeing._pool.samples.next_row == 100
    assert [one.risk_before is None for one in resting.models if one.role == "expert"] == [False] * 8 + [True]
    for first in range(200, 300):
        learn(strategy, first, 1)
    assert 200 - MOST < seeing._pool.samples.next_row <= 200
    again.restore(strategy.state(), 2, sparse=False, n_classes=2)
    assert again._waiting.n_features == 2 + TRAIL
    for first in range(300, 340):
        assert learn(strategy, first, 1) == learn(again, first, 1)
    resting = learn(strategy, 340, 60)  # the weights know these experts now, which say nothing about so many rows
    assert resting == learn(again, 340, 60)
    assert [one.risk_before is None for one in resting.models if one.role == "expert"] == [False] * 8 + [True]
    assert np.array_equal(strategy.scores(X), again.scores(X))
    assert np.array_equal(strategy.scores(X[:5]), again.scores(X[:5]))
    for name, value in ("seeing", "Oblivious(NaiveBayes)"), ("trail.last", np.zeros(2)):
        state = strategy.state()
        assert name in state
        with pytest.raises(StateError, match=name.rpartition(".")[2]):
            Portfolio(SoftmaxRegression()).restore(state | {name: value}, 2, sparse=False, n_classes=2)


def test_the_experts_of_a_portfolio_with_sparse_rows_see_no_earlier_targets() -> None:
    strategy = Portfolio(SoftmaxRegression())
    strategy.begin(2, sparse=True, n_classes=2)
    assert strategy._seeing == 0
