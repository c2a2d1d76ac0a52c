"""Published files of data sets are read by the formats of users' files."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from published_files import COVER, ELECTRICITY, FLIGHTS, POWER, RAW_COVER, pack
from scipy.sparse import csr_array

from driftsurf.data.datasets import _readers
from driftsurf.data.datasets._readers import TableFile, read_libsvm
from driftsurf.data.datasets.known import DATASETS
from driftsurf.data.reading_options import Kind
from driftsurf.errors import BadRowError, InputError, SchemaError, SourceError

TABLE = "1,a,2.5\n3,b,4\n"
COLUMNS: dict[str, Kind | None] = {"x": "number", "name": "text", "y": "number"}


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.csv.bz2", "t.zip"])
@pytest.mark.parametrize(
    "head", ["", "a,b,c\n", "@relation r\n\n% note\n@attribute p {1,3}\n@attribute q {a,b}\n@attribute r real\n@data\n"]
)
def test_tables_are_read_compressed_and_with_or_without_a_header(tmp_path: Path, name: str, head: str) -> None:
    rows = TableFile(pack(tmp_path / name, head + TABLE + "\n\n"), COLUMNS).read()
    assert rows.numbers(["x", "y"]).tolist() == [[1.0, 2.5], [3.0, 4.0]]
    assert rows.coded("name", {"a": 7, "b": 8}).tolist() == [7, 8]
    assert rows.integers("x", range(4)).tolist() == [1, 3]


def test_a_table_is_read_in_parts_that_know_their_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_readers, "BATCH_ROWS", 2)
    parts = list(TableFile(pack(tmp_path / "t", "x,y\r\n" + "1,2\r\n" * 5), {"x": "number", "y": None}).parts())
    assert [(part.first_row, len(part)) for part in parts] == [(0, 2), (2, 2), (4, 1)]
    with pytest.raises(InputError, match=r"row 3.*x"):
        parts[1].integers("x", range(2, 3))


def test_an_archive_of_two_files_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "t.zip", "w") as archive:
        archive.writestr("one", TABLE)
        archive.writestr("two", TABLE)
    with pytest.raises(SourceError, match=r"t\.zip.*2"):
        TableFile(tmp_path / "t.zip", COLUMNS).read()


ROWS = st.lists(
    st.tuples(
        st.sampled_from([-1, 1, 2, 0.5]),
        st.dictionaries(st.integers(1, 50), st.floats(allow_nan=False, allow_infinity=False), max_size=8),
    ),
    min_size=1,
    max_size=20,
)


@given(
    rows=ROWS,
    gap=st.sampled_from([" ", "  ", "\t"]),
    end=st.sampled_from(["\n", " \n", "\r\n"]),
)
def test_libsvm_rows_are_those_that_were_written(
    rows: list[tuple[float, dict[int, float]]], gap: str, end: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    lines = [gap.join([f"{label:+g}", *(f"{i}:{pairs[i]!r}" for i in sorted(pairs))]) for label, pairs in rows]
    path = tmp_path_factory.getbasetemp() / "rows.svm"
    path.write_text("".join(line + end for line in lines), newline="")
    X, labels = read_libsvm(path, 50, (-1, 1, 2, 0.5))
    expected = np.zeros((len(rows), 50))
    for at, (_, pairs) in enumerate(rows):
        for index, value in pairs.items():
            expected[at, index - 1] = value
    assert np.array_equal(X.toarray(), expected)
    assert labels.tolist() == [label for label, _ in rows]
    assert X.has_canonical_format
    assert X.indices.dtype == X.indptr.dtype == np.int32


@pytest.mark.parametrize(
    ("text", "error", "named"),
    [
        ("", InputError, r"bad\.svm"),
        ("1 1:2\nx 1:2\n", BadRowError, "line 2.*'x'"),
        ("1 1:2\n1 10:2\n", SchemaError, "10.*9"),
        ("1 1:2\n1 2:nan\n", BadRowError, "line 2.*'nan'"),
        ("1 1:2\n3 1:2\n", InputError, "row 2.*1, 2.*3"),
    ],
)
def test_a_malformed_libsvm_file_is_refused(tmp_path: Path, text: str, error: type[Exception], named: str) -> None:
    (tmp_path / "bad.svm").write_bytes(text.encode())
    with pytest.raises(error, match=named):
        read_libsvm(tmp_path / "bad.svm", 9, (1, 2))


def test_electricity(tmp_path: Path) -> None:
    X, y = _readers.electricity(pack(tmp_path / "e.csv.gz", ELECTRICITY))
    assert X[0].tolist() == [0, 1, 0, 0, 0, 0, 0, 0, 0.056443, 0.439155, 0.003467, 0.422915, 0.414912]
    assert X[1].tolist() == [0, 0, 0, 0, 0, 0, 1, 1, 0.1, 0.2, 0.3, 0.4, 0.5]
    assert y.tolist() == [1, -1]


def test_powersupply(tmp_path: Path) -> None:
    X, y = _readers.powersupply(
        pack(
            tmp_path / "p.arff",
            "@relation p\n@attribute a real\n@attribute b real\n@attribute c {0,11,12}\n@data\n" + POWER,
        )
    )
    assert X.tolist() == [[117.4 / 139.1, 1.0], [1.0, 0.5], [0.5, 0.0]]
    assert y.tolist() == [1, 1, -1]


def test_covertype_scaled_and_raw(tmp_path: Path) -> None:
    X, y = _readers.covertype(pack(tmp_path / "covtype.libsvm.binary.scale.bz2", COVER))
    assert X.shape == (4, 54)
    assert X[0, [0, 7, 53]].tolist() == [0.5, 0.25, 1.0]
    assert y.tolist() == [1, -1, -1, 1]
    raw, same = _readers.covertype(pack(tmp_path / "covtype.libsvm.binary", RAW_COVER))
    assert np.array_equal(same, y)
    assert raw[:, 0].tolist() == [2 / 3, 1.0, 0.0, 0.0]
    assert raw[:, 7].tolist() == [0.25, 0.0, 1.0, 0.0]
    assert raw.min() == 0.0
    assert raw.max() == 1.0


def test_covertype_sample(tmp_path: Path) -> None:
    lines = ",".join(f"c{i}" for i in range(55)) + "\n" + ("0.5," * 54 + "2\n") + ("1," * 54 + "1\n")
    X, y = _readers.covertype_sample(pack(tmp_path / "c.csv", lines))
    assert X.shape == (2, 54)
    assert y.tolist() == [1, -1]


def test_airline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_readers, "BATCH_ROWS", 2)
    path = pack(tmp_path / "2008_14col.data.bz2", FLIGHTS)
    X, y = _readers.airline(path, year=2008, file_rows=4, rows=3)
    # year 2008 | month 1 2 | day 1 3 12 | weekday 4 5 | WN XE | from ABQ BUR IAD | to ABQ BUR TPA | five numbers
    assert X.toarray().tolist() == [
        [1, 1, 0, 0, 1, 0, 1, 0, 1, 0, 0, 0, 1, 0, 0, 1, 0.5, 0.5, 0.5, 1, 0],
        [1, 1, 0, 0, 1, 0, 1, 0, 1, 0, 0, 0, 1, 0, 0, 1, 1, 0.25, 0.25, 1, 1],
        [1, 1, 0, 0, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 0, 0, 0.5, 0.3, 0.5, 0],
    ]
    assert y.tolist() == [-1, 1, -1]
    assert X.has_canonical_format
    assert not (X.data == 0).any()
    with pytest.raises(InputError, match=r"2008_14col.*4.*5,810,462"):
        DATASETS["airline"].read(path)
    with pytest.raises(InputError, match=r"row 1.*2007.*'2008'"):
        _readers.airline(path, year=2007, file_rows=4, rows=3)


def test_texts(tmp_path: Path) -> None:
    X, y = _readers.rcv1(pack(tmp_path / "rcv1_train.binary.bz2", "-1 1:0.6 47236:0.8\n+1 2:1\n"))
    assert X.shape == (2, 47_236)
    assert y.tolist() == [-1, 1]
    X, y = _readers.newsgroups20(pack(tmp_path / "n.svm", "".join(f"{k} {k}:1\n" for k in range(1, 21))))
    assert (np.flatnonzero(y == 1) + 1).tolist() == [2, 3, 4, 5, 6, 12, 13, 14, 15]
    X, y = _readers.spam_assassin(pack(tmp_path / "s.svm", "0 1:1\n1 39916:1\n"))
    assert (X.shape, y.tolist()) == ((2, 39_916), [-1, 1])


@pytest.mark.parametrize(
    ("reader", "text", "named"),
    [
        (_readers.electricity, "", "bad"),
        (_readers.electricity, ELECTRICITY.partition("\n")[0].replace("0", "x") + "\n", "bad"),
        (_readers.electricity, "<html>\n<body>\n", "1.*9"),
        (_readers.electricity, ELECTRICITY + "1,2\n", "line 3: .*2.*9"),
        (_readers.electricity, ELECTRICITY.replace("DOWN", "DWN"), "row 2: class.*UP, DOWN.*DWN"),
        (_readers.electricity, ELECTRICITY.replace("0.5,7", "0.5,8"), "row 2: day.*1.*7.*8"),
        (_readers.electricity, ELECTRICITY.replace("0.2", "abc"), "line 2: .*'nswdemand'.*'abc'"),
        (_readers.electricity, ELECTRICITY.replace("0.2", "inf"), "line 2: .*'nswdemand'"),
        (_readers.electricity, ELECTRICITY.replace("0.2", "?"), "row 2: nswdemand"),
        (_readers.powersupply, "1,2,24\n", "row 1: hour.*0.*23.*24"),
        (_readers.covertype_sample, "2," * 54 + "1\n", "row 1: .*0.*1"),
        (_readers.covertype, "1 1:1\n3 1:1\n", "row 2: .*1, 2.*3"),
        (_readers.rcv1, "1 1:1\n0 1:1\n", "row 2: .*-1, 1.*0"),
    ],
)
def test_a_wrong_file_is_refused_with_the_line_or_row(
    reader: Callable[[Path], Any], text: str, named: str, tmp_path: Path
) -> None:
    with pytest.raises((InputError, SourceError), match=named):
        reader(pack(tmp_path / "bad", text))


@pytest.mark.parametrize("name", ["cut.csv.gz", "cut.csv.bz2"])
def test_a_truncated_file_is_refused_by_name(name: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    text = "".join(f"{a},{b},3\n" for a, b in rng.random((20_000, 2)))
    whole = pack(tmp_path / name, text).read_bytes()
    (tmp_path / name).write_bytes(whole[: len(whole) // 2])
    with pytest.raises(SourceError, match=name):
        _readers.powersupply(tmp_path / name)


def test_a_digest_depends_on_the_values_alone() -> None:
    X, y = np.array([[0.0, 2.0], [1.0, 0.0]]), np.array([1, -1])
    assert _readers.digest(X, y) == _readers.digest(X.astype(">f8"), y.astype(">i8"))
    wide = csr_array(X)
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    assert _readers.digest(csr_array(X), y) == _readers.digest(wide, y) != _readers.digest(X, y)
    assert _readers.digest(X, -y) != _readers.digest(X, y)
