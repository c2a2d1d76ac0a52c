"""Predictions that ``driftsurf run`` writes to files and to standard output."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet
import pytest
from commands import invoke
from table_files import Row, write_csv
from table_runs import LEARN, ROWS, SAVED, files_of, good, killed

import driftsurf
from driftsurf import Trace
from driftsurf.runs.plan import RunStart


def test_predictions_in_every_format_match_the_scored_errors(tmp_path: Path) -> None:
    source = write_csv(tmp_path, ROWS)
    for name in ("p.csv", "p.jsonl", "p.parquet"):
        good(source, *LEARN, "--predictions", tmp_path / name, "--out", tmp_path / f"run {name}")
    lines = [json.loads(line) for line in (tmp_path / "p.jsonl").read_text().splitlines()]
    assert lines == pyarrow.parquet.read_table(tmp_path / "p.parquet").to_pylist()
    names, *table = csv.reader((tmp_path / "p.csv").read_text().splitlines())
    assert names == ["row", "prediction", "true", "probability", "version"]
    assert [dict(zip(names, map(str, line.values()), strict=True)) for line in lines] == [
        dict(zip(names, cells, strict=True)) for cells in table
    ]
    assert [line["true"] for line in lines] == [row["sold"] for row in ROWS]
    assert [line["version"] for line in lines] == [row // 100 for row in range(1500)]
    assert all(0.5 <= line["probability"] <= 1.0 for line in lines)
    wrong = sum(line["prediction"] != row["sold"] for line, row in zip(lines, ROWS, strict=True))
    assert wrong == Trace.load(tmp_path / "run p.csv" / "trace.csv").of("driftsurf")["errors"].sum()
    refused = invoke("run", source, *LEARN, "--predictions", tmp_path / "p.csv")
    assert refused.exit_code == 1
    assert "p.csv" in refused.output


def test_the_files_of_predictions_are_named_at_the_start_and_at_the_end(tmp_path: Path) -> None:
    source, told = write_csv(tmp_path, ROWS[:600]), list[RunStart]()
    few: dict[str, Any] = {"label": "sold", "drop": ["when", "id"], "batch_size": 100, "progress": False}
    few |= {"model": "recommended-linear", "on_start": told.append}
    one = driftsurf.run(source, predictions=tmp_path / "p.csv", out=tmp_path / "a", **few)
    assert one.predictions == (tmp_path / "p.csv",)
    parts = driftsurf.run(source, predictions=tmp_path / "q.csv", checkpoint=tmp_path / "b", every=4, **few)
    assert parts.predictions == tuple(sorted(tmp_path.glob("q-*.csv")))
    assert len(parts.predictions) == 2
    assert told[0].predictions == ""
    assert parts.predictions[0].name in told[1].predictions
    saved = ["--predictions", tmp_path / "r.csv", "--checkpoint", tmp_path / "c"]
    output = good(source, *LEARN[:-1], *saved).output
    assert output.count("r-000000000000.csv") == 2


def test_predictions_on_standard_output_are_not_mixed_with_other_output(tmp_path: Path) -> None:
    command = ["run", write_csv(tmp_path, ROWS[:300]), *LEARN[:-1], "--predictions", "-", "--out", tmp_path / "run"]
    result = invoke(*command)
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0] == "row,prediction,true,probability,version"
    assert [line.split(",")[0] for line in lines[1:]] == [str(row) for row in range(300)]
    assert "last label" in result.stderr


def test_standard_output_repeats_rows_since_the_last_checkpoint_after_a_kill(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    command = [
        write_csv(tmp_path, ROWS),
        *LEARN,
        "--predictions",
        "-",
        "--checkpoint",
        "live",
        "--every",
        4,
        "--resume",
    ]
    killed(6, *command)
    again = good(*command).stdout.splitlines()
    assert [line.split(",")[0] for line in again[1:]] == [str(row) for row in range(400, 1500)]


def test_built_in_stream_writes_predictions(tmp_path: Path) -> None:
    good("mixed", "--rows", 1000, "--quiet", "--out", tmp_path / "run", "--predictions", tmp_path / "p.csv")
    assert len((tmp_path / "p.csv").read_text().splitlines()) == 1001


def bare(rows: list[Row]) -> list[Row]:
    """Return the rows without every tenth label, and without any in the fourth batch and after row 1,250."""
    return [
        {**row, "sold": None if i % 10 == 3 or 300 <= i < 400 or i >= 1250 else row["sold"]}
        for i, row in enumerate(rows)
    ]


def test_rows_without_a_label_are_predicted_and_not_learned(tmp_path: Path) -> None:
    rows = bare(ROWS)
    source = write_csv(tmp_path, rows)
    command = ["--label", "sold", "--id", "id", "--batch-size", "100"]
    out = good(source, *command, "--predictions", tmp_path / "p.jsonl", "--out", tmp_path / "run").output
    count = sum(row["sold"] is None for row in rows)
    assert f"rows without a label: {count}" in out
    assert f"only predicted: {count} rows" in (tmp_path / "run" / "report.html").read_text()
    assert invoke("explain", tmp_path / "run", "--html", tmp_path / "again.html").exit_code == 0
    assert f"only predicted: {count} rows" in (tmp_path / "again.html").read_text()
    lines = [json.loads(line) for line in (tmp_path / "p.jsonl").read_text().splitlines()]
    assert list(lines[0]) == ["row", "id", "prediction", "true", "probability", "version"]
    assert [(line["row"], line["id"], line["true"]) for line in lines] == [
        (i, row["id"], row["sold"]) for i, row in enumerate(rows)
    ]
    assert all(line["prediction"] in ("yes", "no") for line in lines)
    # Rows with a label are predicted before their batch is learned, the others after it.
    assert [line["version"] for line in lines[:20]] == [int(i % 10 == 3) for i in range(20)]
    assert {line["version"] for line in lines[300:400]} == {3}
    labelled = [row for row in rows if row["sold"] is not None]
    assert int(Trace.load(tmp_path / "run" / "trace.csv").columns["rows"].sum()) == len(labelled)
    later = [i for i, row in enumerate(rows) if row["sold"] is None and i >= 1300]
    assert np.mean([lines[i]["prediction"] == ROWS[i]["sold"] for i in later]) > 0.7


def test_a_run_with_rows_to_predict_resumes_exactly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = write_csv(tmp_path, bare(ROWS))
    ends = {}
    for name, kills in (("whole", ()), ("killed", (3, 8, 14))):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        command = [source, *LEARN, *SAVED, "--resume"]
        for step in kills:
            killed(step, *command)
        good(*command)
        ends[name] = files_of(tmp_path / name)
    assert ends["whole"] == ends["killed"]


def test_predicted_numbers_have_no_probability(tmp_path: Path) -> None:
    source = write_csv(tmp_path, ROWS[:300])
    good(source, "--label", "price", "--drop", "id", "--batch-size", "100", "--predictions", tmp_path / "p.csv")
    assert (tmp_path / "p.csv").read_text().partition("\n")[0] == "row,prediction,true,version"


@pytest.mark.parametrize("late", [[], ["--delay", 1]])
def test_the_probability_of_every_class_is_written_on_request(late: list[Any], tmp_path: Path) -> None:
    source, out = write_csv(tmp_path, bare(ROWS[:600])), tmp_path / "p.jsonl"
    good(source, *LEARN, *late, "--predictions", out, "--all-classes", "--out", tmp_path / "run")
    good(source, *LEARN, *late, "--predictions", tmp_path / "plain.jsonl", "--out", tmp_path / "plain")
    lines, plain = (
        [json.loads(line) for line in path.read_text().splitlines()] for path in (out, tmp_path / "plain.jsonl")
    )
    columns = [f"probability:{name}" for name in ("no", "yes", "(other)")]
    assert [name for name in lines[0] if name.startswith("probability")] == columns
    for line, other in zip(lines, plain, strict=True):
        shares = [line.pop(name) for name in columns]
        assert other.pop("probability") == (None if line["prediction"] is None else max(shares))
        assert line == other
        assert shares == [None] * 3 or (sum(shares) == pytest.approx(1.0) and shares[2] == 0.0)


def test_the_probabilities_of_a_built_in_stream_are_those_of_its_classes(tmp_path: Path) -> None:
    command = ["mixed", "--rows", 1000, "--quiet", "--predictions", tmp_path / "p.csv", "--all-classes"]
    good(*command, "--out", tmp_path / "run")
    names = (tmp_path / "p.csv").read_text().partition("\n")[0]
    assert names == "row,prediction,true,probability:-1,probability:1,version"


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--label", "sold", "--all-classes"], "--predictions"),
        (["--label", "price", "--predictions", "p.csv", "--all-classes"], "LinearRegression"),
        (["--label", "sold", "--learner", "svm", "--predictions", "p.csv", "--all-classes"], "LinearSVM"),
    ],
)
def test_probabilities_that_cannot_be_written_are_refused(
    options: list[str], named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = write_csv(tmp_path, ROWS[:300])
    monkeypatch.chdir(tmp_path)
    refused = invoke("run", source, "--model", "driftsurf", "--drop", "id", *options, "--out", "run")
    assert refused.exit_code != 0
    assert "--all-classes" in refused.output
    assert named in refused.output
    assert not (tmp_path / "p.csv").exists()
