"""``driftsurf run`` over tables: any source in, an honest result out, and exactly the same after any kill."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet
import pytest
from click.testing import CliRunner, Result

from driftsurf import DriftSurfClassifier, Trace
from driftsurf.cli import main
from driftsurf.encoding import TableEncoder
from driftsurf.evaluation import summarise_values
from driftsurf.report import terminal
from driftsurf.runtime import disk
from driftsurf.runtime.checkpoint import CheckpointFolder
from driftsurf.runtime.late import LateSource
from driftsurf.runtime.table_source import TableSource
from driftsurf.state import to_bytes
from driftsurf.tables import Column, Table, read_table
from table_files import FORMS, Row, csv_text, mixed_rows, write_csv

ROWS = mixed_rows(1500)
LEARN = ["--label", "sold", "--drop", "id", "--batch-size", "100", "--quiet"]


class Killed(BaseException):
    """Stands for kill -9: nothing is done after it."""


def invoke(*arguments: Any, input: str | None = None) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments], input=input, catch_exceptions=False)


def good(*arguments: Any, input: str | None = None) -> Result:
    result = invoke("run", *arguments, input=input)
    assert result.exit_code == 0, result.output
    return result


def killed(step: int, *arguments: Any, input: str | None = None) -> None:
    """Run, and be killed in this step."""

    def die(self: terminal.Progress, at: int, *_: object) -> None:
        if at == step:
            raise Killed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(terminal.Progress, "__call__", die)
        with pytest.raises(Killed):
            invoke("run", *arguments, input=input)


def files_of(folder: Path) -> dict[str, bytes]:
    """Whatever must be the same: the result without times, the parts of the predictions, the model at the end."""
    kept = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    found = {
        str(path.relative_to(folder)): path.read_bytes()
        for path in kept
        if path.name not in ("timings.json", "lock") and path.suffix != ".state"
    }
    last = CheckpointFolder(folder / "live").load()
    assert last is not None
    return found | {"model": to_bytes(last.state)}


# ---------------------------------------------------------------------------- results


@functools.cache
def plain_errors() -> list[int]:
    """The errors of each step, without a command line."""
    table = read_table({name: [row[name] for row in ROWS] for name in ROWS[0] if name not in ("id", "when")})
    when = Column("date", np.array([row["when"] for row in ROWS], "datetime64[us]"))
    columns = {name: when if name == "when" else table[name] for name in ROWS[0] if name not in ("id", "sold")}
    model, encoder = DriftSurfClassifier(random_state=0), TableEncoder()
    errors = []
    for start in range(0, len(ROWS), 100):
        batch, y = Table(columns).rows(start, start + 100), table.rows(start, start + 100).labels("sold")
        predicted = model.test_then_train(encoder.partial_fit(batch).transform(batch), y)
        errors.append(int((predicted != y).sum()))
    assert np.mean(errors[1:]) < 30
    return errors


def test_a_file_in_another_encoding_is_read_by_saying_so(tmp_path: Path) -> None:
    source = tmp_path / "latin.csv"
    lines = [f"{('Bern', 'Zürich')[k % 2]},{k % 3},{('no', 'yes')[k % 2]},{k}" for k in range(400)]
    source.write_bytes("\n".join(["city,price,sold,id", *lines]).encode("latin-1"))
    refused = invoke("run", source, *LEARN, "--out", tmp_path / "refused")
    assert refused.exit_code == 1
    assert "UTF-8" in refused.output
    good(source, *LEARN, "--encoding", "latin-1", "--out", tmp_path / "run")


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_a_table_gives_the_same_result(form: str, tmp_path: Path) -> None:
    source = FORMS[form](tmp_path, ROWS)
    output = good(source, *LEARN, "--out", tmp_path / "run").output
    trace = Trace.load(tmp_path / "run" / "trace.csv")
    assert trace.labels == ("no", "yes")
    assert trace.of("driftsurf")["errors"].tolist() == plain_errors()
    for word in ("majority", "persistence", "switches to a new model", "report:"):
        assert word in output
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == [
        "columns.csv",
        "journal.jsonl",
        "report.html",
        "run.json",
        "timings.json",
        "trace.csv",
    ]
    said = json.loads((tmp_path / "run" / "run.json").read_text())
    assert said["decided"]["classes"] == ["no", "yes"]
    assert "driftsurf on " in (tmp_path / "run" / "report.html").read_text()


def test_the_baselines_are_those_of_the_rows(tmp_path: Path) -> None:
    output = good(write_csv(tmp_path, ROWS), *LEARN, "--out", tmp_path / "run").output
    numbers = [float(word) for word in next(line for line in output.splitlines() if "error" in line).split()[1:]]
    labels = [row["sold"] for row in ROWS]
    persistence = sum(a != b for a, b in zip(labels[100:], labels[99:], strict=False))
    seen: dict[str, int] = {"no": 0, "yes": 0}
    majority = 0
    for start in range(0, len(labels), 100):
        best = max(seen, key=lambda name: seen[name])
        batch = labels[start : start + 100]
        majority += sum(label != best for label in batch) if start else 0  # nobody had learnt before the first
        for label in batch:
            seen[label] += 1
    assert numbers[1:] == pytest.approx([majority / 1400, persistence / 1400], abs=5e-5)
    assert numbers[0] == pytest.approx(sum(plain_errors()[1:]) / 1400, abs=5e-5)
    assert "errors without the first batch, which nobody had learnt before" in output
    assert "Errors without the first batch" in (tmp_path / "run" / "report.html").read_text()


def test_values_are_scored_without_the_batch_that_nobody_had_learnt_before(tmp_path: Path) -> None:
    rows = [{"x": i % 11, "y": 300.5 + 10 * (i % 11)} for i in range(800)]
    output = good(write_csv(tmp_path, rows), "--label", "y", "--batch-size", 100, "--out", tmp_path / "run").output
    own, mean, last = (float(word) for word in next(s for s in output.splitlines() if "squared" in s).split()[4:])
    assert own < min(mean, last) < 100
    trace = Trace.load(tmp_path / "run" / "trace.csv")
    assert Trace.from_csv(trace.to_csv()).untaught == trace.untaught == 1
    run = trace.of("driftsurf")
    assert run["squared_error"][0] > 90_000
    assert own**2 == pytest.approx(run["squared_error"][1:].mean(), rel=1e-3)
    summary = summarise_values(trace, "driftsurf")
    assert summary.root_mean_squared_error == pytest.approx(own, rel=1e-3)
    assert 0.0 < summary.skill < 1.0
    assert summary.skill_over_mean == pytest.approx(1.0 - (own / mean) ** 2, rel=1e-3)
    explained = invoke("explain", tmp_path / "run").output
    assert f"Root mean squared error {own}." in explained


def test_labels_that_come_late_are_all_scored_by_a_model_that_had_learnt(tmp_path: Path) -> None:
    output = good(write_csv(tmp_path, ROWS), *LEARN[:-1], "--delay", 1, "--out", tmp_path / "run").output
    assert "[1] nothing scored yet, stable" in output
    assert Trace.load(tmp_path / "run" / "trace.csv").untaught == 0


def test_late_values_are_scored_and_not_counted_as_wrong(tmp_path: Path) -> None:
    path = tmp_path / "prices.csv"
    path.write_text("x,price\n" + "".join(f"{i * 7 % 50},{i * 7 % 50 + 0.5}\n" for i in range(400)))
    output = good(path, "--label", "price", "--batch-size", 100, "--delay", 1, "--out", tmp_path / "run").output
    assert "labels: 400 predicted, 400 labelled, 200 scored, 0 expired" in " ".join(output.split())


def test_one_batch_only_is_said(tmp_path: Path) -> None:
    output = good(write_csv(tmp_path, ROWS[:60]), "--label", "sold", "--out", tmp_path / "run").output
    assert "one batch only: nothing was predicted by a model that had learnt; try --batch-size 6" in output
    assert "One batch only: nothing was predicted" in (tmp_path / "run" / "report.html").read_text()


def test_more_classes_and_classes_that_come_later(tmp_path: Path) -> None:
    rows = [{"x": i % 7, "y": "abc"[i % 3] if i < 900 else "abcd"[i % 4]} for i in range(1200)]
    good(write_csv(tmp_path, rows), "--label", "y", "--batch-size", 100, "--quiet", "--out", tmp_path / "run")
    trace = Trace.load(tmp_path / "run" / "trace.csv")
    assert trace.labels == ("a", "b", "c", "(other)")
    assert trace.of("driftsurf")["true:(other)"][-1] == 25


def test_values_have_a_page_and_baselines_too(tmp_path: Path) -> None:
    rows = [
        {"x": i % 11, "city": f"c{i % 3}", "y": 1e5 + 7.5 * (i % 11 if i < 600 else -(i % 11))} for i in range(1200)
    ]
    output = good(
        write_csv(tmp_path, rows), "--label", "y", "--batch-size", 100, "--out", tmp_path / "run", "--predictions",
        tmp_path / "p.parquet",
    ).output  # fmt: skip
    for word in ("root mean squared error", "mean absolute error", "persistence", "[10] RMSE"):
        assert word in output
    page = (tmp_path / "run" / "report.html").read_text()
    assert "root of the mean squared error" in page
    assert "reactive" in page
    table = pyarrow.parquet.read_table(tmp_path / "p.parquet").to_pydict()
    assert table["row"] == list(range(1200))
    assert table["probability"] == [None] * 1200
    assert isinstance(table["label"][-1], float)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--model", "aue", "--set", "experts=3"], '"model": "aue"'),
        (["--model", "ddm", "--learner", "svm"], '"learner": "svm"'),
        (["--model", "recommended-linear"], '"model": "recommended-linear"'),
        (["--model", "aue:softmax"], '"model": "aue:softmax"'),
        (["--model", "driftsurf(threshold=0.2, greedy=False):softmax"], '"model": "driftsurf(threshold=0.2, greedy'),
        (
            ["--learner", "sklearn.naive_bayes:GaussianNB", "--set", "var_smoothing=1e-8", "--set", "passes=2"],
            "GaussianNB",
        ),
        (["--threshold", "0.05", "--set", "l2=0.001", "--task", "multiclass"], '"task": "multiclass"'),
        (["--kind", "member=text", "--categorical", "share", "--seed", "3"], '"member": "text"'),
    ],
)
def test_models_by_name(options: list[str], told: str, tmp_path: Path) -> None:
    good(write_csv(tmp_path, ROWS[:400]), *LEARN, *options, "--out", tmp_path / "run")
    assert told in (tmp_path / "run" / "run.json").read_text()


def test_a_question_is_a_label_and_time_cuts_batches(tmp_path: Path) -> None:
    source = write_csv(tmp_path, [row for row in ROWS if row["price"] is not None])
    options = ["--batch-seconds", 86_400, "--time", "when", "--drop", "when", "--drop", "id", "--quiet"]
    good(source, "--label", "price > 1000000", *options, "--out", tmp_path / "run")
    trace = Trace.load(tmp_path / "run" / "trace.csv")
    assert trace.labels == (False, True)
    assert len(set(trace.of("driftsurf")["rows"])) > 1
    assert len(trace.columns["step"]) == 8
    good(source, "--label", "city == city 1", *options, "--on-bad-row", "skip", "--out", tmp_path / "text")


# ---------------------------------------------------------------------------- predictions


def test_predictions_are_those_that_were_scored(tmp_path: Path) -> None:
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
    assert "exists already" in invoke("run", source, *LEARN, "--predictions", tmp_path / "p.csv").output


def test_predictions_on_standard_output_stand_alone(tmp_path: Path) -> None:
    command = ["run", write_csv(tmp_path, ROWS[:300]), *LEARN[:-1], "--predictions", "-", "--out", tmp_path / "run"]
    result = invoke(*command)
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0] == "row,version,label,probability"
    assert [line.split(",")[0] for line in lines[1:]] == [str(row) for row in range(300)]
    assert "majority" in result.stderr


def test_standard_output_gets_rows_again_after_a_kill_with_the_same_numbers(
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


def test_the_help_has_sections() -> None:
    said = invoke("run", "--help").output
    for title in ("Tables: what to read:", "Tables: labels that come late:", "What learns:", "What comes out:"):
        assert title in said


def test_a_stream_gives_predictions_too(tmp_path: Path) -> None:
    good("mixed", "--rows", 1000, "--quiet", "--out", tmp_path / "run", "--predictions", tmp_path / "p.csv")
    assert len((tmp_path / "p.csv").read_text().splitlines()) == 1001


# ---------------------------------------------------------------------------- bad rows


def broken(rows: list[Row]) -> str:
    lines = csv_text(rows).splitlines()
    lines[50] += ",too,many"
    lines[250] = lines[250].replace("2007-", "never-")
    lines[260] = lines[260].rsplit(",", 1)[0] + ","  # no label
    lines.append("the end, half")
    return "\n".join(lines) + "\n"


def test_bad_rows_fail_or_are_skipped_counted_and_kept(tmp_path: Path) -> None:
    source = tmp_path / "sales.csv"
    source.write_text(broken(ROWS[:400]))
    assert "line 51: it has 9 cells" in invoke("run", source, *LEARN, "--out", tmp_path / "a").output
    output = good(source, *LEARN, "--on-bad-row", "skip", "--out", tmp_path / "run").output
    assert "skipped rows: 4; they are in" in output
    side = tmp_path / "run" / "bad_rows.jsonl"
    assert stat.S_IMODE(side.stat().st_mode) == 0o600
    told = [json.loads(line) for line in side.read_text().splitlines()]
    assert [bad.get("line", bad.get("row")) for bad in told] == [51, 251, 257, 402]
    assert told[0]["raw"].endswith(",too,many")
    assert "label 'sold' is missing" in told[2]["reason"]
    good(source, *LEARN, "--on-bad-row", "stop-after 4", "--no-raw", "--out", tmp_path / "few")
    assert "raw" not in (tmp_path / "few" / "bad_rows.jsonl").read_text()
    for allowed, place in (("3", "line 402"), ("stop-after=2", "row 257"), ("1", "line 251"), ("0", "line 51")):
        output = " ".join(invoke("run", source, *LEARN, "--on-bad-row", allowed).output.split())
        assert f"more than --on-bad-row {allowed[-1]}; the last: {source}, {place}: " in output
        shutil.rmtree("runs", ignore_errors=True)


def test_a_row_without_a_label_is_told(tmp_path: Path) -> None:
    source = tmp_path / "sales.csv"
    source.write_text(
        csv_text([{**row, "sold": None if i == 120 else row["sold"]} for i, row in enumerate(ROWS[:200])])
    )
    said = invoke("run", source, *LEARN, "--out", tmp_path / "run").output
    assert "row 120: the label 'sold' is missing (1 such rows in this batch)" in " ".join(said.split())


def test_rows_without_labels_can_be_sparse(tmp_path: Path) -> None:
    lines = [f"{'' if i == 7 else i % 2} {1 + i % 3}:{i}.5 9:1\n" for i in range(200)]
    (tmp_path / "a.svm").write_text("".join(line for line in lines if line[0] != " "))
    good(tmp_path / "a.svm", "--label", "label", "--batch-size", 50, "--quiet", "--out", tmp_path / "run")
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"x": i, "y": None}) + "\n" for i in range(30)))
    said = invoke(
        "run", tmp_path / "a.jsonl", "--label", "y", "--on-bad-row", "skip", "--out", tmp_path / "none"
    ).output
    assert "no row was scored" in said
    assert "No row was scored" in (tmp_path / "none" / "report.html").read_text()


# ---------------------------------------------------------------------------- kill and resume

SAVED = ["--checkpoint", "live", "--every", "3", "--predictions", "predictions/p.csv"]


@pytest.mark.parametrize("form", FORMS)
def test_a_run_that_was_killed_ends_with_the_same_bytes(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = FORMS[form](tmp_path, ROWS)
    if form == "csv":
        source.write_text(broken(ROWS))
    ends = {}
    for name, kills in (("whole", ()), ("killed", (0, 4, 4, 11))):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        command = [source, *LEARN, *SAVED, "--on-bad-row", "skip"]
        for step in kills:
            killed(step, *command, "--resume")
        good(*command, "--resume")
        ends[name] = files_of(tmp_path / name)
    assert ends["killed"] == ends["whole"]
    assert len([name for name in ends["whole"] if name.startswith("predictions")]) == 5
    again = files_of(tmp_path / "killed")
    good(*command, "--resume")  # it was done
    assert files_of(tmp_path / "killed") == again


@pytest.mark.parametrize(
    "model",
    [
        "driftsurf:sklearn.tree:DecisionTreeClassifier(max_depth=4)",
        "aue(experts=3):sklearn.tree:DecisionTreeClassifier(max_features=1)",
        "mddm:sklearn.naive_bayes:GaussianNB(mode='refit')",
        pytest.param("recommended", marks=pytest.mark.skipif(not find_spec("lightgbm"), reason="needs lightgbm")),
    ],
)
def test_a_learner_that_is_refitted_survives_a_kill(
    model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = write_csv(tmp_path, ROWS)
    ends = {}
    for name, kills in (("whole", ()), ("killed", (1, 4, 11))):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        command = [source, *LEARN, *SAVED, "--model", model, "--resume"]
        for step in kills:
            killed(step, *command)
        good(*command)
        ends[name] = files_of(tmp_path / name)
    assert ends["killed"] == ends["whole"]


class DyingDisk(disk.Disk):
    """Dies with its ``at``-th call, and does nothing after it but what the operating system does for the dead."""

    def __init__(self, at: int) -> None:
        self.at, self.calls = at, 0

    def sync(self, handle: int) -> None: ...

    def sync_folder(self, path: Path) -> None: ...

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name not in vars(disk.Disk) or name in ("close", "unlock", "__init__"):
            return found
        self.calls += 1
        if 0 <= self.at < self.calls:
            raise Killed
        return found


def test_a_kill_at_any_file_call_changes_no_byte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, labels = split(tmp_path, ROWS[:600], shuffled=90)
    broken_rows = rows.read_text().splitlines()
    broken_rows[130] += ",more"
    rows.write_text("\n".join(broken_rows) + "\n")
    late = ["--labels", labels, *LATE, "--delay", 1, "--on-bad-row", "skip"]
    command = [rows, *late, "--checkpoint", "live", "--every", 2, "--predictions", "predictions/p.parquet"]
    command += ["--keep", 2, "--part-mb", 0.001, "--resume"]

    def end(name: str, at: int) -> tuple[dict[str, bytes], int]:
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        dying = DyingDisk(at)
        with disk.using(dying), contextlib.suppress(Killed):
            invoke("run", *command)
        good(*command)
        return files_of(tmp_path / name), dying.calls

    whole, calls = end("whole", -1)
    assert calls > 100
    for at in range(1, calls, 7):
        assert end(f"killed at {at}", at)[0] == whole


def test_parquet_parts_are_the_same_bytes_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = write_csv(tmp_path, ROWS[:800])
    monkeypatch.chdir(tmp_path)
    command = [source, *LEARN, "--every", "3", "--resume"]
    good(*command, "--checkpoint", "a", "--predictions", "a.parquet")
    killed(5, *command, "--checkpoint", "b", "--predictions", "b.parquet")
    good(*command, "--checkpoint", "b", "--predictions", "b.parquet")
    parts = sorted(tmp_path.glob("a-*.parquet"))
    assert [part.name[2:-8] for part in parts] == ["000000000000", "000000000300", "000000000600"]
    for part in parts:
        assert part.read_bytes() == (tmp_path / part.name.replace("a-", "b-")).read_bytes()
    assert "exists already" in invoke("run", *command[:-1], "--checkpoint", "c", "--predictions", "b.parquet").output


def test_standard_input_goes_on_if_it_is_replayed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = broken(ROWS)
    ends = {}
    for name in ("whole", "killed"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        command = ["-", *LEARN, *SAVED, "--on-bad-row", "skip", "--resume"]
        if name == "killed":
            killed(7, *command, input=text)
            other = text.replace("city 3", "city 4")
            assert "are not those that the run had read" in invoke("run", *command, input=other).output
            assert "ends before row 600" in invoke("run", *command, input=text[: len(text) // 4]).output
        good(*command, input=text)
        ends[name] = files_of(tmp_path / name)
    assert ends["killed"] == ends["whole"]
    assert "skipped rows: 4" in good(*command, input=text).output


def test_bad_rows_of_standard_input_are_not_counted_again_when_it_is_replayed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    assert "5 rows could not be used, more than --on-bad-row 4" in invoke("run", *command, 4, input=text).output
    assert len(Path("live/bad_rows.jsonl").read_text().splitlines()) == 4


def test_sigterm_stops_between_steps_and_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = write_csv(tmp_path, ROWS)
    monkeypatch.chdir(tmp_path)
    good(source, *LEARN, "--predictions", "whole.csv", "--out", "whole")

    def ask(self: terminal.Progress, step: int, *_: object) -> None:
        if step == 4:
            os.kill(os.getpid(), signal.SIGTERM)

    with monkeypatch.context() as patch:
        patch.setattr(terminal.Progress, "__call__", ask)
        result = invoke("run", source, *LEARN, *SAVED)
    assert result.exit_code == 143
    good(source, *LEARN, *SAVED, "--resume")
    parts = [part.read_text().splitlines()[1:] for part in sorted(Path("predictions").iterdir())]
    assert [line for part in parts for line in part] == Path("whole.csv").read_text().splitlines()[1:]
    assert Path("live/result/trace.csv").read_bytes() == Path("whole/trace.csv").read_bytes()


def test_a_silent_pipe_can_be_stopped_and_kill_9_is_survived(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-m", "driftsurf", "run", "-", *LEARN, *SAVED, "--resume"]
    text = csv_text(ROWS).encode()
    cut = text.index(b"r01250")
    ends = []
    for number in (signal.SIGTERM, signal.SIGKILL):
        folder = tmp_path / number.name
        folder.mkdir()
        with subprocess.Popen(command, cwd=folder, env=environment, stdin=subprocess.PIPE) as process:
            assert process.stdin is not None
            process.stdin.write(text[:cut])
            process.stdin.flush()
            deadline = time.monotonic() + 60
            while len(list((folder / "predictions").glob("p-*"))) < 4 and time.monotonic() < deadline:
                time.sleep(0.05)
            process.send_signal(number)
            assert len(list((folder / "predictions").iterdir())) == 4
            assert process.wait(60) == (143 if number == signal.SIGTERM else -9)
            process.stdin.close()
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(folder)
            good(*command[4:], input=text.decode())
        ends.append({name: (folder / "live" / "result" / name).read_bytes() for name in ("trace.csv", "journal.jsonl")})
    assert ends[0] == ends[1]


def test_parts_rotate_and_old_ones_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "sales.csv"
    source.write_text(broken(ROWS))
    ends = {}
    for name, kills in (("whole", ()), ("killed", (5, 11))):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        command = [source, *LEARN, *SAVED, "--on-bad-row", "skip", "--keep", 2, "--part-mb", 0.0005, "--resume"]
        for step in kills:
            killed(step, *command)
        good(*command)
        ends[name] = files_of(tmp_path / name)
    assert ends["whole"] == ends["killed"]
    names = sorted(ends["whole"])
    assert [name for name in names if name.startswith("predictions")] == [
        "predictions/p-000000000899.csv",
        "predictions/p-000000001199.csv",
    ]
    assert [name for name in names if name.startswith("live/journal")] == [
        "live/journal.jsonl-000003",
        "live/journal.jsonl-000004",
        "live/journal.jsonl-000005",
    ]
    assert oct(Path("live/bad_rows.jsonl").stat().st_mode)[-3:] == "600"
    assert len((tmp_path / "whole" / "live" / "result" / "journal.jsonl").read_text().splitlines()) < 15


@pytest.mark.filterwarnings("always::driftsurf.errors.StateWarning")
def test_every_kept_checkpoint_has_the_parts_it_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sales.csv").write_text(broken(ROWS))
    monkeypatch.chdir(tmp_path)
    command = ["sales.csv", *LEARN, "--checkpoint", "live", "--every", 1, "--on-bad-row", "skip", "--part-mb", 1e-7]
    command += ["--keep", 3, "--resume"]
    killed(6, *command)
    heads = sorted(Path("live").glob("head-*"))
    for number in (1, 2):
        damaged = bytearray(heads[-number].read_bytes())
        damaged[len(damaged) // 2] ^= 1
        heads[-number].write_bytes(damaged)
    assert len(heads) == 3
    assert "before it, is used" in good(*command).output


def test_a_checkpoint_of_something_else_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    source = write_csv(tmp_path, ROWS[:300])
    good("mixed", "--rows", 2000, "--quiet", "--checkpoint", "live")
    assert "not one of a run over tables" in invoke("run", source, *LEARN, "--checkpoint", "live", "--resume").output
    good(source, *LEARN, "--checkpoint", "mine")
    said = invoke("run", source, *LEARN, "--checkpoint", "mine", "--resume", "--seed", 4).output
    assert "it has --seed 0, not 4" in said
    said = invoke("run", source, *LEARN, "--checkpoint", "new", "--model", "aue:sklearn.naive_bayes:GaussianNB").output
    assert "the learner sklearn.naive_bayes:GaussianNB cannot be saved exactly" in said


# ---------------------------------------------------------------------------- growing files


def test_a_growing_file_is_followed_to_its_end(tmp_path: Path) -> None:
    source = write_csv(tmp_path, ROWS[:1200])
    result = good(source, *LEARN, "--follow", "--follow-for", "0.5", "--out", tmp_path / "run")
    assert "1,200" in result.output


# ---------------------------------------------------------------------------- late labels


def split(folder: Path, rows: list[Row], *, shuffled: int = 0) -> tuple[Path, Path]:
    """The rows without their labels, and the labels by key; ``shuffled`` ones among neighbours."""
    columns = [name for name in rows[0] if name != "sold"]
    (folder / "rows.csv").write_text(csv_text(rows, columns))
    order = sorted(range(len(rows)), key=lambda i: i + (i * 7919) % (shuffled + 1))
    (folder / "labels.csv").write_text(csv_text([rows[i] for i in order], ["id", "when", "sold"]))
    return folder / "rows.csv", folder / "labels.csv"


LATE = ["--label", "sold", "--key", "id", "--batch-size", "100", "--quiet"]


def test_labels_of_a_file_that_come_at_once_teach_the_same_model(tmp_path: Path) -> None:
    rows, labels = split(tmp_path, ROWS)
    output = good(rows, "--labels", labels, *LATE, "--out", tmp_path / "late").output
    good(write_csv(tmp_path, ROWS), *LEARN, "--out", tmp_path / "plain")
    late, plain = (Trace.load(tmp_path / name / "trace.csv").of("driftsurf") for name in ("late", "plain"))
    assert late["errors"].tolist() == plain["errors"][1:].tolist()  # the first batch came before there was a model
    assert (tmp_path / "late" / "journal.jsonl").read_bytes() == (tmp_path / "plain" / "journal.jsonl").read_bytes()
    assert "1,500 predicted, 1,500 labelled, 1,400 scored" in " ".join(output.split())


def test_late_labels_are_counted_by_what_became_of_them(tmp_path: Path) -> None:
    rows, labels = split(tmp_path, ROWS, shuffled=300)
    text = labels.read_text().splitlines()
    (tmp_path / "labels.csv").write_text("\n".join([*text[:700], text[3], "r99999,,no", *text[700:]]) + "\n")
    out = good(
        rows, "--labels", labels, *LATE, "--delay", 3, "--timeout", 350, "--max-pending", 550,
        "--predictions", tmp_path / "p.csv", "--out", tmp_path / "late",
    ).output  # fmt: skip
    told = " ".join(out.split())
    assert "1 orphan" in told
    assert "duplicate" in told
    assert " 0 late" not in told
    first, *lines = (tmp_path / "p.csv").read_text().splitlines()
    assert first == "row,key,version,label,probability"
    assert lines[0] == "0,r00000,0,,"
    assert lines[-1].startswith("1499,r01499,")


def test_a_delay_is_a_number_of_batches(tmp_path: Path) -> None:
    source = write_csv(tmp_path, ROWS)
    for delay in (0, 3):
        good(
            source, *LEARN, "--delay", delay, "--predictions", tmp_path / f"{delay}.csv", "--out", tmp_path / f"{delay}"
        )
    versions = [int(line.split(",")[1]) for line in (tmp_path / "3.csv").read_text().splitlines()[1:]]
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
        versions.setdefault(row["when"][:10], set()).add(int(line.split(",")[2]))
    steps = [found.pop() for found in versions.values() if len(found) == 1]
    assert len(steps) == len(versions)
    assert steps[0] == 0
    assert steps == sorted(steps)


@pytest.mark.parametrize("form", ["csv.gz", "parquet", "jsonl", "folder"])
def test_late_labels_survive_any_kill(form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_bad_rows_of_late_labels_are_told_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


@pytest.mark.parametrize("kind", [TableSource, LateSource])
def test_a_signal_between_two_batches_counts_no_bad_row_twice(
    kind: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sales.csv").write_text(broken(ROWS))
    monkeypatch.chdir(tmp_path)
    command = ["sales.csv", *LEARN, "--checkpoint", "live", "--on-bad-row", "skip", "--resume"]
    if kind is LateSource:
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
    told = [line for line in whole.splitlines() if line.startswith("skipped rows: ")]
    assert told
    assert told[0] in good(*command).output
    assert len(Path("live/bad_rows.jsonl").read_text().splitlines()) == int(told[0].split()[2].rstrip(";"))


def test_a_model_with_late_labels_is_not_pinned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, labels = split(tmp_path, ROWS[:600])
    monkeypatch.chdir(tmp_path)
    command = [rows, "--labels", labels, *LATE, *SAVED, "--resume"]
    killed(4, *command)
    assert invoke("pin", "live").exit_code == 0
    assert invoke("reset", "live").exit_code == 0
    good(*command)
    journal = Path("live/journal.jsonl").read_text()
    assert "cannot be left as it is" in journal
    assert "ordered by an operator" in journal


@pytest.mark.parametrize("how", ["at once", "delayed", "keyed"])
def test_a_rollback_takes_back_what_was_learnt_and_no_row(
    how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    if how == "keyed":
        rows, labels = split(tmp_path, ROWS)
        command = [rows, "--labels", labels, *LATE]
    else:
        command = [write_csv(tmp_path, ROWS), *LEARN, *(["--delay", 1] if how == "delayed" else [])]
    command += [*SAVED, "--keep", 20, "--resume"]
    killed(10, *command)
    assert invoke("rollback", "live", "--to", 2).exit_code == 0
    good(*command)
    parts = [part.read_text().splitlines()[1:] for part in sorted(Path("predictions").iterdir())]
    assert [int(line.split(",")[0]) for part in parts for line in part] == list(range(1500))
    trace = Trace.from_csv(Path("live/result/trace.csv").read_text())
    unscored = {"at once": 0, "delayed": 200, "keyed": 100}  # they came before there was a model
    assert trace.of(trace.models[0])["rows"].sum() == 1500 - unscored[how]


# ---------------------------------------------------------------------------- configuration


def test_a_configuration_repeats_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    source = write_csv(tmp_path, ROWS)
    options = [
        *("--label", "sold", "--drop", "id", "--drop", "share", "--categorical", "member", "--kind", "member=text"),
        *("--batch-size", "150", "--set", "l2=0.001", "--set", "threshold=0.07", "--no-greedy", "--quiet"),
        *("--on-bad-row", "skip", "--no-raw", "--step-size", "auto", "--seed", "5"),
    ]
    said = good(source, *options, "--write-config", "run.toml").output
    assert "driftsurf run run.toml" in said
    assert not Path("runs").exists()
    good(source, *options, "--out", "typed")
    good("run.toml", "--out", "read")
    good("--config", "run.toml", "--out", "named")
    good(source, "--config", "run.toml", "--out", "both", "--seed", "6", "--set", "threshold=0.5")
    for name in ("read", "named"):
        for file in ("run.json", "trace.csv", "journal.jsonl", "report.html"):
            assert (tmp_path / name / file).read_bytes() == (tmp_path / "typed" / file).read_bytes()
    both = json.loads(Path("both/run.json").read_text())
    assert (both["seed"], both["parameters"]["threshold"], both["drop"]) == (6, 0.5, ["id", "share"])
    good("run.toml", "--write-config", "again.toml")
    assert Path("again.toml").read_text() == Path("run.toml").read_text()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("source = ", "cannot be read as TOML"),
        ("sauce = 'a.csv'", "has an option 'sauce'; choices: source, label"),
        ("label = 'y'", "does not say 'source'"),
        ("source = 'a.csv'\nset = 3", "set is 3; give a table, [set]"),
        ("source = 'a.csv'\ndrop = 'x'", "drop is 'x'; give a list"),
        ("source = 'a.csv'\nseed = [1]", "seed is [1]; give one value"),
        ("source = 'a.csv'\nseed = 'x'", "Invalid value for '--seed'"),
        ("source = ['a.csv']", "give one value"),
    ],
)
def test_mistakes_in_a_configuration_are_named(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text(text)
    result = invoke("run", tmp_path / "run.toml")
    assert result.exit_code in (1, 2)
    assert message in " ".join(result.output.split())


# ---------------------------------------------------------------------------- columns as people have them


def european(folder: Path, count: int = 600) -> Path:
    """Semicolons, decimal commas, points between thousands, German dates, a gap that is no usual one."""
    rng = np.random.default_rng(0)
    lines = ["nr;tag;preis;menge;stadt;verkauft"]
    for i, price in enumerate(rng.normal(1000.0, 300.0, count)):
        shown = f"{price:,.2f}".translate(str.maketrans(",.", ".,"))
        amount = "k.A." if i % 20 == 3 else f"{i % 9},5"
        lines.append(
            f"n{i};{1 + i % 28}.{1 + i // 28 % 12}.2007;{shown};{amount};Rom;{'ja' if price > 1000 else 'nein'}"
        )
    path = folder / "eu.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_a_run_says_what_columns_were_taken_for_and_what_looks_wrong(tmp_path: Path) -> None:
    path = european(tmp_path)
    first = good(path, "--label", "verkauft", "--batch-size", "100", "--out", tmp_path / "a").output
    assert "names     menge (10), stadt (1), nr (100, hashed), tag (100, hashed), preis (100, hashed)" in first
    for hint in (
        "warning: the column 'nr' has a text of its own in each row ('n0'): if it is a name of the row, leave it out "
        "with --drop nr",
        "warning: the column 'tag' was taken for text, and looks like dates ('1.1.2007'): try --date-format %d.%m.%Y",
        "try --decimal , --thousands .",
    ):
        assert hint in first
    mended = [
        *(path, "--label", "verkauft", "--batch-size", "100", "--drop", "nr", "--decimal", ",", "--thousands", "."),
        *("--date-format", "%d.%m.%Y", "--missing", "k.A."),
    ]
    second = good(*mended, "--out", tmp_path / "b").output
    assert second.startswith(
        "numbers   preis, menge\ndates     tag\nnames     stadt (1)\nleft out  nr\nlabel     verkauft: ja, nein"
    )
    assert "looks like" not in second
    about = json.loads((tmp_path / "b" / "run.json").read_text())
    assert about["columns"]["numbers"] == ["preis", "menge"]
    assert (about["decimal"], about["thousands"], about["date_format"]) == (",", ".", ["%d.%m.%Y"])
    assert "numbers" not in good(*mended, "--quiet", "--out", tmp_path / "c").output
    piped = good(*mended, "--predictions", "-", "--out", tmp_path / "d")
    assert "numbers" in piped.stderr
    assert "numbers" not in piped.stdout
    mean = next(line for line in second.splitlines() if line.startswith(" error")).split()[1]
    assert float(mean) < 0.3


def test_how_numbers_and_dates_are_read_is_part_of_a_configuration_and_of_a_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = european(tmp_path)
    said = [
        "--decimal",
        ",",
        "--thousands",
        ".",
        "--date-format",
        "%d.%m.%Y",
        "--date-format",
        "%Y",
        "--missing",
        "k.A.",
    ]
    options = ["--label", "verkauft", "--batch-size", "50", "--drop", "nr", "--quiet"]
    good(path, *options, *said, "--write-config", "run.toml")
    good("run.toml", "--out", "read")
    live = ["--checkpoint", "live", "--every", "3"]
    killed(7, path, *options, *said, *live)
    other = invoke("run", path, *options, *said[:-2], *live, "--resume")
    assert "it has --missing ['k.A.'], not None" in other.output
    good(path, *options, *said, *live, "--resume")
    for file in ("run.json", "trace.csv", "journal.jsonl"):
        assert Path("read", file).read_bytes() == Path("live/result", file).read_bytes()


def test_a_checkpoint_of_an_earlier_version_that_knew_fewer_options_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_csv(tmp_path, ROWS)
    command = [path, *LEARN, "--checkpoint", tmp_path / "live", "--every", "2"]
    whole = json.dumps
    unknown = "decimal", "thousands", "date_format", "missing", "columns"

    def fewer(value: Any, **options: Any) -> str:
        if isinstance(value, dict) and "driftsurf" in value:
            value = {name: entry for name, entry in value.items() if name not in unknown}
        return whole(value, **options)

    with monkeypatch.context() as patch:
        patch.setattr("driftsurf.assembly.tables.json.dumps", fewer)
        killed(5, *command)
    said = good(*command[:-1], "2", "--resume").output
    assert "report:" in said


def test_a_first_batch_without_labels_is_described_by_its_columns(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("n,y\n" + "1,\n" * 20 + "1,a\n2,b\n" * 30)
    options = [path, "--label", "y", "--batch-size", "20", "--on-bad-row", "skip", "--task", "binary"]
    assert "numbers   n\nlabel     y: none has come yet (binary)\n" in good(*options, "--out", tmp_path / "run").output


# ---------------------------------------------------------------------------- mistakes


@pytest.mark.parametrize("command", ["run", "compare"])
@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (["preis", "--task", "regression"], "for the task 'regression' it has to be numbers"),
        (["preis > 10"], "choices: ==, !="),
    ],
)
def test_text_that_is_asked_for_as_numbers_is_told_with_the_option(
    command: str, asked: list[str], message: str, tmp_path: Path
) -> None:
    path = tmp_path / "eu.csv"
    path.write_text("x;preis\n" + "".join(f"{i % 3};{i % 20},5\n" for i in range(60)))
    output = invoke(command, path, "--label", *asked, "--out", tmp_path / "out").output
    assert f"{message} (it looks like numbers: try --decimal ,)" in " ".join(output.split())


@pytest.mark.filterwarnings("always::driftsurf.errors.SmallBatchWarning")
def test_a_warning_names_the_option_as_it_is_typed(tmp_path: Path) -> None:
    path = tmp_path / "few.csv"
    path.write_text("x,y\n" + "".join(f"{i * 7 % 5},{i % 2}\n" for i in range(200)))
    told = good(path, "--label", "y", "--batch-size", 5, "--quiet", "--out", tmp_path / "run").stderr
    assert "warning: the first 20 time steps had 5 rows each" in told
    assert "Set --batch-size (100 or more) to gather rows." in told


def test_labels_of_their_own_are_hinted_at_too(tmp_path: Path) -> None:
    rows, labels = tmp_path / "rows.csv", tmp_path / "labels.csv"
    rows.write_text("id,x\n" + "".join(f"k{i % 200},{i * 7 % 10}\n" for i in range(200)))
    labels.write_text("id;note;preis\n" + "".join(f"k{i};n{i};{i % 2},5\n" for i in range(200)))
    late = ["--labels", labels, "--key", "id", "--label", "preis", "--batch-size", 50, "--quiet"]
    hints = good(rows, *late, "--out", tmp_path / "run").stderr.splitlines()
    assert hints == ["warning: the column 'preis' was taken for text, and looks like numbers ('0,5'): try --decimal ,"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "label is not given: name the column to predict; the columns are 'id', 'when'"),
        (["--label", "sole"], "label is 'sole'; the columns are 'id'"),
        (["--label", "sold > 3"], "label asks '>' of 'sold', a column of kind text; choices: ==, !="),
        (["--label", "price > much"], "compares 'price', a column of numbers, with 'much'"),
        (["--label", "price > 1", "--task", "regression"], "a question; for the task 'regression' name a column"),
        (["--label", "sold", "--task", "regression"], "is of kind text; for the task 'regression'"),
        (["--label", "when"], "the label 'when' is a date"),
        (["--label", "sold", "--task", "ranking"], "task is 'ranking'; choices: 'auto', 'binary'"),
        (["--label", "sold", "--drop", "sold"], "drop names the label 'sold'"),
        (["--label", "sold", "--drop", "cities"], "drop names 'cities'; the columns are"),
        (["--label", "sold", "--drop", "id,when"], "'sold'. Name one column at a time."),
        (["--label", "sold", "--kind", "city"], "--kind is 'city'; give --kind KEY=VALUE"),
        (["--label", "sold", "--kind", "city=place"], "--kind is 'place'; choices: 'number'"),
        (["--label", "sold", "--categorical", "town"], "categorical names 'town'; the columns are"),
        (["--label", "price", "--model", "ddm"], "Error: the learner predicts values (its only task is 'regression')"),
        (["--label", "sold", "--delimiter", "ab"], "--delimiter is 'ab'; give one character that is no quote, letter"),
        (["--label", "sold", "--thousands", "x"], "and not the decimal '.', or leave it out"),
        (["--label", "sold", "--timeout", "5"], "--timeout is for labels that come late; give --labels or --delay"),
        (["--label", "sold", "--model", "driftsrf"], "model is 'driftsrf'; did you mean 'driftsurf'? choices: "),
        (["--label", "sold", "--model", "driftsurf(threshold):svm"], "give a name, or name(option=value, ...)"),
        (["--label", "sold", "--learner", "softmx"], "learner is 'softmx'; did you mean 'softmax'? choices: "),
        (["--label", "sold", "--learner", "no.such:Model"], "cannot be made: No module named 'no'"),
        (["--label", "sold", "--learner", "math:sin"], "learner is 'math:sin', which cannot be made"),
        (["--label", "sold", "--learner", "linear"], "the learner linear is for the task regression, not"),
        (["--label", "sold", "--set", "treshold=1"], "no parameter 'treshold'; did you mean 'threshold'?"),
        (["--label", "sold", "--set", "threshold"], "--set is 'threshold'; give --set KEY=VALUE"),
        (["--label", "sold", "--set", "threshold=-1"], "threshold is -1"),
        (["--label", "sold", "--set", "l2=-1"], "l2 is -1"),
        (["--label", "sold", "--model", "aue", "--threshold", "0.2"], "aue with logistic has no parameter"),
        (["--label", "sold", "--learner", "sklearn.svm:LinearSVC", "--set", "los=1"], "did you mean 'loss'"),
        (["--label", "sold", "--time", "when"], "--batch-seconds is not given; give the length of a batch"),
        (["--label", "sold", "--batch-seconds", "5"], "--batch-seconds is 5.0 and --time is None; give both"),
        (["--label", "sold", "--on-bad-row", "maybe"], "choices: fail, skip, or a number of rows"),
        (["--label", "sold", "--format", "xml"], "format is 'xml'; choices: 'csv'"),
        (["--label", "sold", "--delimiter", "--"], "delimiter is '--'"),
        (["--label", "sold", "--labels", "x.csv"], "key is None; give both or neither"),
        (["--labels", "sales.csv", "--key", "id", "--delay", "1", "--time", "when", "--batch-seconds", "9"],
         "--delay and --batch-seconds are both given"),
        (["--label", "sold", "--labels", "-", "--key", "id"], "standard input can be the source alone"),
        (["--label", "sold", "--labels", "x.csv", "--key", "id", "--follow"], "--follow and --labels are both given"),
        (["--label", "sold", "--delay", "1", "--follow"], "delay reads the source twice"),
        (["--label", "sold", "--follow-for", "1"], "give --follow as well"),
        (["--label", "sold", "--labels", "sales.csv", "--key", "idd"], "key names 'idd'; the columns are"),
        (["--label", "sold", "--labels", "other.csv", "--key", "id"], "the labels have no column 'id' to be joined by"),
        (["--label", "sold", "--predictions", "p.xls"], "give '-' or a file that ends in .csv, .jsonl, .parquet"),
        (["--label", "sold", "--rows", "5"], "--rows is for a built-in stream"),
        (["--label", "sold", "--stream-seed", "5"], "--stream-seed is for a built-in stream"),
        (["--label", "sold", *(f"--drop={name}" for name in ("id", "when", "price", "share", "city", "member"))],
         "has no column beside the label 'sold' to learn from"),
    ],
)  # fmt: skip
def test_mistakes_are_answered_in_one_line_and_leave_nothing(
    arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_csv(tmp_path, ROWS[:40])
    (tmp_path / "other.csv").write_text("name,sold\na,yes\n")
    result = invoke("run", "sales.csv", *arguments)
    assert result.exit_code in (1, 2)
    assert message in " ".join(result.output.split())
    assert not (tmp_path / "runs").exists()


def test_mistakes_about_the_source_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for arguments, message in (
        (["sea0", "--label", "y"], "--label is for a file, a folder or standard input, not for 'sea0'"),
        (["sae10"], "did you mean 'sea10'?"),
        (["gone.csv", "--label", "y"], "gone.csv cannot be read: No such file"),
        (["none*.csv", "--label", "y"], "no file matches 'none*.csv'"),
        (["empty.csv", "--label", "y"], "empty.csv has no row that can be used"),
    ):
        (tmp_path / "empty.csv").write_text("x,y\n")
        result = invoke("run", *arguments)
        assert result.exit_code in (1, 2)
        assert message in " ".join(result.output.split())


def test_a_third_class_says_what_to_do(tmp_path: Path) -> None:
    rows = [{"x": i, "y": "ab"[i % 2] if i < 300 else "c"} for i in range(400)]
    result = invoke("run", write_csv(tmp_path, rows), "--label", "y", "--batch-size", 100, "--out", tmp_path / "run")
    assert result.exit_code == 1
    assert "--task multiclass" in result.output


def test_without_pyarrow_parquet_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("pyarrow", "pyarrow.parquet"):
        monkeypatch.setitem(sys.modules, name, None)
    source = tmp_path / "a.jsonl"
    source.write_text("".join(json.dumps({"x": i, "y": i % 2}) + "\n" for i in range(300)))
    result = invoke("run", source, "--label", "y", "--predictions", tmp_path / "p.parquet", "--out", tmp_path / "r")
    assert "pip install 'driftsurf[sources]'" in result.output
