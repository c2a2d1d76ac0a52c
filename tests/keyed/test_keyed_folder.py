"""The folder of a keyed run: complete epochs only, durable, compacted."""

from __future__ import annotations

import json
import math
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from keyed_rows import COLUMNS, OPTIONS, predictions, shops, write_rows

from driftsurf.core import disk, files
from driftsurf.data import FileSource
from driftsurf.errors import (
    LockedError,
    MissingExtraError,
    RunFolderError,
    StateError,
)
from driftsurf.keyed import KeyedFolder, KeyedOptions, KeyRows, run_keyed
from driftsurf.keyed.local import run_local
from driftsurf.keyed.results import fitted
from driftsurf.keyed.store import StateStore


def _die(*_: Any) -> None:
    raise KeyboardInterrupt


class _Names(disk.Disk):
    """Knows the folders with names that may not be on the medium."""

    def __init__(self) -> None:
        self.unsafe: set[Path] = set()

    def create(self, path: Path, shared: bool = False) -> int:
        self.unsafe.add(path.parent)
        return super().create(path, shared)

    def remove(self, path: Path) -> None:
        self.unsafe.add(path.parent)
        super().remove(path)

    def replace(self, old: Path, new: Path) -> None:
        self.unsafe |= {old.parent, new.parent}
        super().replace(old, new)

    def make_folder(self, path: Path) -> None:
        self.unsafe |= {one.parent for one in (path, *path.parents) if not one.exists()}
        super().make_folder(path)

    def sync_folder(self, path: Path) -> None:
        super().sync_folder(path)
        self.unsafe.discard(path)


def test_a_run_is_resumed_with_the_same_options_only(tmp_path: Path) -> None:
    source = str(write_rows(tmp_path / "a.csv", shops(50)))
    run_keyed(source, tmp_path / "run", COLUMNS, OPTIONS)
    with pytest.raises(StateError, match=r"learner\.batch_size.* 10 .* 32"):
        run_keyed(source, tmp_path / "run", COLUMNS, KeyedOptions(features=("price", "age"), classes=(0, 1)))
    with pytest.raises(StateError, match=r"columns\.ttl.* None .* 5"):
        run_keyed(source, tmp_path / "run", COLUMNS, OPTIONS, ttl=5)
    about = json.loads((tmp_path / "run" / "run.json").read_text())
    (tmp_path / "run" / "run.json").write_text(json.dumps(about | {"format": 99}))
    with pytest.raises(StateError, match="99"):
        run_keyed(source, tmp_path / "run", COLUMNS, OPTIONS)


def test_a_run_begins_under_the_lock_of_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, given = KeyedFolder(tmp_path / "run"), OPTIONS.learner(("x",))
    files.make_folder(folder.path)
    lock = files.FolderLock(folder.path)
    with pytest.raises(LockedError):
        folder.open("local", given, {"key": "shop"})
    assert not (folder.path / "run.json").exists()
    lock.release()

    class Late(files.FolderLock):
        """A lock that is taken after another process has begun a run."""

        def __init__(self, path: Path) -> None:
            monkeypatch.undo()
            KeyedFolder(path).open("local", given, {"key": "other"})
            super().__init__(path)

    monkeypatch.setattr(files, "FolderLock", Late)
    with pytest.raises(StateError, match="other"):
        folder.open("local", given, {"key": "shop"})
    assert folder.about()["columns"] == {"key": "other"}
    assert folder.open("local", given, {"key": "other"})


def test_a_folder_that_is_not_a_keyed_run_is_not_changed(tmp_path: Path) -> None:
    source = str(write_rows(tmp_path / "a.csv", shops(50)))
    with pytest.raises(RunFolderError, match=re.escape(str(tmp_path))):
        run_keyed(source, tmp_path, COLUMNS, OPTIONS)


@pytest.mark.parametrize("text", ["[]", "{", "null"])
def test_a_description_that_is_no_object_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "run.json").write_text(text)
    with pytest.raises(RunFolderError, match=re.escape(str(tmp_path))):
        KeyedFolder(tmp_path).about()


def test_the_compact_table_of_keys_is_updated(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for number in range(2):
        write_rows(tmp_path / "in" / f"{number}.csv", shops(300, n_keys=4 - number, start=300 * number))
        folder = run_keyed(str(tmp_path / "in"), tmp_path / "run", COLUMNS, OPTIONS, epoch=100)
        before = folder.keys()
        assert folder.compact() == before
        assert folder.keys() == before
    assert (before["s3"]["epoch"], before["s0"]["epoch"]) == (2, 5)
    (tmp_path / "run" / "keys.parquet").unlink()
    assert folder.keys() == before


def test_a_repeated_epoch_replaces_the_earlier_attempt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_rows(tmp_path / "a.csv", shops(90))
    with monkeypatch.context() as patch:
        patch.setattr(StateStore, "keep", _die)
        with pytest.raises(KeyboardInterrupt):
            run_keyed(str(path), tmp_path / "run", COLUMNS, OPTIONS)
    folder = KeyedFolder(tmp_path / "run")
    assert sum(entry["rows"] for entry in folder.compact().values()) == 90
    write_rows(path, shops(300))
    with monkeypatch.context() as patch:
        patch.setattr(KeyedFolder, "mark", _die)
        with pytest.raises(KeyboardInterrupt):
            run_keyed(str(path), tmp_path / "run", COLUMNS, OPTIONS)
    assert folder.epochs() == folder.keys() == {}
    run_keyed(str(path), tmp_path / "run", COLUMNS, OPTIONS)
    assert sum(entry["rows"] for entry in folder.keys().values()) == 300
    assert len(predictions(folder)) == 300


def test_an_epoch_is_on_the_disk_before_its_mark_and_its_states(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = str(write_rows(tmp_path / "a.csv", shops(300)))
    keep, names, seen = StateStore.keep, _Names(), list[set[Path]]()
    write_text, out = files.write_text, tmp_path / "new" / "er" / "run"

    def marked(path: Path, text: str, **options: Any) -> None:
        seen.append(names.unsafe - {path.parent})
        write_text(path, text, **options)

    def kept(*given: Any) -> None:
        seen.append(set(names.unsafe))
        keep(*given)

    monkeypatch.setattr(StateStore, "keep", kept)
    with disk.using(names):
        run_keyed(source, out, COLUMNS, OPTIONS, epoch=100)
        shutil.rmtree(out / "epochs")
        (out / "state.sqlite").unlink()
        (out / "journal" / "epoch=00000000" / ".part-0.parquet.half").touch()
        monkeypatch.setattr(files, "write_text", marked)
        folder = run_keyed(source, out, COLUMNS, OPTIONS, epoch=100)
    assert seen == [set()] * (3 + 6)
    assert len(folder.read("journal")["key"]) > 20
    assert [path.name for path in (out / "journal" / "epoch=00000000").iterdir()] == ["part-0.parquet"]


def test_an_epoch_without_a_mark_is_not_read(tmp_path: Path) -> None:
    source = str(write_rows(tmp_path / "a.csv", shops(100)))
    folder = run_local(FileSource(source, batch_size=50), tmp_path / "run", OPTIONS.learner(("price", "age")), COLUMNS)
    (tmp_path / "run" / "epochs" / "00000001.json").unlink()
    assert len(predictions(folder)) == 50


def test_tables_need_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    visit = OPTIONS.learner(("price", "age")).visit("a", None, KeyRows(np.arange(1), np.ones((1, 2)), [0]))
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match="pyarrow"):
        KeyedFolder(tmp_path).write(0, {"a": visit}, ("string", "int64"), {})


def test_values_that_a_type_cannot_hold_exactly_are_none() -> None:
    assert fitted([True, np.int64(2), 2.0, 2.7, math.nan, "3", None], "int64") == [1, 2, 2, None, None, None, None]
    assert fitted([True, 0, 1.0, 0.5, "no", "", math.nan, None], "bool_") == [True, False, True] + [None] * 5
    assert fitted([True, 2, 0.5, math.inf, "0.5", None], "float64") == [1.0, 2.0, 0.5, math.inf, None, None]
    assert fitted(["a", None], "string") == ["a", None]


def test_a_folder_of_an_earlier_version_tells_its_task_by_its_errors(tmp_path: Path) -> None:
    folder = run_keyed(str(write_rows(tmp_path / "a.csv", shops(100))), tmp_path / "run", COLUMNS, OPTIONS)
    about = folder.about()
    assert about.pop("decided") == {"task": "classification", "words": {}}
    (tmp_path / "run" / "run.json").write_text(json.dumps(about))
    assert not folder.regression


def test_the_folder_of_another_kind_of_run_is_refused(tmp_path: Path, mixed_run: tuple[Path, str]) -> None:
    shutil.copytree(mixed_run[0], tmp_path / "run")
    before = {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()}
    with pytest.raises(RunFolderError, match="keyed run"):
        run_keyed(str(write_rows(tmp_path / "shops.csv", shops(300))), tmp_path / "run", COLUMNS, OPTIONS)
    assert {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()} == before
