"""Which experts a portfolio trusted, in words and on the page of a run."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from driftsurf import DriftSurfClassifier, PortfolioClassifier, explain, prequential
from driftsurf.core.contracts import Batch
from driftsurf.core.decisions import Decision, ModelRecord, Transition
from driftsurf.core.journal import json_lines, read_lines
from driftsurf.core.numeric import derive
from driftsurf.keyed.results import next_state
from driftsurf.learners import LogisticRegression, NaiveBayes, SoftmaxRegression
from driftsurf.report.run_page import render
from driftsurf.report.sections import RunView, _of_trusted_experts
from driftsurf.report.terminal import ProgressBar
from driftsurf.runs.explanation.lineage import Lineage, beliefs, experts_of, lineages
from driftsurf.strategies import DriftSurf, Portfolio
from driftsurf.streams import SEA, Mixed


def decided(step: int, shares: list[float], losses: list[float]) -> Decision:
    models = [
        ModelRecord("expert", k, step, 0, risk_before=loss, weight=share, name=f"expert {'abc'[k]}")
        for k, (share, loss) in enumerate(zip(shares, losses, strict=True))
    ]
    return Decision(step, 10 * step, 10, "stable", 0, 0, 0, tuple(models))


def test_the_expert_with_the_largest_share_is_trusted_once_it_stays() -> None:
    shares = [*[[0.6, 0.4]] * 5, [0.3, 0.7], *[[0.6, 0.4]] * 4, *[[0.2, 0.8]] * 10]
    losses = [*[[0.3, 0.5]] * 9, [0.9, 0.5], *[[0.7, 0.5]] * 10]
    found = beliefs([decided(step, *pair) for step, pair in enumerate(zip(shares, losses, strict=True))])
    assert [(one.name, one.first, one.last) for one in found] == [("expert a", 0, 9), ("expert b", 10, 19)]
    assert found[0].share == pytest.approx((9 * 0.6 + 0.3) / 10)
    assert found[1].former == "expert a"
    assert found[1].losses == pytest.approx(((0.5 * 5) / 5, (0.7 + 0.9 + 3 * 0.3) / 5))
    assert "its loss was about that of expert a, 0.5;" in found[1].describe()
    assert found[1].describe().endswith("it knows what the others do not")


def test_nobody_is_trusted_while_shares_are_about_equal() -> None:
    shares = [*[[0.34, 0.33, 0.33]] * 4, *[[0.2, 0.5, 0.3]] * 4, *[[0.36, 0.34, 0.3]] * 4]
    found = beliefs([decided(step, each, [0.5] * 3) for step, each in enumerate(shares)])
    assert [(one.name, one.first, one.last, one.former) for one in found] == [
        ("", 0, 3, ""),
        ("expert b", 4, 7, ""),
        ("", 8, 11, ""),
    ]
    assert found[0].share == pytest.approx(0.34)
    assert "no expert" in found[0].describe()
    assert "took over" not in found[1].describe()
    alone = beliefs([decided(step, [1.0], [0.5]) for step in range(3)])
    assert [one.name for one in alone] == ["expert a"]


def test_transitions_of_a_portfolio_name_the_expert_that_made_them_everywhere() -> None:
    X = np.random.default_rng(0).normal(size=(4_000, 3))
    y = np.where(np.arange(4_000) < 2_000, X[:, 0] > 0, X[:, 0] < 0).astype(int)
    experts = [NaiveBayes(), DriftSurf(LogisticRegression())]
    model = PortfolioClassifier(experts=experts, random_state=0)
    for start in range(0, 4_000, 100):
        model.test_then_train(X[start : start + 100], y[start : start + 100])
    made = [one for decision in model.journal_ for one in decision.transitions]
    names = {one.expert for one in made}
    assert len(names) == 1
    assert names < set(list(model.journal_)[-1].experts)
    assert all(one.describe().endswith(f" ({one.expert})") for one in made)
    records = [record for decision in model.journal_ for record in decision.transition_dicts()]
    assert all(record["expert"] in record["text"] for record in records)


def test_the_transition_of_a_whole_model_names_no_expert() -> None:
    reset = Transition("reset", 3, old=0, new=4, why="an order")
    assert reset.describe() == "step 3: an order: started a fresh model"
    assert "expert" not in next(replace(decided(3, [0.5], [0.6]), transitions=(reset,)).transition_dicts())


def test_an_expert_can_be_trusted_though_it_is_not_better() -> None:
    decisions = [decided(step, [0.6, 0.4] if step < 5 else [0.4, 0.6], [0.3, 0.4]) for step in range(10)]
    assert beliefs(decisions)[1].describe().endswith("because it knows what the others do not")


def test_other_strategies_have_no_beliefs() -> None:
    model = DriftSurfClassifier(random_state=0)
    for X, y in SEA(n_rows=500).batches(100):
        model.test_then_train(X, y)
    assert not experts_of(list(model.journal_))
    assert not beliefs(list(model.journal_))
    assert not beliefs([])
    assert "trusted" not in explain(model.journal_)


@pytest.fixture(scope="module")
def run() -> Any:
    learner = SoftmaxRegression()
    experts: list[Any] = [DriftSurfClassifier(learner), learner, NaiveBayes()]
    model = PortfolioClassifier(learner, experts=experts, random_state=0)
    return prequential(Mixed(n_rows=6_000), {"portfolio": model}, batch_size=100), model.journal_


def test_an_explanation_names_models_and_experts(run: Any) -> None:
    text = explain(run[1])
    assert "which experts were trusted most" in text
    assert "?" not in text
    assert "expert     DriftSurf(SoftmaxRegression)" in text
    flat = " ".join(text.split())
    switched = next(one for one in run[1].transitions if one.kind == "switched")
    assert f"the new model {switched.new} had risk" in flat
    assert f"model {switched.new} (DriftSurf(SoftmaxRegression)): created" in flat
    step = " ".join(explain(run[1], step=switched.step).split())
    for record in run[1][switched.step].models:
        if (record.weight or 0.0) >= 0.005:
            assert re.search(rf"{re.escape(record.name)}: [0-9.]+ before, {record.weight:.2f} after this batch", step)


def alone() -> list[Decision]:
    """Return the decisions of DriftSurf on its own, with the learner and seed of the first expert of ``run``."""
    strategy = DriftSurf(SoftmaxRegression(), seed=derive(0, 0))
    strategy.begin(4, sparse=False, n_classes=2)
    found = []
    for X, y in Mixed(n_rows=6_000).batches(100):
        found.append(strategy.step(Batch(X, (y > 0).astype(float), np.ones(len(y)))))
    return found


def test_the_models_of_an_expert_have_the_history_that_they_have_on_their_own(run: Any) -> None:
    decisions = list(run[1])
    name = decisions[-1].experts[0]
    mine = [model for model in lineages(decisions) if model.name == name]
    expected = lineages(alone())
    assert [model.id // 3 for model in mine] == [model.id for model in expected]
    for model, other in zip(mine, expected, strict=True):
        assert (model.born, model.last_step, model.first_row) == (other.born, other.last_step, other.first_row)
        assert (model.rows_until, model.gradients) == (other.rows_until, other.gradients)
        assert bool(model.end) == bool(other.end)
        # A model has a share only where the expert predicts with it.
        assert steps_of(model) <= steps_of(other)
    assert any(model.predicted for model in mine[1:])
    assert sum(decision.gradients for decision in decisions) == sum(model.gradients for model in lineages(decisions))


def steps_of(model: Lineage) -> set[int]:
    return {step for first, last in model.predicted for step in range(first, last + 1)}


def test_models_predict_where_the_weights_gave_them_a_share(run: Any) -> None:
    decisions = list(run[1])
    found = {model.id: steps_of(model) for model in lineages(decisions)}
    for before, now in itertools.pairwise(decisions):
        sharing = {record.id for record in before.models if (record.weight or 0.0) >= 0.005}
        assert {key for key, steps in found.items() if now.step in steps} == sharing
    assert all("predicted;" not in model.describe() for model in lineages(decisions))


def test_nothing_is_said_about_who_predicted_if_labels_come_late(run: Any) -> None:
    models = lineages(run[1], {decision.step: decision.predicted_by for decision in run[1]})
    assert not any(model.predicted for model in models)
    assert not any("predict" in model.describe() for model in models)


def test_after_a_reset_the_fresh_models_predict() -> None:
    old = [decided(step, [0.9, 0.1], [0.5, 0.5]) for step in range(4)]
    fresh = [
        replace(one, models=tuple(replace(record, id=record.id + 2, age=one.step - 4) for record in one.models))
        for one in (decided(step, [0.5, 0.5], [0.5, 0.5]) for step in range(4, 6))
    ]
    assert {model.id: steps_of(model) for model in lineages([*old, *fresh])} == {
        0: {0, 1, 2, 3},
        1: {0, 1, 2, 3},
        2: {4, 5},
        3: {4, 5},
    }


def test_the_state_is_reactive_while_an_expert_is(run: Any, capsys: pytest.CaptureFixture[str]) -> None:
    trace, journal = run
    decisions = list(journal)
    name = decisions[-1].experts[0]
    expected = [one.state == "reactive" for one in alone()]
    assert [one.reacting == (name,) for one in decisions] == expected
    assert [one.state == "reactive" for one in decisions] == expected
    assert (trace.of("portfolio")["state"] == "reactive").tolist() == expected
    at = expected.index(True)
    assert decisions[at].describe_state() in " ".join(explain(journal, step=at).split())
    assert f"{sum(expected)} of 60 steps" in explain(journal)
    page = render(RunView(trace, decisions, "portfolio"))
    until = at + expected[at:].index(False) - 1
    assert f"experts reacting, steps {at} to {until}" in page


def test_the_terminal_leaves_what_experts_do_to_the_details(capsys: pytest.CaptureFixture[str]) -> None:
    before = replace(decided(3, [0.9, 0.1], [0.2, 0.3]), transitions=(Transition("entered", 3, expert="expert a"),))
    after = replace(decided(59, [0.2, 0.8], [0.9, 0.3]), transitions=(Transition("kept", 4, expert="expert a"),))
    with ProgressBar("a run", 60, model="portfolio") as progress:
        for decision in (before, after):
            progress(decision.step, "portfolio", 0.2, (decision,))
    assert capsys.readouterr().out.splitlines() == ["step 59 of 60: error 0.200, mean 0.200"]


def test_an_expert_that_is_trusted_for_its_fresh_model_is_said_to_be() -> None:
    shares = [*[[0.6, 0.4]] * 5, *[[0.0, 1.0]] * 5]
    decisions = [decided(step, each, [0.5, 0.5]) for step, each in enumerate(shares)]
    decisions[5] = replace(decisions[5], turned=True)
    read = read_lines("".join(json_lines(decisions)))
    assert [one.turned for one in read] == [step == 5 for step in range(10)]
    assert [one.turned for one in beliefs(read)] == [False, True]
    assert "this expert had a new model" in beliefs(read)[1].describe()


def test_a_key_is_stable_once_no_expert_reacts() -> None:
    entered = replace(decided(3, [0.5, 0.5], [0.6, 0.6]), state="reactive", reacting=("expert a", "expert b"))
    left = Transition("kept", 3, expert="expert a")
    assert next_state(entered) == "reactive"
    assert next_state(replace(entered, transitions=(left,))) == "reactive"
    assert next_state(replace(entered, transitions=(left, replace(left, expert="expert b")))) == "stable"


def test_the_journal_keeps_all_models_and_who_reacts(run: Any) -> None:
    decisions = list(run[1])
    assert any(one.others for one in decisions)
    read = read_lines("".join(json_lines(decisions)))
    assert [(one.others, one.reacting) for one in read] == [(one.others, one.reacting) for one in decisions]


def test_experts_of_a_portfolio_inside_another_keep_their_names() -> None:
    inner = Portfolio(LogisticRegression(), experts=[DriftSurf(LogisticRegression()), NaiveBayes()])
    model = PortfolioClassifier(LogisticRegression(), experts=[inner, NaiveBayes()], random_state=0)
    for X, y in Mixed(n_rows=3_000).batches(100):
        model.test_then_train(X, y)
    decisions = list(model.journal_)
    outer = "Portfolio(LogisticRegression)"
    inside = [f"{outer} > DriftSurf(LogisticRegression)", f"{outer} > NaiveBayes"]
    assert {record.name for one in decisions for record in one.others} == set(inside)
    assert {one.expert for one in model.journal_.transitions} == {inside[0]}
    assert {name for one in decisions for name in one.reacting} == {inside[0]}
    assert {one.describe_state() for one in decisions} == {"stable", "1 of 2 experts is testing a new model"}
    ended = [one for one in decisions if any(each.kind in ("kept", "switched") for each in one.transitions)]
    assert ended
    assert {next_state(one) for one in ended} == {"stable"}
    assert {model.name for model in lineages(decisions)} == {*inside, "NaiveBayes"}
    assert all(model.born >= 0 and model.rows_until for model in lineages(decisions))
    for one in decisions:
        shares = sum(record.weight for record in one.others if record.weight is not None)
        assert shares == pytest.approx(one.models[0].weight)


def test_the_journal_keeps_the_names(run: Any) -> None:
    decisions = list(run[1])
    lines = list(json_lines(decisions))
    assert [model.name for model in read_lines("".join(lines))[3].models] == [
        model.name for model in decisions[3].models
    ]
    plain = DriftSurfClassifier(random_state=0)
    plain.test_then_train(np.zeros((10, 2)), [0, 1] * 5)
    assert '"name"' not in plain.journal_.to_jsonl()


def test_the_page_shows_the_shares(run: Any) -> None:
    trace, journal = run
    page = render(RunView(trace, list(journal), "portfolio"))
    assert "Shares of the experts" in page
    assert page.index("Shares of the experts") < page.index("The models")
    for name in ("DriftSurf(SoftmaxRegression)", "naive Bayes"):
        assert name in page
    assert beliefs(list(journal))[0].describe()[1:] in page


def test_a_journal_of_an_earlier_version_gets_the_names_of_experts() -> None:
    change = Transition("entered", 3, 1, left=0.6, right=0.4, margin=0.1, old=1, new=3)
    text = "".join(json_lines([replace(decided(3, [0.5, 0.5], [0.6, 0.6]), transitions=(change,))]))
    assert '"expert":"' not in text.replace('"role":"expert"', "")
    assert read_lines(text)[0].transitions[0].expert == "expert b"


def test_figures_show_what_experts_with_large_shares_did() -> None:
    shares = [[0.9, 0.1], [0.9, 0.1], [0.3, 0.7], [0.1, 0.9]]
    decisions = [decided(step, each, [0.5, 0.5]) for step, each in enumerate(shares)]
    did: dict[str, Any] = {
        "state": "reactive",
        "reacting": ("expert b",),
        "transitions": (Transition("greedy", 0, expert="expert b"),),
    }
    shown = list(_of_trusted_experts([replace(one, **did) for one in decisions]))
    assert [one.state for one in shown] == ["stable", "stable", "reactive", "reactive"]
    assert [len(one.transitions) for one in shown] == [0, 0, 1, 1]
    alone = [Decision(0, 0, 10, "reactive", 0, 0, 0, ())]
    assert list(_of_trusted_experts(alone)) == alone
