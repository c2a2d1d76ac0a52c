"""Predictions in a file of SQLite."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

import driftsurf
from driftsurf.checks import WriterCase, check_writer
from driftsurf.checks.connectors import COLUMNS
from driftsurf.connectors.sqlite import SqliteWriter
from driftsurf.errors import RunFolderError, SourceError


def held(path: Path, table: str = "predictions") -> list[dict[str, Any]]:
    file = sqlite3.connect(path)
    file.row_factory = sqlite3.Row
    try:
        return [dict(row) for row in file.execute(f"select * from {table} order by row")]
    finally:
        file.close()


def test_the_writer_conforms(tmp_path: Path) -> None:
    path = tmp_path / "scores.sqlite"
    check_writer(WriterCase(lambda: SqliteWriter(str(path), COLUMNS), lambda: held(path)))


def test_two_writers_do_not_mix_their_rows(tmp_path: Path) -> None:
    first, second = (SqliteWriter(str(tmp_path / "x.db"), {"row": "integer", "prediction": "text"}) for _ in range(2))
    assert first.open() == second.open() == 0
    first.write(0, [{"row": 0, "prediction": "\ud800"}])
    with pytest.raises(SourceError, match="holds 1 rows, and rows from 0 on"):
        second.write(0, [{"row": 0, "prediction": "no"}])
    first.close()
    second.close()
    assert held(tmp_path / "x.db") == [{"row": 0, "prediction": "?"}]


def test_files_that_are_something_else_are_refused(tmp_path: Path) -> None:
    (tmp_path / "x.db").write_text("no database, " * 1_000)
    writer = SqliteWriter(str(tmp_path / "x.db"), COLUMNS)
    with pytest.raises(SourceError, match="not a database"):
        writer.open()
    writer.close()
    file = sqlite3.connect(tmp_path / "y.db")
    file.execute("create table predictions (a int)")
    file.close()
    writer = SqliteWriter(str(tmp_path / "y.db"), COLUMNS)
    with pytest.raises(SourceError, match="has no column 'row'"):
        writer.open()
    writer.close()


def test_a_run_writes_to_it(tmp_path: Path) -> None:
    rows = "".join(f"{n % 7},{'yes' if n % 7 > 3 else 'no'}\n" for n in range(300))
    (tmp_path / "rows.csv").write_text(f"a,sold\n{rows}")
    options: dict[str, Any] = {"label": "sold", "batch_size": 50, "out": tmp_path / "run"}
    path = tmp_path / "scores.sqlite"
    driftsurf.run(tmp_path / "rows.csv", predictions=path, journal_to=path, **options)
    found = held(path)
    assert [row["row"] for row in found] == list(range(300))
    assert {row["true"] for row in found} == {"yes", "no"}
    assert len(held(path, "journal")) >= 6
    with pytest.raises(RunFolderError, match="already holds 300 rows"):
        driftsurf.run(tmp_path / "rows.csv", predictions=path, **{**options, "out": tmp_path / "second"})
