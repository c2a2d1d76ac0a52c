"""CSV files: delimiters, quotes, numbers, dates, and bad rows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from source_files import everything, rows, write

from driftsurf.data import BadRow, FileSource, ReadingOptions
from driftsurf.errors import BadRowError, OptionError, SourceError

MIXED = 'when,price,city,sold\n2007-01-01 10:30,1.5,"Rome, Italy",true\n,,"two\nlines",false\n2007-01-02,-3,,\n'
MIXED_ROWS = [
    (np.datetime64("2007-01-01T10:30").item(), 1.5, "Rome, Italy", 1.0),
    (None, None, "two\nlines", 0.0),
    (np.datetime64("2007-01-02T00:00").item(), -3.0, None, None),
]


def test_columns_of_all_kinds_with_missing_values(tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", MIXED)
    table, position = next(FileSource(path).tables())
    assert rows(table) == MIXED_ROWS
    assert [kind for _, kind in position["columns"]] == ["date", "number", "text", "boolean"]


@pytest.mark.parametrize("text", [MIXED.replace("\n", "\r\n"), "\ufeff" + MIXED, MIXED.rstrip("\n"), "\n\n" + MIXED])
def test_line_ends_byte_order_marks_and_blank_lines_change_nothing(text: str, tmp_path: Path) -> None:
    expected = [
        tuple(c.replace("\n", "\r\n") if isinstance(c, str) and "\r" in text else c for c in r) for r in MIXED_ROWS
    ]
    assert everything(FileSource(write(tmp_path, "a.csv", text.encode()))) == expected


@pytest.mark.parametrize(("name", "delimiter"), [("a.csv", ";"), ("a.tsv", "\t"), ("a.txt", "|"), ("a.csv", ",")])
def test_the_delimiter_is_found(name: str, delimiter: str, tmp_path: Path) -> None:
    text = f'a{delimiter}"b,c"\n1{delimiter}x\n'
    table, _ = next(FileSource(write(tmp_path, name, text)).tables())
    assert list(table.columns) == ["a", "b,c"]
    assert rows(table) == [(1.0, "x")]


def test_names_replace_a_missing_header_and_empty_names_are_filled(tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", "1,2\n3,4\n")
    assert everything(FileSource(path, ReadingOptions(names=("a", "b")))) == [(1.0, 2.0), (3.0, 4.0)]
    table, _ = next(FileSource(write(tmp_path, "b.csv", ", b\n1,2\n")).tables())
    assert list(table.columns) == ["column_1", "b"]


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("1", "1 .*2"),
        ("1,2,3", "3 .*2"),
        ("oops,x", "'n'.*number.*'oops'"),
        ("inf,x", "'n'"),
        ("1e999,x", "'n'"),
        ("0x10,x", "'n'.*number.*'0x10'"),
        ('1,"x', "quote"),
        ('1,"x"y', "quote"),
        ("1,x\0y", "NUL"),
        (b"1,\xff\xfe", "UTF-8.*encoding='cp1252'"),
    ],
)
@pytest.mark.parametrize("at", [1, 500])
def test_bad_lines_are_named_and_skipped(line: str | bytes, named: str, at: int, tmp_path: Path) -> None:
    lines = [b"n,t"] + [f"{i},w".encode() for i in range(1500)]
    lines.insert(at, line.encode() if isinstance(line, str) else line)
    path = write(tmp_path, "a.csv", b"\n".join(lines))
    reading = ReadingOptions(encoding="utf-8")
    with pytest.raises(BadRowError, match=named) as error:
        everything(FileSource(path, reading))
    assert f"a.csv, line {at + 1}:" in str(error.value)
    skipping = replace(reading, on_bad_row="skip")
    assert everything(FileSource(path, skipping)) == [(float(i), "w") for i in range(1500)]
    assert len(everything(FileSource(path, replace(reading, on_bad_row=1)))) == 1500
    with pytest.raises(BadRowError, match=r"1 .*on_bad_row=0"):
        everything(FileSource(path, replace(reading, on_bad_row=0)))


def test_several_bad_cells_are_found_among_many_good_ones(tmp_path: Path) -> None:
    values = [str(i) for i in range(2000)]
    for place in (1003, 1004, 1500, 1999):
        values[place] = "bad"
    path = write(tmp_path, "a.csv", "n\n" + "\n".join(values))
    bad: list[BadRow] = []
    whole = everything(FileSource(path, ReadingOptions(on_bad_row="skip")), on_skip=bad.append)
    assert whole == [(float(i),) for i in range(2000) if values[i] != "bad"]
    assert [one.line for one in bad] == [1005, 1006, 1502, 2001]


def test_latin_1_is_read_when_asked_for(tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", "größe,n\nmäßig,1\n".encode("latin-1"))
    with pytest.raises(SourceError, match=r"utf-8.*encoding='cp1252'"):
        everything(FileSource(path, ReadingOptions(encoding="utf-8")))
    table, _ = next(FileSource(path, ReadingOptions(encoding="latin-1")).tables())
    assert list(table.columns) == ["größe", "n"]
    assert rows(table) == [("mäßig", 1.0)]


def test_kinds_can_be_given_and_long_whole_numbers_are_text(tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", "id,zip\n12345678901234567,01234\n12345678901234568,01235\n")
    assert everything(FileSource(path)) == [("12345678901234567", 1234.0), ("12345678901234568", 1235.0)]
    assert everything(FileSource(path, ReadingOptions(kinds={"zip": "text"}, drop=["id"]))) == [("01234",), ("01235",)]


def test_the_bad_column_is_found_among_many(tmp_path: Path) -> None:
    names = [f"c{i}" for i in range(13)]
    lines = [",".join(names)] + [",".join(["1"] * 13)] * 200
    for place in range(13):
        lines.append(",".join("x" if i == place else "2" for i in range(13)))
    bad: list[BadRow] = []
    path = write(tmp_path, "a.csv", "\n".join(lines))
    everything(FileSource(path, ReadingOptions(sample_rows=200, on_bad_row="skip")), on_skip=bad.append)
    assert all(f"'c{i}'" in one.reason and "'x'" in one.reason for i, one in enumerate(bad))
    assert len(bad) == 13


def test_dates_with_time_zones_and_in_other_formats(tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", "t,u\n2007-01-01T10:00:00+02:00,31/12/2006 08:00\n")
    table, _ = next(FileSource(path, ReadingOptions(date_formats=["%d/%m/%Y %H:%M"])).tables())
    assert table["t"].values.tolist() == [np.datetime64("2007-01-01T08:00").item()]
    assert table["u"].values.tolist() == [np.datetime64("2006-12-31T08:00").item()]
    path = write(tmp_path, "a.jsonl", '{"t": "0001-01-01T00:00:00+14:00"}\n{"t": "31/12/2006 08:00"}\n')
    reading = ReadingOptions(date_formats=["%Y", "%d/%m/%Y %H:%M"])
    day = np.datetime64("2006-12-31T08:00").item()
    assert everything(FileSource(path, replace(reading, kinds={"t": "date"}, on_bad_row="skip"))) == [(day,)]


@pytest.mark.parametrize("form", ["%d.%m", "%j", "%H:%M"])
def test_a_date_format_must_include_the_year(form: str) -> None:
    with pytest.raises(OptionError, match=f"{form}.*%d.%m.%Y"):
        ReadingOptions(date_formats=[form]).check()


@pytest.mark.parametrize("date_formats", [[], ["%d.%m.%Y"]])
@pytest.mark.parametrize("head", ["2007-02-28T10:00Z", "2007-02-28 10:00"])
def test_dates_with_and_without_a_time_zone_can_be_mixed(head: str, date_formats: list[str], tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", f"t\n{head}\n2007-02-28 11:00\nsoon\n2007-02-28T13:00+01:00\n")
    bad: list[BadRow] = []
    reading = ReadingOptions(sample_rows=1, date_formats=date_formats)
    read = everything(FileSource(path, replace(reading, on_bad_row="skip")), on_skip=bad.append)
    assert read == [(np.datetime64(f"2007-02-28T{hour}:00").item(),) for hour in (10, 11, 12)]
    assert [one.raw for one in bad] == ["soon"]


def test_date_formats_are_read_as_python_reads_them(tmp_path: Path) -> None:
    text = "t,n\n30.2.2007,1\n28.2.2007 10:20:30.5,2\n2007-03-01T00:00:00+01:00,3\n,4\n28.2.2007 10:20:30.5,5\n"
    path = write(tmp_path, "a.csv", text)
    bad: list[BadRow] = []
    reading = ReadingOptions(date_formats=["%d.%m.%Y", "%d.%m.%Y %H:%M:%S.%f"])
    source = FileSource(path, replace(reading, kinds={"t": "date"}, on_bad_row="skip"))
    moment = np.datetime64("2007-02-28T10:20:30.5").item()
    midnight = np.datetime64("2007-02-28T23:00").item()
    assert everything(source, on_skip=bad.append) == [(moment, 2.0), (midnight, 3.0), (None, 4.0), (moment, 5.0)]
    assert [one.line for one in bad] == [2]
    assert "'t'" in bad[0].reason
    assert "'30.2.2007'" in bad[0].reason
    assert "date_formats" in bad[0].reason


def test_decimal_commas_are_read_quoted_or_not(tmp_path: Path) -> None:
    reading = ReadingOptions(decimal=",")
    path = write(tmp_path, "a.csv", "n;m\n1,5;-2\n;,25\n7,;1,5e3\n")
    assert everything(FileSource(path, reading)) == [(1.5, -2.0), (None, 0.25), (7.0, 1500.0)]
    path = write(tmp_path, "b.csv", 'n,m\n"1,5",2\n"3,25",4\n')
    assert everything(FileSource(path, reading)) == [(1.5, 2.0), (3.25, 4.0)]
    path = write(tmp_path, "c.arff", "@relation r\n@attribute n numeric\n@data\n'1,5'\n")
    assert everything(FileSource(path, reading)) == [(1.5,)]


def test_groups_of_digits_are_read_with_the_option_thousands(tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", "n\n1,5\n1.234,5\n")
    plain = FileSource(path, ReadingOptions(delimiter=";", decimal=",", kinds={"n": "number"}))
    with pytest.raises(BadRowError, match=r"line 3: .*'1\.234,5'.*thousands='\.'"):
        everything(plain)
    grouped = ReadingOptions(delimiter=";", decimal=",", thousands=".")
    assert everything(FileSource(path, grouped)) == [(1.5,), (1234.5,)]
    path = write(tmp_path, "b.csv", "n\n1 234 567\n-1\u00a0234.5\n12 34\n12,345\nNA\n1e400\n")
    bad: list[BadRow] = []
    spaced = ReadingOptions(delimiter=";", thousands=" ", kinds={"n": "number"}, on_bad_row="skip")
    assert everything(FileSource(path, spaced), on_skip=bad.append) == [(1234567.0,), (-1234.5,), (None,)]
    assert [one.raw for one in bad] == ["12 34", "12,345", "1e400"]
    path = write(tmp_path, "c.csv", "n\n9.007.199.254.740.993\n9.007.199.254.740.995\n")
    assert everything(FileSource(path, grouped)) == [("9.007.199.254.740.993",), ("9.007.199.254.740.995",)]


def test_a_separator_line_of_excel_is_not_a_row(tmp_path: Path) -> None:
    for mark, name in ((b"", "a.csv"), (b"\xef\xbb\xbf", "b.csv")):
        path = write(tmp_path, name, mark + b"sep=;\r\nn;m,x\r\n1;2\r\n")
        (table, position), *rest = FileSource(path).tables()
        assert (list(table.columns), rows(table), rest) == (["n", "m,x"], [(1.0, 2.0)], [])
        assert (position["line"], list(FileSource(path).tables(position))) == (4, [])
    path = write(tmp_path, "c.csv", "sep=;\nn|m\n1|2\n")
    assert everything(FileSource(path, ReadingOptions(delimiter="|"))) == [(1.0, 2.0)]


def test_numbers_at_the_edge_of_float64_are_read_without_a_warning(tmp_path: Path) -> None:
    good = ["1.7e308", "-1.7e308"] * 5 + ["1e308"] * 7
    bad: list[BadRow] = []
    path = write(tmp_path, "a.csv", "n\n" + "\n".join(["1e400", "-1e400", *good]))
    assert everything(
        FileSource(path, ReadingOptions(kinds={"n": "number"}, on_bad_row="skip")), on_skip=bad.append
    ) == [(float(cell),) for cell in good]
    assert [one.line for one in bad] == [2, 3]


def test_a_header_alone_gives_no_rows_but_columns(tmp_path: Path) -> None:
    assert everything(FileSource(write(tmp_path, "a.csv", "a,b\n"))) == []
    with pytest.raises(SourceError, match=r"a\.jsonl"):
        everything(FileSource(write(tmp_path, "a.jsonl", "\n")))


def test_both_apostrophes_separate_groups_of_digits(tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", "n\n1'234.5\n3\u2019403.93\n")
    for mark in ("'", "\u2019"):
        assert everything(FileSource(path, ReadingOptions(thousands=mark))) == [(1234.5,), (3403.93,)]
    path = write(tmp_path, "b.csv", "n\n9\u2019007\u2019199\u2019254\u2019740\u2019993\n")
    assert isinstance(everything(FileSource(path, ReadingOptions(thousands="'")))[0][0], str)  # float64 would round it
