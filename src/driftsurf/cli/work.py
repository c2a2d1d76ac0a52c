"""Start and interruption of ``compare`` and ``reproduce``, the commands that run many tasks in parallel."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import click

from driftsurf.cli.wording import say

__all__ = ["StartLine", "Termination", "at_work", "started"]

PATIENCE = 1.0
"""Seconds after which a command that has shown nothing says that it is starting."""


class StartLine:
    """Shows a line on standard error if a command has shown nothing after a second; in a terminal it disappears."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._quiet = quiet
        self._timer = threading.Timer(PATIENCE, self._show)
        self._timer.daemon = True
        self._shown = False

    def __enter__(self) -> Self:
        if not self._quiet:
            with contextlib.suppress(RuntimeError):  # the system may allow no more threads
                self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Print nothing from now on, because the command has begun to show its work."""
        self._timer.cancel()
        if self._shown:
            click.echo("\r            \r", nl=False, err=True)
            self._shown = False

    def _show(self) -> None:
        """Write the line; in a terminal return to its start, so that any other output replaces it."""
        self._shown = sys.stderr.isatty()
        with contextlib.suppress(OSError):  # nobody may be reading any more
            click.echo("starting ...\r" if self._shown else "starting ...\n", nl=False, err=True)


def started() -> None:
    """Stop the line that says that the current command is starting."""
    context = click.get_current_context(silent=True)
    line = None if context is None else context.find_object(StartLine)
    if line is not None:
        line.stop()


class Termination:
    """Context in which SIGTERM ends a command as Ctrl-C does, with a line on what is left, and exit code 143.

    It does nothing outside the main thread, and where SIGTERM has a handler already.
    """

    def __init__(self) -> None:
        self.exit_code: int = 128 + signal.SIGINT
        """The exit code of the command after a KeyboardInterrupt."""
        self._held = False

    def __enter__(self) -> Self:
        main = threading.current_thread() is threading.main_thread()
        if main and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            signal.signal(signal.SIGTERM, self._hear)
            self._held = True
        return self

    def __exit__(self, *_: object) -> None:
        if self._held:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def _hear(self, number: int, frame: object) -> None:
        self.exit_code = 128 + number
        raise KeyboardInterrupt


@contextlib.contextmanager
def at_work(out: Path, jobs: int | None, cluster: str | None) -> Iterator[int]:
    """Context for a command that runs many tasks; yields how many run at a time, in local processes or on a cluster.

    Ctrl-C and SIGTERM end the process with exit code 130 and a message that finished tasks are kept.
    """
    from driftsurf.comparison.cluster import on_cluster

    started()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C, so that the worker processes are stopped too
    try:
        with on_cluster(cluster, (os.cpu_count() or 1) if jobs is None else jobs) as workers:
            yield workers
    except KeyboardInterrupt:
        say(f"interrupted; finished tasks are in {out}, and the same command continues from there", err=True)
        raise SystemExit(130) from None
