"""Options and interruption of ``compare`` and ``reproduce``, the commands that run many tasks in parallel."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click

from driftsurf.core.option_fields import option

__all__ = ["WorkScreenOptions", "at_work"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkScreenOptions:
    """Options that only the command line has."""

    quiet: bool = option(False, "Print only the result.")


@contextlib.contextmanager
def at_work(out: Path, jobs: int | None, cluster: str | None) -> Iterator[int]:
    """Context for a command that runs many tasks; yields how many run at a time, in local processes or on a cluster.

    Ctrl-C and SIGTERM end the process with exit code 130 and a message that finished tasks are kept.
    """
    from driftsurf.comparison.cluster import on_cluster

    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C, so that the worker processes are stopped too
    try:
        with on_cluster(cluster, (os.cpu_count() or 1) if jobs is None else jobs) as workers:
            yield workers
    except KeyboardInterrupt:
        click.echo(f"interrupted; finished tasks are in {out}, and the same command continues from there", err=True)
        raise SystemExit(130) from None
