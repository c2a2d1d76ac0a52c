"""Why a key is in quarantine, as data: a fleet and all engines use the same reasons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from driftsurf.errors import DivergenceError, DriftsurfError, InputError, Message, Option, RowIndex

Reason: TypeAlias = Literal[
    "", "not_finite", "out_of_range", "bad_label", "continuous_label", "diverged", "too_large", "error"
]
"""Why a key no longer learns; empty if it does.

"not_finite"
    A feature is NaN or infinite.
"out_of_range"
    A feature is finite, but too large for the type in which rows are kept.
"bad_label"
    A label is not one of the classes, makes one class too many, or is no label at all.
"continuous_label"
    A label is a fraction, and the task is a classification.
"diverged"
    Training gave weights that are not finite.
"too_large"
    The state of the key would take more than ``max_bytes``.
"error"
    Learning raised another error.
"""

REMEDIES: Mapping[Reason, Message] = {
    "bad_label": Message(),
    "continuous_label": Message("Predict numbers with ", Option("task", "regression"), ", or turn them into classes."),
    "diverged": Message(
        "Try other options; if a few rows are to blame, readmit keys with ",
        Option("readmit"),
        ", which drops the time step that failed.",
    ),
    "too_large": Message("Set a larger ", Option("max_bytes"), ", and readmit keys with ", Option("readmit"), "."),
}
"""Remedies for keys in quarantine, by the reason of the quarantine."""


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a row could not be learned."""

    reason: Reason
    message: str
    """A sentence for people; programs use the other fields."""
    column: str = ""
    """The feature that is to blame, if it is one."""
    value: str = ""
    """The value that is to blame, as text, if it is one."""
    error: Exception | None = field(default=None, compare=False)
    """An error that is not one of this package: it may have come from outside, such as from a signal handler."""


def label_fault(error: InputError, value: Any, sequence: Sequence[int]) -> Fault:
    """Return the fault of a label that cannot be used.

    ``sequence`` are the sequence numbers of the labels that were read: the message names rows by them.
    """

    def spell(part: object) -> object:
        return f"the label of row {sequence[part.row]}" if isinstance(part, RowIndex) else part

    message = error.args[0]
    text = message.respelled(spell) if isinstance(message, Message) else str(error)
    reason: Reason = "continuous_label" if error.reason == "continuous" else "bad_label"
    return Fault(reason, text, value="" if value is None else str(value))


def error_fault(error: Exception) -> Fault:
    """Return the fault of a time step that failed."""
    reason: Reason = "diverged" if isinstance(error, DivergenceError) else "error"
    text = str(error) if reason == "diverged" else f"{type(error).__name__}: {error}"
    return Fault(reason, text, error=None if isinstance(error, DriftsurfError) else error)


def first_held(keys: Mapping[Any, Mapping[str, Any]]) -> tuple[Any, str, Reason]:
    """Return the first key in quarantine of a table of keys, why it is there as a sentence, and the reason."""
    key, entry = next((key, entry) for key, entry in keys.items() if entry["quarantine"])
    return key, f"{entry['quarantine_message'].rstrip('.')}.", entry["quarantine"]
