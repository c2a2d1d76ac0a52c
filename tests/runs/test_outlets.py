"""Copies of the journal and of the trace: the same lines as the files of the run, also after a kill."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from driftsurf import run
from driftsurf.errors import RunFolderError
from driftsurf.runs.folder import JOURNAL, TRACE


def rows_of(folder: Path, stem: str) -> list[dict[str, Any]]:
    """Return the rows of the files of a Parquet sink with checkpoints."""
    return [row for part in sorted(folder.glob(f"{stem}-*.parquet")) for row in pq.read_table(part).to_pylist()]


def check_copies(result: Path, journal: list[dict[str, Any]], trace: list[dict[str, Any]]) -> None:
    lines = (result / JOURNAL).read_text().splitlines()
    assert [row["row"] for row in journal] == list(range(len(lines)))
    assert [row["record"] for row in journal] == lines
    assert [row["type"] for row in journal] == [json.loads(line)["type"] for line in lines]
    assert any(row["text"] and "reactive" in row["text"] for row in journal)
    cells = list(csv.DictReader((result / TRACE).read_text().splitlines()[1:]))
    assert [(row["step"], row["error"], row["state"]) for row in trace] == [
        (int(one["step"]), float(one["error"]), one["state"]) for one in cells
    ]
    assert [row["row"] for row in trace] == list(range(len(cells)))


def test_copies_have_the_lines_of_the_files(tmp_path: Path) -> None:
    options: dict[str, Any] = {"rows": 5_000, "out": tmp_path / "out", "trace_to": tmp_path / "trace.parquet"}
    run("sine1", journal_to=tmp_path / "journal.parquet", **options)
    journal = pq.read_table(tmp_path / "journal.parquet").to_pylist()
    check_copies(tmp_path / "out", journal, pq.read_table(tmp_path / "trace.parquet").to_pylist())
    with pytest.raises(RunFolderError, match="choose another file for journal_to"):
        run("sine1", rows=5_000, out=tmp_path / "other", journal_to=tmp_path / "journal.parquet")


def test_a_resumed_run_copies_every_line_once(tmp_path: Path) -> None:
    steps = 0

    def stop(step: int, model: str, error: float, decisions: Any) -> None:
        nonlocal steps
        steps += 1
        if steps in (13, 31):
            raise RuntimeError("killed")

    def go() -> None:
        copies = {"journal_to": tmp_path / "journal.parquet", "trace_to": tmp_path / "trace.parquet"}
        run("sine1", rows=5_000, checkpoint=tmp_path / "live", resume=True, on_step=stop, **copies)  # type: ignore[arg-type]

    for _ in range(2):
        with pytest.raises(RuntimeError, match="killed"):
            go()
    go()
    check_copies(tmp_path / "live" / "result", rows_of(tmp_path, "journal"), rows_of(tmp_path, "trace"))
