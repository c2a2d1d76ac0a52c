"""Messages as the command line spells them: ``on_bad_row='skip'`` is typed as ``--on-bad-row skip``."""

from __future__ import annotations

import shlex

import click

from driftsurf.cli.options import shown
from driftsurf.errors import Option, Said

__all__ = ["as_typed"]


def as_typed(message: BaseException | str, command: click.Command) -> str:
    """The message, in which the options of ``command`` are spelt as they are typed."""
    said = message.args[0] if isinstance(message, BaseException) and len(message.args) == 1 else message
    if not isinstance(said, Said):
        return str(message)
    return "".join(_typed(part, command) for part in said.parts)


def _typed(part: object, command: click.Command) -> str:
    if isinstance(part, Said):
        return as_typed(part, command)
    if not isinstance(part, Option):
        return str(part)
    names = {param.name for param in command.params if isinstance(param, click.Option)}
    # What is a list in Python is repeated here, in the singular; a few names are words of Python.
    name = next((name for name in (part.name, part.name.removesuffix("s"), f"{part.name}_") if name in names), None)
    if name is not None:
        bare = part.value is None or part.value is True
        return shown(name) if bare else f"{shown(name)} {shlex.quote(str(part.value))}"
    return f"--set {part.name}={part.value}" if "set_" in names and part.value is not None else str(part)
