"""Every exception and warning of the package. Each message gives the value, the choices and the remedy."""

from __future__ import annotations

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
    "OptionError",
    "RunFolderError",
    "SchemaError",
    "ShapeError",
    "SmallBatchWarning",
    "SourceError",
    "StateError",
    "StateVersionError",
    "StateWarning",
    "ValueTypeError",
]


class DriftsurfError(Exception):
    """Base class of all errors raised on purpose by this package."""


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
