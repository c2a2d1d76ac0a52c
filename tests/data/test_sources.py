"""Sources: batches, positions, bad rows, several files, growing files and standard input, for every format."""

from __future__ import annotations

import gzip
import io
import json
import re
import sys
import zipfile
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest
from source_files import (
    MAKERS,
    arrow_table,
    everything,
    make_arff,
    make_csv,
    make_gzip,
    make_jsonl,
    make_libsvm,
    make_zip,
    rows,
    write,
    zstd,
)

from driftsurf.data import BadRow, FileSource, ReadingOptions, open_source, polling
from driftsurf.data.sources.stdin import StandardInput
from driftsurf.errors import BadRowError, MissingExtraError, OptionError, SchemaError, SourceError, StateError

# ---------------------------------------------------------------------------- every format


@pytest.mark.parametrize("make", MAKERS)
def test_rows_are_read_and_resumed_from_every_position(make: Callable[[Path], Path], tmp_path: Path) -> None:
    path = make(tmp_path)
    whole = everything(FileSource(path))
    assert len(whole) == 25
    if make not in (make_libsvm, make_arff):
        assert whole == [tuple(row.values()) for row in arrow_table().to_pylist()]
    for size in (1, 4, 7):
        given = list(FileSource(path, batch_size=size).tables())
        assert [len(table) for table, _ in given[:-1]] == [size] * (len(given) - 1)
        assert [row for table, _ in given for row in rows(table)] == whole
        for table, position in given:
            saved = json.loads(json.dumps(position))
            assert everything(FileSource(path, batch_size=size), saved) == whole[position["rows"] :]
            assert len(table)


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("block_bytes", [1, 5, 64])
def test_the_size_of_blocks_does_not_change_tables_or_positions(
    make: Callable[[Path], Path], block_bytes: int, tmp_path: Path
) -> None:
    path = make(tmp_path)
    plain = list(FileSource(path, batch_size=6).tables())
    small = list(FileSource(path, ReadingOptions(block_bytes=block_bytes), batch_size=6).tables())
    assert [(rows(table), position) for table, position in small] == [(rows(t), p) for t, p in plain]


@pytest.mark.parametrize("make", [make_csv, make_jsonl, make_arff, make_libsvm])
def test_bad_rows_are_reported_once_whatever_the_blocks_and_wherever_resumed(
    make: Callable[[Path], Path], tmp_path: Path
) -> None:
    path = make(tmp_path)
    lines = path.read_text().splitlines()
    for at in (len(lines), len(lines) - 3, len(lines) - 4, len(lines) - 20):
        lines.insert(at, '"damaged')
    path.write_text("\n".join(lines) + "\n")
    bad: list[BadRow] = []
    given = []
    source = FileSource(path, ReadingOptions(on_bad_row="skip"), batch_size=4)
    for table, position in source.tables(on_skip=bad.append):
        given.append((rows(table), position, len(bad)))
    assert len(bad) == given[-1][1]["skipped"] == 4
    assert [lines[one.line - 1] for one in bad] == ['"damaged'] * 4
    assert [one.raw for one in bad] == ['"damaged'] * 4
    for _, position, count in given:
        assert position["skipped"] == count
        again: list[BadRow] = []
        rest = FileSource(path, ReadingOptions(block_bytes=3, on_bad_row="skip"), batch_size=4)
        assert everything(rest, position, again.append) == [
            row for some, p, _ in given for row in some if p["rows"] > position["rows"]
        ]
        assert again == bad[count:]


def test_a_header_that_begins_as_a_compressed_file_does_is_plain_text(tmp_path: Path) -> None:
    assert everything(FileSource(write(tmp_path, "a.csv", "BZh1,b\n1,2\n"))) == [(1.0, 2.0)]


def test_a_zip_archive_is_what_the_file_in_it_is(tmp_path: Path) -> None:
    path = make_zip(tmp_path)
    (tmp_path / "a.csv").unlink()
    assert len(everything(FileSource(tmp_path))) == 25
    assert len(everything(open_source(f"file://{path}"))) == 25
    with zipfile.ZipFile(tmp_path / "two.csv.zip", "w") as archive:
        archive.writestr("a.csv", "x\n1\n")
        archive.writestr("b.csv", "x\n2\n")
    with pytest.raises(SourceError, match=r"two\.csv\.zip.*2"):
        everything(FileSource(tmp_path / "two.csv.zip"))
    with zipfile.ZipFile(tmp_path / "notes.zip", "w") as archive:
        archive.writestr("notes.md", "x\n1\n")
    with pytest.raises(OptionError, match=r"notes\.zip"):
        everything(FileSource(tmp_path / "notes.zip"))


# ---------------------------------------------------------------------------- several files


def test_columns_of_later_files(tmp_path: Path) -> None:
    write(tmp_path, "1.csv", "a,b\n1,x\n")
    write(tmp_path, "2.csv", "b,a\ny,2\n")
    assert everything(FileSource(tmp_path)) == [(1.0, "x"), (2.0, "y")]
    write(tmp_path, "3.csv", "a,c,b\n3,0,z\n")
    with pytest.raises(SchemaError, match=r"3\.csv.*'c'"):
        everything(FileSource(tmp_path))
    assert len(everything(FileSource(tmp_path, ReadingOptions(on_schema_change="ignore-added")))) == 3
    write(tmp_path, "4.csv", "a\n4\n")
    with pytest.raises(SchemaError, match="'b'"):
        everything(FileSource(tmp_path, ReadingOptions(on_schema_change="ignore-added")))
    assert everything(FileSource(tmp_path, ReadingOptions(on_schema_change="fill-removed")))[-1] == (4.0, None)
    write(tmp_path, "5.csv", "b,c\nx,1\n")
    write(tmp_path, "6.csv", "c\n1\n")
    assert everything(FileSource(tmp_path, ReadingOptions(on_schema_change="fill-removed")))[-2:] == [
        (None, "x"),
        (None, None),
    ]


def test_a_file_without_rows_does_not_decide_the_kinds(tmp_path: Path) -> None:
    write(tmp_path, "1.csv", "a,b\n")
    write(tmp_path, "2.jsonl", "")
    write(tmp_path, "3.csv", "a,b\n1,x\n")
    assert everything(FileSource(tmp_path)) == [(1.0, "x")]
    write(tmp_path, "4.csv", "a,b\n")
    assert everything(FileSource(tmp_path)) == [(1.0, "x")]


def test_a_typed_column_that_changes_its_kind_is_an_error(tmp_path: Path) -> None:
    pa.parquet.write_table(pa.table({"a": [1.5], "b": ["x"]}), tmp_path / "1.parquet")
    pa.parquet.write_table(pa.table({"a": pa.nulls(1), "b": pa.nulls(1)}), tmp_path / "2.parquet")
    pa.parquet.write_table(pa.table({"a": [True], "b": [5]}), tmp_path / "3.parquet")
    assert everything(FileSource(tmp_path)) == [(1.5, "x"), (None, None), (1.0, "5")]
    pa.parquet.write_table(pa.table({"a": ["one"], "b": ["x"]}), tmp_path / "4.parquet")
    with pytest.raises(SchemaError, match=r"4\.parquet.*'a'.*number.*text"):
        everything(FileSource(tmp_path, ReadingOptions(on_schema_change="fill-removed")))
    write(tmp_path, "0.svm", "1 1:1\n")
    with pytest.raises(SchemaError, match="sparse"):
        everything(FileSource(tmp_path, ReadingOptions(on_schema_change="fill-removed")))


def test_files_of_patterns_and_folders_are_read_in_the_order_of_their_names(tmp_path: Path) -> None:
    for name in ("b.csv", "a.csv", ".hidden.csv", "c.jsonl"):
        write(tmp_path, name, f"x\n{ord(name[0])}\n" if name.endswith("csv") else '{"x": 99}\n')
    assert everything(FileSource(str(tmp_path / "*.csv"))) == [(97.0,), (98.0,)]
    assert everything(FileSource(tmp_path)) == [(97.0,), (98.0,), (99.0,)]
    for missing in (tmp_path / "*.arff", tmp_path / "no.csv"):
        with pytest.raises(SourceError, match=re.escape(missing.name)):
            everything(FileSource(str(missing)))
    (tmp_path / "empty").mkdir()
    with pytest.raises(SourceError, match=r"empty.*csv"):
        everything(FileSource(tmp_path / "empty"))


# ---------------------------------------------------------------------------- batches by time


def test_batches_by_time_end_before_a_later_span(tmp_path: Path) -> None:
    seconds = ["0", "3", "", "12", "9", "14", "20", "47", "48"]
    path = write(tmp_path, "a.csv", "s,i\n" + "".join(f"{s},{i}\n" for i, s in enumerate(seconds)))
    cut = {"batch_seconds": 10.0, "batch_size": None, "time": "s"}
    for block_bytes in (4, 2**20):
        source = FileSource(path, ReadingOptions(block_bytes=block_bytes), **cut)  # type: ignore[arg-type]
        given = [(table["i"].values.tolist(), position) for table, position in source.tables()]
        assert [some for some, _ in given] == [[0, 1, 2], [3, 4, 5], [6], [7, 8]]
        for k, (_, position) in enumerate(given):
            rest = [table["i"].values.tolist() for table, _ in source.tables(position)]
            assert rest == [some for some, _ in given[k + 1 :]]
    both = FileSource(path, batch_seconds=10.0, batch_size=2, time="s")
    assert [table["i"].values.tolist() for table, _ in both.tables()] == [[0, 1], [2, 3], [4], [5], [6], [7, 8]]


def test_dates_cut_batches_too(tmp_path: Path) -> None:
    days = ["2007-01-01 10:00", "2007-01-01 23:00", "", "2007-01-03", "2007-01-03 12:00"]
    path = write(tmp_path, "a.csv", "t,i\n" + "".join(f"{d},{i}\n" for i, d in enumerate(days)))
    source = FileSource(path, batch_seconds=86_400, batch_size=None, time="t")
    assert [table["i"].values.tolist() for table, _ in source.tables()] == [[0, 1, 2], [3, 4]]
    source = FileSource(write(tmp_path, "b.csv", "t\nsoon\n"), batch_seconds=1, batch_size=None, time="t")
    with pytest.raises(OptionError, match=r"time.*'t'.*text"):
        everything(source)


# ---------------------------------------------------------------------------- growing files, standard input


def test_a_growing_file_is_followed_and_an_incomplete_line_is_not_a_row(tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", "a,b\n1,x\n2,")
    parts: Iterator[str] = iter(["y", "\n3,", "z\n", "", "4,w\n5"])

    def grow() -> bool:
        part = next(parts, None)
        with path.open("a") as file:
            file.write(part or "")
        return part is not None

    source = FileSource(path, batch_size=2, follow=grow)
    given = [(rows(table), position) for table, position in source.tables()]
    assert [some for some, _ in given] == [[(1.0, "x"), (2.0, "y")], [(3.0, "z"), (4.0, "w")]]
    with path.open("a") as file:
        file.write(",v\n")
    assert everything(FileSource(path), given[-1][1]) == [(5.0, "v")]


@pytest.mark.parametrize("replace", [True, False])
def test_a_followed_file_that_is_truncated_or_replaced_is_an_error(replace: bool, tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", "a\n1\n2\n")

    def spoil() -> bool:
        if replace:
            write(tmp_path, "b.csv", "a\n1\n2\n3\n").replace(path)
        else:
            path.write_text("a\n")
        return True

    with pytest.raises(SourceError, match=r"a\.csv"):
        everything(FileSource(path, follow=spoil))


def test_polling_ends_after_idle_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, "a.csv", "a\n1\n")
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 2:
            with path.open("a") as file:
                file.write("2\n")

    monkeypatch.setattr("time.sleep", sleep)
    assert everything(FileSource(path, follow=polling(2.0, idle_seconds=4.0))) == [(1.0,), (2.0,)]
    assert slept == [2.0] * 4


@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstd])
def test_standard_input_is_read_and_resumed(pack: Callable[[bytes], bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    data = pack(b"a\n" + b"".join(b"%d\n" % i for i in range(3000)))

    class Pipe:
        def __init__(self) -> None:
            self.buffer = io.BytesIO(data)

    monkeypatch.setattr(sys, "stdin", Pipe())
    reading = ReadingOptions(block_bytes=512, sample_rows=10)
    given = list(StandardInput("-", reading).tables())
    assert [row for table, _ in given for row in rows(table)] == [(float(i),) for i in range(3000)]
    for _, position in given:
        monkeypatch.setattr(sys, "stdin", Pipe())
        rest = everything(open_source("-", reading), position)
        assert rest == [(float(i),) for i in range(position["rows"], 3000)]
    for other in (b"a\n1\n", b"a\n" + b"7\n" * 3000):
        data = pack(other)
        monkeypatch.setattr(sys, "stdin", Pipe())
        with pytest.raises(StateError, match="3000"):
            everything(open_source("-", reading), given[-1][1])


# ---------------------------------------------------------------------------- options, positions, extras


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"batch_size": 0}, "batch_size.*0"),
        ({"batch_size": None}, "batch_size.*batch_seconds"),
        ({"batch_seconds": 5.0}, "batch_seconds.*time.*5.0"),
        ({"batch_seconds": -5.0, "time": "a"}, "batch_seconds.*-5.0"),
        ({"format": "xls"}, "'xls'.*csv"),
        ({"kinds": {"a": "colour"}}, "kinds.*'colour'.*'number'"),
        ({"drop": "a"}, r"drop.*\['a'\]"),
        ({"on_bad_row": "warn"}, "on_bad_row.*'warn'.*'skip'"),
        ({"on_bad_row": -1}, "on_bad_row.*-1"),
        ({"on_schema_change": "adapt"}, "on_schema_change.*'adapt'.*'ignore-added'"),
        ({"delimiter": "ab"}, "delimiter.*'ab'"),
        ({"encoding": "utf-99"}, "encoding.*'utf-99'.*cp1252"),
        ({"encoding": "idna"}, "encoding.*'idna'.*cp1252"),
        ({"encoding": "undefined"}, "encoding.*'undefined'.*cp1252"),
        ({"comment": "//"}, "comment.*'//'"),
        ({"n_features": 0}, "n_features.*0"),
        ({"decimal": ";"}, "decimal.*';'.*'.', ','"),
        ({"thousands": "."}, r"thousands.*'\.'"),
        ({"thousands": "ab"}, "thousands.*'ab'"),
        ({"date_formats": "%Y"}, r"date_formats.*\['%Y'\]"),
        ({"date_formats": ["%H:%M"]}, "date_formats='%H:%M'.*%d.%m.%Y"),
        ({"date_formats": ["%Y %"]}, "date_formats='%Y %'"),
        ({"format": "parquet", "follow": polling()}, "parquet.*csv"),
    ],
)
def test_options_with_wrong_values_are_refused_by_name(options: dict[str, Any], named: str, tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", "a\n1\n")
    with pytest.raises(OptionError, match=named):
        everything(source_with(path, **options))


def source_with(path: Path, **options: Any) -> FileSource:
    """A source with options of both kinds: how rows are read, and how they are cut into batches."""
    batching = {name: options.pop(name) for name in BATCHING if name in options}
    return FileSource(path, ReadingOptions(**options), **batching)


BATCHING = "batch_size", "batch_seconds", "time", "follow"


@pytest.mark.parametrize("options", [{"drop": ["z"]}, {"kinds": {"z": "text"}}, {"time": "z", "batch_seconds": 1}])
def test_columns_that_do_not_exist_are_refused_by_name(options: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match=r"'z'.*'a'"):
        everything(source_with(write(tmp_path, "a.csv", "a\n1\n"), **options))


def test_files_that_cannot_be_followed_or_have_no_known_format_are_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"follow.*'-'"):
        everything(open_source("-", follow=polling()))
    with pytest.raises(OptionError, match=r"a\.csv\.gz"):
        everything(FileSource(make_gzip(tmp_path), follow=polling()))
    with pytest.raises(OptionError, match=r"a\.data.*format.*\.csv"):
        everything(FileSource(write(tmp_path, "a.data", "a\n1\n")))
    assert everything(FileSource(tmp_path / "a.data", ReadingOptions(format="csv"))) == [(1.0,)]
    with pytest.raises(SchemaError, match="drop"):
        everything(FileSource(write(tmp_path, "b.csv", "a\n1\n"), ReadingOptions(drop=["a"])))


def test_without_pyarrow_the_error_tells_how_to_install_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow.csv", None)
    with pytest.raises(MissingExtraError, match=r"pip install pyarrow"):
        everything(FileSource(write(tmp_path, "a.csv", "a\n1\n")))


@pytest.mark.parametrize("size", [2, 4, 100])
def test_rows_limits_what_is_read_exactly_and_across_a_resume(size: int, tmp_path: Path) -> None:
    lines = [f"{i}" if i != 11 else "bad" for i in range(20)]
    write(tmp_path, "a.csv", "n\n" + "\n".join(lines[:7]))
    write(tmp_path, "b.csv", "n\n" + "\n".join(lines[7:]))
    source = FileSource(tmp_path, ReadingOptions(rows=9, block_bytes=3), batch_size=size)
    read = list(source.tables())
    assert [row for table, _ in read for row in rows(table)] == [(float(i),) for i in range(9)]
    assert [len(table) for table, _ in read] == [size] * (9 // size) + [9 % size] * (9 % size > 0)
    for _, position in read:
        assert everything(source, position) == [(float(i),) for i in range(position["rows"], 9)]
    with pytest.raises(BadRowError, match="line 6"):  # the rows after the limit were not looked at
        everything(FileSource(tmp_path, ReadingOptions(rows=12), batch_size=size))
    assert len(everything(FileSource(tmp_path, ReadingOptions(rows=12, on_bad_row="skip"), batch_size=size))) == 12


def test_a_zip_archive_of_several_files_is_refused_by_its_count(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("a.csv", "n\n1\n")
        archive.writestr("b.csv", "n\n1\n")
    with pytest.raises(SourceError, match=r"a\.zip.* 2"):
        everything(FileSource(tmp_path / "a.zip"))


def write_numbers(path: Path, count: int, bad: Collection[int] = ()) -> None:
    """Write a CSV file with a column of numbers, and of words in bad rows."""
    lines = [f"{'?!' if row in bad else row},{row % 3}" for row in range(count)]
    path.write_text("\n".join(["a,b", *lines]) + "\n")


def count_openings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that grows by the name of each file that a source opens."""
    opened = list[str]()
    reader = FileSource._reader

    def counted(self: FileSource, path: str, shape: Any = None) -> Any:
        opened.append(Path(path).name)
        return reader(self, path, shape)

    monkeypatch.setattr(FileSource, "_reader", counted)
    return opened


def all_tables(source: FileSource, bad: list[int]) -> list[tuple[list[Any], Any]]:
    """Return the values and positions of all batches; ``bad`` gets the lines of bad rows."""
    tables = source.tables(on_skip=lambda one: bad.append(one.line))
    return [(table["a"].values.tolist(), dict(position)) for table, position in tables]


@pytest.mark.parametrize("room", [0, 3_000, 2**26])
def test_kept_chunks_are_the_rows_of_the_files_whatever_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    for name, count in (("a.csv", 40), ("b.csv", 700), ("c.csv", 90)):
        write_numbers(tmp_path / name, count, bad=(31,))
    reading = ReadingOptions(on_bad_row="skip", block_bytes=256, sample_rows=20)
    plain, lines = FileSource(tmp_path, reading, batch_size=64), list[int]()
    expected = all_tables(plain, lines)
    monkeypatch.setattr("driftsurf.data.sources.files.KEPT_BYTES", room)
    opened = count_openings(monkeypatch)
    source = FileSource(tmp_path, reading, batch_size=50)
    source.keep_chunks()
    begun = source.tables()
    assert next(begun)[0]["a"].values.tolist()[:2] == [0.0, 1.0]
    assert sum(len(table) for table, _ in source.with_batches(300).tables(on_skip=lambda bad: None)) == 827
    rest = [len(table) for table, _ in begun]
    source.read_last()
    found, again = list[int](), list[int]()
    assert all_tables(source.with_batches(64), found) == expected
    assert (found, sum(rest)) == (lines, 777)
    if room == 2**26:
        assert opened == ["a.csv", "b.csv", "c.csv"]
    assert all_tables(source.with_batches(64), again) == expected  # read again after all, as everything was dropped
    assert again == lines


def test_an_error_in_kept_chunks_is_raised_each_time(tmp_path: Path) -> None:
    write_numbers(tmp_path / "a.csv", 50)
    (tmp_path / "b.csv").write_text("c\n1\n")
    source = FileSource(tmp_path, batch_size=10)
    source.keep_chunks()
    for _ in range(3):
        with pytest.raises(SchemaError, match="differ"):
            list(source.tables())
