"""Command-line options made from the fields of dataclasses, which define every option once."""

from __future__ import annotations

import os
import textwrap
import types
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Union, get_args, get_origin

import click

from driftsurf.core.option_fields import OptionField, option_fields
from driftsurf.runs.options import OptionGroup

__all__ = [
    "GroupedCommand",
    "GroupedOption",
    "collect",
    "option_group",
    "option_groups",
    "value_types",
]

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
