"""The lines that say that a command is starting, continues, is finished or was ended."""

from __future__ import annotations

import signal
import sys
import threading
from pathlib import Path
from typing import Any

import click
import pytest
from commands import invoke
from table_files import write_inverted

from driftsurf.cli.terminal import StartLine, Termination, started


class Clock:
    """Stand-in for a timer that has run out if ``cancel`` was not called."""

    def __init__(self, seconds: float, call: Any) -> None:
        self.call = call

    def start(self) -> None:
        self.running = True

    def cancel(self) -> None:
        self.running = False


@pytest.mark.parametrize(
    ("terminal", "quiet", "stop", "shown"),
    [
        (True, False, False, "starting ...\r"),
        (False, False, False, "starting ...\n"),
        (True, False, True, ""),
        (False, False, True, ""),
        (False, True, False, ""),
    ],
)
def test_a_slow_start_is_announced(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    terminal: bool,
    quiet: bool,
    stop: bool,
    shown: str,
) -> None:
    monkeypatch.setattr(threading, "Timer", Clock)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal, raising=False)
    with StartLine(quiet=quiet) as line, click.Context(click.Command("run"), obj=line):
        timer: Any = line._timer
        if stop:
            started()
        if getattr(timer, "running", False):
            timer.call()
    found = capsys.readouterr().err
    assert (found.startswith(shown), "starting" in found) == (True, bool(shown))


def test_sigterm_ends_a_command_as_ctrl_c_does_with_its_own_exit_code() -> None:
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        with Termination() as termination:
            assert termination.exit_code == 130
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGTERM)
        assert termination.exit_code == 143
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_resumed_run_says_where_it_continues_and_whether_it_is_finished(tmp_path: Path) -> None:
    table, saved = write_inverted(tmp_path), tmp_path / "saved"
    command = ["run", table, "--label", "label", "--model", "oblivious", "--batch-size", 100, "--checkpoint", saved]
    command += ["--every", 2, "--resume"]
    whole = table.read_text()
    lines = whole.splitlines(keepends=True)
    table.write_text("".join([*lines[:450], "no row\n", *lines[450:]]))
    assert "continues" not in invoke(*command).stderr  # it fails at step 4, where the last checkpoint is
    table.write_text(whole)
    assert "continues at step 4" in invoke(*command).stderr
    assert "is finished, after 6 steps" in invoke(*command).stderr


def test_a_system_without_threads_has_no_start_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Timer, "start", refuse)
    with StartLine():
        pass
