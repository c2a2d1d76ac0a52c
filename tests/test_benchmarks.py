"""The benchmarks run: those that reach into the package or into the tests, with small shapes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks import arena, trial
from benchmarks.harness import hold
from benchmarks.verdict import judging, plan, report, running
from benchmarks.verdict.families import FAMILIES
from benchmarks.verdict.streams import FIRST_JUDGED, KINDS, families_of, make

from driftsurf.core.drifts import Drift


def test_the_twins_of_a_trial_make_the_same_errors() -> None:
    (contest,) = trial.contests(True, lambda note: None)
    sessions, ours, twins = hold(contest, 1).scores
    assert sessions.remark == ours.remark == twins.remark


@pytest.mark.parametrize("family", FAMILIES)
def test_a_made_stream_has_the_rise_that_its_kind_says_and_is_a_function_of_its_seed(family: str) -> None:
    made, again = make("abrupt-20", family, 3, 4_000), make("abrupt-20", family, 3, 4_000)
    assert made.true_rise == pytest.approx(0.2, abs=0.01)
    assert made.change_row is not None
    assert 1_800 <= made.change_row < 2_200
    np.testing.assert_array_equal(made.y, again.y)
    assert make("steady", family, 3, 4_000).change_rows == ()
    assert make("column", family, 3, 4_000).columns[0] in made.names


def test_a_class_that_comes_was_not_there_before() -> None:
    made = make("class-comes", "classes", 0, 4_000)
    there = made.y == made.changed_class
    assert there.any()
    assert not there[: made.change_row].any()


def test_the_plan_has_as_many_streams_as_are_needed_with_seeds_that_chose_nothing() -> None:
    tasks = plan.made_tasks()
    assert len({task.key for task in tasks}) == len(tasks)
    assert min(task.seed for task in tasks) >= FIRST_JUDGED
    for kind in KINDS:
        own = [task for task in tasks if task.kind == kind]
        assert len(own) == (1_000 if kind == "steady" else 200)
        cells = {(task.family, task.batch) for task in own}
        assert len(cells) == len(families_of(kind)) * len(plan.BATCHES)


def test_results_of_finished_streams_are_kept_and_reported(tmp_path: Path) -> None:
    tasks = [judging.Task("made", kind, "linear", 200, "default", 1_000, 4_000) for kind in ("steady", "abrupt-40")]
    path = tmp_path / "verdict.jsonl"
    first = running.run(tasks[:1], 1, path)
    path.write_text(path.read_text() + '{"cut off')
    path.write_text(path.read_text() + "\n")
    both = running.run(tasks, 1, path)
    assert both[tasks[0].key] == first[tasks[0].key]
    assert list(running.read(path)) == [task.key for task in tasks]
    changed = both[tasks[1].key]
    assert changed["own_after"] - changed["own_before"] == pytest.approx(0.4, abs=0.06)
    assert "seeds 1000 to 1000" in next(report.lines(list(both.values())))


def record(**entries: Any) -> dict[str, Any]:
    """Return the result of a stream that changed at row 5,000, for batches of 200 rows."""
    found = Drift(0, 5_010, 25, 5_090, "new rule", "error", 0.05, 0.25, columns=("x2", "x0"))
    drifts = [found.to_dict() | {"seen": 5_200}]
    return {"change_rows": [5_000], "batch": 200, "true_needed": 20.0, "columns": ["x0"], "drifts": drifts} | entries


def test_a_verdict_counts_for_the_change_before_it() -> None:
    one = record()
    assert not report.false_verdicts(one)
    assert report.found(one)["row"] == 5_010
    assert report.delay(one) == (10.0, 1.0)  # 200 rows, of which the batch forces 180
    assert not report.names_column(one, 1)
    assert report.names_column(one, 3)
    early = record(change_rows=[6_000])
    assert report.false_verdicts(early)
    assert report.found(early) is None
    assert report.false_verdicts(record(change_rows=[]))
    later = record(change_rows=[1_000, 5_000])
    assert report.found(later) is None
    assert report.found(later, 1) is not None


def test_the_arena_resumes_and_chooses_schedules_afterwards(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--streams", "plant", "load", "--rows", "500", "--paces", "50", "--delays", "0", "2"]
    models = ["recommended-linear", "retrain linear 100/500", "retrain linear 500/500", arena.REPEAT]
    out = tmp_path / "arena.jsonl"
    arena.main([*options, "--models", *models[:2], "--out", str(out)])
    before = out.read_text()
    capsys.readouterr()
    arena.main([*options, "--models", *models, "--out", str(out)])
    assert out.read_text().startswith(before)
    assert "recommended-linear: " not in capsys.readouterr().out
    results = arena.Results(out)
    assert len(results.found) == 16
    assert {found.commit for found in results.found.values() if found} == {arena.commit()}
    for _, streams in arena.rounds(results):
        for found in streams.values():
            plans = [found[name] for name in found if name.startswith("retrain, best of")]
            assert len(plans) == 2  # of all, and of linear models
            assert plans[0] == plans[1]
    late = {part.delay: one for part, one in results.found.items() if part[0] == "plant" and part.model == arena.REPEAT}
    assert late[0] != late[2]
    arena.report(results, models[0])
    printed = capsys.readouterr().out
    assert "labels 2 calls late: 2 streams" in printed
    assert f"{arena.FOREST} was not run" in printed


def test_the_arena_stops_when_its_time_is_over_and_measures_other_commits_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    part = arena.Part("plant", 11, 300, 100, 0, arena.REPEAT)
    results = arena.Results(tmp_path / "arena.jsonl")
    arena.run([part], results, 0.0, again=False)
    assert not results.found
    assert "the same command continues" in capsys.readouterr().out
    arena.run([part], results, 1.0, again=False)
    monkeypatch.setattr(arena, "commit", lambda: "later")
    for again, commits in ((False, 1), (True, 2)):
        arena.run([part], results, 1.0, again=again)
        assert len(results.path.read_text().splitlines()) == commits
    assert results.found[part].commit == "later"  # type: ignore[union-attr]


def test_the_arena_compares_costs_with_those_of_the_forest(capsys: pytest.CaptureFixture[str]) -> None:
    def took(seconds: float) -> arena.Found:
        return arena.Found([0.1], 0.1, seconds)

    seconds = {arena.FOREST: 10.0, "recommended": 2.4, "recommended-light": 1.1}
    streams = {
        ("a", 1, 9): {name: took(count) for name, count in seconds.items()},
        ("b", 1, 9): {"recommended": took(9)},
    }
    arena.costs(streams)
    printed = capsys.readouterr().out
    assert "| recommended | 1 | 2.4 | 0.24 | 0.25: holds |" in printed
    assert "| recommended-light | 1 | 1.1 | 0.11 | 0.1: does not hold |" in printed


def test_the_default_of_the_arena_has_every_pace_and_late_labels_at_the_usual_one() -> None:
    parts = arena.chosen(arena.parser().parse_args([]))
    calls = list(dict.fromkeys((part.pace, part.delay) for part in parts))
    assert calls[:3] == [(100, 0), (100, 1), (100, 10)]
    assert set(calls[3:]) == {(1, 0), (10, 0), (1_000, 0)}
    assert not {part.stream.partition("/")[0] for part in parts} & set(arena.CHOSEN_ON)
    whole = arena.chosen(arena.parser().parse_args(["--all"]))
    assert {(part.pace, part.delay) for part in whole} == {(n, d) for n in arena.PACES for d in arena.DELAYS}
    assert set(arena.RETRAINED) < {part.model for part in whole}


def test_schedules_of_the_arena_are_those_of_the_comparison() -> None:
    for numbers, kind in ((False, "Classifier"), (True, "Regressor")):
        found = arena.retrained("retrain histogram boosting 500/2000", 100, numbers)
        assert found.name == f"retrained(every=5, rows=2000):sklearn.ensemble.HistGradientBoosting{kind}"
    assert arena.retrained("retrain linear 100/500", 1_000, numbers=True).name.startswith(
        "retrained(every=1, rows=500)"
    )
    settings = json.loads(Path(arena.search_settings()).read_text())
    assert {one["algorithm"].rpartition(".")[2] for one in settings["algorithms"]} >= {"kNN", "HoeffdingTree"}
