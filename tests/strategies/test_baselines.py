"""Each baseline against its slow reference, step by step; golden traces; cases of single baselines."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pytest
import reference_baselines as plain
from reference import LabelledRows
from row_arrays import as_rows

from driftsurf import strategies
from driftsurf.core.contracts import CSR, Batch, Capabilities, FloatArray, Segment, gathered
from driftsurf.core.samples import Samples
from driftsurf.core.state import to_bytes
from driftsurf.detectors import MDDM
from driftsurf.errors import CapabilityError, OptionError, StateError
from driftsurf.learners import LogisticRegression
from driftsurf.reproduction.strategies.learn_nse import emphasis
from driftsurf.strategies import (
    AUE,
    DWM,
    PERM,
    Aware,
    Candor,
    ExponentialDecay,
    LearnNSE,
    LinearDecay,
    Oblivious,
    OnePass,
    PairedLearners,
    ResetOnDrift,
    SlidingWindow,
)

M, STEPS = 30, 26
FLIPS = {9, 18}


def stream(seed: int = 0, *, weighted: bool = False, m: int = M, steps: int = STEPS) -> LabelledRows:
    """Three columns, the last one constant, with noisy labels that are inverted at the flips."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(m * steps, 2)) * (random.random((m * steps, 2)) < 0.8)
    side = X @ [1.0, -0.5] + 0.3 * random.normal(size=len(X)) > 0
    turned = np.array([sum(flip <= i // m for flip in FLIPS) % 2 == 1 for i in range(len(X))])
    weight = random.choice([1.0, 0.5, 2.0, 0.0], len(X)) if weighted else np.ones(len(X))
    return np.column_stack([X, np.ones(len(X))]), (side != turned).astype(float), weight


def learner(optimizer: Any = "strsaga") -> LogisticRegression:
    return LogisticRegression(step_size=0.1, l2=1e-3, start="uniform", optimizer=optimizer)


def batches(rows: LabelledRows, sparse: bool = False, m: int = M) -> Iterator[tuple[range, Batch]]:
    X, y, weight = rows
    for lo in range(0, len(y), m):
        part = slice(lo, lo + m)
        yield range(lo, lo + m), Batch(as_rows(X[part, :-1], sparse), y[part], weight[part])


def begun(strategy: Any, sparse: bool = False) -> Any:
    strategy.check()
    strategy.begin(2, sparse=sparse, n_classes=2)
    return strategy


def labels(scores: FloatArray) -> list[int]:
    return [int(score > 0) for score in scores]


def as_it_is(strategy: Any) -> dict[int, list[float]]:
    """Return the weights of each living model, by its number."""
    return {m.id: [*m.learner.coef.tolist(), m.learner.intercept] for m in strategy._live.members}


@dataclass(frozen=True)
class Case:
    name: str
    strategy: Callable[[], Any]
    twin: type[plain.Plain]
    settings: dict[str, Any] = field(default_factory=dict)

    def pair(self, rows: LabelledRows, sparse: bool = False) -> tuple[Any, Any]:
        return begun(self.strategy(), sparse), plain.made(self.twin, rows, seed=5, **self.settings)


def linear(age: int) -> float:
    return 1 - age / 70


def exponential(age: int) -> float:
    return math.pow(2.0, -age / 12)


RULES: tuple[Literal["each", "divided", "equal"], ...] = ("each", "divided", "equal")
CASES = [
    Case("oblivious", lambda: Oblivious(learner("saga"), seed=5), plain.PlainOblivious),
    Case("one pass", lambda: OnePass(learner(), seed=5), plain.PlainOnePass),
    Case("aware before", lambda: Aware(learner(), [9, 18], seed=5), plain.PlainAware, {"drifts": (9, 18)}),
    Case(
        "aware after",
        lambda: Aware(learner(), [9, 18], informed="after", seed=5),
        plain.PlainAware,
        {"drifts": (9, 18), "informed": "after"},
    ),
    Case("MDDM", lambda: ResetOnDrift(learner(), MDDM(), seed=5), plain.PlainMDDM),
    Case(
        "sliding window",
        lambda: SlidingWindow(learner(), window=70, seed=5),
        plain.PlainAgeing,
        {"span": 70, "faded": staticmethod(lambda age: 1.0)},
    ),
    Case(
        "window within a batch",
        lambda: SlidingWindow(learner(), window=20, seed=5),
        plain.PlainAgeing,
        {"span": 20, "faded": staticmethod(lambda age: 1.0)},
    ),
    Case(
        "linear decay",
        lambda: LinearDecay(learner(), window=70, seed=5),
        plain.PlainAgeing,
        {"span": 70, "faded": staticmethod(linear)},
    ),
    Case(
        "exponential decay",
        lambda: ExponentialDecay(learner(), half_life=12, seed=5),
        plain.PlainAgeing,
        {"span": 80, "faded": staticmethod(exponential)},
    ),
    Case("PERM", lambda: PERM(learner(), window=60, permutations=19, significance=0.1, seed=5), plain.PlainPERM),
    Case("paired learners", lambda: PairedLearners(learner(), window=60, threshold=0.15, seed=5), plain.PlainPaired),
    Case("DWM", lambda: DWM(learner(), period=7, experts=4, seed=5), plain.PlainDWM),
    Case(
        "DWM divided, heavy mistakes",
        lambda: DWM(learner(), beta=0.3, period=1, removal=0.2, experts=3, budget="divided", seed=5),
        plain.PlainDWM,
        {"beta": 0.3, "period": 1, "theta": 0.2, "most": 3, "budget": "divided"},
    ),
    Case("Learn++.NSE", lambda: LearnNSE(learner(), seed=5), plain.PlainNSE),
    Case(
        "Learn++.NSE of six",
        lambda: LearnNSE(learner(), experts=6, slope=1.0, crossing=2.0, seed=5),
        plain.PlainNSE,
        {"most": 6, "a": 1.0, "b": 2.0},
    ),
    Case("Candor", lambda: Candor(learner(), seed=5), plain.PlainCandor),
    Case(
        "Candor of four",
        lambda: Candor(learner(), experts=4, decay=2.0, seed=5),
        plain.PlainCandor,
        {"K": 4, "decay": 2.0},
    ),
    *(
        Case(
            f"AUE of {k}, {rule}",
            functools.partial(AUE, learner(), experts=k, budget=rule, seed=5),
            plain.PlainAUE,
            {"k": k, "budget": rule},
        )
        for k, rule in itertools.product((2, 10), RULES)
    ),
]
cases = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


@cases
@pytest.mark.parametrize(("sparse", "weighted"), [(False, False), (True, True)], ids=["dense", "sparse, weighted"])
def test_equals_its_reference_at_every_step(case: Case, sparse: bool, weighted: bool) -> None:
    rows = stream(3, weighted=weighted)
    strategy, twin = case.pair(rows, sparse)
    for batch, given in batches(rows, sparse):
        assert labels(strategy.test_scores(given)) == twin.predict(batch).tolist()
        twin.events = []
        decision = strategy.step(given)
        twin.step(batch)
        expected = {model.number: model.w.tolist() for model in twin.models()}
        assert as_it_is(strategy).keys() == expected.keys()
        for number, w in as_it_is(strategy).items():
            assert w == pytest.approx(expected[number], rel=1e-7, abs=1e-9)
        assert [t.step for t in decision.transitions] == twin.events
        assert strategy._pool.made == twin.made
        if isinstance(twin, plain.PlainEnsemble):
            assert strategy._live.weights == pytest.approx(twin.weights, rel=1e-7, abs=1e-9)
        if isinstance(twin, plain.PlainPaired):
            assert int(strategy._live.beaten.sum()) == sum(twin.C)


# ---------------------------------------------------------------------------- golden traces


def trace(case: Case) -> tuple[list[int], list[tuple[str, int]]]:
    """Return the number of wrong predictions of each batch, and the transitions."""
    rows = stream(3)
    strategy, _ = case.pair(rows)
    wrong, transitions = [], []
    for _, given in batches(rows):
        wrong.append(int((np.array(labels(strategy.test_scores(given))) != given.y).sum()))
        transitions += [(t.kind, t.step) for t in strategy.step(given).transitions]
    return wrong, transitions


RESET = [("reset", 9), ("reset", 18)]
GOLDEN: dict[str, tuple[str, list[tuple[str, int]]]] = {
    "oblivious": ("18 7 2 5 3 6 5 3 5 27 26 26 27 28 27 25 26 18 27 15 19 8 4 9 4 3", []),
    "one pass": ("18 9 2 4 2 6 4 5 5 27 25 10 4 5 3 4 5 4 25 26 12 6 7 2 2 1", []),
    "aware before": ("18 4 2 4 3 6 5 3 4 11 5 6 4 3 3 3 3 3 6 6 4 4 5 3 3 1", RESET),
    "aware after": ("18 4 2 4 3 6 5 3 4 27 5 6 4 3 3 3 3 3 26 6 4 4 5 3 3 1", RESET),
    "MDDM": ("18 4 2 4 3 6 5 3 4 27 5 6 4 3 3 3 3 3 26 6 4 4 5 3 3 1", RESET),
    "sliding window": ("18 4 2 3 3 6 4 5 4 27 25 7 3 5 4 2 3 3 25 26 6 4 5 2 2 1", []),
    "linear decay": ("18 5 2 3 3 6 4 6 4 27 25 10 4 6 3 2 3 3 25 26 11 5 6 2 3 1", []),
    "exponential decay": ("18 9 2 3 3 6 4 3 3 27 24 22 7 3 5 4 5 4 26 27 27 11 6 3 3 1", []),
    "PERM": ("18 4 2 4 4 6 5 5 4 27 5 5 4 4 2 4 3 3 26 6 4 4 5 2 3 1", [("reset", 3), *RESET]),
    "paired learners": (
        "18 4 2 4 3 6 5 3 4 27 25 20 4 3 1 3 3 3 26 26 27 5 7 2 2 1",
        [("replaced", 11), ("replaced", 20)],
    ),
    "DWM": ("18 4 2 4 4 6 5 6 4 27 23 4 3 4 1 4 3 3 26 19 4 4 5 2 3 1", []),
    "Learn++.NSE": ("15 4 11 11 7 3 7 2 9 24 16 4 3 8 3 5 3 7 25 6 8 6 5 7 8 6", []),
    "Candor": ("15 4 1 4 4 5 4 4 4 27 8 5 6 6 5 5 4 4 4 1 2 6 5 3 3 1", []),
    "AUE of 10, each": ("15 4 3 3 2 6 4 5 4 27 24 7 5 5 3 3 5 3 26 26 10 5 5 2 2 1", []),
    "AUE of 2, divided": ("15 4 2 10 7 7 5 8 8 19 6 5 9 6 6 8 3 8 22 6 10 7 6 3 3 1", []),
}


@pytest.mark.parametrize("name", GOLDEN)
def test_golden_trace(name: str) -> None:
    """Pins the behaviour: a change here is a change of the algorithm and must be intended."""
    wrong, transitions = trace(next(case for case in CASES if case.name == name))
    assert (" ".join(map(str, wrong)), transitions) == GOLDEN[name]


# ---------------------------------------------------------------------------- rows that age


@pytest.mark.parametrize(
    "strategy", [SlidingWindow(learner(), window=50), LinearDecay(learner(), window=50), ExponentialDecay(learner())]
)
def test_a_forgotten_row_takes_its_gradient_out_of_the_sum(strategy: Any) -> None:
    """With decay it is the gradient with the weight of the last visit: the sum always equals that of the table."""
    rows = stream(1)
    begun(strategy)
    for batch, given in batches(rows):
        strategy.step(given)
        state = strategy._live.model.learner.state()
        span = slice(state["lo"], state["admitted"])
        total = np.nansum(state["table"][:, None] * rows[0][span], axis=0)
        np.testing.assert_allclose(state["gradient_sum"], total, atol=1e-10)
        assert strategy._pool.samples.first_row == state["lo"] == max(0, batch.stop - strategy._span())


def test_a_row_is_kept_while_it_has_one_per_cent_of_its_weight() -> None:
    for half_life in (1, 12, 2.5, 1000):
        strategy = ExponentialDecay(learner(), half_life=half_life)
        ages = np.arange(strategy._span() + 1, dtype=float)
        assert np.array_equal(strategy._fading(ages) >= 0.01, ages < strategy._span())
    assert LinearDecay(learner(), window=4)._fading(np.arange(5.0)).tolist() == [1.0, 0.75, 0.5, 0.25, 0.0]


# ---------------------------------------------------------------------------- tests for drift


def test_signals_in_the_first_batch_reset_the_detector_and_not_the_model() -> None:
    strategy = begun(ResetOnDrift(LogisticRegression(), MDDM(window=5, delta=0.3)))
    y = np.repeat([0.0, 1.0, 0.0, 1.0], 10)  # an untrained model predicts 0
    assert not strategy.step(Batch(np.ones((40, 2)), y, np.ones(40))).transitions
    expected, rest, signals = MDDM(window=5, delta=0.3), y, 0
    while len(rest):
        rest = rest[expected.update(rest).consumed :]
        signals += expected.drift
    assert signals == 2
    assert to_bytes(strategy._live.memory.state()) == to_bytes(expected.state())


def test_without_drift_false_alarms_have_the_promised_rate_and_tests_are_cheap() -> None:
    """400 tests at 5 %: 20 alarms are expected, and more than 35 have a probability of 0.001."""
    alarms = spent = 0
    for seed in range(4):
        random = np.random.default_rng(seed)
        strategy = begun(PERM(learner(), window=80, permutations=39, significance=0.05, seed=seed))
        for _ in range(100):
            X = random.normal(size=(20, 2))
            y = (X[:, 0] + 0.5 * random.normal(size=20) > 0).astype(float)
            alarms += len(strategy.step(Batch(X, y, np.ones(20))).transitions)
        spent += strategy.test_gradients
    assert 5 <= alarms <= 35
    assert spent < 400 * 2 * 80 * 40 / 3, "a third of what it would take to try every permutation"


def test_rows_without_weight_are_no_evidence_of_a_drift() -> None:
    rows = stream(3)
    strategy = begun(PERM(learner(), window=60, permutations=19, significance=0.1, seed=5))
    for batch, given in batches(rows):
        step = batch.start // M
        decision = strategy.step(given._replace(weight=np.zeros(M)) if step == 9 else given)
        assert step != 9 or not decision.transitions


@pytest.mark.parametrize("max_rows", [None, 45])
def test_perm_keeps_its_rows_even_if_the_learner_keeps_none(max_rows: int | None) -> None:
    strategy = begun(
        PERM(learner("one-pass"), window=60, permutations=19, significance=0.05, max_rows=max_rows, seed=5)
    )
    resets = []
    for _, given in batches(stream(3)):
        resets += [t.step for t in strategy.step(given).transitions]
        assert len(strategy._pool.samples) <= (max_rows or 60)
    assert {9, 18} <= set(resets)


@pytest.mark.parametrize("sparse", [False, True])
def test_rows_are_reordered_from_the_middle_of_a_store(sparse: bool) -> None:
    X, y, _ = stream(0)
    samples = Samples(2, sparse=sparse)
    for part in (slice(0, 50), slice(50, 90)):
        samples.append(as_rows(X[part, :-1], sparse), y[part])
    samples.release(20)
    order = np.random.default_rng(0).permutation(40)
    found = gathered(samples.view(Segment(35, 75)).X, order)
    if isinstance(found, CSR):
        other = as_rows(X[35:75, :-1][order], True)
        assert isinstance(other, CSR)
        assert [a.tolist() for a in found[:3]] == [a.tolist() for a in other[:3]]
    else:
        assert np.array_equal(found, X[35:75, :-1][order])


# ---------------------------------------------------------------------------- ensembles


def test_candor_predicts_rows_without_labels_with_equal_votes() -> None:
    case = next(case for case in CASES if case.name == "Candor")
    rows = stream(3)
    strategy, twin = case.pair(rows)
    differ = 0
    for batch, given in batches(rows):
        assert labels(strategy.scores(given.X)) == twin.predict_unseen(batch).tolist()
        differ += labels(strategy.scores(given.X)) != labels(strategy.test_scores(given))
        strategy.step(given)
        twin.step(batch)
    assert differ > 10


def test_candor_reuses_test_results_only_for_the_tested_batch() -> None:
    given = [batch for _, batch in batches(stream())][:12]
    tested, untested = (begun(Candor(learner(), experts=4, seed=5)) for _ in range(2))
    for k, batch in enumerate(given):
        if k % 3 != 1:
            tested.test_scores(batch if k % 3 == 0 else given[0])
        assert tested.step(batch) == untested.step(batch)
    for strategy in (tested, untested):
        strategy.test_scores(given[0])
        strategy.reset("asked")
    assert tested.step(given[0]) == untested.step(given[0])
    assert to_bytes(tested.state()) == to_bytes(untested.state())


def test_stressing_mistakes_keeps_the_sum_of_the_weights() -> None:
    weight, scores = np.array([1.0, 2.0, 0.0, 1.0, 4.0]), np.array([1.0, -1.0, 1.0, -1.0, 1.0])
    batch = Batch(np.zeros((5, 1)), np.array([1.0, 1.0, 0.0, 0.0, 1.0]), weight)
    factor = emphasis(scores, batch)
    assert (factor * weight).sum() == pytest.approx(8.0)
    assert factor[1] / factor[0] == pytest.approx(4.0)  # the error is a quarter
    assert emphasis(scores, batch._replace(y=(scores > 0).astype(float))).tolist() == [1.0] * 5
    assert emphasis(scores, batch._replace(weight=np.zeros(5))).tolist() == [1.0] * 5


def test_paired_learners_keep_the_stable_model_without_drift() -> None:
    rows = stream(3, steps=9)
    strategy = begun(PairedLearners(learner(), window=60, threshold=0.15))
    for _, given in batches(rows):
        decision = strategy.step(given)
        assert not decision.transitions
        stable, reactive = strategy._live.members
        assert reactive.learner.rows_admitted <= 60
        assert [model.role for model in decision.models] == ["predictive", "reactive"]
    assert stable.learner.rows_admitted == len(rows[1])


# ---------------------------------------------------------------------------- options


class Weightless(LogisticRegression):
    capabilities = Capabilities(weights=False, anchor=False)


@pytest.mark.parametrize(
    ("kind", "name"),
    [(LinearDecay, "linear-decay"), (ExponentialDecay, "exponential-decay"), (LearnNSE, "learn-nse")],
)
def test_a_learner_without_weights_is_refused_by_name(kind: Any, name: str) -> None:
    with pytest.raises(CapabilityError, match=f"{name} needs.*'weights'.*Weightless"):
        kind(Weightless()).check()
    SlidingWindow(Weightless()).check()


def test_a_learner_that_cannot_be_anchored_is_refused_by_name() -> None:
    with pytest.raises(CapabilityError, match=r"candor needs.*'anchor'.*Weightless"):
        Candor(Weightless()).check()


def test_a_learner_that_cannot_learn_in_one_pass_is_refused_by_name() -> None:
    with pytest.raises(CapabilityError, match=r"one-pass needs.*'one_pass'.*Weightless"):
        OnePass(Weightless()).check()


@pytest.mark.parametrize(
    ("kind", "option", "value"),
    [
        (SlidingWindow, "window", 0),
        (SlidingWindow, "max_rows", 0),
        (LinearDecay, "window", 1.5),
        (LinearDecay, "dtype", "int8"),
        (ExponentialDecay, "half_life", 0),
        (ExponentialDecay, "half_life", math.inf),
        (PERM, "window", 0),
        (PERM, "permutations", 0),
        (PERM, "permutations", 98),
        (PERM, "significance", 0.0),
        (PERM, "significance", 1.0),
        (PairedLearners, "window", "long"),
        (PairedLearners, "threshold", 1.0),
        (PairedLearners, "threshold", -0.1),
        (DWM, "beta", 1.0),
        (DWM, "beta", 0.0),
        (DWM, "period", 0),
        (DWM, "removal", 1.0),
        (DWM, "experts", 0),
        (DWM, "budget", "equal"),
        (LearnNSE, "experts", 0),
        (LearnNSE, "slope", -1.0),
        (LearnNSE, "crossing", math.nan),
        (AUE, "experts", 0),
        (AUE, "budget", "half"),
        (Candor, "experts", None),
        (Candor, "decay", -0.5),
        (Aware, "informed", "later"),
        (Aware, "drift_steps", [-1]),
        (Oblivious, "max_rows", -1),
        (OnePass, "max_rows", 0),
    ],
)
def test_errors_for_bad_options_name_the_value(kind: Any, option: str, value: Any) -> None:
    with pytest.raises(OptionError, match=option) as error:
        kind(learner(), **{option: value}).check()
    assert repr(value[0] if isinstance(value, list) else value) in str(error.value)


def test_options_of_the_detector_are_checked() -> None:
    with pytest.raises(OptionError, match=r"window.*0"):
        ResetOnDrift(learner(), MDDM(window=0)).check()


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("Aware", {"drift_steps": 3}, "drift_steps.*3"),
        ("ResetOnDrift", {"detector": "mddm"}, "detector.*'mddm'"),
        ("ResetOnDrift", {"detector": MDDM}, MDDM.__name__),
        ("AUE", {"learner": None}, "learner.*None"),
        ("DWM", {"seed": 1.5}, r"seed.*1\.5"),
    ],
)
def test_common_mistakes_are_named(name: str, options: dict[str, Any], message: str) -> None:
    strategy = getattr(strategies, name)(**({"learner": LogisticRegression()} | options))
    with pytest.raises(OptionError, match=message):
        strategy.check()


def test_the_state_of_another_strategy_is_refused_by_name() -> None:
    one, other = strategies.AUE(LogisticRegression()), strategies.DWM(LogisticRegression())
    one.begin(1, sparse=False, n_classes=2)
    with pytest.raises(StateError, match="DWM"):
        other.restore(one.state(), 1, sparse=False, n_classes=2)


@pytest.mark.parametrize("weight", [0.0, 0.5, 2.0, 5e-324])
def test_weights_that_dwm_cannot_have_are_refused(weight: float) -> None:
    one, other = strategies.DWM(LogisticRegression()), strategies.DWM(LogisticRegression())
    one.begin(1, sparse=False, n_classes=2)
    state = dict(one.state())
    other.restore(state, 1, sparse=False, n_classes=2)
    with pytest.raises(StateError) as error:
        other.restore(state | {"weights": np.array([weight])}, 1, sparse=False, n_classes=2)
    assert error.value.entry == "weights"
