"""Runs over tables whose labels arrive late, by key, by delay or by time."""

from __future__ import annotations

import json
import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from table_files import FORMS, write_csv
from table_runs import LATE, LEARN, ROWS, SAVED, files_of, good, killed, split

import driftsurf
from driftsurf import Trace
from driftsurf.errors import DriftsurfWarning, LabelError
from driftsurf.evaluation.summary import RegressionSummary
from driftsurf.report.run_page import render_record
from driftsurf.runs.explanation.records import read_run


def test_late_labels_are_scored_only_after_a_model_has_learned(tmp_path: Path) -> None:
    output = good(write_csv(tmp_path, ROWS), *LEARN[:-1], "--delay", 1, "--out", tmp_path / "run").output
    first = next(line for line in output.splitlines() if line.startswith("step 0: "))
    assert "nothing scored yet" in first
    assert not re.search(r"\d\.\d", first)  # no error yet
    assert Trace.load(tmp_path / "run" / "trace.csv").warmup_steps == 0


def test_late_regression_targets_are_predicted_labelled_and_scored(tmp_path: Path) -> None:
    path = tmp_path / "prices.csv"
    path.write_text("x,price\n" + "".join(f"{i * 7 % 50},{i * 7 % 50 + 0.5}\n" for i in range(400)))
    output = good(path, "--label", "price", "--batch-size", 100, "--delay", 1, "--out", tmp_path / "run").output
    counts = next(line for line in output.splitlines() if "expired" in line)
    assert re.findall(r"\d+", counts)[:4] == ["400", "400", "200", "0"]  # predicted, labelled, scored, expired


@pytest.mark.parametrize("size", [500, 2000])  # the first rows have no label; kinds are decided by 1,000 rows
def test_numbers_that_are_missing_at_first_are_read_as_numbers(tmp_path: Path, size: int) -> None:
    path = tmp_path / "prices.csv"
    path.write_text("x,price\n" + "".join(f"{i % 50},{i % 50 + 0.5 if i >= 1000 else ''}\n" for i in range(3000)))
    run: dict[str, Any] = {"label": "price", "batch_size": size}
    if size < 1000:
        with pytest.raises(LabelError, match=r"'price'.* 500 "):
            driftsurf.run(path, **run, out=tmp_path / "auto")
        run["task"] = "regression"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DriftsurfWarning)  # x tells the label
        result = driftsurf.run(path, **run, out=tmp_path / "run")
    assert isinstance(result.summary, RegressionSummary)
    assert result.unlabelled_rows == 1000


def test_labels_from_a_file_without_delay_train_the_same_model(tmp_path: Path) -> None:
    rows, labels = split(tmp_path, ROWS)
    output = good(rows, "--labels", labels, *LATE, "--out", tmp_path / "late").output
    good(write_csv(tmp_path, ROWS), *LEARN, "--out", tmp_path / "plain")
    late, plain = (Trace.load(tmp_path / name / "trace.csv").of("driftsurf") for name in ("late", "plain"))
    assert late["errors"][1:].tolist() == plain["errors"][1:].tolist()
    assert late["rows"][0] == 0  # the first batch came before there was a model
    for name in ("step", "first_row", "state", "transition", "gradients"):
        assert late[name].tolist() == plain[name].tolist()
    for name in ("predicted_by", "trained_from"):
        assert late[name][1:].tolist() == plain[name][1:].tolist()
    *journal, orphans = (tmp_path / "late" / "journal.jsonl").read_text().splitlines()
    assert journal == (tmp_path / "plain" / "journal.jsonl").read_text().splitlines()
    assert json.loads(orphans)["total"] == 0
    counts = next(line for line in output.splitlines() if "1,500" in line)
    assert re.findall(r"\d,\d+", counts) == ["1,500", "1,500", "1,400"]  # predicted, labelled, scored


def test_late_labels_are_counted_by_outcome(tmp_path: Path) -> None:
    rows, labels = split(tmp_path, ROWS, shuffled=300)
    text = labels.read_text().splitlines()
    (tmp_path / "labels.csv").write_text("\n".join([*text[:700], text[3], "r99999,,no", *text[700:]]) + "\n")
    out = good(
        rows, "--labels", labels, *LATE, "--delay", 3, "--timeout", 350, "--max-pending", 550,
        "--predictions", tmp_path / "p.csv", "--out", tmp_path / "late",
    ).output  # fmt: skip
    counts = " ".join(out.split())
    assert "1 orphan" in counts
    assert "duplicate" in counts
    assert " 0 late" not in counts
    first, *lines = (tmp_path / "p.csv").read_text().splitlines()
    assert first == "row,id,prediction,probability,version"
    assert lines[0] == "0,r00000,,,0"
    assert lines[-1].startswith("1499,r01499,")


def test_labels_in_any_order_find_their_rows(tmp_path: Path) -> None:
    rows, labels = split(tmp_path, ROWS, shuffled=500)
    head, *lines = labels.read_text().splitlines()
    lines = [line for place, line in enumerate(lines) if place % 10]  # labels run ahead of rows without a label
    labels.write_text("\n".join([head, *lines]) + "\n")
    result = driftsurf.run(
        rows, labels=str(labels), key="id", label="sold", drop=["when"], batch_size=100, out=tmp_path / "run"
    )
    counts = result.label_counts
    assert counts is not None
    assert (counts.labelled, counts.orphan, counts.late, counts.duplicate) == (len(lines), 0, 0, 0)
    assert counts.waiting == len(ROWS) - len(lines)
    assert "had no row" not in (tmp_path / "run" / "report.html").read_text()


def test_rows_that_still_wait_for_a_label_are_counted(tmp_path: Path) -> None:
    rows, labels = split(tmp_path, ROWS)
    labels.write_text("\n".join(labels.read_text().splitlines()[:-7]) + "\n")
    output = good(rows, "--labels", labels, *LATE, "--out", tmp_path / "run").output
    assert "7 waiting" in " ".join(output.split())


def test_labels_without_a_row_are_warned_of(tmp_path: Path) -> None:
    rows, labels = split(tmp_path, ROWS)
    labels.write_text(labels.read_text() + "".join(f"r9999{i},,no\n" for i in range(3)))
    output = good(rows, "--labels", labels, *LATE, "--out", tmp_path / "run").output
    assert "warning: 3 labels had no row" in " ".join(output.split())
    assert "3 labels had no row" in (tmp_path / "run" / "report.html").read_text()
    assert "3 labels had no row" in render_record(read_run(tmp_path / "run"))


def test_delay_is_a_number_of_batches(tmp_path: Path) -> None:
    source = write_csv(tmp_path, ROWS)
    for delay in (0, 3):
        good(
            source, *LEARN, "--delay", delay, "--predictions", tmp_path / f"{delay}.csv", "--out", tmp_path / f"{delay}"
        )
    versions = [int(line.split(",")[-1]) for line in (tmp_path / "3.csv").read_text().splitlines()[1:]]
    assert versions == [max(0, row // 100 - 3) for row in range(1500)]
    now, later = (Trace.load(tmp_path / name / "trace.csv").of("driftsurf") for name in ("0", "3"))
    assert later["errors"].sum() > now["errors"][3:].sum()
    assert int(later["rows"].sum()) == 1100


def test_labels_arrive_by_their_time(tmp_path: Path) -> None:
    rows, labels = split(tmp_path, ROWS)
    days = ["--time", "when", "--batch-seconds", 86_400]
    good(rows, "--labels", labels, *LATE, *days, "--predictions", tmp_path / "p.csv", "--out", tmp_path / "late")
    versions: dict[str, set[int]] = {}
    for line, row in zip((tmp_path / "p.csv").read_text().splitlines()[1:], ROWS, strict=True):
        versions.setdefault(row["when"][:10], set()).add(int(line.split(",")[-1]))
    steps = [found.pop() for found in versions.values() if len(found) == 1]
    assert len(steps) == len(versions)
    assert steps[0] == 0
    assert steps == sorted(steps)


@pytest.mark.parametrize("form", ["csv.gz", "parquet", "jsonl", "folder"])
def test_killed_run_with_late_labels_ends_with_the_same_bytes(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, labels = split(tmp_path, ROWS, shuffled=300)
    source = FORMS[form](tmp_path, ROWS if form == "folder" else [{k: r[k] for k in r if k != "sold"} for r in ROWS])
    ends = {}
    for name, kills in (("whole", ()), ("killed", (1, 5, 13))):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        late = ["--delay", 2, "--label", "sold", "--batch-size", 100, "--quiet", "--drop", "id"]
        if form != "folder":
            late = ["--labels", labels, *LATE, "--timeout", 600]
        command = [source, *late, *SAVED, "--on-bad-row", "skip", "--resume"]
        for step in kills:
            killed(step, *command)
        ends[name] = good(*command).output, files_of(tmp_path / name)
    assert ends["killed"][1] == ends["whole"][1]
    assert ends["killed"][0].splitlines()[-2:] == ends["whole"][0].splitlines()[-2:]


def test_bad_rows_of_late_labels_are_reported_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, labels = split(tmp_path, ROWS)
    for path, place in ((rows, 130), (labels, 470), (labels, 1490)):
        lines = path.read_text().splitlines()
        lines[place] += ",more"
        path.write_text("\n".join(lines) + "\n")
    ends = {}
    for name, kills in (("whole", ()), ("killed", (4, 9))):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        command = [rows, "--labels", labels, *LATE, *SAVED, "--on-bad-row", "skip", "--resume"]
        for step in kills:
            killed(step, *command)
        assert "skipped rows: 3" in good(*command).output
        ends[name] = files_of(tmp_path / name)
    assert ends["killed"] == ends["whole"]
    assert len((tmp_path / "killed" / "live" / "bad_rows.jsonl").read_text().splitlines()) == 3


@pytest.mark.parametrize("delay", [0, 1, 3])
def test_trivial_rules_know_the_labels_that_had_arrived(tmp_path: Path, delay: int) -> None:
    good(write_csv(tmp_path, ROWS), *LEARN[:-1], "--delay", delay, "--out", tmp_path / "run")
    run = Trace.load(tmp_path / "run" / "trace.csv").of("driftsurf")
    labels = [row["sold"] for row in ROWS]
    batches = [labels[start : start + 100] for start in range(0, len(labels), 100)]
    scored = np.flatnonzero(run["rows"]).tolist()
    assert run["step"][scored].tolist() == list(range(delay + 1, len(batches)))
    for step in scored:
        known = labels[: 100 * (step - delay)]
        usual = max(("no", "yes"), key=known.count)
        assert run["majority_errors"][step] == sum(label != usual for label in batches[step])
        assert run["persistence_errors"][step] == sum(label != known[-1] for label in batches[step])
