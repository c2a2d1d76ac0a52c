"""What the commands share that run many tasks: how many, where, and how they are interrupted."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click

__all__ = ["at_work", "work_options"]


def work_options(trials: int, out: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """The options --trials, --seed, --jobs, --cluster, --out and --quiet, with these defaults."""
    folder = click.Path(path_type=Path, file_okay=False)
    options: list[Any] = [
        click.option("--trials", type=click.IntRange(min=1), default=trials, show_default=True, help="Seeds for each."),
        click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="The first seed."),
        click.option("--jobs", type=click.IntRange(min=1), help="Processes.  [default: one for each core]"),
        click.option("--cluster", metavar="ADDRESS", help="Run on this Dask scheduler, such as tcp://host:8786."),
        click.option("--out", type=folder, default=Path(out), show_default=True, help="The folder for results."),
        click.option("--quiet", is_flag=True, help="Print only the result."),
    ]

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


@contextlib.contextmanager
def at_work(out: Path, jobs: int | None, cluster: str | None) -> Iterator[int]:
    """The number of workers: processes here, or those of a cluster.

    Ctrl-C and SIGTERM leave with exit code 130, and say that what is done is kept.
    """
    from driftsurf.experiments.cluster import on_cluster

    signal.signal(signal.SIGTERM, signal.default_int_handler)  # leaves as with Ctrl-C, the workers too
    try:
        with on_cluster(cluster, (os.cpu_count() or 1) if jobs is None else jobs) as workers:
            yield workers
    except KeyboardInterrupt:
        click.echo(f"interrupted; what is done is in {out}, and the same command goes on from there", err=True)
        raise SystemExit(130) from None
