"""``driftsurf compare``: run several models on the same sources, and print which is best."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from driftsurf.cli.config import CommandOptions, ConfiguredCommand
from driftsurf.cli.options import collect, option_groups
from driftsurf.cli.wording import say, with_cli_spelling
from driftsurf.cli.work import at_work
from driftsurf.comparison.options import COMPARE_GROUPS, CompareOptions, InputOptions, WorkOptions
from driftsurf.data.reading_options import ReadingOptions

COMMON = ("label", "drop", "models", "batch_size", "rows", "trials", "jobs", "out", "config", "quiet")
RARE = "max_row_bytes", "batch_wait"


@click.command(cls=ConfiguredCommand, common=COMMON, rare=RARE)
@click.argument("sources", metavar="SOURCE...", nargs=-1, required=True)
@option_groups(COMPARE_GROUPS, CommandOptions)
def compare(
    sources: tuple[str, ...], jobs: int | None, cluster: str | None, out: str | None, quiet: bool, **options: Any
) -> None:
    """Compare models on the same SOURCES: which one wins, by how much, and how certain that is.

    A SOURCE is a stream that `driftsurf streams` lists; a public file: noaa-weather, insects, rialto, outdoor, phishing
    or luxembourg, and for regression electricity-price, powersupply-load or noaa-temperature; a file, folder or pattern
    of your own, with --label; or "real" for ten real streams. Each batch is predicted first and learned afterwards.
    Classifiers are compared by the share of wrong rows. Regressors are compared by their absolute error, divided by the
    absolute error of predicting the mean of all earlier targets.

    A model is recommended, recommended-light, recommended-trees, recommended-linear or STRATEGY:LEARNER, as for
    `driftsurf run`. Strategies (driftsurf, aue, oblivious, sliding-window, mddm-g, ...) have the settings of the
    paper's evaluation. Learners are logistic, softmax, svm, linear (for regression), lightgbm, or the import path of a
    scikit-learn or river class, such as sklearn.tree.DecisionTreeClassifier(max_depth=6). retrained:LEARNER is fitted
    from scratch to the last ten batches after every fifth one, frozen:LEARNER to the first ten batches and never again.
    Models of other libraries: capymoa:ARF10, capymoa:SRP10, river:ARF10, river:SRP10,
    river:tree.HoeffdingAdaptiveTreeRegressor. Trivial rules: majority or mean, persistence.

    Options behind a source are its own: a.csv,label=sold,batch-size=50 b.csv,label='delay > 0',task=binary.

    Files are read as by `driftsurf run`. Rows without a label are left out; with --on-bad-row skip, so are rows that
    cannot be read. SOURCES may also be a TOML file that --write-config wrote.

    Writes comparison.json, comparison.md, comparison.svg and report.html, and measured CPU seconds to timings.json; for
    several sources ranks.svg, a critical-difference diagram; with --probabilities the predictions of every row. If it
    is interrupted, the same command continues.
    """
    from driftsurf.comparison.compare import compare as run
    from driftsurf.comparison.compare import default_models
    from driftsurf.comparison.folder import default_folder
    from driftsurf.comparison.inputs import read_sources
    from driftsurf.report import comparison
    from driftsurf.reproduction.terminal import Progress

    how = collect(InputOptions, options) | collect(ReadingOptions, options)
    inputs = []
    for given in read_sources(sources, **how):
        one, remarks = given.with_inferred_options()
        inputs.append(one)
        for hint in (*remarks, *one.hints()):
            say(f"warning: {one.title}: {with_cli_spelling(hint, click.get_current_context().command)}", err=True)
    folder = default_folder(inputs) if out is None else Path(out)
    asked = collect(CompareOptions, options) | collect(WorkOptions, options)
    if asked["models"] is None:
        chosen = asked["models"] = default_models(inputs, asked["gradients_per_row"])
        if not quiet:
            say(f"models    {_named(chosen)}")
    with at_work(folder, jobs, cluster) as workers, Progress(quiet=quiet) as progress:
        result = run(folder, inputs, **asked, jobs=workers, on_progress=progress)
    comparison.write(folder, result)
    comparison.print_result(result, folder)


def _named(models: Sequence[str]) -> str:
    """Return the models that were chosen, and how to get others."""
    from driftsurf import registry
    from driftsurf.session.default_model import has_trees

    trees = "" if has_trees() else f"; with boosted trees: {registry.get('learner', 'lightgbm').remedy}"
    return f"{', '.join(models)}; for others: --models{trees}"
