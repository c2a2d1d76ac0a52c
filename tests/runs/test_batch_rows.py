"""Rows of a time step of a run over files, if the user names none."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from table_runs import good, killed

import driftsurf
from driftsurf.data import open_source
from driftsurf.runs.explanation.records import read_run
from driftsurf.runs.plan_tables import default_batch_rows
from driftsurf.session.session import step_rows

PLAIN: dict[str, Any] = {"label": "y", "model": "oblivious", "learner": "logistic"}


def table(count: int, seed: int = 0) -> str:
    """Return rows of a rule of one column, as CSV."""
    x = np.random.default_rng(seed).normal(size=count).round(3)
    return "x,y\n" + "".join(f"{value},{'yes' if value > 0 else 'no'}\n" for value in x.tolist())


def sizes(result: Any) -> set[int]:
    return {decision.rows for decision in result.decisions}


@pytest.mark.parametrize(("rows", "expected"), [(40, 100), (4_000, 100), (6_000, 120), (60_000, None)])
def test_a_step_is_a_fiftieth_of_a_small_file(tmp_path: Path, rows: int, expected: int | None) -> None:
    (tmp_path / "a.csv").write_text(table(rows))
    assert default_batch_rows(open_source(tmp_path / "a.csv")) == expected


def test_rows_that_cannot_be_counted_have_the_usual_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.csv").write_text(table(300))
    assert default_batch_rows(open_source(tmp_path / "a.csv", follow=lambda: False)) is None
    monkeypatch.setattr("sys.stdin", io.StringIO(table(300)))
    assert default_batch_rows(open_source("-", driftsurf.data.ReadingOptions(format="csv"))) is None


def test_counting_stops_at_a_bad_row_which_the_run_reports(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(table(7_000) + "none,yes\n" + table(7_000).partition("\n")[2])
    assert default_batch_rows(open_source(tmp_path / "a.csv")) == step_rows(5_000)
    with pytest.raises(driftsurf.errors.BadRowError, match="7002"):
        driftsurf.run(tmp_path / "a.csv", **PLAIN)


def test_a_run_over_a_small_file_has_small_steps_unless_told_otherwise(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(table(1_200))
    result = driftsurf.run(tmp_path / "a.csv", **PLAIN, out=tmp_path / "run")
    assert sizes(result) == {100}
    assert result.about["batch_size"] is None
    assert result.about["decided"]["batch_size"] == 100
    asked = driftsurf.run(tmp_path / "a.csv", **PLAIN, batch_size=300)
    assert sizes(asked) == {300}
    assert "batch_size" not in asked.about["decided"]
    late = driftsurf.run(tmp_path / "a.csv", **PLAIN, delay=1)
    assert sizes(late) == {1000}


def test_the_first_thousand_rows_decide_about_columns_and_label(tmp_path: Path) -> None:
    # The label has one class in the first steps, and few values in the first hundred rows.
    rows = "".join(f"{k % 7},{k % 2 if k < 200 else k},{k}\n" for k in range(1_200))
    (tmp_path / "a.csv").write_text("x,y,z\n" + rows)
    result = driftsurf.run(tmp_path / "a.csv", label="y", model="oblivious", drop=["z"], out=tmp_path / "run")
    assert sizes(result) == {100}
    assert result.trace.labels == ()


def test_a_run_that_resumes_or_starts_from_another_keeps_its_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("in").mkdir()
    Path("in/a.csv").write_text(table(1_200))
    command = [
        "in",
        "--label",
        "y",
        "--model",
        "oblivious",
        "--checkpoint",
        "live",
        "--every",
        "2",
        "--resume",
        "--quiet",
    ]
    killed(5, *command)
    Path("in/b.csv").write_text(table(12_000, seed=1))
    assert default_batch_rows(open_source("in")) == 264
    good(*command)
    steps = read_run("live/result").decisions
    assert [one.rows for one in steps] == [100] * 132
    more = driftsurf.run("in/b.csv", start_from="live/result", out="more")
    assert sizes(more) == {100}
