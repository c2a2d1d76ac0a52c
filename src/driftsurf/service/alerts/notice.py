"""What is told to people: a notice of an alert or an event."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

__all__ = ["Notice", "NoticeKind", "Severity"]

NoticeKind: TypeAlias = Literal["firing", "resolved", "event"]
Severity: TypeAlias = Literal["info", "warning", "critical"]


@dataclass(frozen=True, slots=True)
class Notice:
    """Something to tell a person: an alert that fires or is resolved, or an event that needs no end."""

    id: str
    """The same whenever this notice is delivered, so that a receiver can drop a repetition."""
    kind: NoticeKind
    model: str
    rule: str
    severity: Severity
    summary: str
    since: float
    """When the condition began, or the event happened, in seconds since 1970."""
    until: float | None = None
    """When the condition ended, if it has."""
    subject: str = ""
    value: float | None = None
    limit: float | None = None
    drift: Mapping[str, Any] | None = None
    """For the rule "drift": the drift with all its numbers, as in the journal."""
    link: str = ""
    """Address of the live page of the model; empty if it is not known."""

    @property
    def headline(self) -> str:
        """The notice in one line.

        >>> Notice("1", "firing", "sales", "lag", "warning", "9 rows wait to be learned", 0.0).headline
        'sales: 9 rows wait to be learned'
        """
        return f"{self.model}: {'resolved: ' * (self.kind == 'resolved' and self.drift is None)}{self.summary}"
