"""Outcomes of steps with what a drift monitor has noticed and with the names of classes."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

from driftsurf.core.decisions import Decision
from driftsurf.core.drifts import Drift, InputChange
from driftsurf.core.journal import Outcome
from driftsurf.session.drift_monitor import DriftMonitor


class News(NamedTuple):
    """What a monitor has noticed at a step."""

    drifts: tuple[Drift, ...]
    """Drifts that were detected, changed or ended."""
    changes: tuple[InputChange, ...]
    """Moves of the inputs alone."""

    @classmethod
    def of(cls, before: DriftMonitor, after: DriftMonitor) -> News:
        """Return what is new, given the monitor before a step and after it, which notices one move at most."""
        return cls(after.updates, () if after.changes is before.changes else tuple(after.changes[-1:]))


class Drifted(NamedTuple):
    """A step at which a monitor has noticed something."""

    outcome: Outcome
    news: News

    @property
    def transitions(self) -> int:
        """Number of events that are reported at once."""
        return self.outcome.transitions + sum(map(len, self.news))

    @property
    def rows_seen(self) -> int:
        """Number of rows up to and including this step."""
        return self.outcome.rows_seen

    def decision(self) -> Decision:
        """Return the decision."""
        return dataclasses.replace(self.outcome.decision(), **self.news._asdict())


class Named(NamedTuple):
    """A step with the names of classes, which its transitions may be about."""

    outcome: Outcome
    labels: Sequence[Any]

    @property
    def transitions(self) -> int:
        """Number of transitions."""
        return self.outcome.transitions

    @property
    def rows_seen(self) -> int:
        """Number of rows up to and including this step."""
        return self.outcome.rows_seen

    def decision(self) -> Decision:
        """Return the decision."""
        return self.outcome.decision().named(self.labels)
