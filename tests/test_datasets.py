"""Real data: the formats they come in, how each becomes a stream, where they are found, and golden rows."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import math
import os
import sys
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from driftsurf import _random
from driftsurf.cli import main
from driftsurf.errors import InputError, OptionError
from driftsurf.experiments.paper import settings_of
from driftsurf.streams import ArrayStream, Drift, RealStream, _tables, _text, catalogue, datasets, files, real, rotate
from driftsurf.streams.datasets import DATASETS

# ---------------------------------------------------------------------------- packings and tables


def pack(path: Path, text: str) -> Path:
    """Write ``text`` packed as the name says."""
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    elif path.suffix == ".bz2":
        path.write_bytes(bz2.compress(text.encode()))
    elif path.suffix == ".zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("inner.csv", text)
    else:
        path.write_text(text)
    return path


TABLE = "1,a,2.5\n3,b,4\n"


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.csv.bz2", "t.zip"])
@pytest.mark.parametrize(
    ("head", "first_line"),
    [("", 1), ("x,name,y\n", 2), ("@relation r\n\n% note\n@attribute x {a,b}\n@data\n", 6)],
)
def test_tables_are_read_packed_and_with_any_head(tmp_path: Path, name: str, head: str, first_line: int) -> None:
    (chunk,) = _text.read_table(pack(tmp_path / name, head + TABLE + "\n\n"), 3)
    assert chunk.first_line == first_line
    assert chunk.numbers([0, 2]).tolist() == [[1.0, 2.5], [3.0, 4.0]]
    assert chunk.coded(1, {"a": 7, "b": 8}).tolist() == [7, 8]
    assert chunk.whole(0, range(4)).tolist() == [1, 3]


def test_a_table_comes_in_chunks_that_know_their_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_text, "CHUNK_ROWS", 2)
    chunks = list(_text.read_table(pack(tmp_path / "t", "x,y\r\n" + "1,2\r\n" * 5), 2))
    assert [(chunk.first_line, len(chunk.rows)) for chunk in chunks] == [(2, 2), (4, 2), (6, 1)]
    even = list(_text.read_table(pack(tmp_path / "t", "1,2\n" * 4), 2))
    assert [len(chunk.rows) for chunk in even] == [2, 2]


def test_an_archive_of_two_files_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "t.zip", "w") as archive:
        archive.writestr("one", TABLE)
        archive.writestr("two", TABLE)
    with pytest.raises(_text.LineError, match="2 files instead of one"):
        list(_text.read_table(tmp_path / "t.zip", 3))


# ---------------------------------------------------------------------------- LIBSVM

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
    chunk=st.integers(1, 400),
)
def test_libsvm_rows_equal_those_read_one_by_one(
    rows: list[tuple[float, dict[int, float]]],
    gap: str,
    end: str,
    chunk: int,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    lines = [gap.join([f"{label:+g}", *(f"{i}:{pairs[i]!r}" for i in sorted(pairs))]) for label, pairs in rows]
    path = tmp_path_factory.getbasetemp() / "rows.svm"
    path.write_text("".join(line + end for line in lines), newline="")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_text, "CHUNK_BYTES", chunk)
        X, labels = _text.read_libsvm(path, 50)
    expected = np.zeros((len(rows), 50))
    for at, (_, pairs) in enumerate(rows):
        for index, value in pairs.items():
            expected[at, index - 1] = value
    assert np.array_equal(X.toarray(), expected)
    assert labels.tolist() == [label for label, _ in rows]
    assert X.has_canonical_format
    assert X.indices.dtype == X.indptr.dtype == np.int32


@pytest.mark.parametrize(
    ("text", "line", "complaint"),
    [
        ("", 1, "no rows"),
        ("1 1:2\nx 1:2\n", 2, "the label 'x' is not a number"),
        ("1 1:2\n\n1 1:2\n", 2, "the label '' is not a number"),
        ("1 1:2\n1 2:1 1:1\n", 2, "'1:1': indices are whole numbers from 1 to 9, and rise"),
        ("1 1:2 1:3\n", 1, "'1:3': indices"),
        ("1 0:2\n", 1, "'0:2': indices"),
        ("1 10:2\n", 1, "'10:2': indices"),
        ("1 1.5:2\n", 1, r"'1\.5:2': indices"),
        ("1 1:2\n1 2\n1 3:4\n", 2, "'2' is not index:value"),
        ("1 2:\n", 1, "'2:' is not index:value"),
        ("1 1:2:3 4\n", 1, "'1:2:3' is not index:value"),
        ("1 2:3x\n", 1, "'2:3x' is not index:value"),
        ("1 2:3-4\n", 1, "'2:3-4' is not index:value"),
        ("1 2:nan\n", 1, "'2:nan' is not index:value with a finite value"),
        ("1 2:1e999\n", 1, "'2:1e999' is not index:value with a finite value"),
        ("1 1:2\n1 2:3 # note\n", 2, "'#': indices"),
        ("1 1:2\r1 2:3\n", 1, "the lines from here on are not all"),
    ],
)
def test_a_malformed_libsvm_file_is_named_with_its_line(tmp_path: Path, text: str, line: int, complaint: str) -> None:
    (tmp_path / "bad.svm").write_bytes(text.encode())
    with pytest.raises(_text.LineError, match=complaint) as caught:
        _text.read_libsvm(tmp_path / "bad.svm", 9)
    assert caught.value.line == line


def test_the_line_counts_on_across_pieces_of_a_libsvm_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_text, "CHUNK_BYTES", 20)
    with pytest.raises(_text.LineError, match="'y' is not a number") as caught:
        _text.read_libsvm(pack(tmp_path / "bad.svm", "1 1:2\n" * 30 + "y 1:2\n" + "1 1:2\n"), 9)
    assert caught.value.line == 31


# ---------------------------------------------------------------------------- one reader each

ELECTRICITY = "0,2,0,0.056443,0.439155,0.003467,0.422915,0.414912,UP\n0.5,7,1,0.1,0.2,0.3,0.4,0.5,'DOWN'\n"
POWER = "117.4,127,0\n139.1,63.5,11\n69.55,0,12\n"
FLIGHTS = """2008,1,3,4,1000,1200,WN,335,150,IAD,TPA,810,0,-14
2008,1,3,4,2000,600,WN,3231,75,IAD,TPA,810,1,2
2008,1,12,5,0,1200,XE,448,90,BUR,ABQ,405,0,0
2008,2,1,5,1000,2400,XE,448,300,ABQ,BUR,405,0,9
"""
COVER = "1 1:0.5 8:0.25 54:1\n2 1:1 9:0.125\n2 8:1\n1 2:0.5\n"
RAW_COVER = "1 1:2000 8:10 54:1\n2 1:3000 9:4\n2 8:40\n1 2:1\n"


def test_electricity(tmp_path: Path) -> None:
    X, y = _tables.electricity(pack(tmp_path / "e.csv.gz", ELECTRICITY))
    assert X[0].tolist() == [0, 1, 0, 0, 0, 0, 0, 0, 0.056443, 0.439155, 0.003467, 0.422915, 0.414912]
    assert X[1].tolist() == [0, 0, 0, 0, 0, 0, 1, 1, 0.1, 0.2, 0.3, 0.4, 0.5]
    assert y.tolist() == [1, -1]


def test_powersupply(tmp_path: Path) -> None:
    X, y = _tables.powersupply(pack(tmp_path / "p.arff", "@relation p\n@data\n" + POWER))
    assert X.tolist() == [[117.4 / 139.1, 1.0], [1.0, 0.5], [0.5, 0.0]]
    assert y.tolist() == [1, 1, -1]


def test_covertype_scaled_and_raw(tmp_path: Path) -> None:
    X, y = _tables.covertype(pack(tmp_path / "covtype.libsvm.binary.scale.bz2", COVER))
    assert X.shape == (4, 54)
    assert X[0, [0, 7, 53]].tolist() == [0.5, 0.25, 1.0]
    assert y.tolist() == [1, -1, -1, 1]
    raw, same = _tables.covertype(pack(tmp_path / "covtype.libsvm.binary", RAW_COVER))
    assert np.array_equal(same, y)
    assert raw[:, 0].tolist() == [2 / 3, 1.0, 0.0, 0.0]
    assert raw[:, 7].tolist() == [0.25, 0.0, 1.0, 0.0]
    assert raw.min() == 0.0
    assert raw.max() == 1.0


def test_covertype_sample(tmp_path: Path) -> None:
    lines = ",".join(f"c{i}" for i in range(55)) + "\n" + ("0.5," * 54 + "2\n") + ("1," * 54 + "1\n")
    X, y = _tables.covertype_sample(pack(tmp_path / "c.csv", lines))
    assert X.shape == (2, 54)
    assert y.tolist() == [1, -1]


def test_airline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_text, "CHUNK_ROWS", 2)
    path = pack(tmp_path / "2008_14col.data.bz2", FLIGHTS)
    X, y = _tables.airline(path, year=2008, file_rows=4, rows=3)
    # year 2008 | month 1 2 | day 1 3 12 | weekday 4 5 | WN XE | from ABQ BUR IAD | to ABQ BUR TPA | five numbers
    assert X.toarray().tolist() == [
        [1, 1, 0, 0, 1, 0, 1, 0, 1, 0, 0, 0, 1, 0, 0, 1, 0.5, 0.5, 0.5, 1, 0],
        [1, 1, 0, 0, 1, 0, 1, 0, 1, 0, 0, 0, 1, 0, 0, 1, 1, 0.25, 0.25, 1, 1],
        [1, 1, 0, 0, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 0, 0, 0.5, 0.3, 0.5, 0],
    ]
    assert y.tolist() == [-1, 1, -1]
    assert X.has_canonical_format
    assert not (X.data == 0).any()
    with pytest.raises(_text.LineError, match="4 flights instead of 5,810,462"):
        DATASETS["airline"].read(path)
    with pytest.raises(_text.LineError, match="'2008' is not a whole number from 2007 to 2007"):
        _tables.airline(path, year=2007, file_rows=4, rows=3)


def test_texts(tmp_path: Path) -> None:
    X, y = _tables.rcv1(pack(tmp_path / "rcv1_train.binary.bz2", "-1 1:0.6 47236:0.8\n+1 2:1\n"))
    assert X.shape == (2, 47_236)
    assert y.tolist() == [-1, 1]
    X, y = _tables.newsgroups20(pack(tmp_path / "n.svm", "".join(f"{k} {k}:1\n" for k in range(1, 21))))
    assert (np.flatnonzero(y == 1) + 1).tolist() == [2, 3, 4, 5, 6, 12, 13, 14, 15]
    X, y = _tables.spam_assassin(pack(tmp_path / "s.svm", "0 1:1\n1 39916:1\n"))
    assert (X.shape, y.tolist()) == ((2, 39_916), [-1, 1])


@pytest.mark.parametrize(
    ("reader", "text", "line", "complaint"),
    [
        (_tables.electricity, "", 1, "no rows"),
        (_tables.electricity, "date,day\n", 2, "no rows"),
        (_tables.electricity, "<html>\n<body>\n", 2, "1 columns instead of 9"),
        (_tables.electricity, ELECTRICITY + "1,2\n", 3, "2 columns instead of 9"),
        (_tables.electricity, ELECTRICITY + "\n" + ELECTRICITY, 3, "an empty line between rows"),
        (_tables.electricity, ELECTRICITY.replace("DOWN", "DWN"), 2, "'DWN'; choices: UP, DOWN"),
        (_tables.electricity, ELECTRICITY.replace("0.5,7", "0.5,8"), 2, "'8' is not a whole number from 1 to 7"),
        (_tables.electricity, ELECTRICITY.replace("0.2", "abc"), 2, "'abc' is not a finite number"),
        (_tables.electricity, ELECTRICITY.replace("0.2", "inf"), 2, "'inf' is not a finite number"),
        (_tables.powersupply, "1,2,24\n", 1, "'24' is not a whole number from 0 to 23"),
        (_tables.covertype_sample, "2," * 54 + "1\n", 1, "a value outside of 0 to 1"),
        (_tables.covertype, "1 1:1\n3 1:1\n", 2, "label 3; choices: 1, 2"),
        (_tables.rcv1, "1 1:1\n0 1:1\n", 2, "label 0; choices: -1, 1"),
    ],
)
def test_a_file_that_is_wrong_is_named_with_its_line(
    reader: Callable[[Path], Any], text: str, line: int, complaint: str, tmp_path: Path
) -> None:
    with pytest.raises(_text.LineError, match=complaint) as caught:
        reader(pack(tmp_path / "bad", text))
    assert caught.value.line == line


@pytest.mark.parametrize("name", ["cut.csv.gz", "cut.csv.bz2"])
def test_a_truncated_file_is_named_with_how_far_it_goes(name: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    text = "".join(f"{a},{b},3\n" for a, b in rng.random((20_000, 2)))
    whole = pack(tmp_path / name, text).read_bytes()
    (tmp_path / name).write_bytes(whole[: len(whole) // 2])
    with pytest.raises(_text.LineError, match="ended before the end-of-stream marker") as caught:
        _tables.powersupply(tmp_path / name)
    assert 0 < caught.value.line < 20_000
    with pytest.raises(_text.LineError, match="ended before the end-of-stream marker"):
        _text.read_libsvm(tmp_path / name, 3)


# ---------------------------------------------------------------------------- streams


def tiny(monkeypatch: pytest.MonkeyPatch, name: str, **changes: Any) -> None:
    """Let a registered dataset be a small one of its kind."""
    monkeypatch.setitem(DATASETS, name, replace(DATASETS[name], **{"values": None, **changes}))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only place where data are looked for, empty."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv(files.FOLDER_VARIABLE, str(tmp_path))
    return tmp_path


def test_swapped_labels_after_a_shuffle(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny(monkeypatch, "rcv1", rows=23, batch_size=2)
    pack(folder / "rcv1_train.binary.bz2", "".join(f"{'+1' if k % 3 else '-1'} {k}:1\n" for k in range(1, 24)))
    stream = RealStream("rcv1")
    X, y = stream.arrays()
    order = real.permutation(23, 0)
    assert X.indices.tolist() == order.tolist()
    expected = np.where((order + 1) % 3, 1, -1)
    expected[7:14] *= -1  # 0.3 n = 6.9, 0.6 n = 13.8
    assert np.array_equal(y, expected)
    assert stream.drifts == (Drift(7, 7), Drift(14, 14))
    assert (stream.name, stream.exact, stream.sparse, stream.n_features) == ("RCV1", True, True, 47_236)
    assert np.array_equal(RealStream("rcv1", seed=5).arrays()[0].indices, real.permutation(23, 5))
    cut = RealStream("rcv1", n_rows=10)
    assert np.array_equal(cut.arrays()[1], expected[:10])
    assert cut.drifts == (Drift(7, 7),)


def test_words_are_weighted_after_the_shuffle(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny(monkeypatch, "newsgroups20", rows=3, batch_size=1)
    path = pack(folder / "newsgroups20_18846.svm.gz", "1 1:1 2:3\n2 2:1 3:9\n12 5:2\n")
    X, _ = _tables.newsgroups20(path)
    order = real.permutation(3, 0)
    stream = RealStream("newsgroups20")
    assert (stream.arrays()[0] != real.tf_idf(X[order])).nnz == 0
    assert stream.arrays()[1].tolist() == (np.where(order == 0, -1, 1) * [1, -1, 1]).tolist()


def test_rotated_columns(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny(monkeypatch, "covertype", rows=4, batch_size=1)
    X, y = _tables.covertype(pack(folder / "covtype.libsvm.binary.scale", COVER))
    order = real.permutation(4, 0)
    expected = rotate(ArrayStream(X[order], y[order]), 2, 3, columns=(0, 7), angle=3.14).arrays()
    stream = RealStream("covertype")
    assert np.array_equal(stream.arrays()[0], expected[0])
    assert np.array_equal(stream.arrays()[1], y[order])
    a, b = X[order[2]][[0, 7]]
    turned = [a * math.cos(3.14) - b * math.sin(3.14), a * math.sin(3.14) + b * math.cos(3.14)]
    assert stream.arrays()[0][2, [0, 7]] == pytest.approx(turned)
    assert stream.drift_steps(1) == (2, 3)


def test_the_order_of_time_and_the_steps_of_aware(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny(monkeypatch, "airline", rows=3, batch_size=1, aware_steps=(1, 9), read=partial(_airline_2008, rows=3))
    pack(folder / "2008_14col.data", FLIGHTS)
    stream = RealStream("airline")
    assert stream.n_features == 21
    assert stream.drifts == (Drift(1, 1),)
    assert stream.arrays()[1].tolist() == [-1, 1, -1]
    assert [len(y) for _, y in stream.batches(2)] == [2, 1]


def _airline_2008(path: Path, rows: int) -> Any:
    return _tables.airline(path, year=2008, file_rows=4, rows=rows)


def test_bad_files_are_refused_by_path_line_and_remedy(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = pack(folder / "elec2.csv", ELECTRICITY)
    for wrong, complaint in [
        (ELECTRICITY, f"{path}, line 2: 2 rows instead of 45,312"),
        ("1,2\n", f"{path}, line 1: 2 columns instead of 9"),
    ]:
        pack(path, wrong)
        with pytest.raises(InputError) as caught:
            RealStream("electricity").arrays()
        assert str(caught.value).startswith(complaint)
        assert "move the file away, and get it with 'driftsurf datasets fetch electricity'" in str(caught.value)
    digest = _tables.digest(*_tables.electricity(pack(path, ELECTRICITY)))
    tiny(monkeypatch, "electricity", rows=2, values="0" * 64)
    with pytest.raises(InputError, match=f"not the rows of Electricity .* {digest}, expected {'0' * 64}"):
        RealStream("electricity").arrays()
    tiny(monkeypatch, "electricity", rows=2, values=digest)
    assert RealStream("electricity").arrays()[1].tolist() == [1, -1]
    with pytest.raises(InputError, match="nowhere: no such file; get it with"):
        RealStream("electricity", "nowhere").arrays()


@pytest.mark.parametrize(
    ("attempt", "complaint"),
    [
        (lambda: RealStream("elektricity"), "did you mean 'electricity'"),
        (lambda: RealStream("zzz"), "no dataset 'zzz'; choices: rcv1,"),
        (lambda: RealStream("electricity", seed=1), "electricity is not shuffled"),
        (lambda: RealStream("rcv1", seed=-1), "seed is -1"),
        (lambda: RealStream("electricity", n_rows=0), "n_rows is 0"),
        (lambda: RealStream("electricity", n_rows=45_313), "has 45,312 rows"),
    ],
)
def test_bad_arguments_are_refused(attempt: Callable[[], object], complaint: str) -> None:
    with pytest.raises(OptionError, match=complaint):
        attempt()


def test_a_digest_is_of_the_values_alone() -> None:
    X, y = np.array([[0.0, 2.0], [1.0, 0.0]]), np.array([1, -1])
    assert _tables.digest(X, y) == _tables.digest(X.astype(">f8"), y.astype(">i8"))
    wide = csr_array(X)
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    assert _tables.digest(csr_array(X), y) == _tables.digest(wide, y) != _tables.digest(X, y)
    assert _tables.digest(X, -y) != _tables.digest(X, y)


@given(n=st.integers(0, 200), seed=st.integers(0, 2**70))
def test_the_permutation_sorts_by_the_words_of_the_generator(n: int, seed: int) -> None:
    words = [_random.word(seed, k) for k in range(n)]
    assert real.permutation(n, seed).tolist() == sorted(range(n), key=words.__getitem__)


def test_tf_idf_row_by_row() -> None:
    counts = np.array([[1, 2, 0, 0], [1, 0, 5, 0], [1, 1, 1, 0], [1, 0, 0, 0]], float)
    weights = real.tf_idf(csr_array(counts)).toarray()
    for row, given_counts in zip(weights, counts, strict=True):
        expected = [
            (1 + math.log(c)) * math.log(4 / np.count_nonzero(counts[:, k])) if c else 0.0
            for k, c in enumerate(given_counts)
        ]
        length = math.hypot(*expected)
        assert row == pytest.approx(np.array(expected) / (length or 1.0))


# ---------------------------------------------------------------------------- where they are


def test_the_cache_is_where_the_system_has_caches(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    monkeypatch.setattr(sys, "platform", "linux")
    for value, base in [(str(tmp_path / "x"), tmp_path / "x"), ("", tmp_path / ".cache"), ("x", tmp_path / ".cache")]:
        monkeypatch.setenv("XDG_CACHE_HOME", value)
        assert files.cache_folder() == base / "driftsurf" / "data"
    monkeypatch.setattr(sys, "platform", "darwin")
    assert files.cache_folder() == tmp_path / "Library" / "Caches" / "driftsurf" / "data"
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "local"))
    assert files.cache_folder() == tmp_path / "local" / "driftsurf" / "data"


def test_the_named_folder_comes_before_the_cache(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert datasets.find("electricity") is None
    files.cache_folder().mkdir(parents=True)
    cached = pack(files.cache_folder() / "electricity.zip", ELECTRICITY)
    assert datasets.find("electricity") == cached
    named = pack(folder / "electricity-normalized.csv.bz2", ELECTRICITY)
    assert datasets.find("electricity") == named
    monkeypatch.delenv(files.FOLDER_VARIABLE)
    assert datasets.find("electricity") == cached


def test_what_is_not_at_hand_says_how_to_get_it(folder: Path) -> None:
    with pytest.raises(InputError, match="not at hand; get it with 'driftsurf datasets fetch covertype', or set"):
        catalogue.get("covertype").make()
    pack(folder / "covtype_sample92962.csv", "")
    with pytest.raises(InputError, match=r"\(in its place there is covertype-sample\)"):
        catalogue.get("covertype").make()
    with pytest.raises(InputError, match=r"get it by hand from http://kt\.ijs\.si.*a folder with 2008_14col\.data"):
        real.load("airline")


def test_the_registry_agrees_with_itself_and_the_paper() -> None:
    steps = {name: RealStream(name).drift_steps(entry.batch_size) for name, entry in DATASETS.items()}
    assert steps == {
        "rcv1": (30, 60),
        "covertype": (30, 60),
        "airline": (31, 67),
        "electricity": (20,),
        "powersupply": (17, 47, 76),
        "covertype-sample": (30, 60),
        "airline-2007": (33, 69),
        "newsgroups20": (30, 60),
        "spam-assassin": (),
    }
    odd = {"electricity": 34, "airline-2007": 86}
    assert {name: entry.batches for name, entry in DATASETS.items()} == {name: odd.get(name, 100) for name in DATASETS}
    for name, entry in DATASETS.items():
        assert entry.exact == (name in catalogue.PAPER)
        assert entry.exact or entry.stands_for in catalogue.PAPER
        assert bool(entry.urls) == bool(entry.saved_as)
        assert not entry.saved_as or any(entry.saved_as in (f + p for p in files.PACKINGS) for f in entry.files)
        assert settings_of(name).l2 > 0
    assert len({entry.label for entry in DATASETS.values()}) == len(DATASETS)
    assert len({file for entry in DATASETS.values() for file in entry.files}) == sum(
        len(entry.files) for entry in DATASETS.values()
    )


def test_the_list_says_of_each_what_it_is_and_how_to_get_it(folder: Path) -> None:
    path = pack(folder / "elec2.csv", ELECTRICITY)
    output = CliRunner().invoke(main, ["datasets"], catch_exceptions=False).output
    flat = " ".join(output.split())
    for name, entry in DATASETS.items():
        assert f"\n{name}\n" in f"\n{output}"
        assert " ".join(entry.licence.split()) in flat
        assert entry.page in flat
    assert f"found {path} (0.0 MB)" in flat
    assert "missing get it with 'driftsurf datasets fetch rcv1'" in flat
    assert "digest not known; checked by its values" in flat
    assert "not the paper's data: stands in for rcv1" in flat
    assert f"{files.cache_folder()} (no such folder)" in flat
    assert "\x1b" not in output
    assert all(len(line) <= 100 or "http" in line for line in output.splitlines() if str(folder) not in line)
    streams = CliRunner().invoke(main, ["streams"], catch_exceptions=False).output
    assert "New South Wales electricity market, price up or down" in " ".join(streams.split())
    assert "(not at hand)" in " ".join(streams.split())


def test_a_dataset_can_be_run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = ["run", "airline-2007", "--rows", "4", "--batch-size", "2", "--quiet", "--out", str(folder / "run")]
    missing = CliRunner().invoke(main, arguments)
    assert missing.output.startswith("Error: airline-2007 is not at hand; get it with 'driftsurf datasets fetch")
    tiny(monkeypatch, "airline-2007", rows=4, columns=None, read=partial(_airline_2008, rows=4))
    pack(folder / "airline_2007_first50482.csv", FLIGHTS)
    result = CliRunner().invoke(main, arguments, catch_exceptions=False)
    assert result.exit_code == 0
    assert "mean error" in result.output


# ---------------------------------------------------------------------------- the published rows


@dataclass(frozen=True)
class Golden:
    """A prepared stream: its shape, share of +1, digest of labels, and some places of its rows."""

    name: str
    shape: tuple[int, int]
    positives: int
    labels: str
    first: list[float]
    values: str | None = None
    """Digest of rows and labels; None where a logarithm or sine may differ in its last digit."""


GOLDEN = [
    Golden(
        "electricity",
        (45_312, 13),
        19_237,
        "1f1bd2b19af51026",
        [0, 1, 0, 0, 0, 0, 0, 0, 0.056443, 0.439155, 0.003467, 0.422915, 0.414912],
        "c7ea47672ddacdc9",
    ),
    Golden("powersupply", (29_928, 2), 14_964, "388926eab4906393", [117.4 / 296.7, 127 / 280], "492176f4e9a232cb"),
    Golden(
        "covertype-sample",
        (92_962, 54),
        45_328,
        "de2cc0244f842fd3",
        [0.67984, 0.952778, 0.19697, 0.030064, 0.23385, 0.452157, 0.76378, 0.866142, 0.649606, 0.574516, 1],
    ),
    Golden(
        "airline-2007", (50_482, 601), 26_330, "2e8aefedb60266f1", [1, 1, 1, 1, 1, 1, 1, 10 / 2359], "12ed9418055e9366"
    ),
    Golden(
        "newsgroups20",
        (18_846, 26_214),
        9_271,
        "8204ce0996bad77e",
        [5.4738055997479694e-05, 0.0007742143001469851, 0.00834456309139955, 0.015692332935826947],
    ),
    Golden("spam-assassin", (9_324, 39_916), 2_387, "562eb959d9a98fe1", [1, 1, 1, 1], "49c19d0bc49b5a07"),
]


@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: case.name)
def test_prepared_rows_are_these(case: Golden) -> None:
    if files.FOLDER_VARIABLE not in os.environ or datasets.find(case.name) is None:
        pytest.skip(f"{case.name} is not in the folder that {files.FOLDER_VARIABLE} names")
    stream = RealStream(case.name)
    X, y = stream.arrays()
    assert X.shape == case.shape == (stream.n_rows, stream.n_features)
    assert stream.sparse == (not isinstance(X, np.ndarray))
    assert np.count_nonzero(y == 1) == case.positives
    assert hashlib.sha256(y.astype("<i8").tobytes()).hexdigest()[:16] == case.labels
    stored = X.data if stream.sparse else X[0]
    assert stored[: len(case.first)] == pytest.approx(case.first, rel=1e-12)
    if case.values is not None:
        assert _tables.digest(X, y)[:16] == case.values
    made = catalogue.get(case.name).make()
    entry = DATASETS[case.name]
    assert len(made) == entry.batches * entry.batch_size
    assert np.array_equal(np.concatenate([labels for _, labels in made.blocks()]), y[: len(made)])


def test_the_rotated_rows_of_covertype_sample() -> None:
    if files.FOLDER_VARIABLE not in os.environ or datasets.find("covertype-sample") is None:
        pytest.skip(f"covertype-sample is not in the folder that {files.FOLDER_VARIABLE} names")
    path = datasets.require("covertype-sample")
    X, _ = RealStream("covertype-sample", path).arrays()
    raw, _ = _tables.covertype_sample(path)
    changed = np.flatnonzero((raw != X).any(axis=1))
    assert (changed[0], changed[-1], len(changed)) == (27_889, 55_777, 27_889)
    assert np.flatnonzero((raw != X).any(axis=0)).tolist() == [0, 7]
    assert X[30_000, [0, 7]] == pytest.approx([-0.7284547310561614, -0.9988410912507031])
