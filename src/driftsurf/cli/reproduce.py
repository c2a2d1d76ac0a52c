"""The paper's evaluation from the command line."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import click


@click.command()
@click.argument("experiments", nargs=-1)
@click.option("--datasets", "names", help="Streams, separated by commas.  [default: all that are at hand]")
@click.option("--trials", type=click.IntRange(min=1), default=5, show_default=True, help="Seeds for each cell.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="The first seed.")
@click.option("--jobs", type=click.IntRange(min=1), help="Processes.  [default: one for each core]")
@click.option("--cluster", metavar="ADDRESS", help="Run on this Dask scheduler, such as tcp://host:8786.")
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("reproduction"),
    show_default=True,
    help="The folder for results.",
)
@click.option("--quiet", is_flag=True, help="Print only the result.")
def reproduce(
    experiments: tuple[str, ...],
    names: str | None,
    trials: int,
    seed: int,
    jobs: int | None,
    cluster: str | None,
    out: Path,
    quiet: bool,
) -> None:
    """Run the paper's evaluation and set our number beside the paper's.

    EXPERIMENTS are any of: equal-model, rho-4m, rho-2m, greedy, sgd, sgd-rho-2m (the paper's tables), noise,
    detectors, aware-alternative, baselines, equal-shares, tune, sensitivity, claims, analysis, figures; all
    of them if none is named. Interrupted, it continues where it stopped; a second run takes what is done
    from the folder. Writes results.json, timings.json, tables/, figures/ and report.html.
    """
    from driftsurf.experiments import documents
    from driftsurf.experiments.cluster import on_cluster
    from driftsurf.experiments.reproduce import reproduce as run
    from driftsurf.report import reproduction
    from driftsurf.report.reproduction_terminal import Progress, print_result

    signal.signal(signal.SIGTERM, signal.default_int_handler)  # leaves as with Ctrl-C, the workers too
    streams = None if names is None else [name.strip() for name in names.split(",") if name.strip()]
    workers = (os.cpu_count() or 1) if jobs is None else jobs
    try:
        with on_cluster(cluster, workers) as workers, Progress(quiet=quiet) as progress:
            result = run(out, experiments, names=streams, trials=trials, seed=seed, jobs=workers, on_progress=progress)
    except KeyboardInterrupt:
        click.echo(f"interrupted; what is done is in {out}, and the same command goes on from there", err=True)
        raise SystemExit(130) from None
    documents.write(out, result)
    reproduction.write(out, result)
    print_result(result, out)
