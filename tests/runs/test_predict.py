"""Predictions of new rows by the model of a finished run."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from commands import invoke
from table_files import FORMS, csv_text
from table_runs import ROWS

import driftsurf
from driftsurf.data import ReadingOptions
from driftsurf.errors import CapabilityError, OptionError, RunFolderError, SchemaError
from driftsurf.runs.options import PredictOptions
from driftsurf.runs.predict import predict

pytestmark = pytest.mark.filterwarnings("ignore::driftsurf.errors.ColumnWarning")  # columns tell the label
OLD, NEW = ROWS[:1200], ROWS[1200:]
NAMES = list(ROWS[0])


def write(folder: Path, rows: list[Any] = OLD, columns: list[str] = NAMES, name: str = "sales.csv") -> Path:
    (folder / name).write_text(csv_text(rows, columns))
    return folder / name


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a run over the first 1,200 rows."""
    folder = tmp_path_factory.mktemp("run")
    return driftsurf.run(write(folder), label="sold", id="id", batch_size=100, out=folder / "run").folder


def read_csv(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def expected(run: Path, rows: list[Any] = NEW) -> list[str]:
    labels: list[str] = driftsurf.load(run).predict(pd.DataFrame(rows)).tolist()
    return labels


@pytest.mark.parametrize("form", FORMS)
def test_every_format_is_predicted(form: str, run: Path, tmp_path: Path) -> None:
    done = invoke("predict", run, FORMS[form](tmp_path, NEW))
    assert done.exit_code == 0, done.output
    found = read_csv(done.stdout)
    assert list(found[0]) == ["row", "id", "prediction", "probability"]
    assert [one["prediction"] for one in found] == expected(run)
    assert [int(one["row"]) for one in found] == list(range(len(NEW)))
    assert [one["id"] for one in found] == [str(row["id"]) for row in NEW]
    assert all(0.5 <= float(one["probability"]) <= 1 for one in found)


def test_standard_input_without_label_and_id_is_predicted(run: Path) -> None:
    columns = [name for name in reversed(NAMES) if name not in ("sold", "id")]
    done = invoke("predict", run, "-", input=csv_text(NEW, columns))
    found = read_csv(done.stdout)
    assert list(found[0]) == ["row", "prediction", "probability"]
    assert [one["prediction"] for one in found] == expected(run)


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_predictions_go_to_a_file_of_any_format(ending: str, run: Path, tmp_path: Path) -> None:
    out, source = tmp_path / f"p.{ending}", write(tmp_path, NEW)
    done = invoke("predict", run / "model.state", source, "--all-classes", "--out", out)
    assert done.exit_code == 0, done.output
    if ending == "parquet":
        frame = pd.read_parquet(out)
    else:
        frame = pd.read_csv(out) if ending == "csv" else pd.read_json(out, lines=True)
    assert frame.columns.tolist() == ["row", "id", "prediction", "probability:no", "probability:yes"]
    assert frame["prediction"].tolist() == expected(run)
    assert (frame["probability:no"] + frame["probability:yes"]).tolist() == pytest.approx([1.0] * len(NEW))
    assert invoke("predict", run, source, "--out", out).exit_code == 1
    assert invoke("predict", run, source, "--out", out, "--overwrite").exit_code == 0


def test_rows_are_predicted_in_batches(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("driftsurf.runs.predict.BATCH_ROWS", 70)
    out = tmp_path / "p.jsonl"
    assert predict(run, write(tmp_path, NEW), PredictOptions(out=str(out))).rows == len(NEW)
    found = [json.loads(line) for line in out.read_text().splitlines()]
    assert [one["prediction"] for one in found] == expected(run)
    assert [one["row"] for one in found] == list(range(len(NEW)))


def test_columns_keep_the_kind_that_they_had_in_the_run(tmp_path: Path) -> None:
    rows = [{**row, "zip": f"0{12 + k % 3}", "price": str(row["price"]).replace(".", ",")} for k, row in enumerate(OLD)]
    source = tmp_path / "sales.csv"
    source.write_text("\n".join([";".join(rows[0]), *(";".join(map(str, row.values())) for row in rows)]))
    reading: dict[str, Any] = {"decimal": ",", "kinds": {"zip": "text"}, "drop": ["id"], "missing": ["None"]}
    run = driftsurf.run(source, label="sold", batch_size=100, **reading, out=tmp_path / "run").folder
    few = [{**row, "zip": "012", "member": "", "extra": 1} for row in rows[:5]]
    new = tmp_path / "new.csv"
    new.write_text("\n".join([";".join(few[0]), *(";".join(map(str, row.values())) for row in few)]))
    with pytest.raises(SchemaError, match=r"new.*'extra'.*on_schema_change"):
        predict(run, new, PredictOptions(out=str(tmp_path / "p.csv")))
    assert not (tmp_path / "p.csv").exists()
    assert predict(run, new, PredictOptions(out=str(tmp_path / "p.csv")), ReadingOptions(drop=("extra",))).rows == 5
    other = PredictOptions(out=str(tmp_path / "q.csv"))
    new.write_text("zip;price;extra\n013;1,5;2\n")
    assert predict(run, new, other, ReadingOptions(on_schema_change="fill-removed")).rows == 1


@pytest.mark.parametrize(("label", "kind"), [("price", "value"), ("price > 1000000", "boolean")])
def test_numbers_and_questions_are_predicted(label: str, kind: str, tmp_path: Path) -> None:
    made = driftsurf.run(write(tmp_path), label=label, drop=["id"], batch_size=100, out=tmp_path / "run")
    found = read_csv(invoke("predict", made.folder, write(tmp_path, NEW)).stdout)
    assert list(found[0]) == ["row", "prediction"] + ["probability"] * (kind == "boolean")
    assert {one["prediction"] for one in found} <= {"True", "False"} or kind == "value"


def test_a_learner_of_another_library_is_found_by_its_name(tmp_path: Path) -> None:
    model = "driftsurf:sklearn.tree:DecisionTreeClassifier(max_depth=3)"
    made = driftsurf.run(write(tmp_path), label="sold", drop=["id"], batch_size=200, model=model, out=tmp_path / "run")
    out = tmp_path / "p.csv"
    trusted = PredictOptions(out=str(out), trust_config=True)
    assert predict(made.folder, write(tmp_path, NEW), trusted).rows == len(NEW)
    assert {one["prediction"] for one in read_csv(out.read_text())} <= {"no", "yes"}


def test_the_class_that_a_run_names_is_imported_only_if_it_is_trusted(tmp_path: Path) -> None:
    model = "driftsurf:sklearn.tree:DecisionTreeClassifier(max_depth=3)"
    made = driftsurf.run(write(tmp_path), label="sold", drop=["id"], batch_size=200, model=model, out=tmp_path / "run")
    about = made.folder / "run.json"
    told = json.loads(about.read_text())
    hostile = told | {"learner": "os:system", "model": "driftsurf", "parameters": {"command": f"touch {tmp_path}/ran"}}
    for content in (told, hostile):
        about.write_text(json.dumps(content))
        refused = invoke("predict", made.folder, write(tmp_path, NEW))
        assert refused.exit_code == 2
        assert "--trust-config" in refused.output
        with pytest.raises(OptionError):
            driftsurf.run(write(tmp_path), start_from=made.folder, out=tmp_path / "second")
    assert not (tmp_path / "ran").exists()
    about.write_text(json.dumps(told))
    assert driftsurf.run(write(tmp_path), start_from=made.folder, model=model, out=tmp_path / "third").trace is not None


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("label", [0, 1, 2])
def test_rows_without_a_header_line_may_lack_the_label(named: bool, label: int, tmp_path: Path) -> None:
    def row(k: int, *, labelled: bool) -> str:
        cells = [str(k % 7), str(k % 3 / 2)]
        return ",".join([*cells[:label], *["yes" if k % 7 > 3 else "no"] * labelled, *cells[label:]])

    (tmp_path / "old.csv").write_text("\n".join(row(k, labelled=True) for k in range(600)))
    columns = ["a", "b"] if named else ["column_1", "column_2", "column_3"]
    names = [*columns[:label], "sold", *columns[label:]] if named else columns
    made = driftsurf.run(
        *(tmp_path / "old.csv",),
        label=names[label],
        names=names if named else None,
        batch_size=100,
        out=tmp_path / "run",
    )
    expected = ["yes" if k % 7 > 3 else "no" for k in range(8)]
    for labelled in (True, False):
        for count in (1, 8):  # a single row must not be taken for a header line
            lines = "\n".join(row(k, labelled=labelled) for k in range(8 - count, 8))
            found = read_csv(invoke("predict", made.folder, "-", input=lines).stdout)
            assert [one["prediction"] for one in found] == expected[-count:]
    (tmp_path / "wide.csv").write_text("1,2,3,4,5")
    with pytest.raises(SchemaError, match="5 columns"):
        predict(made.folder, tmp_path / "wide.csv", PredictOptions(out=str(tmp_path / "p.csv")))


def test_mistakes_are_named(run: Path, tmp_path: Path) -> None:
    source = write(tmp_path, NEW)
    with pytest.raises(OptionError, match=r"p\.txt"):
        predict(run, source, PredictOptions(out="p.txt"))
    with pytest.raises(SchemaError, match="'name'"):
        predict(run, source, PredictOptions(id="name"))
    with pytest.raises(RunFolderError, match=r"model\.state"):
        predict(tmp_path, source)
    damaged = shutil.copytree(run, tmp_path / "damaged")
    for content in ("[]", "1", "", "[" * 100_000):
        (damaged / "run.json").write_text(content)
        with pytest.raises(RunFolderError, match=r"damaged/run\.json"):
            predict(damaged, source)
    rows = source.read_bytes()
    with pytest.raises(RunFolderError, match=re.escape(str(source))):
        predict(run, source, PredictOptions(out=str(source), overwrite=True))
    (tmp_path / "link.csv").symlink_to(source)
    for output in ({"predictions": str(tmp_path / "link.csv")}, {"metrics": str(source)}):
        with pytest.raises(RunFolderError, match=r"(sales|link)\.csv"):
            driftsurf.run(source, label="sold", out=tmp_path / "own", overwrite=True, **output)  # type: ignore[arg-type]
    assert source.read_bytes() == rows
    assert not (tmp_path / "own").exists()
    svm = driftsurf.run(source, label="sold", model="driftsurf:svm", drop=["id"], out=tmp_path / "svm").folder
    with pytest.raises(CapabilityError, match="LinearSVM"):
        predict(svm, source, PredictOptions(all_classes=True))
    sea = driftsurf.run("sea10", rows=1_000, out=tmp_path / "sea").folder
    with pytest.raises(SchemaError, match="sea"):
        predict(sea, source)
    assert invoke("predict", run, write(tmp_path, NEW, ["city", "price"])).stdout == ""
