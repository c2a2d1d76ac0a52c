"""Files with other signs of numbers or dates than usual: they are read as their cells show, or refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from commands import invoke

import driftsurf
from driftsurf.comparison.compare import compare
from driftsurf.comparison.inputs import Input
from driftsurf.data import ReadingOptions, open_source
from driftsurf.data.inferred_options import infer_options
from driftsurf.errors import SchemaError

ROWS = 600


def german(value: float, digits: int = 2) -> str:
    return f"{value:,.{digits}f}".translate(str.maketrans(",.", ".,"))


def columns() -> dict[str, list[str]]:
    """Return cells of a table whose label is told by the number in the column preis."""
    random = np.random.default_rng(0)
    prices = random.gamma(2, 800, ROWS)
    days = pd.date_range("2024-01-01", periods=ROWS, freq="7h").strftime("%d.%m.%Y").tolist()
    return {
        "datum": days,
        "preis": [german(price) for price in prices],
        "grad": [german(value, 1) for value in random.normal(15, 8, ROWS)],
        "menge": [str(count) for count in random.integers(1, 40, ROWS)],
        "verkauft": ["ja" if price > 1300 else "nein" for price in prices],
    }


def write(folder: Path, cells: dict[str, list[str]]) -> Path:
    path = folder / "preise.csv"
    lines = [";".join(cells), *map(";".join, zip(*cells.values(), strict=True))]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def inferred(folder: Path, **cells: list[str]) -> dict[str, Any]:
    source = open_source(write(folder, cells))
    return dict(infer_options(source, next(source.tables())[0]).options)


def repeated(*cells: str) -> list[str]:
    return [*cells] * (60 // len(cells))


def test_a_european_file_is_read_as_its_cells_show_by_run_and_predict(tmp_path: Path) -> None:
    path, out = write(tmp_path, columns()), tmp_path / "run"
    common = ["--label", "verkauft", "--model", "recommended-linear", "--batch-size", 50]
    found = invoke("run", path, *common, "--out", out)
    assert found.exit_code == 0, found.output
    for option in ("--decimal ,", "--thousands .", "--date-format %d.%m.%Y"):
        assert option in found.stderr
    given = ["--decimal", ",", "--thousands", ".", "--date-format", "%d.%m.%Y"]
    named = invoke("run", path, *common, *given, "--out", tmp_path / "named")
    assert (named.exit_code, "warning" in named.stderr) == (0, False)
    for file in ("trace.csv", "journal.jsonl"):
        assert (out / file).read_bytes() == (tmp_path / "named" / file).read_bytes()
    predicted = [invoke("predict", folder, path).stdout for folder in (out, tmp_path / "named")]
    assert predicted[0] == predicted[1] != ""
    right = [row.split(",")[1] for row in predicted[0].split()[1:]] == np.array(columns()["verkauft"])
    assert np.mean(right) > 0.9


def test_what_the_cells_show_holds_for_the_rest_of_a_run_and_for_runs_that_start_from_it(tmp_path: Path) -> None:
    path, live = write(tmp_path, columns()), tmp_path / "live"
    options: dict[str, Any] = {"label": "verkauft", "model": "driftsurf", "batch_size": 50, "every": 2}
    with pytest.warns(match="decimal"):
        whole = driftsurf.run(path, **options, out=tmp_path / "whole")
    with pytest.warns(match="decimal"):
        driftsurf.run(path, **options, checkpoint=live)
    resumed = driftsurf.run(path, **options, checkpoint=live, resume=True)
    assert (resumed.folder / "model.state").read_bytes() == (whole.folder / "model.state").read_bytes()
    about = json.loads((whole.folder / "run.json").read_text())
    assert about["decided"]["reading"] == {"decimal": ",", "thousands": ".", "date_formats": ["%d.%m.%Y"]}
    later = {name: own[:100] for name, own in columns().items()}
    later["preis"] = ["1,234", "2,345"] * 50  # alone it would say nothing
    (tmp_path / "later").mkdir()
    next_run = driftsurf.run(write(tmp_path / "later", later), start_from=whole.folder, out=tmp_path / "next")
    assert next_run.summary is not None


def test_keyed_runs_and_comparisons_read_such_files_alike(tmp_path: Path) -> None:
    cells = {"k": repeated("a", "b") * 10, "s": [str(row) for row in range(ROWS)], **columns()}
    path = write(tmp_path, cells)
    keyed = ["run", path, "--label", "verkauft", "--key", "k", "--sequence", "s", "--out", tmp_path / "keyed"]
    first = invoke(*keyed)
    assert first.exit_code == 0, first.output
    assert "numbers   preis, grad, menge" in first.output
    assert "--decimal ," in first.stderr
    again = invoke(*keyed)
    assert (again.exit_code, "--decimal" in again.stderr) == (0, False)
    models = ["driftsurf:logistic", "majority"]
    common: dict[str, Any] = {"source": str(path), "label": "verkauft", "drop": ("k", "s", "datum"), "batch_size": 50}
    plain, named = Input(**common), Input(**common, decimal=",", thousands=".")
    results = [compare(tmp_path / str(place), [one], models) for place, one in enumerate((plain, named))]
    errors = [[one.error.value for one in result.sources[0].models] for result in results]
    assert errors[0] == errors[1]
    assert min(errors[0]) < 0.2


@pytest.mark.parametrize(
    ("cells", "options"),
    [
        (("1,5", "2,25"), {"decimal": ","}),
        (("1.467.448", "12.000"), {"decimal": ",", "thousands": "."}),
        (("1.467,45", "12,5"), {"decimal": ",", "thousands": "."}),
        (("1,467.45", "12.5"), {"thousands": ","}),
        (("1,467,450", "12"), {"thousands": ","}),
        (("0,467", "0,125"), {"decimal": ","}),
        (("1 467,45", "12,5"), {"decimal": ",", "thousands": " "}),
        (("1 467", "12"), {"thousands": " "}),
        (("1'467.45", "12.5"), {"thousands": "'"}),
        (("31.12.2025", "01.02.2025"), {"date_formats": ["%d.%m.%Y"]}),
        (("12/31/2025", "01/02/2025"), {"date_formats": ["%m/%d/%Y"]}),
        (("01/02/2025", "03/04/2025"), {}),
        (("1.5", "2.25"), {}),
        (("030 123 456", "089 456 123"), {}),
        (("10.0.0.1", "10.0.0.2"), {}),
        (("a,b", "c"), {}),
    ],
)
def test_signs_and_formats_that_cells_show(cells: tuple[str, ...], options: dict[str, Any], tmp_path: Path) -> None:
    assert inferred(tmp_path, a=repeated(*cells), y=repeated("ja", "nein")) == options


def test_all_columns_decide_together(tmp_path: Path) -> None:
    both = {"a": repeated("1,467", "2,345"), "b": repeated("1.467,5", "3,5"), "c": repeated("1.234", "2.345")}
    assert inferred(tmp_path, **both) == {"decimal": ",", "thousands": "."}
    grouped = {"a": repeated("1,467", "2,345"), "b": repeated("12.5", "3.5")}
    assert inferred(tmp_path, **grouped) == {"thousands": ","}


@pytest.mark.parametrize(
    ("cells", "choices"),
    [
        ({"a": ("1,467", "2,345")}, ("--decimal ,", "--thousands ,", "--kind a=text")),
        ({"a": ("1,5", "2,25"), "b": ("1.5", "2.25")}, ("--decimal ,", "--kind a=text")),
        ({"a": ("1,5", "2,25", "k.A.")}, ("--decimal ,", "--missing k.A.", "--kind a=text")),
    ],
)
@pytest.mark.parametrize("command", ["run", "compare"])
def test_what_stays_in_doubt_stops_the_command_and_each_choice_works(
    command: str, cells: dict[str, tuple[str, ...]], choices: tuple[str, ...], tmp_path: Path
) -> None:
    table = {name: repeated(*own) * 10 for name, own in cells.items()}
    table["y"] = repeated("ja", "nein", "nein") * 10
    path = write(tmp_path, table)
    models = [] if command == "run" else ["--models", "majority"]
    common = [command, path, "--label", "y", "--batch-size", 50, *models]
    found = invoke(*common, "--out", tmp_path / "none")
    assert found.exit_code != 0
    assert not (tmp_path / "none").exists()
    for choice in choices:
        assert choice in found.output
    chosen = choices[-1].split()
    done = invoke(*common, *chosen, "--out", tmp_path / "done")
    assert done.exit_code == 0, done.output


def test_options_of_the_user_take_precedence(tmp_path: Path) -> None:
    path = write(tmp_path, {"a": repeated("1,5", "2,25"), "d": repeated("31.12.2025"), "y": repeated("ja", "nein")})
    for reading in (
        ReadingOptions(decimal=",", date_formats=("%d.%m.%Y",)),
        ReadingOptions(kinds={"a": "text", "d": "text"}),
        ReadingOptions(categorical=("a", "d")),
    ):
        source = open_source(path, reading)
        assert infer_options(source, next(source.tables())[0]).options == {}


def test_standard_input_names_the_options_because_it_is_read_once(tmp_path: Path) -> None:
    text = write(tmp_path, {"a": repeated("1,5", "2,25"), "y": repeated("ja", "nein")}).read_text()
    found = invoke("run", "-", "--label", "y", "--out", tmp_path / "run", input=text)
    assert found.exit_code != 0
    assert "--decimal ," in found.output
    given = invoke("run", "-", "--label", "y", "--decimal", ",", "--out", tmp_path / "run", input=text)
    assert given.exit_code == 0, given.output


def test_labels_that_come_later_are_read_as_their_cells_show(tmp_path: Path) -> None:
    rows, labels = tmp_path / "rows.csv", tmp_path / "labels.csv"
    rows.write_text("id;a\n" + "".join(f"n{row};{row % 7},5\n" for row in range(300)))
    labels.write_text("id;y\n" + "".join(f"n{row};{row % 7 * 2},25\n" for row in range(300)))
    out = tmp_path / "run"
    found = invoke("run", rows, "--labels", labels, "--id", "id", "--label", "y", "--batch-size", 50, "--out", out)
    assert found.exit_code == 0, found.output
    assert json.loads((out / "run.json").read_text())["decided"]["target"].count("regression") == 1


def test_text_of_a_frame_that_looks_like_numbers_is_refused(tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": repeated("1,5", "2,25"), "y": repeated("ja", "nein")})
    with pytest.raises(SchemaError, match=r"'a'.*'1,5'.*kinds="):
        driftsurf.run(frame, label="y", batch_size=10, out=tmp_path / "run")
    kept = driftsurf.run(frame, label="y", batch_size=10, kinds={"a": "text"}, out=tmp_path / "run")
    assert kept.no_model == ""


def test_the_delimiter_is_the_one_that_cuts_all_rows_alike(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("preis, netto, EUR;menge, in kg;y\n" + "1,5;2;ja\n2,5;3;nein\n" * 30)
    table = next(open_source(path).tables())[0]
    assert list(table.columns) == ["preis, netto, EUR", "menge, in kg", "y"]


def test_decimal_commas_beside_commas_between_cells_are_not_names_of_rows(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("grad,menge,y\n" + "10,2,27,ja\n10,4,3,nein\n" * 30)
    found = invoke("run", path, "--label", "y", "--out", tmp_path / "run")
    assert found.exit_code != 0
    assert "line 2" in found.output
    path.write_text("grad,y\n" + "".join(f"row{row},{row}.5,{'ja' if row % 2 else 'nein'}\n" for row in range(60)))
    assert list(next(open_source(path).tables())[0].columns) == ["column_1", "grad", "y"]
