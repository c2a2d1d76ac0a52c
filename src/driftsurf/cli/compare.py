"""``driftsurf compare`` and ``driftsurf reproduce``, which run many tasks in parallel."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from driftsurf.cli.options import CommandOptions, ConfiguredCommand, collect, option_groups
from driftsurf.cli.terminal import at_work, say, with_cli_spelling
from driftsurf.comparison.options import COMPARE_GROUPS, CompareOptions, InputOptions, WorkOptions
from driftsurf.data.reading_options import ReadingOptions
from driftsurf.reproduction.options import REPRODUCE_GROUPS

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
    from scratch to the last ten batches after every fifth one, retrained(every=1,rows=5000):LEARNER to the last 5,000
    rows after each batch, frozen:LEARNER to the first ten batches and never again. best-schedule is the best of 27
    schedules of retraining on each source, chosen afterwards; best-schedule(every=[1,10],rows=[2000]):LEARNER is that
    of your own. Models of other libraries: capymoa:ARF10, capymoa:SRP10, river:ARF10, river:SRP10,
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
    from driftsurf.reproduction.terminal import TrialProgress

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
    with at_work(folder, jobs, cluster) as workers, TrialProgress(quiet=quiet) as progress:
        result = run(folder, inputs, **asked, jobs=workers, on_progress=progress)
    comparison.write(folder, result)
    comparison.print_result(result, folder)


def _named(models: Sequence[str]) -> str:
    """Return the models that were chosen, and how to get others."""
    from driftsurf import registry
    from driftsurf.session.default_model import has_trees

    trees = "" if has_trees() else f"; with boosted trees: {registry.get('learner', 'lightgbm').remedy}"
    return f"{', '.join(models)}; for others: --models{trees}"


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
    from driftsurf.reproduction.terminal import TrialProgress, print_result

    folder = Path(out)
    with at_work(folder, jobs, cluster) as workers, TrialProgress(quiet=quiet) as progress:
        result = run(folder, experiments, **options, jobs=workers, on_progress=progress)
    output_files.write(folder, result)
    page.write(folder, result)
    print_result(result, folder)
