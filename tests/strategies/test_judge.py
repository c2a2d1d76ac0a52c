"""The prequential judge, and thresholds in units of the trivial risk."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from driftsurf.core.contracts import Batch, Capabilities
from driftsurf.core.decisions import Decision
from driftsurf.core.state import from_bytes, to_bytes
from driftsurf.errors import CapabilityError, OptionError
from driftsurf.learners import LinearRegression, LogisticRegression
from driftsurf.learners.foreign import SklearnLearner
from driftsurf.native.rule import USUAL_BATCHES, challenger_predicts, switching
from driftsurf.runs.explanation.explain import explain
from driftsurf.strategies import DriftSurf
from driftsurf.strategies.driftsurf_state import WINDOW, RiskUnit


def batches(steps: int = 40, flips: tuple[int, ...] = (10, 25), m: int = 100, seed: int = 0) -> list[Batch]:
    random, sign, made = np.random.default_rng(seed), 1, []
    for step in range(steps):
        sign = -sign if step in flips else sign
        X = random.normal(size=(m, 2))
        y = (sign * X[:, 0] + 0.3 * random.normal(size=m) > 0).astype(float)
        made.append(Batch(X, y, random.choice(np.array([1.0, 0.5, 2.0]), m)))
    return made


def make(learner: Any = None, n_classes: int = 2, **options: Any) -> DriftSurf:
    strategy = DriftSurf(LogisticRegression() if learner is None else learner, seed=1, **options)
    strategy.check()
    strategy.begin(2, sparse=False, n_classes=n_classes)
    return strategy


def run(strategy: DriftSurf, rows: list[Batch]) -> list[Decision]:
    return [strategy.step(batch) for batch in rows]


TREE = SklearnLearner(DecisionTreeClassifier(max_depth=3))


@pytest.mark.parametrize("greedy", [True, False])
@pytest.mark.parametrize("reactive_length", [2, 4])
@pytest.mark.parametrize("learner", [LogisticRegression(), TREE])
def test_every_prequential_decision_follows_from_the_risks_before_learning(
    greedy: bool, reactive_length: int, learner: Any
) -> None:
    rows = batches(60, (10, 12, 25, 40))
    strategy = make(learner, judge="prequential", greedy=greedy, reactive_length=reactive_length, threshold=0.03)
    cautious = learner is TREE
    contest: list[tuple[float, float, float]] = []
    reactions, credit, gain, chosen = 0, 0.0, 0.0, False
    for batch in rows:
        decision = strategy.step(batch)
        risks = {m.role: math.nan if m.risk_before is None else m.risk_before for m in decision.models}
        ids = {m.role: m.id for m in decision.models}
        assert decision.judge == "prequential"
        assert all(m.risk_after is None for m in decision.models)
        if not decision.reactive_step:
            continue
        old, new = risks["predictive"], risks["reactive"]
        if decision.reactive_step == 1:
            reactions += 1
            contest, gain, chosen = [], 0.0, False
            assert math.isnan(new)  # no risk on the batch it was made for
        else:
            contest.append((old, new, batch.weight.sum()))
            gain += (old - new) * (chosen and cautious)
        assert decision.greedy_credit == (pytest.approx(credit) if cautious else None)
        if decision.reactive_step == reactive_length:
            total = [sum(part[k] * part[2] for part in contest) / sum(part[2] for part in contest) for k in (0, 1)]
            switched = switching(*total)
            assert decision.predicts_next == ids["reactive" if switched else "predictive"]
            last = decision.transitions[-1]
            assert (last.kind, last.over) == ("switched" if switched else "kept", reactive_length - 1)
            assert (last.right, last.left) == pytest.approx(tuple(total))
            credit = min(1.0, max(-1.0, credit + gain))
        else:
            chosen = challenger_predicts(old, new, greedy)
            challenged = chosen and credit >= 0.0
            assert decision.predicts_next == ids["reactive" if challenged else "predictive"]
    assert reactions >= 4


def test_the_greedy_policy_rests_while_it_loses_and_returns_when_it_would_have_gained() -> None:
    """The labels turn every three batches, so that the model that was better on the last batch is worse on the next."""
    rows = [*batches(60, tuple(range(3, 60, 3))), *batches(80, tuple(range(0, 80, 9)), seed=1)]
    decisions = run(make(TREE, threshold=0.3), rows)
    led = [d.step for d in decisions for m in d.models if m.role == "reactive" and d.predicts_next == m.id]
    assert [step for step in led if step < 60] == [4, 5]
    assert [step for step in led if step >= 80] == [step for step in range(80, 140) if step % 9 in (7, 8, 0)]
    assert decisions[59].greedy_credit == -1.0
    assert decisions[-1].greedy_credit == 1.0


def test_a_tree_that_fits_its_rows_needs_the_prequential_judge() -> None:
    """A fresh tree fits the few rows of T better than one trained on many more, but predicts worse."""
    rows = batches(60, (), seed=2)
    tree = SklearnLearner(DecisionTreeClassifier(max_depth=5))
    switches = {}
    for judge in ("training", "auto"):
        decisions = run(make(tree, judge=judge, threshold=0.02), rows)
        kinds = [t.kind for d in decisions for t in d.transitions]
        switches[judge] = kinds.count("switched") / max(1, kinds.count("entered"))
    assert switches["training"] > 0.9
    assert switches["auto"] < 0.5


def test_auto_judge_follows_the_capabilities_of_the_learner() -> None:
    rows = batches(1)
    assert run(make(), rows)[0].judge == "training"
    assert run(make(SklearnLearner(DecisionTreeClassifier())), rows)[0].judge == "prequential"
    with pytest.warns(FutureWarning, match="driftsurf-authors"):
        authors = make(SklearnLearner(DecisionTreeClassifier()), variant="authors")
    assert run(authors, rows)[0].judge == "training"


def test_prequential_keeps_no_rows_for_the_comparison() -> None:
    strategy = make(judge="prequential", max_rows=50)
    for batch in batches(30):
        strategy.step(batch)
        assert len(strategy._pool.samples) <= 50
        assert strategy._live.trial == ()


@pytest.mark.parametrize("cut", [11, 12, 13, 20])
def test_the_prequential_judge_is_saved_and_restored_in_any_state(cut: int) -> None:
    rows = batches()
    whole, first, second = (make(judge="prequential") for _ in range(3))
    expected = run(whole, rows)
    run(first, rows[:cut])
    second.restore(from_bytes(to_bytes(first.state())), 2, sparse=False, n_classes=2)
    assert run(second, rows[cut:]) == expected[cut:]
    assert to_bytes(second.state()) == to_bytes(whole.state())


def test_batches_without_weight_are_no_evidence_for_a_switch() -> None:
    rows = batches(20, (10,))
    strategy = make(judge="prequential", threshold=0.3)
    assert story(run(strategy, rows[:11])) == [("entered", 10)]
    decisions = run(strategy, [batch._replace(weight=np.zeros(100)) for batch in rows[11:14]])
    assert [t.kind for d in decisions for t in d.transitions] == ["kept"]
    assert "without evidence" in decisions[-1].transitions[-1].describe()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"judge": "jury"}, "'auto', 'training', 'prequential'"),
        ({"judge": "prequential", "reactive_length": 1}, "reactive_length"),
        ({"judge": "prequential", "variant": "authors"}, "algorithm-1"),
        ({"significance": -1.0}, "-1"),
        ({"significance": 1.0, "judge": "training"}, "'training'|training"),
        ({"significance": 1.0, "variant": "authors"}, "authors"),
        ({"significance": 1.0, "reactive_length": 2}, "at least 3"),
        ({"threshold_unit": "metre"}, "'auto', 'risk', 'trivial'"),
    ],
)
@pytest.mark.filterwarnings("ignore:variant='authors':FutureWarning")
def test_invalid_options_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(OptionError, match=words):
        make(**options)
    with pytest.raises(OptionError, match="reactive_length"):
        make(SklearnLearner(DecisionTreeClassifier()), reactive_length=1)


def test_the_trivial_unit_is_for_regression() -> None:
    with pytest.raises(CapabilityError, match="'regression'"):
        make(threshold_unit="trivial")


# ---------------------------------------------------------------------------- the unit of a risk


def turning(steps: int, *, scale: float = 1.0, offset: float = 0.0, noise: float = 0.5, at: int = 20) -> list[Batch]:
    random, made = np.random.default_rng(4), []
    for step in range(steps):
        X = random.normal(size=(100, 2))
        y = (X[:, 0] if step < at else X[:, 1]) + noise * random.normal(size=100)
        made.append(Batch(X, offset + scale * y, np.ones(100)))
    return made


def story(decisions: list[Decision]) -> list[tuple[str, int]]:
    return [(t.kind, t.step) for d in decisions for t in d.transitions]


@pytest.mark.parametrize("learner", [LinearRegression(), SklearnLearner(DecisionTreeRegressor(max_depth=3), rows=500)])
def test_a_regression_predicts_after_a_clear_lead_and_replaces_after_a_better_batch_or_several(learner: Any) -> None:
    """Recompute every decision of a prequential regression, some of which a plain comparison would reverse."""
    random = np.random.default_rng(1)
    strategy = make(learner, 0, judge="prequential", threshold=0.02)
    cautious = not isinstance(learner, LinearRegression)
    contest: list[tuple[float, float, float]] = []
    credit, gain, chosen = 0.0, 0.0, False
    close = late = 0
    for step in range(300):
        X = random.normal(size=(30, 2))
        level = 3.0 * math.sin(step / 7)  # wanders, so that a new model is better for a while
        y = X[:, step // 40 % 2] + level + random.normal(size=30) * (0.3 if step % 5 else 4.0)
        decision = strategy.step(Batch(X, y, np.ones(30)))
        roles = {m.role: m for m in decision.models}
        if decision.reactive_step == 1:
            contest, gain, chosen = [], 0.0, False
            assert roles["reactive"].risk_before is None
            assert decision.predicts_next == roles["predictive"].id
        elif decision.reactive_step:
            old, new = (roles[role].risk_before or 0.0 for role in ("predictive", "reactive"))
            assert decision.threshold is not None
            assert decision.risk_unit is not None
            contest.append((old, new, decision.threshold / 5))
            gain += (old - new) / decision.risk_unit * (chosen and cautious)
            if decision.reactive_step < 4:
                chosen = new < 2 / 3 * old
                close += chosen != (new < old)
                ahead = chosen and credit >= 0.0
            else:
                total = np.mean(contest, axis=0)
                judged = contest if cautious else [(old, new, 0.0)]
                ahead = total[1] < total[0] and all(b < a - margin for a, b, margin in judged)
                late += total[1] < total[0] and not ahead
                assert decision.transitions[-1].kind == ("switched" if ahead else "kept")
                credit = min(1.0, max(-1.0, credit + gain))
            assert decision.predicts_next == roles["reactive" if ahead else "predictive"].id
        for transition in decision.transitions:
            assert transition.left is not None
            assert transition.right is not None
            holds = transition.left < transition.right + transition.margin
            if transition.kind == "greedy":
                assert holds == (transition.new > transition.old)
                assert (" - " in transition.reason) == (transition.margin < 0.0)
            elif transition.kind != "entered":  # what is said must be true
                assert holds == (transition.kind == "switched")
    assert close >= 3
    assert late >= 2


def test_one_threshold_suits_targets_of_any_scale() -> None:
    expected = story(run(make(LinearRegression(), 0), turning(40)))
    assert ("entered", 20) in expected
    assert ("switched", 23) in expected
    for scale, offset in ((1e-6, 0.0), (1e6, 0.0), (8.0, 4096.0)):
        assert story(run(make(LinearRegression(), 0), turning(40, scale=scale, offset=offset))) == expected


def test_thresholds_in_units_of_the_risk_depend_on_the_scale() -> None:
    few = run(make(LinearRegression(), 0, threshold_unit="risk"), turning(40, scale=1e-3))
    many = run(make(LinearRegression(), 0, threshold_unit="risk"), turning(40, scale=1e3))
    assert story(few) == []
    assert len(story(many)) > 8
    assert {d.threshold for d in few} == {0.1}


def test_the_unit_is_the_median_risk_of_the_trivial_prediction() -> None:
    learner = LinearRegression()
    unit = RiskUnit()
    assert unit.value == 1.0
    random = np.random.default_rng(0)
    ys = [random.normal(size=50) + level for level in random.normal(size=40)]
    for y in ys:
        unit = unit.after_batch(Batch(np.zeros((50, 1)), y, np.ones(50)), learner)
    guesses = [ys[0].mean(), *(y.mean() for y in ys[:-1])]
    risks = [np.mean((y - guess) ** 2) for y, guess in zip(ys, guesses, strict=True)]
    assert unit.value * math.log(2) == pytest.approx(np.median(risks[-WINDOW:]))
    assert unit.after_batch(Batch(np.zeros((1, 1)), np.ones(1), np.zeros(1)), learner) is unit
    again = RiskUnit.from_state(from_bytes(to_bytes(unit.state())))
    assert again == unit


def test_the_journal_holds_the_thresholds_used() -> None:
    decisions = run(make(LinearRegression(), 0, threshold=0.2), turning(3, scale=100.0))
    line = json.loads(json.dumps(decisions[2].to_dict()))
    assert 100.0 < line["threshold"] < 10_000.0
    assert line["stable_threshold"] == line["threshold"] / 2


def test_capabilities_tell_regression_from_classification() -> None:
    can = Capabilities(frozenset({"regression"}))
    assert (can.regression, can.min_classes) == (True, 0)
    assert replace(can, tasks=frozenset({"binary"})).min_classes == 2


# ---------------------------------------------------------------------------- noise


def test_with_significance_every_decision_follows_from_its_record() -> None:
    """R_b is a mean, and w' needs a lead of more than a standard error, worked out here from the risks."""
    rows = batches(80, (10, 30, 31, 50), m=20)
    strategy = make(significance=1.0, reactive_length=4, threshold=0.05)
    contest: list[tuple[float, float, float]] = []
    usual: dict[int, list[float]] = {}
    kinds = set()
    for batch in rows:
        decision = strategy.step(batch)
        for model in decision.models:
            if model.risk_before is not None and not math.isnan(model.risk_before):
                if model.age <= 1:  # the risk of a model that has learned nothing is dropped after the next one
                    usual[model.id] = []
                usual[model.id].append(model.risk_before)
                if len(usual[model.id]) <= USUAL_BATCHES:
                    assert model.best_risk == pytest.approx(np.mean(usual[model.id]))
        kinds |= {t.kind for t in decision.transitions}
        if not decision.reactive_step:
            assert decision.lead_error is None
            continue
        old, new = (next(m for m in decision.models if m.role == role) for role in ("predictive", "reactive"))
        if decision.reactive_step == 1:
            contest = []
            assert decision.lead_error is None
            assert decision.predicts_next == old.id
            continue
        assert old.risk_before is not None
        assert new.risk_before is not None
        contest.append((old.risk_before, new.risk_before, batch.weight.sum()))
        risks, weights = np.array(contest)[:, :2], np.array(contest)[:, 2]
        assert (old.risk_reactive, new.risk_reactive) == pytest.approx(tuple(weights @ risks / weights.sum()))
        leads = risks @ [1.0, -1.0]
        mean = weights @ leads / weights.sum()
        error = math.inf
        if len(leads) > 1:
            error = math.sqrt(weights**2 @ (leads - mean) ** 2 / (weights.sum() ** 2 - weights @ weights))
        assert decision.lead_error == pytest.approx(error)
        assert decision.predicts_next == (new.id if mean > error else old.id)
        assert [t.over for t in decision.transitions] == [len(leads)] * len(decision.transitions)
    assert kinds == {"entered", "greedy", "switched", "kept"}


def test_a_lead_within_the_noise_is_explained() -> None:
    strategy = make(significance=30.0, threshold=0.02)
    decisions = run(strategy, batches(80, tuple(range(10, 80, 10)), m=10))
    kept = [(d, t) for d in decisions for t in d.transitions if t.kind == "kept"]
    decision, transition = next(
        (d, t) for d, t in kept if t.left is not None and t.right is not None and t.left < t.right
    )
    assert decision.lead_error is not None
    assert transition.margin == pytest.approx(-30.0 * decision.lead_error)
    text = explain(decisions, step=decision.step, width=1000)
    assert "30 times the standard error of its lead" in text
    assert "chance" in text
    assert "a lead that may be noise" in transition.describe()
    entered = next(d for d in decisions if d.condition == 1)
    assert "its usual risk" in explain(decisions, step=entered.step, width=1000)
    assert "> usual" in entered.transitions[0].describe()


@pytest.mark.parametrize("cut", [11, 12, 13, 20])
def test_significance_is_saved_and_restored_in_any_state(cut: int) -> None:
    rows = batches(m=20)
    whole, first, second = (make(significance=1.0) for _ in range(3))
    expected = run(whole, rows)
    run(first, rows[:cut])
    second.restore(from_bytes(to_bytes(first.state())), 2, sparse=False, n_classes=2)
    assert run(second, rows[cut:]) == expected[cut:]
    assert to_bytes(second.state()) == to_bytes(whole.state())
