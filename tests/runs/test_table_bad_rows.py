"""Rows that cannot be read: they fail a run, or are skipped, counted and kept."""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
from pathlib import Path
from typing import Any

import pytest
from commands import invoke
from table_files import csv_text
from table_runs import LEARN, ROWS, broken, good, killed

from driftsurf.report.run_page import NOTHING_SCORED
from driftsurf.runs.batches import TableBatches
from driftsurf.runs.late import LateBatches


def test_bad_rows_fail_a_run_or_are_skipped_counted_and_written_to_a_file(tmp_path: Path) -> None:
    source = tmp_path / "sales.csv"
    source.write_text(broken(ROWS[:400]))
    refused = invoke("run", source, *LEARN, "--out", tmp_path / "a")
    assert refused.exit_code == 1
    assert "line 51" in refused.output
    output = good(source, *LEARN, "--on-bad-row", "skip", "--out", tmp_path / "run").output
    side = tmp_path / "run" / "bad_rows.jsonl"
    skipped = " ".join(output.split()).partition("skipped rows: ")[2]
    assert skipped.startswith("3")
    assert "rows without a label: 1" in output
    assert side.name in skipped
    assert stat.S_IMODE(side.stat().st_mode) == 0o600
    bad_rows = [json.loads(line) for line in side.read_text().splitlines()]
    assert [bad["line"] for bad in bad_rows] == [51, 251, 402]
    assert bad_rows[0]["raw"].endswith(",too,many")
    good(source, *LEARN, "--on-bad-row", "stop-after 3", "--no-raw", "--out", tmp_path / "few")
    assert "raw" not in (tmp_path / "few" / "bad_rows.jsonl").read_text()
    for allowed, place in (("stop-after=2", "line 402"), ("1", "line 251"), ("0", "line 51")):
        output = " ".join(invoke("run", source, *LEARN, "--on-bad-row", allowed).output.split())
        assert f"--on-bad-row {allowed[-1]}" in output
        assert f"{source}, {place}: " in output
        shutil.rmtree("runs", ignore_errors=True)


def test_run_without_any_label_scores_no_row(tmp_path: Path) -> None:
    lines = [f"{'' if i == 7 else i % 2} {1 + i % 3}:{i}.5 9:1\n" for i in range(200)]
    (tmp_path / "a.svm").write_text("".join(line for line in lines if line[0] != " "))
    good(tmp_path / "a.svm", "--label", "label", "--batch-size", 50, "--quiet", "--out", tmp_path / "run")
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"x": i, "y": None}) + "\n" for i in range(30)))
    assert "--task" in invoke("run", tmp_path / "a.jsonl", "--label", "y").output
    nothing = invoke("run", tmp_path / "a.jsonl", "--label", "y", "--task", "binary", "--out", tmp_path / "none")
    assert (nothing.exit_code, "learned nothing" in nothing.output) == (1, True)  # there is no model to predict with
    assert NOTHING_SCORED in (tmp_path / "none" / "report.html").read_text()


def test_replayed_standard_input_counts_each_bad_row_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = csv_text(ROWS).splitlines()
    for number in (20, 40, 60, 450, 1200):
        lines[number] += ",too,many"
    text = "\n".join(lines) + "\n"
    monkeypatch.chdir(tmp_path)
    command = ["-", *LEARN, "--checkpoint", "live", "--every", 1, "--resume", "--on-bad-row"]
    for step in (3, 9):
        killed(step, *command, 5, input=text)
    assert "skipped rows: 5" in good(*command, 5, input=text).output
    shutil.rmtree("live")
    killed(3, *command, 4, input=text)
    refused = invoke("run", *command, 4, input=text)
    assert refused.exit_code == 1
    assert "--on-bad-row 4" in " ".join(refused.output.split())
    assert len(Path("live/bad_rows.jsonl").read_text().splitlines()) == 4


@pytest.mark.parametrize("kind", [TableBatches, LateBatches])
def test_signal_between_two_batches_counts_no_bad_row_twice(
    kind: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sales.csv").write_text(broken(ROWS))
    monkeypatch.chdir(tmp_path)
    command = ["sales.csv", *LEARN, "--checkpoint", "live", "--on-bad-row", "skip", "--resume"]
    if kind is LateBatches:
        command += ["--labels", "sales.csv", "--key", "id"]
    whole = good(*command).output
    shutil.rmtree("live")
    read = kind.batches

    def batches(self: Any, position: Any = None) -> Any:
        for number, batch in enumerate(read(self, position)):
            if number == 2:  # the third batch has bad rows before it
                os.kill(os.getpid(), signal.SIGTERM)
            yield batch

    with monkeypatch.context() as patch:
        patch.setattr(kind, "batches", batches)
        assert invoke("run", *command).exit_code == 143
    (skipped,) = (line for line in whole.splitlines() if line.startswith("skipped rows: "))
    assert skipped in good(*command).output
    assert len(Path("live/bad_rows.jsonl").read_text().splitlines()) == int(skipped.split()[2].rstrip(";"))
