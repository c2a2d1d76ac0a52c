"""Messages of errors and warnings, and their base classes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

from driftsurf.errors.visible import visible


@dataclass(frozen=True, slots=True)
class Option:
    """Name of a parameter inside an error message, with the value that is advised, if any.

    Printed as Python spells it; the command line replaces it by its own spelling, such as ``--on-bad-row skip``.

    Examples
    --------
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

    Examples
    --------
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

    Examples
    --------
    >>> from driftsurf.errors import Option
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


class DriftsurfError(Exception):
    """Base class of the errors that this package raises on purpose.

    The arguments are the parts of the message; they are joined into a :class:`Message`.

    Examples
    --------
    >>> from driftsurf import DriftSurfClassifier
    >>> try:
    ...     DriftSurfClassifier(threshold=-1).partial_fit([[0.0], [1.0]], [0, 1])
    ... except DriftsurfError as error:
    ...     print(f"{type(error).__name__}: {error}")
    OptionError: threshold is -1; it must be a number of at least 0
    """

    def __init__(self, *parts: object) -> None:
        super().__init__(Message(*parts))


class DriftsurfWarning(UserWarning):
    """Base class of the warnings that this package issues; their text is a :class:`Message`.

    Examples
    --------
    >>> import warnings
    >>> from driftsurf import DriftSurfClassifier
    >>> model = DriftSurfClassifier()
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore", DriftsurfWarning)  # such as that batches of two rows are small
    ...     for _ in range(20):
    ...         _ = model.partial_fit([[0.0], [1.0]], [0, 1])
    >>> model.predict([[1.0]])
    array([1])
    """

    def __init__(self, *parts: object) -> None:
        super().__init__(Message(*parts))


def reason(error: Exception) -> str:
    """Return what an error says, without the number that the operating system gives it.

    Examples
    --------
    >>> reason(FileNotFoundError(2, "No such file or directory", "sales.csv"))
    "'sales.csv': No such file or directory"
    """
    cause = getattr(error, "reason", error)  # an URLError wraps another error
    if isinstance(cause, OSError) and cause.strerror and not isinstance(cause, DriftsurfError):
        return f"{cause.filename!r}: {cause.strerror}" if cause.filename is not None else cause.strerror
    return str(cause)
