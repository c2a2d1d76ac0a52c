"""Commands that look at what runs have left: ``doctor``, ``explain``, ``keys``, ``predict`` and ``runs``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from driftsurf.cli.options import GroupedCommand, GroupedOption, collect, option_group
from driftsurf.cli.terminal import say
from driftsurf.core.options import option_fields
from driftsurf.core.wording import agreeing, counted
from driftsurf.data.reading_options import ReadingOptions
from driftsurf.errors import InputError
from driftsurf.runs.options import PredictOptions

if TYPE_CHECKING:
    from driftsurf.keyed.folder import KeyedFolder


@click.command()
def doctor() -> None:
    """Check versions, the native core, extras, data and cores.

    Each line says what to do if something is missing. The exit code is 1 if something required is missing or does not
    work, else 0; extras and data are optional.
    """
    from driftsurf.report import doctor as checks

    if not checks.print_findings():
        raise SystemExit(1)


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
    from driftsurf.keyed.folder import is_keyed_run
    from driftsurf.report.terminal import console
    from driftsurf.runs.explanation.explain import explain as explained
    from driftsurf.runs.explanation.records import read_run

    if stable_threshold is not None and threshold is None:
        raise click.UsageError("--stable-threshold needs --threshold")
    if is_keyed_run(run):
        raise InputError(f"{str(run)!r} has a learner for each key; run: driftsurf keys {run}")
    record = read_run(run, step=step)
    if html is not None:
        from driftsurf.report.run_page import render_record
        from driftsurf.runs.folder import REPORT, check_new, check_not_input

        check_not_input("html", html, (file for file in run.iterdir() if file.name != REPORT))
        check_new("html", html, overwrite=overwrite)
        files.write_text(html, render_record(record), shared=True)
        say(f"report: {html}")
        return
    screen = console()
    text = explained(record, step=step, threshold=threshold, stable_threshold=stable_threshold, width=screen.width)
    for line in text.splitlines():
        screen.print(line, style="bold" if line and not line.startswith(" ") else "")


@click.command()
@click.argument("run", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.argument("key", required=False)
@click.option(
    "--limit",
    cls=GroupedOption,
    type=click.IntRange(min=1),
    metavar="N",
    help="Keys to print, those that need attention first.  [default: only those that need attention, at most 20]",
)
@click.option(
    "--page",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Where to write the page of KEY.  [default: a file in RUN/key_pages]",
)
def keys(run: Path, key: str | None, limit: int | None, page: Path | None) -> None:
    """Show the keys of a keyed RUN: their errors, states and drifts.

    Prints a table of the keys that need attention and the drifts, and writes RUN/keys.html, with a map of which models
    changed when, and pages of the keys that need attention most. With KEY, prints this key alone and writes its page.
    `driftsurf run SOURCE --key COLUMN --sequence COLUMN` makes such a RUN.
    """
    if key is not None:
        _show_key(run, key, page)
        return
    if page is not None:
        raise click.UsageError("--page needs KEY, the key whose page is written")
    show_keys(run, limit)


def show_keys(run: Path, limit: int | None = None) -> Mapping[Any, Mapping[str, Any]]:
    """Print the keys of a run that need attention and write its page; return the entries of all keys."""
    from driftsurf.keyed.folder import PAGE
    from driftsurf.report.keys import no_better_warning, print_keys, write_keyed_page

    record = write_keyed_page(_folder(run))
    print_keys(record, limit=limit)
    say(f"page: {run / PAGE}")
    warning = no_better_warning(record)
    if warning:
        say(f"warning: {warning}", err=True)
    return record.keys


def _show_key(run: Path, name: str, page: Path | None) -> None:
    """Print one key and write its page."""
    from driftsurf.core import files
    from driftsurf.report.html import check_replaceable
    from driftsurf.report.key_page import KEY_PAGES, key_page_name, render_key
    from driftsurf.report.keys import KeyedRecord, find_key, print_keys

    folder = _folder(run)
    record, outcomes = KeyedRecord.read(folder)
    key = find_key(record.keys, name)
    own = run / KEY_PAGES / key_page_name(key)
    text = render_key(folder, outcomes, key, record.keys[key], link=page is None)
    if page is None:
        files.make_folder(own.parent)
    else:
        check_replaceable(page)
    files.write_text(page or own, text, shared=True)
    print_keys(record.only(key), limit=1)
    say(f"page: {page or own}")


def _folder(run: Path) -> KeyedFolder:
    """Return the folder of a keyed run; RunFolderError if it is another kind of run."""
    from driftsurf.core import files
    from driftsurf.errors import RunFolderError
    from driftsurf.keyed.folder import KeyedFolder
    from driftsurf.runs.folder import JOURNAL

    if files.is_folder(run) and JOURNAL in files.names(run):
        raise RunFolderError(f"{str(run)!r} is a run of one model, not a keyed run: driftsurf explain {run}")
    return KeyedFolder(run)


READING = {name: one for name, one in option_fields(ReadingOptions).items() if name != "categorical"}
"""Options of reading; which columns are categories was decided by the run."""


COMMON = ("out", "overwrite", "id", "all_classes", "trust_config", "drop", "rows", "on_bad_row", "on_schema_change")


@click.command(cls=GroupedCommand, common=COMMON)
@click.argument("run", type=click.Path(path_type=Path, exists=True))
@click.argument("source", metavar="ROWS")
@option_group(option_fields(PredictOptions), "Predictions")
@option_group(READING, "Reading of tables")
def predict(run: Path, source: str, **options: Any) -> None:
    """Predict ROWS with the model of a finished RUN.

    RUN is a run folder, a folder of checkpoints, or its file model.state. ROWS is a file, a folder, a pattern in
    quotes, or - for standard input. The rows are read as in the run, unless an option says otherwise; the label may be
    there or not, and so may columns that the run left out. Rows are read in batches, so a file may be larger than
    memory.

    The columns are row, id (if the run has one), prediction, and probability, which is that of the prediction.
    Regression has no probability.
    """
    from driftsurf.runs.predict import predict as predict_rows

    asked = PredictOptions(**collect(PredictOptions, options))
    found = predict_rows(run, source, asked, ReadingOptions(**collect(ReadingOptions, options)))
    if asked.out != "-":
        say(f"{counted(found.rows, 'row')} predicted: {asked.out}")
    if found.skipped:
        have = agreeing(found.skipped, "has", "have")
        say(f"{counted(found.skipped, 'row')} could not be read, and {have} no prediction", err=True)


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, exists=True, file_okay=False), default=Path("runs"))
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Where to write the page.  [default: FOLDER/index.html]",
)
def runs(folder: Path, out: Path | None) -> None:
    """List all runs in a FOLDER: runs, keyed runs and comparisons, finished or not.

    Prints a table and writes a page that can be sorted by source, model, error and so on, with small curves and links
    to the page of each run. FOLDER is "runs" unless another one is given. Folders that are damaged, or no runs, are
    named with the reason.
    """
    from driftsurf.report.index import INDEX, print_runs, write_runs_page

    print_runs(write_runs_page(folder, out), out or folder / INDEX)
