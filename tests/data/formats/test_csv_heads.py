"""What stands before the rows of CSV files: names or none, comments, byte order marks; and how the text is encoded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from source_files import everything, rows, write

from driftsurf.data import FileSource, ReadingOptions
from driftsurf.data.advice import hints
from driftsurf.errors import BadRowError, OptionError

CENSUS = (
    '39, State-gov, 77516, <=50K\n50, Self-emp, 83311, <=50K\n38, ?, 215646, >50K\n28,State-gov  ,\t338409," >50K "\n'
)
CENSUS_ROWS = [
    (39.0, "State-gov", 77516.0, "<=50K"),
    (50.0, "Self-emp", 83311.0, "<=50K"),
    (38.0, None, 215646.0, ">50K"),
    (28.0, "State-gov", 338409.0, ">50K"),
]


def opened(path: Path, **options: Any) -> tuple[list[str], list[Any], list[str]]:
    """Return the names of columns, the rows, and what a user is told."""
    source = FileSource(path, ReadingOptions(**options))
    (table, _), *rest = source.tables()
    assert not rest
    return list(table.columns), rows(table), [str(one) for one in hints(source, table)]


def test_padded_cells_are_trimmed_and_a_file_without_names_is_recognised(tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", CENSUS)
    names, read, told = opened(path)
    assert names == ["column_1", "column_2", "column_3", "column_4"]
    assert read == CENSUS_ROWS
    assert "'column_1' to 'column_4'" in told[0]
    assert "names" in told[0]
    assert "header=True" in told[0]
    assert opened(path, names=["age", "work", "weight", "income"])[1:] == (CENSUS_ROWS, [])
    assert opened(path, header=False)[1:] == (CENSUS_ROWS, [])
    assert opened(path, header=True)[0] == ["39", "State-gov", "77516", "<=50K"]


def test_padding_is_removed_in_every_format(tmp_path: Path) -> None:
    csv = write(tmp_path, "a.csv", 'n , t,b\n 1.5 ," yes ", true\n  ,\t?,\n   \n2," a ""b"" ",false  \n')
    read = [(1.5, "yes", 1.0), (None, None, None), (2.0, 'a "b"', 0.0)]
    assert opened(csv)[:2] == (["n", "t", "b"], read)
    lines = [{"n": 1.5, "t": " yes ", "b": True}, {"n": None, "t": " ? ", "b": None}]
    assert everything(FileSource(write(tmp_path, "a.jsonl", "\n".join(map(json.dumps, lines))))) == read[:2]
    arff = "@relation r\n@attribute n numeric\n@attribute t string\n@data\n 1.5 , yes \n"
    assert everything(FileSource(write(tmp_path, "a.arff", arff))) == [(1.5, "yes")]
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"t": ["yes ", " yes", None]}), tmp_path / "a.parquet")
    assert everything(FileSource(tmp_path / "a.parquet")) == [("yes",), ("yes",), (None,)]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("0,1,2\n5.1,3.5,1.4\n4.9,3,1.4\n", ["0", "1", "2"]),  # as pandas writes an array
        (",0,1\n0,5.1,3.5\n1,4.9,3\n", ["column_1", "0", "1"]),
        ("city,2018,2020,2022\nRome,1,2,3\nOslo,2,3,4\n", ["city", "2018", "2020", "2022"]),
        ("city,2019\nRome,5\nOslo,7\n", ["city", "2019"]),
        ("city,kind\nRome,a\nOslo,b\n", ["city", "kind"]),
        ("a,b\n1,2\n", ["a", "b"]),
        ("p,x,?\ne,y,s\np,x,s\ne,y,t\np,x,s\n", ["column_1", "column_2", "column_3"]),
        ("5\n3\n8\n", ["column_1"]),
        ("2007-01-02,true\n2007-01-03,false\n", ["column_1", "column_2"]),
        ("Rome,5\nOslo,7\nRome,2\nOslo,9\nRome,4\n", ["column_1", "column_2"]),
    ],
)
def test_a_first_line_of_names_is_told_from_a_row(text: str, names: list[str], tmp_path: Path) -> None:
    found, read, _ = opened(write(tmp_path, "a.csv", text))
    assert found == names
    assert len(read) == text.count("\n") - (names[0] != "column_1" or "0" in names)


def test_an_option_that_names_a_number_makes_the_first_line_names(tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", "7,3,5\n1,2,3\n")
    assert opened(path, drop=["3"])[0] == ["7", "5"]


def test_later_files_have_a_header_line_if_the_first_has_one(tmp_path: Path) -> None:
    write(tmp_path, "a.csv", "3,1,x\n2,4,y\n")
    write(tmp_path, "b.csv", "1,2,z\n")  # on its own, these would be names
    source = FileSource(tmp_path, batch_size=1)
    read = list(source.tables())
    assert [rows(table) for table, _ in read] == [[(3.0, 1.0, "x")], [(2.0, 4.0, "y")], [(1.0, 2.0, "z")]]
    assert everything(source, read[1][1]) == [(1.0, 2.0, "z")]


def test_repeated_and_empty_names_are_completed(tmp_path: Path) -> None:
    names, _, told = opened(write(tmp_path, "a.csv", "a,,a,a_2\n1,2,3,4\n"))
    assert names == ["a", "column_2", "a_3", "a_2"]
    assert "'column_2'" in told[0]
    assert "'a_3'" in told[1]


def test_names_must_fit_the_columns(tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", "1,2\n3,5\n")
    with pytest.raises(OptionError, match=r"names.* 2 .*a\.csv.* 3"):
        opened(path, names=["a", "b", "c"])
    with pytest.raises(OptionError, match="'a'"):
        opened(path, names=["a", "a"])
    assert opened(path, names=["a", "b"], header=True)[:2] == (["a", "b"], [(3.0, 5.0)])


def test_comments_before_the_header_and_with_the_option_everywhere(tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", "# exported, by\n#\nn,t\n1,#x\n")
    assert opened(path)[:2] == (["n", "t"], [(1.0, "#x")])
    path = write(tmp_path, "b.csv", '% top\nn,t\n1,x\n% "open\n2,y\n')
    assert opened(path, comment="%")[:2] == (["n", "t"], [(1.0, "x"), (2.0, "y")])
    with pytest.raises(BadRowError, match="line 4"):
        opened(write(tmp_path, "c.csv", "n,t\n1,x\n2,y\n# more\n"))


def test_names_in_the_comment_above_the_rows_are_read_as_numpy_writes_them(tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", "# tool 1.2\n# price, size\n1.5,2\n2.5,7\n")
    assert opened(path) == (["price", "size"], [(1.5, 2.0), (2.5, 7.0)], [])


def test_text_that_is_not_utf_8_is_read_as_cp1252_with_a_remark(tmp_path: Path) -> None:
    text = "größe;preis\n„mäßig“;5 €\nklein;7 €\n"
    names, read, told = opened(write(tmp_path, "a.csv", text.encode("cp1252")))
    assert (names, read[0]) == (["größe", "preis"], ("„mäßig“", "5 €"))
    assert "encoding='cp1252'" in told[0]
    assert not any("encoding" in one for one in opened(write(tmp_path, "a.csv", text.encode()))[2])
    assert opened(tmp_path / "a.csv", encoding="latin-1")[0] != names
    mixed = write(tmp_path, "b.csv", "t\ngröße\n".encode() + b"\xff\n")
    with pytest.raises(BadRowError, match=r"line 3.*cp1252"):
        opened(mixed)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32", "utf-8-sig", "shift_jis", "cp1251", "euc_jp"])
def test_other_encodings_are_read_in_blocks_of_any_size_and_resumed(encoding: str, tmp_path: Path) -> None:
    word = "größe" if encoding.startswith("utf") else "Привет"
    path = write(tmp_path, "a.csv", f"n,t\n1,{word}\n2,b\n3,{word}\n".encode(encoding))
    marked = encoding in ("utf-16", "utf-32", "utf-8-sig")
    for block in (1, 3, 2**20):
        reading = ReadingOptions(encoding=None if marked else encoding, block_bytes=block)
        source = FileSource(path, reading, batch_size=1)
        read = list(source.tables())
        assert [row for table, _ in read for row in rows(table)] == [(1.0, word), (2.0, "b"), (3.0, word)]
        assert everything(source, read[0][1]) == [(2.0, "b"), (3.0, word)]


@pytest.mark.parametrize(
    ("text", "names"), [("1,2.5,x\n2,3.5,y\n", ["column_1", "n", "t"]), ("2.5,x,\n3.5,y, \n", None)]
)
def test_a_header_with_one_name_too_few_is_aligned(text: str, names: list[str] | None, tmp_path: Path) -> None:
    found, read, told = opened(write(tmp_path, "a.csv", "n,t\n" + text))
    assert found == (names or ["n", "t", "column_3"])
    assert len(read) == 2
    assert "has no name" in told[0]
