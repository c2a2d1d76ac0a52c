"""What a run tells of drifts: lines in the terminal, a verdict, an exit code, commands, metrics, marks."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from checkpoint_cases import WORK, Unflushed
from commands import invoke
from drifting import BEGAN, GREW, OVER, UPDATES, report_drifts
from live_runs import run_to_end

import driftsurf
from driftsurf.core import disk
from driftsurf.core.decisions import Decision
from driftsurf.core.drifts import Drift
from driftsurf.core.journal import drifts_of, read_lines
from driftsurf.errors import OptionError, RunDrifted
from driftsurf.explanation.records import read_run
from driftsurf.runs import orders
from driftsurf.runs.checkpoint import CheckpointFolder
from driftsurf.runs.folder import JOURNAL
from driftsurf.runs.hooks import DriftCommand, DriftLog
from driftsurf.runs.numbering import Numbering
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
                orders.give(path, "mark", mark="false", drift=7)
                orders.give(path, "mark", mark="expected")

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
        orders.give(tmp_path, "mark", mark="odd")


def test_the_command_line_gives_marks(tmp_path: Path) -> None:
    path = tmp_path / "live"
    with disk.using(Unflushed()), CheckpointFolder(path) as folder, WORK.run(folder) as run:
        run.begin()
    assert invoke("mark", path, "false", "--drift", "2").exit_code == 0
    (order,) = orders.waiting(path, 0)
    assert (order.kind, order.mark, order.drift) == ("mark", "false", 2)
    assert invoke("mark", path, "odd").exit_code == 2


def test_drifts_are_numbered_on_and_end_with_the_model_that_saw_them() -> None:
    numbering = Numbering()
    numbering.of([decision(step, *((BEGAN,) if step == 7 else ())) for step in range(8)])
    numbering.roll_back(Numbering())
    (ended,) = numbering.drifts.changed
    assert (ended.number, ended.ended_at_row, ended.error_after) == (0, 800, None)
    assert "when the model was replaced" in ended.describe()
    (again,) = numbering.of([decision(0), decision(7, BEGAN)])[1].drifts
    assert (again.number, again.row, again.step, again.detected_at_row) == (1, 1400, 14, 1590)
    numbering.drifts.mark(1, "false")
    kept = Numbering.from_json(numbering.to_json())
    assert kept.drifts.known == numbering.drifts.known
    (over,) = kept.of([decision(13, OVER)])[0].drifts
    assert (over.number, over.mark, over.ended_at_row) == (1, "false", 2200)


def test_a_numbering_of_before_drifts_is_read() -> None:
    assert "drifts" not in json.loads(Numbering().to_json())
    assert Numbering.from_json(Numbering().to_json()) == Numbering()
