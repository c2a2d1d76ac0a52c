"""The line that says that a slow command is starting."""

from __future__ import annotations

import os
import sys
import threading
from typing import Any

import click
import pytest

from driftsurf.cli import work
from driftsurf.kernels.cache import ANNOUNCED


class Clock:
    """Stand-in for a timer that has run out if ``cancel`` was not called."""

    def __init__(self, seconds: float, call: Any) -> None:
        self.call = call

    def start(self) -> None:
        self.running = True

    def cancel(self) -> None:
        self.running = False


@pytest.mark.parametrize(("terminal", "stop", "shown"), [(True, False, 1), (True, True, 0), (False, False, 0)])
def test_a_slow_start_is_announced_in_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], terminal: bool, stop: bool, shown: int
) -> None:
    monkeypatch.setattr(threading, "Timer", Clock)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal, raising=False)
    with work.StartLine() as line, click.Context(click.Command("run"), obj=line):
        timer: Any = line._timer
        if stop:
            work.started()
        if getattr(timer, "running", False):
            timer.call()
    assert capsys.readouterr().err.count("starting") == shown


def test_a_quiet_command_compiles_without_a_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ANNOUNCED, "")
    work.be_quiet()
    assert os.environ[ANNOUNCED]
