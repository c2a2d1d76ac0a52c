"""Files that are no tables: a named error or success, in bounded memory, whatever their size; and waiting for rows."""

from __future__ import annotations

import bz2
import gzip
import logging
import lzma
import os
import threading
import time
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from commands import invoke
from source_files import everything, write

from driftsurf.data import BadRow, FileSource, ReadingOptions
from driftsurf.data.formats._text import Records
from driftsurf.data.formats.csv import CsvReader
from driftsurf.data.frames import read_table
from driftsurf.data.row_encoder import find_target
from driftsurf.errors import BadRowError, SchemaError, SourceError

MIB = 2**20
HEAD = b"a,b\n1,x\n2,y\n"


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.csv", b"\n" * 20 * MIB),
        ("a.csv", b"a,b\n" + b"\r\n" * 10 * MIB),
        ("a.csv", b"#\n" * 10 * MIB),
        ("a.csv", b"\0" * 20 * MIB),
        ("a.jsonl", b" \n" * 10 * MIB),
        ("a.json", b"[" + b"," * 20 * MIB),
        ("a.json", b"[" * 20 * MIB),
        ("a.arff", b"%\n" * 10 * MIB),
        ("a.svm", b"\n" * 20 * MIB),
    ],
)
def test_files_without_rows_are_refused_in_bounded_memory(name: str, data: bytes, tmp_path: Path) -> None:
    path = write(tmp_path, f"{name}.gz", gzip.compress(data, 1))
    everything(FileSource(write(tmp_path, "small.csv", HEAD)))  # imports take memory once
    del data
    tracemalloc.start()
    with pytest.raises(SourceError, match=name):
        everything(FileSource(path))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 200 * MIB


@pytest.mark.parametrize("block", [1, 7, 2**20])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_a_row_that_is_too_long_is_skipped_like_any_bad_row(block: int, end: str, tmp_path: Path) -> None:
    long = "y" * 50
    lines = ["n,t", "1,a", f"2,{long}", "3,b", f"4,{long}", f"5,{long}", "6,c", f"7,{long}"]
    path = write(tmp_path, "a.csv", end.join(lines))
    bad: list[BadRow] = []
    reading = ReadingOptions(on_bad_row="skip", max_row_bytes=20, block_bytes=block)
    source = FileSource(path, reading, batch_size=1)
    rows = [(1.0, "a"), (3.0, "b"), (6.0, "c")]
    assert everything(source, on_skip=bad.append) == rows
    assert [one.line for one in bad] == [3, 5, 6, 8]
    assert all(one.raw == f"{n},{long}"[:21] for one, n in zip(bad, "2457", strict=True))
    positions = [position for _, position in source.tables()]
    assert [everything(source, position) for position in positions] == [rows[1:], rows[2:], []]
    with pytest.raises(SourceError, match=r"line 3.*20 bytes"):
        everything(FileSource(path, ReadingOptions(max_row_bytes=20, block_bytes=block)))
    assert len(everything(FileSource(path, ReadingOptions(max_row_bytes=60, block_bytes=block)))) == 7


def test_rows_between_those_that_are_too_long_are_read_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed: list[int] = []
    parse = CsvReader.parse

    def counted(self: CsvReader, records: Records, *arguments: Any, **options: Any) -> Any:
        parsed.append(len(records))
        return parse(self, records, *arguments, **options)

    monkeypatch.setattr(CsvReader, "parse", counted)
    path = write(tmp_path, "a.csv", "n,t\n" + f"1,a\n2,{'y' * 50}\n" * 500)
    bad: list[BadRow] = []
    reading = ReadingOptions(on_bad_row="skip", max_row_bytes=20)
    assert len(everything(FileSource(path, reading), on_skip=bad.append)) == 500
    assert [one.line for one in bad] == list(range(3, 1003, 2))
    assert len(parsed) <= 4


@pytest.mark.parametrize("block", [1, 2**20])
def test_an_object_of_an_array_that_is_too_long_is_skipped(block: int, tmp_path: Path) -> None:
    text = '[{"n": 1},\n{"n":\n"%s"},\n{"n": 3}, {"n": "%s"}, {"n": 4},{"n": "%s"}]' % (("z" * 40,) * 3)
    bad: list[BadRow] = []
    reading = ReadingOptions(on_bad_row="skip", max_row_bytes=20, block_bytes=block)
    found = everything(FileSource(write(tmp_path, "a.json", text), reading), on_skip=bad.append)
    assert found == [(1.0,), (3.0,), (4.0,)]
    assert [one.line for one in bad] == [2, 4, 4]


def test_a_row_without_an_end_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("driftsurf.data.formats._text.PASSED_BYTES", 2**16)
    monkeypatch.setattr("driftsurf.data.formats._text.HEAD_BYTES", 2**14)
    reading = ReadingOptions(on_bad_row="skip", max_row_bytes=100, block_bytes=2**12)
    with pytest.raises(SourceError, match="65,536"):
        everything(FileSource(write(tmp_path, "a.csv", HEAD + b"x" * 2**18), reading))


@pytest.mark.parametrize("block", [64, 2**20])
def test_bad_rows_before_one_batch_are_limited_by_the_rows_alone(
    block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("driftsurf.data.sources.files.WAITING_BYTES", 400 * 50)
    reading = ReadingOptions(on_bad_row="skip", block_bytes=block)
    few, many = HEAD + (b"bad\n" * 40 + b"3,z\n") * 5, HEAD + b"bad\n" * 80 + b"3,z\n" * 5
    assert len(everything(FileSource(write(tmp_path, "few.csv", few), reading, batch_size=1))) == 7
    with pytest.raises(BadRowError, match="batch_size"):
        everything(FileSource(write(tmp_path, "many.csv", many), reading, batch_size=1))


def test_questions_of_blanks_are_answered_at_once() -> None:
    table = read_table({"delay": [1.0, 2.0, 3.0]})
    blanks = " " * 50_000
    assert find_target(f"delay{blanks}>{blanks}2{blanks}", "auto", table).read(table).tolist() == [False, False, True]
    for label in (f"delay{blanks}!", f"x{blanks}> 2", blanks):
        with pytest.raises(SchemaError) as error:
            find_target(label, "auto", table)
        assert len(str(error.value)) < 1000


# ---------------------------------------------------------------------------- waiting


def test_a_pipe_that_nobody_writes_to_is_announced_and_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("driftsurf.data.formats._bytes.LOOK_SECONDS", 0.01)
    monkeypatch.setattr("driftsurf.data.formats._bytes.WRITER_SECONDS", 0.05)
    path = tmp_path / "pipe.csv"
    os.mkfifo(path)
    with caplog.at_level(logging.WARNING), pytest.raises(SourceError, match=r"pipe\.csv"):
        everything(FileSource(path))
    assert [record.getMessage() for record in caplog.records] == [f"{path}: waiting for its first bytes"]


def test_a_pipe_with_a_slow_writer_is_read_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("driftsurf.data.formats._bytes.LOOK_SECONDS", 0.01)
    path = tmp_path / "pipe.csv"
    os.mkfifo(path)

    def slowly() -> None:
        with path.open("wb", buffering=0) as file:
            file.write(b"n\n1\n")
            end = time.monotonic() + 60
            while not caplog.records and time.monotonic() < end:  # until the reader says that it waits
                time.sleep(0.01)
            file.write(b"2\n3")

    writer = threading.Thread(target=slowly)
    writer.start()
    with caplog.at_level(logging.WARNING):
        assert everything(FileSource(path)) == [(1.0,), (2.0,), (3.0,)]
    writer.join()
    assert len(caplog.records) == 1
    assert "waiting" in caplog.text


def test_a_followed_file_begins_with_a_hundred_rows_however_they_come(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = write(tmp_path, "a.csv", "n\n" + "1\n" * 60)
    looks = 0

    def grow() -> bool:
        nonlocal looks
        looks += 1
        with path.open("a") as file:
            file.write("2\n" * 20 * (looks > 1))
        return looks < 5

    with caplog.at_level(logging.WARNING):
        table, _ = next(FileSource(path, batch_size=10, follow=grow).tables())
    assert len(table) == 10
    assert looks == 3
    assert [record.getMessage().partition("waiting")[2] for record in caplog.records] == [
        " for rows: 60 of the first 100, which tell the columns, are there"
    ]


def test_a_last_line_without_a_line_end_is_learned_or_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = write(tmp_path, "a.csv", "n\n1\n2\n3")
    assert everything(FileSource(path)) == [(1.0,), (2.0,), (3.0,)]
    assert not caplog.records
    assert everything(FileSource(path, follow=lambda: False)) == [(1.0,), (2.0,)]
    assert [record.args for record in caplog.records] == [(str(path), "3")]


def test_what_a_run_writes_does_not_depend_on_whether_the_file_was_followed(tmp_path: Path) -> None:
    lines = [f"{k % 7},{'yes' if k % 7 > 3 else 'no'}" for k in range(350)]
    path = write(tmp_path, "a.csv", "n,sold\n" + "\n".join(lines) + "\n")
    for name, options in (("plain", ()), ("followed", ("--follow", "--follow-for", "0.1"))):
        done = invoke("run", path, "--label", "sold", "--batch-size", 50, "--out", tmp_path / name, *options)
        assert done.exit_code == 0, done.output
    for file in ("run.json", "trace.csv", "journal.jsonl"):
        assert (tmp_path / "plain" / file).read_bytes() == (tmp_path / "followed" / file).read_bytes()


# ---------------------------------------------------------------------------- wide tables and packed files


def test_wide_tables_are_converted_some_columns_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, "a.csv", "n,t,d,b,m\n1,x,2020-01-01,true,\n2.5,y,2020-01-02,false,3\n")
    rows = everything(FileSource(path))
    monkeypatch.setattr("driftsurf.data.formats.csv.COLUMNS_AT_A_TIME", 2)
    assert everything(FileSource(path)) == rows


def test_thousands_of_columns_of_one_name_get_names_of_their_own(tmp_path: Path) -> None:
    width = 20_000
    path = write(tmp_path, "a.csv", "a," * width + "b\n" + "1," * width + "2\n")
    table, _ = next(FileSource(path).tables())
    assert list(table.columns)[:3] == ["a", "a_2", "a_3"]
    assert list(table.columns)[-2:] == [f"a_{width}", "b"]


@pytest.mark.parametrize("pack", [bz2.compress, lzma.compress])
@pytest.mark.parametrize("block", [1, 100, 2**20])
def test_packed_files_of_several_streams_are_read_in_blocks(pack: Any, block: int, tmp_path: Path) -> None:
    ending = "bz2" if pack is bz2.compress else "xz"
    count = 300 if block == 1 else 3_000  # each byte costs a millisecond if it is a block
    rows = [(float(k % 3),) for k in range(count)]
    cut = 2 * count // 3
    halves = ["n\n" + "".join(f"{n:g}\n" for (n,) in rows[:cut]), "".join(f"{n:g}\n" for (n,) in rows[cut:])]
    data = b"".join(pack(half.encode()) for half in halves)
    reading = ReadingOptions(block_bytes=block)
    assert everything(FileSource(write(tmp_path, f"a.csv.{ending}", data), reading)) == rows
    with pytest.raises(SourceError, match=f"{ending}"):
        everything(FileSource(write(tmp_path, f"b.csv.{ending}", data[:-9]), reading))


def test_a_packed_file_that_needs_much_memory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("driftsurf.data.formats._bytes.XZ_MEMORY", 2**16)
    with pytest.raises(SourceError, match=r"a\.csv\.xz"):
        everything(FileSource(write(tmp_path, "a.csv.xz", lzma.compress(b"n\n1\n"))))
