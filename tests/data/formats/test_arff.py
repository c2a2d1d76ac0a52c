"""ARFF files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from source_files import everything, rows, write

from driftsurf.data import FileSource, ReadingOptions
from driftsurf.errors import BadRowError


def test_arff_with_quotes_dates_and_sparse_rows(tmp_path: Path) -> None:
    text = """@RELATION 'a b'
@attribute 'my name' REAL
@attribute "it's" {red, 'dark blue', "it\\'s"}
@attribute when date "yyyy-MM-dd"
@attribute s string
@DATA
1.5, red, 2007-01-01, 'a, b'
?, 'dark blue', ?, "x\\"y"
{0 2, 2 2007-01-02}
{}
{1 'dark blue'}
"""
    table, _ = next(FileSource(write(tmp_path, "a.arff", text)).tables())
    assert list(table.columns) == ["my name", "it's", "when", "s"]
    day = np.datetime64("2007-01-01T00:00").item()
    assert rows(table) == [
        (1.5, "red", day, "a, b"),
        (None, "dark blue", None, 'x"y'),
        (2.0, "red", np.datetime64("2007-01-02T00:00").item(), None),
        (0.0, "red", None, None),
        (0.0, "dark blue", None, None),
    ]


def test_an_arff_header_may_be_long(tmp_path: Path) -> None:
    head = "".join(f"@attribute a{i} numeric\n" for i in range(300))
    path = write(tmp_path, "a.arff", head + "@data\n" + ",".join(["1"] * 300))
    assert everything(FileSource(path, ReadingOptions(block_bytes=50))) == [(1.0,) * 300]


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("green,1", "'green'.*'c'"),
        ("red", "1 .*2"),
        ("red,x", "'x'"),
        ("'red,1", "quote"),
        ("{0 red", "}"),
        ("{7 1}", "'7 1'"),
        ("{1 1 , 0 'red}", "0 'red"),
        (b"red,\xff", "utf-8"),
    ],
)
def test_bad_arff_rows(line: str | bytes, named: str, tmp_path: Path) -> None:
    head = b"@attribute c {red,blue}\n@attribute n numeric\n@data\n"
    path = write(tmp_path, "a.arff", head + (line.encode() if isinstance(line, str) else line) + b"\nred,1\n")
    with pytest.raises(BadRowError, match=f"line 4: .*{named}"):
        everything(FileSource(path))
    assert everything(FileSource(path, ReadingOptions(on_bad_row="skip"))) == [("red", 1.0)]
