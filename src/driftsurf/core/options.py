"""Constructor arguments: checks, whose errors name the parameter, its value and what is allowed; and their names.

Options of a run are fields of a frozen dataclass with their help text. The command line, the TOML file, the Python
signature and the documentation table are derived from the fields.
"""

from __future__ import annotations

import difflib
import functools
import inspect
import math
import numbers
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, ParamSpec, Self, TypeAlias, TypeVar, get_type_hints

from driftsurf.core.wording import optional
from driftsurf.errors import Option, OptionError
from driftsurf.errors.visible import without_secrets

__all__ = ["Parameterised", "parameter_names"]

StrPath: TypeAlias = str | os.PathLike[str]
LARGEST = 2**62
"""Largest integer of an option, so that compiled loops can add to it."""


def whole(name: str, value: Any, *, at_least: int, at_most: int | None = LARGEST, otherwise: str = "") -> int:
    """Return ``value`` as an int; raise OptionError if it is no integer within the limits. Booleans are refused.

    Examples
    --------
    >>> whole("batch_size", 0, at_least=1, otherwise=", or None")
    Traceback (most recent call last):
        ...
    driftsurf.errors.OptionError: batch_size is 0; it must be an integer of at least 1, or None
    """
    integer = is_number(value) and isinstance(value, numbers.Integral)
    if not (integer and at_least <= int(value) <= (math.inf if at_most is None else at_most)):
        open_ended = at_most is None or (at_most == LARGEST and not (integer and value > LARGEST))
        limits = f"of at least {at_least}" if open_ended else f"from {at_least} to {at_most:,}"
        raise OptionError(Option(name), f" is {shown(value)}; it must be an integer {limits}{otherwise}")
    return int(value)


def number(
    name: str,
    value: Any,
    *,
    at_least: float | None = None,
    above: float | None = None,
    below: float = math.inf,
    infinite: bool = False,
    otherwise: str = "",
) -> float:
    """Return ``value`` as a float; raise OptionError if it is no number within the limits. Booleans are refused.

    Examples
    --------
    >>> number("share", 1.5, above=0.0, below=1.0)
    Traceback (most recent call last):
        ...
    driftsurf.errors.OptionError: share is 1.5; it must be a number above 0 and below 1
    """
    low = -math.inf if at_least is None else at_least
    good = (
        is_number(value)
        and fits_float(value)
        and value >= low
        and (above is None or above < value)
        and (infinite or value < below)
    )
    if not good:
        bound = f"of at least {at_least:g}" if at_least is not None else f"above {above:g}"
        bound += optional(below < math.inf, f" and below {below:g}")
        raise OptionError(Option(name), f" is {shown(value)}; it must be a number {bound}{otherwise}")
    return float(value)


def fits_float(value: Any) -> bool:
    """Return whether a number can be a float: 10**400 cannot."""
    try:
        float(value)
    except OverflowError:
        return False
    return True


def choice(name: str, value: Any, choices: Sequence[Any]) -> None:
    """Raise OptionError unless ``value`` is one of ``choices`` and has the same type.

    Examples
    --------
    >>> choice("judge", "jury", ["training", "prequential"])
    Traceback (most recent call last):
        ...
    driftsurf.errors.OptionError: judge is 'jury'; choices: 'training', 'prequential'
    """
    if not any(value is option or (type(value) is type(option) and value == option) for option in choices):
        raise OptionError(Option(name), f" is {shown(value)}; choices: {', '.join(repr(option) for option in choices)}")


def truth(name: str, value: Any) -> bool:
    """Return ``value`` as a bool; raise OptionError if it is not valid."""
    if type(value).__name__ not in ("bool", "bool_"):
        raise OptionError(Option(name), f" is {shown(value)}; choices: True, False")
    return bool(value)


def shown(value: Any) -> str:
    """Return a value as an error shows it, cut off if it is long, and whatever its class does.

    >>> shown(0.5), shown("abc"), len(shown("abc" * 1000)), shown(10**5000)
    ('0.5', "'abc'", 101, 'an integer of 16,610 bits')
    """
    text = safe_repr(value)
    if isinstance(value, str):
        text = without_secrets(text)  # of which a part that is cut off may no longer look like an address
    return text if len(text) <= 120 else f"{text[:80]}... ({len(text)} characters)"


MOST_BITS = 10_000
"""Larger integers are not written out; Python refuses to write those with thousands of digits."""
PLAIN = str, bytes, int, float, complex, type(None)
"""Types whose repr does not fail."""


def safe_repr(value: Any) -> str:
    """Return the repr of a value, or its type if its class raises an error instead."""
    if type(value) is int and value.bit_length() > MOST_BITS:
        return f"an integer of {value.bit_length():,} bits"
    if type(value).__module__ in ("builtins", "numpy") and isinstance(value, PLAIN):
        return repr(value)  # outside the try: an exception that comes here is not one of the value
    try:
        return repr(value)
    except Exception:
        return f"a value of type {type(value).__name__}"


def is_number(value: Any) -> bool:
    """Return whether ``value`` is a real number of Python or numpy, and not a boolean."""
    kind = type(value)
    if kind is float or kind is int:  # the usual types, ten times as fast as the check below
        return True
    return isinstance(value, numbers.Real) and kind.__name__ not in ("bool", "bool_")


@functools.cache
def parameter_names(kind: type) -> tuple[str, ...]:
    """Names of the constructor's arguments, in order.

    >>> from driftsurf.detectors import FHDDM
    >>> parameter_names(FHDDM)
    ('window', 'delta')
    """
    return tuple(inspect.signature(kind).parameters)


class Parameterised:
    """Base class of parts whose constructor stores its arguments under their own names, as in scikit-learn.

    >>> from driftsurf.detectors import FHDDM
    >>> FHDDM(window=50).set_params(delta=0.01)
    FHDDM(window=50, delta=0.01)
    """

    def __repr__(self) -> str:
        given = (f"{name}={safe_repr(value)}" for name, value in self.get_params().items())
        return f"{type(self).__name__}({', '.join(given)})"

    @property
    def _parameter_names(self) -> tuple[str, ...]:
        return parameter_names(type(self))  # type: ignore[arg-type]  # a class is hashable

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the constructor's arguments by name. ``deep`` is accepted for scikit-learn and has no effect."""
        return {name: getattr(self, name) for name in self._parameter_names}

    def set_params(self, **params: Any) -> Self:
        """Change some of the constructor's arguments; OptionError for an unknown name."""
        known = self._parameter_names
        for name, value in params.items():
            if name not in known:
                raise OptionError(f"{type(self).__name__} has no parameter {name!r}; choices: {', '.join(known)}")
            setattr(self, name, value)
        return self


P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R")
_METADATA_KEY = "driftsurf.option"
_ARGUMENT_KEY = "driftsurf.argument"
_FLAG: Final = re.compile(r"(?<!`)--([a-z][a-z-]*)")
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
    """Placeholder of the value in the output of ``--help``, such as "COLUMN"."""
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


def argument(default: Any, help: str) -> Any:
    """A dataclass field that is an argument of a function and no option: it has a help text, and nothing else."""
    return field(default=default, metadata=described(help))


def described(help: str) -> dict[str, str]:
    """Return the metadata of a dataclass field that is an argument without a default value."""
    return {_ARGUMENT_KEY: help}


def accepts(options: Callable[P, T]) -> Callable[[Callable[[T], R]], Callable[P, R]]:
    """Decorate a function that takes one object of options: callers pass the fields of its dataclass instead.

    The signature of the function, for people and for type checkers, is that of the dataclass. The section "Parameters"
    of its docstring is made from the help texts.

    >>> @dataclass(frozen=True, kw_only=True)
    ... class Reading:
    ...     decimal: str = option(".", "Decimal mark, as in --thousands.")
    >>> @accepts(Reading)
    ... def read(reading: Reading) -> str:
    ...     return reading.decimal
    >>> read(decimal=",")
    ','
    >>> inspect.signature(read)
    <Signature (*, decimal: 'str' = '.') -> 'str'>
    >>> read(decimel=",")
    Traceback (most recent call last):
    TypeError: read() got an unexpected keyword argument 'decimel'; did you mean 'decimal'?
    """
    kind: Any = options

    def decorate(function: Callable[[T], R]) -> Callable[P, R]:
        signature = _signature(kind, inspect.signature(function).return_annotation)
        name = function.__name__

        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            for given in kwargs:
                if given not in signature.parameters:
                    similar = difflib.get_close_matches(given, signature.parameters, n=1)
                    advice = f"; did you mean {similar[0]!r}?" if similar else ""
                    raise TypeError(f"{name}() got an unexpected keyword argument {given!r}{advice}")
            try:
                signature.bind(*args, **kwargs)
            except TypeError as error:
                raise TypeError(f"{name}() {error}") from None
            return function(options(*args, **kwargs))

        call.__dict__.update(__signature__=signature)
        call.__annotations__ = {one.name: one.annotation for one in signature.parameters.values()}
        call.__doc__ = _with_parameters(function.__doc__ or "", kind, signature)
        return call

    return decorate


def _signature(kind: Any, returns: Any) -> inspect.Signature:
    """Return the signature of a dataclass, with the default values of mappings in place of what makes them."""
    defaults = {one.name: one.default_factory() for one in fields(kind) if one.default_factory is not MISSING}
    parameters = [
        one.replace(default=defaults.get(name, one.default)) for name, one in inspect.signature(kind).parameters.items()
    ]
    return inspect.Signature(parameters, return_annotation=returns)


def _with_parameters(text: str, kind: Any, signature: inspect.Signature) -> str:
    """Return a docstring with a section "Parameters" before the section "Returns"."""
    metadata = {one.name: one.metadata for one in fields(kind)}
    lines = []
    for name in signature.parameters:
        known = metadata[name]
        help = python_help(known[_METADATA_KEY].help) if _METADATA_KEY in known else known[_ARGUMENT_KEY]
        lines.append(f"\n    {name}\n        {help}")
    before, separator, after = text.partition("\n\n    Returns\n")
    return f"{before}\n\n    Parameters\n    ----------{''.join(lines)}{separator}{after}"


def python_help(text: str) -> str:
    """Return the help of an option in the words of Python: ``batch_size`` instead of ``--batch-size``."""
    return re.sub(r"\s+", " ", _FLAG.sub(lambda found: f"``{found[1].replace('-', '_')}``", text))


def option_fields(options: Any) -> dict[str, OptionField]:
    """Return the options of a dataclass by name, in the order of their definition. Other fields are left out."""
    kind: Any = options if isinstance(options, type) else type(options)
    return dict(_fields_of_class(kind))


class OptionGroup(NamedTuple):
    """Options that belong together."""

    name: str
    """Short name of the group."""
    title: str
    """Heading in ``--help`` and in the documentation."""
    options: type
    """The dataclass that defines them."""

    @property
    def fields(self) -> dict[str, OptionField]:
        """The options by name."""
        return option_fields(self.options)


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
