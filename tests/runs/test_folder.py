"""Run folders appear under their name when they are complete, and replace nothing but runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from driftsurf.core.files import write_text
from driftsurf.errors import RunFolderError
from driftsurf.runs.folder import ABOUT, TRACE, RunFolder, next_run_folder


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
