"""Readings of served models, as the rules of alerts need them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from driftsurf.core.drifts import Drift
from driftsurf.runs.alerts.rules import Change, Lead, Reading
from driftsurf.service.contract import Event, ModelStatus

if TYPE_CHECKING:
    from driftsurf.service.opening import Served


MOST_LINES = 10_000
FAILED_CHALLENGER = "cannot-learn"
"""Reason of lines about a challenger that stops, or could not learn the log, which say so themselves."""
TOLD = "transition", "order"
"""Types of lines that people are told of."""


def changes_of(events: Iterable[Event]) -> Iterator[Change]:
    """Yield the drifts, transitions and orders among lines of a journal, in words."""
    for event in events:
        record = event.record
        if record.get("type") == "drift":
            yield Change(event.line, str(record.get("text", "")), Drift.from_dict(dict(record)))
        elif record.get("type") in TOLD:
            text = str(record.get("text", ""))
            refused = record.get("outcome") == "refused" and record.get("reason") != FAILED_CHALLENGER
            yield Change(event.line, f"the order {record.get('order')} was refused: {text}" if refused else text)


def reading_of(
    status: ModelStatus, changes: Iterable[Change] = (), *, now: float, rows: int = 0, refused: int = 0
) -> Reading:
    """Return a reading of a model from its state.

    The error of a classification is a share of ``n`` rows, so that chance moves it by ``sqrt(p (1 - p) / n)``; for a
    regression, a twentieth of the usual error stands for the noise.
    """
    usual = status.usual_error
    chance = math.sqrt(max(usual * (1.0 - usual), 0.0) / max(status.error_rows, 1))
    noise = 0.05 * usual if status.task == "regression" else chance
    # After a quiet time the last label is old, and says nothing about a row that has just come.
    silent_since = None if status.oldest_waiting is None else max(status.oldest_waiting, status.last_label or 0.0)
    return Reading(
        model=status.name,
        time=now,
        changes=list(changes),
        error=status.error,
        error_noise=noise,
        # The most frequent class is a rule that never finds the rare one, whatever its error.
        trivial_error=status.trivial_error if status.rare is None else math.nan,
        trivial_rule="mean" if status.task == "regression" else "majority",
        label_age=math.nan if silent_since is None else now - silent_since,
        lag_rows=status.lag_rows,
        rows=rows,
        refused_rows=refused,
        disk_free=status.free_bytes,
        challengers={
            one.name: Lead(one.difference, one.low, one.high, one.leading_error)
            for one in status.challengers
            if not one.failed
        },
        failure=status.failure if status.phase == "failed" else "",
        cut_off={
            f"{one.direction} {one.name!r}": one.error
            for one in status.connections
            if one.state in ("reconnecting", "stopped") and one.error
        },
    )


class ModelReadings:
    """Reads all models of a service whenever it is called.

    Parameters
    ----------
    models
        The models by name.
    counts
        Returns how many rows of a model were taken and refused since the service began.
    clock
        Returns the time in seconds since 1970.
    """

    def __init__(
        self,
        models: Mapping[str, Served],
        counts: Callable[[str], tuple[int, int]] = lambda name: (0, 0),
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.models = models
        self.counts = counts
        self.clock = clock
        self._lines: dict[str, int] = {}

    def __call__(self) -> Iterator[Reading]:
        """Yield a reading of each model as it is now."""
        for name, served in self.models.items():
            rows, refused = self.counts(name)
            status = served.status()
            yield reading_of(status, self._changes(name, served), now=self.clock(), rows=rows, refused=refused)

    def _changes(self, name: str, served: Served) -> list[Change]:
        """Return the changes since the last reading; the first time, those of the whole journal as it is kept."""
        found = list[Change]()
        while events := served.journal(self._lines.get(name, 0), MOST_LINES):
            found += changes_of(events)
            self._lines[name] = events[-1].line
        return found
