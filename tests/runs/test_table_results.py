"""Results of ``driftsurf run`` over tables: errors, baselines, models by name, regression."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet
import pytest
from commands import invoke
from table_files import FORMS, write_csv
from table_runs import LEARN, ROWS, good

import driftsurf
from driftsurf import DriftSurfClassifier, Trace
from driftsurf.data.encoding import TableEncoder
from driftsurf.data.frames import read_table
from driftsurf.data.tables import Column, Table
from driftsurf.evaluation import summarise_regression


@functools.cache
def plain_errors() -> list[int]:
    """Return the errors of each step, computed without the command line."""
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


def test_encoding_option_reads_a_file_that_is_not_utf_8(tmp_path: Path) -> None:
    source = tmp_path / "latin.csv"
    lines = [f"{('Bern', 'Zürich')[k % 2]},{k % 3},{('no', 'yes')[k % 2]},{k}" for k in range(400)]
    source.write_bytes("\n".join(["city,price,sold,id", *lines]).encode("latin-1"))
    refused = invoke("run", source, *LEARN, "--encoding", "utf-8", "--out", tmp_path / "refused")
    assert refused.exit_code == 1
    assert "UTF-8" in refused.output
    assert "--encoding cp1252" in " ".join(good(source, *LEARN, "--out", tmp_path / "guessed").output.split())
    good(source, *LEARN, "--encoding", "latin-1", "--out", tmp_path / "run")


@pytest.mark.parametrize("form", FORMS)
def test_every_file_format_gives_the_same_result(form: str, tmp_path: Path) -> None:
    source = FORMS[form](tmp_path, ROWS)
    output = good(source, *LEARN, "--out", tmp_path / "run").output
    trace = Trace.load(tmp_path / "run" / "trace.csv")
    assert trace.labels == ("no", "yes")
    assert trace.of("driftsurf")["errors"].tolist() == plain_errors()
    for word in ("most frequent class", "last label", str(tmp_path / "run" / "report.html")):
        assert word in output
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == [
        "columns.csv",
        "journal.jsonl",
        "model.state",
        "report.html",
        "run.json",
        "scores.jsonl",
        "timings.json",
        "trace.csv",
    ]
    about = json.loads((tmp_path / "run" / "run.json").read_text())
    assert about["decided"]["classes"] == ["no", "yes"]
    assert "driftsurf" in (tmp_path / "run" / "report.html").read_text()


def test_printed_baselines_match_a_direct_computation(tmp_path: Path) -> None:
    output = good(write_csv(tmp_path, ROWS), *LEARN, "--out", tmp_path / "run").output
    numbers = [float(word) for word in next(line for line in output.splitlines() if "mean error" in line).split()[2:]]
    labels = [row["sold"] for row in ROWS]
    persistence = sum(label != labels[place - place % 100 - 1] for place, label in enumerate(labels) if place >= 100)
    seen: dict[str, int] = {"no": 0, "yes": 0}
    majority = 0
    for start in range(0, len(labels), 100):
        best = max(seen, key=lambda name: seen[name])
        batch = labels[start : start + 100]
        majority += sum(label != best for label in batch) if start else 0  # the first batch is not scored
        for label in batch:
            seen[label] += 1
    assert numbers[1:] == pytest.approx([majority / 1400, persistence / 1400], abs=5e-5)
    assert numbers[0] == pytest.approx(sum(plain_errors()[1:]) / 1400, abs=5e-5)


def test_regression_scores_leave_out_the_first_batch(tmp_path: Path) -> None:
    rows = [{"x": i % 11, "y": 300.5 + 10 * (i % 11)} for i in range(800)]
    options = ["--label", "y", "--batch-size", 100, "--model", "driftsurf", "--out", tmp_path / "run"]
    output = good(write_csv(tmp_path, rows), *options).output
    own, mean, last = (float(word) for word in next(s for s in output.splitlines() if "squared" in s).split()[-3:])
    assert own < min(mean, last) < 100
    trace = Trace.load(tmp_path / "run" / "trace.csv")
    assert Trace.from_csv(trace.to_csv()).warmup_steps == trace.warmup_steps == 1
    run = trace.of("driftsurf")
    assert run["squared_error"][0] > 90_000
    assert own**2 == pytest.approx(run["squared_error"][1:].mean(), rel=1e-3)
    summary = summarise_regression(trace, "driftsurf")
    assert summary.root_mean_squared_error == pytest.approx(own, rel=1e-3)
    assert 0.0 < summary.skill < 1.0
    assert summary.skill_over_mean == pytest.approx(1.0 - (own / mean) ** 2, rel=1e-3)
    explained = invoke("explain", tmp_path / "run").output
    assert str(own) in explained


def test_single_batch_leads_to_a_hint_about_the_batch_size(tmp_path: Path) -> None:
    output = good(write_csv(tmp_path, ROWS[:60]), "--label", "sold", "--out", tmp_path / "run").output
    assert "only one batch (--batch-size)" in output
    assert all(cell == "-" for cell in next(line for line in output.splitlines() if "mean error" in line).split()[2:])


def test_classes_after_the_first_batch_are_counted_by_name(tmp_path: Path) -> None:
    rows = [{"x": i % 7, "y": "abc"[i % 3] if i < 900 else "abcd"[i % 4]} for i in range(1200)]
    options = ["--label", "y", "--batch-size", 100, "--model", "recommended-linear", "--quiet"]
    good(write_csv(tmp_path, rows), *options, "--out", tmp_path / "run")
    trace = Trace.load(tmp_path / "run" / "trace.csv")
    assert trace.labels == ("a", "b", "c", "d")
    assert trace.of("recommended-linear")["true:d"][-1] == 25


def test_regression_run_has_a_report_page_and_baselines(tmp_path: Path) -> None:
    rows = [
        {"x": i % 11, "city": f"c{i % 3}", "y": 1e5 + 7.5 * (i % 11 if i < 600 else -(i % 11))} for i in range(1200)
    ]
    output = good(
        write_csv(tmp_path, rows), "--label", "y", "--batch-size", 100, "--out", tmp_path / "run", "--predictions",
        tmp_path / "p.parquet",
    ).output  # fmt: skip
    for word in ("squared error", "absolute error", "last label", "step 9: "):
        assert word in output
    page = (tmp_path / "run" / "report.html").read_text()
    assert "squared error" in page
    assert "reactive" in page
    table = pyarrow.parquet.read_table(tmp_path / "p.parquet").to_pydict()
    assert table["row"] == list(range(1200))
    assert "probability" not in table
    assert isinstance(table["prediction"][-1], float)


@pytest.mark.parametrize(
    ("options", "recorded"),
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
def test_model_options_are_recorded_in_run_json(options: list[str], recorded: str, tmp_path: Path) -> None:
    good(write_csv(tmp_path, ROWS[:400]), *LEARN, *options, "--out", tmp_path / "run")
    assert recorded in (tmp_path / "run" / "run.json").read_text()


def test_label_may_be_a_comparison_and_batches_may_span_equal_times(tmp_path: Path) -> None:
    source = write_csv(tmp_path, [row for row in ROWS if row["price"] is not None])
    options = ["--batch-seconds", 86_400, "--time", "when", "--drop", "when", "--drop", "id", "--quiet"]
    options += ["--model", "driftsurf"]
    good(source, "--label", "price > 1000000", *options, "--out", tmp_path / "run")
    trace = Trace.load(tmp_path / "run" / "trace.csv")
    assert trace.labels == (False, True)
    assert len(set(trace.of("driftsurf")["rows"])) > 1
    assert len(trace.columns["step"]) == 8
    good(source, "--label", "city == city 1", *options, "--on-bad-row", "skip", "--out", tmp_path / "text")


@pytest.mark.parametrize("delay", [None, 1])
def test_a_run_over_the_first_rows_equals_one_over_a_shorter_file(delay: int | None, tmp_path: Path) -> None:
    (tmp_path / "short").mkdir()
    options: dict[str, Any] = {
        "label": "sold",
        "drop": ["id", "when"],
        "batch_size": 100,
        "delay": delay,
        "on_bad_row": "skip",
    }
    whole = driftsurf.run(write_csv(tmp_path, ROWS[:400]), rows=250, out=tmp_path / "a", **options)
    short = driftsurf.run(write_csv(tmp_path / "short", ROWS[:250]), out=tmp_path / "b", **options)
    (model,) = whole.trace.models
    assert whole.trace.of(model)["rows"].tolist() == short.trace.of(model)["rows"].tolist()
    assert whole.trace.of(model)["errors"].tolist() == short.trace.of(model)["errors"].tolist()
    assert (tmp_path / "a" / "trace.csv").read_bytes() == (tmp_path / "b" / "trace.csv").read_bytes()
