"""The command line: modules of larger commands; the short ones are in this file.

A command parses its options, makes one library call and prints the result. Nothing is learned or decided here, and
pages are made in :mod:`driftsurf.report`. The module of a larger command is imported when the command is asked for, and
heavy modules inside a command, so that ``--help`` is fast. The options of ``run``, ``compare`` and ``reproduce`` are
defined in ``options.py`` of the package that each command calls; :mod:`driftsurf.cli.options` turns them into click
options.
"""

from __future__ import annotations

import errno
import importlib
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any, Final

import click

from driftsurf import __version__
from driftsurf.cli.terminal import StartLine, first_clause, say, usable_streams, with_cli_spelling, wrap_error
from driftsurf.data.download_progress import Report, show_download
from driftsurf.errors import (
    ColumnWarning,
    DriftsurfError,
    InputError,
    Message,
    OptionError,
    RunFolderError,
    RunWarning,
    reason,
)

__all__ = ["main"]

BROKEN_PIPE = 141
"""Exit code of a command whose reader, such as head, has seen enough: that of a process which SIGPIPE ends."""


SUMMARIES: Final[Mapping[str, str]] = {
    "compare": "Compare models on the same SOURCES.",
    "doctor": "Check versions, the native core, extras, data and cores.",
    "explain": "Explain the decisions of a RUN.",
    "keys": "Show the keys of a keyed RUN.",
    "predict": "Predict ROWS with the model of a finished RUN.",
    "reproduce": "Run the paper's evaluation and compare our numbers with the paper's.",
    "run": "Learn from a SOURCE as its rows come.",
    "runs": "List all runs in a FOLDER.",
    "serve": "Serve models over HTTP.",
}
"""The larger commands, with the first clause of their help for the list of commands."""
MODULES: Final[Mapping[str, str]] = {
    **dict.fromkeys(("compare", "reproduce"), "compare"),
    **dict.fromkeys(("doctor", "explain", "keys", "predict", "runs"), "inspect"),
    "run": "run",
    "serve": "serve",
}
"""The module of each of them, which is imported when the command is asked for."""


class _WrongOption(click.ClickException):
    """An option that cannot be used: one line, and the exit code of a wrong command line."""

    exit_code = 2


class _Group(click.Group):
    """Prints errors of this package as one line instead of a traceback, and imports large commands when asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands, in alphabetical order."""
        return sorted({*self.commands, *MODULES})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command, after importing its module; None if there is no command of this name."""
        if cmd_name in MODULES and cmd_name not in self.commands:
            module = importlib.import_module(f"driftsurf.cli.{MODULES[cmd_name]}")
            self.add_command(vars(module)[cmd_name])
        return super().get_command(ctx, cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command of the first argument; an unknown one is compared with all commands, for a hint."""
        if args and args[0] not in self.list_commands(ctx):
            for name in self.list_commands(ctx):
                self.get_command(ctx, name)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands, without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, SUMMARIES.get(name) or first_clause(self.commands[name])) for name in self.list_commands(ctx)]
            )

    def main(self, *arguments: Any, **options: Any) -> Any:
        """Run the command, also if standard input, output or error is closed or full."""
        with usable_streams():
            try:
                return super().main(*arguments, **options)
            except OSError as error:  # of the help or the version, which are printed before a command is invoked
                failure = _failure(error)
                failure.show()
                sys.exit(failure.exit_code)

    def make_context(self, *arguments: Any, **options: Any) -> click.Context:
        """Parse the command line, and print the help or the version if it asks for them."""
        try:
            return super().make_context(*arguments, **options)
        except BrokenPipeError:  # click itself would exit with 1
            raise click.exceptions.Exit(BROKEN_PIPE) from None

    def invoke(self, ctx: click.Context) -> Any:
        def spelled(message: Exception | str) -> str:
            command = self.commands.get(ctx.invoked_subcommand or "", self)
            notes = [note for note in getattr(message, "__notes__", ()) if isinstance(note, Message)]
            return "\n".join(with_cli_spelling(part, command) for part in (message, *notes))

        with warnings.catch_warnings():
            for category in (ColumnWarning, RunWarning):  # always print them, whatever warning filters the process has
                warnings.simplefilter("always", category)
            warnings.showwarning = lambda message, *_, **__: say(f"warning: {spelled(message)}", err=True)
            try:
                return self._invoke(ctx, spelled)
            except BrokenPipeError:
                ctx.exit(BROKEN_PIPE)
            except click.ClickException as error:
                wrap_error(error)
                raise
            except KeyboardInterrupt:
                say("interrupted", err=True)
                ctx.exit(130)

    def _invoke(self, ctx: click.Context, spelled: Callable[[Exception], str]) -> Any:
        show_download.set(_download_progress)
        try:
            _check_environment()
            with StartLine(quiet="--quiet" in ctx.args) as ctx.obj:
                result = super().invoke(ctx)
                sys.stdout.flush()  # what is still in the buffer may not find its reader, or no space
                return result
        except BrokenPipeError:
            raise
        except OptionError as error:
            raise _WrongOption(spelled(error)) from error
        except DriftsurfError as error:
            raise click.ClickException(spelled(error)) from error
        except OSError as error:
            raise _failure(error) from error
        except MemoryError as error:
            command = self.commands.get(ctx.invoked_subcommand or "", self)
            bounded = any(param.name == "max_rows" for param in command.params)
            remedy = "; keep fewer rows with --max-rows" * bounded
            raise click.ClickException(f"there is not enough memory: {error}{remedy}") from error


def _check_environment() -> None:
    """Raise InputError for a variable with which numpy cannot be imported whole."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH", "0")
    try:
        time.gmtime(int(epoch))
    except (ValueError, OverflowError, OSError):
        raise InputError(
            f"the environment variable SOURCE_DATE_EPOCH is {epoch!r}; set it to a whole number, the seconds since "
            "1970, or unset it"
        ) from None


def _failure(error: OSError) -> click.ClickException:
    """Return the error of a command for one of the operating system, which may not say what it is about."""
    if isinstance(error, FileNotFoundError) and _folder_is_gone():
        return click.ClickException("the current folder has been removed; change to another one")
    if error.filename is None and error.errno == errno.ENOSPC:  # of a library that does not say where it wrote
        places = f"the temporary folder {tempfile.gettempdir()!r}, or of the folder that the command writes"
        return click.ClickException(f"there is no space left on the disk of {places}; free some of it")
    return click.ClickException(Message(reason(error)))


def _folder_is_gone() -> bool:
    """Return whether the current folder has been removed, in which no relative path leads anywhere."""
    try:
        os.getcwd()
    except FileNotFoundError:
        return True
    return False


def _download_progress(name: str) -> AbstractContextManager[Report]:
    from driftsurf.report.datasets import FetchProgress

    return FetchProgress(name, errors=True)


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "-V", "--version", prog_name="driftsurf")
def main() -> None:
    """Models that stay accurate when your data changes."""


@main.command()
def streams() -> None:
    """List the built-in streams; `driftsurf datasets` tells how to get those that need a file."""
    from rich.table import Table

    from driftsurf.data.catalogue import CATALOGUE
    from driftsurf.data.datasets.known import find
    from driftsurf.report.terminal import console

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column, justify in (
        ("name", "left"),
        ("rows", "right"),
        ("columns", "right"),
        ("description", "left"),
    ):
        table.add_column(column, justify=justify)  # type: ignore[arg-type]
    for entry in CATALOGUE.values():
        missing = entry.dataset is not None and find(entry.name) is None
        description = entry.description + " (file not found)" * missing
        columns = "one-hot" if entry.n_features is None else f"{entry.n_features:,}"
        table.add_row(entry.name, f"{entry.n_rows:,}", columns, description)
    console().print(table)


@main.group(invoke_without_command=True)
@click.pass_context
def datasets(context: click.Context) -> None:
    """List the real data sets: which are available here, where they come from, how to get them."""
    if context.invoked_subcommand is None:
        from driftsurf.report.datasets import print_datasets

        print_datasets()


@datasets.command()
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
def fetch(names: tuple[str, ...]) -> None:
    """Download data sets to the cache folder of the user; an interrupted download resumes."""
    from driftsurf.data.datasets import known, real
    from driftsurf.data.datasets import known as datasets
    from driftsurf.data.download import fetch as download
    from driftsurf.report.datasets import FetchProgress

    for entry in [datasets.get(name) for name in names]:
        found = datasets.find(entry.name)
        if found is not None:
            say(f"{entry.name} is already here: {found}")
            continue
        if not entry.urls:
            raise InputError(f"{entry.name} cannot be fetched; {datasets.how_to_get(entry)}")
        path = known.cache_folder() / entry.saved_as
        with FetchProgress(entry.name) as progress:
            download(
                entry.urls,
                path,
                sha256=entry.sha256,
                n_bytes=entry.n_bytes,
                check=partial(real.read, entry),
                report=progress,
            )
        say(f"{entry.name} was downloaded: {path}")


@main.command()
@click.argument("path", type=click.Path(path_type=Path, exists=True))
def inspect(path: Path) -> None:
    """Describe a saved model or a folder of checkpoints, and check that it is intact."""
    from driftsurf.report import saved_state

    saved_state.print_saved_state(path)


_RUN = click.argument("run", type=click.Path(path_type=Path, exists=True, file_okay=False))


def _order(run: Path, kind: str, to: int | None = None, *, mark: str = "", drift: int | None = None) -> None:
    from driftsurf.keyed.folder import is_keyed_run
    from driftsurf.runs import orders
    from driftsurf.runs.checkpoint import CheckpointFolder
    from driftsurf.runs.explanation.records import newest_head

    if is_keyed_run(run):
        raise RunFolderError(
            f"{str(run)!r} is a keyed run; orders apply only to a run with one model. "
            f"Its keys are shown by: driftsurf keys {run}"
        )
    if not CheckpointFolder(run).generations():
        raise RunFolderError(f"{str(run)!r} has no checkpoints; pass the folder that a run has as --checkpoint")
    finished = newest_head(run).get("done") is True
    if finished and kind != "mark":
        raise RunFolderError(
            f"the run in {str(run)!r} is finished, so it carries out no orders. If more rows will come, continue it "
            "with --resume --follow, and give the order then"
        )
    order = orders.submit(run, kind, to, mark=mark, drift=drift)
    what = kind if to is None else f"{kind} to checkpoint {to}"
    when = (
        "when the same command resumes the run (--resume)"
        if finished
        else "at the next checkpoint, or when the run resumes"
    )
    say(f"order {order.number}: {what}; carried out {when}")


@main.command()
@_RUN
@click.option("--off", is_flag=True, help="End the pin: the model learns again.")
def pin(run: Path, off: bool) -> None:
    """Pin the model of a RUN: it predicts and is scored, but learns nothing."""
    _order(run, "unpin" if off else "pin")


@main.command()
@_RUN
def reset(run: Path) -> None:
    """Reset the model of a RUN to a fresh one."""
    _order(run, "reset")


@main.command()
@_RUN
@click.option("--to", type=int, help="Number of an existing checkpoint.  [default: the last but one]")
def rollback(run: Path, to: int | None) -> None:
    """Roll the model of a RUN back to an earlier checkpoint; rows since then are not learned again."""
    from driftsurf.runs.checkpoint import CheckpointFolder

    folder = CheckpointFolder(run)
    numbers = folder.generations()
    if numbers:  # otherwise the order says what is wrong with the folder
        to = numbers[-2:][0] if to is None else to
        folder.load(to)
    _order(run, "rollback", to)


@main.command()
@_RUN
@click.argument("said", type=click.Choice(["expected", "false", "none"]))
@click.option("--drift", type=click.IntRange(min=1), help="Number of the drift, from 1.  [default: the newest one]")
def mark(run: Path, said: str, drift: int | None) -> None:
    """Mark a drift of a RUN as expected or false, or take the mark back with none.

    The mark is recorded and shown with the drift; the model learns as before.
    """
    _order(run, "mark", mark=said, drift=drift)
