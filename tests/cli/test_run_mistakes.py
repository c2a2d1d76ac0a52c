"""Mistakes on the command line of ``driftsurf run``: one line that names the value, the choices or the remedy."""

from __future__ import annotations

from pathlib import Path

import pytest
from commands import invoke
from table_files import mixed_rows, write_csv

import driftsurf
from driftsurf.errors import OptionError

COLUMNS = "id", "when", "price", "share", "city", "member", "sold"


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ([], COLUMNS),
        (["--label", "sole"], ("'sole'", *COLUMNS)),
        (["--label", "sold > 3"], ("'>'", "'sold'", "==", "!=")),
        (["--label", "price > much"], ("'price'", "'much'")),
        (["--label", "price > 1", "--task", "regression"], ("regression",)),
        (["--label", "sold", "--task", "regression"], ("text", "regression")),
        (["--label", "when"], ("'when'",)),
        (["--label", "sold", "--task", "ranking"], ("'ranking'", "'auto'", "'binary'", "'regression'")),
        (["--label", "sold", "--drop", "sold"], ("--drop", "'sold'")),
        (["--label", "sold", "--drop", "cities"], ("--drop", "'cities'", *COLUMNS)),
        (["--label", "sold", "--drop", "id,when"], ("'id,when'", *COLUMNS)),
        (["--label", "sold", "--kind", "city"], ("--kind", "'city'")),
        (["--label", "sold", "--kind", "city=place"], ("--kind", "'place'", "'number'")),
        (["--label", "sold", "--time", "city"], ("--time", "'city'", "--date-format")),
        (["--label", "sold", "--categorical", "town"], ("--categorical", "'town'", *COLUMNS)),
        (["--label", "price", "--model", "ddm"], ("regression",)),
        (["--label", "sold", "--delimiter", "ab"], ("--delimiter", "'ab'")),
        (["--label", "sold", "--delimiter", "--"], ("--delimiter", "'--'")),
        (["--label", "sold", "--thousands", "x"], ("--thousands", "'x'")),
        (["--label", "sold", "--timeout", "5"], ("--timeout", "--labels", "--delay")),
        (["--label", "sold", "--model", "driftsrf"], ("'driftsrf'", "'driftsurf'", "aue")),
        (["--label", "sold", "--model", "driftsurf(threshold):svm"], ("'driftsurf(threshold)'", "name(option=value")),
        (["--label", "sold", "--learner", "softmx"], ("'softmx'", "'softmax'", "logistic")),
        (["--label", "sold", "--learner", "no.such:Model"], ("no.such:Model",)),
        (["--label", "sold", "--learner", "math:sin"], ("math:sin",)),
        (["--label", "sold", "--learner", "linear"], ("linear", "regression")),
        (["--label", "sold", "--set", "treshold=1"], ("'treshold'", "'threshold'")),
        (["--label", "sold", "--set", "threshold"], ("--set", "'threshold'")),
        (["--label", "sold", "--set", "threshold=-1"], ("threshold", "-1")),
        (["--label", "sold", "--set", "l2=-1"], ("l2", "-1")),
        (["--label", "sold", "--model", "aue", "--threshold", "0.2"], ("aue", "'threshold'")),
        (["--label", "sold", "--learner", "sklearn.svm:LinearSVC", "--set", "los=1"], ("'los'", "'loss'")),
        (["--label", "sold", "--time", "wen"], ("--time", "'wen'", "when")),
        (["--label", "sold", "--batch-seconds", "5"], ("--batch-seconds", "--time")),
        (["--label", "sold", "--on-bad-row", "maybe"], ("maybe", "fail", "skip")),
        (["--label", "sold", "--format", "xml"], ("'xml'", "csv")),
        (["--label", "sold", "--labels", "x.csv"], ("--labels", "--id")),
        (
            ["--labels", "sales.csv", "--key", "id", "--delay", "1", "--time", "when", "--batch-seconds", "9"],
            ("--delay", "--batch-seconds"),
        ),
        (["--label", "sold", "--labels", "-", "--key", "id"], ("--labels", "'-'")),
        (["--label", "sold", "--labels", "x.csv", "--key", "id", "--follow"], ("--follow", "--labels")),
        (["--label", "sold", "--delay", "1", "--follow"], ("--delay",)),
        (["--label", "sold", "--follow-for", "1"], ("--follow-for", "--follow ")),
        (["--label", "sold", "--labels", "sales.csv", "--key", "idd"], ("--key", "'idd'", *COLUMNS)),
        (["--label", "sold", "--labels", "other.csv", "--key", "id"], ("'id'", "'name'")),
        (["--label", "sold", "--predictions", "p.xls"], ("--predictions", "'p.xls'", ".csv", ".jsonl", ".parquet")),
        (["--label", "sold", "--stream-seed", "5"], ("--stream-seed", "'sales.csv'")),
        (["--label", "sold", *(f"--drop={name}" for name in COLUMNS[:-1])], ("'sold'",)),
    ],
)
def test_mistake_is_named_in_one_line_and_leaves_nothing(
    arguments: list[str], named: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_csv(tmp_path, mixed_rows(40))
    (tmp_path / "other.csv").write_text("name,sold\na,yes\n")
    result = invoke("run", "sales.csv", *arguments)
    assert result.exit_code in (1, 2)
    message = " ".join(result.output.split())
    assert [name for name in named if name not in message] == [], message
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["sea0", "--label", "y"], ("--label", "'sea0'")),
        (["sea0", "--set", "l2=1"], ("--set", "--model")),
        (["sea0", "--model", "aware"], ("--model", "'aware'", "driftsurf")),
        (["sea0", "--model", "driftsurf:linear"], ("linear", "binary")),
        (["sae10"], ("'sae10'", "'sea10'")),
        (["gone.csv", "--label", "y"], ("gone.csv",)),
        (["none*.csv", "--label", "y"], ("none*.csv",)),
        (["empty.csv", "--label", "y"], ("empty.csv",)),
        (["sea1"], ("'sea1'", "'sea10'")),
        (["sea0", "--step-size", "fast"], ("--step-size", "fast", "auto")),
        (["sea0", "--step-size", "-1"], ("--step-size", "-1")),
        (["sea0", "--threshold", "-1"], ("threshold", "-1")),
        (["sea0", "--rows", "0"], ("--rows", "0")),
        (["sea0", "--variant", "mine"], ("--variant", "mine", "algorithm-1", "authors")),
    ],
)
def test_mistake_about_a_source_or_a_stream_is_named(
    arguments: list[str], named: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty.csv").write_text("x,y\n")
    result = invoke("run", *arguments)
    assert result.exit_code in (1, 2)
    message = " ".join(result.output.split())
    assert [name for name in named if name not in message] == [], message
    assert "Traceback" not in message
    assert not (tmp_path / "runs").exists()


def test_a_run_that_fails_says_where_its_files_are_or_leaves_none(tmp_path: Path) -> None:
    source, out, table = tmp_path / "a.csv", tmp_path / "out", tmp_path / "p.csv"
    source.write_text("x,y\n" + "1,0\n2,1\n" * 60 + "1,0,too many\n")
    failed = invoke(
        "run", source, "--label", "y", "--batch-size", 20, "--l2", 0.1, "--out", out, "--predictions", table
    )
    assert failed.exit_code == 1
    assert "out.partial" in failed.output
    assert {path.name for path in tmp_path.iterdir()} == {"a.csv", "out.partial", "p.csv.partial"}

    def refuse(_: object) -> None:
        raise OptionError("not today")

    with pytest.raises(OptionError):
        driftsurf.run(
            source, label="y", batch_size=20, out=out, predictions=str(table), on_start=refuse, overwrite=True
        )
    assert {path.name for path in tmp_path.iterdir()} == {"a.csv"}


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (["--label", "Sold"], "sold"),
        (["--label", "prise > 3"], "price"),
        (["--label", "sold", "--drop", "PIRCE"], "price"),
        (["--label", "sold", "--kind", "pricee=text"], "price"),
        (["--label", "sold", "--time", "wen", "--batch-seconds", "5"], "when"),
        (["--label", "sold", "--categorical", "citty"], "city"),
        (["--label", "sold", "--labels", "sales.csv", "--key", "idd"], "id"),
        (["--label", "sold", "--key", "citi", "--sequence", "id", "--out", "out"], "city"),
        (["--label", "sold", "--key", "city", "--sequence", "ID", "--out", "out"], "id"),
    ],
)
def test_the_column_that_was_meant_is_suggested(
    arguments: list[str], meant: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_csv(tmp_path, mixed_rows(40))
    result = invoke("run", "sales.csv", *arguments)
    assert result.exit_code in (1, 2)
    assert f"did you mean '{meant}'?" in " ".join(result.output.split())


@pytest.mark.parametrize(
    ("asked", "meant"),
    [("sale.csv", True), ("sales.csv.gz", True), ("sales", True), ("sales.cvs", True), ("sun.csv", False)],
)
def test_a_file_is_suggested_by_its_name_and_not_by_its_ending(
    asked: str, meant: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_csv(tmp_path, mixed_rows(10))
    result = invoke("run", asked, "--label", "sold")
    assert result.exit_code == 1
    assert ("'sales.csv'" in result.output) is meant


def test_an_unknown_label_of_a_file_without_names_comes_with_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("5,2.5,a\n7,1.5,b\n2,9.5,a\n4,3.5,b\n")
    result = invoke("run", tmp_path / "a.csv", "--label", "kind")
    output = " ".join(result.output.split())
    assert "'column_3'" in output
    assert "--names" in output
    assert "--header" in output


def test_a_file_that_does_not_exist_is_answered_with_the_one_that_was_meant(tmp_path: Path) -> None:
    write_csv(tmp_path, mixed_rows(40))
    meant = invoke("run", tmp_path / "sale.csv", "--label", "sold").output
    assert f"{tmp_path / 'sale.csv'} " in meant
    assert "'sales.csv'" in meant
    assert repr(str(tmp_path / "no")) in invoke("run", tmp_path / "no" / "sales.csv", "--label", "sold").output


def test_times_of_another_form_are_answered_with_their_format(tmp_path: Path) -> None:
    lines = [f"{1 + i % 28:02}/{1 + i // 28:02}/2024,{i % 2}" for i in range(60)]
    (tmp_path / "a.csv").write_text("\n".join(["day,late", *lines]))
    output = invoke("run", tmp_path / "a.csv", "--label", "late", "--time", "day").output
    assert "--date-format %d/%m/%Y" in " ".join(output.split())


def test_a_single_row_is_not_to_be_divided(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,late\n1,yes\n")
    output = invoke(
        "run", tmp_path / "a.csv", "--label", "late", "--model", "oblivious", "--out", tmp_path / "r"
    ).output
    assert "only one batch" not in output


def test_a_pattern_without_quotes_is_answered_with_quotes(tmp_path: Path) -> None:
    paths = [tmp_path / "a.csv", tmp_path / "b.csv", tmp_path / "c.csv"]
    for path in paths:
        path.write_text("x,late\n1,yes\n")
    result = invoke("run", *paths, "--label", "late")
    assert result.exit_code == 2
    assert all(part in result.output for part in ("SOURCE", "3", "'*.csv'"))
    assert "'*.csv'" not in invoke("run", paths[0], "no", "--label", "late").output
