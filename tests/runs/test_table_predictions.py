"""Predictions that ``driftsurf run`` writes to files and to standard output."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet
import pytest
from commands import invoke
from table_files import write_csv
from table_runs import LEARN, ROWS, good, killed

from driftsurf import Trace


def test_predictions_in_every_format_match_the_scored_errors(tmp_path: Path) -> None:
    source = write_csv(tmp_path, ROWS)
    for name in ("p.csv", "p.jsonl", "p.parquet"):
        good(source, *LEARN, "--predictions", tmp_path / name, "--out", tmp_path / f"run {name}")
    lines = [json.loads(line) for line in (tmp_path / "p.jsonl").read_text().splitlines()]
    assert lines == pyarrow.parquet.read_table(tmp_path / "p.parquet").to_pylist()
    assert [line.split(",")[:3] for line in (tmp_path / "p.csv").read_text().splitlines()[1:]] == [
        [str(line["row"]), str(line["version"]), line["label"]] for line in lines
    ]
    assert [line["version"] for line in lines] == [row // 100 for row in range(1500)]
    assert all(0.5 <= line["probability"] <= 1.0 for line in lines)
    wrong = sum(line["label"] != row["sold"] for line, row in zip(lines, ROWS, strict=True))
    assert wrong == Trace.load(tmp_path / "run p.csv" / "trace.csv").of("driftsurf")["errors"].sum()
    refused = invoke("run", source, *LEARN, "--predictions", tmp_path / "p.csv")
    assert refused.exit_code == 1
    assert "p.csv" in refused.output


def test_predictions_on_standard_output_are_not_mixed_with_other_output(tmp_path: Path) -> None:
    command = ["run", write_csv(tmp_path, ROWS[:300]), *LEARN[:-1], "--predictions", "-", "--out", tmp_path / "run"]
    result = invoke(*command)
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0] == "row,version,label,probability"
    assert [line.split(",")[0] for line in lines[1:]] == [str(row) for row in range(300)]
    assert "majority" in result.stderr


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
