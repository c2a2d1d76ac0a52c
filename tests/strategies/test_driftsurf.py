"""DriftSurf against its slow reference, the cases of the paper, and its records."""

from __future__ import annotations

import copy
import json
import math
import warnings
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from generic_steps import stepping_generically
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_strategies import PlainDriftSurf, with_constant

from driftsurf import registry
from driftsurf.core.contracts import Batch, Segment
from driftsurf.core.decisions import Decision
from driftsurf.core.state import to_bytes
from driftsurf.errors import DivergenceError, OptionError
from driftsurf.learners import LogisticRegression
from driftsurf.learners._learner import Update
from driftsurf.native.rule import challenger_predicts, entering, switching
from driftsurf.strategies import AuthorsDriftSurf, DriftSurf

ETA, MU, M = 0.1, 1e-3, 40


Batches = list[tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]]


def turning_batches(angles: list[float], *, seed: int = 0, m: int = 200) -> Batches:
    """Return batches of two classes, separated by a line through the origin at another angle in each step."""
    rng = np.random.default_rng(seed)
    batches = []
    for angle in angles:
        X = rng.normal(size=(m, 2))
        side = math.cos(angle) * X[:, 0] + math.sin(angle) * X[:, 1] + 0.3 * rng.normal(size=m)
        batches.append((X, np.where(side > 0, 1, -1)))
    return batches


def flipping_batches(flips: set[int], steps: int, *, seed: int = 0, m: int = M) -> Batches:
    """Return batches whose labels are inverted at the given steps."""
    return turning_batches([math.pi * sum(flip <= step for flip in flips) for step in range(steps)], seed=seed, m=m)


def make(seed: int = 0, *, learner: LogisticRegression | None = None, n_features: int = 2, **options: Any) -> DriftSurf:
    learner = LogisticRegression(step_size=ETA, l2=MU, start="uniform") if learner is None else learner
    kind = AuthorsDriftSurf if options.pop("variant", "algorithm-1") == "authors" else DriftSurf
    strategy = kind(learner, seed=seed, **({"max_rows": None} | options))
    strategy.begin(n_features, sparse=False, n_classes=2)
    return strategy


def feed(strategy: DriftSurf, X: Any, y: Any) -> Decision:
    return strategy.step(Batch(np.ascontiguousarray(X), (y > 0).astype(float), np.ones(len(y))))


def run(strategy: DriftSurf, batches: Any) -> list[Decision]:
    return [feed(strategy, X, y) for X, y in batches]


def kinds(decisions: list[Decision]) -> list[tuple[str, int]]:
    return [(t.kind, t.step) for decision in decisions for t in decision.transitions]


# ---------------------------------------------------------------------------- the twin


@pytest.mark.parametrize("variant", ["algorithm-1", "authors"])
@pytest.mark.parametrize("greedy", [True, False])
@pytest.mark.parametrize("budget", ["each", "divided"])
@pytest.mark.parametrize("steps_per_row", [2.0, 1.0, 0.875])
def test_equals_the_reference(variant: Any, greedy: bool, budget: Any, steps_per_row: float) -> None:
    batches = flipping_batches({10, 24, 26, 40, 41, 43}, 55, seed=3)
    learner = LogisticRegression(step_size=ETA, l2=MU, start="uniform", steps_per_row=steps_per_row)
    strategy = make(7, learner=learner, variant=variant, greedy=greedy, budget=budget)
    twin = PlainDriftSurf(
        2,
        eta=ETA,
        mu=MU,
        seed=7,
        rho=int(steps_per_row * M),
        greedy=greedy,
        divided=budget == "divided",
        authors=variant == "authors",
    )
    reacted = set()
    for X, y in batches:
        rows = with_constant(X, y)
        assert [twin.predict(x) for x, _ in rows] == np.where(strategy.scores(X) > 0, 1, -1).tolist()
        decision = feed(strategy, X, y)
        twin.step(rows)
        expected = twin.log[-1]
        assert decision.condition == expected["condition"]
        assert [t.kind for t in decision.transitions] == expected["events"]
        assert decision.models[0].risk_before == pytest.approx(expected["risk"], rel=1e-9)
        reacted |= set(expected["events"])
    assert {"entered", "switched"} <= reacted


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    flips=st.sets(st.integers(1, 24), max_size=5),
    r=st.integers(1, 5),
    delta=st.sampled_from([0.02, 0.1, 0.3]),
    variant=st.sampled_from(["algorithm-1", "authors"]),
)
def test_equals_the_reference_on_random_data(seed: int, flips: set[int], r: int, delta: float, variant: Any) -> None:
    strategy = make(seed, variant=variant, reactive_length=r, threshold=delta)
    twin = PlainDriftSurf(2, eta=ETA, mu=MU, seed=seed, rho=30, r=r, delta=delta, authors=variant == "authors")
    for X, y in flipping_batches(flips, 25, seed=seed, m=15):
        decision = feed(strategy, X, y)
        twin.step(with_constant(X, y))
        assert [t.kind for t in decision.transitions] == twin.log[-1]["events"]
        assert decision.models[0].risk_before == pytest.approx(twin.log[-1]["risk"], rel=1e-8)


# ---------------------------------------------------------------------------- the cases of the paper


def test_recovers_from_an_abrupt_drift_within_one_reactive_state() -> None:
    decisions = run(make(), flipping_batches({15}, 30, m=200))
    assert kinds(decisions)[:3] == [("entered", 15), ("greedy", 15), ("switched", 18)]
    assert decisions[16].trained_from == 15 * 200  # the new model predicts from the next step on


@pytest.mark.parametrize("seed", range(6))
def test_a_second_drift_inside_a_reactive_state_is_recovered_through_the_stable_model(seed: int) -> None:
    """The corner case of the paper: both models are trained on a mixture; condition 2 gets out of it.

    The second drift comes one step into the reactive state, so the model that leaves it has seen two
    concepts, and its best risk is poor: only the stable model shows that better is possible.
    """
    third = 2 * math.pi / 3
    batches = turning_batches([0.0] * 20 + [third] + [2 * third] * 35, seed=seed)
    recovered = {}
    for name, stable_threshold in {"with": None, "without": math.inf}.items():
        decisions = run(make(seed, stable_threshold=stable_threshold), batches)
        assert decisions[20].condition == 1
        recovered[name] = next((d.step for d in decisions if d.trained_from >= 21 * 200), math.inf)
        if name == "with":
            assert next(d.condition for d in decisions[21:] if d.condition) == 2
    assert recovered["with"] <= 20 + 2 * 4
    assert recovered["without"] > recovered["with"] + 4


@pytest.mark.parametrize("seed", range(5))
def test_a_virtual_drift_keeps_the_old_model(seed: int) -> None:
    """Only p(x) changes: rows come from near the boundary, where the best model errs more often too."""
    rng = np.random.default_rng(seed)
    strategy = make(learner=LogisticRegression(step_size=0.01, l2=1e-3))
    decisions = []
    for step in range(50):
        X = rng.normal(size=(1000, 2)) * ([1.0, 1.0] if step < 30 else [0.25, 1.0])
        y = np.where(X[:, 0] + 0.2 * rng.normal(size=1000) > 0, 1, -1)
        decisions.append(feed(strategy, X, y))
    assert kinds(decisions)[:1] == [("entered", 30)]
    assert ("kept", 33) in kinds(decisions)
    assert decisions[33].predicts_next == 0


@pytest.mark.parametrize("seed", range(3))
def test_false_alarms_keep_the_old_model(seed: int) -> None:
    """Without drift, but with a threshold so low that the noise of the batches looks like a sign."""
    learner = LogisticRegression(step_size=0.01, l2=1e-3)
    decisions = run(make(seed, threshold=0.02, learner=learner), flipping_batches(set(), 100, seed=seed))
    exits = [kind for kind, step in kinds(decisions) if step > 20 and kind in ("kept", "switched")]
    assert len(exits) >= 5
    assert set(exits) == {"kept"}
    assert {d.predicts_next for d in decisions if d.state == "stable" and d.step > 20} == {0}


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 1000), flips=st.sets(st.integers(1, 29), max_size=6), r=st.integers(1, 5))
def test_the_sample_set_has_r_batches_after_any_exit(seed: int, flips: set[int], r: int) -> None:
    strategy = make(seed, reactive_length=r, threshold=0.05)
    for X, y in flipping_batches(flips, 30, seed=seed, m=20):
        decision = feed(strategy, X, y)
        left = {t.kind for t in decision.transitions} & {"switched", "kept"}
        if left or (decision.state == "stable" and decision.step >= r):
            assert strategy._live.predictive.learner.rows_admitted >= r * 20  # type: ignore[attr-defined]


@pytest.mark.parametrize("budget", ["each", "divided"])
def test_at_most_two_models_train_and_the_budget_is_spent_exactly(budget: Any) -> None:
    learner = LogisticRegression(step_size=ETA, l2=MU, steps_per_batch=71)
    strategy = make(learner=learner, budget=budget)
    two_seen = False
    for decision in run(strategy, flipping_batches({10, 12, 20}, 30)):
        training = [m for m in decision.models if m.gradients]
        two_seen |= len(training) == 2
        assert len(training) <= 2
        if budget == "each":
            assert [m.gradients for m in training] == [71] * len(training)
        else:
            assert decision.gradients == 71
    assert two_seen


def test_without_greedy_the_old_model_predicts_until_the_end() -> None:
    decisions = run(make(greedy=False), flipping_batches({15}, 25, m=200))
    assert not any(kind == "greedy" for kind, _ in kinds(decisions))
    assert {d.predicted_by for d in decisions[15:19]} == {0}


def test_the_best_risk_belongs_to_the_model() -> None:
    """A model that takes over brings its own best risk; a model that stays keeps its own."""
    decisions = run(make(), flipping_batches({15}, 30))
    records: dict[int, list[float]] = {}
    for decision in decisions:
        for record in decision.models:
            if record.risk_before is not None:
                records.setdefault(record.id, []).append(record.risk_before)
                assert record.best_risk == min(records[record.id])
    assert len(records) >= 2


# ---------------------------------------------------------------------------- records


def replay(line: dict[str, Any]) -> tuple[int, bool | None, bool | None]:
    """Repeat a decision from one line of the journal: (condition, challenger predicts, switched)."""
    models = {m["role"]: m for m in line["models"]}

    def number(role: str, name: str) -> float:
        value = models.get(role, {}).get(name)
        return math.nan if value is None else value

    condition = 0
    if line["reactive_step"] <= 1:  # stable, or just entered
        condition = entering(
            number("predictive", "risk_before"),
            number("predictive", "best_risk"),
            number("stable", "risk_before"),
            line["threshold"],
            line["stable_threshold"],
        )
    challenged = switched = None
    if line["reactive_step"] == line["reactive_length"]:
        switched = switching(number("predictive", "risk_reactive"), number("reactive", "risk_reactive"))
    elif line["reactive_step"]:
        when = "risk_before" if line["variant"] == "authors" else "risk_after"
        old, new = number("predictive", when), number("reactive", when)
        challenged = challenger_predicts(old, new, line["greedy"])
    return condition, challenged, switched


@pytest.mark.parametrize("greedy", [True, False])
@pytest.mark.parametrize("variant", ["algorithm-1", "authors"])
def test_every_decision_follows_from_its_record(greedy: bool, variant: Any) -> None:
    strategy = make(greedy=greedy, threshold=0.05, variant=variant)
    decisions = run(strategy, flipping_batches({10, 12, 25, 27, 40}, 60))
    for decision in decisions:
        line = json.loads(json.dumps(decision.to_dict()))
        condition, challenged, switched = replay(line)
        kinds = {t.kind for t in decision.transitions}
        ids = {m.role: m.id for m in decision.models}
        assert condition == decision.condition
        assert (condition > 0) == ("entered" in kinds)
        if challenged is not None:
            assert decision.predicts_next == ids["reactive" if challenged else "predictive"]
        if switched is not None:
            assert ("switched" in kinds) == switched
            assert decision.predicts_next == ids["reactive" if switched else "predictive"]


def test_golden_trace() -> None:
    """Pins the behaviour: a change here is a change of the algorithm and must be intended."""
    decisions = run(make(11), flipping_batches({10, 22, 23}, 32, seed=5))
    assert kinds(decisions) == GOLDEN_TRANSITIONS
    risks = [round(float(d.models[0].risk_before or 0.0), 6) for d in decisions[:12]]
    assert risks == GOLDEN_RISKS


GOLDEN_TRANSITIONS = [
    ("entered", 10),
    ("greedy", 10),
    ("switched", 13),
    ("entered", 14),
    ("kept", 17),
    ("entered", 20),
    ("greedy", 22),
    ("switched", 23),
    ("entered", 24),
    ("greedy", 24),
    ("switched", 27),
    ("entered", 30),
]
GOLDEN_RISKS = [
    *(0.624352, 0.31262, 0.290846, 0.2356, 0.206144, 0.279948),
    *(0.233883, 0.285099, 0.303757, 0.219727, 3.283111, 2.08617),
]


# ---------------------------------------------------------------------------- atomicity, cap, state


def test_a_failing_update_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second model fails after the first one has learned: both are restored, and so is the store."""
    strategy = stepping_generically(make())
    batches = flipping_batches({15}, 20)
    run(strategy, batches[:17])
    assert strategy._live.reactive is not None
    before = to_bytes(strategy.state())

    end, reactive = Update.end, strategy._live.reactive.learner

    def fail(update: Update) -> None:
        if update.model is reactive:
            raise DivergenceError("on purpose")
        end(update)

    monkeypatch.setattr(Update, "end", fail)
    with pytest.raises(DivergenceError):
        feed(strategy, *batches[17])
    assert to_bytes(strategy.state()) == before
    monkeypatch.undo()
    undisturbed = make()
    expected = run(undisturbed, batches)
    assert [feed(strategy, *batch) for batch in batches[17:]] == expected[17:]
    assert to_bytes(strategy.state()) == to_bytes(undisturbed.state())


def test_an_interrupt_during_the_comparison_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    strategy = stepping_generically(make())
    batches = flipping_batches({10}, 20)
    run(strategy, batches[:10])
    before = to_bytes(strategy.state())

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(strategy, "_choose", interrupt)
    with pytest.raises(KeyboardInterrupt):
        feed(strategy, *batches[10])
    assert to_bytes(strategy.state()) == before


@pytest.mark.parametrize("variant", ["algorithm-1", "authors"])
def test_max_rows_drops_the_oldest_rows_first(variant: Any) -> None:
    strategy = make(max_rows=300, variant=variant)
    for X, y in flipping_batches({20, 40}, 80):
        feed(strategy, X, y)
        assert len(strategy._pool.samples) <= 300 + M
        assert strategy._live.predictive.learner.rows_admitted <= 300  # type: ignore[attr-defined]
    assert strategy._pool.samples.next_row == 80 * M


def test_rows_that_no_model_needs_are_freed() -> None:
    strategy = make(max_rows=None)
    decisions = run(strategy, flipping_batches({15}, 30, m=200))
    assert ("switched", 18) in kinds(decisions)
    assert strategy._pool.samples.first_row == 15 * 200


def test_a_max_rows_that_is_never_reached_changes_no_bit() -> None:
    batches = flipping_batches({15}, 30)
    capped, free = make(max_rows=10_000), make(max_rows=None)
    assert run(capped, batches) == run(free, batches)
    assert to_bytes(capped.state()) == to_bytes(free.state())


@pytest.mark.parametrize("variant", ["algorithm-1", "authors"])
@pytest.mark.parametrize("cut", range(0, 30, 3))
def test_restoring_in_the_middle_of_any_state_changes_nothing(variant: Any, cut: int) -> None:
    batches = flipping_batches({10, 12, 20}, 30)
    whole = make(3, variant=variant)
    expected = run(whole, batches)
    first = make(3, variant=variant)
    run(first, batches[:cut])
    second = make(3, variant=variant)
    second.restore(first.state(), 2, sparse=False, n_classes=2)
    assert run(second, batches[cut:]) == expected[cut:]
    assert to_bytes(second.state()) == to_bytes(whole.state())


def test_max_rows_holds_for_a_model_that_pauses_forever() -> None:
    """In the authors' variant a stable model pauses during reactive states; its rows must not pile up."""
    strategy = make(max_rows=500, variant="authors", threshold=0.0, stable_threshold=0.0, reactive_length=2)
    for X, y in flipping_batches({10}, 150):
        feed(strategy, X, y)
        assert len(strategy._pool.samples) <= 500 + 3 * M


@pytest.mark.parametrize("variant", ["algorithm-1", "authors"])
def test_scores_are_those_of_the_last_complete_step(variant: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A prediction during a step is not affected by it."""
    strategy = stepping_generically(make(variant=variant))
    batches = flipping_batches({10}, 14)
    run(strategy, batches[:12])
    X = batches[0][0]
    before = strategy.scores(X)
    seen = []
    choose = strategy._choose

    def peek(now: Any, verdict: Any) -> None:
        seen.append(strategy.scores(X))
        choose(now, verdict)

    monkeypatch.setattr(strategy, "_choose", peek)
    feed(strategy, *batches[12])
    assert np.array_equal(seen[0], before)
    assert not np.array_equal(strategy.scores(X), before)


def test_batches_of_one_row_and_of_one_class_work() -> None:
    strategy = make()
    for X, y in flipping_batches({3}, 8, m=30):
        for i in range(len(y)):
            feed(strategy, X[i : i + 1], y[i : i + 1])
        feed(strategy, X, np.ones(len(y), int))
    assert np.isfinite(strategy.scores(np.zeros((1, 2)))).all()


def test_a_batch_without_weight_does_not_count_as_evidence() -> None:
    strategy = make()
    batches = flipping_batches(set(), 12)
    run(strategy, batches)
    best = strategy._live.predictive.best_risk
    X, y = batches[0]
    decision = strategy.step(Batch(X, (y < 0).astype(float), np.zeros(len(y))))
    assert math.isnan(decision.models[0].risk_before or 0.0)
    assert decision.transitions == ()
    assert strategy._live.predictive.best_risk == best


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("threshold", -0.1),
        ("threshold", "high"),
        ("threshold", math.nan),
        ("stable_threshold", -1),
        ("reactive_length", 0),
        ("reactive_length", 2.5),
        ("variant", "paper"),
        ("budget", "half"),
        ("max_rows", 0),
        ("dtype", "int8"),
    ],
)
def test_errors_for_bad_options_name_option_and_value(option: str, value: Any) -> None:
    with pytest.raises(OptionError, match=option) as error:
        DriftSurf(LogisticRegression(), **{option: value}).check()
    assert repr(value) in str(error.value)


def test_the_length_of_a_segment_is_its_number_of_rows() -> None:
    assert len(Segment(3, 10)) == 7


def test_the_variant_of_the_authors_is_a_strategy_of_its_own() -> None:
    with pytest.warns(FutureWarning, match="driftsurf-authors"):
        former = DriftSurf(LogisticRegression(), variant="authors", budget="divided", seed=3)
    named = registry.get("strategy", "driftsurf-authors").make(LogisticRegression(), budget="divided", seed=3)
    assert repr(former) == repr(named)
    batches = flipping_batches({10, 17}, 25)
    for one in (former, named):
        one.begin(2, sparse=False, n_classes=2)
    assert run(former, batches) == run(named, batches)
    state = former.state()
    assert state["strategy"] == "DriftSurf"  # as version 0.2 saved it
    named.restore(state, 2, sparse=False, n_classes=2)
    assert to_bytes(named.state()) == to_bytes(former.state())
    with pytest.warns(FutureWarning, match="driftsurf-authors"):
        changed = DriftSurf(LogisticRegression(), seed=3).set_params(budget="divided", variant="authors")
    assert repr(changed) == repr(named)


def test_the_variant_of_the_authors_cannot_become_another_one() -> None:
    named = AuthorsDriftSurf(LogisticRegression())
    named.variant = "authors"
    with pytest.raises(OptionError, match=r"variant is 'algorithm-1'.*use DriftSurf"):
        named.variant = "algorithm-1"
    assert named.variant == "authors"
    with pytest.warns(FutureWarning, match="driftsurf-authors"):
        former = DriftSurf(LogisticRegression(), variant="authors")
    with pytest.raises(OptionError, match="'algorithm-1'"):
        former.variant = "algorithm-1"

    class Mine(DriftSurf):
        pass

    with pytest.raises(OptionError, match="derive Mine from AuthorsDriftSurf"):
        Mine(LogisticRegression(), variant="authors")
    assert Mine(LogisticRegression()).variant == "algorithm-1"


def test_a_former_spelling_warns_once_at_the_line_of_the_caller() -> None:
    with pytest.warns(FutureWarning, match="driftsurf-authors") as found:
        strategy = DriftSurf(LogisticRegression(), variant="authors")
    assert [one.filename for one in found] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        copy.deepcopy(strategy).fresh(1)
