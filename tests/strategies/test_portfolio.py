"""Portfolio: who gets weight, all or nothing, exact resume, journal, later classes, and bounds on its error."""

from __future__ import annotations

import copy
import re
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from benchmarks.hard_streams import HARD
from row_arrays import csr_view
from sklearn.tree import DecisionTreeClassifier

from driftsurf import DriftSurfClassifier, PortfolioClassifier, PortfolioRegressor, explain, load
from driftsurf.checks import check_strategy
from driftsurf.core.contracts import Batch, FloatArray
from driftsurf.errors import CapabilityError, OptionError, RegistryWarning, StateError
from driftsurf.learners import LinearRegression, LogisticRegression, NaiveBayes, Perceptron, SoftmaxRegression
from driftsurf.native.portfolio import Mixer
from driftsurf.registry import Entry
from driftsurf.session.session import Session
from driftsurf.strategies import AUE, AuthorsDriftSurf, DriftSurf, Oblivious, Portfolio

SMALL: list[Any] = [DriftSurf(SoftmaxRegression(), judge="prequential"), SoftmaxRegression(), NaiveBayes()]


def batches(steps: int = 12, K: int = 3, seed: int = 0, size: int = 60) -> Iterator[Any]:
    """Yield batches of a linear problem whose concept changes in the middle."""
    random = np.random.default_rng(seed)
    beta = random.normal(size=(2, 4, max(K, 1)))
    for step in range(steps):
        X = random.normal(size=(size, 4))
        Z = X @ beta[2 * step // steps]
        yield Batch(X, Z[:, 0] * 3 + 100.0 if K == 0 else Z.argmax(axis=1).astype(float), np.ones(size))


def begun(strategy: Any, K: int = 3) -> Any:
    strategy.begin(4, sparse=False, n_classes=K)
    return strategy


def flat(strategy: Any) -> dict[str, bytes]:
    return {name: np.asarray(value).tobytes() for name, value in strategy.state().items()}


@pytest.mark.parametrize("learner", [SoftmaxRegression(), LogisticRegression()])
def test_it_is_a_strategy(learner: Any) -> None:
    check_strategy(Portfolio(learner, experts=[DriftSurf(learner), learner, Perceptron(hidden=8), AUE(learner)]))


def test_it_is_a_strategy_for_regression() -> None:
    learner = LinearRegression()
    check_strategy(Portfolio(learner, experts=[DriftSurf(learner), learner, Perceptron(task="regression")]))


def test_a_light_portfolio_has_fewer_experts() -> None:
    names = [set(begun(Portfolio(SoftmaxRegression(), experts=kind))._names) for kind in (None, "light")]
    assert names[1] < names[0]


def test_a_state_keeps_its_experts_whatever_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Entry, "_missing", lambda self: list(self.requires))
    with pytest.warns(RegistryWarning, match="no boosted trees: pip install lightgbm"):
        strategy = begun(Portfolio(SoftmaxRegression(), seed=1))
    stream = list(batches())
    for batch in stream[:4]:
        strategy.step(batch)
    monkeypatch.undo()
    again = Portfolio(SoftmaxRegression(), seed=1)
    again.restore(strategy.state(), 4, sparse=False, n_classes=3)
    assert strategy.step(stream[4]) == again.step(stream[4])


def test_the_default_experts_suit_the_task() -> None:
    for learner, K in ((SoftmaxRegression(), 3), (LinearRegression(), 0)):
        strategy = begun(Portfolio(learner), K)
        kinds = [type(expert.learner).__name__ for expert in strategy._experts]
        assert kinds.count(type(learner).__name__) == 3
        assert ("NaiveBayes" in kinds) == bool(K)
        seeds = {expert.seed for expert in strategy._experts}
        assert len(seeds) == len(kinds)


class Failing(NaiveBayes):
    """Fails to learn at a given update, after which it works again."""

    fails = False

    def learn(self, batch: Batch, hi: int, steps: int) -> Any:
        if type(self).fails:
            raise MemoryError("no room")
        return super().learn(batch, hi, steps)


@pytest.mark.parametrize("place", [0, 1, 2])
def test_an_expert_that_fails_leaves_all_unchanged(place: int, monkeypatch: pytest.MonkeyPatch) -> None:
    experts = [*SMALL[:2], DriftSurf(LogisticRegression())]
    experts.insert(place, Failing())
    strategy, spared = (begun(Portfolio(SoftmaxRegression(), experts=experts, seed=1)) for _ in range(2))
    stream = list(batches())
    for batch in stream[:7]:
        strategy.step(batch), spared.step(batch)
    before, scorer = flat(strategy), strategy.scorer()
    monkeypatch.setattr(Failing, "fails", True)
    with pytest.raises(MemoryError):
        strategy.step(stream[7])
    monkeypatch.setattr(Failing, "fails", False)
    assert flat(strategy) == before
    assert np.array_equal(scorer(stream[7].X), strategy.scores(stream[7].X))
    for batch in stream[7:]:
        assert strategy.step(batch) == spared.step(batch)
    assert flat(strategy) == flat(spared)


def test_it_can_be_put_back_from_the_middle_of_a_step() -> None:
    strategy, spared = (begun(Portfolio(SoftmaxRegression(), experts=SMALL, seed=1)) for _ in range(2))
    stream = list(batches())
    for batch in stream[:5]:
        strategy.step(batch), spared.step(batch)
    before = flat(strategy)
    mark = strategy.mark()
    strategy._will_change(strategy._experts[0])
    strategy._experts[0].step(stream[5])  # as if broken off after the first expert
    strategy.put_back(mark)
    assert flat(strategy) == before
    mark = strategy.mark()
    strategy.step(stream[5])
    strategy.put_back(mark)
    strategy.put_back(mark)
    assert flat(strategy) == before
    for batch in stream[5:]:
        assert strategy.step(batch) == spared.step(batch)


@pytest.mark.parametrize("K", [0, 2, 3])
def test_resumed_in_the_middle_it_is_the_same(K: int) -> None:
    learner: Any = SoftmaxRegression() if K else LinearRegression()
    experts = None if K else [DriftSurf(learner), learner, Perceptron(task="regression", hidden=8)]
    strategy = begun(Portfolio(learner, experts=experts, seed=3), K)
    stream = list(batches(K=K))
    for batch in stream[:8]:
        strategy.step(batch)
    state = {name: copy.deepcopy(value) for name, value in strategy.state().items()}
    again = Portfolio(learner, experts=experts, seed=99)
    again.restore(state, 4, sparse=False, n_classes=K)
    for batch in stream[8:]:
        assert strategy.step(batch) == again.step(batch)
    assert flat(strategy) == flat(again)


def test_an_expert_of_the_authors_code_is_saved_as_in_version_0_2() -> None:
    experts = [AuthorsDriftSurf(LogisticRegression()), DriftSurf(LogisticRegression())]
    strategy = begun(Portfolio(LogisticRegression(), experts=experts), 2)
    state = strategy.state()
    assert state["experts"] == "DriftSurf(LogisticRegression) DriftSurf(LogisticRegression)"
    assert state["expert0.strategy"] == "DriftSurf"
    assert strategy._names == ["AuthorsDriftSurf(LogisticRegression)", "DriftSurf(LogisticRegression)"]
    with pytest.warns(FutureWarning, match="driftsurf-authors"):
        former = DriftSurf(LogisticRegression(), variant="authors")
    again = Portfolio(LogisticRegression(), experts=[former, experts[1]])
    again.restore(state, 4, sparse=False, n_classes=2)
    assert flat(again) == flat(strategy)


def test_a_state_of_other_experts_is_refused() -> None:
    strategy = begun(Portfolio(SoftmaxRegression(), experts=SMALL))
    strategy.step(next(batches()))
    state = strategy.state()
    other = Portfolio(SoftmaxRegression(), experts=SMALL[:2])
    with pytest.raises(StateError) as caught:
        other.restore(state, 4, sparse=False, n_classes=3)
    assert caught.value.entry == "experts"
    bad = {"mixer.weights": np.array([1.0, -1.0, 1.0]), "mixer.precision": np.zeros((3, 3)), "learned": 7}
    for name, value in bad.items():
        with pytest.raises(StateError) as caught:
            Portfolio(SoftmaxRegression(), experts=SMALL).restore(state | {name: value}, 4, sparse=False, n_classes=3)
        assert caught.value.entry == name


def test_the_journal_says_who_was_believed_and_what_the_experts_decided() -> None:
    strategy = begun(Portfolio(SoftmaxRegression(), experts=SMALL, seed=1))
    decisions = [strategy.step(batch) for batch in batches(24)]
    for decision in decisions:
        assert len(decision.models) == 3
        assert sum(model.weight or 0.0 for model in decision.models) == pytest.approx(1.0)
        assert {model.id % 3 for model in decision.models} == {0, 1, 2}
    changes = [change for decision in decisions for change in decision.transitions]
    assert [change.kind for change in changes if change.kind != "greedy"][:2] == ["entered", "switched"]
    assert {change.old % 3 for change in changes} == {0}
    switched = next(change for change in changes if change.kind == "switched")
    later = decisions[switched.step + 1].models[0]
    assert later.id == switched.new
    # After the change the expert that reacts is believed more than the one that never does.
    assert (decisions[-1].models[0].weight or 0.0) > (decisions[-1].models[1].weight or 0.0)


def test_tested_scores_are_used_once_and_change_nothing() -> None:
    strategy, other = (begun(Portfolio(SoftmaxRegression(), experts=SMALL, seed=1)) for _ in range(2))
    for batch in batches():
        tested = strategy.test_scores(batch)
        assert strategy.step(batch, tested) == other.step(batch)
    assert flat(strategy) == flat(other)


def test_a_class_that_comes_later_is_learned() -> None:
    model = PortfolioClassifier(SoftmaxRegression(), random_state=0)
    random = np.random.default_rng(0)
    for step in range(14):
        X = random.normal(size=(80, 3))
        y = np.array(["low", "high", "other"])[np.where((X[:, 1] > 0.3) & (step >= 6), 2, (X[:, 0] > 0) * 1)]
        predicted = model.test_then_train(X, y)
    assert (predicted == y).mean() > 0.8
    assert sorted(model.classes_) == ["high", "low", "other"]
    assert model.predict_proba(X).shape == (80, 3)
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)


def test_experts_may_be_estimators_and_foreign_models(tmp_path: Any) -> None:
    experts = [DriftSurfClassifier(SoftmaxRegression()), NaiveBayes(), Oblivious(SoftmaxRegression(), max_rows=50)]
    model = PortfolioClassifier(SoftmaxRegression(), experts=experts, random_state=0)
    for batch in batches():
        model.partial_fit(batch.X, batch.y)
    model.save(tmp_path / "model.state")
    again = load(tmp_path / "model.state")
    assert np.array_equal(again.predict_proba(batch.X), model.predict_proba(batch.X))
    trees = PortfolioClassifier(experts=[DecisionTreeClassifier(max_depth=3), NaiveBayes()], random_state=0)
    for batch in batches(K=2):
        trees.partial_fit(batch.X, batch.y)
    assert trees.score(batch.X, batch.y) > 0.7


def test_bad_experts_are_refused_by_name() -> None:
    for bad in ("driftsurf", [], [3], [DriftSurf], 7):
        with pytest.raises(OptionError):
            Portfolio(SoftmaxRegression(), experts=bad).check()  # type: ignore[arg-type]
    lists: list[list[Any]] = [[3], [NaiveBayes(), None], [NaiveBayes(), NaiveBayes(), "light"]]
    for place, experts in enumerate(lists):
        with pytest.raises(OptionError, match=re.escape(f"experts[{place}] is {experts[place]!r};")):
            Portfolio(SoftmaxRegression(), experts=experts).check()
        with pytest.raises(OptionError, match=re.escape(f"experts[{place}] is {experts[place]!r};")):
            PortfolioClassifier(experts=experts).fit(np.zeros((4, 2)), [0, 1, 0, 1])
    with pytest.raises(CapabilityError) as caught:
        Portfolio(SoftmaxRegression(), experts=[LinearRegression()]).check()
    assert "LinearRegression" in str(caught.value)
    for options in ({"half_life": 0.0}, {"ridge": 0.0}, {"dtype": "int"}):
        with pytest.raises(OptionError):
            Portfolio(SoftmaxRegression(), **options).check()


def test_sparse_weighted_and_unweighted_rows() -> None:
    strategy = begun(Portfolio(SoftmaxRegression(), seed=1))
    sparse = Portfolio(SoftmaxRegression(), seed=1)
    sparse.begin(4, sparse=True, n_classes=3)
    weight = np.random.default_rng(0).random(60)
    for batch in batches():
        strategy.step(batch._replace(weight=weight))
        sparse.step(batch._replace(X=csr_view(np.asarray(batch.X)), weight=weight))
    before = strategy._live.mixer
    strategy.step(batch._replace(weight=np.zeros(60)))
    assert strategy._live.mixer is before
    assert np.isfinite(sparse.scores(csr_view(np.asarray(batch.X)))).all()


def test_threads_predict_with_whole_steps() -> None:
    session = Session(Portfolio(SoftmaxRegression(), experts=SMALL, seed=1))
    stream = list(batches(30))
    session.observe(stream[0].X, stream[0].y)
    found: list[FloatArray] = []
    stop = threading.Event()

    def predict() -> None:
        while not stop.is_set():
            found.append(session.scores(stream[0].X))

    thread = threading.Thread(target=predict)
    thread.start()
    for batch in stream[1:]:
        session.observe(batch.X, batch.y)
    stop.set()
    thread.join()
    assert all(np.isfinite(scores).all() for scores in found)


# ---------------------------------------------------------------------------- bounds on the error


def errors_of(model: Any, stream: Any) -> float:
    """Return the mean test-then-train error, without the first batch."""
    wrong = [np.mean(model.test_then_train(X, y) != y) for X, y in stream]
    return float(np.mean(wrong[1:]))


@pytest.mark.parametrize(
    ("name", "steps", "margin"),
    [
        ("static", 50, 0.003),
        ("noise", 50, 0.005),
        ("attack", 50, 0.003),
        ("absent-class", 60, 0.005),
        ("flips", 120, 0.005),
        ("recurring-rules", 60, 0.008),
        ("heavy-tails", 40, 0.008),
    ],
)
def test_it_is_hardly_worse_than_its_best_expert(name: str, steps: int, margin: float) -> None:
    stream = HARD[name](0, steps).batches
    learner = SoftmaxRegression(steps_per_row=8.0)
    alone = [
        DriftSurfClassifier(learner, judge="prequential", random_state=0),
        DriftSurfClassifier(learner, random_state=0),
        *(PortfolioClassifier(learner, experts=[one], random_state=0) for one in (learner, NaiveBayes(), Perceptron())),
    ]
    best = min(errors_of(model, stream()) for model in alone)
    assert errors_of(PortfolioClassifier(learner, random_state=0), stream()) <= best + margin


def reversed_at(step: int, seed: int, steps: int = 20, size: int = 120) -> Iterator[tuple[FloatArray, Any]]:
    """Yield batches of a rule of one column, with 5 % of wrong labels, that is reversed at a step."""
    random = np.random.default_rng(seed)
    for now in range(steps):
        X = random.random((size, 3))
        yield X, ((X[:, 0] > 0.5) ^ (now >= step) ^ (random.random(size) < 0.05)).astype(int)


@pytest.mark.parametrize("seed", range(3))
def test_one_batch_is_lost_where_a_rule_is_reversed(seed: int) -> None:
    model = PortfolioClassifier(SoftmaxRegression(steps_per_row=8.0), random_state=seed)
    errors = [float(np.mean(model.test_then_train(X, y) != y)) for X, y in reversed_at(12, seed)]
    assert errors[12] > 0.8
    assert max(errors[13:]) < 0.25
    turned = [decision.step for decision in model.journal_ if decision.turned]
    assert turned == [12]
    after = {one.name: one.weight or 0.0 for one in model.journal_[12].models}
    assert max(after, key=after.__getitem__).startswith("DriftSurf")
    assert explain(model.journal_, step=12, width=1_000).count("wrong on more rows than random guesses") == 1


@pytest.mark.parametrize("name", ["static", "noise", "attack", "absent-class", "heavy-tails"])
def test_the_weights_do_not_turn_where_no_rule_is_reversed(name: str) -> None:
    """Half of the labels of a batch may be forged: such a batch is predicted no worse than by guesses."""
    model = PortfolioClassifier(SoftmaxRegression(steps_per_row=8.0), random_state=0)
    errors_of(model, HARD[name](0, 40).batches())
    assert not any(decision.turned for decision in model.journal_)


def test_weights_that_turned_go_to_the_fresh_experts_alone() -> None:
    mixer = Mixer.of(4, 10.0, votes=True).turned_to([1, 3], 10.0)
    assert mixer.shares == [0.0, 0.5, 0.0, 0.5]
    assert mixer.weights.sum() == 0.5


def values(kind: str) -> Iterator[tuple[FloatArray, FloatArray]]:
    """A regression with a part that is not linear; its coefficients stay, turn slowly, or are inverted at step 30."""
    random = np.random.default_rng(0)
    for step in range(60):
        X = random.normal(size=(100, 4))
        angle = {"static": 0.0, "slow": step / 15, "flip": np.pi * (step >= 30)}[kind]
        f = np.cos(angle) * X[:, 0] + np.sin(angle) * X[:, 1] + 0.8 * np.sin(3 * X[:, 3])
        yield X, 1e4 + 100.0 * (f + 0.3 * random.normal(size=100))


@pytest.mark.parametrize(("kind", "most"), [("static", 1.02), ("slow", 1.07), ("flip", 1.06)])
def test_regression_is_hardly_worse_than_its_best_expert(kind: str, most: float) -> None:
    def squared(model: Any) -> float:
        return float(np.mean([np.mean((model.test_then_train(X, y) - y) ** 2) for X, y in values(kind)][1:]))

    learner = LinearRegression(steps_per_row=8.0)
    names: list[Any] = [DriftSurf(learner), learner, Perceptron(task="regression")]
    alone = [PortfolioRegressor(learner, experts=[one], random_state=0) for one in names]
    both = PortfolioRegressor(learner, experts=names, random_state=0)
    assert squared(both) <= most * min(map(squared, alone))


def test_batches_of_large_errors_do_not_decide_alone() -> None:
    """One batch in five is a hundred times as noisy, and on it the worse expert happens to be the better one."""
    random = np.random.default_rng(0)
    mixer, lost = Mixer.of(2, 10.0, votes=False), np.zeros(2)
    for step in range(60):
        size = 100.0 if step % 5 == 4 else 1.0
        y = size * random.normal(size=100)
        good, bad = (0.3, 0.9) if size == 1.0 else (0.9, 0.3)
        m = np.stack([y + share * size * random.normal(size=100) for share in (good, bad)], axis=1)
        if size == 1.0 and step > 10:
            lost += np.mean((mixer.mixed_values(m) - y) ** 2), np.mean((m[:, 0] - y) ** 2)
        mixer = mixer.after_values(m, y, np.ones(100), 0.5**0.1, 10.0)
    assert mixer.shares[0] > 0.6
    assert lost[0] < 1.2 * lost[1]


def test_a_mixture_that_is_exactly_right_or_not_finite_keeps_its_weights() -> None:
    mixer, y = Mixer.of(2, 10.0, votes=False), np.arange(5.0)
    for m in (np.stack([y, y], axis=1), np.stack([y, np.full(5, np.inf)], axis=1)):
        assert mixer.after_values(m, y, np.ones(5), 0.9, 10.0) is mixer


def test_the_journal_names_the_experts() -> None:
    learner = SoftmaxRegression()
    models = [DriftSurf(learner, judge="training"), DriftSurf(learner, judge="prequential"), learner, NaiveBayes()]
    strategy = begun(Portfolio(learner, experts=models, seed=1))
    names = [model.name for model in strategy.step(next(batches())).models]
    assert names == [
        "DriftSurf(judge=training)",
        "DriftSurf(judge=prequential)",
        "SoftmaxRegression",
        "NaiveBayes",
    ]


def test_golden_trace() -> None:
    """Pins the behaviour: a change here is a change of the algorithm and must be intended."""
    strategy = begun(Portfolio(SoftmaxRegression(), experts=[*SMALL, Perceptron(hidden=8)], seed=1))
    decisions = [strategy.step(batch) for batch in batches(24)]
    shares = [[round(model.weight or 0.0, 4) for model in decision.models] for decision in decisions[::3]]
    assert shares == GOLDEN_SHARES
    assert [(one.kind, one.step) for decision in decisions for one in decision.transitions] == GOLDEN_TRANSITIONS


GOLDEN_SHARES = [
    [0.25, 0.25, 0.25, 0.25],
    [0.3997, 0.4091, 0.1179, 0.0732],
    [0.4527, 0.4283, 0.0854, 0.0335],
    [0.4422, 0.4649, 0.0395, 0.0534],
    [0.4716, 0.5284, 0.0, 0.0],
    [1.0, 0.0, 0.0, 0.0],
    [0.9837, 0.0163, 0.0, 0.0],
    [0.9612, 0.0069, 0.0103, 0.0216],
]
GOLDEN_TRANSITIONS = [("entered", 11), ("greedy", 12), ("switched", 14), ("entered", 20), ("kept", 23)]


def test_probabilities_are_calibrated() -> None:
    """A fifth of the labels is wrong, at random; naive Bayes alone is far too sure, since columns are repeated."""
    random = np.random.default_rng(0)
    learner = SoftmaxRegression(steps_per_row=8.0)
    models = [PortfolioClassifier(learner, experts=experts, random_state=0) for experts in (None, [NaiveBayes()])]
    alone = DriftSurfClassifier(NaiveBayes(), threshold=float("inf"), random_state=0)
    found: list[list[Any]] = [[], [], []]
    for step in range(60):
        Z = random.normal(size=(200, 2))
        X, y = np.repeat(Z, 4, axis=1), (Z[:, 0] * Z[:, 1] + Z[:, 0] > 0) ^ (random.random(200) < 0.2)
        for place, model in enumerate((*models, alone)):
            if step > 10:
                found[place].append(np.stack([model.predict_proba(X)[:, 1], y]))
            model.test_then_train(X, y.astype(int))
    whole, mixed, single = (calibration_error(np.concatenate(parts, axis=1)) for parts in found)
    assert whole < min(0.06, 0.4 * single)
    assert mixed < 0.5 * single


def calibration_error(pairs: FloatArray) -> float:
    """Return the expected calibration error in ten bins."""
    probability, hit = pairs
    bins = np.minimum((10 * probability).astype(int), 9)
    return sum(abs(float((probability - hit)[bins == k].sum())) for k in range(10)) / len(hit)
