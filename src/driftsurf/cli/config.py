"""Read the options of a command from a TOML file, and write them to one."""

from __future__ import annotations

import json
import os
import reprlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from driftsurf.cli.options import HELP_ALL, GroupedCommand, GroupedOption
from driftsurf.cli.wording import flag_name, say
from driftsurf.core.option_fields import RunsCode, option
from driftsurf.data.toml_file import read_toml
from driftsurf.errors import InputError, OptionError
from driftsurf.runs.options import StrPath
from driftsurf.visible import without_secrets

__all__ = ["CommandOptions", "ConfiguredCommand", "to_toml"]

NOT_WRITTEN = "config", "write_config", "trust_config", "resume", "overwrite", "help"
"""Options that say how to run now, not what to run."""
CONFIG = "driftsurf.config"
"""Where the context of a command keeps the file of its options."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandOptions:
    """Options that only the command line has."""

    config: StrPath | None = option(None, "Take options from a TOML file.", metavar="FILE")
    write_config: StrPath | None = option(None, "Write the options to a TOML file, and stop.", metavar="FILE")
    trust_config: bool = option(False, "Let the TOML file name classes to import, commands to run and clusters to use.")
    quiet: bool = option(False, "Print only the result.")


class ConfiguredCommand(GroupedCommand):
    """A command whose options may come from a TOML file, given by --config or as the first argument.

    The command line takes precedence over the file, also for options that can be repeated. The file may hold the
    argument of the command under its name, as a list if there can be several. Its options are those of a command and
    ``CommandOptions``, of which the command itself gets only ``quiet``.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the file, if there is one, as defaults of the options."""
        if not ctx.resilient_parsing and not {"-h", "--help", HELP_ALL} & set(args):
            argument = next(param for param in self.params if isinstance(param, click.Argument))
            assert argument.name is not None
            typed, named = self._typed(ctx, args, argument.name)
            is_file = bool(typed) and typed[0].endswith(".toml")
            if is_file:
                named = typed[0]
                args = self._without(ctx, args, argument.name, typed)
            if named is not None:
                ctx.meta[CONFIG] = named
                trusted = self.make_parser(ctx).parse_args(list(args))[0].get("trust_config") is True
                options = self._read(Path(named), trusted=trusted)
                found = options.pop(argument.name, ())
                if not typed[is_file:]:
                    if not found and argument.required:
                        raise click.UsageError(f"{named} has no {argument.name!r}; add it, or type it", ctx)
                    args = [*([found] if isinstance(found, str) else found), *args]
                ctx.default_map = options
            if argument.nargs == 1:
                self._check_single(ctx, args, argument)
        return super().parse_args(ctx, args)

    def _check_single(self, ctx: click.Context, args: list[str], argument: click.Argument) -> None:
        """Raise UsageError with a remedy if a shell has made several files of a pattern without quotes."""
        given, others, _ = self.make_parser(ctx).parse_args(list(args))
        first = given.get(argument.name)
        if isinstance(first, str) and others and all(map(os.path.exists, (first, *others))):
            raise click.UsageError(
                f"{argument.make_metavar(ctx)} is a single file, and {len(others) + 1} were given; name their folder, "
                "or put the pattern in quotes, such as '*.csv'",
                ctx,
            )

    def _typed(self, ctx: click.Context, args: list[str], name: str) -> tuple[list[str], str | None]:
        """Return the arguments that were typed, and the file of --config."""
        given = self.make_parser(ctx).parse_args(list(args))[0]
        found, config = given.get(name), given.get("config")
        values = list(found) if isinstance(found, tuple | list) else [found]
        return [one for one in values if isinstance(one, str)], config if isinstance(config, str) else None

    def _without(self, ctx: click.Context, args: list[str], name: str, typed: list[str]) -> list[str]:
        """Return the command line without its first argument, which may also be the value of an option."""
        for place in range(len(args)):
            others = args[:place] + args[place + 1 :]
            if args[place] == typed[0] and self._typed(ctx, others, name)[0] == typed[1:]:
                return others
        return args

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command, or write its options to a file."""
        from driftsurf.core import files

        named = ctx.params["write_config"]
        if named is not None:
            from driftsurf.runs.outputs import check_new, check_not_input

            read = [ctx.params[param.name] for param in self.params if isinstance(param, click.Argument) and param.name]
            inputs = [one for value in read for one in (value if isinstance(value, tuple | list) else [value]) if one]
            path = Path(named)
            check_not_input("write_config", path, [*inputs, *([ctx.meta[CONFIG]] if CONFIG in ctx.meta else [])])
            check_new("write_config", path, overwrite=ctx.params.get("overwrite"))
            text = to_toml(ctx)
            # Whoever may read the file must not find a signature or a password of an address in it.
            files.write_text(path, text, shared=text == without_secrets(text))
            say(f"written: {path}; run it with: driftsurf {ctx.info_name} {path}")
            return None
        del ctx.params["config"], ctx.params["write_config"], ctx.params["trust_config"]
        return super().invoke(ctx)

    def _read(self, path: Path, *, trusted: bool) -> dict[str, Any]:
        content = read_toml(path)
        known = {_toml_name(param): param for param in self.params if param.name not in NOT_WRITTEN}
        options: dict[str, Any] = {}
        for name, value in content.items():
            param = known.get(name)
            if param is None or param.name is None:
                raise InputError(f"{path} has an unknown option {name[:100]!r}; choices: {', '.join(known)}")
            if isinstance(param, GroupedOption) and param.field.pairs:
                if not isinstance(value, Mapping):
                    raise InputError(f"{path}: {name} must be a table, [{name}]; got {reprlib.repr(value)}")
                value = [f"{key}={_text(entry)}" for key, entry in value.items()]
            elif isinstance(param, click.Argument):
                value = _arguments(path, name, value, several=param.nargs != 1)
            elif isinstance(value, Mapping) or param.multiple != isinstance(value, list):
                wanted = "a list" if param.multiple else "a single value"
                raise InputError(f"{path}: {name} must be {wanted}; got {reprlib.repr(value)}")
            options[param.name] = value if isinstance(value, bool | list) else str(value)
            if isinstance(param, GroupedOption) and not trusted and _runs_code(param.field.runs_code, str(value)):
                raise OptionError(
                    f"{path}: {name} = {reprlib.repr(value)} would run code that is not part of driftsurf. If you "
                    "trust this file, add --trust-config"
                )
        return options


def _runs_code(which: RunsCode, value: str) -> bool:
    """Return whether this value of an option runs code that is not driftsurf's."""
    from driftsurf.session.model_names import imported_class

    if which in ("never", "always"):
        return which == "always"
    return bool(imported_class(None, value) if which == "learner" else imported_class(value))


def _arguments(path: Path, name: str, value: Any, *, several: bool) -> list[str]:
    """Return the arguments of a command; raise InputError if the command line would take one for an option."""
    values = value if several and isinstance(value, list) else [value]
    for one in values:
        if not isinstance(one, str) or (one.startswith("-") and one != "-"):
            wanted = "names or paths that do not begin" if several else "a name or a path that does not begin"
            raise InputError(f"{path}: {name} must be {wanted} with a dash; got {reprlib.repr(one)}")
    return list(values)


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
        elif isinstance(param, click.Option) and isinstance(value, tuple | list) and not param.multiple:
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
