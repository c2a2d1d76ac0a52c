"""Files: what is read, replaced and appended to is a regular file in its own place."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest

import driftsurf
from driftsurf import DriftSurfClassifier
from driftsurf.core import disk, files
from driftsurf.core.files import parse_json
from driftsurf.errors import InputError
from driftsurf.streams import SEA


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    os.mkfifo(tmp_path / "pipe")
    return tmp_path / "pipe"


def test_a_device_or_a_pipe_is_neither_replaced_nor_read(pipe: Path) -> None:
    (pipe.parent / "link").symlink_to(pipe)
    for path in (pipe, pipe.parent / "link"):
        for call in (lambda path=path: files.write_text(path, "x"), lambda path=path: files.read_bytes(path)):
            with pytest.raises(InputError, match=path.name):
                call()
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert sorted(one.name for one in pipe.parent.iterdir()) == ["link", "pipe"]
    with pytest.raises(InputError, match="/dev/zero"):
        files.read_bytes(Path("/dev/zero"))


def test_a_model_is_neither_saved_to_a_pipe_nor_loaded_from_one(pipe: Path) -> None:
    X, y = SEA(n_rows=200).arrays()
    model = DriftSurfClassifier(random_state=0).partial_fit(X, y)
    for call in (lambda: model.save(pipe), lambda: driftsurf.load(pipe), lambda: DriftSurfClassifier.load(pipe)):
        with pytest.raises(InputError, match="pipe"):
            call()


@pytest.mark.parametrize("path", ["a\0b", "\ud800.state"])
def test_a_path_that_no_file_can_have_is_named(path: str) -> None:
    with pytest.raises(InputError, match="character"):
        files.usable(path)


def test_files_that_are_cut_to_a_length_are_not_reached_through_links(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("precious")
    for name in (files.LOCK, "journal.jsonl"):
        (tmp_path / name).symlink_to(tmp_path / "precious")
    with pytest.raises(OSError, match="lock"):
        files.FolderLock(tmp_path)
    with pytest.raises(OSError, match="journal"):
        files.AppendedFile(tmp_path / "journal.jsonl")
    with pytest.raises(OSError, match="journal"):
        disk.calls.append(tmp_path / "journal.jsonl")
    assert (tmp_path / "precious").read_text() == "precious"


def test_json_that_is_nested_too_deeply_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="nested"):
        parse_json(b'{"a":' * 100_000)
    assert parse_json('{"a": [1]}') == {"a": [1]}


class FullDisk(disk.Disk):
    def write(self, handle: int, data: bytes | memoryview) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_disk_that_is_full_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    for write in (files.write_bytes, files.write_new, lambda path, data: files.AppendedFile(path).write_bytes(data)):
        with disk.using(FullDisk()), pytest.raises(OSError, match="No space left") as caught:
            write(path, b"1")
        assert caught.value.filename == str(path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["rows.csv"]  # the one that was opened to append to it
