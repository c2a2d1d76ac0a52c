"""Checkpoints: exact, incremental, kept in two generations, and complete or absent after any failure."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import signal
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from checkpoint_cases import LEARNER, STRATEGIES, WORK, Unflushed, batches
from tests.reliability.lines import raise_at
from tests.reliability.workload import Workload, state_digest

from driftsurf.core import disk, files
from driftsurf.core.samples import Touched
from driftsurf.core.state import from_bytes, resolved, to_bytes
from driftsurf.errors import LockedError, OptionError, StateError, StateVersionError, StateWarning
from driftsurf.learners import LinearRegression, SoftmaxRegression
from driftsurf.runs.checkpoint import HEAD, SEGMENT, CheckpointFolder
from driftsurf.runs.folder import JOURNAL
from driftsurf.session.session import Session
from driftsurf.strategies import (
    DriftSurf,
    Oblivious,
)


@pytest.fixture(autouse=True)
def _fast() -> Iterator[None]:
    with disk.using(Unflushed()):
        yield


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("name", STRATEGIES)
def test_a_loaded_state_equals_the_saved_one_and_can_be_continued(name: str, sparse: bool, tmp_path: Path) -> None:
    session = Session(STRATEGIES[name](), classes=(-1, 1))
    writer = CheckpointFolder(tmp_path)
    for step, (X, y) in enumerate(batches(24, sparse=sparse)):
        session.observe(X, y)
        if step % 3 == 2:
            continue  # a checkpoint may have to save several batches
        writer.save(session.incremental_state())
        found = CheckpointFolder(tmp_path).load()
        assert found is not None
        assert to_bytes(found.state) == to_bytes(session.state())
        if step % 5 == 0:  # continue in a new process
            session = Session(STRATEGIES[name](), classes=(-1, 1))
            session.restore(found.state)
            writer = CheckpointFolder(tmp_path)
            writer.follow(found, session.incremental_state())


def test_an_old_checkpoint_that_is_spared_does_not_keep_the_segments_after_it(tmp_path: Path) -> None:
    session, folder = Session(DriftSurf(LEARNER, max_rows=60)), CheckpointFolder(tmp_path)
    spared, then = 0, b""
    for step, (X, y) in enumerate(batches(40)):
        session.observe(X, y)
        number = folder.save(session.incremental_state(), spare=[spared] if spared else [])
        if step == 4:
            spared, then = number, to_bytes(session.state())
        if step == 20:  # continue in a new process
            found = folder.load()
            assert found is not None
            session, folder = Session(DriftSurf(LEARNER, max_rows=60)), CheckpointFolder(tmp_path)
            session.restore(found.state)
            folder.follow(found, session.incremental_state())
    assert folder.generations() == [spared, number - 1, number]
    needed = set[str]().union(*(folder.needed(one) for one in folder.generations()))
    there = {one.name for one in tmp_path.glob("segment-*.state")}
    assert there <= needed
    assert len(there) < 30
    old = CheckpointFolder(tmp_path).load(spared)
    assert old is not None
    assert to_bytes(old.state) == then


@pytest.mark.parametrize("learner", [SoftmaxRegression(), LinearRegression()], ids=["classes", "regression"])
def test_later_classes_and_regression_targets_are_saved_incrementally(learner: Any, tmp_path: Path) -> None:
    session = Session(DriftSurf(learner, max_rows=150))
    writer = CheckpointFolder(tmp_path)
    for step, (X, y) in enumerate(batches(16)):
        targets = 1e3 + X[:, 0] * y if learner.capabilities.regression else np.where(X[:, 1] > 2.5 - step / 8, "new", y)
        session.observe(X, targets)
        writer.save(session.incremental_state())
        found = CheckpointFolder(tmp_path).load()
        assert found is not None
        assert to_bytes(found.state) == to_bytes(session.state())
        if step % 5 == 4:
            session = Session(DriftSurf(learner, max_rows=150))
            session.restore(found.state)
            writer = CheckpointFolder(tmp_path)
            writer.follow(found, session.incremental_state())
    assert len(session.targets.labels) == (0 if learner.capabilities.regression else 3)


def test_a_checkpoint_writes_only_changes_and_removes_unneeded_segments(tmp_path: Path) -> None:
    session = Session(Oblivious(LEARNER, max_rows=4_000), classes=(-1, 1))
    folder = CheckpointFolder(tmp_path)
    sizes = []
    for X, y in batches(300):
        session.observe(X, y)
        number = folder.save(session.incremental_state())
        sizes.append(folder.file(SEGMENT, number).stat().st_size)
    whole = len(to_bytes(session.state()))
    assert np.median(sizes[-50:]) < 1.1 * np.median(sizes[50:100]) < whole / 50
    assert len(folder.generations()) == 2
    # Rows are written once. Gradients are rewritten each time as many entries have changed as there are.
    assert sum(file.stat().st_size for file in tmp_path.iterdir()) < 3 * whole


def test_segments_of_forgotten_rows_are_removed(tmp_path: Path) -> None:
    session = Session(Oblivious(LEARNER, max_rows=100), classes=(-1, 1))
    folder = CheckpointFolder(tmp_path, keep=3)
    for X, y in batches(60):
        session.observe(X, y)
        folder.save(session.incremental_state())
    assert len(folder.generations()) == 3
    assert len(list(tmp_path.glob(f"{SEGMENT}-*"))) < 15


def test_changes_that_are_too_old_are_unknown() -> None:
    touched = Touched()
    touched.add(np.arange(3), first=0, limit=5)
    touched.add(np.arange(4), first=10, limit=5)
    assert touched.since(0) is None
    first = touched.since(1)
    assert first is not None
    assert first.tolist() == [10, 11, 12, 13]
    assert touched.since(2).tolist() == []  # type: ignore[union-attr]


@pytest.mark.parametrize("line", range(1, 13))
def test_a_write_that_is_broken_off_hides_no_earlier_one(line: int) -> None:
    touched = Touched()
    for number in range(3):
        touched.add(np.array([number]), first=0, limit=3)
    raise_at(line, lambda: touched.add(np.array([90, 91]), first=0, limit=3))
    touched.add(np.array([7]), first=0, limit=3)
    changed = touched.since(2)  # since before the last write of the three
    assert changed is None or {2, 7} <= set(changed.tolist())
    touched.add(np.arange(9), first=0, limit=0)


# ---------------------------------------------------------------------------- damage


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    WORK.finish(tmp_path / "run")
    return tmp_path / "run"


def flip(path: Path, place: int = -50) -> None:
    data = bytearray(path.read_bytes())
    data[place] ^= 4
    path.write_bytes(data)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:100])


def newest(path: Path, kind: str = HEAD) -> Path:
    return max(path.glob(f"{kind}-*"))


def test_a_damaged_head_is_replaced_by_the_previous_one_with_a_warning(saved: Path) -> None:
    folder = CheckpointFolder(saved)
    last, number = folder.generations()
    before = folder.load(last)
    flip(folder.file(HEAD, number))
    with pytest.warns(StateWarning, match=rf"{number}.*{last}"):
        found = folder.load()
    assert found is not None
    assert before is not None
    assert to_bytes(found.state) == to_bytes(before.state)


def test_a_run_resumed_from_the_previous_checkpoint_ends_the_same(tmp_path: Path) -> None:
    expected = WORK.finish(tmp_path / "whole")
    with CheckpointFolder(tmp_path / "run") as folder, WORK.run(folder) as run:
        run.begin()
        for X, y, position in run.plan.source.batches():
            run.take(X, y, position)
            if run.step % 2 == 0:
                run.checkpoint()
            if run.step == 8:
                break
    flip(newest(tmp_path / "run"))
    with pytest.warns(StateWarning):
        assert WORK.finish(tmp_path / "run") == expected


@pytest.mark.parametrize(
    ("damage", "cause"),
    [
        (lambda path: list(map(flip, path.glob("head-*"))), "checkpoint"),
        (lambda path: min(path.glob("segment-*")).unlink(), "segment-"),
        (lambda path: flip(path / JOURNAL, 3), "journal.jsonl"),
        (lambda path: (path / JOURNAL).write_text("{"), "journal.jsonl"),
        (lambda path: list(map(cut, path.glob("segment-*"))), "checkpoint"),
    ],
)
def test_damage_to_a_file_that_all_checkpoints_need_is_an_error(damage: Any, cause: str, saved: Path) -> None:
    damage(saved)
    with pytest.raises(StateError, match=cause):
        CheckpointFolder(saved).load()


def test_a_head_under_another_name_is_refused(saved: Path) -> None:
    folder = CheckpointFolder(saved)
    first, second = folder.generations()
    folder.file(HEAD, second).write_bytes(folder.file(HEAD, first).read_bytes())
    with pytest.warns(StateWarning, match="head"):
        folder.load()


def test_a_segment_of_another_run_is_refused(saved: Path, tmp_path: Path) -> None:
    Workload(steps=12, rows=15, every=2, max_rows=60, seed=1).finish(tmp_path / "other")
    name = newest(saved, SEGMENT).name
    (saved / name).write_bytes((tmp_path / "other" / name).read_bytes())
    with pytest.raises(StateError, match="segment-"):
        CheckpointFolder(saved).load()


def test_a_later_format_is_refused_even_if_an_older_checkpoint_is_valid(saved: Path) -> None:
    head = newest(saved)
    data = bytearray(head.read_bytes()[:-32])
    data[7] = 9
    head.write_bytes(bytes(data) + hashlib.sha256(data).digest())
    with pytest.raises(StateVersionError, match="9"):
        CheckpointFolder(saved).load()


FORGERIES: dict[str, dict[str, Any]] = {
    "no logs": {"logs": "[]x"},
    "an incomplete log": {"logs": '[{"key":"a"}]'},
    "a log beyond the segments": {"logs": None, "stop": 10**6},
    "a wrong shape": {"logs": None, "shape": [7]},
    "a file outside of the folder": {"outputs": '{"../secret": [1, "x"]}'},
    "no outputs": {"outputs": "3"},
    "no number": {"segment": "x"},
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_forged_heads_are_refused(forgery: str, saved: Path) -> None:
    head = newest(saved)
    state: dict[str, Any] = dict(from_bytes(head.read_bytes()))
    changes = dict(FORGERIES[forgery])
    if changes.get("logs", "") is None:
        del changes["logs"]
        logs = json.loads(state["logs"])
        logs[0] |= changes
        changes = {"logs": json.dumps(logs)}
    head.write_bytes(to_bytes(state | changes))
    with pytest.raises(StateError):
        CheckpointFolder(saved).load(int(head.name[5:14]))


@pytest.mark.parametrize(
    "changes",
    [{"previous": 10**6}, {"new": 1.5}, {"from": "x"}, {"at": np.zeros((2, 2), np.int64)}, {"at": np.zeros(2)}],
)
def test_forged_segments_are_refused(changes: dict[str, Any], saved: Path) -> None:
    folder = CheckpointFolder(saved)
    segment = newest(saved, SEGMENT)
    state: dict[str, Any] = dict(from_bytes(segment.read_bytes()))
    log = next(name for name in state if name.endswith(".new")).removesuffix("new")
    parts = {"at": np.zeros(1, np.int64), "values": np.zeros(1)} | changes
    data = to_bytes(state | {name if name == "previous" else log + name: value for name, value in parts.items()})
    segment.write_bytes(data)
    for number in folder.generations():
        head: dict[str, Any] = dict(from_bytes(folder.file(HEAD, number).read_bytes()))
        folder.file(HEAD, number).write_bytes(to_bytes(head | {"segment_digest": data[-32:].hex()}))
    with pytest.raises(StateError):
        folder.load()


def test_an_empty_folder_has_no_checkpoint(tmp_path: Path) -> None:
    assert CheckpointFolder(tmp_path / "nowhere").load() is None
    with pytest.raises(StateError, match="3"):
        CheckpointFolder(tmp_path / "nowhere").load(3)
    with pytest.raises(OptionError, match=r"keep.*1"):
        CheckpointFolder(tmp_path, keep=1)


def test_nothing_is_written_after_an_error(tmp_path: Path) -> None:
    class Broken(disk.Disk):
        def sync(self, handle: int) -> None:
            raise OSError(5, "made to fail")

    folder = CheckpointFolder(tmp_path)
    folder.save({"step": 1})
    with disk.using(Broken()), pytest.raises(OSError, match="made to fail"):
        folder.save({"step": 2})
    with pytest.raises(StateError):
        folder.save({"step": 3})
    found = CheckpointFolder(tmp_path).load()
    assert found is not None
    assert found.state == {"step": 1}


def test_a_file_that_may_not_be_opened_does_not_count_as_damaged(saved: Path) -> None:
    class Forbidden(disk.Disk):
        def read(self, path: Path) -> bytes:
            raise PermissionError(13, "not allowed")

    with disk.using(Forbidden()), pytest.raises(PermissionError):
        CheckpointFolder(saved).load()


def test_a_damaged_head_does_not_count_as_kept_and_temporary_files_are_removed(saved: Path) -> None:
    folder = CheckpointFolder(saved)
    flip(folder.file(HEAD, folder.generations()[-1]))
    (saved / ".head-000000099.state.abc").write_text("half")
    with warnings.catch_warnings(), folder:
        warnings.simplefilter("ignore")
        found = folder.load()
        assert found is not None
        folder.follow(found, found.state)
        for step in range(3):
            folder.save({"step": step})
        assert len(list(saved.glob("head-*"))) <= 3
    assert not (saved / ".head-000000099.state.abc").exists()


# ---------------------------------------------------------------------------- one process at a time


def test_a_locked_folder_is_refused_with_the_process_that_holds_it(tmp_path: Path) -> None:
    code = f"""
from pathlib import Path
from driftsurf.runs.checkpoint import CheckpointFolder
with CheckpointFolder(Path({str(tmp_path)!r})):
    print("held", flush=True)
    input()
"""
    child = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdin is not None
    try:
        child.stdout.readline()
        with (
            pytest.raises(LockedError, match=str(child.pid)),
            CheckpointFolder(tmp_path),
        ):
            pass
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait()
        child.stdin.close()
        child.stdout.close()
    assert f"process {child.pid}" in files.holder(tmp_path)  # the killed process could not remove its name
    with CheckpointFolder(tmp_path):
        assert f"process {os.getpid()}" in files.holder(tmp_path)
    assert files.holder(tmp_path) == ""


def test_judging_learns_nothing() -> None:
    session = Session(DriftSurf(LEARNER), classes=(-1, 1))
    first, second = batches(2)
    session.observe(*first)
    before = to_bytes(session.state())
    seen = session.judge(*second)
    assert seen.labels.tolist() == session.predict(second[0]).tolist()
    assert seen.decisions == ()
    assert to_bytes(session.state()) == before


def test_resolved_keeps_plain_entries() -> None:
    assert resolved({"a": 1}) == {"a": 1}
    assert state_digest({"a": 1}) == state_digest(resolved({"a": 1}))


def test_the_older_of_two_holders_writes_nothing_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Storage that shares no locks: both processes believe that they hold the folder."""
    with CheckpointFolder(tmp_path) as older:
        older.save({"step": 1})
        monkeypatch.setattr(disk.Disk, "lock", lambda self, path, who: os.open(os.devnull, os.O_RDWR))
        monkeypatch.setattr(disk.Disk, "unlock", lambda self, handle: None)
        with CheckpointFolder(tmp_path) as newer:
            taken = newer.load()
            assert taken is not None
            newer.follow(taken, {"step": 1})
            before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
            with pytest.raises(LockedError, match=str(os.getpid())):
                older.save({"step": 2})
            with pytest.raises(LockedError):
                older.check_held()
            assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
            newer.save({"step": 3})
            found = newer.load()
            assert found is not None
            assert found.state == {"step": 3}
    with CheckpointFolder(tmp_path) as third:
        third.save({"step": 4})


def test_a_damaged_fence_is_replaced_by_the_next_holder(tmp_path: Path) -> None:
    for content in (b"", b"[]", b'{"number": "x"}', b"\xff", b"[" * 100_000):
        (tmp_path / "fence").write_bytes(content)
        with CheckpointFolder(tmp_path) as folder:
            folder.check_held()


def test_a_fence_that_cannot_be_read_is_no_takeover(tmp_path: Path) -> None:
    class Broken(disk.Disk):
        def read(self, path: Path) -> bytes:
            raise OSError(errno.EIO, "Input/output error", str(path))

    lock = files.FolderLock(tmp_path)
    with disk.using(Broken()), pytest.raises(OSError, match=files.FENCE) as failed:
        lock.check()
    assert not isinstance(failed.value, LockedError)
    lock.check()
    lock.release()
