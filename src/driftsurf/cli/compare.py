"""Models beside each other from the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from driftsurf.cli.options import reading_options, said_of_files
from driftsurf.cli.wording import as_typed
from driftsurf.cli.work import at_work, work_options


@click.command()
@click.argument("sources", metavar="SOURCE...", nargs=-1, required=True)
@click.option(
    "--models",
    help="Separated by commas; see above.  [default: driftsurf, aue, oblivious and for values sliding-window around a "
    "linear learner, and trivial ones]",
)
@click.option("--label", help="The column to predict, or a question ('delay > 0'), where the SOURCE is a file.")
@click.option(
    "--task", default="auto", show_default=True, help="Of a file: binary, multiclass, regression, or by the labels."
)
@click.option("--drop", metavar="COLUMN", multiple=True, help="A column to leave out; may be repeated.")
@reading_options
@click.option(
    "--batch-size", type=click.IntRange(min=1), help="Rows in a time step.  [default: a hundredth of the rows]"
)
@click.option("--rows", type=click.IntRange(min=1), help="The first rows only.  [default: all]")
@click.option(
    "--gradients-per-row",
    type=float,
    help="The same compute for all, where it is counted: divided among the models of a strategy.  [default: each "
    "learner its own]",
)
@work_options(trials=1, out="comparison")
def compare(
    sources: tuple[str, ...],
    models: str | None,
    label: str | None,
    task: str,
    drop: tuple[str, ...],
    batch_size: int | None,
    rows: int | None,
    gradients_per_row: float | None,
    trials: int,
    seed: int,
    jobs: int | None,
    cluster: str | None,
    out: Path,
    quiet: bool,
    **reading: Any,
) -> None:
    """Run models beside each other on a SOURCE, and say which wins and how surely.

    A SOURCE is a stream that `driftsurf streams` lists, noaa-weather, insects, rialto, outdoor, phishing or
    luxembourg, with values to predict electricity-price, powersupply-load or noaa-temperature, a file, folder or
    pattern with --label, or "real" for ten real streams. Each batch is predicted by
    the model as it is, and then learnt. Classes are compared by the share of wrong rows, values by the absolute error
    over that of predicting the mean of all values before.

    A model is recommended, recommended-linear or STRATEGY:LEARNER, as for `driftsurf run`. Strategies are run as in
    the paper's evaluation (driftsurf, aue, oblivious, sliding-window, mddm-g, ...), learners are logistic, softmax,
    svm, linear (for values), lightgbm, or the import path of a scikit-learn or river class, such as
    sklearn.tree.DecisionTreeClassifier(max_depth=6). Peers are run as they are: capymoa:ARF10, capymoa:SRP10,
    river:ARF10, river:SRP10, river:tree.HoeffdingAdaptiveTreeRegressor, majority or mean, persistence.

    Files are read as by `driftsurf run`; with --on-bad-row skip, rows that cannot be read or have no
    label are left out.

    Writes comparison.json, comparison.md, comparison.svg and report.html. Interrupted, it continues where it stopped.
    """
    from driftsurf.assembly.models import names
    from driftsurf.experiments.compare import compare as run
    from driftsurf.experiments.inputs import Input, expand
    from driftsurf.report import comparison
    from driftsurf.report.reproduction_terminal import Progress

    said = said_of_files(reading)
    inputs = [Input(source, label, drop, batch_size, rows, task, **said) for source in expand(sources)]
    for one in inputs:
        for hint in one.hints():
            click.echo(f"warning: {one.title}: {as_typed(hint, click.get_current_context().command)}", err=True)
    with at_work(out, jobs, cluster) as workers, Progress(quiet=quiet) as progress:
        result = run(
            out,
            inputs,
            None if models is None else names(models),
            trials=trials,
            seed=seed,
            jobs=workers,
            gradients_per_row=gradients_per_row,
            on_progress=progress,
        )
    comparison.write(out, result)
    comparison.print_result(result, out)
