"""Run folders appear under their name when they are complete, and replace nothing but runs."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from commands import invoke

import driftsurf
from driftsurf.core.files import write_text
from driftsurf.errors import RunFolderError
from driftsurf.runs.folder import ABOUT, TRACE, RunFolder, next_run_folder
from driftsurf.runs.options import PredictOptions
from driftsurf.runs.predict import predict


def test_two_runs_into_one_folder_never_mix(tmp_path: Path) -> None:
    first = RunFolder(tmp_path / "c")
    write_text(first / ABOUT, "first")
    second = RunFolder(tmp_path / "c", overwrite=True)  # while the first is still running
    write_text(second / ABOUT, "second")
    with pytest.raises(RunFolderError, match=r"c\.partial"):
        write_text(first / TRACE, "first")
    with pytest.raises(RunFolderError, match=r"c\.partial"):
        first.finish()
    second.finish()
    assert (tmp_path / "c" / ABOUT).read_text() == "second"


def test_folder_created_during_the_run_is_not_replaced(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "late")
    write_text(run / ABOUT, "mine")
    (tmp_path / "late").mkdir()
    (tmp_path / "late" / ABOUT).write_text("theirs")
    with pytest.raises(RunFolderError, match=r"late\.partial"):
        run.finish()
    assert (tmp_path / "late" / ABOUT).read_text() == "theirs"


def test_folder_with_other_entries_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "t" / TRACE).mkdir(parents=True)  # a folder with the name of a file of a run
    (tmp_path / "t" / ABOUT).write_text("mine")
    with pytest.raises(RunFolderError, match=TRACE):
        RunFolder(tmp_path / "t", overwrite=True)
    assert (tmp_path / "t" / ABOUT).read_text() == "mine"


def test_temporary_files_of_a_killed_run_are_removed(tmp_path: Path) -> None:
    (tmp_path / "k.partial").mkdir()
    (tmp_path / "k.partial" / f".{TRACE}.abcd").write_text("half")
    with pytest.raises(RunFolderError, match="overwrite"):
        RunFolder(tmp_path / "k")
    run = RunFolder(tmp_path / "k", overwrite=True)
    write_text(run / ABOUT, "complete")
    run.finish()
    assert [path.name for path in (tmp_path / "k").iterdir()] == [ABOUT]


def test_only_files_of_a_run_are_written(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"notes\.txt"):
        RunFolder(tmp_path / "r") / "notes.txt"


def test_new_folders_are_numbered(tmp_path: Path) -> None:
    assert next_run_folder("sea0", tmp_path) == tmp_path / "sea0"
    (tmp_path / "sea0").mkdir()
    (tmp_path / "sea0-2.partial").mkdir()
    assert next_run_folder("sea0", tmp_path) == tmp_path / "sea0-3"


@pytest.mark.filterwarnings("ignore::driftsurf.errors.ColumnWarning")
@pytest.mark.parametrize("umask", [0o000, 0o027])
def test_results_follow_the_umask_and_states_are_private(umask: int, tmp_path: Path) -> None:
    before = os.umask(umask)
    try:
        rows = "".join(f"{i % 7},{i % 3},{i},{'yes' if i % 7 > 3 else 'no'}\n" for i in range(400))
        source = tmp_path / "rows.csv"
        source.write_text("x,k,i,y\n" + rows)
        tables = [str(tmp_path / name) for name in ("p.csv", "p.parquet")]
        run = driftsurf.run(source, label="y", batch_size=100, out=tmp_path / "one", predictions=tables[0])
        driftsurf.run(source, label="y", batch_size=100, checkpoint=tmp_path / "durable", predictions=tables[1])
        driftsurf.run(source, label="y", key="k", sequence="i", out=tmp_path / "keyed")
        predict(run.folder, source, PredictOptions(out=str(tmp_path / "answers.jsonl")))
        driftsurf.save(driftsurf.load(run.folder), tmp_path / "model.state")
        words = ["--label", "y", "--models", "majority,persistence", "--batch-size", 50, "--jobs", 1, "--quiet"]
        assert invoke("compare", source, *words, "--out", tmp_path / "compared").exit_code == 0
        assert invoke("run", source, "--label", "y", "--write-config", tmp_path / "run.toml").exit_code == 0
    finally:
        os.umask(before)
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.rglob("*") if path.is_file()}
    for path, mode in modes.items():
        if path.name in ("rows.csv", "run.toml"):
            continue
        state = path.suffix in (".state", ".sqlite") or path.name in STATES or path.parent.name == "durable"
        assert mode == (0o600 if state else 0o666 & ~umask), path
    assert sum(path.name in ("report.html", "run.json", "journal.jsonl", "trace.csv") for path in modes) > 8
    assert len(modes) > 20


STATES = "lock", "fence", "ledger.jsonl"


def _sales(path: Path) -> Path:
    path.write_text("a,sold\n" + "".join(f"{i % 7},{'yes' if i % 3 else 'no'}\n" for i in range(300)))
    return path


def test_a_long_name_of_a_source_gives_a_folder_that_can_be_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    source = _sales(tmp_path / ("x" * 250 + ".csv"))
    result = driftsurf.run(source, label="sold", batch_size=100, model="recommended-linear", progress=False)
    assert result.folder.name == "x" * 60
    assert next_run_folder("x" * 250).name == "x" * 60 + "-2"


@pytest.mark.parametrize("name", ["trace.csv", "journal.jsonl", "run.json", "scores.jsonl", "bad_rows.jsonl", "lock"])
@pytest.mark.parametrize("resume", [False, True])
def test_checkpoints_replace_no_file_of_a_folder_that_had_none(name: str, resume: bool, tmp_path: Path) -> None:
    place = tmp_path / "mine"
    place.mkdir()
    (place / name).write_text("mine")
    source = _sales(tmp_path / "a.csv")
    with pytest.raises(RunFolderError, match=name):
        driftsurf.run(source, label="sold", checkpoint=place, resume=resume, model="recommended-linear", progress=False)
    assert [one.name for one in place.iterdir()] == [name]
    assert (place / name).read_text() == "mine"


def test_metrics_are_not_written_into_the_folders_of_the_run(tmp_path: Path) -> None:
    source, place = _sales(tmp_path / "a.csv"), tmp_path / "live"
    with pytest.raises(RunFolderError, match="journal"):
        driftsurf.run(source, label="sold", metrics=place / "journal.jsonl", checkpoint=place, progress=False)
    with pytest.raises(RunFolderError, match="journal"):
        driftsurf.run(source, label="sold", metrics=place / "journal.jsonl", out=place, progress=False)
    assert not place.exists()
