"""Sources for comparisons: files, named streams, and unusable ones."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import invoke
from table_files import write_inverted

from driftsurf.comparison import inputs, matches
from driftsurf.comparison.compare import STREAM_MODELS, TABLE_REGRESSION_MODELS
from driftsurf.comparison.inputs import REAL, Input, expand, load
from driftsurf.comparison.matches import Match
from driftsurf.comparison.models import Situation
from driftsurf.data.datasets import known
from driftsurf.data.datasets.known import DATASETS, TABLES, KnownTable
from driftsurf.errors import (
    BadRowError,
    InputError,
    LabelError,
    Option,
    OptionError,
    SchemaError,
    SourceError,
)

TREE = "sklearn.tree.DecisionTreeClassifier(max_depth=4)"
TWO = Situation(n_classes=2, batch_size=50)


# ---------------------------------------------------------------------------- inputs


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return write_inverted(tmp_path)


def test_a_file_becomes_batches_of_coded_rows(table: Path) -> None:
    rows = load(Input(str(table), "label"))
    assert (rows.batch_size, rows.n_rows, rows.labels, rows.drift_steps) == (6, 600, ("down", "up"), None)
    assert rows.classes == (0, 1)
    assert [len(y) for _, y in rows.batches(250)] == [250, 250, 100]
    assert load(Input(str(table), "label", drop=("b",))).X.shape[1] == rows.X.shape[1] - 1
    short = load(Input(str(table), "label", batch_size=70, rows=450))
    assert (short.n_rows, short.batch_size) == (420, 70)
    assert load(Input(str(table), "label", rows=200)).batch_size == 2


def test_a_file_is_read_with_the_options_of_a_run(tmp_path: Path) -> None:
    path = tmp_path / "eu.txt"
    cells = [f"{i % 7},5;{1 + i % 28}.1.2007;{i % 3};{'ja' if i % 2 else 'nein'}\n" for i in range(60)]
    cells[3] = "2,5;kaputt;1;ja\n"
    cells[5] = cells[7] = "2,5;1.1.2007;1;\n"
    path.write_text("preis;tag;art;verkauft\n" + "".join(cells))
    reading: dict[str, Any] = {"decimal": ",", "date_formats": ("%d.%m.%Y",), "kinds": {"tag": "date"}}
    with pytest.raises(BadRowError, match=r"eu\.txt, line 5: .*'tag'.*on_bad_row='skip'"):
        load(Input(str(path), "verkauft", **reading))
    reading["missing"] = ("kaputt",)
    rows = load(Input(str(path), "verkauft", **reading))
    assert (rows.n_rows, rows.labels) == (58, ("ja", "nein"))  # without the two rows that have no label
    assert rows.X[0].tolist()[0] == 0.5
    named = load(Input(str(path), "verkauft", **reading, on_bad_row="skip", categorical=("art",)))
    assert named.X.shape[1] > rows.X.shape[1]


def test_the_command_has_the_reading_options_of_a_run(tmp_path: Path) -> None:
    path = tmp_path / "eu.csv"
    lines = [f"{i};{(i * 37) % 11},5;{'ja' if (i * 37) % 11 > 5 else 'nein'}\n" for i in range(200)]
    path.write_text("nr;preis;verkauft\n" + "".join(lines))
    common = ["--label", "verkauft", "--drop", "nr", "--batch-size", "20", "--jobs", "1", "--quiet"]
    common += ["--models", "driftsurf:logistic,majority"]
    found = invoke("compare", str(path), *common, "--decimal", ",", "--out", str(tmp_path / "out"))
    assert found.exit_code == 0
    assert "driftsurf:logistic" in found.output
    assert "warning" not in found.output
    found = invoke("compare", str(path), *common, "--out", str(tmp_path / "text"))
    (warning,) = found.stderr.strip().splitlines()
    for named in ("eu.csv", "'preis'", "'0,5'", "--decimal ,"):
        assert named in warning
    spoilt = tmp_path / "spoilt.csv"
    spoilt.write_text(path.read_text().replace("\n4;5,5", "\n4;x,5"))
    again = invoke("compare", str(spoilt), *common, "--decimal", ",", "--out", str(tmp_path / "out"))
    assert again.exit_code == 1
    assert "line 6: column 'preis'" in again.output
    assert "--on-bad-row skip" in again.output


def test_the_help_names_the_known_files_and_the_default_models() -> None:
    text = "".join(invoke("compare", "--help").output.split())  # lines may also be broken after a hyphen
    usual = [name.split(":")[0] for name in f"{STREAM_MODELS},{TABLE_REGRESSION_MODELS}".split(",")]
    assert [name for name in (*TABLES, *usual, "river:SRP10") if name not in text] == []


def test_named_sources_have_no_hints() -> None:
    assert Input("sea0").hints() == Input("insects").hints() == []


def test_a_column_with_a_comma_in_its_name_can_be_dropped(tmp_path: Path) -> None:
    path = tmp_path / "comma.csv"
    path.write_text('"a,b",c,y\n' + "1,2,x\n3,4,z\n" * 20)
    assert load(Input(str(path), "y", drop=("a,b",))).X.shape[1] == load(Input(str(path), "y")).X.shape[1] - 1
    common = ["compare", str(path), "--label", "y", "--jobs", "1", "--quiet", "--models", "majority,persistence"]
    assert invoke(*common, "--drop", "a,b", "--out", str(tmp_path / "out")).exit_code == 0
    refused = invoke(*common, "--drop", "a,b", "--drop", "c,y", "--out", str(tmp_path / "out"))
    assert "--drop names 'c,y'" in refused.output


def test_a_stream_of_the_catalogue_knows_its_batches_and_drifts() -> None:
    rows = load(Input("sine1"))
    assert (rows.batch_size, rows.n_rows, rows.drift_steps) == (100, 10_000, (20, 40, 60, 80))
    short = load(Input("sine1", rows=1_000))
    assert (short.batch_size, short.n_rows, short.drift_steps) == (10, 1_000, (20, 40, 60, 80))
    assert Input("sine1").title == "sine1"
    assert Input("electricity").title == "Electricity"
    assert Input("rialto").title == "Rialto, 10 classes"


@pytest.mark.parametrize(
    ("what", "error", "words"),
    [
        ({}, OptionError, "'a', 'b'"),
        ({"label": "a", "task": "multiclass"}, LabelError, r"600 .*task='regression'"),
        ({"label": "label", "task": "regression"}, LabelError, "'label'"),
        ({"label": "label", "task": "guess"}, OptionError, r"'guess'.*'auto', 'binary'"),
        ({"label": "price"}, SchemaError, "'price'"),
        ({"label": "label", "batch_size": 400}, InputError, r"600 .* 400 "),
    ],
)
def test_an_unusable_source_is_refused(table: Path, what: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        load(Input(str(table), **what))


@pytest.mark.parametrize(("cell", "named"), [("2.5", "2.5"), ("x", "'x'"), ("7", "7")])
def test_a_constant_label_is_refused(cell: str, named: str, tmp_path: Path) -> None:
    path = tmp_path / "same.csv"
    path.write_text("a,y\n" + f"1,{cell}\n" * 30)
    with pytest.raises(LabelError, match=f" {named}"):
        load(Input(str(path), "y"))


def test_a_file_without_rows_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("price,sold\n")
    what = Input(str(tmp_path / "a.csv"), label="sold")
    for use in (what.hints, what.is_regression, lambda: load(what)):
        with pytest.raises(SourceError, match=r"a\.csv"):
            use()


def test_a_missing_source_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("DRIFTSURF_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(InputError, match=r"DRIFTSURF_DATA.*rialto\.csv"):
        Input("rialto").digest()
    with pytest.raises(OptionError, match="'sea0'"):
        Input("sea").digest()
    with pytest.raises(InputError, match="electricity"):
        Input("electricity").digest()
    with pytest.raises(InputError, match="'-'"):
        Input("-").digest()
    assert Input("sea0").digest() == "generated"
    (tmp_path / "driftsurf_sine1.csv").write_text("x,y,label\n", encoding="utf-8")
    monkeypatch.setenv("DRIFTSURF_DATA", str(tmp_path))
    assert Input("sine1").paths() == [str(tmp_path / "driftsurf_sine1.csv")]
    with pytest.raises(OSError, match="nowhere"):
        load(Input("nowhere.jsonl", "label"))


def test_the_bytes_of_files_identify_their_rows(table: Path) -> None:
    before = Input(str(table)).digest()
    assert Input(str(table.parent / "*.jsonl")).digest() == before
    table.write_text(table.read_text(encoding="utf-8") + '{"a": 1.0, "b": 1.0, "label": "up"}\n', encoding="utf-8")
    assert Input(str(table)).digest() != before


def test_a_known_file_is_found_in_the_folder_of_data(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRIFTSURF_DATA", str(tmp_path))
    monkeypatch.setitem(TABLES, "turning", KnownTable(title="Turning", file=table.name, label="label"))
    assert load(Input("turning")).name == "Turning"
    assert Input("turning").digest() == Input(str(table)).digest()


@pytest.mark.skipif("DRIFTSURF_DATA" not in os.environ, reason="DRIFTSURF_DATA is not set")
@pytest.mark.parametrize(
    ("name", "classes", "columns"),
    [("noaa-weather", 2, 8), ("insects", 6, 33), ("rialto", 10, 27), ("outdoor", 40, 21), ("phishing", 2, 46)],
)
def test_the_known_files_have_their_classes(name: str, classes: int, columns: int) -> None:
    if known.find_file([TABLES[name].file]) is None:
        pytest.skip(f"the file of {name} was not found")
    rows = load(Input(name))
    assert (len(rows.labels), rows.X.shape[1]) == (classes, columns + 1)  # the last column marks gaps
    assert rows.n_rows // rows.batch_size >= 100
    assert np.isfinite(rows.X).all()


def test_real_stands_for_ten_streams_and_duplicates_are_dropped() -> None:
    assert expand(("sea0", "real", "rialto")) == ("sea0", *REAL)


def test_sparse_rows_are_made_dense_for_models_without_sparse_support() -> None:
    from scipy.sparse import csr_array

    X = csr_array(np.eye(4))
    rows = inputs.StreamInMemory("eye", X, np.arange(4) % 2, (0, 1), 2, None)
    assert rows.dense().X.tolist() == np.eye(4).tolist()
    assert rows.dense().dense().X.shape == (4, 4)
    short = inputs.StreamInMemory("eye", X, np.arange(4) % 2, (0, 1), 2, None, compact=np.arange(4.0)[:, None])
    assert short.first(2).dense().X.tolist() == [[0.0], [1.0]]


def test_a_stream_of_flights_is_compact_for_trees(monkeypatch: pytest.MonkeyPatch) -> None:
    from scipy.sparse import csr_array

    X = csr_array(np.hstack([np.ones((20, 7)), np.full((20, 5), 0.5)]))

    class Entry:
        batch_size = 5
        dataset = DATASETS["airline-2007"]
        regression = False

        @staticmethod
        def make() -> Any:
            return Entry

        @staticmethod
        def arrays() -> Any:
            return X, np.tile([-1, 1], 10)

        @staticmethod
        def drift_steps(size: int) -> tuple[int, ...]:
            return ()

    monkeypatch.setattr("driftsurf.data.catalogue.get", lambda name: Entry)
    load.cache_clear()
    rows = load(Input("airline-2007"))
    load.cache_clear()
    assert rows.sparse
    assert rows.dense().X.shape == (20, 12)
    assert rows.drift_steps is None
    monkeypatch.setattr(matches, "load", lambda what: rows)
    assert len(Match(Input("airline-2007"), "majority").perform().error) == 4


# ---------------------------------------------------------------------------- memory


def test_a_file_that_needs_too_much_memory_is_refused_with_the_rows_that_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "long.csv"
    path.write_text("a,b,y\n" + "".join(f"{i % 7},{i % 5},{'yes' if i % 7 > 3 else 'no'}\n" for i in range(30_000)))
    whole = load(Input(str(path), "y"))
    needed = inputs.rows_bytes(whole.n_rows, whole.X)
    monkeypatch.setattr(inputs, "LIMIT", needed)
    load.cache_clear()
    with pytest.raises(InputError) as error:
        load(Input(str(path), "y"))
    (advised,) = [part for part in error.value.args[0].parts if isinstance(part, Option)]
    assert advised.name == "rows"
    assert 0 < advised.value < 30_000
    assert load(Input(str(path), "y", rows=advised.value)).n_rows <= advised.value  # what is free counts
    monkeypatch.setattr(inputs, "available", lambda: needed)
    load.cache_clear()
    with pytest.raises(InputError):
        load(Input(str(path), "y", rows=30_000))
    monkeypatch.setattr(inputs, "available", lambda: None)  # the system does not say
    assert load(Input(str(path), "y", rows=30_000)).n_rows == whole.n_rows


def test_reading_stops_at_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "long.csv"
    path.write_text("a,y\n" + "word,1\nother,0\n" * 20_000)
    monkeypatch.setattr(inputs, "LIMIT", 600_000)
    with pytest.raises(InputError, match="30,000"):
        load(Input(str(path), "y"))


def test_sparse_rows_are_not_made_dense_beyond_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "wide.svm"
    path.write_text("".join(f"{i % 2} {i + 1}:1 2000:0.5\n" for i in range(400)))
    match = Match(Input(str(path), "label", batch_size=100), "driftsurf:sklearn.naive_bayes.GaussianNB")
    assert match.perform().n_rows == 400
    monkeypatch.setattr(inputs, "LIMIT", 5_000_000)
    load.cache_clear()
    with pytest.raises(InputError):
        match.perform()
    assert Match(Input(str(path), "label", batch_size=100), "driftsurf").perform().n_rows == 400


def test_free_memory_is_known_on_linux() -> None:
    free = inputs.available()
    assert free is None or free > 10_000_000


def test_contents_of_files_that_were_read_count_as_free_in_a_container(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inputs, "GROUP", tmp_path)
    monkeypatch.setattr(inputs, "_free", lambda: [10**12])
    assert inputs.available() == 10**12
    texts = {"max": "1000", "current": "990", "stat": "anon 290\nactive_file 400\ninactive_file 200\n"}
    for name, text in texts.items():
        (tmp_path / f"memory.{name}").write_text(text)
    assert inputs.available() == 610
    (tmp_path / "memory.max").write_text("100")  # a limit that was lowered
    assert inputs.available() == 0
    (tmp_path / "memory.max").write_text("max")
    assert inputs.available() == 10**12
