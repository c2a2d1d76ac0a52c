"""Output is wrapped at word ends, at any width, and without a terminal."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from driftsurf.cli import main
from driftsurf.cli.terminal import say, wrap_error
from driftsurf.core.wording import wrapped
from driftsurf.errors import OptionError
from driftsurf.report.terminal import console

WIDTHS = 40, 60, 80, 120, 200
SENTENCE = "errors leave out the first batch, which was predicted before anything-at-all was learned by the model"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wrapping") / "run"
    assert CliRunner().invoke(main, ["run", "mixed", "--rows", "1000", "--out", str(folder)]).exit_code == 0
    return folder


@pytest.mark.parametrize("width", WIDTHS)
def test_no_word_is_broken(width: int) -> None:
    lines = wrapped(f"  compared   {SENTENCE}\nlabel     {SENTENCE}\n{SENTENCE}", width).splitlines()
    assert max(map(len, lines)) <= width
    words = {*SENTENCE.split(), "compared", "label"}
    assert {word for line in lines for word in line.split()} == words


def test_a_path_is_never_broken() -> None:
    path = "/".join(["folder"] * 20)
    assert path in wrapped(f"report: {path}", 40).splitlines()


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("command", ["explain", "doctor"])
def test_commands_wrap_at_the_width_of_the_screen(
    run: Path, monkeypatch: pytest.MonkeyPatch, width: int, command: str
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    result = CliRunner().invoke(main, [command, *[str(run)] * (command == "explain")])
    assert result.exit_code == 0
    long = [line for line in result.output.splitlines() if len(line) > width]
    assert all(
        len(max(line.split(), key=len)) > width / 3 for line in long
    )  # only what cannot be broken, such as paths
    if command == "explain":
        assert not long


def test_messages_without_a_terminal_stay_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    say(f"{SENTENCE}, {SENTENCE}", err=True)
    assert capsys.readouterr().err.count("\n") == 1
    say(f"{SENTENCE}, {SENTENCE}")
    assert capsys.readouterr().out.count("\n") == 3
    assert console().width == 100 or os.environ.get("COLUMNS")


def test_errors_in_a_terminal_are_wrapped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(shutil, "get_terminal_size", lambda: os.terminal_size((40, 24)))
    error = click.ClickException(str(OptionError(SENTENCE)))
    wrap_error(error)
    lines = f"Error: {error.format_message()}".splitlines()
    assert max(map(len, lines)) <= 40
    assert " ".join(lines) == f"Error: {SENTENCE}"


def test_the_list_of_commands_cuts_no_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    assert "..." not in CliRunner().invoke(main, ["--help"]).output.partition("Commands:")[2]
