"""DWMIL, DTEL and Diversity Pool against their slow references, step by step, and what each is for."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import reference_diverse as plain
from reference import LabelledRows
from reference_baselines import PlainEnsemble, made
from row_arrays import as_rows

from driftsurf.core.contracts import Batch, Capabilities, FloatArray, Segment
from driftsurf.core.state import to_bytes
from driftsurf.detectors import DDM, MDDM
from driftsurf.errors import CapabilityError, OptionError, StateError
from driftsurf.learners import LogisticRegression, NaiveBayes, SoftmaxRegression
from driftsurf.reproduction.strategies._diversity import most_alike, right_together, yule_q
from driftsurf.reproduction.strategies.dwmil import Drawn, balanced, g_mean
from driftsurf.strategies import AUE, DTEL, DWMIL, DiversityPool, ResetOnDrift

M, STEPS = 30, 32
CONCEPTS = (0.0, 1.7, 3.3, 0.0, 4.9, 1.7, 3.3, 0.0)
"""Directions of the positive side, in radians, each for four steps; some recur."""


def stream(seed: int = 3, *, weighted: bool = False, length: int = 4, shift: float = 0.0) -> LabelledRows:
    """Three columns, the last one constant. A shift makes the positive class rarer."""
    random = np.random.default_rng(seed)
    n = M * length * len(CONCEPTS)
    X = random.normal(size=(n, 2)) * (random.random((n, 2)) < 0.9)
    angle = np.repeat(CONCEPTS, M * length)
    side = X[:, 0] * np.cos(angle) + X[:, 1] * np.sin(angle) + 0.2 * random.normal(size=n) > shift
    weight = random.choice([1.0, 0.5, 2.0, 0.0], n) if weighted else np.ones(n)
    return np.column_stack([X, np.ones(n)]), side.astype(float), weight


def batches(rows: LabelledRows, sparse: bool = False) -> Iterator[tuple[range, Batch]]:
    X, y, weight = rows
    for lo in range(0, len(y), M):
        part = slice(lo, lo + M)
        yield range(lo, lo + M), Batch(as_rows(X[part, :-1], sparse), y[part], weight[part])


def learner() -> LogisticRegression:
    return LogisticRegression(step_size=0.1, l2=1e-3, start="uniform")


def begun(strategy: Any, sparse: bool = False) -> Any:
    strategy.check()
    strategy.begin(2, sparse=sparse, n_classes=2)
    return strategy


def labels(scores: FloatArray) -> list[int]:
    return [int(score > 0) for score in scores]


CASES: dict[str, tuple[Callable[[], Any], type[Any], dict[str, Any], float]] = {
    "DWMIL": (lambda: DWMIL(learner(), bags=3, seed=5), plain.PlainDWMIL, {}, 0.0),
    "DWMIL, rare class": (
        lambda: DWMIL(learner(), bags=5, removal=0.3, experts=3, seed=5),
        plain.PlainDWMIL,
        {"T": 5, "theta": 0.3, "most": 3},
        1.8,
    ),
    "DTEL of five": (lambda: DTEL(learner(), experts=5, seed=5), plain.PlainDTEL, {"m": 5}, 0.0),
    "DTEL, divided": (
        lambda: DTEL(learner(), experts=3, budget="divided", seed=5),
        plain.PlainDTEL,
        {"m": 3, "budget": "divided"},
        0.0,
    ),
    "Diversity Pool": (lambda: DiversityPool(learner(), seed=5), plain.PlainDiversityPool, {}, 0.0),
    "Diversity Pool of three": (
        lambda: DiversityPool(learner(), MDDM(window=50), pool_size=3, test_rows=50, seed=5),
        plain.PlainDiversityPool,
        {"window": 50, "size": 3, "b": 50},
        0.0,
    ),
    "Diversity Pool of one": (
        lambda: DiversityPool(learner(), MDDM(window=50), pool_size=1, test_rows=20, seed=5),
        plain.PlainDiversityPool,
        {"window": 50, "size": 1, "b": 20},
        0.0,
    ),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize(("sparse", "weighted"), [(False, False), (True, True)], ids=["dense", "sparse, weighted"])
def test_equals_its_reference_at_every_step(name: str, sparse: bool, weighted: bool) -> None:
    make, kind, settings, shift = CASES[name]
    rows = stream(weighted=weighted, shift=shift, length=6 if kind is plain.PlainDiversityPool else 4)
    strategy, twin = begun(make(), sparse), made(kind, rows, seed=5, **settings)
    for batch, given in batches(rows, sparse):
        assert labels(strategy.test_scores(given)) == twin.predict(batch).tolist()
        twin.events = []
        decision = strategy.step(given)
        twin.step(batch)
        expected = {model.number: model.w.tolist() for model in twin.models()}
        found = {m.id: [*m.learner.coef.tolist(), m.learner.intercept] for m in strategy._live.members}
        assert found.keys() == expected.keys()
        for number, w in found.items():
            assert w == pytest.approx(expected[number], rel=1e-7, abs=1e-9)
        assert [t.step for t in decision.transitions] == twin.events
        assert strategy._pool.made == twin.made
        if isinstance(twin, PlainEnsemble):
            assert strategy._live.weights == pytest.approx(twin.weights, rel=1e-7, abs=1e-9)


def trace(name: str) -> tuple[str, list[tuple[str, int]]]:
    """Return the number of wrong predictions of each batch, and the transitions."""
    make, _, _, shift = CASES[name]
    strategy, wrong, transitions = begun(make()), [], []
    for _, given in batches(stream(shift=shift)):
        wrong.append(int((np.array(labels(strategy.test_scores(given))) != given.y).sum()))
        transitions += [(t.kind, t.step) for t in strategy.step(given).transitions]
    return " ".join(map(str, wrong)), transitions


GOLDEN: dict[str, tuple[str, list[tuple[str, int]]]] = {
    "DWMIL": (
        "14 4 2 5 11 14 3 5 20 4 3 6 26 3 3 1 13 15 6 0 27 2 4 3 15 13 4 2 22 3 7 1",
        [],
    ),
    "DTEL of five": (
        "14 4 1 4 14 4 2 12 19 9 4 5 27 4 1 1 15 2 1 6 25 3 3 3 12 4 2 2 23 3 7 2",
        [],
    ),
    "Diversity Pool of three": (
        "6 4 2 1 21 2 3 3 21 5 3 5 26 2 1 2 11 8 10 6 26 4 3 3 12 12 12 0 24 5 5 2",
        [
            ("reset", 4),
            ("reset", 8),
            ("reset", 12),
            ("recalled", 13),
            ("reset", 20),
            ("recalled", 21),
            ("reset", 26),
            ("recalled", 27),
        ],
    ),
}


@pytest.mark.parametrize("name", GOLDEN)
def test_golden_trace(name: str) -> None:
    """Pins the behaviour: a change here is a change of the algorithm and must be intended."""
    assert trace(name) == GOLDEN[name]


# ---------------------------------------------------------------------------- diversity


def test_q_of_pairs_is_that_of_the_definition() -> None:
    random = np.random.default_rng(0)
    y, weight = (random.random(40) < 0.5).astype(float), random.choice([0.0, 1.0, 2.0], 40)
    ballots = [np.where(random.random(40) < share, 1.0, -1.0) * (2 * y - 1) for share in (0.9, 0.9, 0.6, 0.3, 1.0, 1.0)]
    wrong = [(scores > 0) != y for scores in ballots]
    joint = right_together(ballots, Batch(np.zeros((40, 1)), y, weight))
    expected = [[plain.q_statistic(one * 1.0, other * 1.0, weight) for other in wrong] for one in wrong]
    found = yule_q(joint, float(weight.sum()))
    assert found - np.diag(np.diag(found)) == pytest.approx(np.array(expected) - np.diag(np.diag(expected)))
    assert found[4, 5] == 1.0, "two models without a mistake are alike"


def test_the_removed_model_is_the_one_without_which_the_mean_q_is_lowest() -> None:
    for seed in range(20):
        random = np.random.default_rng(seed)
        right = (random.random((5, 60)) < random.random((5, 1))).astype(float)
        joint = right @ right.T
        means = []
        for gone in range(5):
            rest = [k for k in range(5) if k != gone]
            q = yule_q(joint[np.ix_(rest, rest)], 60.0)
            means.append(float(q[~np.eye(4, dtype=bool)].mean()))
        assert means[most_alike(joint, 60.0)] == pytest.approx(min(means))
    assert most_alike(np.array([[3.0]]), 4.0) == 0


# ---------------------------------------------------------------------------- DWMIL


def test_draws_are_balanced_and_leave_out_rows_without_weight() -> None:
    random = np.random.default_rng(0)
    y, weight = random.choice([0.0, 0.0, 0.0, 2.0], 80), random.choice([0.0, 1.0, 3.0], 80)
    batch = Batch(random.normal(size=(80, 2)), y, weight, first_row=200)
    counted = np.bincount(y[weight > 0].astype(int))
    draws = [balanced(batch, counted, 7, place * 80) for place in range(50)]
    for places in draws:
        assert (np.diff(places) > 0).all()
        assert np.bincount(y[places].astype(int)).tolist() == [counted[2], 0, counted[2]]
        assert (weight[places] > 0).all()
    frequent = np.flatnonzero((y == 0) & (weight > 0))
    often = np.bincount(np.concatenate(draws), minlength=80)[frequent]
    assert often.mean() == pytest.approx(50 * counted[2] / counted[0])
    assert often.min() > 0
    drawn = Drawn(batch, draws[0])
    part = drawn.view(Segment(203, 207))
    assert part.first_row == 203
    assert np.array_equal(np.asarray(part.X), np.asarray(batch.X)[draws[0][3:7]])
    assert part.y.tolist() == y[draws[0][3:7]].tolist()


def test_g_mean_is_the_geometric_mean_of_the_recalls() -> None:
    y = np.array([0.0] * 4 + [1.0] * 2)
    scores = np.array([-1.0, -1.0, -1.0, 1.0, 1.0, -1.0])
    batch = Batch(np.zeros((6, 1)), y, np.array([1.0, 1.0, 2.0, 4.0, 1.0, 3.0]))
    assert g_mean(scores, batch) == pytest.approx(math.sqrt(4 / 8 * 1 / 4))
    assert g_mean(2 * y - 1, batch) == 1.0
    assert g_mean(-np.ones(6), batch) == 0.0
    three = np.log(np.array([[0.8, 0.1, 0.1], [0.8, 0.1, 0.1], [0.1, 0.1, 0.8], [0.1, 0.1, 0.8]]))
    known = Batch(np.zeros((4, 1)), np.array([0.0, 2.0, 2.0, 2.0]), np.ones(4))
    assert g_mean(three, known) == pytest.approx(math.sqrt(2 / 3))  # class 1 is absent


def test_a_batch_of_one_class_adds_no_bag_and_changes_no_weight() -> None:
    strategy = begun(DWMIL(learner(), bags=3, seed=5))
    for step, (_, given) in enumerate(batches(stream(length=1))):
        before = strategy._live
        one_class = step % 3 == 1
        decision = strategy.step(given._replace(y=np.ones(M)) if one_class else given)
        if one_class:
            assert (strategy._live.experts, strategy._live.weights) == (before.experts, before.weights)
            assert decision.gradients == 0
        else:
            assert decision.gradients > 0


def test_a_rare_class_is_found_more_often_than_by_a_plain_ensemble() -> None:
    recalls: dict[str, float] = {}
    for name, strategy in {"dwmil": DWMIL(LogisticRegression()), "aue": AUE(LogisticRegression())}.items():
        random, found, count = np.random.default_rng(0), 0, 0
        begun(strategy)
        for step in range(30):
            X = random.normal(size=(300, 2))
            y = (X[:, 0] + 0.8 * random.normal(size=300) > 2.4).astype(float)
            if step > 2:
                found += int((strategy.scores(X)[y == 1] > 0).sum())
                count += int(y.sum())
            strategy.step(Batch(X, y, np.ones(300)))
        recalls[name] = found / count
    assert recalls["dwmil"] > 0.8
    assert recalls["aue"] < 0.5


# ---------------------------------------------------------------------------- recurring concepts


def errors_after_returns(strategy: Any) -> float:
    """Return the share of wrong rows in the second and third batch after each return of a concept."""
    random, wrong = np.random.default_rng(2), []
    strategy.begin(20, sparse=False, n_classes=2)
    sides = np.linalg.qr(random.normal(size=(20, 3)))[0].T  # what one says nothing about another
    for step in range(90):
        X = random.normal(size=(100, 20))
        y = (X @ sides[step // 10 % 3] > 0).astype(float)
        if step >= 30 and step % 10 in (1, 2):
            wrong.append(np.mean((strategy.scores(X) > 0) != y))
        strategy.step(Batch(X, y, np.ones(100)))
    return float(np.mean(wrong))


def test_an_old_model_knows_a_concept_that_returns() -> None:
    pool = DiversityPool(LogisticRegression(), test_rows=100, seed=1)
    assert errors_after_returns(pool) < 0.7 * errors_after_returns(ResetOnDrift(LogisticRegression(), MDDM(), seed=1))
    assert len(pool._live.members) == 3


def test_a_new_concept_is_not_given_to_an_old_model() -> None:
    random = np.random.default_rng(0)
    strategy = begun(DiversityPool(LogisticRegression(), test_rows=200, pool_size=3, seed=1))
    kinds = []
    for step in range(50):
        angle = 1.1 * (step // 10)  # five concepts, none of which returns
        X = random.normal(size=(200, 2))
        y = (X[:, 0] * math.cos(angle) + X[:, 1] * math.sin(angle) > 0).astype(float)
        kinds += [t.kind for t in strategy.step(Batch(X, y, np.ones(200))).transitions]
    assert kinds == ["reset"] * 4
    assert len(strategy._live.members) == 3


# ---------------------------------------------------------------------------- classes, options, states


@pytest.mark.parametrize("kind", [DWMIL, DTEL, DiversityPool])
@pytest.mark.parametrize("template", [SoftmaxRegression(), NaiveBayes()], ids=["softmax", "naive Bayes"])
def test_classes_that_appear_later_are_learned(kind: Any, template: Any) -> None:
    random = np.random.default_rng(0)
    strategy = kind(template, seed=1)
    strategy.begin(2, sparse=False, n_classes=2)
    for step in range(20):
        X = random.normal(size=(200, 2))
        y = np.clip(np.floor(X[:, 0]) + 1, 0, 1 if step < 8 else 2)
        if step == 19:
            assert np.mean(strategy.scores(X).argmax(axis=1) != y) < 0.2
        strategy.step(Batch(X, y, np.ones(200)))


@pytest.mark.parametrize(
    ("kind", "option", "value"),
    [
        (DWMIL, "bags", 0),
        (DWMIL, "removal", 1.0),
        (DWMIL, "experts", 0),
        (DTEL, "experts", 0),
        (DTEL, "budget", "equal"),
        (DiversityPool, "pool_size", 0),
        (DiversityPool, "test_rows", 0.5),
        (DiversityPool, "detector", "ddm"),
        (DiversityPool, "max_rows", 0),
    ],
)
def test_errors_for_bad_options_name_the_value(kind: Any, option: str, value: Any) -> None:
    with pytest.raises(OptionError, match=option) as error:
        kind(learner(), **{option: value}).check()
    assert repr(value) in str(error.value)


def test_options_of_the_detector_are_checked() -> None:
    with pytest.raises(OptionError, match=r"min_rows.*0"):
        DiversityPool(learner(), DDM(min_rows=0)).check()


def test_a_learner_that_cannot_be_copied_is_refused_by_name() -> None:
    class Inexact(LogisticRegression):
        capabilities = Capabilities(exact_state=False)

    with pytest.raises(CapabilityError, match=r"dtel needs.*'exact_state'.*Inexact"):
        DTEL(Inexact()).check()


@pytest.mark.parametrize(
    ("kind", "options", "entry", "change"),
    [
        (DWMIL, {"bags": 3}, "weights", lambda state: state["weights"] * np.linspace(0.5, 1.0, len(state["weights"]))),
        (DTEL, {"experts": 3}, "historicals", lambda state: 4),
        (DTEL, {"experts": 3}, "historicals", lambda state: 2),
        (DiversityPool, {"pool_size": 3, "test_rows": 90}, "joint", lambda state: np.zeros((2, 2))),
        (DiversityPool, {"pool_size": 3, "test_rows": 90}, "mass", lambda state: -1.0),
    ],
)
def test_a_state_that_the_strategy_cannot_have_is_refused(kind: Any, options: Any, entry: str, change: Any) -> None:
    detector = {"detector": MDDM(window=30)} if kind is DiversityPool else {}
    one, other = (begun(kind(learner(), **options, **detector)) for _ in range(2))
    for _, given in list(batches(stream()))[:5]:
        one.step(given)
    state = dict(one.state())
    other.restore(state, 2, sparse=False, n_classes=2)
    before = to_bytes(other.state())
    with pytest.raises(StateError) as error:
        other.restore(state | {entry: change(state)}, 2, sparse=False, n_classes=2)
    assert error.value.entry == entry
    assert to_bytes(other.state()) == before


def test_bags_of_another_size_are_refused() -> None:
    one, other = begun(DWMIL(learner(), bags=3)), begun(DWMIL(learner(), bags=2))
    one.step(next(batches(stream()))[1])
    with pytest.raises(StateError) as error:
        other.restore(one.state(), 2, sparse=False, n_classes=2)
    assert error.value.entry == "experts"
