"""Why a model changed, for the person who must answer for it."""

from __future__ import annotations

from pathlib import Path

import click

from driftsurf.errors import InputError


@click.command()
@click.argument("run", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--step", type=click.IntRange(min=0), help="Explain this step alone.")
@click.option("--threshold", type=float, help="Say what another threshold would have decided.")
@click.option("--stable-threshold", type=float, help="The same against the stable model.  [default: in proportion]")
@click.option(
    "--html",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the report page to this file instead, with measured seconds if there are any.",
)
def explain(
    run: Path, step: int | None, threshold: float | None, stable_threshold: float | None, html: Path | None
) -> None:
    """Explain the decisions of a RUN: a run folder, or a folder of checkpoints, also while it runs.

    What was compared, by how much it crossed, which model predicted, how the error moved after, which columns
    moved; and a timeline of the models. With --threshold the recorded decisions are replayed under another one
    as far as they determine the outcome.
    """
    from driftsurf.evaluation.explain import explain as explained
    from driftsurf.evaluation.records import read_run
    from driftsurf.report.terminal import console
    from driftsurf.runtime import files

    if stable_threshold is not None and threshold is None:
        raise click.UsageError("--stable-threshold needs --threshold")
    if "fleet.html" in files.names(run) or "state.sqlite" in files.names(run):
        raise InputError(f"{str(run)!r} is a run with a learner for each key: driftsurf fleet {run}")
    record = read_run(run)
    if html is not None:
        from driftsurf.report.page import render_record

        files.write_text(html, render_record(record))
        click.echo(f"report: {html}")
        return
    text = explained(record, step=step, threshold=threshold, stable_threshold=stable_threshold)
    screen = console()
    for line in text.splitlines():
        screen.print(line, markup=False, style="bold" if line and not line.startswith(" ") else "")
