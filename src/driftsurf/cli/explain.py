"""``driftsurf explain``: print why the model of a run changed, or would have with another threshold."""

from __future__ import annotations

from pathlib import Path

import click

from driftsurf.cli.options import GroupedOption
from driftsurf.cli.wording import say
from driftsurf.errors import InputError


@click.command()
@click.argument("run", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--step", cls=GroupedOption, type=click.IntRange(min=0), metavar="N", help="Explain only this step.")
@click.option("--threshold", type=float, metavar="NUMBER", help="Show what would have happened with another threshold.")
@click.option(
    "--stable-threshold",
    type=float,
    metavar="NUMBER",
    help="Threshold against the stable model.  [default: same ratio to --threshold]",
)
@click.option(
    "--html",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the report page to this file instead, with measured seconds if there are any.",
)
@click.option("--overwrite", is_flag=True, help="Replace an existing file.")
def explain(
    run: Path,
    step: int | None,
    threshold: float | None,
    stable_threshold: float | None,
    html: Path | None,
    overwrite: bool,
) -> None:
    """Explain the decisions of a RUN: a run folder, or a folder of checkpoints, also while it runs.

    Shows what was compared, by how much it crossed the threshold, which model predicted, how the error and the columns
    changed, and a timeline of the models. With --threshold the recorded decisions are replayed with another threshold,
    as far as the record determines them.
    """
    from driftsurf.core import files
    from driftsurf.explanation.explain import explain as explained
    from driftsurf.explanation.records import read_run
    from driftsurf.keyed.folder import is_keyed_run
    from driftsurf.report.terminal import console

    if stable_threshold is not None and threshold is None:
        raise click.UsageError("--stable-threshold needs --threshold")
    if is_keyed_run(run):
        raise InputError(f"{str(run)!r} has a learner for each key; run: driftsurf keys {run}")
    record = read_run(run, step=step)
    if html is not None:
        from driftsurf.report.run_page import render_record
        from driftsurf.runs.folder import REPORT
        from driftsurf.runs.outputs import check_new, check_not_input

        check_not_input("html", html, (file for file in run.iterdir() if file.name != REPORT))
        check_new("html", html, overwrite=overwrite)
        files.write_text(html, render_record(record), shared=True)
        say(f"report: {html}")
        return
    screen = console()
    text = explained(record, step=step, threshold=threshold, stable_threshold=stable_threshold, width=screen.width)
    for line in text.splitlines():
        screen.print(line, style="bold" if line and not line.startswith(" ") else "")
