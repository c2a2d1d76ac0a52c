"""Engines by name, and the state store of the local engine."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from commands import invoke
from keyed_rows import COLUMNS, OPTIONS, shops, write_rows

from driftsurf import registry
from driftsurf.core import disk
from driftsurf.core.files import FolderLock
from driftsurf.data import ReadingOptions
from driftsurf.errors import LockedError, MissingExtraError, OptionError, StateError
from driftsurf.keyed import Engine, KeyedFolder, KeyedJob, KeyRows, run_keyed, store
from driftsurf.keyed.local import LocalEngine
from driftsurf.keyed.store import StateStore
from driftsurf.spark.engine import SparkEngine


def test_engines_are_listed_without_their_packages() -> None:
    assert registry.names("engine") == ["local", "spark"]
    assert all(isinstance(entry.part(), Engine) for entry in registry.entries("engine"))


def test_spark_needs_its_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    source = str(write_rows(tmp_path / "a.csv", shops(10)))
    for engine in ("spark", SparkEngine()):
        with pytest.raises(MissingExtraError, match=r"driftsurf\[spark\]"):
            run_keyed(source, tmp_path / "run", COLUMNS, OPTIONS, engine=engine)


def test_only_one_process_at_a_time_works_on_a_run(tmp_path: Path) -> None:
    source = str(write_rows(tmp_path / "a.csv", shops(50)))
    run_keyed(source, tmp_path / "run", COLUMNS, OPTIONS)
    lock = FolderLock(tmp_path / "run")
    with pytest.raises(LockedError):
        run_keyed(source, tmp_path / "run", COLUMNS, OPTIONS)
    lock.release()


@pytest.fixture
def _no_shared_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Storage that shares no locks: every process believes that it alone holds a folder."""
    monkeypatch.setattr(disk.Disk, "lock", lambda self, path, who: os.open(os.devnull, os.O_RDWR))
    monkeypatch.setattr(disk.Disk, "unlock", lambda self, handle: os.close(handle))


@pytest.mark.usefixtures("_no_shared_locks")
@pytest.mark.parametrize(("place", "marked"), [("unmark", []), ("mark", []), ("part", []), ("keep", [0])])
def test_a_process_whose_folder_was_taken_over_completes_no_epoch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, marked: list[int]
) -> None:
    source, run = str(write_rows(tmp_path / "a.csv", shops(90))), tmp_path / "run"
    owner: Any = StateStore if place == "keep" else KeyedFolder
    original = getattr(owner, place)

    def taken(*args: Any) -> Any:
        FolderLock(run)  # another process
        return original(*args)

    with monkeypatch.context() as patch:
        patch.setattr(owner, place, taken)
        with pytest.raises(LockedError, match=str(os.getpid())):
            run_keyed(source, run, COLUMNS, OPTIONS, epoch=30)
    assert list(KeyedFolder(run).epochs()) == marked
    store = StateStore(run / "state.sqlite")
    assert store.progress().epochs == 0
    store.close()
    assert len(run_keyed(source, run, COLUMNS, OPTIONS, epoch=30).epochs()) == 3


def test_the_state_store_commits_an_epoch_or_nothing(tmp_path: Path) -> None:
    store = StateStore(tmp_path / "state.sqlite")
    learner = OPTIONS.learner(("price", "age"))
    visit = learner.visit("a", None, KeyRows(np.arange(3), np.ones((3, 2)), [0, 1, 0]))
    store.keep({"a": visit}, store.progress())
    with pytest.raises(TypeError):
        store.keep({"b": visit}, store.progress()._replace(position=object()))
    assert store.get("b") is None
    assert store.get("a") == visit.state
    store.close()


def test_a_state_store_that_cannot_be_opened_releases_the_folder(tmp_path: Path) -> None:
    source = str(write_rows(tmp_path / "a.csv", shops(50)))
    run_keyed(source, tmp_path / "run", COLUMNS, OPTIONS)
    (tmp_path / "run" / "state.sqlite").write_bytes(b"something else" * 1000)
    for _ in range(2):
        with pytest.raises(StateError, match=r"state\.sqlite"):
            run_keyed(source, tmp_path / "run", COLUMNS, OPTIONS)


class RecordingEngine:
    """An engine of another package: it records its job and lets the local engine do the work."""

    first_rows = 50
    jobs: ClassVar[list[KeyedJob]] = []

    def __init__(self, *, shards: int = 1) -> None:
        self.shards = shards

    def check(self, reading: ReadingOptions) -> None:
        if self.shards < 1:
            raise OptionError(f"shards is {self.shards}; it must be at least 1")

    def run(self, job: KeyedJob) -> KeyedFolder:
        self.jobs.append(job)
        return LocalEngine(epoch=100).run(job)


def test_another_package_can_add_an_engine(tmp_path: Path, register: Any) -> None:
    register("engine", "recording")(RecordingEngine)
    source = str(write_rows(tmp_path / "a.csv", shops(300)))
    expected = run_keyed(source, tmp_path / "local", COLUMNS, OPTIONS, epoch=100)
    by_name = run_keyed(source, tmp_path / "name", COLUMNS, OPTIONS, engine="recording", shards=3)
    passed = run_keyed(source, tmp_path / "object", COLUMNS, OPTIONS, engine=RecordingEngine(shards=2))
    assert by_name.read("keys") == passed.read("keys") == expected.read("keys")
    assert [job.unused for job in RecordingEngine.jobs] == [("note",)] * 2
    with pytest.raises(OptionError, match="0"):
        run_keyed(source, tmp_path / "none", COLUMNS, OPTIONS, engine="recording", shards=0)
    with pytest.raises(OptionError, match=r"'epoch'.*shards"):
        run_keyed(source, tmp_path / "none", COLUMNS, OPTIONS, engine="recording", epoch=3)
    columns = ("--key", "shop", "--sequence", "at", "--label", "bought", "--quiet")
    assert invoke("run", source, *columns, "--engine", "recording", "--out", tmp_path / "command").exit_code == 0
    assert len(RecordingEngine.jobs) == 3


def _sql(*statements: str) -> Callable[[Path], None]:
    def change(run: Path) -> None:
        with contextlib.closing(sqlite3.connect(run / "state.sqlite")) as store, store:
            for statement in statements:
                store.execute(statement)

    return change


DAMAGE: dict[str, tuple[Callable[[Path], Any], str]] = {
    "states removed": (lambda run: (run / "state.sqlite").unlink(), "3 complete epochs"),
    "states emptied": (lambda run: (run / "state.sqlite").write_bytes(b""), "3 complete epochs"),
    "states cut": (lambda run: os.truncate(run / "state.sqlite", 5000), "state.sqlite"),
    "other tables": (_sql("DROP TABLE state", "CREATE TABLE state (a, b)"), "state.sqlite"),
    "no progress": (_sql("UPDATE progress SET value = NULL"), "None"),
    "progress of another shape": (_sql("UPDATE progress SET value = '[1, 2, 3, 4]'"), "progress"),
    "progress of another run": (_sql("UPDATE progress SET value = '[99, null, null]'"), "99"),
    "states that are text": (_sql("UPDATE state SET bytes = 'text'"), "'text'"),
    "states that are no states": (_sql("UPDATE state SET bytes = x'00'"), "1 bytes"),
    "marks removed": (lambda run: shutil.rmtree(run / "epochs"), "0 complete epochs"),
    "a mark cut": (lambda run: os.truncate(run / "epochs" / "00000001.json", 1), "00000001.json"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_folder_is_refused_by_name_and_not_begun_again(
    tmp_path: Path, damage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "SPAN", 1)  # every key is written as a whole in every epoch
    change, named = DAMAGE[damage]
    source, run = str(write_rows(tmp_path / "a.csv", shops(90))), tmp_path / "run"
    run_keyed(source, run, COLUMNS, OPTIONS, engine=LocalEngine(epoch=30))
    before = sorted(path.name for path in (run / "epochs").iterdir())
    change(run)
    left = sorted(path.name for path in run.glob("epochs/*"))
    write_rows(tmp_path / "a.csv", [*shops(90), *shops(30, start=90)])
    with pytest.raises(StateError, match=re.escape(named)):
        run_keyed(source, run, COLUMNS, OPTIONS, engine=LocalEngine(epoch=30))
    assert sorted(path.name for path in run.glob("epochs/*")) == left
    assert len(before) == 3


class _Full(sqlite3.Connection):
    """A store on a disk that is full."""

    def executemany(self, *_: Any) -> Any:
        raise sqlite3.OperationalError("database or disk is full")


def test_a_full_disk_names_the_state_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda path, **options: connect(path, factory=_Full, **options))
    source = str(write_rows(tmp_path / "a.csv", shops(30)))
    with pytest.raises(StateError, match=r"state\.sqlite.*disk is full.*run the same command again"):
        run_keyed(source, tmp_path / "run", COLUMNS, OPTIONS)


@pytest.mark.parametrize("name", ["predictions/epoch=00000000/part-0.parquet", "keys.parquet"])
def test_a_damaged_table_is_named(tmp_path: Path, name: str) -> None:
    run = tmp_path / "run"
    run_keyed(str(write_rows(tmp_path / "a.csv", shops(30))), run, COLUMNS, OPTIONS)
    KeyedFolder(run).compact()
    (run / name).write_bytes(b"PAR1")
    shown = invoke("keys", run)
    assert (shown.exit_code, f"'{run / name}' is damaged" in shown.output) == (1, True)
