"""Trials: their plan, their outcomes and their ledger."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from reproductions import outcome
from scipy.sparse import csr_array

from driftsurf.comparison import runner
from driftsurf.comparison.models import ALGORITHMS, Setting
from driftsurf.comparison.runner import Ledger, run
from driftsurf.evaluation.prequential import prequential
from driftsurf.reproduction import output_files, plan, trials
from driftsurf.reproduction.published import OPTIONS
from driftsurf.reproduction.reproduce import EXPERIMENTS, reproduce
from driftsurf.reproduction.trials import Trial, TrialResult
from driftsurf.session.session import Session
from driftsurf.streams import SINE1
from driftsurf.streams.arrays import ArrayStream

pytestmark = pytest.mark.usefixtures("generated_streams_only")


def test_the_six_tables_have_the_papers_cells() -> None:
    names = [table.name for table in plan.PAPER_TABLES.values()]
    assert names == ["equal-model", "rho-4m", "rho-2m", "greedy", "sgd", "sgd-rho-2m"]
    cells = sum(len(table.columns) for table in plan.PAPER_TABLES.values()) * 12
    assert cells == 360  # on the twelve streams whose data are available


def test_every_column_names_an_algorithm_and_every_experiment_its_tables() -> None:
    for table in plan.TABLES.values():
        assert all(column.algorithm in ALGORITHMS for column in table.columns)
        assert len({column.name for column in table.columns}) == len(table.columns)
    assert all(table in plan.TABLES for experiment in EXPERIMENTS.values() for table in experiment.tables)
    assert {table for experiment in EXPERIMENTS.values() for table in experiment.tables} == set(plan.TABLES)


def test_driftsurf_is_run_in_both_variants_and_others_once() -> None:
    tasks = list(plan.trials_of([plan.TABLES["greedy"]], ["sine1"], [0, 1]))
    assert len(tasks) == 2 * 2 * 2
    assert {task.variant for task in tasks} == {"algorithm-1", "authors"}
    noise = list(plan.trials_of([plan.TABLES["noise"]], ["sine1", "sea10"], [0]))
    assert {task.dataset for task in noise} == {"sea10"}


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_algorithm_runs_and_is_the_same_twice(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    short = SINE1(n_rows=1_000)
    X, y = short.arrays()
    stream = ArrayStream(X, y, drifts=short.drifts, name="sine1")
    monkeypatch.setattr(trials, "prepared", lambda dataset: (stream, 50, short.drift_steps(50)))
    task = Trial("sine1", name, seed=3)
    first, second = task.perform(), task.perform()
    assert first.error.tolist() == second.error.tolist()
    assert len(first.error) == 20
    assert 0.0 < first.mean_error < 0.7
    assert asdict(Trial.decode(json.loads(json.dumps(first.to_dict()))))["gradients"] == first.gradients


def test_an_outcome_survives_json() -> None:
    before = outcome([0.5, 0.25], transitions=((), ("entered", "greedy")), reactive=np.array([False, True]))
    after = TrialResult.from_dict(json.loads(json.dumps(before.to_dict())))
    assert after.error.tolist() == [0.5, 0.25]
    assert after.transitions == before.transitions
    assert after.reactive.tolist() == [False, True]
    assert after.mean_error == 0.375


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_trial_is_what_a_session_learns_and_predicts(
    name: str, sparse: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = SINE1(n_rows=1200)
    X, y = known.arrays()
    stream = ArrayStream(csr_array(X) if sparse else X, y, drifts=known.drifts, name="sine1")
    monkeypatch.setattr(trials, "prepared", lambda dataset: (stream, 50, known.drift_steps(50)))
    trial = Trial("sine1", name, seed=2)
    found = trial.perform()
    made = ALGORITHMS[name].make(trial.learner(), Setting(known.drift_steps(50), 50, seed=2, options=OPTIONS))
    trace = prequential(stream, {name: Session(made, classes=(-1, 1), guard=None)}, batch_size=50)
    run = trace.of(name)
    assert found.error.tolist() == run["error"].tolist()
    assert found.trained_from.tolist() == run["trained_from"].tolist()
    assert found.transitions == trace.transitions(name)
    assert found.reactive.tolist() == (run["state"] == "reactive").tolist()
    assert found.gradients == run["gradients"].sum()


SMALL = [Trial("circles", name, seed=seed) for name in ("aware", "1pass-sgd") for seed in (0, 1)]


def test_a_second_run_takes_everything_from_the_ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = Ledger(tmp_path / "ledger.jsonl")
    calls: list[tuple[int, int]] = []
    first = run(SMALL, ledger, on_done=lambda done, total: calls.append((done, total)))
    assert calls == [(0, 4), (1, 4), (2, 4), (3, 4), (4, 4)]
    monkeypatch.setattr(Trial, "perform", _never)
    second = run(SMALL, ledger)
    assert {t: o.error.tolist() for t, o in first.items()} == {t: o.error.tolist() for t, o in second.items()}


def _never(self: Trial) -> TrialResult:
    raise AssertionError("the task was done before")


def test_an_interrupted_run_resumes_and_skips_a_torn_line(tmp_path: Path) -> None:
    whole, torn = Ledger(tmp_path / "whole.jsonl"), Ledger(tmp_path / "torn.jsonl")
    expected = run(SMALL, whole)
    lines = whole.path.read_text().splitlines(keepends=True)
    torn.path.write_text(lines[0] + lines[1][: len(lines[1]) // 2])
    counts: list[int] = []
    again = run(SMALL, torn, on_done=lambda done, total: counts.append(done))
    assert counts[0] == 1
    assert {t: o.error.tolist() for t, o in again.items()} == {t: o.error.tolist() for t, o in expected.items()}
    assert len(run(SMALL, torn)) == 4


def test_tasks_run_again_if_code_or_data_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = Ledger(tmp_path / "ledger.jsonl")
    run(SMALL[:1], ledger)
    for name in ("code_digest", "data_digest"):
        with monkeypatch.context() as patch:
            patch.setattr(runner, name, lambda *_: "another")
            counts: list[int] = []
            run(SMALL[:1], ledger, on_done=lambda done, total, counts=counts: counts.append(done))  # type: ignore[misc]
            assert counts == [0, 1]


def test_results_do_not_depend_on_the_number_of_processes(tmp_path: Path) -> None:
    texts = []
    for jobs in (1, 2):
        folder = tmp_path / str(jobs)
        names = ["sine1", "circles"]
        result = reproduce(folder, ["greedy", "tune", "analysis"], names=names, trials=1, jobs=jobs)
        output_files.write(folder, result)
        texts.append((folder / "results.json").read_bytes())
    assert texts[0] == texts[1]


def test_results_come_in_the_order_asked_for_whatever_the_ledger_has(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.jsonl")
    run(SMALL[2:], ledger)
    assert list(run(SMALL, ledger)) == SMALL


def test_bytes_in_a_ledger_that_are_not_text_are_skipped(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.jsonl")
    ledger.path.write_bytes(b"\xff\xfe\x00\n")
    assert len(run(SMALL[:1], ledger)) == 1
    assert len(ledger.read()) == 1
