"""Options of a command: click options from their definitions, and TOML files that hold them."""

from __future__ import annotations

import json
import os
import reprlib
import textwrap
import types
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Union, get_args, get_origin

import click
from click.core import ParameterSource

from driftsurf.cli.terminal import flag_name, say
from driftsurf.core.options import OptionField, OptionGroup, RunsCode, StrPath, option, option_fields
from driftsurf.errors import InputError, OptionError
from driftsurf.errors.visible import without_secrets

Command = Callable[..., Any]
METAVARS: Final[Mapping[Any, str]] = {int: "N", float: "NUMBER"}
HELP_ALL: Final = "--help=all"
ALL: Final = "driftsurf.help-all"
"""Where the context of a command keeps whether its help is about all options."""
OTHER: Final = "Options"
"""Heading of options that belong to no group."""


class GroupedOption(click.Option):
    """An option under a heading of the help."""

    def __init__(self, *arguments: Any, field: OptionField | None = None, section: str = OTHER, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.section = section
        self.field: OptionField = OptionField() if field is None else field
        """Definition of the option, from which its help is written."""

    def get_help_extra(self, ctx: click.Context) -> Any:
        """Return what the help adds to the text of an option, without the range in mathematical notation."""
        extra = super().get_help_extra(ctx)
        extra.pop("range", None)
        return extra


class GroupedCommand(click.Command):
    """A command whose help shows options under the headings of their groups.

    Parameters
    ----------
    common
        Names of the options that ``--help`` explains, in their order; it names the others by group, and ``--help=all``
        explains them too. Empty if ``--help`` explains all.
    rare
        Names of options that ``--help=all`` only names: they belong in a configuration file.
    """

    def __init__(self, *arguments: Any, common: Iterable[str] = (), rare: Iterable[str] = (), **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.common: tuple[str, ...] = tuple(common)
        self.rare: frozenset[str] = frozenset(rare)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the command line; ``--help=all`` asks for the help of all options."""
        ctx.meta[ALL] = HELP_ALL in args
        return super().parse_args(ctx, ["--help" if arg == HELP_ALL else arg for arg in args])

    def get_help_option(self, ctx: click.Context) -> click.Option | None:
        """Return the option of the help, whose own help says how to see all options."""
        found = super().get_help_option(ctx)
        if found is not None and self.common:
            found.help = f"Show this message; {HELP_ALL} explains all options."
        return found

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options that matter most, or all of them under the headings of their groups."""
        shown = [param for param in self.get_params(ctx) if isinstance(param, click.Option)]
        if not self.common or ctx.meta.get(ALL):
            self._format_all(ctx, formatter, shown)
            return
        named = {param.name: param for param in shown}
        chosen = [*(named[name] for name in self.common), *(param for param in shown if _section(param) == OTHER)]
        with formatter.section("Options that matter most"):
            formatter.write_dl(list(filter(None, (param.get_help_record(ctx) for param in chosen))))
        others = _by_section(param for param in shown if param not in chosen and param.name not in self.rare)
        with formatter.section(f"Further options, which {HELP_ALL} explains"):
            width = max(map(len, others), default=0)
            for title, own in others.items():
                _write_names(formatter, f"{title:{width}}  ", own)

    def _format_all(self, ctx: click.Context, formatter: click.HelpFormatter, shown: list[click.Option]) -> None:
        sections = _by_section(param for param in shown if param.name not in self.rare)
        for title, params in sorted(sections.items(), key=lambda section: section[0] == OTHER):
            with formatter.section(title):
                formatter.write_dl(list(filter(None, (param.get_help_record(ctx) for param in params))))
        rare = [param for param in shown if param.name in self.rare]
        if rare:
            with formatter.section("Options for configuration files, which docs/options.md explains"):
                _write_names(formatter, "", rare)


def _write_names(formatter: click.HelpFormatter, title: str, params: Iterable[click.Option]) -> None:
    """Write the names of options after a title; no name is cut at the end of a line."""
    start = " " * formatter.current_indent
    names = ", ".join(param.opts[0] for param in params)
    lines = textwrap.wrap(
        names,
        formatter.width,
        initial_indent=start + title,
        subsequent_indent=start + " " * len(title),
        break_on_hyphens=False,
    )
    formatter.write("".join(f"{line}\n" for line in lines))


def _section(param: click.Option) -> str:
    return param.section if isinstance(param, GroupedOption) else OTHER


def _by_section(params: Iterable[click.Option]) -> dict[str, list[click.Option]]:
    """Return options by the heading of their group."""
    sections: dict[str, list[click.Option]] = {}
    for param in params:
        sections.setdefault(_section(param), []).append(param)
    return sections


def option_group(options: Mapping[str, OptionField], section: str = OTHER) -> Callable[[Command], Command]:
    """Return a decorator that adds options to a command, in their order, under a heading."""
    chosen = [one for one in options.values() if one.flag is not None]

    def decorate(command: Command) -> Command:
        for one in reversed(chosen):
            command = _click_option(one, section)(command)
        return command

    return decorate


def option_groups(groups: Iterable[OptionGroup], command_line: type) -> Callable[[Command], Command]:
    """Return a decorator that adds groups of options, and the options that only the command line has."""

    def decorate(command: Command) -> Command:
        command = option_group(option_fields(command_line), "Command line")(command)
        for group in reversed(tuple(groups)):
            command = option_group(group.fields, group.title)(command)
        return command

    return decorate


def collect(options: type, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a command that are options of a dataclass, as its constructor takes them."""
    return {name: values[name] for name in option_fields(options) if name in values}


def _click_option(one: OptionField, section: str) -> Callable[[Command], Command]:
    assert one.flag is not None
    kinds = value_types(one.hint)
    flags, shape = [one.flag], dict[str, Any]()
    if kinds == {bool}:
        if one.default is False:
            shape["is_flag"] = True
        else:
            flags = [f"{one.flag}/--no-{one.toml_name}"]
        shape["default"] = one.default
    elif one.commas:
        shape["callback"] = _read_list(one)
    elif one.repeated or one.pairs:
        shape |= {"multiple": True, "callback": _read_pairs(one) if one.pairs else None}
    else:
        shape |= {"type": _click_type(one, kinds), "default": one.default}
        shape["show_default"] = one.default not in (None, ()) and "[default" not in one.help
        if one.parse is not None:
            shape |= {"default": None if one.default is None else str(one.default), "callback": _read_text(one)}
    return click.option(
        *flags,
        one.name,
        cls=GroupedOption,
        section=section,
        field=one,
        metavar=one.metavar or METAVARS.get(next(iter(kinds)) if len(kinds) == 1 and not one.choices else None),
        help=one.help,
        **shape,
    )


def value_types(hint: Any) -> set[Any]:
    """Return the types that a value may have, None aside."""
    members = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    return {get_origin(one) or one for one in members} - {type(None)}


def _click_type(one: OptionField, kinds: set[Any]) -> Any:
    if one.parse is not None:
        return str
    if one.choices:
        return click.Choice(one.choices)
    if os.PathLike in kinds:
        return click.Path()  # as it was typed: a Path would change a URL
    low = one.at_least if one.above is None else one.above
    bounds: dict[str, Any] = {} if low is None else {"min": low, "min_open": one.above is not None}
    if kinds == {int}:
        return click.IntRange(**bounds)
    if kinds == {float}:
        return click.FloatRange(**bounds) if bounds else float
    return str


def _read_text(one: OptionField) -> Callable[[click.Context, click.Parameter, str | None], Any]:
    """Return a callback that reads the text of an option; BadParameter if it cannot."""

    def read(_: click.Context, __: click.Parameter, text: str | None) -> Any:
        assert one.parse is not None
        if text is None:
            return one.default
        try:
            value = one.parse(text)
        except ValueError as error:
            raise click.BadParameter(f"{text!r}; {error}") from None
        low = one.at_least
        if low is not None and not isinstance(value, str) and value < low:
            raise click.BadParameter(f"{text!r} must be at least {low:g}.")
        return value

    return read


def _read_list(one: OptionField) -> Callable[[click.Context, click.Parameter, str | None], Any]:
    """Return a callback that reads values separated by commas."""

    def read(_: click.Context, __: click.Parameter, text: str | None) -> Any:
        if text is None:
            return one.default
        parts = [part.strip() for part in text.split(",")]
        return tuple(part if one.parse is None else one.parse(part) for part in parts if part)

    return read


def _read_pairs(one: OptionField) -> Callable[[click.Context, click.Parameter, Iterable[str]], dict[str, Any]]:
    """Return a callback that reads NAME=VALUE texts as a dictionary; BadParameter if one has another form."""

    def read(_: click.Context, __: click.Parameter, texts: Iterable[str]) -> dict[str, Any]:
        found = {}
        for text in texts:
            key, equals, value = text.rpartition("=") if one.parse is int else text.partition("=")
            try:
                if not (key.strip() and equals):
                    raise ValueError
                found[key.strip()] = value.strip() if one.parse is None else one.parse(value.strip())
            except ValueError:
                raise click.BadParameter(f"{text!r}; use {one.flag} {one.metavar}") from None
        return found

    return read


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
            from driftsurf.runs.folder import check_new, check_not_input

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
        from driftsurf.data.toml_file import read_toml

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
