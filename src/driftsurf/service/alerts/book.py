"""The book of alerts: which conditions are known, which have ended, and whom to tell."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from driftsurf.service.alerts.notice import Notice, NoticeKind
from driftsurf.service.alerts.options import AlertOptions
from driftsurf.service.alerts.rules import Condition, Reading, conditions, ending

__all__ = ["AlertBook"]

LEAST_ROWS = 20
"""Rows below which the share of refused ones says nothing."""


@dataclass(frozen=True, slots=True)
class _Entry:
    """A condition that is known, from when it began until it has been over for long enough."""

    condition: Condition
    since: float
    seen: float
    """When it held last."""
    told: bool = False


class AlertBook:
    """Remembers the conditions of all models, and returns a notice when one of them begins or ends.

    Parameters
    ----------
    options
        Limits of the rules.
    state
        What ``state`` returned earlier, to continue there.

    Examples
    --------
    >>> book = AlertBook(AlertOptions(hold=10.0))
    >>> times = 0.0, 5.0, 10.0, 15.0, 25.0
    >>> lags = 10**6, 10**6, 10**6, 0, 0
    >>> readings = [Reading(model="sales", time=time, lag_rows=lag) for time, lag in zip(times, lags)]
    >>> [[notice.kind for notice in book.update(reading)] for reading in readings]
    [[], [], ['firing'], [], ['resolved']]
    """

    def __init__(self, options: AlertOptions, state: Mapping[str, Any] | None = None) -> None:
        self.options = options
        known = state or {}
        self._entries: dict[tuple[str, str, str], _Entry] = {
            (model, rule, subject): _Entry(_condition(entry["condition"]), entry["since"], entry["seen"], entry["told"])
            for model, rule, subject, entry in known.get("entries", ())
        }
        self._lines: dict[str, int] = dict(known.get("lines", {}))
        self._refused: dict[str, tuple[int, int, list[Condition]]] = {}
        """Rows and refused rows of each model when they were last judged, and the judgement; of this process, as the
        counters are."""

    def update(self, reading: Reading) -> list[Notice]:
        """Take a reading of a model, and return what to tell."""
        notices = list(self._changes(reading))
        held = [*conditions(reading, self.options), *self._refusals(reading)]
        for condition in held:
            key = reading.model, condition.rule, condition.subject
            entry = self._entries.get(key)
            since, told = (reading.time, False) if entry is None else (entry.since, entry.told)
            fires = not told and reading.time - since >= self.options.hold
            self._entries[key] = _Entry(condition, since, reading.time, told or fires)
            if fires:
                notices.append(_notice(reading.model, condition, since, None))
        return notices + self._ended(reading)

    def active(self) -> list[Notice]:
        """Return the alerts that somebody has been told of and that have not ended."""
        return [
            _notice(model, entry.condition, entry.since, None)
            for (model, _, _), entry in self._entries.items()
            if entry.told
        ]

    def state(self) -> dict[str, Any]:
        """Return the book as plain values, for the argument ``state`` of another book."""
        entries = [
            [*key, {**asdict(entry), "condition": _plain(asdict(entry.condition))}]
            for key, entry in self._entries.items()
        ]
        return {"entries": entries, "lines": dict(self._lines)}

    def _ended(self, reading: Reading) -> list[Notice]:
        """Forget the conditions of this model that have been over for long enough, and return what to tell of them."""
        notices = []
        for key, entry in list(self._entries.items()):
            over = reading.time - entry.seen
            if key[0] != reading.model or not over or (entry.told and over < self.options.hold):
                continue  # one that nobody was told of ends at once
            del self._entries[key]
            if entry.told:
                now = replace(entry.condition, summary=ending(entry.condition, reading, self.options))
                notices.append(_notice(reading.model, now, entry.since, entry.seen))
        return notices

    def _changes(self, reading: Reading) -> Iterable[Notice]:
        """Yield a notice for each new line of the journal. Lines before the first reading are history."""
        newest = max((change.line for change in reading.changes), default=-1)
        last = self._lines.setdefault(reading.model, newest)
        for change in reading.changes:
            if change.line > last and self.options.transitions:
                yield Notice(
                    f"{reading.model}/change/{change.line}",
                    "event",
                    reading.model,
                    "transition",
                    "info",
                    change.text,
                    reading.time,
                )
        self._lines[reading.model] = max(last, newest)

    def _refusals(self, reading: Reading) -> list[Condition]:
        """Return a condition if too many rows are refused, judged whenever enough new rows have come."""
        now = reading.rows, reading.refused_rows
        rows, refused, judged = self._refused.get(reading.model, (*now, []))
        bad = reading.refused_rows - refused
        new = reading.rows - rows + bad
        if new >= LEAST_ROWS:
            summary = f"{bad:,} of the last {new:,} rows were refused"
            share, limit = bad / new, self.options.refused_share
            judged = [Condition("refused-rows", "warning", summary, share, limit)] if share > limit else []
            rows, refused = now
        self._refused[reading.model] = rows, refused, judged
        return judged


def _notice(model: str, condition: Condition, since: float, until: float | None) -> Notice:
    kind: NoticeKind = "firing" if until is None else "resolved"
    # Not the summary: a condition keeps its name while its numbers change.
    name = "/".join((model, condition.rule, condition.subject, f"{since:.3f}", kind))
    value, limit = (None if math.isnan(number) else number for number in (condition.value, condition.limit))
    return Notice(
        name,
        kind,
        model,
        condition.rule,
        condition.severity,
        condition.summary,
        since,
        until,
        condition.subject,
        value,
        limit,
    )


def _plain(condition: dict[str, Any]) -> dict[str, Any]:
    """Replace NaN by None, which JSON can hold."""
    return {name: None if isinstance(x, float) and math.isnan(x) else x for name, x in condition.items()}


def _condition(values: Mapping[str, Any]) -> Condition:
    """Return a condition from the values of ``_plain``."""
    numbers = {name: math.nan for name in ("value", "limit") if values[name] is None}
    return Condition(**{**values, **numbers})
