"""The evaluation: tasks, their ledger, cells, verdicts, bounds, files."""

from __future__ import annotations

import json
import math
import os
import shutil
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from driftsurf.errors import InputError, LockedError, OptionError, RunFolderError
from driftsurf.experiments import analysis, documents, plan, runner, trials, tune
from driftsurf.experiments.algorithms import ALGORITHMS
from driftsurf.experiments.claims import CLAIMS
from driftsurf.experiments.published import STREAMS, published
from driftsurf.experiments.reproduce import EXPERIMENTS, Reproduction, available, reproduce
from driftsurf.experiments.results import Cell, agreement, to_csv, to_markdown
from driftsurf.experiments.runner import Ledger, run
from driftsurf.experiments.trials import Outcome, Trial
from driftsurf.experiments.verdicts import judge
from driftsurf.runtime import files
from driftsurf.streams import SINE1
from driftsurf.streams.arrays import ArrayStream


@pytest.fixture(autouse=True)
def generated_streams_only(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No file of the machine decides what these tests see."""
    monkeypatch.delenv("DRIFTSURF_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def outcome(error: list[float], **changes: Any) -> Outcome:
    n = len(error)
    plain = Outcome(np.array(error), np.zeros(n, np.int64), ("",) * n, np.zeros(n, bool), 10, 0.5)
    return replace(plain, **changes)


def cell(table: str, dataset: str, algorithm: str, error: float, **changes: Any) -> Cell:
    paper = published(table, dataset, algorithm) if dataset in STREAMS else None
    made = Cell(table, dataset, algorithm, "algorithm-1", (error, error + 0.002), error, paper, 1000)
    return replace(made, **changes)


# ---------------------------------------------------------------------------- the plan


def test_the_six_tables_of_the_paper_take_the_cells_that_it_prints() -> None:
    names = [table.name for table in plan.PAPER_TABLES.values()]
    assert names == ["equal-model", "rho-4m", "rho-2m", "greedy", "sgd", "sgd-rho-2m"]
    cells = sum(len(table.columns) for table in plan.PAPER_TABLES.values()) * 12
    assert cells == 360  # on the twelve streams whose data are at hand


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
    before = outcome([0.5, 0.25], transition=("", "entered+greedy"), reactive=np.array([False, True]))
    after = Outcome.from_dict(json.loads(json.dumps(before.to_dict())))
    assert after.error.tolist() == [0.5, 0.25]
    assert after.transition == before.transition
    assert after.reactive.tolist() == [False, True]
    assert after.mean_error == 0.375


# ---------------------------------------------------------------------------- the runner

SMALL = [Trial("circles", name, seed=seed) for name in ("aware", "1pass-sgd") for seed in (0, 1)]


def test_a_second_run_takes_everything_from_the_ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = Ledger(tmp_path / "ledger.jsonl")
    calls: list[tuple[int, int]] = []
    first = run(SMALL, ledger, on_done=lambda done, total: calls.append((done, total)))
    assert calls == [(0, 4), (1, 4), (2, 4), (3, 4), (4, 4)]
    monkeypatch.setattr(Trial, "perform", _never)
    second = run(SMALL, ledger)
    assert {t: o.error.tolist() for t, o in first.items()} == {t: o.error.tolist() for t, o in second.items()}


def _never(self: Trial) -> Outcome:
    raise AssertionError("it was done already")


def test_a_run_killed_in_the_middle_goes_on_and_a_torn_line_is_passed_over(tmp_path: Path) -> None:
    whole, torn = Ledger(tmp_path / "whole.jsonl"), Ledger(tmp_path / "torn.jsonl")
    expected = run(SMALL, whole)
    lines = whole.path.read_text().splitlines(keepends=True)
    torn.path.write_text(lines[0] + lines[1][: len(lines[1]) // 2])
    counts: list[int] = []
    again = run(SMALL, torn, on_done=lambda done, total: counts.append(done))
    assert counts[0] == 1
    assert {t: o.error.tolist() for t, o in again.items()} == {t: o.error.tolist() for t, o in expected.items()}
    assert len(run(SMALL, torn)) == 4


def test_other_code_or_other_data_make_a_task_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
        documents.write(folder, result)
        texts.append((folder / "results.json").read_bytes())
    assert texts[0] == texts[1]


def test_results_come_in_the_order_asked_for_whatever_the_ledger_has(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.jsonl")
    run(SMALL[2:], ledger)
    assert list(run(SMALL, ledger)) == SMALL


def test_bytes_that_are_no_text_in_a_ledger_are_passed_over(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.jsonl")
    ledger.path.write_bytes(b"\xff\xfe\x00\n")
    assert len(run(SMALL[:1], ledger)) == 1
    assert len(ledger.read()) == 1


# ---------------------------------------------------------------------------- results


def test_cells_near_the_paper_are_counted_as_they_are_printed() -> None:
    cells = [
        cell("equal-model", "sea0", "aware", 0.1474),  # rounds to 0.147, off by 0.010
        cell("equal-model", "sea0", "aue", 0.1046),  # rounds to 0.105, off by 0.011
        cell("equal-model", "sea0", "driftsurf", 0.12),
        cell("equal-model", "sea0", "driftsurf", 0.30, variant="authors"),
        cell("equal-model", "airline-2007", "aue", 0.9),
    ]
    near = agreement(cells)
    assert (near.cells, near.within_10, near.within_20) == (3, 1, 2)
    assert [miss.algorithm for miss in near.misses] == ["driftsurf"]
    assert near.describe() == "3 cells of the paper: 1 (33.3%) within 0.010, 2 (66.7%) within 0.020"
    assert agreement([]).describe() == "no cell of the paper was run"


def test_a_table_sets_the_best_bold_and_leaves_aware_out() -> None:
    table = plan.TABLES["sgd"]
    cells = [cell("sgd", "sea0", name, error) for name, error in (("aware", 0.1), ("mddm-g", 0.2), ("aue", 0.3))]
    cells += [cell("sgd", "sea0", "driftsurf", 0.2), cell("sgd", "sea0", "driftsurf", 0.15, variant="authors")]
    row = to_markdown(table, cells, {"sea0": "SEA0"}).splitlines()[-1]
    assert row.split(" | ") == [
        "| SEA0",
        "0.100 ±0.001 / 0.170",
        "**0.200** ±0.001 / 0.118",
        "0.150 ±0.001 / 0.118",
        "**0.200** ±0.001 / 0.127",
        "0.300 ±0.001 / 0.125 |",
    ]
    head, first = to_csv(cells).splitlines()[:2]
    assert dict(zip(head.split(","), first.split(","), strict=True))["difference"] == "-0.07"


# ---------------------------------------------------------------------------- the whole


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Reproduction]:
    """Everything but the grid search, on two small streams with two trials."""
    folder = tmp_path_factory.mktemp("reproduction")
    chosen = [name for name in EXPERIMENTS if name not in ("tune", "baselines", "sensitivity")]
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("DRIFTSURF_DATA", raising=False)
        result = reproduce(folder, chosen, names=["circles", "sine1"], trials=2)
        documents.write(folder, result)
    return folder, result


def test_results_json_has_every_cell_and_nothing_that_changes_from_run_to_run(
    small: tuple[Path, Reproduction], tmp_path: Path
) -> None:
    folder, result = small
    written = json.loads((folder / "results.json").read_text())
    assert written["datasets"]["sine1"] == {"title": "SINE1", "data": "generated", "paper": True}
    assert len(written["cells"]) == len(result.cells)
    first = written["cells"][0]
    assert first.keys() >= {"table", "dataset", "algorithm", "variant", "trials", "median", "paper", "gradients"}
    driftsurf = [c for c in written["cells"] if c["algorithm"] == "driftsurf" and c["table"] == "rho-4m"]
    assert sorted((c["dataset"], c["variant"]) for c in driftsurf) == [
        (dataset, variant) for dataset in ("circles", "sine1") for variant in ("algorithm-1", "authors")
    ]
    assert "seconds" not in (folder / "results.json").read_text()
    assert len(json.loads((folder / "timings.json").read_text())["cells"]) == len(result.cells)
    copy = tmp_path / "copy"
    copy.mkdir()
    shutil.copy(folder / "ledger.jsonl", copy)
    documents.write(copy, reproduce(copy, result.experiments, names=["circles", "sine1"], trials=2))
    assert (copy / "results.json").read_bytes() == (folder / "results.json").read_bytes()


def test_the_tables_are_written_as_csv_and_markdown(small: tuple[Path, Reproduction]) -> None:
    folder, _ = small
    names = {path.name for path in (folder / "tables").iterdir()}
    for name in ("equal-model", "compact", "datasets", "drifts", "hyperparameters", "departures"):
        assert {f"{name}.md", f"{name}.csv"} <= names
    assert "| SINE1 |" in (folder / "tables" / "compact.md").read_text()


def test_the_numbers_are_the_papers_on_two_small_streams(small: tuple[Path, Reproduction]) -> None:
    near = agreement(small[1].cells)
    assert near.cells == 60
    assert near.within_20 >= 53  # two trials on two of the streams with the most misses


def test_every_claim_gets_a_verdict_with_evidence(small: tuple[Path, Reproduction]) -> None:
    verdicts = {verdict.claim.id: verdict for verdict in small[1].verdicts}
    assert list(verdicts) == list(CLAIMS)
    assert all(verdict.evidence for verdict in verdicts.values())
    assert verdicts["detectors-on-covertype"].holds is None  # no CoverType here
    late = verdicts["aware-with-a-late-switch"]
    assert late.evidence.startswith("sine1 ")
    assert "circles " in late.evidence
    assert not late.stand_in


def test_claims_about_curves_are_judged_on_the_stand_in_and_said_so(small: tuple[Path, Reproduction]) -> None:
    _, result = small
    steps = 90
    drifts = (27, 54)
    fast = outcome([0.5 if step in drifts else 0.2 for step in range(steps)])
    slow = outcome([0.5 if any(d <= step < d + 8 for d in drifts) else 0.2 for step in range(steps)])
    kinds = tuple("reset" if step in drifts else "" for step in range(steps))
    firing = tuple("reset" if step % 4 == 0 else "" for step in range(steps))
    runs = {"driftsurf": fast, "aware": fast, "aue": slow, "ddm": replace(fast, transition=kinds)}
    runs |= {name: replace(fast, transition=firing) for name in ("mddm-g", "mddm-a", "mddm-e", "eddm")}
    done = {Trial("covertype-sample", name, seed=seed): run for name, run in runs.items() for seed in (0, 1)}
    measured = replace(result.measured, datasets=("covertype-sample",), outcomes=done, cells=())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("driftsurf.experiments.verdicts.timeline", lambda dataset: SimpleNamespace(aware_steps=drifts))
        verdicts = {verdict.claim.id: verdict for verdict in judge(measured)}
    for name in ("recovers-in-one-reactive-state", "adapts-faster-than-aue", "detectors-on-covertype"):
        assert verdicts[name].holds is True, verdicts[name].evidence
        assert verdicts[name].stand_in
    assert verdicts["recovers-in-one-reactive-state"].evidence == (
        "covertype-sample from step 31: 0.200, Aware 0.200; covertype-sample from step 58: 0.200, Aware 0.200; "
        "not judged: powersupply"
    )
    assert verdicts["old-model-first-on-airline"].holds is None


@pytest.mark.parametrize(
    ("ask", "error", "message"),
    [
        (lambda folder: reproduce(folder, ["equal"]), OptionError, "experiment is 'equal'; choices"),
        (lambda folder: reproduce(folder, names=["sea1"]), OptionError, "did you mean 'sea10'?"),
        (lambda folder: reproduce(folder, names=[]), OptionError, "datasets is empty"),
        (lambda folder: reproduce(folder, names=["friedman"]), OptionError, "friedman has values to predict"),
        (lambda folder: reproduce(folder, names=["rcv1"]), InputError, "rcv1"),
        (lambda folder: reproduce(folder, trials=0), OptionError, "trials is 0"),
        (lambda folder: reproduce(folder, ["noise"], names=["sine1"]), OptionError, "noise is not about sine1"),
    ],
)
def test_what_cannot_be_run_is_said_before_anything_is_written(
    ask: Callable[[Path], Any], error: type[Exception], message: str, tmp_path: Path
) -> None:
    with pytest.raises(error, match=message.replace("?", r"\?")):
        ask(tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_folder_with_files_of_others_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "report.html").write_text("mine")
    with pytest.raises(RunFolderError, match="files of others"):
        reproduce(tmp_path, ["greedy"], names=["sine1"], trials=1)
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_a_second_process_on_the_folder_is_refused_and_told_who_holds_it(tmp_path: Path) -> None:
    lock = files.FolderLock(tmp_path)
    with pytest.raises(LockedError, match=rf"is held by process {os.getpid()} on "):
        reproduce(tmp_path, ["greedy"], names=["sine1"], trials=1)
    lock.release()
    assert reproduce(tmp_path, ["greedy"], names=["sine1"], trials=1).cells
    files.FolderLock(tmp_path).release()


def test_without_files_the_real_streams_are_missing() -> None:
    found, missing = available()
    assert found[:2] == ("sea0", "sea10")
    assert "electricity" in missing
    assert not set(found) & set(missing)


# ---------------------------------------------------------------------------- grid search


def test_the_grid_is_the_papers_and_the_choice_is_its_best(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(tune.L2S) * len(tune.STEP_SIZES) == 105
    assert (min(tune.STEP_SIZES), max(tune.STEP_SIZES)) == pytest.approx((1e-5, 0.5))
    monkeypatch.setattr(tune, "STEP_SIZES", (1e-5, 2e-1))
    found = tune.TuningTask("circles").perform()
    errors = np.array(found.errors)
    assert errors.shape == (7, 2)
    assert found.error == np.nanmin(errors)
    assert found.paper_error == errors[2, 1]  # mu = 1e-3, and 0.1 is nearest to 0.2
    assert tune.TuningTask.decode(json.loads(json.dumps(found.to_dict()))) == found


def test_a_grid_point_that_diverges_is_no_candidate(monkeypatch: pytest.MonkeyPatch) -> None:
    class Huge:
        def arrays(self) -> tuple[Any, Any]:
            X, y = SINE1(n_rows=500).arrays()
            return 1e95 * X, y

    monkeypatch.setattr("driftsurf.streams.catalogue.get", lambda name: type("Entry", (), {"make": staticmethod(Huge)}))
    monkeypatch.setattr(tune, "L2S", (1e-7,))
    monkeypatch.setattr(tune, "STEP_SIZES", (1e-200, 1e6))
    found = tune.tune("sine1")
    assert math.isnan(found.errors[0][1])
    assert found.step_size == 1e-200


# ---------------------------------------------------------------------------- the bounds


def test_the_smallest_risk_agrees_with_a_closed_form() -> None:
    # One row x = (1), label +1, with the constant: by symmetry w = (v, v), and v solves l2 v = sigmoid(-2 v).
    least, w = analysis.smallest_risk(np.ones((1, 1)), np.ones(1), 0.5, None)
    v = float(w[0])
    assert w[1] == pytest.approx(v)
    assert 0.5 * v == pytest.approx(1.0 / (1.0 + math.exp(2.0 * v)), abs=1e-6)
    assert least == pytest.approx(math.log1p(math.exp(-2.0 * v)) + 0.5 * v * v)


def test_the_bound_on_the_recovery_is_the_papers() -> None:
    entries, steps = analysis.recovery_bound(0.5, 0.5, 4)
    assert entries == pytest.approx(2.0 + math.sqrt(19.0 * 2.0))
    assert steps == pytest.approx(4 * entries + 4.0 * (math.log(20.0) + entries * math.log(2.0)))
    assert analysis.recovery_bound(0.0, 1.0, 4) == (math.inf, math.inf)


def test_bounds_are_estimated_from_the_states_and_switches(monkeypatch: pytest.MonkeyPatch) -> None:
    # Ten rows a step; a drift at step 6; entered at 6, switched at 9, the new model predicting from 7 on already.
    # A false entry at 14, kept at 17.
    monkeypatch.setattr(analysis, "prepared", lambda dataset: (None, 10, (6,)))
    kinds = [""] * 20
    kinds[6], kinds[9], kinds[14], kinds[17] = "entered", "switched", "entered", "kept"
    reactive = np.zeros(20, bool)
    reactive[6:10] = reactive[14:18] = True
    trained = np.array([0] * 7 + [60] * 13)
    run = outcome([0.1] * 20, transition=tuple(kinds), reactive=reactive, trained_from=trained)
    found = analysis.bounds("sine1", [run])
    assert found.recovery == (4,)
    assert found.entries == (1,)
    assert (found.p, found.p_star) == (1.0, 1.0)
    assert found.false_entries == 1
    assert found.false_switches == ((8, False),)
    assert found.smallest_b == 0.0
    assert found.theta == pytest.approx(1 / 12)  # steps 0 to 5, 10 to 13, 18 and 19
    assert found.stable_share == pytest.approx(12 / 16)
    assert found.stable_share_bound == pytest.approx(1 / (1 + 4 / 12))
    assert found.large_sample_share == 1.0


def test_a_reaction_that_began_before_the_drift_is_no_recovery(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(analysis, "prepared", lambda dataset: (None, 10, (6,)))
    kinds = [""] * 12
    kinds[4], kinds[7] = "entered", "switched"  # the new model has rows of both concepts
    reactive = np.array([4 <= step < 8 for step in range(12)])
    run = outcome([0.1] * 12, transition=tuple(kinds), reactive=reactive)
    found = analysis.bounds("sine1", [run])
    assert (found.recovery, found.entries) == ((None,), (0,))
    assert (found.p, found.p_star, found.recovery_bound) == (0.0, 0.0, math.inf)


def test_the_smallest_b_covers_the_switches_of_every_age() -> None:
    assert analysis._smallest_b([(4, True), (8, False)]) == pytest.approx(1.0 / (math.exp(-1) + math.exp(-2)))
    assert analysis._smallest_b([(4, False), (8, True)]) == pytest.approx(math.exp(2))


def test_driftsurf_competes_with_aware_within_the_bound(small: tuple[Path, Reproduction]) -> None:
    (found,) = small[1].competitions
    assert found.dataset == "sine1"
    assert found.ratios.tolist() == [ours / aware for ours, aware in zip(found.driftsurf, found.aware, strict=True)]
    assert np.median(found.aware[:3]) > 1e-6  # a sample of a few batches is not learnt to the end
    assert found.share_within > 0.9
    decoded = analysis.CompetitionTask.decode(json.loads(json.dumps(found.to_dict())))
    assert decoded == found
