"""The scored rows of a keyed run, and the trivial rules for each key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from keyed_rows import COLUMNS, OPTIONS, late_rows, learner, shops, write_rows
from pyarrow import parquet

from driftsurf.data import FileSource
from driftsurf.evaluation.summary import baselines
from driftsurf.keyed import Columns, KeyedFolder, KeyedOptions, run_keyed
from driftsurf.keyed.local import run_local
from driftsurf.keyed.outcomes import KeyScore, Outcomes, RunningScores
from driftsurf.learners import LinearRegression
from driftsurf.report.key_page import render_key, trace_key
from driftsurf.strategies import DriftSurf


def _by_hand(folder: KeyedFolder, batch_size: int, regression: bool) -> dict[Any, tuple[float, float, float]]:
    """Return the mean errors of each key: of its model, of majority or mean, and of persistence."""
    table = folder.read("predictions")
    rows = dict[Any, list[tuple[Any, Any]]]()
    for key, predicted, true in zip(table["key"], table["prediction"], table["true"], strict=True):
        if true is not None:
            rows.setdefault(key, []).append((predicted, true))

    def wrong(guess: Any, true: Any) -> float:
        return abs(guess - true) if regression else float(guess != true)

    found = {}
    for key, own in rows.items():
        errors = []
        for place, (predicted, true) in enumerate(own):
            before = [label for _, label in own[: place - place % batch_size]]
            usual = np.mean(before or 0.0) if regression else max(sorted(set(before)), key=before.count, default=None)
            if predicted is not None:
                last = before[-1] if before else predicted
                errors.append((wrong(predicted, true), wrong(usual if before else predicted, true), wrong(last, true)))
        found[key] = tuple(np.mean(errors, axis=0).tolist())
    return found


@pytest.mark.parametrize("classes", [(0, 1), None])
@pytest.mark.parametrize("epoch", [37, 1000])
def test_scores_are_those_of_rules_applied_by_hand(tmp_path: Path, classes: Any, epoch: int) -> None:
    source = str(write_rows(tmp_path / "a.csv", shops(700, 3)))
    options = KeyedOptions(features=("price", "age"), classes=classes, batch_size=10, step_size=0.1)
    folder = run_keyed(source, tmp_path / "run", COLUMNS, options, epoch=epoch)
    outcomes = Outcomes.read(folder)
    scores = outcomes.scores
    expected = _by_hand(folder, 10, regression=False)
    assert list(scores) == ["s0", "s1", "s2"]
    for key, score in scores.items():
        assert score[2:] == pytest.approx(expected[key])
        assert score.model == pytest.approx(folder.keys()[key]["error"])
        assert score.rows == folder.keys()[key]["scored"]
        assert score.rows - score.learned == (10 if classes else 0)
        trace, decisions = trace_key(outcomes, outcomes.of([key])[key], _records(folder, key), model="m", stream="s")
        assert len(trace.columns["step"]) == len(decisions) + 1
        found = baselines(trace, "m")
        assert (found.own, *found.others.values()) == pytest.approx(score[2:])


def _records(folder: KeyedFolder, key: Any) -> list[tuple[int, str]]:
    table = folder.read("journal")
    rows = zip(table["key"], table["sequence"], table["record"], strict=True)
    return [(at, record) for own, at, record in rows if own == key]


def test_scores_of_numbers_are_absolute_errors(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=300), rng.normal(size=300)
    keys = np.where(np.arange(300) % 3 == 0, "noise", "line")
    frame = pa.table({"k": keys, "t": range(300), "x": x, "y": np.where(keys == "line", 5e5 + 3 * x, y)})
    parquet.write_table(frame, tmp_path / "a.parquet")
    strategy = DriftSurf(LinearRegression(step_size="auto"), max_rows=60)
    given = learner(strategy=strategy, features=("x",), classes=None)
    folder = run_local(FileSource(str(tmp_path / "a.parquet")), tmp_path / "run", given, Columns("k", "t", "y"))
    scores = Outcomes.read(folder).scores
    expected = _by_hand(folder, 10, regression=True)
    assert {key: score[2:] for key, score in scores.items()} == {
        key: pytest.approx(one, rel=1e-9) for key, one in expected.items()
    }


def test_a_label_that_comes_late_is_scored_once(tmp_path: Path) -> None:
    given = learner(delay=1000.0)
    visit = given.visit("a", None, late_rows(60))
    folder = KeyedFolder(tmp_path / "run")
    folder.open("local", given, {})
    folder.write(0, {"a": visit}, ("string", "int64"), {})
    score = Outcomes.read(folder).scores["a"]
    assert (score.rows, score.model) == (visit.summary.scored, visit.summary.error)


def test_a_step_of_late_labels_is_the_same_in_the_journal_and_on_the_page_of_the_key(tmp_path: Path) -> None:
    given = learner(delay=1000.0)  # 10 rows in a time step
    visit = given.visit("a", None, late_rows(95, wait=25))
    folder = KeyedFolder(tmp_path / "run")
    folder.open("local", given, {})
    folder.write(0, {"a": visit}, ("string", "int64"), {})
    outcomes = Outcomes.read(folder)
    trace, decisions = trace_key(outcomes, outcomes.of(["a"])["a"], _records(folder, "a"), model="m", stream="s")
    run = trace.of("m")
    assert [decision.step for decision in decisions] == list(range(9))
    assert run["step"].tolist() == list(range(10))
    assert run["first_row"].tolist() == [*(decision.first_row for decision in decisions), 90]
    assert run["rows"].tolist() == [0, 0, 0, 5, *[10] * 5, 5]  # 35 rows came before the first time step
    kinds = [tuple(one.kind for one in decision.transitions) for decision in decisions]
    assert list(trace.transitions("m")) == [*kinds, ()]
    assert baselines(trace, "m").own == outcomes.scores["a"].model
    assert "in 10 steps" in render_key(folder, outcomes, "a", folder.keys()["a"])


def test_a_time_step_can_be_an_epoch(tmp_path: Path) -> None:
    source = str(write_rows(tmp_path / "a.csv", shops(60, 1)))
    options = KeyedOptions(features=("price", "age"), classes=(0, 1), batch_size=None)
    folder = run_keyed(source, tmp_path / "run", COLUMNS, options, epoch=20)
    score = Outcomes.read(folder).scores["s0"]
    assert (score.rows, score.learned) == (60, 40)
    assert score[2:] == pytest.approx(_by_hand(folder, 20, regression=False)["s0"])


def test_nothing_scored_gives_no_scores(tmp_path: Path) -> None:
    rows = [[*row[:2], "", *row[3:]] for row in shops(30, 2)]
    folder = run_keyed(str(write_rows(tmp_path / "a.csv", rows)), tmp_path / "run", COLUMNS, OPTIONS)
    outcomes = Outcomes.read(folder)
    assert outcomes.scores == {}
    assert (outcomes.first, outcomes.last) == (0, 29)
    assert [len(rows.true) for rows in outcomes.of(["s0", "unknown"]).values()] == [0, 0]
    assert outcomes.curve(10) == []


@pytest.mark.parametrize("batch_size", [7, None])
def test_numbers_are_the_same_however_the_table_is_split(tmp_path: Path, batch_size: int | None) -> None:
    rng = np.random.default_rng(0)
    names, epochs = np.array(["a", "b", "c"]), np.sort(rng.integers(0, 4, 900))
    key, y = rng.integers(0, 3, 900), rng.normal(size=900)
    part, seen = RunningScores(batch_size, True), RunningScores(batch_size, True)
    guess = np.where(rng.random(900) < 0.2, np.nan, rng.normal(size=900))
    for epoch in range(4):
        own = np.flatnonzero(epochs == epoch)
        seen.add(epoch, key[own], own, guess[own], y[own], len(names), ())
        for rows in np.array_split(own, 5):  # row groups of a part
            part.add(epoch, key[rows], rows, guess[rows], y[rows], len(names), ())
    assert [part.score(place) for place in range(3)] == [seen.score(place) for place in range(3)]
    assert seen.score(9).rows == 0


def test_the_curve_has_the_mean_error_of_each_span(tmp_path: Path) -> None:
    source = str(write_rows(tmp_path / "a.csv", shops(300, 3)))
    folder = run_keyed(source, tmp_path / "run", COLUMNS, OPTIONS, epoch=70)
    table, outcomes = folder.read("predictions"), Outcomes.read(folder)
    assert (outcomes.first, outcomes.last) == (0, 299)
    rows = list(zip(table["sequence"], table["prediction"], table["true"], strict=True))
    expected = [
        np.mean([predicted != true for at, predicted, true in rows if at // 30 == place and predicted is not None])
        for place in range(10)
    ]
    assert outcomes.curve(10) == pytest.approx(expected)


def test_the_curve_ends_with_the_last_row_of_a_long_sequence(tmp_path: Path) -> None:
    # As microseconds, the distance of the two years times 10 / (distance + 1) is rounded up to 10.
    days = [*(f"1835-01-{day:02d}" for day in range(1, 31)), "2009-01-01"]
    rows = [["s0", day, i % 2, i % 2, 1.0, ""] for i, day in enumerate(days)]
    folder = run_keyed(str(write_rows(tmp_path / "a.csv", rows)), tmp_path / "run", COLUMNS, OPTIONS)
    table = folder.read("predictions")
    wrong = [float(a != b) for a, b in zip(table["prediction"], table["true"], strict=True) if a is not None]
    assert Outcomes.read(folder).curve(10) == pytest.approx([np.mean(wrong[:-1]), wrong[-1]])


def test_a_model_is_no_better_only_once_it_has_learned() -> None:
    assert KeyScore(20, 10, 0.4, 0.4, 0.5).no_better
    assert KeyScore(2000, 1990, 0.494, 0.495, 0.5).no_better  # labels at random: the difference is noise
    assert not KeyScore(20, 0, 0.4, 0.4, 0.5).no_better
    assert not KeyScore(20, 10, 0.3, 0.4, 0.5).no_better
    assert not KeyScore(20, 10, 0.0, 0.0, 0.0).no_better  # nothing can be better
