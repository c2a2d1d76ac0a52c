"""Options that are defined once, as fields of a frozen dataclass with their help text.

The command line, the TOML file, the Python signature and the documentation table are derived from the fields.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_type_hints

from driftsurf.core.options import choice, is_number, shown
from driftsurf.errors import Option, OptionError

__all__ = [
    "OptionField",
    "check_bounds",
    "option",
    "option_fields",
    "options_given",
    "options_of",
    "parse_label",
    "parse_value",
]

_METADATA_KEY = "driftsurf.option"
RunsCode: TypeAlias = Literal["never", "always", "model", "learner"]
"""Values that run code of others: those that name a model or a learner do if they hold the import path of a class."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionField:
    """One option: its name, its default value, and how the command line shows it."""

    name: str = ""
    """Name of the parameter in Python."""
    default: Any = None
    annotation: str = ""
    """Type of the value, as the dataclass spells it."""
    hint: Any = str
    """Type of the value."""
    help: str = ""
    """One sentence for ``--help`` and for documentation tables."""
    flag: str | None = None
    """How it is typed, such as "--date-format". None if the command line does not have it."""
    metavar: str | None = None
    """What ``--help`` shows in place of the value, such as "COLUMN"."""
    choices: tuple[str, ...] = ()
    """All values that are allowed; empty if they cannot be listed."""
    at_least: float | None = None
    """Smallest number that is allowed."""
    above: float | None = None
    """Number that the value must exceed."""
    repeated: bool = False
    """Whether it can be given several times: a tuple in Python, a list in TOML."""
    pairs: bool = False
    """Whether each value is NAME=VALUE: a mapping in Python, a table in TOML."""
    commas: bool = False
    """Whether one text holds all values, separated by commas: a tuple in Python."""
    parse: Callable[[str], Any] | None = None
    """Turns the text of the command line into the value (of a pair, the text after "="; with commas, the text of each
    value); ValueError if it cannot."""
    runs_code: RunsCode = "never"
    """Which values run code that is not driftsurf's. A file may hold such a value only if the user trusts it."""

    @property
    def toml_name(self) -> str:
        """Name of the option in a TOML file: that of the command line, without the dashes."""
        return (self.flag or self.name).lstrip("-")


def option(
    default: Any,
    help: str,
    *,
    flag: str | None = "",
    metavar: str | None = None,
    choices: tuple[str, ...] = (),
    at_least: float | None = None,
    above: float | None = None,
    repeated: bool = False,
    pairs: bool = False,
    commas: bool = False,
    parse: Callable[[str], Any] | None = None,
    runs_code: RunsCode = "never",
) -> Any:
    """A dataclass field that is an option. ``flag=None`` keeps it off the command line; "" derives it from the name.

    >>> @dataclass(frozen=True)
    ... class Reading:
    ...     decimal: str = option(".", "Decimal mark.", choices=(".", ","))
    >>> option_fields(Reading)["decimal"].flag
    '--decimal'
    """
    information = OptionField(
        help=help,
        flag=flag,
        metavar=metavar,
        choices=choices,
        at_least=at_least,
        above=above,
        repeated=repeated,
        pairs=pairs,
        commas=commas,
        parse=parse,
        runs_code=runs_code,
    )
    metadata = {_METADATA_KEY: information}
    if pairs:  # a mapping cannot be hashed; options that are equal still have equal hashes without it
        return field(default_factory=lambda: dict(default), metadata=metadata, hash=False)
    return field(default=default, metadata=metadata)


def option_fields(options: Any) -> dict[str, OptionField]:
    """Return the options of a dataclass by name, in the order of their definition. Other fields are left out."""
    kind: Any = options if isinstance(options, type) else type(options)
    return dict(_fields_of_class(kind))


@functools.cache
def _fields_of_class(kind: Any) -> dict[str, OptionField]:
    """Return the options of a class; resolving their types takes a tenth of a second for all options of a run."""
    return {one.name: _described(one, _hint(kind, one.name)) for one in fields(kind) if _METADATA_KEY in one.metadata}


def _hint(options: type, name: str) -> Any:
    """Return the type of one field. Fields that are no options may have types that are imported for type checkers."""
    owner = next(kind for kind in options.__mro__ if name in inspect.get_annotations(kind))
    alone = {"__annotations__": {name: inspect.get_annotations(owner)[name]}, "__module__": owner.__module__}
    return get_type_hints(type("Alone", (), alone))[name]


def _described(one: Field[Any], hint: Any) -> OptionField:
    """Return the option of a field, completed by the name, type and default of the field."""
    found: OptionField = one.metadata[_METADATA_KEY]
    default = one.default if one.default_factory is MISSING else one.default_factory()
    flag = found.flag if found.flag != "" else f"--{one.name.replace('_', '-')}"
    return replace(found, name=one.name, default=default, annotation=str(one.type), hint=hint, flag=flag)


def options_given(options: Any) -> dict[str, Any]:
    """Return the options of a dataclass that differ from their defaults, by name.

    >>> @dataclass(frozen=True)
    ... class Reading:
    ...     decimal: str = option(".", "Decimal mark.")
    ...     encoding: str = option("utf-8", "Encoding.")
    >>> options_given(Reading(decimal=","))
    {'decimal': ','}
    """
    values = options_of(options)
    return {name: values[name] for name, one in option_fields(options).items() if values[name] != one.default}


def options_of(options: Any) -> dict[str, Any]:
    """Return all options of a dataclass with their values, by name."""
    return {name: getattr(options, name) for name in option_fields(options)}


def check_bounds(options: Any) -> None:
    """Raise OptionError if an option of a dataclass is outside its bounds, or not among its choices.

    >>> @dataclass(frozen=True)
    ... class Reading:
    ...     rows: int | None = option(None, "Rows.", at_least=1)
    >>> check_bounds(Reading(rows=0))
    Traceback (most recent call last):
    driftsurf.errors.OptionError: rows must be a number of at least 1; got 0
    """
    for name, one in option_fields(options).items():
        value = getattr(options, name)
        if value is None or value == one.default:
            continue
        if one.choices:
            choice(name, value, one.choices)
        if (one.repeated or one.commas) and isinstance(value, str):
            raise OptionError(Option(name), f" must be a list of strings; got {value!r}. Pass [{value!r}]")
        if one.pairs and not isinstance(value, Mapping):
            raise OptionError(Option(name), f" must be a mapping; got {value!r}")
        if one.pairs and not all(isinstance(key, str) for key in value):
            raise OptionError(Option(name), f" must be a mapping of names; got {shown(value)}")
        if isinstance(value, str | Path) and "\0" in str(value):
            raise OptionError(Option(name), f" is {shown(value)}, which holds a NUL character; leave it out")
        low = one.at_least if one.above is None else one.above
        if low is not None and not isinstance(value, str):
            bound = f"of at least {low:g}" if one.above is None else f"above {low:g}"
            if not is_number(value) or value < low or (one.above is not None and value == low):
                raise OptionError(Option(name), f" must be a number {bound}; got {value!r}")


def parse_value(text: str) -> Any:
    """Read an option value as it is typed on a command line: a number, true, false, none, or text.

    >>> [parse_value(text) for text in ("4", "1e-3", "true", "none", "auto")]
    [4, 0.001, True, None, 'auto']
    """
    words = {"true": True, "false": False, "none": None}
    if text.lower() in words:
        return words[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def parse_label(text: str) -> Any:
    """Read a label as it is typed on a command line: a number, true, false, or text, which may be "none".

    >>> [parse_label(text) for text in ("4", "true", "none")]
    [4, True, 'none']
    """
    value = parse_value(text)
    return text if value is None else value
