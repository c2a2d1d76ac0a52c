"""Positions are checked, and a changed file is recognised."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
from source_files import everything, make_csv, make_feather, make_gzip, make_parquet, write

from driftsurf.data import FileSource
from driftsurf.errors import RunWarning, SourceError, StateError


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
        {"earlier": "1"},
    ],
)
def test_a_position_is_checked(change: dict[str, Any], tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", "a\n1\n2\n")
    _, position = next(FileSource(path, batch_size=1).tables())
    with pytest.raises(StateError, match=r"tables\(\)"):
        everything(FileSource(path), {**position, **change})
    with pytest.raises(StateError, match=r"tables\(\)"):
        everything(FileSource(path), {"rows": 1})


@pytest.mark.parametrize("make", [make_csv, make_gzip, make_parquet, make_feather])
def test_a_position_in_another_file_is_refused(make: Callable[[Path], Path], tmp_path: Path) -> None:
    path = make(tmp_path)
    *_, (_, position) = FileSource(path).tables()
    beyond = position["offset"] + 10
    with pytest.raises(SourceError, match=f"{path.name}.* {beyond - (path.suffix in ('.parquet', '.arrow'))}"):
        everything(FileSource(path), {**position, "offset": beyond})
    with pytest.raises(SourceError, match=r"'b\.csv'"):
        everything(FileSource(path), {**position, "file": "b.csv"})


def test_positions_without_digests_differ_in_nothing_else(tmp_path: Path) -> None:
    path = make_csv(tmp_path)
    source = FileSource(path, batch_size=2)
    expected = [{**position, "tail": ""} for _, position in source.tables()]
    source.digests = False
    assert [position for _, position in source.tables()] == expected


@pytest.mark.parametrize("size", [40, 5_000])
def test_a_changed_file_is_recognised_by_its_head_and_the_rows_before_the_position(size: int, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    lines = [f"{i},{i * 7 % 13}" for i in range(size)]

    def write(*rows: str, head: str = "a,b") -> None:
        path.write_text("\n".join([head, *rows]) + "\n")

    write(*lines)
    source = FileSource(path, batch_size=size // 4)
    places = [json.loads(json.dumps(position)) for _, position in source.tables()]
    write(*lines, *lines)  # it has grown
    for place in places:
        assert len(everything(source, place)) == 2 * size - place["rows"]
        assert next(source.tables(place))[1]["tail"]
    again = [position["tail"] for _, position in source.tables(places[0])]
    assert again[:3] == [place["tail"] for place in places[1:]]
    half = size // 2 - 1
    write(*lines[:half], lines[half][:-1] + "x", *lines[half + 1 :])
    with pytest.raises(SourceError, match=f"a.csv.*line {half + 3}"):
        everything(source, places[1])
    without = {**places[1], "tail": ""}  # an empty tail is not compared
    assert everything(FileSource(path, batch_size=4), without) == everything(FileSource(path, batch_size=9), without)
    write(*lines, head="b,a")
    with pytest.raises(SourceError, match=r"a\.csv"):
        everything(source, places[1])
    write(*lines[: size // 8])
    for one in (source, FileSource(path, follow=lambda: False)):
        with pytest.raises(SourceError, match=str(places[1]["offset"])):
            everything(one, places[1])
    with pytest.raises(StateError, match="'tail': 3"):
        everything(source, {**places[1], "tail": 3})


def test_a_changed_binary_file_is_recognised_by_its_columns_and_last_row(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"

    def write(values: list[float], kind: str = "float64") -> None:
        pyarrow.parquet.write_table(pyarrow.table({"a": pyarrow.array(values, pyarrow.type_for_alias(kind))}), path)

    write([1.0, 2.0, 3.0, 4.0])
    source = FileSource(path, batch_size=2)
    place = next(source.tables())[1]
    assert everything(source, place) == [(3.0,), (4.0,)]
    write([0.0, 2.0, 5.0, 6.0, 7.0])
    assert everything(source, place) == [(5.0,), (6.0,), (7.0,)]
    for values, kind in (([1.0, 9.0, 3.0], "float64"), ([1.0, 2.0, 3.0], "float32")):
        write(values, kind)
        with pytest.raises(SourceError, match=re.escape(path.name)):
            everything(source, place)


def test_files_that_were_added_before_the_position_are_counted_in_a_warning(tmp_path: Path) -> None:
    for name in ("b.csv", "d.csv"):
        write(tmp_path, name, "a\n1\n2\n")
    *_, (_, position) = FileSource(tmp_path).tables()
    write(tmp_path, "e.csv", "a\n3\n")
    (tmp_path / "b.csv").unlink()
    source = FileSource(tmp_path)
    assert [len(table) for table, _ in source.tables(position)] == [1]
    for name in ("a.csv", "b.csv", "c.csv"):
        write(tmp_path, name, "a\n1\n")
    with pytest.warns(RunWarning, match=r"2 .*d\.csv"):
        (_, after), *_ = source.tables(position)
    assert list(source.tables(after)) == []
    assert [len(table) for table, _ in source.tables({**position, "earlier": None})] == [1]
