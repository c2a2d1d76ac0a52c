"""Commands whose standard streams are closed, or whose reader goes away."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from table_files import csv_text
from table_runs import ROWS

import driftsurf

pytestmark = pytest.mark.filterwarnings("ignore::driftsurf.errors.ColumnWarning")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pipes")
    (folder / "rows.csv").write_text(csv_text(ROWS, list(ROWS[0])))
    driftsurf.run(folder / "rows.csv", label="sold", drop=["id"], batch_size=100, out=folder / "run")
    return folder


def command(place: Path, *words: str, **options: Any) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([sys.executable, "-m", "driftsurf", *words], cwd=place, check=False, timeout=120, **options)


@pytest.mark.parametrize(
    "words",
    [
        ["run", "rows.csv", "--label", "sold", "--drop", "id", "--batch-size", "100", "--out", "second"],
        ["explain", "run"],
        ["predict", "run", "rows.csv"],
        ["runs", "."],
        ["run", "--help"],
        ["--help"],
        ["--version"],
    ],
    ids=lambda words: words[0],
)
def test_a_reader_that_goes_away_ends_a_command_silently(words: list[str], place: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    ended = command(place, *words, stdout=writer, stderr=subprocess.PIPE)
    os.close(writer)
    said = ended.stderr.replace(b"starting ...\n", b"")  # only if the machine is slow
    assert (ended.returncode, said) == (141, b"")


@pytest.mark.parametrize(
    ("closed", "words", "code"),
    [
        ([1], ["streams"], 0),
        ([1], ["predict", "run", "rows.csv"], 0),
        ([0], ["predict", "run", "-"], 1),
        ([2], ["run", "no such file.csv"], 1),
        ([0, 1, 2], ["explain", "run"], 0),
    ],
)
def test_closed_standard_streams_are_no_error_of_their_own(
    closed: list[int], words: list[str], code: int, place: Path
) -> None:
    def close() -> None:
        for handle in closed:
            os.close(handle)

    ended = command(place, *words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=close)
    assert ended.returncode == code
    assert b"Traceback" not in ended.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no device that is always full")
@pytest.mark.parametrize(
    ("full", "words", "code"),
    [
        ("stdout", ["predict", "run", "rows.csv"], 1),
        ("stdout", ["explain", "run"], 1),
        ("stdout", ["run", "--help"], 1),
        ("stdout", ["--help"], 1),
        ("stdout", ["--version"], 1),
        ("stdout", ["run", "--no-such-option"], 2),
        ("stderr", ["explain", "run"], 0),
        ("stderr", ["explain", "."], 1),
        ("stderr", ["run", "--no-such-option"], 2),
    ],
)
def test_a_full_standard_stream_is_named_or_its_text_lost(full: str, words: list[str], code: int, place: Path) -> None:
    with open("/dev/full", "wb") as device:
        ended = command(place, *words, **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | {full: device})
    said = ended.stderr or b""
    assert ended.returncode == code
    assert (b"'standard output': No space left" in said) == (full == "stdout" and code == 1)
    assert b"Traceback" not in said
    assert b"Exception ignored" not in said


def test_a_folder_that_was_removed_under_a_command_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    ended = command(folder, "run", "sea10", "--rows", "500", stderr=subprocess.PIPE, preexec_fn=folder.rmdir)
    assert (ended.returncode, b"current folder" in ended.stderr) == (1, True)


@pytest.mark.parametrize("epoch", ["abc", "", "1.5", "9" * 20])
def test_a_bad_source_date_is_named_before_anything_is_imported(epoch: str, place: Path) -> None:
    given = os.environ | {"SOURCE_DATE_EPOCH": epoch}
    ended = command(place, "run", "sea10", "--out", "dated", stderr=subprocess.PIPE, env=given)
    assert ended.returncode == 1
    assert ended.stderr.startswith(f"Error: the environment variable SOURCE_DATE_EPOCH is {epoch!r};".encode())
    assert not (place / "dated").exists()
