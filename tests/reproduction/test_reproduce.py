"""A reproduction as a whole: output files, verdicts, bad arguments."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from reproductions import cell, outcome

from driftsurf.comparison.runner import Ledger
from driftsurf.core import disk, files
from driftsurf.errors import InputError, LockedError, OptionError, RunFolderError
from driftsurf.reproduction import output_files
from driftsurf.reproduction.cells import agreement
from driftsurf.reproduction.claims import CLAIMS
from driftsurf.reproduction.reproduce import Reproduction, available, reproduce
from driftsurf.reproduction.trials import Trial
from driftsurf.reproduction.verdicts import judge

pytestmark = pytest.mark.usefixtures("generated_streams_only")


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
    output_files.write(copy, reproduce(copy, result.experiments, names=["circles", "sine1"], trials=2))
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
    assert [judgement.subject.stream for judgement in late.judgements] == ["sine1", "circles"]
    assert all(judgement.detail in late.evidence for judgement in late.judgements)
    assert "electricity" in late.not_judged
    assert not late.stand_in


def test_a_claim_that_fails_names_the_streams_where_it_fails(small: tuple[Path, Reproduction]) -> None:
    measured = small[1].measured
    cells = [cell("rho-4m", name, who, error) for name in ("circles", "sine1") for who, error in (("aue", 0.3),)]
    cells += [cell("rho-4m", "circles", "driftsurf", 0.2), cell("rho-4m", "sine1", "driftsurf", 0.4)]
    found = {verdict.claim.id: verdict for verdict in judge(replace(measured, cells=tuple(cells)))}
    verdict = found["ahead-of-aue-when-divided"]
    assert verdict.holds is False
    assert [(one.subject.stream, one.holds) for one in verdict.judgements] == [("sine1", False), ("circles", True)]
    assert "sine1" in verdict.evidence
    assert "circles" not in verdict.evidence
    assert "sea0" in verdict.not_judged


def test_claims_about_curves_are_judged_on_stand_ins(small: tuple[Path, Reproduction]) -> None:
    _, result = small
    steps = 90
    drifts = (27, 54)
    fast = outcome([0.5 if step in drifts else 0.2 for step in range(steps)])
    slow = outcome([0.5 if any(d <= step < d + 8 for d in drifts) else 0.2 for step in range(steps)])
    kinds = tuple(("reset",) if step in drifts else () for step in range(steps))
    firing = tuple(("reset",) if step % 4 == 0 else () for step in range(steps))
    runs = {"driftsurf": fast, "aware": fast, "aue": slow, "ddm": replace(fast, transitions=kinds)}
    runs |= {name: replace(fast, transitions=firing) for name in ("mddm-g", "mddm-a", "mddm-e", "eddm")}
    done = {Trial("covertype-sample", name, seed=seed): run for name, run in runs.items() for seed in (0, 1)}
    measured = replace(result.measured, datasets=("covertype-sample",), outcomes=done, cells=())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("driftsurf.reproduction.verdicts.timeline", lambda dataset: SimpleNamespace(aware_steps=drifts))
        verdicts = {verdict.claim.id: verdict for verdict in judge(measured)}
    for name in ("recovers-in-one-reactive-state", "adapts-faster-than-aue", "detectors-on-covertype"):
        assert verdicts[name].holds is True, verdicts[name].evidence
        assert verdicts[name].stand_in
    recovery = verdicts["recovers-in-one-reactive-state"]
    assert [judgement.subject.stream for judgement in recovery.judgements] == ["covertype-sample"] * 2
    assert [step in recovery.evidence for step in ("step 31", "step 58", "0.200")] == [True, True, True]
    assert recovery.not_judged == ("powersupply",)
    assert verdicts["old-model-first-on-airline"].holds is None


@pytest.mark.parametrize(
    ("ask", "error", "value"),
    [
        (lambda folder: reproduce(folder, ["equal"]), OptionError, "'equal'"),
        (lambda folder: reproduce(folder, names=["sea1"]), OptionError, "'sea10'"),
        (lambda folder: reproduce(folder, names=[]), OptionError, "datasets"),
        (lambda folder: reproduce(folder, names=["friedman"]), OptionError, "friedman"),
        (lambda folder: reproduce(folder, names=["rcv1"]), InputError, "rcv1"),
        (lambda folder: reproduce(folder, trials=0), OptionError, "trials"),
        (lambda folder: reproduce(folder, ["noise"], names=["sine1"]), OptionError, "noise .* sine1.* sea0"),
    ],
)
def test_bad_arguments_are_refused_before_anything_is_written(
    ask: Callable[[Path], Any], error: type[Exception], value: str, tmp_path: Path
) -> None:
    with pytest.raises(error, match=value):
        ask(tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_folder_with_other_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "report.html").write_text("mine")
    with pytest.raises(RunFolderError, match=re.escape(str(tmp_path))):
        reproduce(tmp_path, ["greedy"], names=["sine1"], trials=1)
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_a_second_process_on_the_folder_is_refused_with_the_first_ones_number(tmp_path: Path) -> None:
    lock = files.FolderLock(tmp_path)
    with pytest.raises(LockedError, match=str(os.getpid())):
        reproduce(tmp_path, ["greedy"], names=["sine1"], trials=1)
    lock.release()
    assert reproduce(tmp_path, ["greedy"], names=["sine1"], trials=1).cells
    files.FolderLock(tmp_path).release()


def test_a_process_whose_folder_was_taken_over_records_no_more_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk.Disk, "lock", lambda self, path, who: os.open(os.devnull, os.O_RDWR))
    monkeypatch.setattr(disk.Disk, "unlock", lambda self, handle: os.close(handle))

    def taken(what: str, done: int, total: int) -> None:
        if done == 1:
            files.FolderLock(tmp_path)  # another process, on storage that shares no locks

    with pytest.raises(LockedError, match=str(os.getpid())):
        reproduce(tmp_path, ["greedy"], names=["sine1"], trials=1, on_progress=taken)
    assert len(Ledger(tmp_path / "ledger.jsonl").read()) == 1


def test_without_files_the_real_streams_are_missing() -> None:
    found, missing = available()
    assert found[:2] == ("sea0", "sea10")
    assert "electricity" in missing
    assert not set(found) & set(missing)
