"""``driftsurf reproduce``: run the paper's evaluation, and print how near its numbers are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from driftsurf.cli.config import CommandOptions, ConfiguredCommand
from driftsurf.cli.options import option_groups
from driftsurf.cli.work import at_work
from driftsurf.reproduction.options import REPRODUCE_GROUPS


@click.command(cls=ConfiguredCommand)
@click.argument("experiments", nargs=-1)
@option_groups(REPRODUCE_GROUPS, CommandOptions)
def reproduce(
    experiments: tuple[str, ...], jobs: int | None, cluster: str | None, out: str, quiet: bool, **options: Any
) -> None:
    """Run the paper's evaluation and compare our numbers with the paper's.

    EXPERIMENTS are any of the paper's tables: equal-model (Table 6, of which Table 1 is a part), rho-4m (7), rho-2m
    (8), greedy (9), sgd (10), sgd-rho-2m (11); or noise, detectors, aware-alternative, baselines, equal-shares, tune,
    sensitivity, claims, analysis, figures; all of them if none is named; or a TOML file that --write-config wrote. If
    it is interrupted, the same command continues; finished results in the folder are reused. Prints the agreement with
    the paper and the cells that differ most; writes results.json, timings.json, tables/, figures/ and report.html.
    """
    from driftsurf.reproduction import output_files, page
    from driftsurf.reproduction.reproduce import reproduce as run
    from driftsurf.reproduction.terminal import Progress, print_result

    folder = Path(out)
    with at_work(folder, jobs, cluster) as workers, Progress(quiet=quiet) as progress:
        result = run(folder, experiments, **options, jobs=workers, on_progress=progress)
    output_files.write(folder, result)
    page.write(folder, result)
    print_result(result, folder)
