"""The paper's evaluation from the command line."""

from __future__ import annotations

from pathlib import Path

import click

from driftsurf.cli.work import at_work, work_options


@click.command()
@click.argument("experiments", nargs=-1)
@click.option("--datasets", "names", help="Streams, separated by commas.  [default: all that are at hand]")
@work_options(trials=5, out="reproduction")
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
    from driftsurf.experiments.reproduce import reproduce as run
    from driftsurf.report import reproduction
    from driftsurf.report.reproduction_terminal import Progress, print_result

    streams = None if names is None else [name.strip() for name in names.split(",") if name.strip()]
    with at_work(out, jobs, cluster) as workers, Progress(quiet=quiet) as progress:
        result = run(out, experiments, names=streams, trials=trials, seed=seed, jobs=workers, on_progress=progress)
    documents.write(out, result)
    reproduction.write(out, result)
    print_result(result, out)
