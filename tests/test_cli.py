"""The command line as a person meets it."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
from html.parser import HTMLParser
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from driftsurf import Trace, __version__
from driftsurf.cli import main
from driftsurf.errors import RunFolderError
from driftsurf.evaluation.summary import summarise_values
from driftsurf.report import terminal
from driftsurf.report.svg import Chart
from driftsurf.runtime import files
from driftsurf.runtime.checkpoint import CheckpointFolder
from driftsurf.runtime.files import RunFolder, write_text


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments), catch_exceptions=False)


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    folder = tmp_path_factory.mktemp("cli") / "run"
    result = invoke("run", "mixed", "--rows", "20000", "--out", str(folder))
    assert result.exit_code == 0
    return folder, result.output


def test_version_and_help() -> None:
    assert __version__ in invoke("--version").output
    assert "run" in invoke("--help").output
    assert "SOURCE" in invoke("run", "--help").output


def test_streams_are_listed() -> None:
    output = invoke("streams").output
    for name in ("sea0", "sea-gradual", "hyper-fast", "circles"):
        assert name in output


def test_a_run_says_each_transition_and_ends_with_a_table(run_folder: tuple[Path, str]) -> None:
    _, output = run_folder
    assert re.search(r"step 20: risk \d\.\d+ > best \d\.\d+ \+ 0\.10: reactive", output)
    assert re.search(r"step 23: new model \d\.\d+ < old \d\.\d+ over 4 steps: switched", output)
    assert "[100/100]" in output
    for row in ("mean error", "of which false", "rows/s", "drift at step", "report:"):
        assert row in output
    assert "\x1b" not in output  # plain text where there is no terminal


def test_a_built_in_stream_of_values_is_run_beside_the_oracle_too(tmp_path: Path) -> None:
    arguments = ["friedman", "--rows", "5000", "--out", str(tmp_path / "r"), "--predictions", str(tmp_path / "p.csv")]
    output = invoke("run", *arguments).output
    for row in ("[100/100] RMSE", "root mean squared error", "skill over the mean so far", "drift at step", "50"):
        assert row in output
    page = (tmp_path / "r" / "report.html").read_text(encoding="utf-8")
    for words in ("in the unit of the label", "predicting the mean so far", "aware (oracle)", "Recovery from the true"):
        assert words in page
    assert (tmp_path / "p.csv").read_text(encoding="utf-8").count("\n") == 5001
    assert "Root mean squared error" in invoke("explain", str(tmp_path / "r")).output


@pytest.mark.parametrize("stream", ["friedman", "friedman-gradual", "friedman-local"])
def test_the_oracle_of_values_does_not_lose_by_a_model_that_predicts_zero(stream: str, tmp_path: Path) -> None:
    output = invoke("run", stream, "--out", str(tmp_path / "r")).output
    assert "errors without the first batch" in output
    assert "aware is told of a drift after its first batch" in output
    trace = Trace.load(tmp_path / "r" / "trace.csv")
    mine, oracle = (summarise_values(trace, name).mean_squared_error for name in ("driftsurf", "aware"))
    assert oracle < mine
    assert "is told of each drift after its first batch" in (tmp_path / "r" / "report.html").read_text(encoding="utf-8")


def test_the_options_of_the_learner_reach_that_of_values(tmp_path: Path) -> None:
    invoke("run", "friedman-local", "--rows", "1000", "--l2", "0.5", "--quiet", "--out", str(tmp_path / "r"))
    about = json.loads((tmp_path / "r" / "run.json").read_text(encoding="utf-8"))
    assert (about["learner"]["l2"], about["learner"]["loss"]) == (0.5, "squared")


def test_a_terminal_gets_colours_and_a_bar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    output = invoke("run", "mixed", "--rows", "5000", "--out", str(tmp_path / "r")).output
    assert "\x1b[" in output
    assert "[10/100]" not in output


def test_the_run_folder_is_complete(run_folder: tuple[Path, str]) -> None:
    folder, _ = run_folder
    assert sorted(path.name for path in folder.iterdir()) == [
        "columns.csv",
        "journal.jsonl",
        "report.html",
        "run.json",
        "timings.json",
        "trace.csv",
    ]
    said = json.loads((folder / "run.json").read_text())
    assert said["stream"] == "Mixed(noise=0.1, seed=1, n_rows=20000)"
    assert said["learner"]["step_size"] == 0.1
    assert said["driftsurf"] == __version__
    trace = Trace.load(folder / "trace.csv")
    assert trace.models == ("driftsurf", "aware")
    lines = [json.loads(line) for line in (folder / "journal.jsonl").read_text().splitlines()]
    steps = [line for line in lines if line["type"] == "step"]
    assert [line["step"] for line in steps] == list(range(100))
    assert {"entered", "greedy", "switched"} <= {line["kind"] for line in lines if line["type"] == "transition"}
    assert json.loads((folder / "timings.json").read_text())["models"]["driftsurf"]["rows_per_second"] > 0


def test_two_runs_differ_in_their_timings_alone(run_folder: tuple[Path, str], tmp_path: Path) -> None:
    folder, _ = run_folder
    again = tmp_path / "again"
    invoke("run", "mixed", "--rows", "20000", "--quiet", "--out", str(again))
    for name in ("trace.csv", "journal.jsonl", "columns.csv", "report.html"):
        assert (folder / name).read_bytes() == (again / name).read_bytes()


def test_a_run_folder_is_never_overwritten_in_silence(run_folder: tuple[Path, str]) -> None:
    folder, _ = run_folder
    before = (folder / "trace.csv").read_bytes()
    result = invoke("run", "sea0", "--rows", "1000", "--out", str(folder))
    assert result.exit_code == 1
    assert "exists already" in result.output
    assert "--overwrite" in result.output
    assert (folder / "trace.csv").read_bytes() == before


def test_overwrite_replaces_runs_and_nothing_else(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    for _ in range(2):
        assert invoke("run", "sea0", "--rows", "1000", "--quiet", "--out", str(folder), "--overwrite").exit_code == 0
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "thesis.tex").write_text("years of work")
    result = invoke("run", "sea0", "--rows", "1000", "--out", str(precious), "--overwrite")
    assert result.exit_code == 1
    assert "holds 'thesis.tex', which is no file of a run" in result.output
    (precious / "trace.csv").write_text("by chance")
    assert invoke("run", "sea0", "--rows", "1000", "--out", str(precious), "--overwrite").exit_code == 1
    assert (precious / "thesis.tex").read_text() == "years of work"
    assert (precious / "trace.csv").read_text() == "by chance"


@pytest.mark.parametrize("out", [".", "..", "afile", "afile/below", "linked"])
def test_places_that_are_no_folder_for_a_run(out: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "afile").write_text("mine")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "linked").symlink_to(tmp_path / "elsewhere")
    result = invoke("run", "sea0", "--rows", "1000", "--quiet", "--out", out, "--overwrite")
    assert result.exit_code == 1
    assert result.output.startswith("Error: ")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["afile", "elsewhere", "linked"]


def test_an_interrupted_run_replaces_nothing_and_can_be_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ["run", "sea0", "--rows", "2000", "--quiet", "--out", str(tmp_path / "r"), "--overwrite"]
    assert invoke(*arguments).exit_code == 0
    before = (tmp_path / "r" / "trace.csv").read_bytes()

    def interrupt(self: terminal.Progress, step: int, *_: object) -> None:
        if step == 30:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(terminal.Progress, "__call__", interrupt)
        result = invoke(*arguments)
    assert result.exit_code == 130
    assert "r.partial" in result.output
    assert (tmp_path / "r" / "trace.csv").read_bytes() == before
    assert len((tmp_path / "r.partial" / "journal.jsonl").read_text().splitlines()) >= 30
    assert invoke(*arguments).exit_code == 0
    assert not (tmp_path / "r.partial").exists()


def test_by_default_runs_get_folders_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        invoke("run", "sea0", "--rows", "1000", "--quiet")
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == ["sea0", "sea0-2"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["sea1"], "did you mean 'sea10'"),
        (["sea0", "--step-size", "fast"], "'fast' is neither a number nor 'auto'"),
        (["sea0", "--step-size", "-1"], "--step-size is -1.0"),
        (["sea0", "--threshold", "-1"], "threshold is -1.0"),
        (["sea0", "--rows", "0"], "0 is not in the range"),
        (["sea0", "--variant", "mine"], "algorithm-1"),
    ],
)
def test_mistakes_are_answered_in_one_line(
    arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = invoke("run", *arguments)
    assert result.exit_code != 0
    assert message in " ".join(result.output.split())
    assert "Traceback" not in result.output
    assert not (tmp_path / "runs").exists()


def test_runs_into_one_place_never_mix(tmp_path: Path) -> None:
    first = RunFolder(tmp_path / "c")
    write_text(first / "run.json", "first")
    second = RunFolder(tmp_path / "c", overwrite=True)  # while the first is still running
    write_text(second / "run.json", "second")
    with pytest.raises(RunFolderError, match="taken away"):
        write_text(first / "trace.csv", "first")
    with pytest.raises(RunFolderError, match="taken away"):
        first.finish()
    second.finish()
    assert (tmp_path / "c" / "run.json").read_text() == "second"


def test_what_came_meanwhile_is_not_replaced_unasked(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "late")
    write_text(run / "run.json", "mine")
    (tmp_path / "late").mkdir()
    (tmp_path / "late" / "run.json").write_text("theirs")
    with pytest.raises(RunFolderError, match="has come to exist"):
        run.finish()
    assert (tmp_path / "late" / "run.json").read_text() == "theirs"


def test_a_folder_in_the_place_of_a_file_is_not_a_runs_own(tmp_path: Path) -> None:
    (tmp_path / "t" / "trace.csv").mkdir(parents=True)
    (tmp_path / "t" / "run.json").write_text("mine")
    with pytest.raises(RunFolderError, match=r"'trace\.csv'"):
        RunFolder(tmp_path / "t", overwrite=True)
    assert (tmp_path / "t" / "run.json").read_text() == "mine"


def test_what_a_killed_run_left_half_written_is_cleared(tmp_path: Path) -> None:
    (tmp_path / "k.partial").mkdir()
    (tmp_path / "k.partial" / ".trace.csv.abcd").write_text("half")
    with pytest.raises(RunFolderError, match="unfinished run"):
        RunFolder(tmp_path / "k")
    run = RunFolder(tmp_path / "k", overwrite=True)
    write_text(run / "run.json", "whole")
    run.finish()
    assert [path.name for path in (tmp_path / "k").iterdir()] == ["run.json"]


# ---------------------------------------------------------------------------- the page


class Checker(HTMLParser):
    """Collects what a self-contained page must not have, and whether tags close."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.links: list[str] = []
        self.tags: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [value or "" for name, value in attrs if name in ("src", "href")]
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_report_is_one_whole_page(run_folder: tuple[Path, str]) -> None:
    text = (run_folder[0] / "report.html").read_text()
    checker = Checker()
    checker.feed(text.replace("<!doctype html>", ""))
    assert checker.open == []
    assert checker.links == []
    assert checker.tags.count("script") == 2  # the data and what draws it, both in the page
    assert "default-src &#x27;none&#x27;" in text
    assert checker.tags.count("svg") >= 2
    assert text.count('class="drift"') >= 8  # four drifts in each of two charts
    assert text.count('class="switched"') >= 4
    assert "switched to the new model" in text
    assert "After each of the 4 drifts" in text


def test_a_quiet_run_has_a_page_too(tmp_path: Path) -> None:
    invoke("run", "hyper-slow", "--rows", "2000", "--threshold", "9", "--quiet", "--out", str(tmp_path / "r"))
    text = (tmp_path / "r" / "report.html").read_text()
    assert "no sign of drift" in text
    assert "No transition" in text


def test_names_are_escaped() -> None:
    chart = Chart(steps=2, top=1.0, y_label="<y>")
    chart.line([0.1, float("nan")], css="curve", title='<script>"&')
    assert "<script>" not in chart.render("<b>")


# ---------------------------------------------------------------------------- checkpoints

RUN = ["run", "mixed", "--rows", "4000", "--batch-size", "100", "--quiet"]


@pytest.fixture(scope="module")
def checkpointed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checkpoints") / "live"
    assert invoke(*RUN, "--checkpoint", str(folder), "--every", "9").exit_code == 0
    return folder


def test_a_run_under_checkpoints_is_the_same_run(checkpointed: Path, tmp_path: Path) -> None:
    assert invoke(*RUN, "--out", str(tmp_path / "plain")).exit_code == 0
    for name in ("trace.csv", "journal.jsonl", "columns.csv", "report.html", "run.json"):
        assert (checkpointed / "result" / name).read_bytes() == (tmp_path / "plain" / name).read_bytes()


def test_an_interrupted_run_under_checkpoints_goes_on(
    checkpointed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "live"
    command = [*RUN, "--checkpoint", str(folder), "--every", "9"]

    def interrupt(self: terminal.Progress, step: int, model: str, *_: object) -> None:
        if (step, model) == (20, terminal.ORACLE):
            os.kill(os.getpid(), signal.SIGTERM)

    with monkeypatch.context() as patch:
        patch.setattr(terminal.Progress, "__call__", interrupt)
        result = invoke(*command)
    assert result.exit_code == 143
    assert "stopped by SIGTERM before step 21; go on with --resume" in result.output
    assert "--resume" in invoke(*command).output
    assert "it has --seed 0, not 5" in invoke(*command, "--resume", "--seed", "5").output
    assert invoke(*command, "--resume").exit_code == 0
    for name in ("trace.csv", "journal.jsonl", "columns.csv", "report.html"):
        assert (folder / "result" / name).read_bytes() == (checkpointed / "result" / name).read_bytes()
    assert json.loads((folder / "result" / "timings.json").read_text())["first_step"] == 21
    before = (folder / "result" / "trace.csv").read_bytes()
    (folder / "result").rename(folder / "result.partial")  # as if it had been killed at the very end
    (folder / "result.partial" / "report.html").unlink()
    assert invoke(*command, "--resume").exit_code == 0
    assert (folder / "result" / "trace.csv").read_bytes() == before


def test_checkpoints_and_results_are_not_replaced_unasked(tmp_path: Path) -> None:
    folder, out = tmp_path / "live", tmp_path / "out"
    command = [*RUN[:2], "--rows", "2000", "--quiet", "--checkpoint", str(folder)]
    assert invoke(*command, "--resume").exit_code == 0  # there was nothing to go on from
    assert "exists already" in invoke(*command).output
    assert "has checkpoints already" in invoke(*command, "--out", str(out)).output
    assert not out.exists()
    assert invoke(*command, "--overwrite").exit_code == 0
    assert "--resume needs --checkpoint" in invoke(*RUN, "--resume").output


def test_the_bar_goes_on_where_it_was(tmp_path: Path) -> None:
    command = ["run", "mixed", "--rows", "2000", "--checkpoint", str(tmp_path / "live")]
    assert "[100/100]" in invoke(*command).output
    assert "rows/s" in invoke(*command, "--resume").output


def test_inspect_says_what_a_file_or_folder_is(checkpointed: Path, tmp_path: Path) -> None:
    said = invoke("inspect", str(checkpointed)).output
    assert "2 checkpoints" in said
    assert "step 40, at its end" in said
    assert "of models.driftsurf" in said
    assert said.startswith("DriftSurf: ")
    assert "stable state, mean error 0." in said
    assert ", finished" in said
    assert "no process holds it" in said
    head = max(checkpointed.glob("head-*"))
    assert f"written by driftsurf {__version__} in format 1" in invoke("inspect", str(head)).output
    damaged = tmp_path / "damaged"
    shutil.copytree(checkpointed, damaged)
    (damaged / head.name).write_bytes(head.read_bytes()[:-1] + b"x")
    assert "damaged: " in invoke("inspect", str(damaged)).output
    (tmp_path / "text").write_text("hello")
    result = invoke("inspect", str(tmp_path / "text"))
    assert result.exit_code == 1
    assert "too few for a saved state" in result.output
    (tmp_path / "empty").mkdir()
    assert "has no checkpoints" in invoke("inspect", str(tmp_path / "empty")).output


def test_orders_are_given_by_name(checkpointed: Path, tmp_path: Path) -> None:
    folder = tmp_path / "live"
    shutil.copytree(checkpointed, folder)
    assert "the run in" in invoke("pin", str(folder)).output  # it is finished
    max(folder.glob("head-*")).unlink()
    assert "order 1: pin" in invoke("pin", str(folder)).output
    assert "order 2: unpin" in invoke("pin", str(folder), "--off").output
    assert "order 3: reset" in invoke("reset", str(folder)).output
    assert "order 4: rollback" in invoke("rollback", str(folder)).output
    assert "has no checkpoint 99" in invoke("rollback", str(folder), "--to", "99").output
    assert "has no checkpoints" in invoke("pin", str(tmp_path)).output
    assert invoke(*RUN, "--checkpoint", str(folder), "--every", "9", "--resume", "--overwrite").exit_code == 0
    journal = [json.loads(line) for line in (folder / "journal.jsonl").read_text().splitlines()]
    kinds = [line["order"] for line in journal if line["type"] == "order"]
    assert kinds == ["pin", "unpin", "reset", "rollback"]


def test_inspect_begins_with_how_a_run_is_doing(checkpointed: Path, tmp_path: Path) -> None:
    folder = tmp_path / "live"
    shutil.copytree(checkpointed, folder)
    max(folder.glob("head-*")).unlink()
    (folder / "lock").write_text('{"pid": 1, "host": "h", "since": "then"}')  # of one that was killed
    invoke("pin", str(folder))
    said = " ".join(invoke("inspect", str(folder)).output.split())
    assert "not finished, ordered: pin" in said
    assert "no process holds it" in said
    with CheckpointFolder(folder):
        assert "held by process" in " ".join(invoke("inspect", str(folder)).output.split())
    assert not files.is_held(tmp_path)
    (folder / "journal.jsonl").write_text("no journal\n")
    assert "checkpoint" in invoke("inspect", str(folder)).output


def test_a_finished_run_says_that_there_are_more_rows(tmp_path: Path) -> None:
    source, folder = tmp_path / "a.csv", tmp_path / "live"
    source.write_text("x,y\n" + "1,0\n2,1\n" * 50)
    command = ["run", str(source), "--label", "y", "--batch-size", "20", "--quiet", "--checkpoint", str(folder)]
    assert invoke(*command).exit_code == 0
    again = invoke(*command, "--resume")
    assert (again.exit_code, "more rows" in again.output) == (0, False)
    with source.open("a") as file:
        file.write("1,0\n" * 20)
    assert "this run is finished; a has more rows than it has read" in invoke(*command, "--resume").output
    source.write_text("x,y\n1,0\n")
    assert "this run is finished" not in invoke(*command, "--resume").output
