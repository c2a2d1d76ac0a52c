"""The commands of ``driftsurf``: output, run folders, pages, checkpoints and orders."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from html.parser import HTMLParser
from pathlib import Path

import click
import pytest
from commands import invoke

from driftsurf import Trace, __version__
from driftsurf.cli import MODULES, SUMMARIES, main
from driftsurf.cli.terminal import first_clause
from driftsurf.core import files
from driftsurf.core.decisions import TRANSITION_WORDS
from driftsurf.evaluation.summary import summarise_regression
from driftsurf.report import terminal
from driftsurf.report.figure import Chart
from driftsurf.runs import orders
from driftsurf.runs.checkpoint import CheckpointFolder


def test_version_and_help_are_printed() -> None:
    assert __version__ in invoke("--version").output
    assert "run" in invoke("--help").output
    assert "SOURCE" in invoke("run", "--help").output


def test_the_list_of_commands_shows_the_first_clause_of_each_without_importing_it() -> None:
    code = "import sys; from driftsurf.cli import main; main(['--help'], standalone_mode=False); print(*sys.modules)"
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    loaded = output.splitlines()[-1].split()
    context = click.Context(main)
    for name in main.list_commands(context):
        command = main.get_command(context, name)
        assert command is not None
        assert SUMMARIES.get(name, first_clause(command)) == first_clause(command)
        assert f"{name} " in output
    assert not {f"driftsurf.cli.{module}" for module in MODULES.values()} & set(loaded)
    assert not {"numpy", "importlib.metadata"} & set(loaded)


def test_streams_are_listed() -> None:
    output = invoke("streams").output
    for name in ("sea0", "sea-gradual", "hyper-fast", "circles"):
        assert name in output


def test_a_run_prints_a_table_and_the_verdict_at_the_end(mixed_run: tuple[Path, str]) -> None:
    _, output = mixed_run
    assert "to test a new model" not in output  # what a model does about a drift is in the log and in explanations
    assert " better than " in output.splitlines()[-1]
    assert "step 99 of 100: " in output
    for name in ("driftsurf", "aware", "rows/s", "report.html"):
        assert name in output
    drifts = [line.split()[0] for line in output.splitlines() if re.match(r" +\d+ .*step", line)]
    assert drifts == ["20", "40", "60", "80"]
    assert "\x1b" not in output  # no colours without a terminal


def test_a_built_in_regression_stream_is_run_beside_the_oracle(tmp_path: Path) -> None:
    arguments = ["friedman", "--rows", "5000", "--out", str(tmp_path / "r"), "--predictions", str(tmp_path / "p.csv")]
    output = invoke("run", *arguments).output
    for value in ("step 99 of 100: ", "squared error", " 50 "):
        assert value in output
    page = (tmp_path / "r" / "report.html").read_text(encoding="utf-8")
    assert "aware (oracle)" in page
    assert (tmp_path / "p.csv").read_text(encoding="utf-8").count("\n") == 5001
    assert "squared error" in invoke("explain", str(tmp_path / "r")).output.splitlines()[0]


@pytest.mark.parametrize("stream", ["friedman", "friedman-gradual", "friedman-local"])
def test_the_oracle_of_a_regression_is_not_scored_by_an_untrained_model(stream: str, tmp_path: Path) -> None:
    output = invoke("run", stream, "--out", str(tmp_path / "r")).output
    assert "aware" in output
    trace = Trace.load(tmp_path / "r" / "trace.csv")
    mine, oracle = (summarise_regression(trace, name).mean_squared_error for name in ("driftsurf", "aware"))
    assert oracle < mine
    assert "(aware)" in (tmp_path / "r" / "report.html").read_text(encoding="utf-8")


def test_options_of_the_learner_reach_the_learner_of_a_regression(tmp_path: Path) -> None:
    invoke("run", "friedman-local", "--rows", "1000", "--l2", "0.5", "--quiet", "--out", str(tmp_path / "r"))
    about = json.loads((tmp_path / "r" / "run.json").read_text(encoding="utf-8"))
    assert (about["learner"]["l2"], about["learner"]["loss"]) == (0.5, "squared")


def test_a_terminal_gets_colours_and_a_progress_bar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    output = invoke("run", "mixed", "--rows", "5000", "--out", str(tmp_path / "r")).output
    assert "\x1b[" in output
    assert "step 9 of 100" not in output


def test_the_run_folder_is_complete(mixed_run: tuple[Path, str]) -> None:
    folder, _ = mixed_run
    assert sorted(path.name for path in folder.iterdir()) == [
        "columns.csv",
        "journal.jsonl",
        "model.state",
        "report.html",
        "run.json",
        "scores.jsonl",
        "timings.json",
        "trace.csv",
    ]
    about = json.loads((folder / "run.json").read_text())
    assert about["stream"] == "Mixed(noise=0.1, seed=1, n_rows=20000)"
    assert about["learner"]["step_size"] == 0.1
    assert about["driftsurf"] == __version__
    trace = Trace.load(folder / "trace.csv")
    assert trace.models == ("driftsurf", "aware")
    lines = [json.loads(line) for line in (folder / "journal.jsonl").read_text().splitlines()]
    steps = [line for line in lines if line["type"] == "step"]
    assert [line["step"] for line in steps] == list(range(100))
    assert {"entered", "greedy", "switched"} <= {line["kind"] for line in lines if line["type"] == "transition"}
    assert json.loads((folder / "timings.json").read_text())["models"]["driftsurf"]["rows_per_second"] > 0


def test_two_runs_differ_only_in_their_timings(mixed_run: tuple[Path, str], tmp_path: Path) -> None:
    folder, _ = mixed_run
    again = tmp_path / "again"
    invoke("run", "mixed", "--rows", "20000", "--quiet", "--out", str(again))
    for name in ("trace.csv", "journal.jsonl", "columns.csv", "report.html"):
        assert (folder / name).read_bytes() == (again / name).read_bytes()


def test_a_run_folder_is_overwritten_only_on_request(mixed_run: tuple[Path, str]) -> None:
    folder, _ = mixed_run
    before = (folder / "trace.csv").read_bytes()
    result = invoke("run", "sea0", "--rows", "1000", "--out", str(folder))
    assert result.exit_code == 1
    assert str(folder) in result.output
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
    assert "'thesis.tex'" in result.output
    (precious / "trace.csv").write_text("by chance")
    assert invoke("run", "sea0", "--rows", "1000", "--out", str(precious), "--overwrite").exit_code == 1
    assert (precious / "thesis.tex").read_text() == "years of work"
    assert (precious / "trace.csv").read_text() == "by chance"


@pytest.mark.parametrize("out", [".", "..", "afile", "afile/below", "linked"])
def test_a_path_that_cannot_be_a_run_folder_is_refused(
    out: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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

    def interrupt(self: terminal.ProgressBar, step: int, *_: object) -> None:
        if step == 30:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(terminal.ProgressBar, "__call__", interrupt)
        result = invoke(*arguments)
    assert result.exit_code == 130
    assert "r.partial" in result.output
    assert (tmp_path / "r" / "trace.csv").read_bytes() == before
    assert len((tmp_path / "r.partial" / "journal.jsonl").read_text().splitlines()) >= 30
    assert invoke(*arguments).exit_code == 0
    assert not (tmp_path / "r.partial").exists()


def test_by_default_each_run_gets_a_new_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        invoke("run", "sea0", "--rows", "1000", "--quiet")
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == ["sea0", "sea0-2"]


# ---------------------------------------------------------------------------- the page


class Checker(HTMLParser):
    """Collects external references and unclosed tags of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.links: list[str] = []
        self.tags: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [value or "" for name, value in attrs if name in ("src", "href")]
        if tag not in {"meta", "link"}:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_report_is_one_self_contained_page(mixed_run: tuple[Path, str]) -> None:
    text = (mixed_run[0] / "report.html").read_text()
    checker = Checker()
    checker.feed(text.replace("<!doctype html>", ""))
    assert checker.open == []
    assert [link.partition(",")[0] for link in checker.links] == ["data:image/svg+xml;base64"]  # the icon of the tab
    assert checker.tags.count("script") == 2  # the data, and the code that draws them
    assert "default-src &#x27;none&#x27;" in text
    assert checker.tags.count("svg") >= 2
    assert text.count('class="drift"') >= 8  # four drifts in each of two charts
    assert 'class="reactive"' not in text  # the script shows reactions if a reader asks for them
    assert TRANSITION_WORDS["switched"].phrase in text
    assert "4 true drifts" in text


def test_a_quiet_run_has_a_page_too(tmp_path: Path) -> None:
    invoke("run", "hyper-slow", "--rows", "2000", "--threshold", "9", "--quiet", "--out", str(tmp_path / "r"))
    text = (tmp_path / "r" / "report.html").read_text()
    assert 'class="kind' not in text


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


def test_a_run_with_checkpoints_has_the_same_result(checkpointed: Path, tmp_path: Path) -> None:
    assert invoke(*RUN, "--out", str(tmp_path / "plain")).exit_code == 0
    for name in ("trace.csv", "journal.jsonl", "columns.csv", "report.html", "run.json"):
        assert (checkpointed / "result" / name).read_bytes() == (tmp_path / "plain" / name).read_bytes()


def test_an_interrupted_run_with_checkpoints_resumes(
    checkpointed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "live"
    command = [*RUN, "--checkpoint", str(folder), "--every", "9"]

    def interrupt(self: terminal.ProgressBar, step: int, model: str, *_: object) -> None:
        if (step, model) == (20, "aware"):
            os.kill(os.getpid(), signal.SIGTERM)

    with monkeypatch.context() as patch:
        patch.setattr(terminal.ProgressBar, "__call__", interrupt)
        result = invoke(*command)
    assert result.exit_code == 143
    assert "SIGTERM" in result.output
    assert "21" in result.output
    assert "--resume" in result.output
    assert "--resume" in invoke(*command).output
    refused = invoke(*command, "--resume", "--seed", "5")
    assert refused.exit_code == 1
    assert "--seed" in refused.output
    assert invoke(*command, "--resume").exit_code == 0
    for name in ("trace.csv", "journal.jsonl", "columns.csv", "report.html"):
        assert (folder / "result" / name).read_bytes() == (checkpointed / "result" / name).read_bytes()
    assert json.loads((folder / "result" / "timings.json").read_text())["first_step"] == 21
    before = (folder / "result" / "trace.csv").read_bytes()
    (folder / "result").rename(folder / "result.partial")  # as after a kill during publication
    (folder / "result.partial" / "report.html").unlink()
    assert invoke(*command, "--resume").exit_code == 0
    assert (folder / "result" / "trace.csv").read_bytes() == before


def test_checkpoints_and_results_are_replaced_only_on_request(tmp_path: Path) -> None:
    folder, out = tmp_path / "live", tmp_path / "out"
    command = [*RUN[:2], "--rows", "2000", "--quiet", "--checkpoint", str(folder)]
    assert invoke(*command, "--resume").exit_code == 0  # there is no checkpoint yet
    for arguments in (command, [*command, "--out", str(out)]):
        refused = invoke(*arguments)
        assert refused.exit_code == 1
        assert str(folder) in refused.output
        assert "--overwrite" in refused.output
    assert not out.exists()
    assert invoke(*command, "--overwrite").exit_code == 0
    refused = invoke(*RUN, "--resume")
    assert refused.exit_code != 0
    assert "--checkpoint" in refused.output


def test_the_progress_bar_of_a_resumed_run_starts_where_it_stopped(tmp_path: Path) -> None:
    command = ["run", "mixed", "--rows", "2000", "--checkpoint", str(tmp_path / "live")]
    assert "step 99 of 100: " in invoke(*command).output
    assert "rows/s" in invoke(*command, "--resume").output


def test_inspect_describes_a_file_and_a_folder(checkpointed: Path, tmp_path: Path) -> None:
    output = invoke("inspect", str(checkpointed)).output
    assert "2 checkpoints" in output
    assert "step 40" in output
    assert "of models.driftsurf" in output
    assert output.startswith("DriftSurf: ")
    assert re.search(r"error 0\.\d", output.splitlines()[0])
    assert "finished" in output
    head = max(checkpointed.glob("head-*"))
    first = invoke("inspect", str(head)).output.splitlines()[0]
    assert re.search(rf"driftsurf {re.escape(__version__)}\b.*\b1$", first)  # the writer and its format
    damaged = tmp_path / "damaged"
    shutil.copytree(checkpointed, damaged)
    (damaged / head.name).write_bytes(head.read_bytes()[:-1] + b"x")
    result = invoke("inspect", str(damaged))
    assert result.exit_code == 1
    assert re.search(r"\n  checkpoint \d+: damaged", result.output)
    assert "1 of 2 checkpoints" in result.output
    assert "no checkpoint in" not in result.output
    for other in damaged.glob("head-*"):
        other.write_bytes(b"x")
    result = invoke("inspect", str(damaged))
    assert (result.exit_code, "2 of 2 checkpoints" in result.output) == (1, True)
    (tmp_path / "text").write_text("hello")
    result = invoke("inspect", str(tmp_path / "text"))
    assert result.exit_code == 1
    assert "Traceback" not in result.output
    (tmp_path / "empty").mkdir()
    result = invoke("inspect", str(tmp_path / "empty"))
    assert result.exit_code == 1
    assert str(tmp_path / "empty") in result.output


def test_orders_are_given_by_name(checkpointed: Path, tmp_path: Path) -> None:
    folder = tmp_path / "live"
    shutil.copytree(checkpointed, folder)
    finished = invoke("pin", str(folder))
    assert finished.exit_code == 1
    assert str(folder) in finished.output
    assert "--resume --follow" in finished.output
    max(folder.glob("head-*")).unlink()
    given = [("pin",), ("pin", "--off"), ("reset",), ("rollback",), ("mark", "false")]
    for number, (kind, (name, *off)) in enumerate(zip(orders.KINDS, given, strict=True), start=1):
        said = invoke(name, str(folder), *off).output
        assert re.search(rf"\b{number}\b.* {kind}\b", said)
        assert bool(re.search(r"to checkpoint \d+", said)) is (kind == "rollback")
    missing = invoke("rollback", str(folder), "--to", "99")
    assert missing.exit_code == 1
    assert "99" in missing.output
    empty = invoke("pin", str(tmp_path))
    assert empty.exit_code == 1
    assert str(tmp_path) in empty.output
    done = invoke(*RUN, "--checkpoint", str(folder), "--every", "9", "--resume", "--overwrite")
    assert done.exit_code == 0
    told = [line.split(": ")[1].split(";")[0] for line in done.output.splitlines() if line.startswith("order before")]
    assert told == list(orders.KINDS)
    journal = [json.loads(line) for line in (folder / "journal.jsonl").read_text().splitlines()]
    kinds = [line["order"] for line in journal if line["type"] == "order"]
    assert kinds == list(orders.KINDS)


def test_a_full_disk_is_named_even_if_the_error_has_no_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def full(path: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("driftsurf.report.saved_state.print_saved_state", full)
    result = invoke("inspect", str(tmp_path))
    assert result.exit_code == 1
    assert tempfile.gettempdir() in result.output


def test_an_order_is_printed_when_it_is_carried_out(checkpointed: Path, tmp_path: Path) -> None:
    folder = tmp_path / "live"
    shutil.copytree(checkpointed, folder)
    max(folder.glob("head-*")).unlink()
    invoke("pin", str(folder))
    command = [one for one in RUN if one != "--quiet"]
    result = invoke(*command, "--checkpoint", str(folder), "--resume", "--overwrite")
    assert result.exit_code == 0
    assert "pin; driftsurf is pinned" in result.stdout


def test_inspect_starts_with_the_progress_of_a_run(checkpointed: Path, tmp_path: Path) -> None:
    folder = tmp_path / "live"
    shutil.copytree(checkpointed, folder)
    max(folder.glob("head-*")).unlink()
    (folder / "lock").write_text('{"pid": 1, "host": "h", "since": "then"}')  # left by a process that was killed
    invoke("pin", str(folder))
    output = " ".join(invoke("inspect", str(folder)).output.split())
    assert "not finished" in output
    assert ": pin" in output
    assert str(os.getpid()) not in output
    with CheckpointFolder(folder):
        assert str(os.getpid()) in " ".join(invoke("inspect", str(folder)).output.split())
    assert not files.is_held(tmp_path)
    (folder / "journal.jsonl").write_text("no journal\n")
    assert "checkpoint" in invoke("inspect", str(folder)).output


def test_resuming_a_finished_run_warns_if_there_are_more_rows(tmp_path: Path) -> None:
    source, folder = tmp_path / "a.csv", tmp_path / "live"
    source.write_text("x,y\n" + "1,0\n2,1\n" * 50)
    command = ["run", str(source), "--label", "y", "--batch-size", "20", "--quiet", "--checkpoint", str(folder)]
    assert invoke(*command).exit_code == 0
    again = invoke(*command, "--resume")
    assert (again.exit_code, "warning" in again.output) == (0, False)
    with source.open("a") as file:
        file.write("1,0\n" * 20)
    assert "--follow" in invoke(*command, "--resume").output
    source.write_text("x,y\n1,0\n")
    assert "--follow" not in invoke(*command, "--resume").output
