"""Copies of checkpoints in object storage: a run continues from one on another machine, and no failure disturbs it."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import threading
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import driftsurf
from driftsurf.errors import OptionError, RunFolderError, RunWarning, StateError
from driftsurf.runs import orders
from driftsurf.runs.checkpoint import CheckpointFolder
from driftsurf.runs.checkpoint_copy import CheckpointCopy

fsspec = pytest.importorskip("fsspec")
NAMES = "model.state", "journal.jsonl", "trace.csv", "columns.csv"


def rows(path: Path, count: int = 1_200) -> Path:
    """Write rows whose concept changes in the middle."""
    lines = []
    for n in range(count):
        a, b = (n * 7919 % 1000) / 500 - 1, (n * 104729 % 1000) / 500 - 1
        sold = a + b > 0 if n < count // 2 else a - b > 0
        lines.append(json.dumps({"a": a, "b": b, "sold": "yes" if sold else "no"}))
    path.write_text("\n".join(lines) + "\n")
    return path


def options(folder: Path, address: str, **others: Any) -> dict[str, Any]:
    made = {"label": "sold", "model": "driftsurf", "batch_size": 100, "every": 2, "checkpoint": folder}
    return made | {"checkpoint_copy": address} | others


class Killed(Exception):
    """The machine is gone."""


def killed_after(steps: int) -> Any:
    def count(*_: object) -> None:
        nonlocal steps
        steps -= 1
        if not steps:
            raise Killed

    return count


def result(folder: Path) -> dict[str, bytes]:
    return {name: (folder / "result" / name).read_bytes() for name in NAMES}


@pytest.mark.parametrize("scheme", ["memory", "file"])
def test_a_run_continues_on_another_machine(tmp_path: Path, unique: str, scheme: str) -> None:
    source = rows(tmp_path / "rows.jsonl")
    address = f"memory://{unique}/run" if scheme == "memory" else (tmp_path / "store").as_uri()
    driftsurf.run(source, **options(tmp_path / "whole", address) | {"checkpoint_copy": None})
    with pytest.raises(Killed):
        driftsurf.run(source, **options(tmp_path / "first", address), on_step=killed_after(7))
    storage, root = fsspec.core.url_to_fs(address)
    heads = [name for name in storage.find(root) if "/head-" in name]
    assert len(heads) == 1  # the newest alone
    done: list[int] = []
    driftsurf.run(source, **options(tmp_path / "second", address, resume=True), on_step=lambda *_: done.append(1))
    assert 0 < len(done) < 12  # it did not begin anew
    assert result(tmp_path / "second") == result(tmp_path / "whole")


def test_a_copy_has_what_its_checkpoint_needs_and_nothing_else(tmp_path: Path, unique: str) -> None:
    source, address = rows(tmp_path / "rows.jsonl"), f"memory://{unique}/run"
    driftsurf.run(source, **options(tmp_path / "run", address))
    storage, root = fsspec.core.url_to_fs(address)
    with CheckpointFolder(tmp_path / "run") as folder:
        needed = folder.needed(folder.generations()[-1])
    there = {name.removeprefix(f"{root}/") for name in storage.find(root)}
    assert there == needed.keys() | {"owner"}


@pytest.mark.skipif(os.name != "posix", reason="needs modes of files")
def test_a_copy_on_a_disk_is_as_private_as_the_checkpoint(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        driftsurf.run(rows(tmp_path / "rows.jsonl"), **options(tmp_path / "run", (tmp_path / "store").as_uri()))
    finally:
        os.umask(before)
    copied = [one for one in (tmp_path / "store").rglob("*") if one.is_file()]
    assert len(copied) > 3
    assert {one.stat().st_mode & 0o777 for one in copied} == {0o600}


def test_a_storage_that_fails_is_counted_and_disturbs_nothing(
    tmp_path: Path, unique: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, address = rows(tmp_path / "rows.jsonl"), f"memory://{unique}/run"
    put, failures = CheckpointCopy._put, iter([True] * 3)

    def failing(self: CheckpointCopy, name: str, data: bytes) -> None:
        if next(failures, False):
            raise RuntimeError("the storage is away")
        put(self, name, data)

    monkeypatch.setattr(CheckpointCopy, "_put", failing)
    with pytest.warns(RunWarning, match="copies of checkpoints"):
        driftsurf.run(source, **options(tmp_path / "run", address))
    driftsurf.run(source, **options(tmp_path / "whole", address) | {"checkpoint_copy": None})
    assert result(tmp_path / "run") == result(tmp_path / "whole")
    storage, root = fsspec.core.url_to_fs(address)
    last = max(one.name for one in (tmp_path / "run").glob("head-*.state"))
    assert storage.exists(f"{root}/{last}")  # a later copy is whole again


def test_a_slow_storage_gets_whole_copies_of_a_run_that_is_faster(
    tmp_path: Path, unique: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, address, saves = rows(tmp_path / "rows.jsonl", 4_000), f"memory://{unique}/run", threading.Semaphore(0)
    write, uploads = CheckpointCopy._write, Counter[str]()

    def slow(self: CheckpointCopy, name: str, data: bytes) -> None:
        """Write a file, and return once the run has saved another checkpoint, or has ended."""
        write(self, name, data)
        uploads[name] += 1
        while name != "owner" and not self._ended and not saves.acquire(timeout=0.05):
            pass

    monkeypatch.setattr(CheckpointCopy, "_write", slow)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RunWarning)
        # Slow enough that many checkpoints come and go during a copy, of which the folder would keep two.
        driftsurf.run(source, **options(tmp_path / "run", address, every=1), on_step=lambda *_: saves.release())
    segments = [name for name in uploads if name.startswith("segment-")]
    assert segments
    assert max(uploads[name] for name in segments) == 1
    assert len([name for name in uploads if name.startswith("head-")]) > 1
    assert len(list((tmp_path / "run").glob("head-*"))) <= 3
    driftsurf.run(source, **options(tmp_path / "other", address, every=1, resume=True))
    assert result(tmp_path / "other") == result(tmp_path / "run")


def test_a_copy_has_the_plans_and_messages_of_its_checkpoint(
    tmp_path: Path, unique: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage, root = fsspec.core.url_to_fs(f"memory://{unique}/run")
    write = CheckpointCopy._write
    with CheckpointFolder(tmp_path / "run") as folder:
        for name in ("plans.jsonl", "messages/1.log", "journal.jsonl", "trace.csv"):
            (folder.path / name).parent.mkdir(exist_ok=True)
            (folder.path / name).write_text("complete")

        def trimming(self: CheckpointCopy, name: str, data: bytes) -> None:
            """Write a file while the run, some checkpoints later, removes what it needs no more."""
            (folder.path / "plans.jsonl").write_text("trimmed")
            (folder.path / "messages/1.log").unlink(missing_ok=True)
            (folder.path / "trace.csv").unlink(missing_ok=True)  # stands for a part of a file that was rotated
            write(self, name, data)

        copy = CheckpointCopy(folder, f"memory://{unique}/run")
        copy.start()
        monkeypatch.setattr(CheckpointCopy, "_write", trimming)
        copy.saved(folder.save({"step": 1}))
        copy.close()
    assert copy.made == 1
    assert {name: storage.cat_file(f"{root}/{name}") for name in ("plans.jsonl", "messages/1.log")} == {
        "plans.jsonl": b"complete",
        "messages/1.log": b"complete",
    }


def test_segments_that_were_copied_are_not_copied_again_after_a_failure(
    tmp_path: Path, unique: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, address = rows(tmp_path / "rows.jsonl"), f"memory://{unique}/run"
    write, uploads = CheckpointCopy._write, Counter[str]()

    def failing(self: CheckpointCopy, name: str, data: bytes) -> None:
        if name.startswith("head-") and not any(one.startswith("head-") for one in uploads):
            uploads[name] += 1
            raise RuntimeError("the storage is away")
        write(self, name, data)
        uploads[name] += 1

    monkeypatch.setattr(CheckpointCopy, "_write", failing)
    with pytest.warns(RunWarning, match=": 1 failed"):
        driftsurf.run(source, **options(tmp_path / "run", address))
    assert {uploads[name] for name in uploads if name.startswith("segment-")} == {1}


def test_a_storage_that_was_emptied_gets_everything_again(
    tmp_path: Path, unique: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, address = rows(tmp_path / "rows.jsonl"), f"memory://{unique}/run"
    storage, root = fsspec.core.url_to_fs(address)
    copy, copied = CheckpointCopy._copy, iter([False, True])

    def emptying(self: CheckpointCopy, number: int) -> None:
        copy(self, number)
        if next(copied, False):
            storage.rm(root, recursive=True)

    monkeypatch.setattr(CheckpointCopy, "_copy", emptying)
    every_copy_waited_for(monkeypatch)
    driftsurf.run(source, **options(tmp_path / "run", address))
    driftsurf.run(source, **options(tmp_path / "other", address, resume=True))
    assert result(tmp_path / "other") == result(tmp_path / "run")


def every_copy_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every checkpoint be copied before the run continues."""

    def saved(self: CheckpointCopy, number: int) -> None:
        tried = self.made + self.failed
        told(self, number)
        while self.made + self.failed == tried and self._thread.is_alive():
            time.sleep(0.001)

    told = CheckpointCopy.saved
    monkeypatch.setattr(CheckpointCopy, "saved", saved)


def test_the_first_machine_does_not_replace_the_copy_of_the_second(tmp_path: Path, unique: str) -> None:
    source, address = rows(tmp_path / "rows.jsonl"), f"memory://{unique}/run"
    storage, root = fsspec.core.url_to_fs(address)
    with pytest.raises(Killed):
        driftsurf.run(source, **options(tmp_path / "a", address), on_step=killed_after(3))
    driftsurf.run(source, **options(tmp_path / "b", address, resume=True))
    before = storage.find(root)
    with pytest.raises(RunFolderError, match=unique) as refused:
        driftsurf.run(source, **options(tmp_path / "a", address, resume=True))
    assert "checkpoint_copy" in str(refused.value)
    assert storage.find(root) == before
    driftsurf.run(source, **options(tmp_path / "b", address, resume=True))  # the owner may
    driftsurf.run(source, **options(tmp_path / "a", f"{address}-2", resume=True))  # and so may one with its own address
    assert result(tmp_path / "a") == result(tmp_path / "b")


def test_a_folder_that_was_set_back_does_not_replace_its_newer_copy(tmp_path: Path, unique: str) -> None:
    source, address = rows(tmp_path / "rows.jsonl"), f"memory://{unique}/run"
    with pytest.raises(Killed):
        driftsurf.run(source, **options(tmp_path / "run", address), on_step=killed_after(3))
    shutil.copytree(tmp_path / "run", tmp_path / "backup")
    driftsurf.run(source, **options(tmp_path / "run", address, resume=True))
    with pytest.raises(RunFolderError, match=unique):
        driftsurf.run(source, **options(tmp_path / "backup", address, resume=True))


def test_a_checkpoint_that_is_replaced_while_it_is_fetched_is_fetched_again(
    tmp_path: Path, unique: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first look sees a head that another run has removed by the time it is read."""
    source, address = rows(tmp_path / "rows.jsonl"), f"memory://{unique}/run"
    driftsurf.run(source, **options(tmp_path / "a", address))
    heads, looks = CheckpointCopy._heads, itertools.count()

    def seen(copy: CheckpointCopy) -> list[str]:
        return heads(copy) if next(looks) else ["head-000000000.state"]

    with CheckpointFolder(tmp_path / "b") as folder:
        copy = CheckpointCopy(folder, address)
        monkeypatch.setattr(CheckpointCopy, "_heads", seen)
        assert copy.fetch()
        assert folder.load() is not None
        monkeypatch.setattr(CheckpointCopy, "_heads", lambda copy: ["head-000000000.state"])
        with pytest.raises(StateError, match="head-000000000"):
            copy.fetch()


def test_a_run_that_was_taken_over_copies_nothing_more(tmp_path: Path, unique: str) -> None:
    source, address = rows(tmp_path / "rows.jsonl"), f"memory://{unique}/run"
    storage, root = fsspec.core.url_to_fs(address)
    steps, there = 0, dict[str, bytes]()

    def take_over(*_: object) -> None:
        nonlocal steps
        steps += 1
        if steps == 5:
            driftsurf.run(source, **options(tmp_path / "b", address, resume=True))
            there.update(storage.cat(storage.find(root)))

    on_step: Any = take_over
    with pytest.warns(RunWarning, match=": 1 failed"):
        driftsurf.run(source, **options(tmp_path / "a", address), on_step=on_step)
    assert storage.cat(storage.find(root)) == there
    assert result(tmp_path / "a") == result(tmp_path / "b")


@pytest.mark.parametrize("option", ["predictions", "journal_to", "trace_to"])
@pytest.mark.parametrize("name", ["results.csv", "results.sqlite"])
def test_files_beside_the_checkpoints_are_refused(tmp_path: Path, unique: str, option: str, name: str) -> None:
    source, made = rows(tmp_path / "rows.jsonl", 200), options(tmp_path / "run", f"memory://{unique}/run")
    with pytest.raises(OptionError, match=option) as refused:
        driftsurf.run(source, **made | {option: tmp_path / name})
    assert "checkpoint_copy" in str(refused.value)
    assert not (tmp_path / "run").exists()


def test_an_address_with_a_password_is_refused_and_not_shown(tmp_path: Path) -> None:
    source = rows(tmp_path / "rows.jsonl", 200)
    for address in ("ftp://user:hunter2@localhost/run", "simplecache::ftp://user:hunter2@localhost/run"):
        with pytest.raises(OptionError, match="FSSPEC_FTP_PASSWORD") as refused:
            driftsurf.run(source, **options(tmp_path / "run", address))
        assert "hunter2" not in str(refused.value)
    with pytest.raises(OptionError, match="nowhere") as refused:
        driftsurf.run(source, **options(tmp_path / "run", "nowhere://host/run?token=hunter2"))
    assert "hunter2" not in str(refused.value)


def test_a_copy_of_another_run_is_not_replaced_unasked(tmp_path: Path, unique: str) -> None:
    source, address = rows(tmp_path / "rows.jsonl", 500), f"memory://{unique}/run"
    driftsurf.run(source, **options(tmp_path / "one", address))
    with pytest.raises(RunFolderError, match=unique):
        driftsurf.run(source, **options(tmp_path / "two", address))
    driftsurf.run(source, **options(tmp_path / "two", address, overwrite=True))
    assert result(tmp_path / "one") == result(tmp_path / "two")


@pytest.mark.parametrize("folder", ["one", "two"])
def test_a_run_that_replaces_a_copy_and_is_killed_before_it_has_one_can_be_resumed(
    tmp_path: Path, unique: str, folder: str
) -> None:
    source, address = rows(tmp_path / "rows.jsonl", 500), f"memory://{unique}/run"
    driftsurf.run(source, **options(tmp_path / "one", address))
    with pytest.raises(Killed):
        driftsurf.run(source, **options(tmp_path / folder, address, overwrite=True), on_step=killed_after(1))
    done: list[int] = []
    driftsurf.run(source, **options(tmp_path / folder, address, resume=True), on_step=lambda *_: done.append(1))
    assert len(done) == 5
    driftsurf.run(source, **options(tmp_path / "three", address, resume=True))
    assert result(tmp_path / "three") == result(tmp_path / folder)


@pytest.mark.parametrize("others", [{}, {"resume": True}, {"overwrite": True}])
def test_files_of_others_are_left_alone(tmp_path: Path, unique: str, others: dict[str, bool]) -> None:
    source, address = rows(tmp_path / "rows.jsonl", 500), f"memory://{unique}"
    storage, root = fsspec.core.url_to_fs(address)
    storage.pipe_file(f"{root}/table.parquet", b"rows")
    with pytest.raises(RunFolderError, match=r"table\.parquet"):
        driftsurf.run(source, **options(tmp_path / "run", address, **others))
    storage.rm_file(f"{root}/table.parquet")
    storage.pipe_file(f"{root}/other/head-000000001.state", b"of another run")
    driftsurf.run(source, **options(tmp_path / "run", address, **others))
    assert storage.cat_file(f"{root}/other/head-000000001.state") == b"of another run"
    driftsurf.run(source, **options(tmp_path / "second", address, resume=True))
    assert not (tmp_path / "second" / "other").exists()


def test_a_run_that_failed_after_it_fetched_the_copy_can_be_resumed(tmp_path: Path, unique: str) -> None:
    source, address = rows(tmp_path / "rows.jsonl"), f"memory://{unique}/run"
    with pytest.raises(Killed):
        driftsurf.run(source, **options(tmp_path / "a", address), on_step=killed_after(7))
    with pytest.raises(StateError):  # before the run owns the address
        driftsurf.run(rows(tmp_path / "wrong.jsonl"), **options(tmp_path / "b", address, resume=True))
    done: list[int] = []
    driftsurf.run(source, **options(tmp_path / "b", address, resume=True), on_step=lambda *_: done.append(1))
    assert 0 < len(done) < 12
    with pytest.raises(RunFolderError, match=unique):
        driftsurf.run(source, **options(tmp_path / "a", address, resume=True))


def test_orders_on_another_machine_follow_those_of_the_first(tmp_path: Path, unique: str) -> None:
    source, address = rows(tmp_path / "rows.jsonl"), f"memory://{unique}/run"

    def ordering(folder: Path, at: int, last: int) -> Any:
        steps = itertools.count(1)

        def step(*_: object) -> None:
            number = next(steps)
            if number == at:
                orders.submit(folder, "reset")
            if number == last:
                raise Killed

        return step

    with pytest.raises(Killed):
        driftsurf.run(source, **options(tmp_path / "a", address), on_step=ordering(tmp_path / "a", 3, 9))
    done: list[int] = []
    driftsurf.run(
        source,
        **options(tmp_path / "b", address, resume=True),
        on_step=ordering(tmp_path / "b", 1, 0),
        on_order=lambda order: done.append(order.number),
    )
    assert done == [2]


def test_wrong_addresses_and_names(tmp_path: Path, unique: str) -> None:
    with pytest.raises(OptionError, match="nowhere"):
        driftsurf.run(rows(tmp_path / "rows.jsonl", 100), **options(tmp_path / "run", "nowhere://bucket/run"))
    with pytest.raises(OptionError, match="checkpoint_copy"):
        driftsurf.run(tmp_path / "rows.jsonl", label="sold", checkpoint_copy=f"memory://{unique}")
    with CheckpointFolder(tmp_path / "folder") as folder:
        copy = CheckpointCopy(folder, f"memory://{unique}/run")
        assert not copy.fetch()
        with pytest.raises(StateError, match=r"\.\."):
            copy._fetch_file("messages/../../outside")
        with pytest.raises(StateError, match="head-1"):
            copy._fetch_file("head-1")


@pytest.fixture
def unique(request: pytest.FixtureRequest) -> str:
    return str(request.node.name).replace("[", "-").replace("]", "")
