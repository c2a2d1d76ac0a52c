"""Streams, words and signals of the command line."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import shutil
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self, TextIO

import click

from driftsurf.core.wording import wrapped
from driftsurf.errors import Message, Option
from driftsurf.errors.visible import visible, without_secrets


class _Output(io.FileIO):
    """Standard output, whose errors say that they are about it."""

    def write(self, data: Any, /) -> int:
        """Write some of the data; return the number of bytes written."""
        try:
            return super().write(data)
        except OSError as error:
            error.filename = "standard output"
            raise


class _Errors(io.FileIO):
    """Standard error, where what cannot be written is lost: no work ends because nobody can be told about it."""

    def write(self, data: Any, /) -> int:
        """Write some of the data; return the number of bytes that need not be written again."""
        try:
            return super().write(data)
        except OSError:
            return len(data)


@contextlib.contextmanager
def usable_streams() -> Iterator[None]:
    """Context in which a command can use the standard streams, whatever they are.

    The null device is opened for those that are closed: a file must not take the place of one. Nothing is left for
    Python to write at its end, where an error would have an exit code of its own.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if vars(sys)[name] is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode, encoding="utf-8"))
    before = sys.stdout, sys.stderr
    if sys.stdout is sys.__stdout__:
        sys.stdout = _over(sys.stdout, _Output)
    if sys.stderr is sys.__stderr__:
        sys.stderr = _over(sys.stderr, _Errors)
    try:
        yield
    finally:
        try:
            sys.stdout.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.stdout.flush()
        sys.stdout, sys.stderr = before


def _over(stream: Any, kind: type[io.FileIO]) -> TextIO:
    """Return a stream that writes to the same file in its own way."""
    raw = io.BufferedWriter(kind(stream.fileno(), "w", closefd=False))
    return io.TextIOWrapper(
        raw, stream.encoding, stream.errors, line_buffering=stream.line_buffering, write_through=stream.write_through
    )


def say(text: object, *, err: bool = False) -> None:
    """Print a sentence, on standard output or on standard error, wrapped at the width of the terminal."""
    from driftsurf.report.terminal import say as show

    show(str(text), errors=err)


def wrap_error(error: click.ClickException) -> None:
    """Make click show the message of an error with visible characters only, wrapped at word ends in a terminal."""
    start = "Error: "  # click prints it before the message
    text = visible(without_secrets(start + error.format_message()), lines=True)
    if sys.stderr.isatty():
        text = wrapped(text, shutil.get_terminal_size().columns)
    error.format_message = lambda: text.removeprefix(start)  # type: ignore[method-assign]


def first_clause(command: click.Command) -> str:
    """Return the beginning of the help of a command, up to a full stop, a colon or a semicolon."""
    return re.split(r"[:;.](?:\s|$)", " ".join((command.help or "").split()), maxsplit=1)[0] + "."


def flag_name(param: click.Parameter) -> str:
    """Return a parameter as it is typed on the command line."""
    return param.opts[0]


def with_cli_spelling(message: BaseException | str, command: click.Command) -> str:
    """Return a message in which the options of ``command`` are spelled as they are typed."""
    text = message.args[0] if isinstance(message, BaseException) and len(message.args) == 1 else message
    if not isinstance(text, Message):
        return str(message)
    return visible("".join(_spelled(part, command) for part in text.parts))


def _spelled(part: object, command: click.Command) -> str:
    """Return one part of a message as the command line spells it."""
    if isinstance(part, Message):
        return with_cli_spelling(part, command)
    if not isinstance(part, Option):
        return str(part)
    flags = {param.name: flag_name(param) for param in command.params if isinstance(param, click.Option)}
    if part.name in flags:
        flag, several = flags[part.name], isinstance(part.value, list | tuple)
        if part.value is None or part.value is True:
            return flag
        return " ".join(f"{flag} {shlex.quote(_value(one))}" for one in (part.value if several else [part.value]))
    # What has no option of its own is a parameter of the model, which --set sets.
    if "parameters" in flags and part.value is not None:
        return f"{flags['parameters']} {part.name}={part.value}"
    return str(part)


def _value(value: object) -> str:
    """Return a value as it is typed; a mapping of one as NAME=VALUE."""
    if isinstance(value, Mapping) and len(value) == 1:
        return "=".join(map(str, next(iter(value.items()))))
    return str(value)


PATIENCE = 1.0
"""Seconds after which a command that has shown nothing says that it is starting."""


class StartLine:
    """Shows a line on standard error if a command has shown nothing after a second; in a terminal it disappears."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._quiet = quiet
        self._timer = threading.Timer(PATIENCE, self._show)
        self._timer.daemon = True
        self._shown = False

    def __enter__(self) -> Self:
        if not self._quiet:
            with contextlib.suppress(RuntimeError):  # the system may allow no more threads
                self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Print nothing from now on, because the command has begun to show its work."""
        self._timer.cancel()
        if self._shown:
            click.echo("\r            \r", nl=False, err=True)
            self._shown = False

    def _show(self) -> None:
        """Write the line; in a terminal return to its start, so that any other output replaces it."""
        self._shown = sys.stderr.isatty()
        with contextlib.suppress(OSError):  # nobody may be reading any more
            click.echo("starting ...\r" if self._shown else "starting ...\n", nl=False, err=True)


def started() -> None:
    """Stop the line that says that the current command is starting."""
    context = click.get_current_context(silent=True)
    line = None if context is None else context.find_object(StartLine)
    if line is not None:
        line.stop()


class Termination:
    """Context in which SIGTERM ends a command as Ctrl-C does, with a line on what is left, and exit code 143.

    It does nothing outside the main thread, and where SIGTERM has a handler already.
    """

    def __init__(self) -> None:
        self.exit_code: int = 128 + signal.SIGINT
        """The exit code of the command after a KeyboardInterrupt."""
        self._held = False

    def __enter__(self) -> Self:
        main = threading.current_thread() is threading.main_thread()
        if main and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            signal.signal(signal.SIGTERM, self._hear)
            self._held = True
        return self

    def __exit__(self, *_: object) -> None:
        if self._held:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def _hear(self, number: int, frame: object) -> None:
        self.exit_code = 128 + number
        raise KeyboardInterrupt


@contextlib.contextmanager
def at_work(out: Path, jobs: int | None, cluster: str | None) -> Iterator[int]:
    """Context for a command that runs many tasks; yields how many run at a time, in local processes or on a cluster.

    Ctrl-C and SIGTERM end the process with exit code 130 and a message that finished tasks are kept.
    """
    from driftsurf.comparison.runner import on_cluster

    started()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C, so that the worker processes are stopped too
    try:
        with on_cluster(cluster, (os.cpu_count() or 1) if jobs is None else jobs) as workers:
            yield workers
    except KeyboardInterrupt:
        say(f"interrupted; finished tasks are in {out}, and the same command continues from there", err=True)
        raise SystemExit(130) from None
