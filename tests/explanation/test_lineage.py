"""Histories of the models of a run."""

from __future__ import annotations

import re

import numpy as np
from noisy_decisions import ROWS, STEPS, decisions_of, numbers

from driftsurf.core.decisions import Decision
from driftsurf.learners import LogisticRegression
from driftsurf.runs.explanation.lineage import Lineage, lineages, timeline
from driftsurf.session.session import Session
from driftsurf.strategies import AUE, Aware


def test_histories_of_models_are_read_from_the_decisions() -> None:
    run = decisions_of()
    models = lineages(run)
    assert [model.id for model in models] == sorted({record.id for d in run for record in d.models})
    assert sum(model.gradients for model in models) == sum(decision.gradients for decision in run)
    steps = [step for model in models for first, last in model.predicted for step in range(first, last + 1)]
    assert sorted(steps) == list(range(STEPS))  # exactly one model predicted each step
    for transition in (t for d in run for t in d.transitions):
        by_id = {model.id: model for model in models}
        if transition.kind == "switched":
            assert by_id[transition.old].replaced_by == transition.new
            assert re.findall(r"\d+", by_id[transition.old].end) == [str(transition.new), str(transition.step)]
        if transition.kind == "kept":
            assert re.findall(r"\d+", by_id[transition.new].end) == [str(transition.old), str(transition.step)]
    # A stable model ends at the start of the next reactive state.
    assert any(len(re.findall(r"\d+", model.end)) == 1 and model.replaced_by is None for model in models)
    assert models[-1].end == "" or run[-1].transitions
    picture = timeline(models, width=30).splitlines()
    assert len(picture) == len(models)
    assert max(map(len, picture)) <= 30 + len("model 00  ")


def test_models_of_other_strategies_have_histories() -> None:
    for strategy in (Aware(LogisticRegression(), (20, 40)), AUE(LogisticRegression())):
        session = Session(strategy, classes=(0, 1))
        rng, made = np.random.default_rng(0), list[Decision]()
        for step in range(STEPS):
            X = rng.normal(size=(ROWS, 3))
            made += session.observe(X, (X[:, step // 20] > 0).astype(int)).decisions
        models = lineages(made)
        assert len(models) > 2
        assert any(model.end for model in models)
    assert timeline([]) == ""


def test_many_spans_of_predictions_are_summarised() -> None:
    many = Lineage(1, 0, 0, 20, 10, predicted=[(k, k) for k in range(0, 12, 2)])
    assert numbers(many.describe()) == [1, 0, 0, 9, 6, 0, 10]
    assert numbers(Lineage(1, 0, 10, 0, 10).describe()) == [1, 0]  # it learned no rows
    few = Lineage(1, 0, 0, 5, 9, predicted=[(1, 1), (3, 4)])
    assert numbers(few.describe()) == [1, 0, 0, 8, 1, 3, 4]
    assert numbers(Lineage(1, 0, 0, 5, 9, predicted=[(1, 1)]).describe()) == [1, 0, 0, 8, 1]


def test_the_stable_model_is_named_as_the_reference() -> None:
    by_role = {role: model.describe() for model in lineages(decisions_of()) for role, _, _ in model.roles}
    assert "reference" in by_role["stable"]
    assert "reference" not in by_role["reactive"]
