"""Declarations of saved states: each class declares its entries, and loading checks them before it uses any.

A checksum shows that a file is not damaged. It does not show that its numbers fit together, and compiled code checks no
bounds: a row number beyond the store would make it read and write foreign memory. So each class that is saved declares
its entries once, as :class:`Fields`: their types, the shapes of arrays in terms of other entries, ranges, and rules
between entries. Entries that are not declared are refused.
"""

from __future__ import annotations

import functools
import json
import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from driftsurf.core.contracts import Pickled, State
from driftsurf.core.state import grouped, name_in, part_of
from driftsurf.errors import DriftsurfError, StateError
from driftsurf.native.columns import all_between

MOST = 2**62
"""No count and no row number reaches this, so that sums of two of them do not overflow."""
FINITE = float(np.finfo(np.float64).max)
"""Largest finite number."""
UNREADABLE = (TypeError, ValueError, LookupError, AttributeError, OverflowError, RecursionError, ArithmeticError)
"""Errors of code that reads a text of another form than it expects."""

ABSENT = object()
OWN = frozenset({"."})
"""Group of the entries of a state that belong to no part."""

_DIMENSION = re.compile(r"(\w+|\*)([+-]\d+)?")

Values: TypeAlias = dict[str, Any]
"""Entries that were read so far, and the sizes that are known from elsewhere."""


class FieldMisfit(ValueError):
    """A value is not what was declared; the text says what was expected."""


class FieldEntry(Protocol):
    """Declaration of one entry of a state."""

    def read(self, value: Any, known: Values) -> Any:
        """Return the value of the entry; Misfit if it is not as declared."""
        ...


@dataclass(frozen=True, slots=True)
class Whole:
    """An integer from ``least`` to ``most``, which may be the name of another entry."""

    least: int = 0
    most: int | str = MOST

    def read(self, value: Any, known: Values) -> int:
        """Return the integer."""
        most = _limit(self.most, known)
        if type(value) is not int or not self.least <= value <= most:
            raise FieldMisfit(f"must be an integer from {self.least} to {most}")
        return value


@dataclass(frozen=True, slots=True)
class Real:
    """A number of type float from ``least`` to ``most``; NaN only if it is ``missing``."""

    least: float = -math.inf
    most: float = math.inf
    finite: bool = True
    missing: bool = False

    def read(self, value: Any, known: Values) -> float:
        """Return the number."""
        good = type(value) is float and (
            self.least <= value <= self.most and not (self.finite and math.isinf(value))
            if value == value
            else self.missing
        )
        if not good:
            kind = "a finite number" if self.finite else "a number"
            raise FieldMisfit(f"must be {kind} from {self.least:g} to {self.most:g}")
        return float(value)


@dataclass(frozen=True, slots=True)
class Truth:
    """True or false."""

    def read(self, value: Any, known: Values) -> bool:
        """Return the truth value."""
        if type(value) is not bool:
            raise FieldMisfit("must be true or false")
        return value


@dataclass(frozen=True, slots=True)
class Text:
    """Any text."""

    def read(self, value: Any, known: Values) -> str:
        """Return the text."""
        if not isinstance(value, str):
            raise FieldMisfit("must be text")
        return value


@dataclass(frozen=True, slots=True)
class Choice:
    """One of some values, of the same type."""

    choices: Collection[Any]

    def read(self, value: Any, known: Values) -> Any:
        """Return the value."""
        for one in self.choices:
            if type(value) is type(one) and value == one:
                return value
        raise FieldMisfit(f"must be one of {', '.join(map(repr, self.choices))}")


@dataclass(frozen=True, slots=True)
class Converted:
    """Text that ``convert`` checks and makes into the value of the entry.

    ``convert`` may raise any of the errors that code raises on values of another form than it expects.
    """

    convert: Callable[[str], Any]

    def read(self, value: Any, known: Values) -> Any:
        """Return the converted value."""
        try:
            return self.convert(Text().read(value, known))
        except UNREADABLE as error:
            if isinstance(error, FieldMisfit):
                raise
            raise FieldMisfit(f"cannot be read ({error})") from error


class Json(Converted):
    """Text with a JSON value in it, which ``convert`` checks and makes into the value of the entry."""

    def __init__(self, convert: Callable[[Any], Any]) -> None:
        super().__init__(lambda text: convert(json.loads(text)))


@dataclass(frozen=True, slots=True)
class Foreign:
    """An object of another library, read from a trusted pickle."""

    def read(self, value: Any, known: Values) -> Any:
        """Return the object."""
        if not isinstance(value, Pickled):
            raise FieldMisfit("must be a trusted pickle")
        return value.value


@dataclass(frozen=True, slots=True)
class Array:
    """An array of a type and a shape, whose values are finite and from ``least`` to ``most``.

    The type is one of numpy, or the name of an entry that names it. A dimension is a number, or the name of a size
    (``"n_features"``), with or without a number to add (``"n_features+1"``). A size is an entry, is passed to
    ``Fields.read``, or else is fixed by the first array that has it. ``"*"`` is any length. Limits may be sizes, too.
    """

    dtype: npt.DTypeLike | str
    shape: tuple[int | str, ...]
    least: float = -math.inf
    most: float | str = math.inf
    missing: bool = False
    """Whether NaN is allowed, to which no limit applies."""
    _dimensions: tuple[tuple[str, int], ...] = field(init=False, repr=False)
    _dtype: np.dtype[Any] | None = field(init=False, repr=False)
    """The type; None if an entry names it."""
    _finite: float = field(init=False, repr=False)
    """Largest absolute value without a limit."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "_dimensions", tuple(_dimension(one) for one in self.shape))
        object.__setattr__(self, "_dtype", None if isinstance(self.dtype, str) else np.dtype(self.dtype))
        object.__setattr__(self, "_finite", math.inf if self.missing else FINITE)

    def read(self, value: Any, known: Values) -> npt.NDArray[Any]:
        """Return the array."""
        dtype = self._dtype or _named_dtype(self.dtype, known)
        if not isinstance(value, np.ndarray) or value.dtype != dtype:
            raise FieldMisfit(f"must be an array of type {dtype}")
        if not _fits(self._dimensions, value.shape, known):
            sizes = ", ".join(f"{name} = {known[name]}" for name, _ in self._dimensions if name in known)
            raise FieldMisfit(
                f"must have the shape ({', '.join(map(str, self.shape))}){f' with {sizes}' * bool(sizes)}"
            )
        most = self.most if type(self.most) is float else _limit(self.most, known)
        if value.size and not (self._are_between(value, most) if dtype.kind == "f" else self._hold(value, most)):
            raise FieldMisfit(f"must have {self._values(most)}")
        return value

    def _are_between(self, value: npt.NDArray[Any], most: float) -> bool:
        """Return whether all numbers are within the limits."""
        flat = value if value.ndim == 1 and value.flags.c_contiguous else np.ascontiguousarray(value).reshape(-1)
        finite, least = self._finite, self.least
        least, most = -finite if least < -finite else least, finite if most > finite else most
        return all_between(flat, least, most, self.missing)

    def _hold(self, value: npt.NDArray[Any], most: float) -> bool:
        """Return whether all integers are within the limits; they are not rounded to be compared."""
        return not (
            (self.least > -math.inf and np.minimum.reduce(value, axis=None) < self.least)
            or (most < math.inf and np.maximum.reduce(value, axis=None) > most)
        )

    def _values(self, most: float) -> str:
        """Describe the values that the array may have."""
        limits = [f"at least {self.least:g}"] * (self.least > -math.inf) + [f"at most {most:g}"] * (most < math.inf)
        return f"{'' if self.missing else 'finite '}values{' of ' * bool(limits)}{' and '.join(limits)}"


@dataclass(frozen=True, slots=True)
class AnyArray:
    """An array of any type with at least one dimension, whose values are checked elsewhere."""

    def read(self, value: Any, known: Values) -> npt.NDArray[Any]:
        """Return the array."""
        if not isinstance(value, np.ndarray) or not value.ndim:
            raise FieldMisfit("must be an array")
        return value


class FieldRule(NamedTuple):
    """A condition between entries."""

    entry: str
    """Name of the entry that the error names if the condition does not hold."""
    text: str
    """Requirement on the entry, in words, such as "must be at least 0"."""
    holds: Callable[[Values], Any]
    """Function of all entries that returns whether the condition holds."""


def _range_of(entry: FieldEntry) -> tuple[type | None, Any, Any]:
    """Return type, least and most of values that can be compared with them and need no more to be read; else None."""
    if isinstance(entry, Truth):
        return bool, False, True
    if isinstance(entry, Whole) and not isinstance(entry.most, str):
        return int, entry.least, entry.most
    if isinstance(entry, Real):
        largest = FINITE if entry.finite else math.inf
        return float, max(entry.least, -largest), min(entry.most, largest)
    return None, 0, 0


class Fields:
    """Declared entries of the state of a class.

    Parameters
    ----------
    entries
        Declaration of each entry, by name.
    optional
        Names of entries that may be absent.
    parts
        Names of parts, whose entries (``part.name``) are checked by the part's own declaration. A name that ends with
        ``*`` stands for all names that begin so.
    rules
        Conditions between entries, checked in order once each entry has been.

    Examples
    --------
    >>> fields = Fields({"n": Whole(1), "table": Array(np.float64, ("n", 2))})
    >>> fields.read({"n": 0})
    Traceback (most recent call last):
    driftsurf.errors.StateError: the saved entry 'n' must be an integer from 1 to 4611686018427387904; it is 0
    >>> fields.read({"n": 3, "table": np.zeros((4, 2))})
    Traceback (most recent call last):
    driftsurf.errors.StateError: the saved entry 'table' must have the shape (n, 2) with n = 3; it is an array of ...
    """

    def __init__(
        self,
        entries: Mapping[str, FieldEntry],
        *,
        optional: Collection[str] = (),
        parts: Collection[str] = (),
        rules: Sequence[FieldRule] = (),
    ) -> None:
        self.entries: dict[str, FieldEntry] = dict(entries)
        self.optional: frozenset[str] = frozenset(optional)
        self.parts: frozenset[str] = frozenset(part for part in parts if not part.endswith("*"))
        self.families: tuple[str, ...] = tuple(part[:-1] for part in parts if part.endswith("*"))
        self.rules: tuple[FieldRule, ...] = tuple(rules)
        self._plain = not any("." in name for name in self.entries)
        self._plan = [(name, *_range_of(entry), entry) for name, entry in self.entries.items()]

    def read(self, state: Mapping[str, Any], **sizes: Any) -> Values:
        """Return the values of the entries, and the given sizes; StateError names the first entry that does not fit."""
        known: Values = sizes
        count = 0
        for name, kind, least, most, entry in self._plan:
            value = state.get(name, ABSENT)
            if type(value) is kind and least <= value <= most:
                known[name] = value
            elif value is not ABSENT:
                try:
                    known[name] = entry.read(value, known)
                except FieldMisfit as error:
                    raise misfit(state, name, f"{error}; it is {shown(value)}") from error
            elif name in self.optional:
                continue
            else:
                raise misfit(state, name, "is missing: the state is incomplete, or that of another object")
            count += 1
        if count != len(state):
            self._refuse_others(state, count)
        for rule in self.rules:
            if not _holds(rule, known):
                raise misfit(state, rule.entry, f"{rule.text}; it is {shown(state.get(rule.entry))}")
        return known

    def take(self, state: Mapping[str, Any], **sizes: Any) -> tuple[Values, State]:
        """Return the values of the entries, and all other entries, which another declaration has to check."""
        own = {name: value for name, value in state.items() if name in self.entries}
        rest = {name: value for name, value in state.items() if name not in own}
        return self.read(part_of(state, own), **sizes), part_of(state, rest)

    def _refuse_others(self, state: Mapping[str, Any], count: int) -> None:
        """Refuse entries that are not declared; ``count`` of them are."""
        groups = grouped(state)
        if self._plain and len(groups["."]) == count and self.parts.issuperset(groups.keys() - OWN):
            return  # the usual case, for which the names are not looked at
        for name in state:
            part, dot, _ = name.partition(".")
            if name not in self.entries and not (dot and (part in self.parts or part.startswith(self.families))):
                raise misfit(state, name, "is unknown: it is the state of another object, or of a newer version")


def misfit(state: Mapping[str, Any], entry: str, text: str) -> StateError:
    """Return the error of an entry of a state; it has the full name of the entry.

    >>> print(misfit({}, "lo", "must be at least 0"))
    the saved entry 'lo' must be at least 0
    """
    name = name_in(state, entry)
    return StateError(f"the saved entry {name!r} {text}", entry=name)


def shown(value: Any) -> str:
    """Return a value as a few words for a message."""
    if isinstance(value, np.ndarray):
        return f"an array of type {value.dtype} and shape {value.shape}"
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]}..."


def _holds(rule: FieldRule, known: Values) -> bool:
    try:
        return bool(rule.holds(known))
    except DriftsurfError:
        raise
    except UNREADABLE:
        return False


def _limit(limit: float | str, known: Values) -> Any:
    """Return a limit, by name if it is the name of a size (with a number to add)."""
    if not isinstance(limit, str):
        return limit
    name, more = _dimension(limit)
    return known[name] + more


def _named_dtype(name: Any, known: Values) -> np.dtype[Any]:
    """Return the type that an entry names, or that has this name itself."""
    return _dtype(known.get(name, name))


_dtype: Callable[[str], np.dtype[Any]] = functools.cache(np.dtype)


@functools.cache
def _dimension(dimension: int | str) -> tuple[str, int]:
    """Return the name of a size and the number to add to it; no name for a plain number."""
    if isinstance(dimension, int):
        return "", dimension
    found = _DIMENSION.fullmatch(dimension)
    assert found is not None
    return found[1], int(found[2] or 0)


def _fits(dimensions: tuple[tuple[str, int], ...], shape: tuple[int, ...], known: Values) -> bool:
    """Return whether an array has the declared shape; a size that is not known yet is fixed by it."""
    if len(shape) != len(dimensions):
        return False
    for (name, more), length in zip(dimensions, shape, strict=True):
        if not name:
            good = length == more
        else:
            good = name == "*" or length - more == known.setdefault(name, max(0, length - more))
        if not good:
            return False
    return True
