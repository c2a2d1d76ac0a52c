"""Sources: batches, positions, bad rows, several files, growing files, whatever the format."""

from __future__ import annotations

import gzip
import io
import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driftsurf.errors import (
    DriftsurfError,
    MissingExtraError,
    OptionError,
    SchemaError,
    SourceError,
    StateError,
)
from driftsurf.sources import BadRow, Dialect, Source, polling
from source_files import (
    MAKERS,
    Row,
    arrow_table,
    everything,
    make_arff,
    make_csv,
    make_feather,
    make_gzip,
    make_jsonl,
    make_libsvm,
    make_parquet,
    rows,
    write,
    zstd,
)

# ---------------------------------------------------------------------------- every format


@pytest.mark.parametrize("make", MAKERS)
def test_rows_are_read_and_resumed_from_every_position(make: Callable[[Path], Path], tmp_path: Path) -> None:
    path = make(tmp_path)
    whole = everything(Source(path))
    assert len(whole) == 25
    if make not in (make_libsvm, make_arff):
        assert whole == [tuple(row.values()) for row in arrow_table().to_pylist()]
    for size in (1, 4, 7):
        given = list(Source(path, batch_size=size).tables())
        assert [len(table) for table, _ in given[:-1]] == [size] * (len(given) - 1)
        assert [row for table, _ in given for row in rows(table)] == whole
        for table, position in given:
            saved = json.loads(json.dumps(position))
            assert everything(Source(path, batch_size=size), saved) == whole[position["rows"] :]
            assert len(table)


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("block_bytes", [1, 5, 64])
def test_how_bytes_arrive_does_not_matter(make: Callable[[Path], Path], block_bytes: int, tmp_path: Path) -> None:
    path = make(tmp_path)
    plain = list(Source(path, batch_size=6).tables())
    small = list(Source(path, batch_size=6, dialect=Dialect(block_bytes=block_bytes)).tables())
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
    source = Source(path, batch_size=4, on_bad_row="skip", sink=bad.append)
    for table, position in source.tables():
        given.append((rows(table), position, len(bad)))
    assert len(bad) == given[-1][1]["skipped"] == 4
    assert [lines[one.line - 1] for one in bad] == ['"damaged'] * 4
    assert [one.raw for one in bad] == ['"damaged'] * 4
    for _, position, count in given:
        assert position["skipped"] == count
        again: list[BadRow] = []
        small = Dialect(block_bytes=3)
        rest = Source(path, batch_size=4, on_bad_row="skip", sink=again.append, dialect=small)
        assert everything(rest, position) == [
            row for some, p, _ in given for row in some if p["rows"] > position["rows"]
        ]
        assert again == bad[count:]


# ---------------------------------------------------------------------------- several files


def test_columns_of_later_files(tmp_path: Path) -> None:
    write(tmp_path, "1.csv", "a,b\n1,x\n")
    write(tmp_path, "2.csv", "b,a\ny,2\n")
    assert everything(Source(tmp_path)) == [(1.0, "x"), (2.0, "y")]
    write(tmp_path, "3.csv", "a,c,b\n3,0,z\n")
    with pytest.raises(SchemaError, match=r"3\.csv.*added: 'c'"):
        everything(Source(tmp_path))
    assert len(everything(Source(tmp_path, on_schema_change="ignore-added"))) == 3
    write(tmp_path, "4.csv", "a\n4\n")
    with pytest.raises(SchemaError, match="removed: 'b'"):
        everything(Source(tmp_path, on_schema_change="ignore-added"))
    assert everything(Source(tmp_path, on_schema_change="fill-removed"))[-1] == (4.0, None)
    write(tmp_path, "5.csv", "b,c\nx,1\n")
    write(tmp_path, "6.csv", "c\n1\n")
    assert everything(Source(tmp_path, on_schema_change="fill-removed"))[-2:] == [(None, "x"), (None, None)]


def test_a_file_without_rows_does_not_decide_the_kinds(tmp_path: Path) -> None:
    write(tmp_path, "1.csv", "a,b\n")
    write(tmp_path, "2.jsonl", "")
    write(tmp_path, "3.csv", "a,b\n1,x\n")
    assert everything(Source(tmp_path)) == [(1.0, "x")]
    write(tmp_path, "4.csv", "a,b\n")
    assert everything(Source(tmp_path)) == [(1.0, "x")]


def test_a_typed_column_that_changes_its_kind_is_an_error(tmp_path: Path) -> None:
    pa.parquet.write_table(pa.table({"a": [1.5], "b": ["x"]}), tmp_path / "1.parquet")
    pa.parquet.write_table(pa.table({"a": pa.nulls(1), "b": pa.nulls(1)}), tmp_path / "2.parquet")
    pa.parquet.write_table(pa.table({"a": [True], "b": [5]}), tmp_path / "3.parquet")
    assert everything(Source(tmp_path)) == [(1.5, "x"), (None, None), (1.0, "5")]
    pa.parquet.write_table(pa.table({"a": ["one"], "b": ["x"]}), tmp_path / "4.parquet")
    with pytest.raises(SchemaError, match=r"4\.parquet.*retyped: 'a' from number to text"):
        everything(Source(tmp_path, on_schema_change="fill-removed"))
    write(tmp_path, "0.svm", "1 1:1\n")
    with pytest.raises(SchemaError, match="sparse features only in some files"):
        everything(Source(tmp_path, on_schema_change="fill-removed"))


def test_patterns_and_folders_go_by_name(tmp_path: Path) -> None:
    for name in ("b.csv", "a.csv", ".hidden.csv", "c.jsonl"):
        write(tmp_path, name, f"x\n{ord(name[0])}\n" if name.endswith("csv") else '{"x": 99}\n')
    assert everything(Source(str(tmp_path / "*.csv"))) == [(97.0,), (98.0,)]
    assert everything(Source(tmp_path)) == [(97.0,), (98.0,), (99.0,)]
    for missing, message in ((tmp_path / "*.arff", "no file matches"), (tmp_path / "no.csv", "No such file")):
        with pytest.raises(SourceError, match=message):
            everything(Source(str(missing)))
    (tmp_path / "empty").mkdir()
    with pytest.raises(SourceError, match="holds no file that can be read"):
        everything(Source(tmp_path / "empty"))


# ---------------------------------------------------------------------------- batches by time


def test_batches_by_time_end_before_a_later_span(tmp_path: Path) -> None:
    seconds = ["0", "3", "", "12", "9", "14", "20", "47", "48"]
    path = write(tmp_path, "a.csv", "s,i\n" + "".join(f"{s},{i}\n" for i, s in enumerate(seconds)))
    cut = {"batch_seconds": 10.0, "batch_size": None, "time": "s"}
    for block_bytes in (4, 2**20):
        source = Source(path, **cut, dialect=Dialect(block_bytes=block_bytes))  # type: ignore[arg-type]
        given = [(table["i"].values.tolist(), position) for table, position in source.tables()]
        assert [some for some, _ in given] == [[0, 1, 2], [3, 4, 5], [6], [7, 8]]
        for k, (_, position) in enumerate(given):
            rest = [table["i"].values.tolist() for table, _ in source.tables(position)]
            assert rest == [some for some, _ in given[k + 1 :]]
    both = Source(path, batch_seconds=10.0, batch_size=2, time="s")
    assert [table["i"].values.tolist() for table, _ in both.tables()] == [[0, 1], [2, 3], [4], [5], [6], [7, 8]]


def test_dates_cut_batches_too(tmp_path: Path) -> None:
    days = ["2007-01-01 10:00", "2007-01-01 23:00", "", "2007-01-03", "2007-01-03 12:00"]
    path = write(tmp_path, "a.csv", "t,i\n" + "".join(f"{d},{i}\n" for i, d in enumerate(days)))
    source = Source(path, batch_seconds=86_400, batch_size=None, time="t")
    assert [table["i"].values.tolist() for table, _ in source.tables()] == [[0, 1, 2], [3, 4]]
    source = Source(write(tmp_path, "b.csv", "t\nsoon\n"), batch_seconds=1, batch_size=None, time="t")
    with pytest.raises(OptionError, match="time is 't', a column of kind text"):
        everything(source)


# ---------------------------------------------------------------------------- growing files, standard input


def test_a_growing_file_is_followed_and_half_a_line_is_no_row(tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", "a,b\n1,x\n2,")
    parts: Iterator[str] = iter(["y", "\n3,", "z\n", "", "4,w\n5"])

    def grow() -> bool:
        part = next(parts, None)
        with path.open("a") as file:
            file.write(part or "")
        return part is not None

    source = Source(path, batch_size=2, follow=grow)
    given = [(rows(table), position) for table, position in source.tables()]
    assert [some for some, _ in given] == [[(1.0, "x"), (2.0, "y")], [(3.0, "z"), (4.0, "w")]]
    with path.open("a") as file:
        file.write(",v\n")
    assert everything(Source(path), given[-1][1]) == [(5.0, "v")]


@pytest.mark.parametrize("replace", [True, False])
def test_a_followed_file_that_is_cut_or_replaced_is_an_error(replace: bool, tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", "a\n1\n2\n")

    def spoil() -> bool:
        if replace:
            write(tmp_path, "b.csv", "a\n1\n2\n3\n").replace(path)
        else:
            path.write_text("a\n")
        return True

    with pytest.raises(SourceError, match="was cut or replaced"):
        everything(Source(path, follow=spoil))


def test_polling_ends_after_idle_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, "a.csv", "a\n1\n")
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 2:
            with path.open("a") as file:
                file.write("2\n")

    monkeypatch.setattr("time.sleep", sleep)
    assert everything(Source(path, follow=polling(2.0, idle_seconds=4.0))) == [(1.0,), (2.0,)]
    assert slept == [2.0] * 4


@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstd])
def test_standard_input_is_read_and_resumed(pack: Callable[[bytes], bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    data = pack(b"a\n" + b"".join(b"%d\n" % i for i in range(3000)))

    class Pipe:
        def __init__(self) -> None:
            self.buffer = io.BytesIO(data)

    monkeypatch.setattr(sys, "stdin", Pipe())
    dialect = Dialect(block_bytes=512, sample_rows=10)
    given = list(Source("-", dialect=dialect).tables())
    assert [row for table, _ in given for row in rows(table)] == [(float(i),) for i in range(3000)]
    for _, position in given:
        monkeypatch.setattr(sys, "stdin", Pipe())
        rest = everything(Source("-", dialect=dialect), position)
        assert rest == [(float(i),) for i in range(position["rows"], 3000)]
    data = data[: len(data) // 2] if pack is bytes else pack(b"a\n1\n")
    monkeypatch.setattr(sys, "stdin", Pipe())
    with pytest.raises(SourceError, match="standard input ends before byte"):
        everything(Source("-", dialect=dialect), given[-1][1])


# ---------------------------------------------------------------------------- options, positions, extras


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 0}, "batch_size is 0"),
        ({"batch_size": None}, "both None"),
        ({"batch_seconds": 5.0}, "give both or neither"),
        ({"batch_seconds": -5.0, "time": "a"}, "batch_seconds is -5.0"),
        ({"format": "xls"}, "format is 'xls'; choices: 'csv'"),
        ({"kinds": {"a": "colour"}}, "kinds is 'colour'"),
        ({"drop": "a"}, "give a list of names"),
        ({"on_bad_row": "warn"}, "on_bad_row is 'warn'"),
        ({"on_bad_row": -1}, "on_bad_row is -1"),
        ({"on_schema_change": "adapt"}, "on_schema_change is 'adapt'"),
        ({"dialect": Dialect(delimiter="ab")}, "delimiter is 'ab'"),
        ({"dialect": Dialect(encoding="utf-16")}, "encoding is 'utf-16'"),
        ({"dialect": Dialect(n_features=0)}, "n_features is 0"),
        ({"dialect": Dialect(decimal=";")}, "decimal is ';'; choices: '.', ','"),
        ({"dialect": Dialect(thousands=".")}, "thousands is '.'; give one character"),
        ({"dialect": Dialect(thousands="ab")}, "thousands is 'ab'"),
        ({"dialect": Dialect(date_formats="%Y")}, "date_formats is '%Y'; give a list"),
        ({"dialect": Dialect(date_formats=["%H:%M"])}, "date_formats='%H:%M' does not tell the year"),
        ({"dialect": Dialect(date_formats=["%Y %"])}, "date_formats='%Y %' cannot be read"),
        ({"format": "parquet", "follow": polling()}, "can neither be followed"),
    ],
)
def test_options_are_checked(options: dict[str, Any], message: str, tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", "a\n1\n")
    with pytest.raises(OptionError, match=message):
        everything(Source(path, **options))


@pytest.mark.parametrize("options", [{"drop": ["z"]}, {"kinds": {"z": "text"}}, {"time": "z", "batch_seconds": 1}])
def test_columns_that_are_not_there_are_named(options: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match="names 'z'; the columns are 'a'"):
        everything(Source(write(tmp_path, "a.csv", "a\n1\n"), **options))


def test_what_cannot_be_followed_or_told_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="follow is for one growing file"):
        everything(Source("-", follow=polling()))
    with pytest.raises(OptionError, match="is compressed and cannot be followed"):
        everything(Source(make_gzip(tmp_path), follow=polling()))
    with pytest.raises(OptionError, match="does not tell it"):
        everything(Source(write(tmp_path, "a.data", "a\n1\n")))
    assert everything(Source(tmp_path / "a.data", format="csv")) == [(1.0,)]
    with pytest.raises(SchemaError, match="no column is left"):
        everything(Source(write(tmp_path, "b.csv", "a\n1\n"), drop=["a"]))


@pytest.mark.parametrize(
    "change",
    [
        {"rows": "1"},
        {"offset": -1},
        {"columns": [["a", "colour"]]},
        {"columns": 5},
        {"file": 5},
        {"line": True},
        {"n_features": None},
    ],
)
def test_a_position_is_checked(change: dict[str, Any], tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", "a\n1\n2\n")
    _, position = next(Source(path, batch_size=1).tables())
    with pytest.raises(StateError, match="no position of a source"):
        everything(Source(path), {**position, **change})
    with pytest.raises(StateError, match="no position of a source"):
        everything(Source(path), {"rows": 1})


@pytest.mark.parametrize("make", [make_csv, make_gzip, make_parquet, make_feather])
def test_a_position_in_another_file_is_refused(make: Callable[[Path], Path], tmp_path: Path) -> None:
    path = make(tmp_path)
    *_, (_, position) = Source(path).tables()
    with pytest.raises(SourceError, match="ends before"):
        everything(Source(path), {**position, "offset": position["offset"] + 10})
    with pytest.raises(SourceError, match="not there any more"):
        everything(Source(path), {**position, "file": "b.csv"})


def test_without_pyarrow_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow.csv", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'driftsurf\[sources\]'"):
        everything(Source(write(tmp_path, "a.csv", "a\n1\n")))


# ---------------------------------------------------------------------------- fuzzing

SCRAPS = {
    ".csv": rb""", | ; | "" | " | 1 | -2.5 | 1e308 | 1e999 | inf | nan | x | true | 2007-01-01 | 99999999999999999""",
    ".jsonl": rb"""{ | } | "a" | : | , | 1 | -2.5 | 1e999 | null | true | "x" | [ | ] | NaN | {"a": 1} | {"b": true}""",
    ".arff": rb"""@attribute a numeric | @attribute b {x,y} | @data | , | 1 | ? | x | ' | " | { | } | % | \ | {0 5}""",
    ".svm": rb"""1 | -1 | 1:2 | 2:0.5 | 3:x | 9:1e999 | : | # | qid:1 | nan""",
}
ANYWHERE = [b"\n", b"\n", b"\r\n", b"\r", b"\0", b"\xff", b"\xc3\xa9", b" "]
HEADS = {".csv": b"a,b\n", ".jsonl": b"", ".arff": b"@attribute a numeric\n@attribute b {x,y}\n@data\n", ".svm": b""}


@pytest.mark.parametrize("ending", list(SCRAPS))
@settings(deadline=None, max_examples=150)
@given(data=st.data())
def test_an_accepted_row_is_sound_and_anything_else_a_typed_error(
    ending: str, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    scraps = data.draw(st.lists(st.sampled_from(SCRAPS[ending].split(b" | ") + ANYWHERE), max_size=60))
    head = HEADS[ending] if data.draw(st.booleans()) else b""
    path = write(tmp_path_factory.mktemp("fuzz"), "a" + ending, head + b"".join(scraps))

    def outcome(block_bytes: int) -> tuple[list[Row], list[str], str]:
        given: list[Row] = []
        bad: list[BadRow] = []
        dialect = Dialect(block_bytes=block_bytes, sample_rows=data_rows)
        source = Source(path, batch_size=3, on_bad_row="skip", sink=bad.append, dialect=dialect)
        try:
            for table, position in source.tables():
                assert list(table.columns) == [name for name, _ in position["columns"]]
                for name, kind in position["columns"]:
                    column = table[name]
                    assert column.kind == kind
                    assert kind not in ("number", "boolean") or not np.isinf(column.values).any()
                    assert kind != "text" or column.values.max(initial=-1) < len(column.words)
                if table.features is not None:
                    assert np.isfinite(table.features.data).all()
                    assert (table.features.indices < position["n_features"]).all()
                given += rows(table)
        except DriftsurfError as error:
            return given, [str(one) for one in bad], type(error).__name__
        return given, [str(one) for one in bad], ""

    data_rows = data.draw(st.integers(1, 5))
    assert outcome(2**20) == outcome(data.draw(st.integers(1, 9)))


def test_the_guide_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    guide = Path(__file__).parent.parent / "docs" / "sources.md"
    if not guide.exists():
        pytest.skip("the documents are not beside the tests")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", guide.read_text(encoding="utf-8"), re.DOTALL):
        exec(compile(block, str(guide), "exec"), names)
    assert names["error"] < 0.3


# ---------------------------------------------------------------------------- the same file again


@pytest.mark.parametrize("size", [40, 5_000])
def test_a_file_is_known_again_by_its_head_and_the_rows_before_the_place(size: int, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    lines = [f"{i},{i * 7 % 13}" for i in range(size)]

    def write(*rows: str, head: str = "a,b") -> None:
        path.write_text("\n".join([head, *rows]) + "\n")

    write(*lines)
    source = Source(path, batch_size=size // 4)
    places = [json.loads(json.dumps(position)) for _, position in source.tables()]
    write(*lines, *lines)  # it has grown
    for place in places:
        assert len(everything(source, place)) == 2 * size - place["rows"]
        assert next(source.tables(place))[1]["tail"]
    again = [position["tail"] for _, position in source.tables(places[0])]
    assert again[:3] == [place["tail"] for place in places[1:]]
    half = size // 2 - 1
    write(*lines[:half], lines[half][:-1] + "x", *lines[half + 1 :])
    with pytest.raises(SourceError, match=f"not the file that was being read.*before line {half + 3}"):
        everything(source, places[1])
    assert everything(Source(path, batch_size=4), {**places[1], "tail": ""}) == everything(
        Source(path, batch_size=9), {name: value for name, value in places[1].items() if name != "tail"}
    )
    write(*lines, head="b,a")
    with pytest.raises(SourceError, match="its head"):
        everything(source, places[1])
    write(*lines[: size // 8])
    for one in (source, Source(path, follow=lambda: False)):
        with pytest.raises(SourceError, match="ends before byte"):
            everything(one, places[1])
    with pytest.raises(StateError, match="no position of a source"):
        everything(source, {**places[1], "tail": 3})


def test_a_binary_file_is_known_again_by_its_columns_and_last_row(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"

    def write(values: list[float], kind: str = "float64") -> None:
        pyarrow.parquet.write_table(pyarrow.table({"a": pyarrow.array(values, pyarrow.type_for_alias(kind))}), path)

    write([1.0, 2.0, 3.0, 4.0])
    source = Source(path, batch_size=2)
    place = next(source.tables())[1]
    assert everything(source, place) == [(3.0,), (4.0,)]
    write([0.0, 2.0, 5.0, 6.0, 7.0])
    assert everything(source, place) == [(5.0,), (6.0,), (7.0,)]
    for values, kind in (([1.0, 9.0, 3.0], "float64"), ([1.0, 2.0, 3.0], "float32")):
        write(values, kind)
        with pytest.raises(SourceError, match="not the file that was being read"):
            everything(source, place)
