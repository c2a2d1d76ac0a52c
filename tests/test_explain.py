"""Decisions in words, replayed under other thresholds, and the lives of models."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

import driftsurf
from driftsurf import DriftSurfClassifier, DriftSurfRegressor, explain
from driftsurf.base import Batch
from driftsurf.cli import main
from driftsurf.decisions import Decision, ModelRecord, Transition
from driftsurf.detectors import DDM
from driftsurf.errors import InputError, OptionError
from driftsurf.evaluation.explain import explain_decision, recorded
from driftsurf.evaluation.lineage import Lineage, lineages, timeline
from driftsurf.evaluation.records import RunRecord, pinned, read_run
from driftsurf.evaluation.replay import Replay, replay, same_decisions
from driftsurf.learners import LogisticRegression
from driftsurf.report.curves import overlay_of
from driftsurf.report.page import render_record
from driftsurf.runtime import orders
from driftsurf.runtime.numbering import Numbering
from driftsurf.runtime.session import Session
from driftsurf.strategies import AUE, Aware, DriftSurf, ResetOnDrift

STEPS, ROWS = 60, 60


def decisions_of(threshold: float = 0.1, *, seed: int = 0, **options: Any) -> list[Decision]:
    """A small stream with two drifts and much noise, so that many thresholds decide differently."""
    rng = np.random.default_rng(seed)
    strategy = DriftSurf(LogisticRegression(), threshold=threshold, seed=seed, **options)
    strategy.begin(n_features=3, sparse=False, n_classes=2)
    made = []
    for step in range(STEPS):
        X = rng.normal(size=(ROWS, 3))
        turn = (step // 20) % 2
        y = (X[:, turn] + 0.7 * rng.normal(size=ROWS) > 0).astype(float)
        made.append(strategy.step(Batch(X, y, np.ones(ROWS))))
    return made


def entered(decisions: list[Decision]) -> list[int]:
    return [decision.step for decision in decisions if decision.condition]


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments), catch_exceptions=False)


# ---------------------------------------------------------------------------- replay


@pytest.mark.parametrize("variant", ["algorithm-1", "authors"])
@pytest.mark.parametrize("budget", ["each", "divided"])
@pytest.mark.parametrize("seed", range(4))
def test_a_replay_says_what_a_run_with_that_threshold_does(variant: Any, budget: Any, seed: int) -> None:
    options = {"variant": variant, "budget": budget, "seed": seed}
    runs = {delta: decisions_of(delta, **options) for delta in (0.03, 0.06, 0.1, 0.15, 0.3, 9.0)}
    told = 0
    for run in runs.values():
        for delta, other in runs.items():
            answer = replay(run, delta)
            until = STEPS if answer.known_until is None else answer.known_until
            said = [*answer.entered, *([] if answer.added is None else [answer.added])]
            assert said == [step for step in entered(other) if step <= until]
            assert all(step in entered(run) for step in answer.left_out)
            told += until
    assert told > 36 * STEPS / 8  # it does say something


def test_under_the_same_threshold_everything_is_the_same() -> None:
    run = decisions_of()
    answer = replay(run, 0.1)
    assert answer == Replay(0.1, None, tuple(entered(run)), (), None, None, "")
    assert answer.describe().endswith("every decision would have been the same.")


def test_thresholds_within_the_bounds_decide_alike_and_others_do_not() -> None:
    run = decisions_of()
    low, high = same_decisions(run)
    assert low <= 0.1 < high
    for delta in (low, np.nextafter(high, 0.0) - 1e-12):
        assert replay(run, float(delta)).describe().endswith("the same.")
    for delta in (low - 1e-6, high + 1e-6):
        assert not replay(run, delta).describe().endswith("the same.")
    assert same_decisions(decisions_of(9.0))[1] == math.inf


def test_a_stable_threshold_of_its_own_is_replayed() -> None:
    run = decisions_of(0.3, seed=3, stable_threshold=0.01)
    second = next(decision for decision in run if decision.condition == 2)
    assert "the stable threshold 0.01" in " ".join(explain(run, step=second.step).split())
    answer = replay(run, 0.3, 9.0)
    assert second.step not in answer.entered
    other = decisions_of(0.3, seed=3, stable_threshold=9.0)
    until = STEPS if answer.known_until is None else answer.known_until
    assert list(answer.entered) == [step for step in entered(other) if step <= until]
    assert "(and 9 against the stable model)" in answer.describe()


def test_relative_thresholds_are_replayed_in_the_unit_they_were_given_in() -> None:
    def journal(delta: float) -> list[Decision]:
        rng = np.random.default_rng(0)
        model = DriftSurfRegressor(threshold=delta, random_state=0)
        for step in range(40):
            X = rng.normal(size=(80, 2))
            model.partial_fit(X, 1e4 + 300.0 * X[:, step // 20] + 100.0 * rng.normal(size=80))
        return list(model.journal_)

    run = journal(0.1)
    assert len({decision.threshold for decision in run}) > 10
    for delta in (0.02, 0.05, 0.2):
        answer = replay(run, delta)
        until = 40 if answer.known_until is None else answer.known_until
        said = [*answer.entered, *([] if answer.added is None else [answer.added])]
        assert said == [step for step in entered(journal(delta)) if step <= until]
    with pytest.raises(InputError, match="begins in the middle"):
        replay(run[5:], 0.2)
    assert "would have come of every threshold" in explain(run)
    assert "would have come of every threshold" not in explain(run[5:])


def test_an_order_of_an_operator_ends_what_is_known() -> None:
    answer = replay(decisions_of(9.0), 5.0, orders=[30])
    assert answer.known_until == 29
    assert answer.describe().endswith(
        "From step 30 on the record does not say what would come: an operator changed the model."
    )


def test_only_driftsurf_has_a_threshold_to_replay() -> None:
    with pytest.raises(InputError, match="no decisions of DriftSurf"):
        replay([], 0.1)
    with pytest.raises(OptionError, match="threshold is -1"):
        replay(decisions_of(), -1.0)
    with pytest.raises(OptionError, match="stable_threshold is -1"):
        replay(decisions_of(), 0.1, -1.0)


def test_thresholds_of_nothing_and_without_end_are_replayed() -> None:
    for delta in (0.0, math.inf):
        run = decisions_of(delta)
        assert replay(run, delta).describe().endswith("the same.")
        low, high = same_decisions(run)
        assert low <= delta
        assert delta <= high


def test_a_long_list_of_steps_is_cut() -> None:
    told = Replay(0.1, None, tuple(range(20)), (40,), None, None, "").describe()
    assert "at steps 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 and 8 more" in told
    assert "at step 40, where one did" in told
    assert "the record determines all of it" in told


# ---------------------------------------------------------------------------- lineages


def test_lives_of_models_follow_from_the_decisions() -> None:
    run = decisions_of()
    models = lineages(run)
    assert [model.id for model in models] == sorted({record.id for d in run for record in d.models})
    assert sum(model.gradients for model in models) == sum(decision.gradients for decision in run)
    steps = [step for model in models for first, last in model.predicted for step in range(first, last + 1)]
    assert sorted(steps) == list(range(STEPS))  # somebody predicted each step, and nobody else did
    for transition in (t for d in run for t in d.transitions):
        by_id = {model.id: model for model in models}
        if transition.kind == "switched":
            assert by_id[transition.old].replaced_by == transition.new
            assert by_id[transition.old].end == f"replaced by model {transition.new} at step {transition.step}"
        if transition.kind == "kept":
            assert f"lost to model {transition.old}" in by_id[transition.new].end
    assert any("given up" in model.end for model in models)
    assert models[-1].end == "" or run[-1].transitions
    picture = timeline(models, width=30).splitlines()
    assert len(picture) == len(models)
    assert max(map(len, picture)) <= 30 + len("model 00  ")


def test_models_of_other_strategies_have_lives_too() -> None:
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


def test_spans_are_told_in_few_words() -> None:
    many = Lineage(1, 0, 0, 20, 10, predicted=[(k, k) for k in range(0, 12, 2)])
    assert "predicted 6 steps from 0 to 10" in many.describe()
    assert "learnt nothing yet" in Lineage(1, 0, 10, 0, 10).describe()
    assert "predicted steps 1, 3 to 4" in Lineage(1, 0, 0, 5, 9, predicted=[(1, 1), (3, 4)]).describe()
    assert "predicted step 1;" in Lineage(1, 0, 0, 5, 9, predicted=[(1, 1)]).describe()


# ---------------------------------------------------------------------------- words


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("explain") / "run"
    assert invoke("run", "mixed", "--rows", "20000", "--quiet", "--out", str(folder)).exit_code == 0
    return folder


def test_a_reaction_is_told_in_words_and_numbers(run_folder: Path) -> None:
    text = explain(run_folder, step=20)
    flat = " ".join(text.split())
    assert text.startswith("step 20, rows 4,000 to 4,199: entered the reactive state, the predicting model changed")
    assert re.search(
        r"compared model 3's risk on this batch before learning it, 1\.38, with its best so far, 0\.45", flat
    )
    assert "crossed by 0.83" in flat
    assert "model 3 (from row 3,200 on) predicted this batch; model 5 predicts the next one" in flat
    assert re.search(r"error 0\.\d+ in the 4 steps before, 0\.74 on this batch, 0\.\d+ in the 4 steps after", flat)
    assert "x1: tie to 1 from +0.45 to -0.39" in flat
    assert max(map(len, text.splitlines())) <= 100


def test_the_whole_run_is_told_with_its_models(run_folder: Path) -> None:
    text = explain(str(run_folder))
    assert text.startswith("Mixed: steps 0 to 99, rows 0 to 19,999, 77,200 gradients. Mean error 0.20.")
    assert "11 signs of drift, 8 switches to the new model, 3 times the old one was kept." in text
    assert "The same decisions would have come of every threshold from 0.0" in text
    assert "step 10, rows 2,000 to 2,199: kept the old model" in text
    assert "none moved beyond chance" in text
    assert "model 0: born at step 0, learnt rows 0 to" in text


def test_a_quiet_step_says_how_far_it_was_from_a_reaction(run_folder: Path) -> None:
    text = " ".join(explain(run_folder, step=14).split())
    assert "nothing changed" in text
    assert text.count("compared") == 2  # with the best so far and with the stable model
    assert "below" in text
    inside = next(d for d in recorded(run_folder).decisions if d.state == "reactive" and not d.transitions)
    assert f"step {inside.reactive_step} of 4 of a reactive state" in " ".join(
        explain(run_folder, step=inside.step).split()
    )


def test_a_step_that_is_not_on_record_is_named(run_folder: Path) -> None:
    with pytest.raises(OptionError, match="step is 100; on record are steps 0 to 99"):
        explain(run_folder, step=100)
    with pytest.raises(InputError, match="nothing has been decided yet"):
        explain([])


def test_what_another_threshold_would_have_done_comes_after_the_step(run_folder: Path) -> None:
    text = explain(run_folder, step=20, threshold=0.2)
    assert text.startswith("step 20")
    assert "With a threshold of 0.2 instead: none would have begun at steps 7, 16, where one did." in text
    assert not explain(run_folder, threshold=0.2).startswith("Mixed")


def test_a_journal_in_memory_is_explained_without_a_trace() -> None:
    rng, model = np.random.default_rng(0), DriftSurfClassifier(judge="prequential", random_state=0)
    for step in range(30):
        X = rng.normal(size=(100, 2))
        model.partial_fit(X, (X[:, 0] > 0) == (step < 15))
    text = explain(model.journal_)
    assert "1 sign of drift, 1 switch to the new model." in text
    assert "before learning them" in text
    assert "error " not in text


@pytest.mark.parametrize("variant", ["algorithm-1", "authors"])
def test_every_decision_can_be_told(variant: Any) -> None:
    run = decisions_of(0.05, variant=variant)
    record = RunRecord(run)
    for place in range(len(run)):
        assert explain_decision(record, place).startswith(f"step {place}, rows ")


def test_a_run_without_drift_and_one_of_another_strategy() -> None:
    assert "No sign of drift: one model throughout." in explain(decisions_of(9.0))
    session = Session(ResetOnDrift(LogisticRegression(), DDM()), classes=(0, 1))
    rng, made = np.random.default_rng(0), list[Decision]()
    for step in range(STEPS):
        X = rng.normal(size=(ROWS, 3))
        made += session.observe(X, (X[:, 0] > 0) == (step < 30)).decisions
    text = explain(made)
    assert "1 fresh start." in text
    assert "  why        " in text
    with pytest.raises(InputError, match="only it has a threshold"):
        explain(made, threshold=0.1)


def test_many_reactions_are_not_all_listed() -> None:
    (first, *_), transition = decisions_of(9.0), Transition("kept", 0, left=0.5, right=None)
    run = [replace(first, step=k, transitions=(transition,)) for k in range(103)]
    assert "3 more steps changed something" in explain(run)
    model = first.models[0]
    many = [replace(first, step=k, models=(replace(model, id=k),)) for k in range(50)]
    assert "the last 40 of 50" in explain(many)


def test_missing_numbers_are_said_to_be_unknown() -> None:
    models = (ModelRecord("predictive", 0, 3, 0), ModelRecord("reactive", 1, 0, 30))
    entry = Decision(3, 30, 10, "reactive", 0, 0, 0, models, reactive_step=2, threshold=0.1, stable_threshold=0.05)
    assert "compared" not in explain([entry], step=3)
    told = replace(entry, transitions=(Transition("entered", 3, 1),))
    assert "unknown, with its best so far, unknown" in " ".join(explain([told], step=3).split())
    assert "?" in explain([replace(told, models=(), transitions=(Transition("greedy", 3),))], step=3)


class Numbers:
    """A stream of values that depend on another column from the middle on."""

    name, n_rows, classes, drifts = "numbers", 3000, (), ()

    def batches(self, size: int) -> Iterator[tuple[Any, Any]]:
        rng = np.random.default_rng(0)
        for step in range(self.n_rows // size):
            X = rng.normal(size=(size, 2))
            yield X, X[:, int(step * size >= 1500)] + 0.1 * rng.normal(size=size)


def test_values_are_explained_by_the_root_of_their_squared_error() -> None:
    model = DriftSurfRegressor(random_state=0)
    trace = driftsurf.prequential(Numbers(), model, batch_size=100)  # type: ignore[arg-type]
    text = explain(RunRecord(list(model.journal_), trace=trace))
    assert "Root mean squared error" in text
    assert "  RMSE " in text


# ---------------------------------------------------------------------------- what is on disk


def test_a_folder_without_a_journal_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"has no journal.jsonl; give the folder of a run"):
        read_run(tmp_path)
    (tmp_path / "journal.jsonl").write_text("[1]\n")
    with pytest.raises(InputError, match="is no journal of a run"):
        read_run(tmp_path)


def test_half_a_line_at_the_end_is_passed_over(run_folder: Path, tmp_path: Path) -> None:
    for name in ("journal.jsonl", "trace.csv", "columns.csv"):
        whole = (run_folder / name).read_bytes()
        (tmp_path / name).write_bytes(whole[: len(whole) * 2 // 3])
    head = (run_folder / "trace.csv").read_bytes().split(b"\n")[:2]
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "journal.jsonl").touch()
    (tmp_path / "empty" / "trace.csv").write_bytes(b"\n".join(head) + b"\n")
    assert read_run(tmp_path / "empty").trace is None
    record = read_run(tmp_path)
    assert 50 < len(record.decisions) < 80
    assert record.trace is not None
    assert record.about == {}
    assert "model 0" in explain(record)


def test_a_journal_in_parts_is_read_in_their_order(run_folder: Path, tmp_path: Path) -> None:
    lines = (run_folder / "journal.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "journal.jsonl").write_text("".join(lines[:40]))
    (tmp_path / "journal.jsonl-000001").write_text("".join(lines[40:]))
    (tmp_path / "run.json").write_text("no json\n")
    assert read_run(tmp_path).decisions == read_run(run_folder).decisions


def test_orders_stand_in_the_text_and_on_the_page(run_folder: Path, tmp_path: Path) -> None:
    given = [(10, "pin", "m is left as it is"), (12, "pin", "m is left as it is"), (20, "unpin", "m learns again")]
    given += [(22, "unpin", "m learns again"), (25, "reset", "a fresh <model>"), (30, "pin", "m goes on learning")]
    given += [(60, "pin", "m is left as it is"), (9999, "reset", "behind the end")]
    lines = [
        json.dumps({"type": "order", "order": kind, "number": k + 1, "step": step, "text": text})
        for k, (step, kind, text) in enumerate(given)
    ]
    (tmp_path / "journal.jsonl").write_text((run_folder / "journal.jsonl").read_text() + "\n".join(lines) + "\n")
    (tmp_path / "trace.csv").write_text((run_folder / "trace.csv").read_text())
    orders.give(tmp_path, "pin")
    record = read_run(tmp_path)
    assert record.waiting == []  # order 1 is done
    assert pinned(record.orders) == [(10, 20), (60, None)]
    text = " ".join(explain(record).split())
    assert "PINNED from step 10 to 19: " in text
    assert "PINNED from step 60 on" in text
    assert "Before step 25 an operator ordered reset: a fresh <model>." in text
    assert record.trace is not None
    overlay = overlay_of(record.trace, record.decisions, record.orders)
    last = overlay.steps - 1
    assert [mark[:2] for mark in overlay.orders] == [(10, 20), (60, last), (25, 25)]
    page = render_record(record)
    assert "An operator pinned it from step 10 to 19, from step 60 on" in page
    assert ">pinned from step 60</text>" in page
    assert 'class="order"' in page
    assert "pinned: predicts, learns nothing" in page
    assert "<td>a fresh &lt;model&gt;</td>" in page
    assert "Orders of an operator" not in render_record(read_run(run_folder))
    waits = replace(record, waiting=["pin"])
    assert "not carried out before the next checkpoint: pin." in " ".join(explain(waits).split())


def test_a_run_under_way_and_its_orders_are_explained(tmp_path: Path) -> None:
    folder = tmp_path / "live"
    command = ["run", "mixed", "--rows", "4000", "--batch-size", "100", "--quiet", "--checkpoint", str(folder)]
    assert invoke(*command).exit_code == 0
    record = read_run(folder)
    assert json.loads(json.dumps(record.about))["batch_size"] == 100
    assert "is finished" in invoke("reset", str(folder)).output
    orders.give(folder, "reset")
    assert invoke(*command, "--resume", "--overwrite").exit_code == 0
    assert "Before step 40 an operator ordered " in " ".join(invoke("explain", str(folder)).output.split())
    head = max(folder.glob("head-*"))
    head.write_bytes(head.read_bytes()[:-1] + b"x")
    assert read_run(folder).about["batch_size"] == 100  # from the checkpoint before


def test_after_a_rollback_steps_rows_and_models_go_on(tmp_path: Path) -> None:
    folder = tmp_path / "live"
    command = ["run", "mixed", "--rows", "4000", "--batch-size", "100", "--quiet", "--checkpoint", str(folder)]
    command += ["--every", "5", "--keep", "20", "--resume"]

    def stop(at: int) -> None:
        def die(self: Any, step: int, *_: object) -> None:
            if step == at:
                raise KeyboardInterrupt

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("driftsurf.report.terminal.Progress.__call__", die)
            assert invoke(*command).exit_code == 130

    stop(22)
    assert invoke("rollback", str(folder), "--to", "3").exit_code == 0  # before step 10
    stop(32)
    assert invoke("rollback", str(folder), "--to", "7").exit_code == 0  # of the second life
    assert invoke(*command).exit_code == 0
    record = read_run(folder)
    assert record.trace is not None
    run = record.trace.of(record.trace.models[0])
    assert [decision.step for decision in record.decisions] == run["step"].tolist() == list(range(40))
    assert [decision.first_row for decision in record.decisions] == run["first_row"].tolist()
    assert [decision.predicted_by for decision in record.decisions] == run["predicted_by"].tolist()
    assert [order.step for order in record.orders] == [20, 30]
    assert {model.id for model in lineages(record.decisions[:20])}.isdisjoint(
        model.id for model in lineages(record.decisions[20:])
    )
    for model in lineages(record.decisions):
        lives = [*model.predicted, (model.born, model.last_step)]
        assert not any(first < order.step <= last for first, last in lives for order in record.orders)
    assert all(decision.trained_from <= decision.first_row for decision in record.decisions)
    reactions = {decision.step for decision in record.decisions if decision.transitions}
    assert {move.step for move in record.moves} <= reactions
    assert max(move.step for move in record.moves) > 20
    assert "steps 0 to 39, rows 0 to 3,999" in explain(folder)
    spans = [(start, stop) for start, stop, _ in overlay_of(record.trace, record.decisions).reactive]
    assert spans == sorted(spans)
    assert all(0 < stop - start <= 4 for start, stop in spans)


def test_models_that_were_rolled_back_are_numbered_anew() -> None:
    def decided(step: int, ids: tuple[int, int], trained_from: int, *, age: int = 0) -> Decision:
        models = (ModelRecord("predictive", ids[0], age, trained_from),)
        change = Transition("replaced", step, old=ids[0], new=ids[1])
        return Decision(step, 10 * step, 10, "stable", ids[0], trained_from, ids[1], models, transitions=(change,))

    numbering = Numbering()
    own = [decided(0, (-1, 0), -1), decided(1, (0, 0), 0, age=1), decided(2, (0, 1), 0, age=2)]
    assert list(numbering.of(own)) == own
    early = Numbering.from_json(numbering.to_json())
    assert list(numbering.of([decided(3, (1, 1), 20)])) == [decided(3, (1, 1), 20)]
    numbering.roll_back(early)  # before step 3
    again = numbering.of([decided(3, (1, 2), 20, age=1), decided(4, (2, 2), 30)])
    assert [(one.step, one.first_row, one.predicted_by, one.predicts_next) for one in again] == [
        (4, 40, 3, 4),
        (5, 50, 4, 4),
    ]
    assert [one.trained_from for one in again] == [20, 40]  # a row of before, and one of this life
    assert (again[0].models[0].age, again[0].transitions[0].step, again[0].transitions[0].new) == (0, 4, 4)
    second = Numbering.from_json(numbering.to_json())
    assert second == numbering
    numbering.of([decided(5, (2, 2), 30)])
    numbering.roll_back(second)
    (last,) = numbering.of([decided(5, (-1, 2), 30)])
    assert (last.step, last.first_row, last.trained_from, last.predicted_by) == (7, 70, 40, -1)


def test_the_command_is_plain_where_there_is_no_terminal(run_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = invoke("explain", str(run_folder), "--step", "20", "--threshold", "0.05")
    assert result.exit_code == 0
    assert "\x1b" not in result.output
    assert "crossed" in result.output
    assert "With a threshold of 0.05 instead" in result.output
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[1m" in invoke("explain", str(run_folder)).output


def test_mistakes_of_the_command_are_answered_in_one_line(run_folder: Path, tmp_path: Path) -> None:
    assert "needs --threshold" in invoke("explain", str(run_folder), "--stable-threshold", "1").output
    result = invoke("explain", str(tmp_path))
    assert result.exit_code == 1
    assert "has no journal.jsonl" in result.output
