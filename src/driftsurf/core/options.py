"""Constructor arguments: checks, whose errors name the parameter, its value and what is allowed; and their names."""

from __future__ import annotations

import functools
import inspect
import math
import numbers
from collections.abc import Sequence
from typing import Any, Self

from driftsurf.core.wording import optional
from driftsurf.errors import Option, OptionError
from driftsurf.visible import without_secrets

__all__ = ["Parameterised", "parameter_names"]

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
