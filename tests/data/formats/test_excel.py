"""Excel files: kinds of cells, sheets, files without names, and damage."""

from __future__ import annotations

import datetime
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from source_files import everything, rows, write

from driftsurf.data import BadRow, FileSource, ReadingOptions
from driftsurf.data.advice import hints
from driftsurf.errors import MissingExtraError, OptionError, SourceError

openpyxl = pytest.importorskip("openpyxl", reason="openpyxl is not installed")

DAY = datetime.datetime(2007, 1, 31, 10, 30)


def workbook(folder: Path, sheets: dict[str, Sequence[Sequence[Any]]], name: str = "a.xlsx") -> Path:
    book = openpyxl.Workbook()
    book.remove(book.active)
    for title, lines in sheets.items():
        sheet = book.create_sheet(title)
        for line in lines:
            sheet.append(line)
    book.save(folder / name)
    return folder / name


def test_cells_have_the_kinds_of_excel_and_rows_resume(tmp_path: Path) -> None:
    lines: list[list[Any]] = [
        [],
        ["when", "n", "sold", "city"],
        [DAY, 1, True, " Rome "],
        [DAY.date(), 2.5, False, "?"],
    ]
    lines += [[], [None, "#DIV/0!", None, "Oslo"], [DAY, 7, True, "Oslo"]]
    path = workbook(tmp_path, {"data": lines})
    source = FileSource(path, batch_size=2)
    read = list(source.tables())
    expected: list[Any] = [(DAY, 1.0, 1.0, "Rome"), (DAY.replace(hour=0, minute=0), 2.5, 0.0, None)]
    expected += [(None, None, None, "Oslo"), (DAY, 7.0, 1.0, "Oslo")]
    assert [row for table, _ in read for row in rows(table)] == expected
    assert [kind for _, kind in read[0][1]["columns"]] == ["date", "number", "boolean", "text"]
    assert everything(source, read[0][1]) == expected[2:]


def test_a_bad_row_is_named_with_its_row_in_the_sheet(tmp_path: Path) -> None:
    path = workbook(tmp_path, {"data": [["n"], [1], [], ["x"], [3]]})
    bad: list[BadRow] = []
    reading = ReadingOptions(kinds={"n": "number"}, on_bad_row="skip")
    assert everything(FileSource(path, reading), on_skip=bad.append) == [(1.0,), (3.0,)]
    assert [(one.line, "'x'" in one.reason) for one in bad] == [(4, True)]


def test_the_first_sheet_is_read_unless_another_is_named(tmp_path: Path) -> None:
    path = workbook(tmp_path, {"one": [["a"], [1]], "two": [["b"], [2]]})
    source = FileSource(path)
    table, _ = next(source.tables())
    assert list(table.columns) == ["a"]
    assert "sheet='two'" in hints(source, table)[0]
    assert everything(FileSource(path, ReadingOptions(sheet="two"))) == [(2.0,)]
    with pytest.raises(OptionError, match=r"sheet is 'tow'; did you mean 'two'\?.*'one'"):
        everything(FileSource(path, ReadingOptions(sheet="tow")))


def test_a_sheet_without_names_gets_them(tmp_path: Path) -> None:
    path = workbook(tmp_path, {"one": [[1.5, 7], [2.5, 3]]})
    source = FileSource(path)
    table, _ = next(source.tables())
    assert (list(table.columns), rows(table)) == (["column_1", "column_2"], [(1.5, 7.0), (2.5, 3.0)])
    assert "header=True" in hints(source, table)[0]
    assert everything(FileSource(path, ReadingOptions(header=True))) == [(2.5, 3.0)]
    assert list(next(FileSource(path, ReadingOptions(names=["a", "b"])).tables())[0].columns) == ["a", "b"]


@pytest.mark.parametrize("data", [b"", b"PK\x03\x04 no", b"a,b\n1,2\n"])
def test_damaged_files_are_refused_by_name(data: bytes, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"a\.xlsx"):
        everything(FileSource(write(tmp_path, "a.xlsx", data)))


def test_a_missing_package_is_named_with_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = workbook(tmp_path, {"one": [["a"], [1]]})
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(MissingExtraError, match=r"driftsurf\[frames\]"):
        everything(FileSource(path))


@pytest.mark.parametrize(
    "sheet", ["<worksheet><sheetData><row r='1'><c", "<!DOCTYPE a [<!ENTITY b '1'>]><a>&c;</a>", ""]
)
def test_a_sheet_that_is_damaged_behind_an_intact_book_is_refused_by_name(sheet: str, tmp_path: Path) -> None:
    whole = workbook(tmp_path, {"one": [["a", "b"], [1, 2], [3, 4]]}, "whole.xlsx")
    with zipfile.ZipFile(whole) as old, zipfile.ZipFile(tmp_path / "a.xlsx", "w") as new:
        for name in old.namelist():
            new.writestr(name, sheet if name.endswith("sheet1.xml") else old.read(name))
    with pytest.raises(SourceError, match=r"a\.xlsx"):
        everything(FileSource(tmp_path / "a.xlsx"))


def test_a_sheet_whose_bytes_changed_is_refused_by_name(tmp_path: Path) -> None:
    whole = workbook(tmp_path, {"one": [["a", "b"], *([i, i * i] for i in range(500))]}, "whole.xlsx")
    with zipfile.ZipFile(whole) as book:
        place = book.getinfo("xl/worksheets/sheet1.xml").header_offset + 300
    data = bytearray(whole.read_bytes())
    data[place] ^= 255
    with pytest.raises(SourceError, match=r"a\.xlsx"):
        everything(FileSource(write(tmp_path, "a.xlsx", bytes(data))))
