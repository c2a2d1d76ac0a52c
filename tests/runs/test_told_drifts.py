"""What a run tells of drifts: lines in the terminal, a verdict, an exit code, commands, metrics, marks."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from checkpoint_cases import WORK, Unflushed
from commands import invoke
from drifting import BEGAN, GREW, OVER, UPDATES, report_drifts
from live_runs import run_to_end

import driftsurf
from driftsurf.core import disk
from driftsurf.core.decisions import Decision
from driftsurf.core.drifts import Drift, DriftNews, Drifts, InputChange
from driftsurf.core.journal import drifts_of, read_lines
from driftsurf.errors import OptionError, RunDrifted, StateError
from driftsurf.evaluation.summary import Baselines, verdict
from driftsurf.report.sections.settings import command_line
from driftsurf.runs import orders
from driftsurf.runs.checkpoint import CheckpointFolder
from driftsurf.runs.explanation.explain import explain
from driftsurf.runs.explanation.records import read_run
from driftsurf.runs.folder import JOURNAL
from driftsurf.runs.hooks import DriftCommand, DriftLog
from driftsurf.runs.numbering import Numbering, RunDrifts
from driftsurf.runs.prometheus import RunMetrics

RUN = ["run", "mixed", "--rows", "2000", "--batch-size", "100"]


def decision(step: int, *drifts: Drift) -> Decision:
    return Decision(step, 100 * step, 100, "stable", 0, 0, 0, (), drifts=drifts)


# ---------------------------------------------------------------------------- terminal and exit code


def test_the_terminal_tells_the_beginning_the_end_and_the_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report_drifts(monkeypatch)
    shown = invoke(*RUN, "--out", str(tmp_path / "run"), COLUMNS="1000").stdout.splitlines()
    assert [line for line in shown if line.startswith("drift ")][:2] == [BEGAN.news("began"), OVER.news("over")]
    assert not any("to test a new model" in line for line in shown)
    states = [line.rpartition(", ")[2] for line in shown if line.startswith("step ")]
    assert [state == "drifting" for state in states] == [False, False, False, True, True, True, *[False] * 4]
    assert shown[-1].startswith("One drift: from row 600 on, the error rose from 7 % to 57 % and was back at 9 %")
    assert " better than " in shown[-1]


def test_without_a_drift_the_verdict_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    report_drifts(monkeypatch, {})
    shown = invoke(*RUN, "--out", str(tmp_path / "run"), "--fail-on-drift", COLUMNS="1000")
    assert shown.exit_code == 0
    assert shown.stdout.splitlines()[-1].startswith("No drift in 2,000 rows. ")


def test_a_drift_is_an_exit_code_of_its_own_and_the_run_is_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report_drifts(monkeypatch)
    found = invoke(*RUN, "--out", str(tmp_path / "run"), "--fail-on-drift")
    assert (found.exit_code, "One drift" in found.stdout) == (3, True)
    assert (tmp_path / "run" / "report.html").exists()
    with pytest.raises(RunDrifted, match="One drift") as caught:
        driftsurf.run("mixed", rows=2000, batch_size=100, out=tmp_path / "again", fail_on_drift=True)
    assert [one.row for one in caught.value.result.drifts] == [600]


def test_a_marked_drift_does_not_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    report_drifts(monkeypatch, {7: (replace(BEGAN, mark="expected"),)})
    assert invoke(*RUN, "--out", str(tmp_path / "run"), "--fail-on-drift").exit_code == 0


# ---------------------------------------------------------------------------- commands, log, metrics


def test_the_command_is_called_for_the_news_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", logger="driftsurf")
    tell, log = DriftCommand(f'cat >> "{tmp_path}/in"; env > "{tmp_path}/env"', "mine"), DriftLog("mine")
    for step, updates in UPDATES.items():
        for model in ("other", "mine"):
            tell(step, model, 0.5, (decision(step, *updates),))
            log(step, model, 0.5, (decision(step, *updates),))
    began, over = map(json.loads, (tmp_path / "in").read_text().splitlines())
    assert (began["model"], began["news"], began["at_step"], began["row"]) == ("mine", "began", 7, 600)
    assert (over["news"], over["error_after"], over["text"]) == ("over", 0.09, OVER.describe())
    environment = dict(line.split("=", 1) for line in (tmp_path / "env").read_text().splitlines() if "=" in line)
    expected = {"NEWS": "over", "STEP": "13", "ROW": "600", "KIND": "new rule", "CAUSE": "columns"}
    expected |= {"COLUMNS": "price,distance", "ERROR_BEFORE": "0.07", "ERROR_PEAK": "0.57", "MODEL": "mine"}
    assert {name: environment[f"DRIFTSURF_{name}"] for name in expected} == expected
    assert caplog.messages == [f"mine: {BEGAN.news('began')}", f"mine: {OVER.news('over')}"]


def test_a_resumed_run_does_not_tell_a_beginning_again(tmp_path: Path) -> None:
    tell = DriftCommand(f'cat >> "{tmp_path}/in"', "mine", known=(BEGAN,))
    for step in (9, 13):
        tell(step, "mine", 0.5, (decision(step, *UPDATES[step]),))
    assert [json.loads(line)["news"] for line in (tmp_path / "in").read_text().splitlines()] == ["over"]


def test_the_command_is_an_option_of_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    report_drifts(monkeypatch)
    invoke(*RUN, "--quiet", "--out", str(tmp_path / "run"), "--on-drift", f'echo $DRIFTSURF_NEWS >> "{tmp_path}/news"')
    assert (tmp_path / "news").read_text().split() == ["began", "over"]


def test_metrics_count_drifts(tmp_path: Path) -> None:
    with CheckpointFolder(tmp_path / "run") as folder, WORK.run(folder) as run, disk.using(Unflushed()):
        run.begin()
        metrics = RunMetrics(run)
        seen = []
        for step, drifts in {0: (), **UPDATES}.items():
            metrics(step, run.leading, 0.1, (decision(step, *drifts),))
            lines = metrics.text().splitlines()
            seen += [
                [line.rpartition(" ")[2] for line in lines if line.startswith(f"driftsurf_{name}{{")]
                for name in ("drifts_total", "drifting")
            ]
        assert [first for first, _ in seen] == ["0", "0", "1", "1", "1", "1", "1", "0"]


# ---------------------------------------------------------------------------- marks and numbers


def test_a_mark_is_journalled_shown_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    report_drifts(monkeypatch, {3: (BEGAN,), 7: (GREW,), 9: (OVER,)})
    path = tmp_path / "run"
    with disk.using(Unflushed()), CheckpointFolder(path) as folder, WORK.run(folder) as run:
        run.begin()

        def order(step: int, model: str, error: float, decisions: object) -> None:
            if (step, model) == (4, run.leading):
                orders.submit(path, "mark", mark="false", drift=7)
                orders.submit(path, "mark", mark="expected")

        run_to_end(run, order)
        refused, done = orders.read_records(run.text(JOURNAL))
        assert (refused.outcome, refused.reason, done.outcome, done.mark) == (
            "refused",
            "no-such-drift",
            "done",
            "expected",
        )
        (drift,) = drifts_of(read_lines(run.text(JOURNAL)))
        assert (drift.mark, drift.ended_at_row) == ("expected", 1400)  # later updates keep it
        assert run.drifts.known == (drift,)
    (drift,) = read_run(path).drifts
    assert drift.mark == "expected"


def test_a_mark_has_to_be_one_that_is_known(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"'odd'.*'expected'"):
        orders.submit(tmp_path, "mark", mark="odd")


def test_the_command_line_gives_marks(tmp_path: Path) -> None:
    path = tmp_path / "live"
    with disk.using(Unflushed()), CheckpointFolder(path) as folder, WORK.run(folder) as run:
        run.begin()
    assert invoke("mark", path, "false", "--drift", "2").exit_code == 0
    (order,) = orders.waiting(path, 0)
    assert (order.kind, order.mark, order.drift) == ("mark", "false", 2)
    assert invoke("mark", path, "odd").exit_code == 2


def test_a_drift_of_a_finished_run_is_marked_and_does_not_fail_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report_drifts(monkeypatch)
    command = [*RUN, "--checkpoint", str(tmp_path / "live"), "--out", str(tmp_path / "run"), "--fail-on-drift"]
    assert invoke(*command).exit_code == 3
    assert invoke("pin", tmp_path / "live").exit_code == 1
    assert "--resume" in invoke("mark", tmp_path / "live", "expected").stdout
    again = invoke(*command, "--resume", COLUMNS="1000")
    assert again.exit_code == 0
    assert "It is marked as expected." in again.stdout
    assert [one.mark for one in read_run(tmp_path / "run").drifts] == ["expected"]


def test_drifts_are_numbered_on_and_end_with_the_model_that_saw_them() -> None:
    numbering = Numbering()
    numbering.of([decision(step, *((BEGAN,) if step == 7 else ())) for step in range(8)])
    numbering.roll_back(Numbering())
    (ended,) = numbering.drifts.changed
    assert (ended.number, ended.ended_at_row, ended.error_after) == (1, 800, None)
    assert "when the model was replaced" in ended.describe()
    numbering = Numbering.from_json(numbering.to_json())
    first, second = numbering.of([decision(0), decision(7, BEGAN)])
    assert first.drifts == (ended,)  # listeners hear of the end, although no order is a step
    (again,) = second.drifts
    assert (again.number, again.row, again.step, again.detected_at_row) == (2, 1400, 14, 1590)
    numbering.drifts.mark(2, "false")
    kept = Numbering.from_json(numbering.to_json())
    assert kept.drifts.known == numbering.drifts.known
    (over,) = kept.of([decision(13, OVER)])[0].drifts
    assert (over.number, over.mark, over.ended_at_row) == (2, "false", 2200)


def test_a_numbering_of_before_drifts_is_read() -> None:
    assert "drifts" not in json.loads(Numbering().to_json())
    assert Numbering.from_json(Numbering().to_json()) == Numbering()


def test_a_drift_that_goes_on_after_a_rollback_keeps_the_step_at_which_it_began() -> None:
    numbering = Numbering()
    numbering.of([decision(step, *((BEGAN,) if step == 7 else ())) for step in range(8)])
    then = Numbering.from_json(numbering.to_json())
    numbering.of([decision(step) for step in range(8, 30)])
    numbering.roll_back(then)
    (over,) = numbering.of([decision(8, OVER)])[0].drifts
    assert (over.number, over.row, over.step, over.ended_at_row) == (1, 600, 6, 3600)


# ---------------------------------------------------------------------------- moves of the inputs alone


@pytest.fixture
def moved(tmp_path: Path) -> Path:
    """Return a table whose second column moves, which does no harm."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(21_000, 2))
    X[11_000:, 1] += 2.0
    lines = [
        f"{price:.3f},{age:.3f},{'yes' if price > noise else 'no'}"
        for (price, age), noise in zip(X.tolist(), rng.normal(size=len(X)), strict=True)
    ]
    table = tmp_path / "moved.csv"
    table.write_text("\n".join(["price,age,sold", *lines]))
    return table


def test_a_move_of_the_inputs_is_journalled_and_shown_in_the_details(moved: Path, tmp_path: Path) -> None:
    options: Any = {"label": "sold", "model": "oblivious", "batch_size": 500, "progress": False}
    result = driftsurf.run(moved, out=tmp_path / "run", checkpoint=tmp_path / "state", fail_on_drift=True, **options)
    assert (list(result.drifts), [one.columns for one in result.changes]) == ([], [("age",)])
    (change,) = result.changes
    assert change.row >= 11_000
    record = read_run(tmp_path / "run")
    assert record.changes == result.changes
    assert change.describe() in explain(record, width=10_000)
    page = (tmp_path / "run" / "report.html").read_text()
    assert "Inputs that moved without harm" in page[page.index('class="more"') :]  # among what is folded
    assert result.changes.to_frame()["row"].tolist() == [change.row]


def test_moves_of_the_inputs_have_the_numbers_of_the_run_and_are_kept() -> None:
    numbering = Numbering()
    numbering.of([decision(step) for step in range(8)])
    numbering.roll_back(Numbering())
    move = InputChange(600, 6, ("age",))
    (told,) = numbering.of([decision(0), replace(decision(7), changes=(move,))])[1].changes
    assert (told.row, told.step) == (1400, 14)
    assert Numbering.from_json(numbering.to_json()).drifts.changes == (told,)


@pytest.mark.parametrize("source", ["mixed", "table"])
def test_a_run_resumes_with_the_same_idea_of_a_drift_and_records_it(tmp_path: Path, source: str) -> None:
    rows = "\n".join(f"{k % 7},{'yes' if k % 3 else 'no'}" for k in range(900))
    (tmp_path / "table").write_text(f"price,sold\n{rows}\n")
    what: dict[str, Any] = (
        {"rows": 600} if source == "mixed" else {"label": "sold", "model": "oblivious", "format": "csv"}
    )
    what |= {"batch_size": 100, "out": tmp_path / "run", "checkpoint": tmp_path / "live", "progress": False}
    path = source if source == "mixed" else str(tmp_path / source)
    result = driftsurf.run(path, smallest_rise=0.1, **what)
    assert result.about["smallest_rise"] == 0.1
    assert "--smallest-rise 0.1" in command_line(result.about, source)
    assert "--drift-risk" not in command_line(result.about, source)
    with pytest.raises(StateError, match=r"smallest_rise was 0\.1 and is 0\.3"):
        driftsurf.run(path, smallest_rise=0.3, resume=True, **what)


def test_a_model_drifts_everywhere_or_nowhere() -> None:
    back = replace(GREW, error_after=0.09, recovered_after_rows=800)
    news, numbering = DriftNews(), Numbering()
    seen = []
    for step, one in ((7, BEGAN), (9, GREW), (11, back), (13, OVER)):
        told = numbering.of([decision(step, one)])[0].drifts
        phases = [phase for phase, _ in news.take(told)]
        known = Drifts(numbering.drifts.known)
        drifting = {news.drifting, numbering.drifts.drifting, known.open is not None}
        drifting.add(verdict(known, 1400, Baselines("mean error", 0.1, {"majority": 0.4})).status == "drifting")
        seen.append((phases, drifting))
    assert seen == [(["began"], {True}), ([], {True}), ([], {False}), (["over"], {False})]


def test_a_promoted_model_goes_on_with_the_drift_that_it_has_seen_too() -> None:
    numbering = Numbering()
    numbering.of([decision(step, *((BEGAN,) if step == 7 else ())) for step in range(9)])
    numbering.drifts.mark(1, "expected")
    numbering.drifts.changed_lines(9)
    own = replace(BEGAN, number=3, row=110, step=1, detected_at_row=300)  # of a model that began 500 rows later
    shared = numbering.drifts.shared_by(Drifts([replace(OVER, number=2), own]))
    numbering.roll_back(replace(Numbering.following(), drifts=shared))
    assert numbering.drifts.changed == []
    ended = replace(own, error_after=0.1, recovered_after_rows=290, ended_at_row=520)
    (over,) = numbering.of([decision(4), decision(5, ended)])[1].drifts
    assert (over.number, over.row, over.step, over.detected_at_row) == (1, 600, 6, 790)
    assert (over.mark, over.error_after, over.ended_at_row) == ("expected", 0.1, 1020)


def test_a_drift_that_a_promoted_model_alone_has_seen_has_the_row_of_the_run() -> None:
    numbering = Numbering()
    numbering.of([decision(step) for step in range(9)])
    assert numbering.drifts.shared_by(Drifts([BEGAN])) == RunDrifts()
    numbering.roll_back(Numbering.following())
    (told,) = numbering.of([decision(4), decision(5, replace(BEGAN, row=110, detected_at_row=520))])[1].drifts
    assert (told.number, told.row, told.detected_at_row) == (1, 610, 1020)


def test_a_drift_from_before_the_run_is_told_as_such_and_has_no_time() -> None:
    numbering = Numbering.following()
    (over,) = numbering.of([decision(6), decision(13, replace(BEGAN, row=400, detected_at_row=500))])[1].drifts
    assert over.describe().startswith("From 200 rows before this run on, the error rose")
    assert over.news("began").startswith("drift detected before this run: ")


def test_metrics_and_commands_hear_that_a_drift_ended_with_a_rollback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report_drifts(monkeypatch, {3: (BEGAN,)})
    with disk.using(Unflushed()), CheckpointFolder(tmp_path / "run") as folder, WORK.run(folder) as run:
        run.begin()
        first, metrics = folder.generations()[0], RunMetrics(run)
        tell = DriftCommand(f'echo $DRIFTSURF_NEWS >> "{tmp_path}/news"', run.leading)

        def listen(step: int, model: str, error: float, decisions: tuple[Decision, ...]) -> None:
            for one in (metrics, tell):
                one(step, model, error, decisions)
            if (step, model) == (3, run.leading):
                orders.submit(tmp_path / "run", "rollback", first)

        run_to_end(run, listen)
        assert (tmp_path / "news").read_text().split()[:2] == ["began", "over"]
        assert next(iter(run.drifts.known)).ended
        lines = [line for line in metrics.text().splitlines() if line.startswith("driftsurf_drifting{")]
        assert float(lines[0].rpartition(" ")[2]) == run.drifts.drifting
