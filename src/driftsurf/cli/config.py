"""Options of a command from a TOML file, and back."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from driftsurf.errors import InputError

__all__ = ["ConfiguredCommand", "to_toml"]

NOT_WRITTEN = "config", "write_config", "resume", "overwrite", "help"
"""They say how to run now, not what."""
TABLES = "kind", "set"
"""Options that repeat NAME=VALUE: tables of the file."""


class ConfiguredCommand(click.Command):
    """A command whose options may stand in a TOML file: the one named by --config, or the first argument itself.

    What the command line says counts more than the file; repeated options replace those of the file. The argument
    of the command stands in the file under its own name.
    """

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The options by their sections; those without one come last."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if isinstance(param, click.Option) and record is not None:
                sections.setdefault(getattr(param, "section", "Options"), []).append(record)
        for title, records in sorted(sections.items(), key=lambda section: section[0] == "Options"):
            with formatter.section(title):
                formatter.write_dl(records)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the file, if there is one, as the defaults of the options."""
        if not ctx.resilient_parsing and not {"-h", "--help"} & set(args):
            argument = next(param for param in self.params if isinstance(param, click.Argument))
            assert argument.name is not None
            given = self.make_parser(ctx).parse_args(list(args))[0]
            first = given.get(argument.name)
            is_file = isinstance(first, str) and first.endswith(".toml")
            named = first if is_file else given.get("config")
            if isinstance(named, str):
                options = self._read(Path(named))
                if is_file or not isinstance(first, str):
                    source = options.get(argument.name)
                    if source is None:
                        raise click.UsageError(f"{named} does not say {argument.name!r}, and neither do you", ctx)
                    args = [source if arg == first else arg for arg in args] if is_file else [source, *args]
                ctx.default_map = {name: value for name, value in options.items() if name != argument.name}
        return super().parse_args(ctx, args)

    def _read(self, path: Path) -> dict[str, Any]:
        from driftsurf.runtime import files

        try:
            said = tomllib.loads(files.read_text(path))
        except (OSError, ValueError) as error:
            raise InputError(f"{path} cannot be read as TOML: {error}") from error
        known = {_shown(param): param for param in self.params if param.name not in NOT_WRITTEN}
        options: dict[str, Any] = {}
        for name, value in said.items():
            param = known.get(name)
            if param is None or param.name is None:
                raise InputError(f"{path} has an option {name!r}; choices: {', '.join(known)}")
            if name in TABLES:
                if not isinstance(value, Mapping):
                    raise InputError(f"{path}: {name} is {value!r}; give a table, [{name}]")
                value = [f"{key}={_text(entry)}" for key, entry in value.items()]
            elif isinstance(value, Mapping) or param.multiple != isinstance(value, list):
                wanted = "a list" if param.multiple else "one value"
                raise InputError(f"{path}: {name} is {value!r}; give {wanted}")
            options[param.name] = value if isinstance(value, bool | list) else str(value)
        return options


def _shown(param: click.Parameter) -> str:
    return (param.name or "").rstrip("_").replace("_", "-")


def to_toml(ctx: click.Context) -> str:
    """The options that a command was given, as TOML."""
    lines, tables = list[str](), list[str]()
    for param in ctx.command.params:
        assert param.name is not None
        if param.name in NOT_WRITTEN or ctx.get_parameter_source(param.name) is ParameterSource.DEFAULT:
            continue
        name, value = _shown(param), ctx.params[param.name]
        if name in TABLES:
            entries = (text.partition("=") for text in value)
            tables += ["", f"[{name}]", *(f"{_value(key)} = {_value(entry)}" for key, _, entry in entries)]
        else:
            lines.append(f"{name} = {_value(value)}")
    return "\n".join([*lines, *tables]) + "\n"


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, int | float):
        return repr(value)
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")


def _text(value: Any) -> str:
    """A value of a table of the file as the command line writes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
