"""Readers of single files: what is in them, and what is wrong with them."""

from __future__ import annotations

import gzip
import json
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from driftsurf.errors import (
    BadRowError,
    OptionError,
    SchemaError,
    SourceError,
    ValueTypeError,
)
from driftsurf.sources import BadRow, Dialect, Source, _base
from source_files import (
    everything,
    make_parquet,
    rows,
    write,
    zstd,
)

MIXED = 'when,price,city,sold\n2007-01-01 10:30,1.5,"Rome, Italy",true\n,,"two\nlines",false\n2007-01-02,-3,,\n'
MIXED_ROWS = [
    (np.datetime64("2007-01-01T10:30").item(), 1.5, "Rome, Italy", 1.0),
    (None, None, "two\nlines", 0.0),
    (np.datetime64("2007-01-02T00:00").item(), -3.0, None, None),
]


# ---------------------------------------------------------------------------- delimited text


def test_columns_of_all_kinds_with_gaps(tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", MIXED)
    table, position = next(Source(path).tables())
    assert rows(table) == MIXED_ROWS
    assert [kind for _, kind in position["columns"]] == ["date", "number", "text", "boolean"]


@pytest.mark.parametrize("text", [MIXED.replace("\n", "\r\n"), "\ufeff" + MIXED, MIXED.rstrip("\n"), "\n\n" + MIXED])
def test_line_ends_byte_order_marks_and_blank_lines_change_nothing(text: str, tmp_path: Path) -> None:
    expected = [
        tuple(c.replace("\n", "\r\n") if isinstance(c, str) and "\r" in text else c for c in r) for r in MIXED_ROWS
    ]
    assert everything(Source(write(tmp_path, "a.csv", text.encode()))) == expected


@pytest.mark.parametrize(("name", "delimiter"), [("a.csv", ";"), ("a.tsv", "\t"), ("a.txt", "|"), ("a.csv", ",")])
def test_the_delimiter_is_found(name: str, delimiter: str, tmp_path: Path) -> None:
    text = f'a{delimiter}"b,c"\n1{delimiter}x\n'
    table, _ = next(Source(write(tmp_path, name, text)).tables())
    assert list(table.columns) == ["a", "b,c"]
    assert rows(table) == [(1.0, "x")]


def test_names_stand_for_a_missing_header_and_empty_names_are_filled(tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", "1,2\n3,4\n")
    assert everything(Source(path, dialect=Dialect(names=("a", "b")))) == [(1.0, 2.0), (3.0, 4.0)]
    table, _ = next(Source(write(tmp_path, "b.csv", ", b\n1,2\n")).tables())
    assert list(table.columns) == ["column_1", "b"]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("1", "it has 1 cells, where 2 are expected"),
        ("1,2,3", "it has 3 cells"),
        ("oops,x", "column 'n' is a number, and 'oops' is none"),
        ("inf,x", "infinite or too large"),
        ("1e999,x", "infinite or too large"),
        ("0x10,x", "is a number"),
        ('1,"x', "not closed"),
        ('1,"x"y', "follows a closing quote"),
        ("1,x\0y", "NUL"),
        (b"1,\xff\xfe", "UTF-8"),
    ],
)
@pytest.mark.parametrize("at", [1, 500])
def test_bad_lines_are_named_and_skipped(line: str | bytes, reason: str, at: int, tmp_path: Path) -> None:
    lines = [b"n,t"] + [f"{i},w".encode() for i in range(1500)]
    lines.insert(at, line.encode() if isinstance(line, str) else line)
    path = write(tmp_path, "a.csv", b"\n".join(lines))
    with pytest.raises(BadRowError, match=reason) as error:
        everything(Source(path))
    assert f"a.csv, line {at + 1}:" in str(error.value)
    assert everything(Source(path, on_bad_row="skip")) == [(float(i), "w") for i in range(1500)]
    assert len(everything(Source(path, on_bad_row=1))) == 1500
    with pytest.raises(BadRowError, match="more than on_bad_row=0"):
        everything(Source(path, on_bad_row=0))


def test_several_bad_cells_are_found_among_many_good_ones(tmp_path: Path) -> None:
    values = [str(i) for i in range(2000)]
    for place in (1003, 1004, 1500, 1999):
        values[place] = "bad"
    path = write(tmp_path, "a.csv", "n\n" + "\n".join(values))
    bad: list[BadRow] = []
    whole = everything(Source(path, on_bad_row="skip", sink=bad.append))
    assert whole == [(float(i),) for i in range(2000) if values[i] != "bad"]
    assert [one.line for one in bad] == [1005, 1006, 1502, 2001]


def test_latin_1_is_read_when_asked_for(tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", "größe,n\nmäßig,1\n".encode("latin-1"))
    with pytest.raises(SourceError, match="the header is not in utf-8"):
        everything(Source(path))
    table, _ = next(Source(path, dialect=Dialect(encoding="latin-1")).tables())
    assert list(table.columns) == ["größe", "n"]
    assert rows(table) == [("mäßig", 1.0)]


def test_kinds_can_be_given_and_long_numbers_are_names(tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", "id,zip\n12345678901234567,01234\n12345678901234568,01235\n")
    assert everything(Source(path)) == [("12345678901234567", 1234.0), ("12345678901234568", 1235.0)]
    assert everything(Source(path, kinds={"zip": "text"}, drop=["id"])) == [("01234",), ("01235",)]


def test_the_bad_column_is_found_among_many(tmp_path: Path) -> None:
    names = [f"c{i}" for i in range(13)]
    lines = [",".join(names)] + [",".join(["1"] * 13)] * 200
    for place in range(13):
        lines.append(",".join("x" if i == place else "2" for i in range(13)))
    bad: list[BadRow] = []
    path = write(tmp_path, "a.csv", "\n".join(lines))
    everything(Source(path, on_bad_row="skip", sink=bad.append, dialect=Dialect(sample_rows=200)))
    assert [one.reason for one in bad] == [f"column 'c{i}' is a number, and 'x' is none" for i in range(13)]


def test_dates_with_zones_and_in_other_forms(tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", "t,u\n2007-01-01T10:00:00+02:00,31/12/2006 08:00\n")
    table, _ = next(Source(path, dialect=Dialect(date_formats=["%d/%m/%Y %H:%M"])).tables())
    assert table["t"].values.tolist() == [np.datetime64("2007-01-01T08:00").item()]
    assert table["u"].values.tolist() == [np.datetime64("2006-12-31T08:00").item()]
    path = write(tmp_path, "a.jsonl", '{"t": "0001-01-01T00:00:00+14:00"}\n{"t": "31/12/2006 08:00"}\n')
    dialect = Dialect(date_formats=["%Y", "%d/%m/%Y %H:%M"])
    day = np.datetime64("2006-12-31T08:00").item()
    assert everything(Source(path, kinds={"t": "date"}, on_bad_row="skip", dialect=dialect)) == [(day,)]


@pytest.mark.parametrize("form", ["%d.%m", "%j", "%H:%M"])
def test_a_form_of_dates_has_to_tell_the_year(form: str) -> None:
    with pytest.raises(OptionError, match="does not tell the year; give a year at least"):
        Dialect(date_formats=[form]).check()


@pytest.mark.parametrize("date_formats", [[], ["%d.%m.%Y"]])
@pytest.mark.parametrize("head", ["2007-02-28T10:00Z", "2007-02-28 10:00"])
def test_a_date_without_a_zone_is_one_beside_those_that_have_one(
    head: str, date_formats: list[str], tmp_path: Path
) -> None:
    path = write(tmp_path, "a.csv", f"t\n{head}\n2007-02-28 11:00\nsoon\n2007-02-28T13:00+01:00\n")
    bad: list[BadRow] = []
    dialect = Dialect(sample_rows=1, date_formats=date_formats)
    read = everything(Source(path, dialect=dialect, on_bad_row="skip", sink=bad.append))
    assert read == [(np.datetime64(f"2007-02-28T{hour}:00").item(),) for hour in (10, 11, 12)]
    assert [one.raw for one in bad] == ["soon"]


def test_dates_in_other_forms_are_read_as_python_reads_them(tmp_path: Path) -> None:
    text = "t,n\n30.2.2007,1\n28.2.2007 10:20:30.5,2\n2007-03-01T00:00:00+01:00,3\n,4\n28.2.2007 10:20:30.5,5\n"
    path = write(tmp_path, "a.csv", text)
    bad: list[BadRow] = []
    dialect = Dialect(date_formats=["%d.%m.%Y", "%d.%m.%Y %H:%M:%S.%f"])
    source = Source(path, kinds={"t": "date"}, dialect=dialect, on_bad_row="skip", sink=bad.append)
    moment = np.datetime64("2007-02-28T10:20:30.5").item()
    midnight = np.datetime64("2007-02-28T23:00").item()
    assert everything(source) == [(moment, 2.0), (midnight, 3.0), (None, 4.0), (moment, 5.0)]
    assert [(one.line, one.reason) for one in bad] == [
        (2, "column 't' is a date, and '30.2.2007' is none (beside ISO 8601 those are read that date_formats tells of)")
    ]


def test_decimal_commas_are_read_quoted_or_not(tmp_path: Path) -> None:
    dialect = Dialect(decimal=",")
    path = write(tmp_path, "a.csv", "n;m\n1,5;-2\n;,25\n7,;1,5e3\n")
    assert everything(Source(path, dialect=dialect)) == [(1.5, -2.0), (None, 0.25), (7.0, 1500.0)]
    path = write(tmp_path, "b.csv", 'n,m\n"1,5",2\n"3,25",4\n')
    assert everything(Source(path, dialect=dialect)) == [(1.5, 2.0), (3.25, 4.0)]
    path = write(tmp_path, "c.arff", "@relation r\n@attribute n numeric\n@data\n'1,5'\n")
    assert everything(Source(path, dialect=dialect)) == [(1.5,)]


def test_groups_of_digits_are_refused_with_the_remedy_or_read(tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", "n\n1,5\n1.234,5\n")
    plain = Source(path, kinds={"n": "number"}, dialect=Dialect(delimiter=";", decimal=","))
    with pytest.raises(BadRowError, match=r"line 3: .* and '1.234,5' is none \(try thousands='.'\)"):
        everything(plain)
    grouped = Dialect(delimiter=";", decimal=",", thousands=".")
    assert everything(Source(path, dialect=grouped)) == [(1.5,), (1234.5,)]
    path = write(tmp_path, "b.csv", "n\n1 234 567\n-1\u00a0234.5\n12 34\n12,345\nNA\n1e400\n")
    bad: list[BadRow] = []
    spaced = Source(
        path,
        kinds={"n": "number"},
        dialect=Dialect(delimiter=";", thousands=" "),
        on_bad_row="skip",
        sink=bad.append,
    )
    assert everything(spaced) == [(1234567.0,), (-1234.5,), (None,)]
    assert [one.raw for one in bad] == ["12 34", "12,345", "1e400"]
    path = write(tmp_path, "c.csv", "n\n9.007.199.254.740.993\n9.007.199.254.740.995\n")
    assert everything(Source(path, dialect=grouped)) == [("9.007.199.254.740.993",), ("9.007.199.254.740.995",)]


def test_the_line_that_tells_excel_its_separator_is_no_row(tmp_path: Path) -> None:
    for mark, name in ((b"", "a.csv"), (b"\xef\xbb\xbf", "b.csv")):
        path = write(tmp_path, name, mark + b"sep=;\r\nn;m,x\r\n1;2\r\n")
        (table, position), *rest = Source(path).tables()
        assert (list(table.columns), rows(table), rest) == (["n", "m,x"], [(1.0, 2.0)], [])
        assert (position["line"], list(Source(path).tables(position))) == (4, [])
    path = write(tmp_path, "c.csv", "sep=;\nn|m\n1|2\n")
    assert everything(Source(path, dialect=Dialect(delimiter="|"))) == [(1.0, 2.0)]


def test_numbers_at_the_edge_of_float64_are_read_without_a_warning(tmp_path: Path) -> None:
    good = ["1.7e308", "-1.7e308"] * 5 + ["1e308"] * 7
    bad: list[BadRow] = []
    path = write(tmp_path, "a.csv", "n\n" + "\n".join(["1e400", "-1e400", *good]))
    assert everything(Source(path, kinds={"n": "number"}, on_bad_row="skip", sink=bad.append)) == [
        (float(cell),) for cell in good
    ]
    assert [one.line for one in bad] == [2, 3]


@pytest.mark.parametrize(
    ("name", "data", "error"),
    [
        ("a.csv", b"", "is empty"),
        ("a.csv", b"\n\n", "is empty"),
        ("a.csv", b'a,"b\n', "in the header"),
        ("a.csv", b"a," + b"b" * 200_000 + b"\n", "the header cannot be read"),
        ("a.csv", "a,b\n1,2\n".encode("utf-16"), "UTF-16"),
        ("a.csv", b"a,a\n1,2\n", "stands more than once"),
        ("a.csv", b"a\n" + b"x" * (_base.RECORD_LIMIT + 10), "longer than"),
        ("a.csv.gz", gzip.compress(b"a,b\n" + b"1,2\n" * 50_000, mtime=0)[:-20], "cut off"),
        ("a.csv.gz", b"a,b\n1,2\n", "not compressed as its ending says"),
        ("a.csv.gz", gzip.compress(b"a,b\n1,2\n", mtime=0)[:-8] + b"12345678", "cannot be read"),
        ("a.csv.zst", zstd(b"a,b\n" + b"1,2\n" * 50_000)[:-5], "cannot be read"),
        ("a.csv.zst", b"", "not compressed as its ending says, or is empty"),
        ("a.parquet", b"PAR1 no", "damaged"),
        ("a.arrow", b"ARROW1 no", "damaged"),
        ("a.feather", b"", "damaged"),
        ("a.arff", b"@relation r\n@attribute a numeric\n", "no @data line"),
        ("a.arff", b"@relation r\n@data\n1\n", "no @attribute"),
        ("a.arff", b"@attribute a colour\n@data\n1\n", "has the type 'colour'"),
        ("a.arff", b"@attribute 'a\n@data\n1\n", "is no attribute"),
        ("a.arff", b"@attribute a real\n@attribute a real\n@data\n1\n", "more than once"),
    ],
)
def test_files_that_are_not_what_they_seem(name: str, data: bytes, error: str, tmp_path: Path) -> None:
    path = write(tmp_path, name, data)
    with pytest.raises((SourceError, SchemaError), match=error):
        everything(Source(path, on_bad_row="skip"))


def test_a_header_alone_gives_no_rows_but_columns(tmp_path: Path) -> None:
    assert everything(Source(write(tmp_path, "a.csv", "a,b\n"))) == []
    with pytest.raises(SourceError, match="is empty: there is no row"):
        everything(Source(write(tmp_path, "a.jsonl", "\n")))


@pytest.mark.parametrize("cut", [100, 400])
def test_a_parquet_file_that_is_cut_off(cut: int, tmp_path: Path) -> None:
    path = make_parquet(tmp_path)
    path.write_bytes(path.read_bytes()[:-cut])
    with pytest.raises(SourceError, match="damaged, cut off"):
        everything(Source(path))


def test_whole_batches_before_the_damage_are_given(tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", b"a\n" + b"1\n" * 2500 + b"x" * (_base.RECORD_LIMIT + 10))
    for block_bytes in (2**16, 2**23):
        tables = Source(path, dialect=Dialect(block_bytes=block_bytes)).tables()
        assert [len(table) for table, _ in islice(tables, 2)] == [1000, 1000]
        with pytest.raises(SourceError, match="line 2502: it is longer than"):
            next(tables)


def test_gzip_members_one_after_the_other_and_filled_with_zeros(tmp_path: Path) -> None:
    data = gzip.compress(b"a\n1\n", mtime=0) + gzip.compress(b"2\n3\n", mtime=0) + b"\0" * 100
    path = write(tmp_path, "a.csv.gz", data)
    for block_bytes in (1, 2**20):
        assert everything(Source(path, dialect=Dialect(block_bytes=block_bytes))) == [(1.0,), (2.0,), (3.0,)]


# ---------------------------------------------------------------------------- other text


def test_json_lines_say_what_is_wrong(tmp_path: Path) -> None:
    good = [{"n": i, "t": f"w{i}", "d": "2007-01-01", "b": True} for i in range(400)]
    lines = [json.dumps(row) for row in good]
    wrong = {
        '{"n": 1': "Expecting",
        '{"n": NaN}': "NaN is no JSON",
        '{"n": 1e999}': "too large",
        f'{{"n": {"9" * 400}}}': "too large",
        '{"n": "x"}': "'x' is no number",
        '{"n": true}': "is no number",
        '{"b": 1}': "is no boolean",
        '{"d": "soon"}': "is no date",
        '{"d": "2007-02-31"}': "day",
        '{"t": [1]}': "is no text",
        "[1]": "it holds list",
        f'{{"t": {"[" * 100_000}1{"]" * 100_000}}}': "nested too deeply",
    }
    path = write(tmp_path, "a.jsonl", "\n".join(lines + list(wrong) + ['{"t": 5, "n": null}', "  "]))
    bad: list[BadRow] = []
    whole = everything(Source(path, on_bad_row="skip", sink=bad.append, dialect=Dialect(sample_rows=400)))
    assert len(whole) == 401
    assert whole[-1] == (None, "5", None, None)
    for one, reason in zip(bad, wrong.values(), strict=True):
        assert reason in one.reason


def test_json_text_is_numbers_and_gaps_where_the_dialect_says_so(tmp_path: Path) -> None:
    lines = ['{"n": "1.234,5", "t": "a"}', '{"n": 2.5, "t": "n.v."}', '{"n": "NA", "t": null}', '{"n": "x", "t": "b"}']
    path = write(tmp_path, "a.jsonl", "\n".join(lines))
    bad: list[BadRow] = []
    said = Dialect(decimal=",", thousands=".", missing=[*_base.MISSING, "n.v."], sample_rows=3)
    assert everything(Source(path, dialect=said, on_bad_row="skip", sink=bad.append)) == [
        (1234.5, "a"),
        (2.5, None),
        (None, None),
    ]
    assert [one.reason for one in bad] == ["'x' is no number"]
    unsaid = [("1.234,5", "a"), ("2.5", "n.v."), (None, None), ("x", "b")]
    assert everything(Source(path)) == unsaid


def test_either_apostrophe_stands_between_groups_of_digits(tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", "n\n1'234.5\n3\u2019403.93\n")
    for mark in ("'", "\u2019"):
        assert everything(Source(path, dialect=Dialect(thousands=mark))) == [(1234.5,), (3403.93,)]
    path = write(tmp_path, "b.csv", "n\n9\u2019007\u2019199\u2019254\u2019740\u2019993\n")
    assert isinstance(everything(Source(path, dialect=Dialect(thousands="'")))[0][0], str)  # float64 would round it


def test_json_lines_with_objects_inside_need_dropping(tmp_path: Path) -> None:
    path = write(tmp_path, "a.jsonl", '{"a": 1, "b": {"c": 2}}\n{"a": 2, "id": 99999999999999999}\n')
    with pytest.raises(SchemaError, match="'b' holds lists, objects"):
        everything(Source(path))
    assert everything(Source(path, drop=["b"])) == [(1.0, None), (2.0, "99999999999999999")]


def test_json_keys_that_come_later_are_added_columns(tmp_path: Path) -> None:
    path = write(tmp_path, "a.jsonl", '{"a": 1}\n' * 10 + '{"a": 2, "z": 1}\n{"a": 3}\n')
    source = Source(path, batch_size=3, dialect=Dialect(sample_rows=5))
    tables = source.tables()
    assert [len(table) for table, _ in islice(tables, 3)] == [3, 3, 3]
    with pytest.raises(SchemaError, match="added column 'z'"):
        next(tables)
    source.on_schema_change = "ignore-added"
    assert len(everything(source)) == 12


def test_arff_in_all_its_forms(tmp_path: Path) -> None:
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
    table, _ = next(Source(write(tmp_path, "a.arff", text)).tables())
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
    assert everything(Source(path, dialect=Dialect(block_bytes=50))) == [(1.0,) * 300]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("green,1", "not one of the values"),
        ("red", "it has 1 cells"),
        ("red,x", "is no number"),
        ("'red,1", "quotes are not in order"),
        ("{0 red", "ends with }"),
        ("{7 1}", "is no index and value"),
        ("{1 1 , 0 'red}", "is no index and value"),
        (b"red,\xff", "not in utf-8"),
    ],
)
def test_bad_arff_rows(line: str | bytes, reason: str, tmp_path: Path) -> None:
    head = b"@attribute c {red,blue}\n@attribute n numeric\n@data\n"
    path = write(tmp_path, "a.arff", head + (line.encode() if isinstance(line, str) else line) + b"\nred,1\n")
    with pytest.raises(BadRowError, match=reason):
        everything(Source(path))
    assert everything(Source(path, on_bad_row="skip")) == [("red", 1.0)]


@pytest.mark.parametrize(
    "line",
    ["x 1:2", "1 1:2 1:3", "1 0:2", "1 1:nan", "1 1:1_0", "1 1:2:3", "1,2 1:2", "1 -1:2", "1 99999999999:1", "nan 1:1"],
)
def test_bad_libsvm_rows(line: str, tmp_path: Path) -> None:
    path = write(tmp_path, "a.svm", f"# remark\n{line}\n-1 qid:3 2:0.5\n\n1\n")
    with pytest.raises(BadRowError, match=r"a\.svm, line 2"):
        everything(Source(path, dialect=Dialect(n_features=5)))
    whole = everything(Source(path, on_bad_row="skip", dialect=Dialect(n_features=5)))
    assert whole == [(-1.0, ((1, 0.5),)), (1.0, ())]


def test_libsvm_columns_beyond_the_width_are_added(tmp_path: Path) -> None:
    path = write(tmp_path, "a.svm", "1 1:1\n0 2:1 7:1\n")
    dialect = Dialect(sample_rows=1)
    with pytest.raises(SchemaError, match="added column 7"):
        everything(Source(path, dialect=dialect))
    assert everything(Source(path, dialect=dialect, on_schema_change="ignore-added")) == [(1.0, ((0, 1.0),)), (0.0, ())]
    zero = Dialect(zero_based=True)
    assert everything(Source(path, dialect=zero, drop=["label"])) == [(((1, 1.0),),), (((2, 1.0), (7, 1.0)),)]


# ---------------------------------------------------------------------------- columnar files


def test_typed_columns_of_every_kind(tmp_path: Path) -> None:
    import datetime

    table = pa.table(
        {
            "decimal": pa.array([1, None], pa.decimal128(10, 2)),
            "category": pa.array(["a", None]).dictionary_encode(),
            "codes": pa.array([3, 4]).dictionary_encode(),
            "day": pa.array([datetime.date(2007, 1, 1), None]),
            "moment": pa.array([10**9, None], pa.timestamp("ns", "Europe/Rome")),
            "span": pa.array([1500, None], pa.duration("ms")),
            "clock": pa.array([60, None], pa.time32("s")),
            "nothing": pa.nulls(2),
            "flag": pa.array([True, None]),
        }
    )
    pa.parquet.write_table(table, tmp_path / "a.parquet")
    given, _ = next(Source(tmp_path / "a.parquet").tables())
    first, second = rows(given)
    day = np.datetime64("2007-01-01T00:00").item()
    assert first == (1.0, "a", 3.0, day, np.datetime64("1970-01-01T00:00:01").item(), 1.5, 60.0, None, 1.0)
    assert second == (None, None, 4.0, None, None, None, None, None, None)


def test_infinite_numbers_in_typed_files_are_bad_rows(tmp_path: Path) -> None:
    pa.parquet.write_table(pa.table({"a": [1.0, np.inf, np.nan, 2.0]}), tmp_path / "a.parquet")
    with pytest.raises(BadRowError, match="line 2: the number in column 'a' is infinite"):
        everything(Source(tmp_path / "a.parquet"))
    assert everything(Source(tmp_path / "a.parquet", on_bad_row="skip")) == [(1.0,), (None,), (2.0,)]


def test_typed_columns_that_are_no_values_are_named(tmp_path: Path) -> None:
    pa.parquet.write_table(pa.table({"a": [1, 2], "b": [[1], [2]]}), tmp_path / "a.parquet")
    with pytest.raises(SchemaError, match="'b' holds lists"):
        everything(Source(tmp_path / "a.parquet"))
    assert everything(Source(tmp_path / "a.parquet", drop=["b"], kinds={"a": "text"})) == [("1",), ("2",)]


def test_dates_out_of_range_are_named(tmp_path: Path) -> None:
    pa.parquet.write_table(pa.table({"a": pa.array([2**62], pa.timestamp("ms"))}), tmp_path / "a.parquet")
    with pytest.raises(ValueTypeError, match="'a' of type timestamp"):
        everything(Source(tmp_path / "a.parquet"))
