"""Read the options of a command from a TOML file, and write them to one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from driftsurf.cli.options import GroupedCommand, GroupedOption
from driftsurf.cli.wording import flag_name
from driftsurf.errors import InputError

__all__ = ["ConfiguredCommand", "to_toml"]

NOT_WRITTEN = "config", "write_config", "resume", "overwrite", "help"
"""Options that say how to run now, not what to run."""


class ConfiguredCommand(GroupedCommand):
    """A command whose options may come from a TOML file, given by --config or as the first argument.

    The command line takes precedence over the file, also for options that can be repeated. The file may hold the
    argument of the command under its name.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the file, if there is one, as defaults of the options."""
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
                        raise click.UsageError(f"{named} has no {argument.name!r}; add it, or type it", ctx)
                    args = [source if arg == first else arg for arg in args] if is_file else [source, *args]
                ctx.default_map = {name: value for name, value in options.items() if name != argument.name}
        return super().parse_args(ctx, args)

    def _read(self, path: Path) -> dict[str, Any]:
        import tomllib

        from driftsurf.core import files

        try:
            content = tomllib.loads(files.read_text(path))
        except (OSError, ValueError) as error:
            raise InputError(f"{path} cannot be read as TOML: {error}") from error
        known = {_toml_name(param): param for param in self.params if param.name not in NOT_WRITTEN}
        options: dict[str, Any] = {}
        for name, value in content.items():
            param = known.get(name)
            if param is None or param.name is None:
                raise InputError(f"{path} has an unknown option {name!r}; choices: {', '.join(known)}")
            if isinstance(param, GroupedOption) and param.pairs:
                if not isinstance(value, Mapping):
                    raise InputError(f"{path}: {name} must be a table, [{name}]; got {value!r}")
                value = [f"{key}={_text(entry)}" for key, entry in value.items()]
            elif isinstance(value, Mapping) or param.multiple != isinstance(value, list):
                wanted = "a list" if param.multiple else "a single value"
                raise InputError(f"{path}: {name} must be {wanted}; got {value!r}")
            options[param.name] = value if isinstance(value, bool | list) else str(value)
        return options


def _toml_name(param: click.Parameter) -> str:
    return flag_name(param).lstrip("-")


def to_toml(ctx: click.Context) -> str:
    """Return the options that a command was given, as TOML."""
    lines, tables = list[str](), list[str]()
    for param in ctx.command.params:
        assert param.name is not None
        if param.name in NOT_WRITTEN or ctx.get_parameter_source(param.name) is ParameterSource.DEFAULT:
            continue
        name, value = _toml_name(param), ctx.params[param.name]
        if isinstance(value, Mapping):
            tables += ["", f"[{name}]", *(f"{_value(key)} = {_value(entry)}" for key, entry in value.items())]
        elif isinstance(param, click.Option) and isinstance(value, tuple) and not param.multiple:
            lines.append(f"{name} = {_value(','.join(map(str, value)))}")
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
    """Return a value of a table as the command line spells it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
