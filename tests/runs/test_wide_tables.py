"""Every run leaves a model that can predict, however wide its table is, or fails."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import invoke

import driftsurf
from driftsurf.core import files
from driftsurf.core.state import from_bytes, to_bytes, to_parts
from driftsurf.keyed import KeyedOptions
from driftsurf.runs import plan_tables
from driftsurf.runs.start import FinishedRun
from driftsurf.service.blueprint import Blueprint
from driftsurf.service.settings import ModelSettings

COLUMNS = 60


def write(folder: Path, rows: int = 600, columns: int = COLUMNS, **constant: str) -> Path:
    """Write a table of numbers whose first two columns tell the label y."""
    random = np.random.default_rng(0)
    X = random.normal(size=(rows, columns)).round(3)
    y = X[:, 0] + X[:, 1] > 0
    names = [*(f"c{place}" for place in range(columns)), *constant, "y"]
    lines = [",".join([*map(str, row), *constant.values(), str(int(label))]) for row, label in zip(X, y, strict=True)]
    path = folder / "wide.csv"
    path.write_text("\n".join([",".join(names), *lines]) + "\n")
    return path


@pytest.fixture
def little(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the rows of a model take as little memory as 150 rows of the table do."""
    monkeypatch.setattr(plan_tables, "MOST_KEPT_BYTES", 150 * 8 * (COLUMNS + 1))
    monkeypatch.setattr(plan_tables, "FEWEST_KEPT", 10)


def kept(folder: Path) -> int:
    """Return how many rows the saved model of a run keeps at most."""
    return int(driftsurf.load(folder).max_rows)


@pytest.mark.usefixtures("little")
@pytest.mark.parametrize("model", ["recommended-linear", "recommended-light"])
def test_a_wide_table_keeps_as_many_rows_as_its_bytes_allow_and_says_so(model: str, tmp_path: Path) -> None:
    table, out = write(tmp_path), tmp_path / "run"
    found = invoke("run", table, "--label", "y", "--model", model, "--batch-size", 50, "--out", out)
    assert found.exit_code == 0, found.output
    assert "the last 150 rows" in found.output
    assert "--max-rows" in found.output
    assert kept(out) == 150
    predicted = invoke("predict", out, table)
    assert (predicted.exit_code, len(predicted.stdout.splitlines())) == (0, 601)


@pytest.mark.usefixtures("little")
def test_the_named_number_of_rows_takes_precedence(tmp_path: Path) -> None:
    table, common = write(tmp_path), ["--label", "y", "--batch-size", 50]
    asked = invoke("run", table, *common, "--max-rows", 333, "--model", "driftsurf", "--out", tmp_path / "asked")
    assert (asked.exit_code, kept(tmp_path / "asked")) == (0, 333)
    assert "keeps" not in asked.output
    named = invoke("run", table, *common, "--model", "driftsurf(max_rows=222)", "--out", tmp_path / "named")
    assert (named.exit_code, kept(tmp_path / "named")) == (0, 222)
    all_rows = invoke("run", table, *common, "--model", "sliding-window", "--out", tmp_path / "all")
    assert all_rows.exit_code == 0
    assert driftsurf.load(tmp_path / "all").max_rows is None


@pytest.mark.usefixtures("little")
def test_a_resumed_run_and_one_that_starts_from_another_keep_as_many_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options: dict[str, Any] = {"label": "y", "model": "driftsurf", "batch_size": 50}
    table = write(tmp_path)
    whole = driftsurf.run(table, **options, out=tmp_path / "whole").folder
    driftsurf.run(table, **options, checkpoint=tmp_path / "live")
    monkeypatch.undo()  # what the beginning decided holds, whatever a later version decides
    resumed = driftsurf.run(table, **options, checkpoint=tmp_path / "live", resume=True).folder
    assert (resumed / "model.state").read_bytes() == (whole / "model.state").read_bytes()
    following = driftsurf.run(table, label="y", start_from=whole, out=tmp_path / "next").folder
    assert kept(following) == 150
    assert json.loads((following / "run.json").read_text())["decided"]["max_rows"] == 150
    served = Blueprint.of("served", ModelSettings(), FinishedRun.read(whole)).strategy("binary")
    assert served.max_rows == 150  # type: ignore[attr-defined]


def test_a_run_that_learned_nothing_fails(tmp_path: Path) -> None:
    rows, labels = tmp_path / "rows.csv", tmp_path / "labels.csv"
    rows.write_text("id,a\n" + "".join(f"{place},{place % 7}\n" for place in range(300)))
    labels.write_text("id,y\n" + "".join(f"x{place},{place % 2}\n" for place in range(300)))
    out = tmp_path / "run"
    found = invoke("run", rows, "--labels", labels, "--id", "id", "--label", "y", "--out", out)
    assert found.exit_code == 1, found.output
    assert "model.state" in found.output
    assert (out / "report.html").exists()


def test_parts_of_a_state_are_its_bytes_and_hold_no_copy_of_arrays(tmp_path: Path) -> None:
    rows = np.arange(12.0).reshape(4, 3)
    state = {"X": rows, "column": rows[:, 1], "flags": np.array([True, False]), "none": np.zeros((0, 3)), "seed": 1}
    parts = to_parts(state)
    assert b"".join(parts) == to_bytes(state)
    assert any(np.shares_memory(np.frombuffer(part, np.uint8), rows) for part in parts if isinstance(part, memoryview))
    files.write_parts(tmp_path / "state", parts)
    read: Any = from_bytes((tmp_path / "state").read_bytes())["X"]
    assert read.tolist() == rows.tolist()


def test_the_default_bound_of_a_key_holds_the_rows_that_it_keeps() -> None:
    for width in (3, 3_000, 30_000):
        made = KeyedOptions().learner([f"c{place}" for place in range(width)])
        assert made.max_bytes >= made.strategy.max_rows * 4 * width  # type: ignore[attr-defined]
    assert KeyedOptions(max_bytes=5).learner(["a"]).max_bytes == 5


def test_keys_of_a_wide_table_are_not_put_in_quarantine_for_its_width(tmp_path: Path) -> None:
    table = write(tmp_path, rows=200, columns=12_000, key="a")
    lines = table.read_text().splitlines()
    table.write_text("\n".join([f"{lines[0]},s", *(f"{line},{place}" for place, line in enumerate(lines[1:]))]))
    out = tmp_path / "run"
    result = driftsurf.run(table, label="y", key="key", sequence="s", out=out)
    assert result.keys is not None
    assert [(about["rows"], about["quarantine"]) for about in result.keys.values()] == [(200, "")]


@pytest.mark.parametrize(("command", "named"), [("run", True), ("predict", False)])
def test_too_little_memory_names_an_option_of_the_command(
    command: str, named: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise MemoryError("no memory for 12 MiB of rows")

    table = write(tmp_path, rows=300)
    folder = driftsurf.run(table, label="y", model="driftsurf", out=tmp_path / "run").folder
    monkeypatch.setattr("driftsurf.data.encoding.TableEncoder.rows", fail)
    words: dict[str, list[Any]] = {"run": [table, "--label", "y", "--model", "driftsurf"], "predict": [folder, table]}
    found = invoke(command, *words[command])
    assert found.exit_code == 1
    assert ("--max-rows" in found.output) is named
