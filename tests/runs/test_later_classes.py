"""A class that appears in mid-stream: what a run reports is what its file of predictions says."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from commands import invoke
from sklearn.metrics import cohen_kappa_score, confusion_matrix, roc_auc_score
from table_runs import good, killed

from driftsurf import Trace
from driftsurf.evaluation.scores import BINS, Scores
from driftsurf.evaluation.summary import baselines, class_metrics, summarise_classification
from driftsurf.evaluation.trace import OTHER
from driftsurf.runs.folder import SCORES, TRACE

SIZE = 50
OPTIONS = ["--label", "label", "--batch-size", SIZE, "--model", "recommended-linear", "--quiet"]


def write_rows(path: Path, rows: int = 500, third_from: int = 160, seed: int = 0) -> Path:
    """Write rows of the classes "c" and "a", which are joined by "b" later."""
    X = np.random.default_rng(seed).normal(size=(rows, 2))
    y = np.array(["c", "a", "b"])[np.argmax(np.column_stack([X[:, 0], X[:, 1] + 0.4, -X.sum(axis=1)]), axis=1)]
    y[:third_from][y[:third_from] == "b"] = "a"
    lines = [f"{first:.4f},{second:.4f},{label}" for (first, second), label in zip(X, y.tolist(), strict=True)]
    path.write_text("\n".join(["x,z,label", *lines]) + "\n")
    return path


def run_rows(situation: str, folder: Path) -> tuple[Path, list[str]]:
    """Run over rows in some situation; return the run folder, and the classes that were known at the beginning."""
    third_from = 500 if situation == "binary" else 160
    source = write_rows(folder / "rows.csv", third_from=third_from)
    options: list[Any] = [*OPTIONS, "--predictions", folder / "p.csv", "--all-classes"]
    if situation == "resumed":
        command = [source, *options, "--checkpoint", folder / "live", "--every", 2, "--resume"]
        for step in (3, 5, 8):
            killed(step, *command)
        good(*command)
        return folder / "live" / "result", ["a", "c"]
    if situation == "started":
        good(write_rows(folder / "before.csv", rows=300, seed=1), *OPTIONS, "--out", folder / "before")
        good(source, "--start-from", folder / "before", *options, "--out", folder / "run")
        return folder / "run", ["a", "b", "c"]
    good(source, *options, "--out", folder / "run")
    return folder / "run", ["a", "c"]


def majority_error(true: Sequence[str], known: Sequence[str], first_row: int) -> float:
    """Return the share of rows that the most frequent class before each batch gets wrong."""
    wrong = 0
    for start in range(first_row, len(true), SIZE):
        before = Counter({**dict.fromkeys(known, 0), **Counter(true[:start])})
        guess = min(before, key=lambda label: (-before[label], label))
        wrong += sum(label != guess for label in true[start : start + SIZE])
    return wrong / (len(true) - first_row)


def bins(probability: npt.NDArray[Any], hit: npt.NDArray[Any]) -> list[tuple[float, float, int]]:
    places = np.minimum((probability * BINS).astype(int), BINS - 1)
    groups = [places == k for k in range(BINS) if (places == k).any()]
    return [(probability[one].mean(), hit[one].mean(), int(one.sum())) for one in groups]


def test_a_class_called_other_is_counted_as_what_it_is(tmp_path: Path) -> None:
    source = write_rows(tmp_path / "rows.csv", rows=200, third_from=100)
    source.write_text(source.read_text().replace(",c\n", f",{OTHER}\n"))
    good(source, *OPTIONS, "--out", tmp_path / "run", "--predictions", tmp_path / "p.csv", "--all-classes")
    lines = list(csv.DictReader((tmp_path / "p.csv").read_text().splitlines()))[SIZE:]
    true, predicted = [line["true"] for line in lines], [line["prediction"] for line in lines]
    sums = [float(line["probability:a"]) + float(line[f"probability:{OTHER}"]) for line in lines]
    np.testing.assert_allclose(sums, 1.0)
    trace = Trace.load(tmp_path / "run" / TRACE)
    found = class_metrics(trace, trace.models[0])
    assert list(found) == ["a", "b", OTHER]
    assert all((one.rows, one.predicted) == (true.count(label), predicted.count(label)) for label, one in found.items())


@pytest.mark.parametrize("situation", ["whole", "resumed", "started", "binary"])
def test_what_a_run_reports_follows_from_its_predictions(situation: str, tmp_path: Path) -> None:
    folder, known = run_rows(situation, tmp_path)
    warmup = 0 if situation == "started" else SIZE
    parts = sorted(tmp_path.glob("p*.csv"))
    lines = [line for part in parts for line in csv.DictReader(part.read_text().splitlines())]
    every_true = [line["true"] for line in lines]
    true, predicted = every_true[warmup:], [line["prediction"] for line in lines][warmup:]
    shares = {
        label: np.array([float(line[f"probability:{label}"]) for line in lines])[warmup:] for label in (*known, OTHER)
    }
    shares |= {"b": shares.pop(OTHER)} if "b" not in known else {}  # the only class that appears later
    probability = np.array([shares[label][row] for row, label in enumerate(predicted)])
    np.testing.assert_allclose(sum(shares.values()), 1.0)
    trace = Trace.load(folder / TRACE)
    scores = Scores.from_text((folder / SCORES).read_text(), trace.warmup_steps)
    (model,) = trace.models
    summary = summarise_classification(trace, model)
    hit = np.array(true) == np.array(predicted)
    labels = sorted({*every_true, *known})

    assert trace.labels == tuple(labels)
    assert summary.mean_error == pytest.approx(1.0 - hit.mean())
    assert summary.kappa == pytest.approx(cohen_kappa_score(true, predicted))
    assert baselines(trace, model).others["majority"] == pytest.approx(majority_error(every_true, known, warmup))
    table = confusion_matrix(true, predicted, labels=labels)
    for place, (label, one) in enumerate(class_metrics(trace, model).items()):
        assert (label, one.rows, one.predicted) == (labels[place], table[place].sum(), table[:, place].sum())
        assert one.recall == pytest.approx(table[place, place] / table[place].sum())
    names, counts = scores.confusion()
    order = [names.index(label) for label in labels]
    np.testing.assert_array_equal(counts[order][:, order], table)

    one_against_others = [roc_auc_score(np.array(true) == label, shares[label]) for label in labels]
    assert scores.auc == pytest.approx(np.mean(one_against_others), abs=3e-3)

    if situation == "binary":
        second = names[1]
        probability = np.where(np.array(predicted) == second, probability, 1.0 - probability)
        hit = np.array(true) == second
    found = list(zip(*(column.tolist() for column in scores.calibration()), strict=True))
    assert scores.probability_of == ("second" if situation == "binary" else "predicted")
    assert found == [pytest.approx(one, abs=1e-5) for one in bins(probability, hit)]
    means, hit_shares = scores.calibration_over_time()
    np.testing.assert_allclose(means[warmup // SIZE :], probability.reshape(-1, SIZE).mean(axis=1), atol=1e-5)
    np.testing.assert_allclose(hit_shares[warmup // SIZE :], hit.reshape(-1, SIZE).mean(axis=1))

    page, explained = (folder / "report.html").read_text(), invoke("explain", folder).output
    assert f"{summary.kappa:.3f}" in page
    assert f"{summary.mean_error:.4f}" in explained
    assert ("A class that the first batch did not have: 'b' at step 3" in page) == (situation != "binary")


def test_a_run_that_was_killed_ends_with_the_same_trace_and_scores(tmp_path: Path) -> None:
    for name in ("whole", "resumed"):
        (tmp_path / name).mkdir()
    one, _ = run_rows("whole", tmp_path / "whole")
    other, _ = run_rows("resumed", tmp_path / "resumed")
    for file in (TRACE, SCORES):
        assert (one / file).read_bytes() == (other / file).read_bytes()


def test_a_saved_trace_keeps_the_classes_that_appeared_later(tmp_path: Path) -> None:
    folder, _ = run_rows("whole", tmp_path)
    trace = Trace.load(folder / TRACE)
    again = Trace.from_csv(trace.to_csv())
    assert again.labels == trace.labels
    assert list(again.columns) == list(trace.columns)
    for name, column in trace.columns.items():
        assert np.array_equal(again.columns[name], column, equal_nan=column.dtype.kind == "f"), name
