"""Exceptions and warnings of the package.

Every error derives from :class:`DriftsurfError` and from the built-in exception that fits it, so that either can be
caught. Each message names the value, the choices and the remedy.

::

    DriftsurfError
     +-- OptionError (ValueError)
     +-- InputError (ValueError)
     |    +-- ShapeError
     |    +-- NonFiniteError
     |    +-- ValueTypeError (TypeError)
     |    +-- LabelError
     |    +-- SchemaError
     |    +-- BadRowError
     |    +-- IdempotencyError
     |         +-- AnswerGoneError
     +-- CapabilityError (ValueError)
     +-- CheckError (AssertionError)
     +-- DivergenceError (ArithmeticError)
     +-- StateError (ValueError)
     |    +-- StateVersionError
     +-- StepInProgressError (RuntimeError)
     +-- LockedError (OSError)
     +-- RunFolderError (OSError)
     +-- FetchError (OSError)
     +-- SourceError (OSError)
     |    +-- SourceUnreachableError
     +-- LogError (OSError)
     +-- ServiceError (RuntimeError)
     |    +-- UnavailableError
     |    +-- OverloadedError
     |    +-- StorageFullError
     +-- DeliveryError (OSError)
     +-- MissingExtraError (ImportError)
     +-- RunStopped

    KeyboardInterrupt
     +-- RunInterrupted

    UserWarning
     +-- DriftsurfWarning
          +-- ColumnWarning
          +-- RunWarning
          +-- StateWarning
          +-- SmallBatchWarning
          +-- CompilationWarning
          +-- RegistryWarning
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from driftsurf.visible import visible

__all__ = [
    "AnswerGoneError",
    "BadRowError",
    "CapabilityError",
    "CheckError",
    "ColumnWarning",
    "CompilationWarning",
    "DeliveryError",
    "DivergenceError",
    "DriftsurfError",
    "DriftsurfWarning",
    "FetchError",
    "IdempotencyError",
    "InputError",
    "LabelError",
    "LockedError",
    "LogError",
    "Message",
    "MissingExtraError",
    "NonFiniteError",
    "Option",
    "OptionError",
    "OverloadedError",
    "RegistryWarning",
    "RowIndex",
    "RunFolderError",
    "RunInterrupted",
    "RunStopped",
    "RunWarning",
    "SchemaError",
    "ServiceError",
    "ShapeError",
    "SmallBatchWarning",
    "SourceError",
    "SourceUnreachableError",
    "StateError",
    "StateVersionError",
    "StateWarning",
    "StepInProgressError",
    "StorageFullError",
    "UnavailableError",
    "ValueTypeError",
    "reason",
]


@dataclass(frozen=True, slots=True)
class Option:
    """Name of a parameter inside an error message, with the value that is advised, if any.

    Printed as Python spells it; the command line replaces it by its own spelling, such as ``--on-bad-row skip``.

    >>> print(Option("on_bad_row", "skip"), Option("follow"))
    on_bad_row='skip' follow
    """

    name: str
    value: Any = None

    def __str__(self) -> str:
        return self.name if self.value is None else f"{self.name}={self.value!r}"


@dataclass(frozen=True, slots=True)
class RowIndex:
    """Place of a row inside an error message, counted in the array that was passed.

    A caller that knows rows by other numbers can replace it: see :meth:`Message.respelled`.

    >>> print(RowIndex("y", 3))
    y[3]
    """

    array: str
    row: int

    def __str__(self) -> str:
        return f"{self.array}[{self.row}]"


LONGEST = 2500
"""Characters of a message at most: a cell, a label or an option may have millions."""


def _bounded(text: str) -> str:
    """Return a text, without its middle if it is too long: it begins with what is wrong and ends with the remedy."""
    half = LONGEST // 2
    return text if len(text) <= LONGEST else f"{text[:half]} ... {text[-half:]}"


class Message(str):
    """Text on one line that remembers the parts it was joined from, with control characters made visible.

    The command line uses the parts to print every :class:`Option` among them in its own spelling.

    >>> Message("leave it out with ", Option("drop", ["id"]), ".")
    "leave it out with drop=['id']."
    """

    parts: tuple[object, ...]

    def __new__(cls, *parts: object) -> Self:
        """Join the parts to a text and keep them as ``parts``."""
        message = super().__new__(cls, _bounded(visible("".join(map(str, parts)))))
        message.parts = parts
        return message

    def respelled(self, spell: Callable[[object], object]) -> Message:
        """Return the message with each part replaced by ``spell(part)``; parts of nested messages too.

        >>> Message("bad: ", RowIndex("y", 3)).respelled(lambda part: "row 103" if isinstance(part, RowIndex) else part)
        'bad: row 103'
        """
        return Message(*(part.respelled(spell) if isinstance(part, Message) else spell(part) for part in self.parts))


def reason(error: Exception) -> str:
    """Return what an error says, without the number that the operating system gives it.

    >>> reason(FileNotFoundError(2, "No such file or directory", "sales.csv"))
    "'sales.csv': No such file or directory"
    """
    cause = getattr(error, "reason", error)  # an URLError wraps another error
    if isinstance(cause, OSError) and cause.strerror and not isinstance(cause, DriftsurfError):
        return f"{cause.filename!r}: {cause.strerror}" if cause.filename is not None else cause.strerror
    return str(cause)


class DriftsurfError(Exception):
    """Base class of the errors that this package raises on purpose.

    The arguments are the parts of the message; they are joined to a :class:`Message`.
    """

    def __init__(self, *parts: object) -> None:
        super().__init__(Message(*parts))


class OptionError(DriftsurfError, ValueError):
    """A parameter or command-line option has a value that cannot be used."""


class InputError(DriftsurfError, ValueError):
    """The rows or labels of a batch cannot be used; the model has not changed.

    Attributes say what is wrong, where it is known: ``row`` (counted in the array that was passed), ``column``,
    ``value``, and ``reason``, a short code such as "continuous" for labels that are fractions.
    """

    def __init__(
        self, *parts: object, row: int | None = None, column: str | None = None, value: Any = None, reason: str = ""
    ) -> None:
        super().__init__(*parts)
        self.row = row
        self.column = column
        self.value = value
        self.reason = reason


class ShapeError(InputError):
    """An array has the wrong number of dimensions, rows or columns."""


class NonFiniteError(InputError):
    """The data contain NaN or infinity."""


class ValueTypeError(InputError, TypeError):
    """A column or an array holds values that are not numbers."""


class LabelError(InputError):
    """A label is not one of the known classes, or the labels are of the wrong kind for the task."""


class SchemaError(InputError):
    """The columns differ from those of the first batch: added, removed, or of another type."""


class BadRowError(InputError):
    """A row of a source cannot be read, or more rows were skipped than allowed."""


class IdempotencyError(InputError):
    """An idempotency key was used before with another body."""


class AnswerGoneError(IdempotencyError):
    """A request was carried out before under its idempotency key, and its answer is no longer kept."""


class CapabilityError(DriftsurfError, ValueError):
    """A learner, detector or strategy lacks a capability that was asked of it."""


class CheckError(DriftsurfError, AssertionError):
    """A component fails a conformance check; the message names the check and the failure."""


class DivergenceError(DriftsurfError, ArithmeticError):
    """An update produced weights that are not finite; the update has been undone."""


class StateError(DriftsurfError, ValueError):
    """Saved bytes are damaged, are not a saved state, or belong to another object.

    ``entry`` is the full name of the entry of the state that cannot be used, where it is one.
    """

    def __init__(self, *parts: object, entry: str = "") -> None:
        super().__init__(*parts)
        self.entry = entry


class StateVersionError(StateError):
    """An intact saved state has a format that this version of the package does not read."""


class StepInProgressError(DriftsurfError, RuntimeError):
    """A model was called from inside its own step, such as by a signal handler; nothing has changed."""


class LockedError(DriftsurfError, OSError):
    """Another process is working on the folder."""


class RunFolderError(DriftsurfError, OSError):
    """A run folder exists already, or cannot be read."""


class FetchError(DriftsurfError, OSError):
    """A file could not be downloaded, or its content is not the expected one."""


class SourceError(DriftsurfError, OSError):
    """A data source is missing, damaged, or not in the format that its name promises."""


class SourceUnreachableError(SourceError):
    """A broker or database cannot be reached; a later attempt may succeed."""


class LogError(DriftsurfError, OSError):
    """The log of a served model is damaged, broken or closed, or no longer has a record."""


class ServiceError(DriftsurfError, RuntimeError):
    """A served model cannot do now what was asked of it; nothing was logged."""


class UnavailableError(ServiceError):
    """A served model takes nothing: its learner or its log has failed, or it is closed."""


class OverloadedError(ServiceError):
    """Too many rows wait to be learned; ``retry_after`` is the number of seconds after which to ask again."""

    def __init__(self, *parts: object, retry_after: float = 1.0) -> None:
        super().__init__(*parts)
        self.retry_after = retry_after


class StorageFullError(ServiceError):
    """The disk of a served model is nearly full, so that it learns nothing more; it still predicts."""


class DeliveryError(DriftsurfError, OSError):
    """A receiver did not take an alert; ``later`` tells whether it may take the same alert another time."""

    def __init__(self, *parts: object, later: bool) -> None:
        super().__init__(*parts)
        self.later = later


class MissingExtraError(DriftsurfError, ImportError):
    """An optional dependency is not installed; the message gives the command that installs it."""


class RunStopped(DriftsurfError):
    """A run was asked to stop, by a signal or by a call, and did so after it saved a checkpoint."""

    def __init__(self, step: int, signal_number: int | None = None) -> None:
        cause = "on request" if signal_number is None else f"by {signal.Signals(signal_number).name}"
        super().__init__(f"stopped {cause} before step {step}")
        self.step = step
        """The step with which the run resumes."""
        self.signal_number = signal_number
        self.exit_code: int = 0 if signal_number is None else 128 + signal_number
        """What a process that this signal ended returns by convention."""


class RunInterrupted(KeyboardInterrupt):
    """Ctrl-C ended a run without checkpoints; ``folder`` holds what it wrote so far."""

    def __init__(self, step: int, folder: Path) -> None:
        super().__init__(Message(f"interrupted at step {step}; what was written so far is in {folder}"))
        self.step = step
        self.folder = folder


class DriftsurfWarning(UserWarning):
    """Base class of the warnings that this package issues; their text is a :class:`Message`."""

    def __init__(self, *parts: object) -> None:
        super().__init__(Message(*parts))


class ColumnWarning(DriftsurfWarning):
    """A column may have been misunderstood; the message says how to change that."""


class RunWarning(DriftsurfWarning):
    """A finished run was resumed, although its source has more rows."""


class StateWarning(DriftsurfWarning):
    """A saved state was damaged, and the previous one was used instead."""


class SmallBatchWarning(DriftsurfWarning):
    """The time steps have too few rows for a reliable estimate of the risk."""


class CompilationWarning(DriftsurfWarning):
    """Compiled code runs in another way than intended: slower, or with other last bits."""


class RegistryWarning(DriftsurfWarning):
    """An entry point of another package names a component that cannot be used."""
