"""Explanations of decisions and of whole runs, in words and numbers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import invoke
from noisy_decisions import ROWS, STEPS, decisions_of

import driftsurf
from driftsurf import DriftSurfClassifier, DriftSurfRegressor, explain
from driftsurf.core.decisions import TRANSITION_WORDS, Decision, ModelRecord, Transition
from driftsurf.core.drifts import Drift, Drifts
from driftsurf.core.wording import significant
from driftsurf.detectors import DDM
from driftsurf.errors import InputError, OptionError
from driftsurf.evaluation.summary import summarise_regression, verdict_of
from driftsurf.learners import LogisticRegression
from driftsurf.runs.explanation.explain import explain_decision, explain_last_change, recorded
from driftsurf.runs.explanation.lineage import lineages
from driftsurf.runs.explanation.records import RunRecord
from driftsurf.session.session import Session
from driftsurf.strategies import ResetOnDrift


@pytest.fixture
def run_folder(mixed_run: tuple[Path, str]) -> Path:
    return mixed_run[0]


def steady(decisions: Iterable[Decision]) -> list[Decision]:
    """Return decisions as of a run in which no drift was found."""
    return [replace(one, drifts=()) for one in decisions]


def test_a_reaction_is_explained_with_its_numbers(run_folder: Path) -> None:
    text = explain(run_folder, step=20)
    flat = " ".join(text.split())
    assert text.startswith("step 20, rows 4,000 to 4,199: ")
    assert re.search(r" compared .*model 3 .*1\.38.*0\.45.*0\.10.* crossed .*0\.83 ", flat)
    assert re.search(r" predicted .*model 3 .*3,200.*model 5 ", flat)
    assert re.search(r" error 0\.\d+ .*4 .*0\.74 .*0\.\d+ .*4 ", flat)
    assert re.search(r" columns .*\+0\.45 .*-0\.39", flat)
    assert max(map(len, text.splitlines())) <= 100


def test_the_whole_run_is_explained_with_its_models(run_folder: Path) -> None:
    text = explain(str(run_folder))
    verdict, drifts, overview, *_ = text.split("\n\n")
    record = recorded(run_folder)
    assert record.trace is not None
    assert drifts.count("  drift ") == len(record.drifts) > 0
    assert " ".join(verdict.split()) == verdict_of(record.trace, record.trace.models[0], record.drifts).text
    first, second, third, *_ = overview.splitlines()
    assert first.startswith("Mixed: ")
    assert re.findall(r"[\d.,]*\d", first) == ["100", "20,000", "77,200", "0.2034"]
    assert re.search(r"11 .*, 8 .*, 3 ", second)
    assert " 0.0" in third  # the thresholds with the same decisions
    assert f"step 10, rows 2,000 to 2,199: {TRANSITION_WORDS['kept'].phrase}" in text
    assert re.search(r"\n  model 0 +=", text)
    assert re.search(r"\n  model 0: .*\b0\b.* 0 ", text)


def test_the_explanation_of_a_journal_begins_with_its_drifts(run_folder: Path) -> None:
    decisions = steady(recorded(run_folder).decisions)
    one = Drift(0, 4_000, 20, 4_150, "new rule", "error", 0.2, 0.7, columns=("x1",), evidence=1e6)
    assert explain(decisions).startswith("No drift in 20,000 rows.\n\nsteps 0 to 99, ")
    told = explain([replace(decisions[0], drifts=(one,)), *decisions[1:]])
    verdict, drifts, *_ = told.split("\n\n")
    assert " ".join(verdict.split()) == Drifts([one]).describe()
    assert drifts.startswith("drifts\n  drift 0: From row 4,000 on, ")
    assert "detected at row 4,150" in " ".join(drifts.split())
    assert told.index("drift 0") < told.index("steps 0 to 99") < told.index("\n\nreactions and switches\n\nstep ")


def test_a_mark_is_shown_with_its_drift(run_folder: Path) -> None:
    decisions = steady(recorded(run_folder).decisions)
    one = Drift(0, 4_000, 20, 4_150, "harm", "error", 0.2, 0.7, mark="false")
    assert "marked as false" in " ".join(explain([replace(decisions[0], drifts=(one,)), *decisions[1:]]).split())


def test_the_last_change_begins_with_the_verdict(run_folder: Path) -> None:
    record = recorded(run_folder)
    last = " ".join(explain_last_change(record).split())
    assert last.startswith(record.drifts.describe())
    without = replace(record, decisions=steady(record.decisions))
    assert explain_last_change(without).startswith("No drift in 20,000 rows. ")


def test_columns_that_changed_by_chance_are_not_named(run_folder: Path) -> None:
    record = recorded(run_folder)
    steps = {move.step for move in record.moves} - {move.step for move in record.moves if move.beyond_chance}
    text = explain(run_folder, step=min(steps))
    assert "\n  columns " in text
    assert "x0" not in text


def test_a_step_without_transitions_shows_its_distance_from_a_reaction(run_folder: Path) -> None:
    text = " ".join(explain(run_folder, step=14).split())
    assert text.count(" compared ") == 2  # with the best risk so far and with the stable model
    assert " crossed " not in text
    inside = next(d for d in recorded(run_folder).decisions if d.state == "reactive" and not d.transitions)
    assert f" compared step {inside.reactive_step} of 4 " in " ".join(explain(run_folder, step=inside.step).split())


def test_a_step_that_is_not_recorded_is_refused(run_folder: Path) -> None:
    with pytest.raises(OptionError, match=r"step.*\b100\b.*\b0\b.*\b99\b"):
        explain(run_folder, step=100)
    with pytest.raises(InputError):
        explain([])


def test_a_replay_follows_the_explanation_of_the_step(run_folder: Path) -> None:
    text = explain(run_folder, step=20, threshold=0.2)
    assert text.startswith("step 20")
    assert re.search(r" 0\.2\b.* 7, 16", " ".join(text.split()))
    assert not explain(run_folder, threshold=0.2).startswith("Mixed")


def test_a_journal_in_memory_is_explained_without_a_trace() -> None:
    rng, model = np.random.default_rng(0), DriftSurfClassifier(judge="prequential", random_state=0)
    for step in range(30):
        X = rng.normal(size=(100, 2))
        model.partial_fit(X, (X[:, 0] > 0) == (step < 15))
    text = explain(model.journal_)
    found = (f"1 {TRANSITION_WORDS[kind].singular}" for kind in ("entered", "switched"))
    assert ", ".join(found) in text
    assert "\n  error " not in text
    switch = next(decision for decision in model.journal_ if decision.transitions[:1] and decision.step > 16)
    assert " compared before " in " ".join(explain(model.journal_, step=switch.step).split())


@pytest.mark.parametrize("variant", ["algorithm-1", "authors"])
def test_every_decision_can_be_explained(variant: Any) -> None:
    run = decisions_of(0.05, variant=variant)
    record = RunRecord(run)
    for place in range(len(run)):
        assert explain_decision(record, place).startswith(f"step {place}, rows ")


def test_a_run_without_drift_and_one_of_another_strategy() -> None:
    assert len(lineages(decisions_of(9.0))) == 1
    assert "\nstep " not in explain(decisions_of(9.0))
    session = Session(ResetOnDrift(LogisticRegression(), DDM()), classes=(0, 1))
    rng, made = np.random.default_rng(0), list[Decision]()
    for step in range(STEPS):
        X = rng.normal(size=(ROWS, 3))
        made += session.observe(X, (X[:, 0] > 0) == (step < 30)).decisions
    text = explain(made)
    assert f"1 {TRANSITION_WORDS['reset'].singular}" in text
    assert "\n  why " in text
    with pytest.raises(InputError, match="DriftSurf"):
        explain(made, threshold=0.1)


def test_rows_with_late_labels_are_not_said_to_be_predicted_by_the_model_in_use() -> None:
    decision = Decision(3, 30, 10, "stable", 1, 1, 0, models=())
    now, late = (explain(RunRecord([decision], about={"delay": delay}), step=3) for delay in (None, 2))
    assert "model 1 (trained from row 1) predicted this batch" in now
    assert "predicted this batch" not in late
    assert "model 1" in late


def test_many_reactions_are_not_all_listed() -> None:
    (first, *_), transition = decisions_of(9.0), Transition("kept", 0, left=0.5, right=None)
    run = [replace(first, step=k, transitions=(transition,)) for k in range(103)]
    assert "\n3 " in explain(run)
    model = first.models[0]
    many = [replace(first, step=k, models=(replace(model, id=k),)) for k in range(50)]
    assert re.search(r"\nmodels .* 40 .* 50\n", explain(many))


def test_missing_numbers_are_shown_as_unknown() -> None:
    models = (ModelRecord("predictive", 0, 3, 0), ModelRecord("reactive", 1, 0, 30))
    entry = Decision(3, 30, 10, "reactive", 0, 0, 0, models, reactive_step=2, threshold=0.1, stable_threshold=0.05)
    assert "compared" not in explain([entry], step=3)
    with_transition = replace(entry, transitions=(Transition("entered", 3, 1),))
    assert explain([with_transition], step=3).count("unknown") == 2  # the risk and the best one
    assert "?" in explain([replace(with_transition, models=(), transitions=(Transition("greedy", 3),))], step=3)


class Numbers:
    """A regression stream whose target depends on another column from the middle on."""

    name, n_rows, classes, drifts = "numbers", 3000, (), ()

    def batches(self, size: int) -> Iterator[tuple[Any, Any]]:
        rng = np.random.default_rng(0)
        for step in range(self.n_rows // size):
            X = rng.normal(size=(size, 2))
            yield X, X[:, int(step * size >= 1500)] + 0.1 * rng.normal(size=size)


def test_a_regression_is_explained_by_its_root_mean_squared_error() -> None:
    model = DriftSurfRegressor(random_state=0)
    trace = driftsurf.prequential(Numbers(), model, batch_size=100)
    record = RunRecord(list(model.journal_), trace=trace)
    text = explain(record)
    summary = summarise_regression(trace, trace.models[0])
    [drift] = record.drifts
    assert abs(drift.row - 1_500) < 50
    assert drift.metric == "root mean squared error"
    assert drift.error_before == pytest.approx(0.1, rel=0.1)
    verdict, _, overview, *_ = text.split("\n\n")
    assert drift.error_text(drift.error_peak) in verdict
    assert significant(summary.root_mean_squared_error) in overview.splitlines()[0]
    assert "\n  RMSE " in text


def test_the_command_prints_no_colours_without_a_terminal(run_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = invoke("explain", str(run_folder), "--step", "20", "--threshold", "0.05")
    assert result.exit_code == 0
    assert "\x1b" not in result.output
    assert "\n  crossed " in result.output
    assert " 0.05" in result.output
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[1m" in invoke("explain", str(run_folder)).output


def test_the_command_names_mistakes(run_folder: Path, tmp_path: Path) -> None:
    usage = invoke("explain", str(run_folder), "--stable-threshold", "1")
    assert usage.exit_code == 2
    assert "--threshold" in usage.output
    result = invoke("explain", str(tmp_path))
    assert result.exit_code == 1
    assert "journal.jsonl" in result.output


def test_risks_that_were_not_measured_are_left_out() -> None:
    run = decisions_of(judge="prequential")
    inside = next(decision for decision in run if decision.reactive_step == 2 and not decision.transitions)
    text = explain(run, step=inside.step)
    assert "unknown" not in text
    old, new = (record for record in inside.models)
    assert f"the old model {old.id} " in text
    assert f"the new model {new.id} " in text
