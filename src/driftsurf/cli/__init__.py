"""The command line: one command a function; what is heavy is imported when a command needs it."""

from __future__ import annotations

import warnings
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from driftsurf import __version__
from driftsurf.cli.fleet import fleet
from driftsurf.cli.reproduce import reproduce
from driftsurf.errors import DriftsurfError, InputError, RunFolderError

if TYPE_CHECKING:
    from driftsurf.report import terminal
    from driftsurf.runtime import files
    from driftsurf.runtime.run import Run

__all__ = ["main"]


class _Group(click.Group):
    """Shows our own errors as one line, not as a traceback."""

    def invoke(self, ctx: click.Context) -> Any:
        with warnings.catch_warnings():
            warnings.showwarning = lambda message, *_, **__: click.echo(f"warning: {message}", err=True)
            try:
                return super().invoke(ctx)
            except (DriftsurfError, OSError) as error:
                raise click.ClickException(str(error)) from error
            except KeyboardInterrupt:
                click.echo("interrupted", err=True)
                ctx.exit(130)


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "-V", "--version", prog_name="driftsurf")
def main() -> None:
    """Learning that stays right while the world changes."""


@main.command()
def streams() -> None:
    """List the streams that can be run; of those that are not at hand `driftsurf datasets` says more."""
    from rich.table import Table

    from driftsurf.report.terminal import console
    from driftsurf.streams.catalogue import CATALOGUE
    from driftsurf.streams.datasets import find

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column, justify in (
        ("name", "left"),
        ("rows", "right"),
        ("columns", "right"),
        ("what it is", "left"),
    ):
        table.add_column(column, justify=justify)  # type: ignore[arg-type]
    for entry in CATALOGUE.values():
        missing = entry.dataset is not None and find(entry.name) is None
        description = entry.description + " (not at hand)" * missing
        columns = "one-hot" if entry.n_features is None else f"{entry.n_features:,}"
        table.add_row(entry.name, f"{entry.n_rows:,}", columns, description)
    console().print(table)


@main.group(invoke_without_command=True)
@click.pass_context
def datasets(context: click.Context) -> None:
    """List the real data: which are at hand, where they come from, how to get them."""
    if context.invoked_subcommand is None:
        from driftsurf.report.datasets import print_datasets

        print_datasets()


@datasets.command()
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
def fetch(names: tuple[str, ...]) -> None:
    """Download datasets into the user's cache folder; an interrupted download is continued."""
    from driftsurf.report.datasets import FetchProgress
    from driftsurf.runtime.fetch import fetch as download
    from driftsurf.streams import datasets, files, real

    for entry in [datasets.get(name) for name in names]:
        found = datasets.find(entry.name)
        if found is not None:
            click.echo(f"{entry.name} is at hand: {found}")
            continue
        if not entry.urls:
            raise InputError(f"{entry.name} cannot be fetched; {datasets.how_to_get(entry)}")
        path = files.cache_folder() / entry.saved_as
        with FetchProgress(entry.name) as progress:
            download(
                entry.urls,
                path,
                sha256=entry.sha256,
                n_bytes=entry.n_bytes,
                check=partial(real.read, entry),
                report=progress,
            )
        click.echo(f"{entry.name} is at hand: {path}")


def _step_size(_: click.Context, __: click.Parameter, value: str | None) -> float | str | None:
    if value is None or value == "auto":
        return value
    try:
        return float(value)
    except ValueError:
        raise click.BadParameter(f"{value!r} is neither a number nor 'auto'") from None


@main.command()
@click.argument("stream")
@click.option("--rows", type=click.IntRange(min=1), help="Length of the stream.  [default: as in the paper]")
@click.option("--batch-size", type=click.IntRange(min=1), help="Rows in a time step.  [default: as in the paper]")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Fixes every random draw.")
@click.option("--stream-seed", type=click.IntRange(min=0), help="Seed of the stream.  [default: as in the paper]")
@click.option(
    "--threshold",
    type=float,
    default=0.1,
    show_default=True,
    help="Rise of the risk that is a sign of drift.",
)
@click.option("--stable-threshold", type=float, help="The same against the stable model.  [default: threshold / 2]")
@click.option(
    "--reactive-length",
    type=click.IntRange(min=1),
    default=4,
    show_default=True,
    help="Steps in a reactive state.",
)
@click.option("--greedy/--no-greedy", default=True, help="Let the better model predict inside a reactive state.")
@click.option(
    "--variant",
    type=click.Choice(["algorithm-1", "authors"]),
    default="algorithm-1",
    show_default=True,
    help="Algorithm 1 of the paper, or the authors' published code.",
)
@click.option("--step-size", callback=_step_size, help="A number or 'auto'.  [default: the paper's for this stream]")
@click.option("--l2", type=float, help="L2 regularisation.  [default: the paper's for this stream]")
@click.option("--steps-per-row", type=float, default=2.0, show_default=True, help="Gradient steps for each new row.")
@click.option("--out", type=click.Path(path_type=Path), help="The run folder.  [default: a new one below runs/]")
@click.option("--overwrite", is_flag=True, help="Replace an existing run folder.")
@click.option(
    "--checkpoint",
    type=click.Path(path_type=Path, file_okay=False),
    help="Keep checkpoints in this folder, and the result below it unless --out says otherwise.",
)
@click.option(
    "--every", type=click.IntRange(min=1), default=10, show_default=True, help="Steps from checkpoint to checkpoint."
)
@click.option("--keep", type=click.IntRange(min=2), default=2, show_default=True, help="Checkpoints that are kept.")
@click.option("--resume", is_flag=True, help="Go on from the last checkpoint, or begin if there is none.")
@click.option("--quiet", is_flag=True, help="Print only the result.")
def run(
    stream: str,
    rows: int | None,
    batch_size: int | None,
    seed: int,
    stream_seed: int | None,
    step_size: Any,
    l2: float | None,
    steps_per_row: float,
    out: Path | None,
    overwrite: bool,
    checkpoint: Path | None,
    every: int,
    keep: int,
    resume: bool,
    quiet: bool,
    **options: Any,
) -> None:
    """Run DriftSurf over a STREAM, beside an oracle that is told of the drifts.

    Shows each transition as it happens, ends with a table, and writes a run folder: run.json (what was
    run), trace.csv, journal.jsonl, timings.json and report.html. Until it is whole the folder is called
    NAME.partial.

    With --checkpoint the run can be killed at any time: the same command with --resume goes on, and ends
    with the same journal, trace and report as if nothing had happened. Ctrl-C and SIGTERM write a checkpoint
    first and leave with exit code 130 and 143. 1 is an error, 2 a wrong command line.
    """
    from driftsurf.evaluation.scoring import TraceRecorder
    from driftsurf.experiments import paper
    from driftsurf.learners import paper_learner
    from driftsurf.report import terminal
    from driftsurf.runtime import files
    from driftsurf.runtime.checkpoint import CheckpointFolder
    from driftsurf.runtime.run import Run
    from driftsurf.runtime.source import StreamSource
    from driftsurf.streams import catalogue

    if resume and checkpoint is None:
        raise click.UsageError("--resume needs --checkpoint: the folder to go on from")

    entry = catalogue.get(stream)
    asked = {"seed": stream_seed, "n_rows": rows}
    source = entry.make(**{name: value for name, value in asked.items() if value is not None})
    default = entry.batch_size if rows is None else max(1, source.n_rows // paper.BATCHES)
    size = default if batch_size is None else batch_size
    setting = paper.settings_of(stream)
    learner = paper_learner(
        setting.step_size if step_size is None else step_size,
        setting.l2 if l2 is None else l2,
        scale="auto",
        steps_per_row=steps_per_row,
    )
    models = {
        terminal.MODEL: paper.driftsurf_session(learner, seed=seed, **options),
        terminal.ORACLE: paper.aware_session(learner, source.drift_steps(size), seed=seed),
    }
    paper.warm_up(learner, source)
    about = paper.record(source, size, learner, seed, options)
    parts = StreamSource(source, size), models, TraceRecorder(source, size)
    progress = terminal.Progress(source, size, quiet=quiet)
    if checkpoint is None:
        out = files.next_run_folder(Path("runs"), stream) if out is None else out
        folder = files.RunFolder(out, overwrite=overwrite)
        files.write_text(folder / "run.json", about)
        with Run(*parts, folder.__truediv__, about=about) as live:
            live.begin()
            _go(live, progress, f"its journal is in {folder.partial}")
            _finish(live, folder)
        return
    with (
        CheckpointFolder(checkpoint, keep=keep) as saved,
        Run(*parts, checkpoint.joinpath, about=about, folder=saved, every=every) as live,
    ):
        out = checkpoint / "result" if out is None else out
        last = saved.load()
        if not resume:
            files.RunFolder.check(out, overwrite=overwrite)
        if last is None or (overwrite and not resume):
            live.begin()
        elif resume:
            live.resume(last)
            progress.passed(live.step)
        else:
            raise RunFolderError(
                f"{str(checkpoint)!r} has checkpoints already; go on with --resume, or begin anew with --overwrite"
            )
        _go(live, progress, f"go on with --resume; its checkpoints are in {checkpoint}")
        folder = files.RunFolder(out, overwrite=overwrite or _is_result_of(live, out))
        for name in ("trace.csv", "journal.jsonl"):
            files.write_text(folder / name, live.text(name))
        files.write_text(folder / "run.json", about)
        _finish(live, folder)


def _go(live: Run, progress: terminal.Progress, remedy: str) -> None:
    """Run to the end, or leave with the exit code of the signal that stopped it."""
    from driftsurf.runtime.run import Stopped

    try:
        with progress:
            live.go(progress)
    except KeyboardInterrupt:
        click.echo(f"interrupted at step {live.step}; {remedy}", err=True)
        raise SystemExit(130) from None
    except Stopped as stopped:
        click.echo(f"{stopped}; {remedy}", err=True)
        raise SystemExit(stopped.exit_code) from None


def _is_result_of(live: Run, out: Path) -> bool:
    """Whether ``out`` has the result of this very run, or what is left of it: it was killed at the very end."""
    from driftsurf.runtime import files

    for folder in (out, out.with_name(out.name + files.PARTIAL)):
        try:
            if files.read_text(folder / "run.json") == live.about:
                return True
        except OSError:
            continue
    return live.first_step > 0 and not out.exists()


def _finish(live: Run, folder: files.RunFolder) -> None:
    """Write what follows from the journal and the trace, and publish the run folder."""
    from dataclasses import replace

    from driftsurf.evaluation.trace import Trace
    from driftsurf.journal import read_lines
    from driftsurf.report import page, terminal
    from driftsurf.runtime import files

    trace = replace(Trace.from_csv(live.text("trace.csv")), seconds=live.seconds)
    files.write_text(folder / "timings.json", terminal.timings(trace, live.first_step))
    report = page.render(trace, read_lines(live.text("journal.jsonl")), model=terminal.MODEL, oracle=terminal.ORACLE)
    files.write_text(folder / "report.html", report)
    folder.finish()
    terminal.print_result(trace, folder.path, live.first_step)


@main.command()
@click.argument("path", type=click.Path(path_type=Path, exists=True))
def inspect(path: Path) -> None:
    """Say what a saved model or a folder of checkpoints is, and whether it is whole."""
    from driftsurf.report import saved

    saved.print_what(path)


_RUN = click.argument("run", type=click.Path(path_type=Path, exists=True, file_okay=False))


def _order(run: Path, kind: str, to: int | None = None) -> None:
    from driftsurf.runtime import orders
    from driftsurf.runtime.checkpoint import CheckpointFolder

    if not CheckpointFolder(run).generations():
        raise RunFolderError(f"{str(run)!r} has no checkpoints; give the folder of a run with --checkpoint")
    order = orders.give(run, kind, to)
    click.echo(f"order {order.number}: {kind}; carried out at the next checkpoint, or when the run goes on")


@main.command()
@_RUN
@click.option("--off", is_flag=True, help="Let it learn again.")
def pin(run: Path, off: bool) -> None:
    """Freeze the model of a RUN: it predicts and is scored, but learns no more."""
    _order(run, "unpin" if off else "pin")


@main.command()
@_RUN
def reset(run: Path) -> None:
    """Force a fresh model on a RUN."""
    _order(run, "reset")


@main.command()
@_RUN
@click.option("--to", type=int, help="The number of a checkpoint that is there.  [default: the last but one]")
def rollback(run: Path, to: int | None) -> None:
    """Return the model of a RUN to an earlier one; rows since then are not learnt again."""
    from driftsurf.runtime.checkpoint import CheckpointFolder

    folder = CheckpointFolder(run)
    if to is None:
        to = (folder.generations() or [0])[-2:][0]
    folder.load(to)
    _order(run, "rollback", to)


main.add_command(fleet)
main.add_command(reproduce)
