"""Whom a portfolio believed, in words and on the page of a run."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from driftsurf import DriftSurfClassifier, PortfolioClassifier, explain, prequential
from driftsurf.core.decisions import Decision, ModelRecord, Transition
from driftsurf.core.journal import json_lines, read_lines
from driftsurf.explanation.belief import beliefs, experts_of
from driftsurf.learners import LogisticRegression, NaiveBayes, SoftmaxRegression
from driftsurf.report.run_page import render
from driftsurf.strategies import DriftSurf
from driftsurf.streams import SEA, Mixed


def decided(step: int, shares: list[float], losses: list[float]) -> Decision:
    models = [
        ModelRecord("expert", k, step, 0, risk_before=loss, weight=share, name=f"expert {'abc'[k]}")
        for k, (share, loss) in enumerate(zip(shares, losses, strict=True))
    ]
    return Decision(step, 10 * step, 10, "stable", 0, 0, 0, tuple(models))


def test_the_expert_with_the_largest_share_is_believed_once_it_stays() -> None:
    shares = [*[[0.6, 0.4]] * 5, [0.3, 0.7], *[[0.6, 0.4]] * 4, *[[0.2, 0.8]] * 10]
    losses = [*[[0.3, 0.5]] * 9, [0.9, 0.5], *[[0.7, 0.5]] * 10]
    found = beliefs([decided(step, *pair) for step, pair in enumerate(zip(shares, losses, strict=True))])
    assert [(one.name, one.first, one.last) for one in found] == [("expert a", 0, 9), ("expert b", 10, 19)]
    assert found[0].share == pytest.approx((9 * 0.6 + 0.3) / 10)
    assert found[1].former == "expert a"
    assert found[1].losses == pytest.approx(((0.5 * 5) / 5, (0.7 + 0.9 + 3 * 0.3) / 5))
    assert "was 0.5, and that of expert a 0.5" in found[1].describe()
    assert found[1].describe().endswith("it knows what the others do not")


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


def test_an_expert_can_be_believed_though_it_is_not_better() -> None:
    decisions = [decided(step, [0.6, 0.4] if step < 5 else [0.4, 0.6], [0.3, 0.4]) for step in range(10)]
    assert beliefs(decisions)[1].describe().endswith("because it knows what the others do not")


def test_other_strategies_have_no_beliefs() -> None:
    model = DriftSurfClassifier(random_state=0)
    for X, y in SEA(n_rows=500).batches(100):
        model.test_then_train(X, y)
    assert not experts_of(list(model.journal_))
    assert not beliefs(list(model.journal_))
    assert not beliefs([])
    assert "believed" not in explain(model.journal_)


@pytest.fixture(scope="module")
def run() -> Any:
    learner = SoftmaxRegression()
    experts: list[Any] = [DriftSurfClassifier(learner), learner, NaiveBayes()]
    model = PortfolioClassifier(learner, experts=experts, random_state=0)
    return prequential(Mixed(n_rows=6_000), {"portfolio": model}, batch_size=100), model.journal_


def test_an_explanation_names_models_and_experts(run: Any) -> None:
    text = explain(run[1])
    assert "who was believed most" in text
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
    page = render(trace, list(journal), model="portfolio")
    assert "Who was believed" in page
    assert page.index("Who was believed") < page.index("The models")
    for name in ("DriftSurf(SoftmaxRegression)", "NaiveBayes"):
        assert name in page
    assert beliefs(list(journal))[0].describe()[1:] in page


def test_a_journal_of_an_earlier_version_gets_the_names_of_experts() -> None:
    change = Transition("entered", 3, 1, left=0.6, right=0.4, margin=0.1, old=1, new=3)
    text = "".join(json_lines([replace(decided(3, [0.5, 0.5], [0.6, 0.6]), transitions=(change,))]))
    assert '"expert":"' not in text.replace('"role":"expert"', "")
    assert read_lines(text)[0].transitions[0].expert == "expert b"
