"""Every exception and warning of the package. Each message gives the value, the choices and the remedy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

__all__ = [
    "BadRowError",
    "CapabilityError",
    "CheckError",
    "DivergenceError",
    "DriftsurfError",
    "FetchError",
    "InputError",
    "LabelError",
    "LockedError",
    "MissingExtraError",
    "NonFiniteError",
    "Option",
    "OptionError",
    "RunFolderError",
    "Said",
    "SchemaError",
    "ShapeError",
    "SmallBatchWarning",
    "SourceError",
    "StateError",
    "StateVersionError",
    "StateWarning",
    "ValueTypeError",
]


@dataclass(frozen=True, slots=True)
class Option:
    """A parameter inside a message, perhaps with the value that is advised. The command line shows how it is typed.

    >>> print(Option("on_bad_row", "skip"), Option("follow"))
    on_bad_row='skip' follow
    """

    name: str
    value: Any = None

    def __str__(self) -> str:
        return self.name if self.value is None else f"{self.name}={self.value!r}"


class Said(str):
    """Text put together from parts, which are kept: an :class:`Option` among them can be spelt otherwise.

    >>> Said("leave it out with ", Option("drop", ["id"]), ".")
    "leave it out with drop=['id']."
    """

    parts: tuple[object, ...]

    def __new__(cls, *parts: object) -> Self:
        """Join the parts."""
        said = super().__new__(cls, "".join(map(str, parts)))
        said.parts = parts
        return said


class DriftsurfError(Exception):
    """Base class of all errors raised on purpose by this package. The parts of its message are joined."""

    def __init__(self, *parts: object) -> None:
        super().__init__(Said(*parts))


class OptionError(DriftsurfError, ValueError):
    """A parameter has a value that cannot be used."""


class InputError(DriftsurfError, ValueError):
    """Data that may not enter. Nothing has changed when this is raised."""


class ShapeError(InputError):
    """Wrong number of dimensions, rows or columns."""


class NonFiniteError(InputError):
    """NaN or infinity in the data."""


class ValueTypeError(InputError, TypeError):
    """A column or array whose values are not numbers."""


class LabelError(InputError):
    """A label outside the known classes, or labels of the wrong kind."""


class SchemaError(InputError):
    """Columns that differ from those of the first batch: added, removed or retyped."""


class BadRowError(InputError):
    """A row of a source that cannot be read, or one too many of them."""


class CapabilityError(DriftsurfError, ValueError):
    """A part was asked for something that it says it cannot do."""


class CheckError(DriftsurfError, AssertionError):
    """A part that does not meet its contract: which check failed, and how."""


class DivergenceError(DriftsurfError, ArithmeticError):
    """An update gave weights that are not finite. The update has been taken back."""


class StateError(DriftsurfError, ValueError):
    """Bytes that are not a saved state, or not this object's state."""


class StateVersionError(StateError):
    """A state in a format that this version does not read; nothing is wrong with it."""


class StateWarning(UserWarning):
    """A saved state was damaged, and the one before it was used."""


class LockedError(DriftsurfError, OSError):
    """A folder that another process works on."""


class RunFolderError(DriftsurfError, OSError):
    """A run folder that exists already, or cannot be read."""


class FetchError(DriftsurfError, OSError):
    """A file that could not be downloaded, or is not the one that was to be downloaded."""


class SourceError(DriftsurfError, OSError):
    """A source that is missing, damaged, or not what its name says."""


class MissingExtraError(DriftsurfError, ImportError):
    """A package that an optional part needs is not installed."""


class SmallBatchWarning(UserWarning):
    """Time steps of so few rows that a risk over one of them says little."""
