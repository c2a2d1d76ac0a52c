"""File calls and priorities where platforms differ; branches of Windows and macOS run here with stand-ins."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import sys
import threading
import types
from pathlib import Path
from typing import Any

import pytest

from driftsurf.core.disk import Disk, lower_priority
from driftsurf.runs import hooks


def windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take away what Windows does not have, and lock bytes as msvcrt does."""

    def locking(handle: int, mode: int, count: int) -> None:
        assert (mode, count) == (2, 1)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise PermissionError(errno.EACCES, "Permission denied") from error

    monkeypatch.setitem(sys.modules, "msvcrt", types.SimpleNamespace(locking=locking, LK_NBLCK=2))
    monkeypatch.setattr(sys, "platform", "win32")
    for name in ("pread", "pwrite", "fdatasync", "killpg"):
        monkeypatch.delattr(os, name)


def macos(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Take away what macOS does not have; return the list of files that were flushed to the drive."""
    flushed: list[int] = []
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.delattr(os, "fdatasync")
    monkeypatch.setattr(fcntl, "F_FULLFSYNC", 51, raising=False)
    monkeypatch.setattr(fcntl, "fcntl", lambda handle, command: flushed.append(handle) if command == 51 else None)
    return flushed


@pytest.mark.parametrize("platform", ["", "win32", "darwin"])
def test_files_are_written_and_read_at_any_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, platform: str
) -> None:
    if platform == "win32":
        windows(monkeypatch)
    flushed = macos(monkeypatch) if platform == "darwin" else None
    disk = Disk()
    handle = disk.create(tmp_path / "file")
    assert disk.write_at(handle, b"content", 3) == 7
    assert disk.write_at(handle, b"abc", 0) == 3
    assert disk.read_at(handle, 100, 2) == b"ccontent"
    assert disk.read_at(handle, 100, 50) == b""
    disk.sync(handle)
    disk.sync_data(handle)
    disk.sync_folder(tmp_path)
    if flushed is not None:
        assert flushed[:2] == [handle, handle]
        assert len(flushed) == 3
    disk.close(handle)
    assert (tmp_path / "file").read_bytes() == b"abccontent"


@pytest.mark.parametrize("number", [errno.ENOTSUP, errno.EINVAL, errno.EIO])
def test_file_systems_without_a_full_flush_get_the_usual_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refused(handle: int, command: int) -> None:
        raise OSError(number, os.strerror(number))

    macos(monkeypatch)
    flushed: list[int] = []
    monkeypatch.setattr(fcntl, "fcntl", refused)
    monkeypatch.setattr(os, "fsync", flushed.append)
    disk = Disk()
    handle = disk.create(tmp_path / "file")
    with pytest.raises(OSError, match=os.strerror(number)) if number == errno.EIO else contextlib.nullcontext():
        disk.sync(handle)
    assert flushed == ([] if number == errno.EIO else [handle])
    disk.close(handle)


@pytest.mark.parametrize("platform", ["", "win32"])
def test_a_lock_excludes_others_until_it_is_released(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, platform: str
) -> None:
    if platform == "win32":
        windows(monkeypatch)
    disk, path = Disk(), tmp_path / "lock"
    assert not disk.is_locked(path)
    handle = disk.lock(path, b"1234 on here")
    assert path.read_bytes() == b"1234 on here"
    assert disk.is_locked(path)
    with pytest.raises(BlockingIOError):
        disk.lock(path, b"5678")
    disk.unlock(handle)
    assert not disk.is_locked(path)
    disk.close(disk.lock(path, b"5678"))


def test_a_late_command_is_killed_on_windows(monkeypatch: pytest.MonkeyPatch) -> None:

    killed: list[Any] = []
    windows(monkeypatch)
    child: Any = types.SimpleNamespace(kill=lambda: killed.append(True))
    hooks._kill(child)
    assert killed == [True]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has priorities of threads")
def test_only_the_thread_that_gives_way_is_less_urgent() -> None:
    def priorities() -> tuple[int, int]:
        return os.sched_getscheduler(0), os.getpriority(os.PRIO_PROCESS, threading.get_native_id())

    found: list[tuple[int, int]] = []

    def work() -> None:
        lower_priority()
        found.append(priorities())
        lower_priority()
        found.append(priorities())

    before = priorities()
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [(os.SCHED_BATCH, min(19, before[1] + 2))] * 2
    assert priorities() == before


def test_nothing_gives_way_where_the_system_cannot_or_forbids_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any) -> None:
        raise PermissionError(errno.EPERM, "not in this sandbox")

    monkeypatch.setattr(os, "sched_setscheduler", refused, raising=False)
    lower_priority()
    windows(monkeypatch)
    monkeypatch.delattr(os, "sched_getscheduler", raising=False)
    lower_priority()
