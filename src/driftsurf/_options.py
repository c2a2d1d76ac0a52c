"""Checks of options, in one place: what is asked for, what was given, what may be given."""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from typing import Any

from driftsurf.errors import Option, OptionError


def whole(name: str, value: Any, *, at_least: int, at_most: int | None = None, otherwise: str = "") -> int:
    """``value`` as an int, or OptionError. True and False are no numbers.

    >>> whole("batch_size", 0, at_least=1, otherwise=", or None")
    Traceback (most recent call last):
    driftsurf.errors.OptionError: batch_size is 0; give a whole number of at least 1, or None
    """
    most = math.inf if at_most is None else at_most
    if not (is_number(value) and isinstance(value, numbers.Integral) and at_least <= int(value) <= most):
        limits = f"of at least {at_least}" if at_most is None else f"from {at_least} to {at_most:,}"
        raise OptionError(Option(name), f" is {value!r}; give a whole number {limits}{otherwise}")
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
    """``value`` as a float within its bound, or OptionError."""
    low = -math.inf if at_least is None else at_least
    good = is_number(value) and value >= low and (above is None or above < value) and (infinite or value < below)
    if not good:
        bound = f"of at least {at_least:g}" if at_least is not None else f"above {above:g}"
        bound += f" and below {below:g}" * (below < math.inf)
        raise OptionError(Option(name), f" is {value!r}; give a number {bound}{otherwise}")
    return float(value)


def choice(name: str, value: Any, choices: Sequence[Any]) -> None:
    """OptionError unless ``value`` is one of ``choices``, of the same type."""
    if not any(value is option or (type(value) is type(option) and value == option) for option in choices):
        raise OptionError(Option(name), f" is {value!r}; choices: {', '.join(repr(option) for option in choices)}")


def truth(name: str, value: Any) -> bool:
    """``value`` as a bool, or OptionError."""
    if type(value).__name__ not in ("bool", "bool_"):
        raise OptionError(Option(name), f" is {value!r}; choices: True, False")
    return bool(value)


def is_number(value: Any) -> bool:
    """Whether ``value`` is a real number of Python or numpy; truth values are not."""
    kind = type(value)
    if kind is float or kind is int:  # the usual ones, in a tenth of the time
        return True
    return isinstance(value, numbers.Real) and kind.__name__ not in ("bool", "bool_")
