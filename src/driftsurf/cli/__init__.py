"""The command line: one command a function; what is heavy is imported when a command needs it."""

from __future__ import annotations

import warnings
from functools import partial
from pathlib import Path
from typing import Any

import click

from driftsurf import __version__
from driftsurf.cli.compare import compare
from driftsurf.cli.doctor import doctor
from driftsurf.cli.explain import explain
from driftsurf.cli.fleet import fleet
from driftsurf.cli.reproduce import reproduce
from driftsurf.cli.run import run
from driftsurf.cli.wording import as_typed
from driftsurf.errors import DriftsurfError, InputError, RunFolderError

__all__ = ["main"]


class _Group(click.Group):
    """Shows our own errors as one line, not as a traceback."""

    def invoke(self, ctx: click.Context) -> Any:
        def said(message: Exception | str) -> str:
            return as_typed(message, self.commands.get(ctx.invoked_subcommand or "", self))

        with warnings.catch_warnings():
            warnings.showwarning = lambda message, *_, **__: click.echo(f"warning: {said(message)}", err=True)
            try:
                return super().invoke(ctx)
            except (DriftsurfError, OSError) as error:
                raise click.ClickException(said(error)) from error
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


@main.command()
@click.argument("path", type=click.Path(path_type=Path, exists=True))
def inspect(path: Path) -> None:
    """Say what a saved model or a folder of checkpoints is, and whether it is whole."""
    from driftsurf.report import saved

    saved.print_what(path)


_RUN = click.argument("run", type=click.Path(path_type=Path, exists=True, file_okay=False))


def _order(run: Path, kind: str, to: int | None = None) -> None:
    from driftsurf.evaluation.records import newest_head
    from driftsurf.runtime import orders
    from driftsurf.runtime.checkpoint import CheckpointFolder

    if not CheckpointFolder(run).generations():
        raise RunFolderError(f"{str(run)!r} has no checkpoints; give the folder of a run with --checkpoint")
    if newest_head(run).get("done") is True:
        raise RunFolderError(
            f"the run in {str(run)!r} is finished: it takes no more rows, so it takes no orders. Run it anew, with "
            "--follow if more rows are to come"
        )
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


main.add_command(compare)
main.add_command(fleet)
main.add_command(reproduce)
main.add_command(run)
main.add_command(explain)
main.add_command(doctor)
