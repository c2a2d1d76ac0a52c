"""Messages as the command line spells them: ``on_bad_row='skip'`` becomes ``--on-bad-row skip``."""

from __future__ import annotations

import re
import shlex
import shutil
import sys
from collections.abc import Mapping

import click

from driftsurf.core.wrapping import wrapped
from driftsurf.errors import Message, Option
from driftsurf.visible import visible, without_secrets

__all__ = ["first_clause", "flag_name", "say", "with_cli_spelling", "wrap_error"]


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
